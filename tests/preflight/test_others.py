"""What else is in the catalog and in the pod: neither may spoil the answer for a model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commands import balloonist
from environments import write_environment
from machines import machine

GOOD = {"name": "ok", "cpu": 8, "parameters_b": 1}


@pytest.mark.parametrize(
    "other",
    [{"name": "never", "cpu": 100}, {"name": "many", "cpu": 8, "replicas": 50}, {"name": "wide", "cpu": 64, "tp": 16}],
)
def test_a_model_that_fits_nowhere_does_not_block_the_answer_for_others(tmp_path: Path, other: dict[str, Any]) -> None:
    env = write_environment(tmp_path / "env", nodes=[machine(1, 2, 24)], models=[GOOD, other])
    outcome = balloonist("preflight", "ok", "--env", env, "-o", "json")
    assert outcome.code == 0, outcome.out + outcome.err
    answer = json.loads(outcome.out)
    (warning,) = (verdict for verdict in answer["verdicts"] if verdict["check"] == "plan")
    assert warning["level"] == "warning"
    assert f"{other['name']} of the catalog makes the plan impossible" in warning["message"]
    assert balloonist("preflight", str(other["name"]), "--env", env).code == 1


def test_a_sidecar_that_finds_no_room_in_the_elastic_layout_is_an_error(tmp_path: Path) -> None:
    model = {"name": "a", "cpu": 45, "tp": 3, "extra_containers": [{"name": "s", "cpu_milli": 12_000}]}
    env = write_environment(tmp_path / "env", {"nri_layout": "elastic"}, nodes=[machine(1, 3, 16)], models=[model])
    outcome = balloonist("preflight", "a", "--env", env)
    assert outcome.code == 1
    assert "a container would fail to start" in outcome.out
