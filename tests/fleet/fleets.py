"""Small fleets for tests, and the plain truth about them by trying everything."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from balloonist.capacity import Capacity
from balloonist.fleetkinds import Kind, kinds
from balloonist.numasets import NumaSet
from balloonist.packing import take
from balloonist.sizeclass import SizeClass


def offer(node: str, *free: int, pairs: bool = False) -> Capacity:
    """A node with these free cores by NUMA node; ``pairs`` offers TP 2 on neighbouring NUMA nodes too."""
    sets: dict[int, tuple[NumaSet, ...]] = {1: tuple((numa,) for numa in range(len(free)))}
    if pairs:
        sets[2] = tuple((numa, numa + 1) for numa in range(0, len(free) - 1, 2))
    return Capacity(node, 1, dict(enumerate(free)), sets)


def fleet(*offers: Capacity) -> list[Kind]:
    """The kinds of these nodes, each node one package."""
    return kinds(offers, [(tuple(item.free),) for item in offers])


def fits(offers: Sequence[Capacity], wanted: Sequence[SizeClass]) -> bool:
    """Whether all balloons have a place somewhere, by trying every NUMA set of every node."""
    sets = [dict(item.sets) for item in offers]

    @cache
    def place(index: int, state: tuple[tuple[int, ...], ...]) -> bool:
        if index == len(wanted):
            return True
        item = wanted[index]
        for position, free in enumerate(state):
            for numa_set in sets[position].get(item.tp, ()):
                if all(free[numa] >= item.cores_per_rank for numa in numa_set):
                    left = take(dict(enumerate(free)), numa_set, item)
                    if place(index + 1, (*state[:position], tuple(left.values()), *state[position + 1 :])):
                        return True
        return False

    return place(0, tuple(tuple(item.free.values()) for item in offers))
