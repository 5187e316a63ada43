"""Changing the policy of a node on which models run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from balloonist import yamlfile
from balloonist.replan import Effect, Pod, replan
from commands import Outcome, balloonist
from environments import write_environment
from machines import machine

MODELS = [{"name": "a", "cpu": 6, "replicas": 2}, {"name": "wide", "cpu": 8, "tp": 2, "replicas": 1}]
WIDE = {"name": "wide", "cpu": 8, "tp": 2}
RUNNING = [{"node": "w1", "model": "a", "count": 2}, {"node": "w1", "model": "wide"}]


@pytest.fixture
def env(tmp_path: Path) -> Path:
    path = write_environment(tmp_path / "env", nodes=[machine(1, 2, 16)], models=MODELS)
    assert balloonist("values", "--env", path).code == 0
    (tmp_path / "running.yaml").write_text(yamlfile.dump(RUNNING))
    return path


def change(env: Path, settings: dict[str, Any], models: list[dict[str, Any]] | None = None) -> None:
    (env / "config.yaml").write_text(yamlfile.dump({"kubernetes_cpu_policy": "nri-balloons", **settings}))
    (env / "models.yaml").write_text(yamlfile.dump({"models": models or MODELS}))


def ask(env: Path, *arguments: object) -> Outcome:
    return balloonist("replan", "--env", env, "--node", "w1", "--placements", env.parent / "running.yaml", *arguments)


def effects(outcome: Outcome) -> dict[str, str]:
    return {model["name"]: model["effect"] for model in json.loads(outcome.out)["models"]}


def test_an_unchanged_policy_needs_nothing(env: Path) -> None:
    outcome = ask(env)
    assert outcome.code == 0
    assert "the policy of this node does not change" in outcome.out


def test_a_larger_balloon_elsewhere_touches_nobody(env: Path) -> None:
    change(env, {}, [*MODELS, {"name": "later", "cpu": 4, "replicas": 1}])
    outcome = ask(env, "-o", "json")
    assert outcome.code == 0
    assert set(effects(outcome).values()) == {"untouched"}
    assert json.loads(outcome.out)["steps"] == ["apply the new policy of w1: no running model is touched"]


def test_a_larger_reservation_re_pins_everybody_and_is_refused_without_force(env: Path) -> None:
    change(env, {"nri_deployment_profile": "standard"})
    outcome = ask(env, "-o", "json")
    assert outcome.code == 1
    assert effects(outcome) == {"a": "re-pinned", "a-2": "re-pinned", "wide": "re-pinned"}
    steps = json.loads(outcome.out)["steps"]
    assert [step.split()[0] for step in steps] == ["drain", "drain", "drain", "apply", *["redeploy"] * 3]
    assert ask(env, "--force").code == 0


def test_a_model_whose_balloons_are_gone_has_no_place(env: Path) -> None:
    change(env, {"nri_plan": {"w1": [{"model": "a", "balloons": 1}]}}, [{"name": "a", "cpu": 6}, WIDE])
    outcome = ask(env, "-o", "json")
    assert outcome.code == 1
    found = effects(outcome)
    assert found["a"] in ("untouched", "re-pinned")
    assert found["a-2"] == "no place"
    assert found["wide"] == "no place"
    assert any(step.startswith("wide cannot come back to w1") for step in json.loads(outcome.out)["steps"])


def test_a_new_size_of_the_same_type_asks_for_another_request(env: Path) -> None:
    change(env, {}, [{"name": "a", "cpu": 5, "replicas": 2}, MODELS[1]])
    running = [{"node": "w1", "balloon": "vllm-balloon-tp1", "tp": 1, "cpu": 6}]
    (env.parent / "running.yaml").write_text(yamlfile.dump(running))
    outcome = ask(env, "-o", "json")
    assert outcome.code == 1
    (model,) = json.loads(outcome.out)["models"]
    assert model["effect"] == "other size"
    assert "10 CPUs now, it asks for 12" in model["reason"]


def test_the_policy_in_force_may_come_from_the_cluster(env: Path) -> None:
    written = yaml.safe_load((env / "values" / "balloons-policy.yaml").read_text())
    resource = {"apiVersion": "config.nri/v1alpha1", "kind": "BalloonsPolicy", "spec": written["policies"][0]["spec"]}
    current = env.parent / "current.yaml"
    current.write_text(yamlfile.dump(resource))
    change(env, {"nri_deployment_profile": "standard"})
    balloonist("values", "--env", env)
    assert ask(env).code == 0  # what is written last is what the environment gives
    assert ask(env, "--current", current).code == 1


def test_the_table_shows_each_model_and_the_steps(env: Path) -> None:
    change(env, {"nri_deployment_profile": "standard"})
    outcome = ask(env)
    for text in ("model", "re-pinned", "wide", "1. drain a (re-pinned: its threads are bound to the old CPUs)"):
        assert text in outcome.out


def test_wrong_input_is_named(env: Path) -> None:
    assert "known: w1" in balloonist("replan", "--env", env, "--node", "w9").err
    wrong = env.parent / "wrong.yaml"
    wrong.write_text("kind: Pod\n")
    assert "is no BalloonsPolicy" in ask(env, "--current", wrong).err
    (env / "values" / "balloons-policy.yaml").unlink()
    assert "give it with --current" in ask(env).err


def test_moving_and_spreading_are_told_apart() -> None:
    node = machine(1, 2, 8, 1)

    def spec(*devices: int) -> dict[str, Any]:
        bound = [
            {"name": f"n{numa}", "preferCloseToDevices": [f"/sys/devices/system/node/node{numa}"]} for numa in devices
        ]
        top = {
            "name": "t",
            "componentCreation": "balance-balloons",
            "components": [{"balloonType": item["name"]} for item in bound],
        }
        reserved = {"name": "reserved", "minCPUs": 1}
        return {"reservedResources": {"cpu": "cpuset:0"}, "balloonTypes": [*bound, top, reserved]}

    def only(old: dict[str, Any], new: dict[str, Any], cpus: int) -> Effect:
        (effect,) = replan(node, old, new, [Pod("m", "t", cpus)]).effects
        return effect

    assert only(spec(0), spec(1), 4).kind == "moved"
    assert only(spec(1), spec(0), 8).kind == "spread"


def test_a_change_without_knowing_what_runs_is_refused(env: Path) -> None:
    change(env, {"nri_deployment_profile": "standard"})
    outcome = balloonist("replan", "--env", env, "--node", "w1")
    assert outcome.code == 1
    assert "what runs on the node is not known" in outcome.err
    assert balloonist("replan", "--env", env, "--node", "w1", "--force").code == 0
