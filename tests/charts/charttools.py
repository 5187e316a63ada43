"""Rendering the repository's charts in tests."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
CHARTS = REPOSITORY / "charts"
CRD = CHARTS / "nri-balloons" / "crds" / "config.nri_balloonspolicies.yaml"
GOLDEN = Path(__file__).parent / "golden"


def helm_template(
    helm: Path, chart: str, values: Mapping[str, Any] | Path | None = None, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run ``helm template`` for one of the charts, as release "test" in kube-system."""
    command = [str(helm), "template", "test", str(CHARTS / chart), "--namespace", "kube-system", *arguments]
    text = None
    if isinstance(values, Path):
        command += ["--values", str(values)]
    elif values is not None:
        command += ["--values", "-"]
        text = yaml.safe_dump(dict(values))
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False)


def rendered(helm: Path, chart: str, values: Mapping[str, Any] | Path | None = None, *arguments: str) -> str:
    """What ``helm template`` prints; the test fails where it fails."""
    done = helm_template(helm, chart, values, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refusal(helm: Path, chart: str, values: Mapping[str, Any]) -> str:
    """What ``helm template`` complains about; the test fails where it accepts the values."""
    done = helm_template(helm, chart, values)
    assert done.returncode != 0, done.stdout
    return done.stderr


def documents(text: str) -> list[dict[str, Any]]:
    """The objects of a stream of YAML documents."""
    return [document for document in yaml.safe_load_all(text) if document]


def ci_values(chart: str) -> list[Path]:
    """The examples of values that a chart brings."""
    return sorted((CHARTS / chart / "ci").glob("*-values.yaml"))


def assert_golden(name: str, text: str) -> None:
    """Compare with a golden file; UPDATE_GOLDEN=1 writes it."""
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.is_file(), f"{name} is missing; UPDATE_GOLDEN=1 writes it"
    assert text == path.read_text(encoding="utf-8")
