"""The command: exit codes, forms, environment variables, and whatever a person can get wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from balloonist import yamlfile
from commands import balloonist
from environments import write_environment
from machines import machine

MODELS: list[dict[str, Any]] = [
    {"name": "good", "cpu": 16, "tp": 1, "parameters_b": 8.0, "heads": 32, "kv_heads": 8},
    {"name": "wide", "cpu": 16, "tp": 3, "memory_gib": 30, "heads": 24, "kv_heads": 3},
    {"name": "heavy", "cpu": 16, "tp": 1, "parameters_b": 300},
]


@pytest.fixture
def env(tmp_path: Path) -> Path:
    nodes = [machine(2, 2, 24, node="w1"), machine(1, 2, 43, node="w2")]
    return write_environment(tmp_path / "env", nodes=nodes, models=MODELS)


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MM_NRI_PREFLIGHT", "MM_NRI_SKIP_PREFLIGHT", "MM_NRI_BALLOON_NAME"):
        monkeypatch.delenv(name, raising=False)


def test_a_model_that_fits(env: Path) -> None:
    outcome = balloonist("preflight", "good", "--env", env)
    assert outcome.code == 0
    assert "good: fits on 2 of 2 nodes" in outcome.out
    assert "requests 32 CPUs" in outcome.out


def test_it_fits_if_one_node_says_yes_and_says_which(env: Path) -> None:
    assert balloonist("preflight", "wide", "--env", env, "--all-nodes").code == 0
    outcome = balloonist("preflight", "wide", "--env", env, "--node", "w2")
    assert outcome.code == 1
    assert "tp=3 needs 3 NUMA nodes with CPUs and memory, w2 has 2" in outcome.out
    assert "fits on node w1" in outcome.out
    assert "wide: fits on 0 of 1 nodes" in outcome.out


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_data(env: Path, form: str) -> None:
    outcome = balloonist("preflight", "heavy", "--env", env, "-o", form)
    assert outcome.code == 1
    document = json.loads(outcome.out) if form == "json" else yamlfile.parse(outcome.out, "out")
    assert document["fits"] is False
    assert [node["node"] for node in document["nodes"]] == ["w1", "w2"]
    memory = [item for item in document["nodes"][0]["verdicts"] if item["check"] == "memory"]
    assert memory[0]["level"] == "error"
    assert memory[0]["nearest"]


def test_warn_turns_errors_into_warnings(env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MM_NRI_PREFLIGHT", "warn")
    outcome = balloonist("preflight", "heavy", "--env", env)
    assert outcome.code == 0
    assert "warning memory" in outcome.out
    assert "error" not in outcome.out


def test_skip_says_so(env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MM_NRI_SKIP_PREFLIGHT", "1")
    outcome = balloonist("preflight", "heavy", "--env", env)
    assert outcome.code == 0
    assert outcome.out == "heavy: pre-flight skipped (MM_NRI_SKIP_PREFLIGHT=1)\n"
    monkeypatch.setenv("MM_NRI_SKIP_PREFLIGHT", "0")
    assert balloonist("preflight", "heavy", "--env", env).code == 1


def test_the_balloon_type_must_exist_on_the_node(env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MM_NRI_BALLOON_NAME", "vllm-balloon-tp1")
    assert balloonist("preflight", "good", "--env", env).code == 0
    monkeypatch.setenv("MM_NRI_BALLOON_NAME", "vllm-balloon-tp7")
    outcome = balloonist("preflight", "good", "--env", env)
    assert outcome.code == 1
    assert "w1 has no balloon type vllm-balloon-tp7; it has: vllm-balloon-tp1 (tp=1 with 16 cores)" in outcome.out
    assert "fits with balloon type vllm-balloon-tp1" in outcome.out


def test_a_type_of_another_size_is_refused(env: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MM_NRI_BALLOON_NAME", "vllm-balloon-tp3")
    outcome = balloonist("preflight", "good", "--env", env, "--node", "w1")
    assert outcome.code == 1
    assert "are tp=3 with 18 cores (36 CPUs), the model is tp=1 with 16 cores and requests 32" in outcome.out


def test_elastic_spill_is_an_error_or_a_warning(tmp_path: Path) -> None:
    running = tmp_path / "running.json"
    running.write_text(json.dumps([{"node": "w1", "model": "m", "count": 4}]))
    models = [{"name": "m", "cpu": 16, "memory_gib": 8}]
    codes = {}
    for spill in ("error", "warn"):
        settings = {"nri_layout": "elastic", "nri_spill": spill}
        env = write_environment(tmp_path / spill, settings, models=models)
        outcome = balloonist("preflight", "m", "--env", env, "--placements", running)
        codes[spill] = outcome.code
        assert "would spread tp=1 over" in outcome.out
        assert "CPUs" in outcome.out
    assert codes == {"error": 1, "warn": 0}


def test_placements_fill_the_balloons(env: Path, tmp_path: Path) -> None:
    running = tmp_path / "running.json"
    entries = [
        {"node": "w2", "model": "good", "count": 3, "memory_gib": 20},
        {"node": "w2", "tp": 1, "cpu": 16, "numa_nodes": [1]},
    ]
    running.write_text(json.dumps(entries))
    outcome = balloonist("preflight", "good", "--env", env, "--node", "w2", "--placements", running)
    assert outcome.code == 1
    assert "no balloon of type vllm-balloon-tp1 is free: 4 planned, 4 in use" in outcome.out
    assert "fits on node w1" in outcome.out
    running.write_text(json.dumps(entries[:1]))
    assert balloonist("preflight", "good", "--env", env, "--node", "w2", "--placements", running).code == 0


def test_a_model_config(env: Path, tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"num_attention_heads": 28, "num_key_value_heads": 4, "torch_dtype": "bfloat16"}))
    outcome = balloonist("preflight", "wide", "--env", env, "--model-config", path)
    assert outcome.code == 1
    assert "heads: says 28, the catalog says 24 for wide" in outcome.err
    assert "28 attention heads do not divide by tp=3" in outcome.out


def test_more_replicas_than_a_plan_can_have(tmp_path: Path) -> None:
    models = [{"name": "m", "cpu": 16, "memory_gib": 8, "replicas": 9}]
    outcome = balloonist("preflight", "m", "--env", write_environment(tmp_path / "env", models=models))
    assert outcome.code == 1
    assert "9 replicas" in outcome.out
    assert "fits with replicas: 4" in outcome.out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, ["Missing argument 'MODEL'"]),
        (["good", "--node", "w1", "--all-nodes"], 2, ["exclude each other"]),
        (["goood"], 1, ["the catalog has no model 'goood'", "did you mean 'good'?"]),
        (["good", "--node", "w11"], 1, ["there is no node 'w11'", "did you mean 'w1'?"]),
        (["good", "--placements", "missing.json"], 1, ["missing.json"]),
        (["good", "--model-config", "missing.json"], 1, ["missing.json"]),
    ],
)
def test_wrong_usage(env: Path, arguments: list[str], code: int, words: list[str]) -> None:
    outcome = balloonist("preflight", "--env", env, *arguments)
    assert outcome.code == code
    for word in words:
        assert word in outcome.err


@pytest.mark.parametrize("name", ["MM_NRI_PREFLIGHT", "MM_NRI_SKIP_PREFLIGHT"])
def test_an_unknown_value_of_a_variable(env: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "wran")
    outcome = balloonist("preflight", "good", "--env", env)
    assert outcome.code == 1
    assert f"{name}: 'wran' is not one of its values" in outcome.err


PLACEMENTS: dict[str, tuple[str, list[str]]] = {
    "no list": ('{"node": "w1"}', ["is not of type array"]),
    "empty": ("", ["is not of type array"]),
    "broken": ("[", ["running.json"]),
    "no node": ('[{"model": "good"}]', ["[0]", "'node' is missing"]),
    "nothing but a node": ('[{"node": "w1"}]', ["[0]", "{node, model}"]),
    "model and size": ('[{"node": "w1", "model": "good", "tp": 1, "cpu": 16}]', ["[0]"]),
    "no cpu": ('[{"node": "w1", "tp": 1}]', ["[0]"]),
    "unknown node": ('[{"node": "w3", "model": "good"}]', ["[0].node", "there is no node 'w3'"]),
    "unknown model": ('[{"node": "w1", "model": "god"}]', ["[0].model", "did you mean 'good'?"]),
    "fewer cores than ranks": ('[{"node": "w1", "tp": 4, "cpu": 2}]', ["[0].cpu", "at least 4"]),
    "unknown key": ('[{"node": "w1", "model": "good", "numa": 1}]', ["[0].numa", "unknown key"]),
    "a negative NUMA node": ('[{"node": "w1", "model": "good", "numa_nodes": [-1]}]', ["numa_nodes[0]", "too small"]),
}


@pytest.mark.parametrize("name", PLACEMENTS)
def test_bad_placements(env: Path, tmp_path: Path, name: str) -> None:
    text, words = PLACEMENTS[name]
    path = tmp_path / "running.json"
    path.write_text(text)
    outcome = balloonist("preflight", "good", "--env", env, "--placements", path)
    assert outcome.code == 1
    for word in words:
        assert word in outcome.err


CATALOG: dict[str, tuple[dict[str, Any], list[str]]] = {
    "tp 0": ({"tp": 0}, ["models[0].tp", "0 is too small", "at least 1"]),
    "a negative tp": ({"tp": -1}, ["models[0].tp", "too small"]),
    "tp as text": ({"tp": "2"}, ["models[0].tp", "not of type integer"]),
    "no parameters": ({"parameters_b": 0}, ["models[0].parameters_b"]),
    "an unknown dtype": ({"dtype": "bfloat61"}, ["models[0].dtype", "did you mean 'bfloat16'?"]),
    "an unknown quantisation": ({"quantization": "gguf"}, ["models[0].quantization"]),
    "more KV heads than heads": ({"heads": 8, "kv_heads": 16}, ["models[0].kv_heads", "16 KV heads for 8"]),
    "a number in env": ({"env": {"A": 1}}, ["models[0].env.A", "1 is not of type string"]),
    "a KV cache in MiB": (
        {"env": {"VLLM_CPU_KVCACHE_SPACE": "8Gi"}},
        ["VLLM_CPU_KVCACHE_SPACE", "whole number of GiB"],
    ),
    "two KV caches": (
        {"kv_cache_gib": 4, "env": {"VLLM_CPU_KVCACHE_SPACE": "8"}},
        ["says 8, but kv_cache_gib says 4"],
    ),
    "a container without a request": ({"extra_containers": [{"name": "a"}]}, ["'cpu_milli' is missing"]),
    "a container twice": (
        {"extra_containers": [{"name": "a", "cpu_milli": 1}, {"name": "a", "cpu_milli": 1}]},
        ["the container name 'a' is used 2 times"],
    ),
}


@pytest.mark.parametrize("name", CATALOG)
def test_bad_catalog_entries(tmp_path: Path, name: str) -> None:
    changes, words = CATALOG[name]
    env = write_environment(tmp_path / "env", models=[{"name": "m", "cpu": 16, **changes}])
    outcome = balloonist("preflight", "m", "--env", env)
    assert outcome.code == 1
    for word in words:
        assert word in outcome.err


def test_a_whole_number_written_with_a_point_is_one(tmp_path: Path) -> None:
    env = write_environment(tmp_path / "env", models=[{"name": "m", "cpu": 16, "tp": 2.0, "heads": 32.0}])
    assert balloonist("preflight", "m", "--env", env).code == 0


def test_the_spill_setting_is_checked(tmp_path: Path) -> None:
    env = write_environment(tmp_path / "env", {"nri_spill": "warning"})
    outcome = balloonist("preflight", "large", "--env", env)
    assert outcome.code == 1
    assert "nri_spill" in outcome.err
    assert "did you mean 'warn'?" in outcome.err
