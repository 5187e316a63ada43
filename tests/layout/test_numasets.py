"""NUMA sets: which NUMA nodes serve each TP size, in which order."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from balloonist.numasets import model_numa_nodes, numa_sets, package_groups, tp_sizes
from balloonist.topology import Topology
from machines import machine, machines


@pytest.mark.parametrize(
    ("packages", "numa", "tp", "expected"),
    [
        (2, 2, 1, [(0,), (2,), (1,), (3,)]),
        (2, 2, 2, [(0, 1), (2, 3)]),
        (2, 2, 3, [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]),
        (2, 2, 4, [(0, 1, 2, 3)]),
        (1, 3, 1, [(1,), (2,), (0,)]),
        (1, 3, 2, [(1, 2), (0, 1), (0, 2)]),
        (1, 3, 3, [(0, 1, 2)]),
        (2, 3, 1, [(4,), (1,), (5,), (2,), (3,), (0,)]),
        (2, 3, 3, [(3, 4, 5), (0, 1, 2)]),
        (2, 3, 6, [(0, 1, 2, 3, 4, 5)]),
        (1, 4, 3, [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]),
        (1, 6, 4, [(0, 1, 2, 3), (0, 1, 4, 5), (2, 3, 4, 5)]),
        (2, 4, 2, [(0, 1), (4, 5), (2, 3), (6, 7)]),
        (2, 4, 4, [(0, 1, 2, 3), (4, 5, 6, 7)]),
        (2, 4, 8, [(0, 1, 2, 3, 4, 5, 6, 7)]),
        (4, 1, 2, [(0, 1), (2, 3)]),
        (4, 2, 4, [(0, 1, 2, 3), (4, 5, 6, 7)]),
        (1, 1, 1, [(0,)]),
    ],
)
def test_sets_of_common_machines(packages: int, numa: int, tp: int, expected: list[tuple[int, ...]]) -> None:
    assert list(numa_sets(machine(packages, numa, 4), tp)) == expected


@pytest.mark.parametrize("tp", [0, -1, 5, 100])
def test_there_is_no_set_for_more_numa_nodes_than_the_machine_has(tp: int) -> None:
    assert numa_sets(machine(), tp) == ()


def test_memory_only_numa_nodes_are_in_no_set() -> None:
    node = machine(memory_only=2)
    assert tp_sizes(node) == (1, 2, 3, 4)
    assert {numa for numa_set in numa_sets(node, 1) for numa in numa_set} == {0, 1, 2, 3}


def test_numa_nodes_without_memory_hold_no_model() -> None:
    # open-mpi/hwloc#430: dies without local memory
    node = machine(2, 2, 6)
    numa_nodes = tuple(replace(numa, memory_mib=0) if numa.id in (1, 3) else numa for numa in node.numa_nodes)
    bare = replace(node, numa_nodes=numa_nodes)
    assert [numa.id for numa in model_numa_nodes(bare)] == [0, 2]
    assert numa_sets(bare, 2) == ((0, 2),)


def test_a_virtual_machine_with_one_package_for_each_cpu_has_one_group_for_each_numa_node() -> None:
    # kubernetes/kubernetes#129078: 16 packages of one CPU, two NUMA nodes
    node = machine(1, 2, 8, 1)
    numa_nodes = tuple(
        replace(numa, cores=tuple(replace(core, package=core.cpus.first) for core in numa.cores))
        for numa in node.numa_nodes
    )
    virtual = replace(node, numa_nodes=numa_nodes)
    assert package_groups(virtual) == ((0,), (1,))
    assert numa_sets(virtual, 2) == ((0, 1),)


def test_sets_across_packages_use_the_nearest_package() -> None:
    node = machine(4, 1, 4)
    # packages 0 and 3 are neighbours, 1 and 2 are neighbours
    near = {(0, 3): 16, (1, 2): 16}
    numa_nodes = tuple(
        replace(
            numa,
            distances=tuple(
                10 if other == numa.id else near.get((min(numa.id, other), max(numa.id, other)), 32)
                for other in range(4)
            ),
        )
        for numa in node.numa_nodes
    )
    assert numa_sets(replace(node, numa_nodes=numa_nodes), 2) == ((0, 3), (1, 2))


@given(machines(max_cores=3))
def test_sets_of_any_machine(topology: Topology) -> None:
    usable = {numa.id for numa in model_numa_nodes(topology)}
    packages = {numa.id: numa.packages for numa in topology.numa_nodes}
    largest = max((len(group) for group in package_groups(topology)), default=0)
    for tp in tp_sizes(topology):
        sets = numa_sets(topology, tp)
        assert sets
        assert len(set(sets)) == len(sets)
        assert all(len(set(numa_set)) == tp and set(numa_set) <= usable for numa_set in sets)
        assert all(list(numa_set) == sorted(numa_set) for numa_set in sets)
        if tp <= largest:
            assert all(len({packages[numa] for numa in numa_set}) == 1 for numa_set in sets)
        for group in package_groups(topology):
            inside = [numa_set for numa_set in sets if set(numa_set) <= set(group)]
            if inside and len(group) % tp == 0:
                assert sum(map(len, inside)) == len(group)  # disjoint, and every NUMA node is used
