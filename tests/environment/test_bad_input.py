"""Whatever a person can get wrong in an environment: the answer names the place and what would be right."""

from __future__ import annotations

import errno
import json
import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from commands import balloonist
from environments import write_environment
from machines import machine


def config(text: str) -> Callable[[Path], None]:
    return partial(_write, "config.yaml", text)


def catalog(text: str) -> Callable[[Path], None]:
    return partial(_write, "models.yaml", text)


def _write(name: str, text: str, env: Path) -> None:
    (env / name).write_text(text)


def edited_topology(**changes: object) -> Callable[[Path], None]:
    def edit(env: Path) -> None:
        path = env / "topology" / "w1.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return edit


def memory_gone(env: Path) -> None:
    path = env / "topology" / "w1.json"
    document = json.loads(path.read_text())
    for numa in document["numa_nodes"]:
        numa["memory_mib"] = 0
    path.write_text(json.dumps(document))


def no_topology(env: Path) -> None:
    (env / "topology" / "w1.json").unlink()


def twin(env: Path) -> None:
    (env / "topology" / "other.json").write_text((env / "topology" / "w1.json").read_text())


POLICY = "kubernetes_cpu_policy: nri-balloons\n"

CASES: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "an empty config": (config(""), ["config.yaml", "the file is empty"]),
    "a config that is a list": (config("- a\n"), ["config.yaml", "not of type object"]),
    "a policy that does not exist": (
        config("kubernetes_cpu_policy: nri-baloons\n"),
        ["kubernetes_cpu_policy", "did you mean 'nri-balloons'?"],
    ),
    "no policy": (config("nri_layout: fixed\n"), ["'kubernetes_cpu_policy' is missing"]),
    "a misspelt key": (
        config(POLICY + "nri_reserved_cpulist: 0-3\n"),
        ["nri_reserved_cpulist", "unknown key", "did you mean 'nri_reserved_cpu_list'?"],
    ),
    "a key given twice": (config(POLICY + POLICY), ["line 2", "is there twice", "line 1"]),
    "a tab": (config(POLICY + "nri_plan:\n\tdefault: []\n"), ["line 3", "a tab is used"]),
    "broken YAML": (config(POLICY + "nri_plan: [\n"), ["config.yaml: line"]),
    "two documents": (config(POLICY + "---\n" + POLICY), ["config.yaml", "document"]),
    "a number for a cpuset": (config(POLICY + "nri_reserved_cpu_list: 3\n"), ["nri_reserved_cpu_list", "3 is not"]),
    "a cpuset that is none": (config(POLICY + "nri_reserved_cpu_list: 0-\n"), ["w1", "cannot read '0-'"]),
    "reserved CPUs that the node lacks": (
        config(POLICY + "nri_reserved_cpu_list: 0-999\n"),
        ["w1", "nri_reserved_cpu_list.default", "the node has no CPUs 192-999", "0-191"],
    ),
    "all CPUs reserved": (config(POLICY + "nri_reserved_cpu_list: 0-191\n"), ["leave no whole core for models"]),
    "reserved CPUs for a node that is not there": (
        config(POLICY + "nri_reserved_cpu_list: {w11: 0-3}\n"),
        ["nri_reserved_cpu_list.w11", "no node or group 'w11'", "did you mean 'w1'?"],
    ),
    "a plan for a model that is not there": (
        config(POLICY + "nri_plan: {default: [{model: larg, balloons: 1}]}\n"),
        ["nri_plan.default[0].model", "did you mean 'large'?"],
    ),
    "a plan line that is neither model nor size": (
        config(POLICY + "nri_plan: {default: [{tp: 1, balloons: 1}]}\n"),
        ["nri_plan.default[0]", "cpu"],
    ),
    "a planned balloon with fewer cores than ranks": (
        config(POLICY + "nri_plan: {w1: [{tp: 4, cpu: 2, balloons: 1}]}\n"),
        ["nri_plan.w1[0].cpu", "2 cores cannot serve tp=4", "at least 4"],
    ),
    "an overfull plan": (
        config(POLICY + "nri_plan: {w1: [{tp: 1, cpu: 23, balloons: 5}]}\n"),
        ["config.yaml: nri_plan.w1: node w1:", "5 x tp=1 with 23 cores; 115 cores", "92 free cores", "fits: 4 x"],
    ),
    "a plan with more ranks than NUMA nodes": (
        config(POLICY + "nri_plan: {w1: [{tp: 8, cpu: 8, balloons: 1}]}\n"),
        ["config.yaml: nri_plan.w1: node w1:", "tp=8 needs 8 NUMA nodes with CPUs and memory, w1 has 4"],
    ),
    "a group without nodes": (
        config(POLICY + "nri_groups: {big: [xeon-*]}\n"),
        ["nri_groups.big[0]", "no node is called 'xeon-*'"],
    ),
    "a node in two groups": (
        config(POLICY + "nri_groups: {one: [w1], two: ['w*']}\n"),
        ["nri_groups.two[0]", "node w1 is in group one already"],
    ),
    "an empty catalog file": (catalog(""), ["models.yaml", "models: []"]),
    "a model without cores": (catalog("models: [{name: a}]\n"), ["models[0]", "'cpu' is missing"]),
    "a model with a TP of 0": (catalog("models: [{name: a, cpu: 4, tp: 0}]\n"), ["models[0].tp", "too small"]),
    "a model with a negative TP": (catalog("models: [{name: a, cpu: 4, tp: -1}]\n"), ["models[0].tp", "too small"]),
    "a TP that is a text": (catalog("models: [{name: a, cpu: 4, tp: '2'}]\n"), ["models[0].tp", "not of type integer"]),
    "half a core": (catalog("models: [{name: a, cpu: 1.5}]\n"), ["models[0].cpu", "1.5 is not of type integer"]),
    "fewer cores than ranks": (catalog("models: [{name: a, cpu: 2, tp: 4}]\n"), ["models[0].cpu", "at least 4"]),
    "a model twice": (catalog("models: [{name: a, cpu: 1}, {name: a, cpu: 2}]\n"), ["models[1].name", "used 2 times"]),
    "a name that Kubernetes would refuse": (
        catalog("models: [{name: A_b, cpu: 1}]\n"),
        ["models[0].name", "wrong form"],
    ),
    "two different balloon names": (
        catalog("models: [{name: a, cpu: 1, nri_balloon: x, raw: {nri_balloon: y}}]\n"),
        ["models[0].raw.nri_balloon", "'y'", "'x'"],
    ),
    "a model that fits no node": (
        catalog("models: [{name: a, cpu: 50, tp: 1}]\n"),
        ["models.yaml: a", "fits on no node", "w1 has at most 23", "fits with tp=3"],
    ),
    "more replicas than fit": (
        catalog("models: [{name: a, cpu: 20, replicas: 9}]\n"),
        ["models.yaml: a", "9 replicas", "only 4 fit"],
    ),
    "no topology": (no_topology, ["topology", "balloonist topology collect"]),
    "a node described twice": (twin, ["w1.json: node", "described by other.json already"]),
    "a topology of something else": (edited_topology(kind="Node"), ["w1.json: kind", 'should be "Topology"']),
    "no memory anywhere": (memory_gone, ["w1", "no NUMA node has both CPUs and memory", "memory_mib"]),
}


