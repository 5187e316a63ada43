"""The environment that is shipped: it works, and what is committed is what the generator writes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from commands import balloonist

REPOSITORY = Path(__file__).parents[2]
EXAMPLE = REPOSITORY / "env" / "example"


def test_the_committed_values_are_current() -> None:
    outcome = balloonist("values", "--env", EXAMPLE, "--check")
    assert outcome.code == 0, outcome.out + outcome.err


def test_it_is_valid() -> None:
    outcome = balloonist("validate", "--env", EXAMPLE)
    assert outcome.code == 0, outcome.err
    assert "0 errors, 0 warnings" in outcome.out


def test_its_nodes_have_different_shapes_and_every_model_has_a_balloon() -> None:
    nodes = json.loads(balloonist("explain", "--env", EXAMPLE, "-o", "json").out)
    assert len({(node["packages"], len(node["numa_nodes"]), node["threads_per_core"]) for node in nodes}) >= 4
    served = {model for node in nodes for kind in node["balloon_types"] for model in kind["models"]}
    assert served == {"llama3-8b-awq", "llama-3-2-3b-instruct", "qwen-3-1-1-7b", "llama-3-2-1b-instruct"}


def test_explain_draws_every_node_and_says_what_is_left() -> None:
    outcome = balloonist("explain", "--env", EXAMPLE)
    assert outcome.code == 0
    for node in ("xeon-snc2", "xeon-snc3", "epyc-nps4", "cxl-memory", "edge-small"):
        assert node in outcome.out
    assert "NUMA distances" in outcome.out
    assert "cores left" in outcome.out
    assert "System pods may grow by" in outcome.out
    assert "No balloon for llama-3-2-1b-instruct: tp=2 needs 2 NUMA nodes" in outcome.out
    assert "\x1b[" not in outcome.out  # no colours where no terminal is


@pytest.mark.parametrize("settings", [{"nri_layout": "elastic"}, {"nri_deployment_profile": "standard"}])
def test_it_works_with_other_settings(tmp_path: Path, settings: dict[str, str]) -> None:
    env = tmp_path / "env"
    shutil.copytree(EXAMPLE, env)
    text = (env / "config.yaml").read_text()
    for key, value in settings.items():
        (env / "config.yaml").write_text("\n".join(line for line in text.splitlines() if not line.startswith(key)))
        with (env / "config.yaml").open("a") as stream:
            stream.write(f"\n{key}: {value}\n")
    assert balloonist("values", "--env", env).code == 0
    outcome = balloonist("explain", "--env", env)
    assert outcome.code == 0
    assert ("silently spread" in outcome.out) == ("elastic" in settings.values())


def test_the_readme_shows_what_a_person_sees() -> None:
    command = [sys.executable, "-m", "balloonist", "explain", "--env", str(EXAMPLE), "--node", "xeon-snc2"]
    environment = os.environ | {"PYTHONUTF8": "1"}
    shown = subprocess.run(command, capture_output=True, text=True, check=True, encoding="utf-8", env=environment)
    lines = [line.rstrip() for line in shown.stdout.strip().splitlines()]
    assert "\n".join(lines) in (REPOSITORY / "README.md").read_text(encoding="utf-8")


def test_explain_speaks_of_one_node_when_asked() -> None:
    outcome = balloonist("explain", "--env", EXAMPLE, "--node", "edge-small", "-o", "yaml")
    assert outcome.code == 0
    assert "node: edge-small" in outcome.out
    assert "xeon" not in outcome.out
