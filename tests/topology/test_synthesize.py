"""Synthesized machines: their rules, and that the collector finds the same machine in the files Linux would show."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from balloonist import sysfs, topologyfile
from balloonist.cpuset import Cpuset, union
from balloonist.problem import ProblemError
from balloonist.synthesize import synthesize
from balloonist.topology import Topology
from balloonist.topologyjson import dump
from machines import machine, machines
from topology.tree import of_topology, write


@given(machines(max_cores=4))
@settings(max_examples=40, deadline=None)
def test_collecting_the_tree_of_a_machine_gives_the_machine(topology: Topology) -> None:
    with tempfile.TemporaryDirectory() as directory:
        found = sysfs.collect(write(Path(directory), of_topology(topology)), topology.node)
    assert replace(found, warnings=()) == topology
    assert found.warnings == ((f"CPUs {topology.offline} are offline",) if topology.offline else ())


@given(machines())
@settings(deadline=None)
def test_json_gives_the_same_topology_and_the_same_bytes(topology: Topology) -> None:
    text = dump(topology)
    assert topologyfile.parse(text, "w1.json") == topology
    assert dump(topologyfile.parse(text, "w1.json")) == text


@given(machines(), st.data())
@settings(deadline=None)
def test_every_online_cpu_is_on_one_core_and_in_one_package(topology: Topology, data: st.DataObject) -> None:
    cores = [core.cpus for core in topology.cores]
    assert sum(map(len, cores)) == len(topology.online) == sum(len(package.cpus) for package in topology.packages)
    assert union(cores) == topology.online == union(package.cpus for package in topology.packages)
    assert topology.online.isdisjoint(topology.offline)
    core = data.draw(st.sampled_from(topology.cores))
    assert core.cpus <= topology.numa(core.numa_node).cpus


def test_linux_numbering() -> None:
    topology = machine(2, 2, 24)
    assert [numa.cores[0].cpus.text for numa in topology.numa_nodes] == ["0,96", "24,120", "48,144", "72,168"]
    assert [package.cpus.text for package in topology.packages] == ["0-47,96-143", "48-95,144-191"]
    assert {numa.memory_mib for numa in topology.numa_nodes} == {256 * 1024}


def test_adjacent_numbering() -> None:
    topology = machine(1, 2, 2, numbering="adjacent")
    assert [core.cpus.text for core in topology.cores] == ["0-1", "2-3", "4-5", "6-7"]


def test_distances_and_memory_only_nodes() -> None:
    topology = machine(2, 2, 1, memory_only=1)
    assert [numa.distances for numa in topology.numa_nodes] == [
        (10, 12, 21, 21, 31),
        (12, 10, 21, 21, 31),
        (21, 21, 10, 12, 31),
        (21, 21, 12, 10, 31),
        (31, 31, 31, 31, 10),
    ]
    assert topology.numa(4).cores == ()
    assert topology.numa(4).memory_mib == 256 * 1024


def test_offline_cpus_leave_cores_numa_nodes_and_packages() -> None:
    topology = machine(2, 1, 2, numbering="adjacent", offline="1,4-7")
    assert [core.cpus.text for core in topology.cores] == ["0", "2-3"]
    assert [package.id for package in topology.packages] == [0]
    assert [bool(numa.cores) for numa in topology.numa_nodes] == [True, False]
    assert topology.offline == Cpuset.parse("1,4-7")


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"packages": 0}, "--packages", "0 is too small"),
    ({"numa_per_package": -1}, "--numa-per-package", "-1 is too small"),
    ({"cores_per_numa": 0}, "--cores-per-numa", "0 is too small"),
    ({"threads_per_core": 0}, "--threads-per-core", "0 is too small"),
    ({"memory_only_nodes": -1}, "--memory-only-nodes", "-1 is too small"),
    ({"memory_gib": -1}, "--memory-gib", "-1 is too small"),
    ({"memory_gib": 10**9}, "--memory-gib", "is too large"),
    ({"cores_per_numa": 8193, "packages": 4, "numa_per_package": 1}, "--cores-per-numa", "65544 CPUs"),
    ({"memory_only_nodes": 10**12}, "--numa-per-package", "NUMA nodes (at most 1024)"),
    ({"packages": 10**12, "cores_per_numa": 1}, "--numa-per-package", "NUMA nodes (at most 1024)"),
    ({"numbering": "odd"}, "--numbering", "one of linux, adjacent"),
    ({"offline": Cpuset.of([191, 192])}, "--offline", "there are no CPUs 192"),
    ({"offline": Cpuset.of(range(192))}, "--offline", "no CPU is left online"),
]


@pytest.mark.parametrize(("numbers", "key", "message"), REFUSED)
def test_numbers_that_describe_no_machine(numbers: dict[str, Any], key: str, message: str) -> None:
    with pytest.raises(ProblemError) as error:
        synthesize(**numbers)
    assert [item.key for item in error.value.problems] == [key]
    assert message in str(error.value)


def test_all_wrong_numbers_are_named() -> None:
    with pytest.raises(ProblemError) as error:
        synthesize(packages=0, cores_per_numa=-3, memory_gib=-1)
    assert len(error.value.problems) == 3


def test_largest_machine() -> None:
    topology = synthesize(packages=8, numa_per_package=8, cores_per_numa=512, threads_per_core=2)
    assert len(topology.online) == 65_536
