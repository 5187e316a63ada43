"""Placing balloons on the NUMA nodes of one node.

Placement is a small bin packing: a balloon takes the same number of whole cores on every NUMA node of one of its NUMA
sets. Large balloons go first, each to the set with the most room, which spreads the load. Where that fails, a bounded
search looks for any placement: a plan is refused only when it is impossible, or when the search gave up and says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from balloonist.numasets import NumaSet
from balloonist.sizeclass import SizeClass

SEARCH_STEPS: Final = 20_000
"""Placements the search tries before it gives up: well under a second."""

SEARCH_BALLOONS: Final = 200
"""Balloons up to which the search is used at all (it recurses once for each)."""

Free = Mapping[int, int]
"""Free whole cores of each NUMA node, by NUMA node id."""

Sets = Mapping[int, Sequence[NumaSet]]
"""The NUMA sets of each TP size, in order of use."""


@dataclass(frozen=True)
class Placed:
    """One balloon of a class on its NUMA nodes."""

    size_class: SizeClass
    numa_nodes: NumaSet


@dataclass(frozen=True)
class Packing:
    """What was placed, what was not, the cores left on each NUMA node; ``proven`` where no better packing exists."""

    placed: tuple[Placed, ...]
    unplaced: tuple[SizeClass, ...]
    left: Free
    proven: bool = True


def pack(free: Free, sets: Sets, wanted: Sequence[SizeClass]) -> Packing:
    """Place all of ``wanted`` (in any order); what could not be placed is in ``unplaced``."""
    ordered = sorted(wanted, key=lambda item: (-item.cores, -item.tp))
    greedy = _greedy(free, sets, ordered)
    if not greedy.unplaced or sum(item.cores for item in ordered) > sum(free.values()):
        return greedy
    if len(ordered) > SEARCH_BALLOONS:
        return Packing(greedy.placed, greedy.unplaced, greedy.left, proven=False)
    search = _Search(sets, ordered)
    found = search.run(dict(free), 0)
    if found is None:
        return Packing(greedy.placed, greedy.unplaced, greedy.left, proven=search.steps < SEARCH_STEPS)
    return Packing(tuple(found), (), _after(free, found))


def best_set(free: Free, sets: Sets, item: SizeClass) -> NumaSet | None:
    """The NUMA set with the most room for one more balloon, the first of equals; None where none has enough."""
    candidates = _candidates(free, sets, item)
    return candidates[0] if candidates else None


def room(free: Free, sets: Sets, tp: int) -> int:
    """The most cores per rank that a balloon of this TP could have; 0 where there is no set or no room."""
    return max((min(free.get(numa, 0) for numa in numa_set) for numa_set in sets.get(tp, ())), default=0)


def take(free: Free, numa_set: NumaSet, item: SizeClass) -> dict[int, int]:
    """The free cores once a balloon of the class stands on ``numa_set``."""
    return {numa: cores - item.cores_per_rank if numa in numa_set else cores for numa, cores in free.items()}


def _greedy(free: Free, sets: Sets, ordered: Sequence[SizeClass]) -> Packing:
    left: dict[int, int] = dict(free)
    placed: list[Placed] = []
    unplaced: list[SizeClass] = []
    for item in ordered:
        numa_set = best_set(left, sets, item)
        if numa_set is None:
            unplaced.append(item)
        else:
            placed.append(Placed(item, numa_set))
            left = take(left, numa_set, item)
    return Packing(tuple(placed), tuple(unplaced), left)


def _candidates(free: Free, sets: Sets, item: SizeClass) -> list[NumaSet]:
    rooms = [(min(free.get(numa, 0) for numa in numa_set), numa_set) for numa_set in sets.get(item.tp, ())]
    fitting = [(space, numa_set) for space, numa_set in rooms if space >= item.cores_per_rank]
    fitting.sort(key=lambda pair: -pair[0])
    return [numa_set for _, numa_set in fitting]


def _after(free: Free, placed: Sequence[Placed]) -> dict[int, int]:
    left = dict(free)
    for balloon in placed:
        left = take(left, balloon.numa_nodes, balloon.size_class)
    return left


class _Search:
    """Depth-first search that remembers dead ends (how many balloons are placed, and what is free)."""

    def __init__(self, sets: Sets, ordered: Sequence[SizeClass]) -> None:
        self.sets = sets
        self.ordered = ordered
        self.steps = 0
        self.dead: set[tuple[int, tuple[int, ...]]] = set()

    def run(self, free: dict[int, int], index: int) -> list[Placed] | None:
        if index == len(self.ordered):
            return []
        state = (index, tuple(free.values()))
        if state in self.dead:
            return None
        item = self.ordered[index]
        for numa_set in _candidates(free, self.sets, item):
            if self.steps >= SEARCH_STEPS:
                return None
            self.steps += 1
            rest = self.run(take(free, numa_set, item), index + 1)
            if rest is not None:
                return [Placed(item, numa_set), *rest]
        self.dead.add(state)
        return None
