"""The rendered BalloonsPolicy spec: what the plugin is told, and what must hold for any machine."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from balloonist import layout, policyspec
from balloonist.catalog import Model
from balloonist.config import Config
from balloonist.cpuset import Cpuset, union
from balloonist.environment import Environment
from balloonist.layout import Fleet, NodeLayout
from balloonist.problem import ProblemError
from balloonist.topology import Topology
from machines import machine, machines

FORBIDDEN_ON_COMPOSITES = {
    "allocatorPriority",
    "allocatorTopologyBalancing",
    "cpuClass",
    "loads",
    "preferCloseToDevices",
    "preferCoreType",
    "preferIsolCpus",
    "preferPerNamespaceBalloon",
    "preferSpreadOnPhysicalCores",
}


def fleet(node: Topology, *models: Model, **changes: Any) -> Fleet:
    config = replace(Config("config.yaml", "nri-balloons", {"default": ""}), **changes)
    return layout.compute(Environment(Path("env"), config, models, (node,), {}))


def spec(computed: Fleet, node: NodeLayout | None = None) -> dict[str, Any]:
    return policyspec.spec(node or computed.nodes[0], computed.config, computed.names)


def types(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {kind["name"]: kind for kind in document["balloonTypes"]}


LARGE = Model("large", "org/large", 16, 1, replicas=3)
SMALL = Model("small", "org/small", 4, 1, replicas=1)
WIDE = Model("wide", "org/wide", 12, 2, replicas=1)


def test_every_planned_balloon_exists_from_the_start_on_a_slot_of_its_own() -> None:
    kinds = types(spec(fleet(machine(), LARGE, SMALL, WIDE)))
    top = kinds["vllm-balloon-tp1"]
    assert {key: top[key] for key in ("minBalloons", "maxBalloons", "minCPUs", "maxCPUs", "preferNewBalloons")} == {
        "minBalloons": 3,
        "maxBalloons": 3,
        "minCPUs": 32,
        "maxCPUs": 32,
        "preferNewBalloons": False,
    }
    assert top["componentCreation"] == "balance-balloons"
    assert [component["balloonType"] for component in top["components"]] == [
        f"vllm-balloon-tp1-slot{index}" for index in range(3)
    ]
    assert kinds["vllm-balloon-tp1-c4"]["minCPUs"] == 8
    assert kinds["vllm-balloon-tp2"]["minCPUs"] == 24
    slot = kinds["vllm-balloon-tp2-slot0"]
    assert slot["componentCreation"] == "all"
    assert len(slot["components"]) == 2


def test_the_reservation_has_its_size_and_comes_last_for_every_namespace() -> None:
    document = spec(fleet(machine(), LARGE))
    assert document["reservedResources"] == {"cpu": "cpuset:0,24,48,72,96,120,144,168"}
    assert document["balloonTypes"][-1] == {"name": "reserved", "namespaces": ["*"], "minCPUs": 8, "pinMemory": False}


def test_a_hard_cap_bounds_the_reservation() -> None:
    assert spec(fleet(machine(), LARGE, hard_cap=True))["balloonTypes"][-1]["maxCPUs"] == 8
    assert "pinMemory" not in spec(fleet(machine(), LARGE, pin_system_memory=True))["balloonTypes"][-1]


def test_elastic_types_are_those_people_have_today() -> None:
    kinds = types(spec(fleet(machine(), layout="elastic")))
    assert list(kinds) == [
        *("pkg0node0", "pkg0node1", "pkg1node2", "pkg1node3"),
        *("set0-tp2", "set1-tp2", "set0-tp3", "set1-tp3", "set2-tp3", "set3-tp3", "set0-tp4"),
        *("vllm-balloon-tp1", "vllm-balloon-tp2", "vllm-balloon-tp3", "vllm-balloon-tp4"),
        "reserved",
    ]
    assert kinds["pkg1node2"] == {
        "name": "pkg1node2",
        "preferCloseToDevices": ["/sys/devices/system/node/node2"],
        "hideHyperthreads": True,
    }
    assert kinds["vllm-balloon-tp1"]["components"] == [
        {"balloonType": name} for name in ("pkg0node0", "pkg1node2", "pkg0node1", "pkg1node3")
    ]
    assert kinds["vllm-balloon-tp2"]["preferNewBalloons"] is True


def test_tp_sizes_can_be_limited() -> None:
    kinds = types(spec(fleet(machine(2, 3, 8), layout="elastic", tp_sizes=(1, 3, 6))))
    assert [name for name in kinds if name.startswith("vllm")] == [f"vllm-balloon-tp{tp}" for tp in (1, 3, 6)]


def test_without_smt_there_are_no_siblings_to_hide() -> None:
    assert "hideHyperthreads" not in json.dumps(spec(fleet(machine(threads=1), LARGE)))


def test_without_a_numa_directory_no_device_path_is_named() -> None:
    bare = replace(machine(1, 1, 8), numa_directory=False)
    assert "preferCloseToDevices" not in json.dumps(spec(fleet(bare, SMALL)))


def test_half_offline_cores_are_kept_out_of_balloons() -> None:
    # kubernetes/kubernetes#124066: CPU 95 of 96 is offline, core 47 has one thread
    computed = fleet(machine(2, 1, 24, 2, offline="95"), SMALL)
    node = computed.nodes[0]
    assert node.kept_out.text == "47"
    assert node.offer.free == {0: 23, 1: 22}
    assert spec(computed)["availableResources"] == {"cpu": "cpuset:0-46,48-94"}
    assert any("47" in remark for remark in node.remarks)


def test_efficiency_cores_of_a_hybrid_machine_are_left_to_the_system() -> None:
    # kubernetes/kubernetes#140495: 8 cores of two threads (0-15) and 12 of one (16-27)
    base = machine(1, 1, 28, 1)
    cores = base.numa_nodes[0].cores
    paired = [replace(cores[cpu], cpus=Cpuset.of([cpu, cpu + 1])) for cpu in range(0, 16, 2)]
    hybrid = replace(base, numa_nodes=(replace(base.numa_nodes[0], cores=(*paired, *cores[16:])),))
    assert hybrid.threads_per_core == 2
    computed = fleet(hybrid, SMALL, reserved={"default": "0"})
    node = computed.nodes[0]
    assert node.offer.free == {0: 7}
    assert node.kept_out.text == "16-27"
    assert any("siblings 1 are not reserved" in remark for remark in node.remarks)


def test_a_virtual_machine_with_a_package_for_each_cpu_is_used_by_numa_node() -> None:
    # kubernetes/kubernetes#129078: reserved 0,8 leaves 7 and 7
    assert fleet(machine(2, 1, 8, 1), SMALL, reserved={"default": "0,8"}).nodes[0].offer.free == {0: 7, 1: 7}


@st.composite
def catalogs(draw: st.DrawFn) -> list[Model]:
    models = []
    for index in range(draw(st.integers(0, 5))):
        tp = draw(st.integers(1, 4))
        cpu = draw(st.integers(tp, tp * 8))
        models.append(Model(f"m{index}", "", cpu, tp, replicas=draw(st.none() | st.integers(0, 3))))
    return models


choices = st.fixed_dictionaries(
    {
        "layout": st.sampled_from(["fixed", "elastic"]),
        "profile": st.sampled_from(["siblings", "minimal", "standard", "full"]),
        "rounding": st.sampled_from(["whole-cores", "compatible"]),
        "fill": st.sampled_from(["all", "once"]),
    }
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(machines(), catalogs(), choices)
def test_what_holds_for_any_machine_and_catalog(
    topology: Topology, models: list[Model], chosen: dict[str, Any]
) -> None:
    try:
        computed = fleet(topology, *models, **chosen)
    except ProblemError as error:
        assert all(problem.message for problem in error.problems)
        return
    node = computed.nodes[0]
    document = spec(computed)
    assert document == spec(fleet(topology, *models, **chosen))
    kinds = types(document)
    assert len(kinds) == len(document["balloonTypes"])
    numa_count = len(node.offer.free)
    for kind in kinds.values():
        if "components" in kind:
            assert not FORBIDDEN_ON_COMPOSITES & set(kind)
            assert {component["balloonType"] for component in kind["components"]} <= set(kinds)
            assert len(kind["components"]) == len({component["balloonType"] for component in kind["components"]})
    assert all(balloon.size_class.tp <= numa_count for balloon in node.placed)
    _check_capacity(topology, node)
    if chosen["layout"] == "fixed":
        _check_counts(node, computed, kinds)


def _check_capacity(topology: Topology, node: NodeLayout) -> None:
    """Balloons and reservation never exceed a NUMA node, and balloons consist of whole free cores."""
    threads = topology.threads_per_core
    used: Counter[int] = Counter()
    for balloon in node.placed:
        used.update(dict.fromkeys(balloon.numa_nodes, balloon.size_class.cores_per_rank * threads))
    for numa in topology.numa_nodes:
        assert used[numa.id] + len(numa.cpus & node.reserved) <= len(numa.cpus)
        whole = [core for core in numa.cores if len(core.cpus) == threads and core.cpus.isdisjoint(node.reserved)]
        assert used[numa.id] <= len(union(core.cpus for core in whole))
    assert node.reserved.isdisjoint(node.kept_out)


def _check_counts(node: NodeLayout, computed: Fleet, kinds: dict[str, dict[str, Any]]) -> None:
    planned = Counter(computed.names[balloon.size_class] for balloon in node.placed)
    rendered = {name: kind["minBalloons"] for name, kind in kinds.items() if "minBalloons" in kind}
    assert rendered == dict(planned)
    for name in planned:
        kind = kinds[name]
        assert kind["minBalloons"] == kind["maxBalloons"] == len(kind["components"])
        assert kind["minCPUs"] == kind["maxCPUs"] <= 256


@pytest.mark.parametrize("count", [1, 3])
def test_the_order_of_nodes_does_not_matter(count: int) -> None:
    nodes = tuple(machine(node=f"w{index}") for index in range(count))
    config = Config("config.yaml", "nri-balloons", {"default": ""})
    models = (LARGE, SMALL, WIDE)
    forward = layout.compute(Environment(Path("env"), config, models, nodes, {}))
    backward = layout.compute(Environment(Path("env"), config, models, nodes[::-1], {}))
    assert {node.topology.node: spec(forward, node) for node in forward.nodes} == {
        node.topology.node: spec(backward, node) for node in backward.nodes
    }
