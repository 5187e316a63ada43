"""The checks that `ct lint` makes in users' CI, made with the same configuration, and that they can fail."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yamale
import yaml
from yamllint import linter
from yamllint.config import YamlLintConfig

from charts.charttools import CHARTS, REPOSITORY, ci_values

NAMES = sorted(path.parent.name for path in CHARTS.glob("*/Chart.yaml"))
CT = yaml.safe_load((REPOSITORY / "ct.yaml").read_text())


def helm_lint(helm: Path, chart: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [str(helm), "lint", "--strict", str(CHARTS / chart), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def yamllint_problems(text: str) -> list[str]:
    config = YamlLintConfig((REPOSITORY / CT["lint-conf"]).read_text())
    return [str(problem) for problem in linter.run(text, config)]


def test_both_charts_are_checked() -> None:
    assert NAMES == ["balloons-policy", "nri-balloons"]
    assert [REPOSITORY / path for path in CT["chart-dirs"]] == [CHARTS]


@pytest.mark.parametrize("chart", NAMES)
def test_helm_lint_with_each_example(helm: Path, chart: str) -> None:
    assert ci_values(chart)
    for path in [None, *ci_values(chart)]:
        done = helm_lint(helm, chart, *(["--values", str(path)] if path else []))
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("chart", NAMES)
def test_yamllint(chart: str) -> None:
    for path in [CHARTS / chart / "Chart.yaml", CHARTS / chart / "values.yaml", *ci_values(chart)]:
        assert yamllint_problems(path.read_text()) == [], path


@pytest.mark.parametrize("chart", NAMES)
def test_chart_yaml(chart: str) -> None:
    schema = yamale.make_schema(str(REPOSITORY / CT["chart-yaml-schema"]))
    yamale.validate(schema, yamale.make_data(str(CHARTS / chart / "Chart.yaml")))


@pytest.mark.parametrize("chart", NAMES)
def test_a_misspelt_value_fails_the_lint(helm: Path, chart: str) -> None:
    # helm/chart-testing#193: a lint that passes although the schema is broken
    done = helm_lint(helm, chart, "--set", "nosuchvalue=1")
    assert done.returncode != 0
    assert "nosuchvalue" in done.stdout + done.stderr


def test_the_other_checks_can_fail_too(tmp_path: Path) -> None:
    assert yamllint_problems("a:  1\na: 2\n")
    wrong = tmp_path / "Chart.yaml"
    wrong.write_text("apiVersion: v2\nname: a\n")
    schema = yamale.make_schema(str(REPOSITORY / CT["chart-yaml-schema"]))
    with pytest.raises(yamale.YamaleError):
        yamale.validate(schema, yamale.make_data(str(wrong)))


def test_the_extra_command_of_ct_does_what_it_says(helm: Path) -> None:
    for template in CT["additional-commands"]:
        for chart in NAMES:
            command = template.replace("{{ .Path }}", str(CHARTS / chart)).replace("helm template", f"{helm} template")
            done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=False)
            assert done.returncode == 0, done.stderr
