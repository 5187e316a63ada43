"""On which NUMA nodes a model of each tensor-parallel size may stand, and in which order they are used.

A model with TP = n takes one *NUMA set* of n NUMA nodes. Sets stay inside one package where any package is large
enough, and are disjoint where the size divides the package; otherwise a walk around the package gives overlapping
sets that use every NUMA node equally often. Only when every package is too small do sets span packages, nearest
packages first. The order alternates packages so that load spreads; on packages of three NUMA nodes the middle one,
nearest to both others, comes first.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest

from balloonist.topology import NumaNode, Topology

NumaSet = tuple[int, ...]
"""NUMA node ids in ascending order."""


def model_numa_nodes(topology: Topology) -> tuple[NumaNode, ...]:
    """The NUMA nodes that can hold a model: those with CPUs and memory of their own (memory is pinned to them)."""
    return tuple(numa for numa in topology.numa_nodes if numa.cores and numa.memory_mib > 0)


def package_groups(topology: Topology) -> tuple[NumaSet, ...]:
    """NUMA nodes that hold models, grouped by package.

    NUMA nodes that share a package are one group. A virtual machine may show one package for each CPU; its NUMA nodes
    then share none and stand alone.
    """
    groups: list[tuple[set[int], set[int]]] = []
    for numa in model_numa_nodes(topology):
        packages, members = set(numa.packages), {numa.id}
        for group in [group for group in groups if group[0] & packages]:
            packages |= group[0]
            members |= group[1]
            groups.remove(group)
        groups.append((packages, members))
    return tuple(sorted(tuple(sorted(members)) for _, members in groups))


def numa_sets(topology: Topology, tp: int) -> tuple[NumaSet, ...]:
    """The NUMA sets for one TP size in the order they are used; empty where the node has too few NUMA nodes."""
    groups = package_groups(topology)
    if not 1 <= tp <= sum(map(len, groups)):
        return ()
    rings = _rings(groups) if tp <= max(map(len, groups)) else (_across_packages(topology, groups),)
    walks = [_walk(ring, tp) for ring in rings if len(ring) >= tp]
    return tuple(chain.from_iterable((item for item in turn if item) for turn in zip_longest(*walks)))


def tp_sizes(topology: Topology, allowed: Sequence[int] | None = None) -> tuple[int, ...]:
    """The TP sizes a node can serve, ascending: 1 to its number of NUMA nodes, or those of them in ``allowed``."""
    count = len(model_numa_nodes(topology))
    return tuple(tp for tp in range(1, count + 1) if allowed is None or tp in allowed)


def _rings(groups: Sequence[NumaSet]) -> tuple[NumaSet, ...]:
    """The NUMA nodes of each package in walking order, packages in the order they are used."""
    if all(len(group) == 3 for group in groups):
        return tuple((middle, last, first) for first, middle, last in reversed(groups))
    return tuple(groups)


def _across_packages(topology: Topology, groups: Sequence[NumaSet]) -> NumaSet:
    """All NUMA nodes, each package followed by the nearest one not yet taken."""
    positions = {numa.id: index for index, numa in enumerate(topology.numa_nodes)}

    def distance(left: NumaSet, right: NumaSet) -> int:
        return min(topology.numa(one).distances[positions[other]] for one in left for other in right)

    waiting = list(groups)
    ordered = [waiting.pop(0)]
    while waiting:
        nearest = min(waiting, key=lambda group: (distance(ordered[-1], group), group))
        waiting.remove(nearest)
        ordered.append(nearest)
    return tuple(chain.from_iterable(ordered))


def _walk(ring: NumaSet, tp: int) -> list[NumaSet]:
    """Walk around ``ring`` in steps of ``tp`` until back at the start: every NUMA node is in equally many sets."""
    found: list[NumaSet] = []
    start = 0
    while True:
        found.append(tuple(sorted(ring[(start + step) % len(ring)] for step in range(tp))))
        start = (start + tp) % len(ring)
        if start == 0:
            return found
