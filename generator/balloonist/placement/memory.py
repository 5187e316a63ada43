"""Which NUMA nodes' memory a container may use (the plugin's ``lib/memory``).

Rules: a container starts with the memory of the NUMA nodes its balloon has CPUs in. The memory *limits* of all
containers whose nodes lie within a set of nodes (a zone) are added up; where they exceed what the zone has,
containers are moved, largest first, to the zone extended by the nearest nodes: first of the memory types the zone
has, then of any. A container's nodes are never taken away again while it lives; when its balloon reaches new nodes
they are added, and with them the nodes nearest to the result. Where nothing fits, the container simply gets its
balloon's nodes.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntFlag
from functools import cmp_to_key
from typing import Final

from balloonist.placement.bits import ids
from balloonist.topology import Topology


class Kind(IntFlag):
    """Memory types: of nodes with CPUs, of large nodes without CPUs, of nodes smaller than the average DRAM node."""

    DRAM = 1
    PMEM = 2
    HBM = 4


_KINDS: Final = tuple(map(int, Kind))


class _Request:
    __slots__ = ("id", "limit", "zone")

    def __init__(self, name: str, limit: int) -> None:
        self.id = name
        self.limit = limit
        self.zone = 0


class Memory:
    """The memory of one node and who may use it."""

    def __init__(self, topology: Topology) -> None:
        self._capacity = {numa.id: numa.memory_mib << 20 for numa in topology.numa_nodes}
        self._kinds = {node: int(kind) for node, kind in _kinds(topology).items()}
        self._of_kind = {int(k): sum(1 << node for node, own in self._kinds.items() if own == k) for k in Kind}
        self._normal = sum(1 << node for node, own in self._kinds.items() if own == Kind.DRAM and self._capacity[node])
        self._nearest = dict(_neighbours(topology))
        self._requests: dict[str, _Request] = {}
        self._zones: dict[int, dict[str, _Request]] = {}
        self._used: dict[int, int] = {}
        self._zone_capacity: dict[int, int] = {}

    def zone(self, name: str) -> int:
        """The NUMA nodes that a container may use now."""
        request = self._requests.get(name)
        return request.zone if request else 0

    def release(self, name: str) -> None:
        """Forget a container."""
        request = self._requests.pop(name, None)
        if request:
            self._leave(request)
            self._drop_unused()

    def assign(self, name: str, limit: int, nodes: int) -> tuple[int, frozenset[str]]:
        """The nodes for a container whose balloon is on ``nodes``, and the other containers that were moved for it."""
        request = self._requests.get(name)
        try:
            if request is not None:
                return self._extend(request, nodes)
            request = _Request(name, limit)
            zone = self._with_normal(nodes)
            return self._place(request, zone)
        except _NoMemoryError:
            return nodes, frozenset()

    def _place(self, request: _Request, zone: int) -> tuple[int, frozenset[str]]:
        self._requests[request.id] = request
        self._enter(zone, request)
        moved: frozenset[str] = frozenset()
        over = self._overcommitted(zone)
        if over:
            before = {other.id: other.zone for other in self._requests.values() if other is not request}
            try:
                self._resolve(zone, over)
            except _NoMemoryError:
                self._restore(before)
                raise
            moved = self._moved(before)
        self._drop_unused()
        return request.zone, moved

    def _extend(self, request: _Request, nodes: int) -> tuple[int, frozenset[str]]:
        if nodes == 0 or request.zone & nodes == nodes:
            return request.zone, frozenset()
        more = self._expand(request.zone | nodes, self._kinds_in(nodes))
        if not more:
            raise _NoMemoryError
        before = {other.id: other.zone for other in self._requests.values()}
        zone = request.zone | nodes | more
        self._move(zone, request)
        try:
            self._resolve(zone, self._overcommitted(zone))
        except _NoMemoryError:
            self._restore(before)
            raise
        zone |= request.zone
        if zone != request.zone:
            self._move(zone, request)
        return request.zone, self._moved(before) - {request.id}

    def _moved(self, before: dict[str, int]) -> frozenset[str]:
        return frozenset(name for name, zone in before.items() if self._requests[name].zone != zone)

    def _restore(self, before: dict[str, int]) -> None:
        for request in list(self._requests.values()):
            if request.id not in before:
                del self._requests[request.id]
                self._leave(request)
            elif request.zone != before[request.id]:
                self._move(before[request.id], request)

    def _kinds_in(self, nodes: int) -> int:
        kinds = 0
        for node in ids(nodes):
            kinds |= self._kinds[node]
        return kinds

    def _with_normal(self, zone: int) -> int:
        """A zone needs a node with ordinary memory: extend it until it has one."""
        while not zone & self._normal:
            more = self._expand(zone, Kind.DRAM)
            if not more:
                raise _NoMemoryError
            zone |= more
        return zone

    def _expand(self, zone: int, kinds: int) -> int:
        """The nodes nearest to the zone, for each memory type."""
        found = 0
        for kind in _KINDS:
            if kinds & kind:
                found |= self._near(zone, self._of_kind[kind] & ~zone)
        return found

    def _near(self, zone: int, wanted: int) -> int:
        """The wanted nodes nearest to the zone: its nodes are asked in order, a nearer answer drops no earlier one."""
        found = 0
        limit: int | None = None
        for node in ids(zone):
            for distance, mask in self._nearest[node]:
                if mask & wanted:
                    if limit is None or distance <= limit:
                        limit = distance
                        found |= mask & wanted
                    break
        return found

    def _excess(self, zone: int) -> int:
        has = self._zone_capacity.get(zone)
        if has is None:
            has = self._zone_capacity[zone] = sum(self._capacity[node] for node in ids(zone))
        outside = ~zone
        for members, used in self._used.items():
            if not members & outside:
                has -= used
        return -has

    def _overcommitted(self, nodes: int) -> list[tuple[int, int]]:
        """The zones that promise more than they have and what is too much, most users first, then parts of others."""
        if not any(self._used.values()):
            return []
        found = [(zone, self._excess(zone)) for zone in self._zones if zone & nodes]
        over = [(zone, excess) for zone, excess in found if excess > 0]
        return sorted(over, key=cmp_to_key(self._more_urgent))

    def _more_urgent(self, a: tuple[int, int], b: tuple[int, int]) -> int:
        users = len(self._zones[b[0]]) - len(self._zones[a[0]])
        if users:
            return users
        if a[0] & b[0] in (a[0], b[0]):
            return -1 if a[0] & b[0] == a[0] else 1
        return b[0].bit_count() - a[0].bit_count() or b[0] - a[0]

    def _resolve(self, nodes: int, over: list[tuple[int, int]]) -> None:
        while over:
            moved = 0
            extra = 0
            for kind in (0, *_KINDS):
                if kind and not self._of_kind[kind]:
                    continue
                extra |= kind
                for zone, excess in over:
                    moved += self._shrink(zone, excess, extra)
                over = self._overcommitted(nodes)
                if not over:
                    return
            if moved == 0:
                raise _NoMemoryError

    def _shrink(self, zone: int, excess: int, extra: int) -> int:
        users = self._zones.get(zone)
        more = self._expand(zone, self._kinds_in(zone) | extra) if users else 0
        if not users or not more:
            return 0
        moved = 0
        for request in sorted(users.values(), key=lambda item: (-item.limit, item.id)):
            self._move(zone | more, request)
            moved += request.limit
            if moved >= excess:
                break
        return moved

    def _move(self, zone: int, request: _Request) -> None:
        self._leave(request)
        self._enter(zone, request)

    def _enter(self, zone: int, request: _Request) -> None:
        self._zones.setdefault(zone, {})[request.id] = request
        self._used[zone] = self._used.get(zone, 0) + request.limit
        request.zone = zone

    def _leave(self, request: _Request) -> None:
        if self._zones.get(request.zone, {}).pop(request.id, None):
            self._used[request.zone] -= request.limit

    def _drop_unused(self) -> None:
        for zone in [zone for zone, users in self._zones.items() if not users]:
            del self._zones[zone], self._used[zone]


class _NoMemoryError(Exception):
    """No set of nodes has the memory."""


def _kinds(topology: Topology) -> dict[int, Kind]:
    with_cpus = [numa for numa in topology.numa_nodes if numa.cores]
    having = [numa.memory_mib for numa in with_cpus if numa.memory_mib]
    average = sum(having) // len(having) if having else 0
    return {
        numa.id: Kind.DRAM if numa.cores else (Kind.HBM if numa.memory_mib < average else Kind.PMEM)
        for numa in topology.numa_nodes
    }


def _neighbours(topology: Topology) -> Iterable[tuple[int, list[tuple[int, int]]]]:
    ids = [numa.id for numa in topology.numa_nodes]
    for numa in topology.numa_nodes:
        masks: dict[int, int] = {}
        for other, distance in zip(ids, numa.distances, strict=True):
            if other != numa.id:
                masks[distance] = masks.get(distance, 0) | 1 << other
        yield numa.id, sorted(masks.items())