@pytest.mark.parametrize("name", CASES)
def test_wrong_input_is_refused_with_its_place_and_writes_nothing(tmp_path: Path, name: str) -> None:
    spoil, wanted = CASES[name]
    env = write_environment(tmp_path / "env")
    spoil(env)
    for command in ("values", "validate", "explain"):
        outcome = balloonist(command, "--env", env)
        assert outcome.code == 1
        for text in wanted:
            assert text in outcome.err, outcome.err
        assert "Traceback" not in outcome.err
    assert not (env / "values").exists()


def test_every_finding_is_reported_at_once(tmp_path: Path) -> None:
    env = write_environment(tmp_path / "env", {"nri_layouts": "fixed"}, models=[{"name": "a", "cpu": 0}])
    outcome = balloonist("validate", "--env", env, "-o", "json")
    assert outcome.code == 1
    assert [(item["key"], item["severity"]) for item in json.loads(outcome.out)] == [
        ("nri_layouts", "error"),
        ("models[0].cpu", "error"),
    ]


def test_an_environment_that_is_not_there(tmp_path: Path) -> None:
    outcome = balloonist("values", "--env", tmp_path / "nowhere")
    assert outcome.code == 1
    assert "is not a directory" in outcome.err
    (tmp_path / "empty").mkdir()
    outcome = balloonist("values", "--env", tmp_path / "empty")
    assert "has no config.yaml" in outcome.err


def test_a_node_name_that_is_not_there(tmp_path: Path) -> None:
    env = write_environment(tmp_path / "env")
    outcome = balloonist("explain", "--env", env, "--node", "w9")
    assert (outcome.code, "known: w1" in outcome.err) == (1, True)


def test_a_values_directory_that_cannot_be_written(tmp_path: Path) -> None:
    env = write_environment(tmp_path / "env")
    (env / "values").write_text("a file is in the way")
    outcome = balloonist("values", "--env", env)
    assert outcome.code == 1
    assert "cannot be written" in outcome.err


def test_a_read_only_values_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    env = write_environment(tmp_path / "env")
    (env / "values").mkdir()

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(tempfile, "mkstemp", refuse)  # as root, a mode alone would not stop the test
    outcome = balloonist("values", "--env", env)
    assert outcome.code == 1
    assert "cannot be written: Permission denied" in outcome.err
    assert not list((env / "values").iterdir())


def test_nodes_of_one_group_must_be_alike(tmp_path: Path) -> None:
    nodes = [machine(node="w1"), machine(node="w2", cores=8)]
    env = write_environment(tmp_path / "env", {"nri_groups": {"all": ["w*"]}, "nri_layout": "elastic"}, nodes=nodes)
    outcome = balloonist("values", "--env", env)
    assert outcome.code == 1
    assert "nri_groups.all" in outcome.err
    assert "w1 (p2n4c96t2-" in outcome.err
    assert "need different policies" in outcome.err
