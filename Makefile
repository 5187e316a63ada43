# "make" lists what there is. Everything is built inside the repository (.venv, build) and the user's cache (tools).

# Set on the command line: make values ENV=example, or ENV=/some/where/my-environment.
# (Not taken from the process environment, where shells give ENV another meaning.)
ENV = example
PYTHON ?= python3
PYTEST_ARGS ?=
PYTHON_SOURCES := generator tests bench tools

BIN := .venv/bin
BALLOONIST := $(BIN)/balloonist
VENV_STAMP := .venv/.installed
ENV_DIR = $(if $(findstring /,$(ENV)),$(ENV),env/$(ENV))

export PYTHON

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help venv tools values test lint format bench clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

venv: $(VENV_STAMP) ## create .venv with balloonist and its development tools

$(VENV_STAMP): pyproject.toml constraints.txt
	@tools/venv

tools: ## build the pinned helm, kubeconform, etcd, kube-apiserver and kubectl with Go (once per version)
	@tools/install

values: $(VENV_STAMP) ## compute the Helm values of ENV (default: example), check, explain and render them
	$(BALLOONIST) values --env "$(ENV_DIR)"
	$(BALLOONIST) validate --env "$(ENV_DIR)"
	$(BALLOONIST) explain --env "$(ENV_DIR)"
	@tools/render "$(ENV_DIR)"

lint: $(VENV_STAMP) ## ruff, mypy and yamllint
	$(BIN)/ruff check $(PYTHON_SOURCES)
	$(BIN)/ruff format --check $(PYTHON_SOURCES)
	$(BIN)/mypy --strict --explicit-package-bases $(PYTHON_SOURCES)
	$(BIN)/yamllint --strict --config-file tools/yamllint.yaml charts env

format: $(VENV_STAMP) ## let ruff format the code
	$(BIN)/ruff format $(PYTHON_SOURCES)

test: lint tools ## lint, then all tests, against a real API server too
	$(BIN)/pytest -n auto --dist loadgroup $(PYTEST_ARGS)

bench: $(VENV_STAMP) ## run the measurements in bench/, one after the other
	@set -e; for script in bench/*.py; do printf '\n%s\n' "$$script"; $(BIN)/python "$$script"; done

# .venv goes only when make created it. The tools stay: other checkouts use the same cache.
clean: ## remove what make created in the repository
	rm -rf build .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find $(PYTHON_SOURCES) -type d -name __pycache__ -prune -exec rm -rf {} +
	if [ -e .venv/.made-by-make ]; then rm -rf .venv; fi
