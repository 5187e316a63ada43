"""Heads and memory: what has cores enough may still never run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from commands import balloonist
from environments import write_environment
from machines import machine

NODES = [machine(2, 2, 24, node="w0"), machine(1, 3, 16, node="w1", memory_gib=32)]


def environment(path: Path, *models: dict[str, Any]) -> Path:
    return write_environment(path / "env", nodes=NODES, models=models)


def test_a_model_is_planned_only_where_a_rank_has_memory(tmp_path: Path) -> None:
    env = environment(tmp_path, {"name": "a", "cpu": 4, "parameters_b": 70, "kv_cache_gib": 4, "replicas": 4})
    counted = json.loads(balloonist("capacity", "--env", env, "-o", "json").out)
    assert "w1" in json.dumps(counted)
    assert balloonist("plan", "--env", env).code == 0
    plan = (env / "plan.yaml").read_text()
    assert "balloons: 4" in plan
    assert "w1: []" in plan
    assert balloonist("preflight", "a", "--env", env, "--node", "w0").code == 0


def test_a_plan_that_needs_more_memory_than_there_is_is_refused_and_not_written(tmp_path: Path) -> None:
    env = environment(tmp_path, {"name": "a", "cpu": 4, "parameters_b": 70, "kv_cache_gib": 4, "replicas": 12})
    outcome = balloonist("plan", "--env", env)
    assert outcome.code == 1
    assert "has 256.0 GiB, the models in its planned balloons need" in outcome.err
    assert not (env / "plan.yaml").exists()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ({"tp": 3, "cpu": 6, "heads": 32, "kv_heads": 8}, "32 attention heads do not divide by tp=3"),
        ({"cpu": 6, "parameters_b": 400}, "the largest NUMA node has 256.0"),
    ],
)
def test_a_model_that_can_never_run_is_refused_by_plan_and_left_out_of_capacity(
    tmp_path: Path, model: dict[str, Any], message: str
) -> None:
    env = environment(tmp_path, {"name": "bad", "replicas": 2, **model}, {"name": "good", "cpu": 4})
    outcome = balloonist("plan", "--env", env)
    assert outcome.code == 1
    assert message in outcome.err
    counted = balloonist("capacity", "--env", env, "-o", "json")
    assert counted.code == 0
    assert message in counted.err
    assert "bad" not in json.loads(counted.out)["models"]


def test_a_model_with_no_replicas_is_no_part_of_the_mix(tmp_path: Path) -> None:
    env = environment(tmp_path, {"name": "off", "cpu": 4, "replicas": 0}, {"name": "on", "cpu": 4})
    models = json.loads(balloonist("capacity", "--env", env, "-o", "json").out)["models"]
    assert {name: entry["in_mix"] for name, entry in models.items()} == {"off": 0, "on": 1}
