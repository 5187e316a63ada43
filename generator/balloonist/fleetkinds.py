"""A fleet seen as kinds of nodes: nodes that offer the same cores on the same NUMA nodes are interchangeable.

How many balloons of each class one node gets is a *pattern*: a tuple of counts in the order of the classes. A pattern
counts only if :func:`balloonist.packing.pack` can place it, since that is what the layout does with a written plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from balloonist.capacity import Capacity, why_not
from balloonist.numasets import NumaSet
from balloonist.packing import Packing, Placed, best_set, pack, take
from balloonist.sizeclass import SizeClass

Pattern = tuple[int, ...]
"""Balloons of each class on one node."""


@dataclass
class Kind:
    """Nodes that are alike; ``offer`` is that of the first. Packings are remembered, since many nodes share them."""

    offer: Capacity
    packages: tuple[NumaSet, ...] = ()
    nodes: list[str] = field(default_factory=list)
    known: dict[tuple[SizeClass, ...], Packing] = field(default_factory=dict)
    unfit: dict[SizeClass, bool] = field(default_factory=dict)
    hard: set[tuple[SizeClass, ...]] = field(default_factory=set)
    alone: dict[SizeClass, tuple[int, bool]] = field(default_factory=dict)

    def can_hold(self, item: SizeClass) -> bool:
        """Whether an empty node of this kind could have a balloon of the class."""
        if item not in self.unfit:
            self.unfit[item] = bool(why_not(self.offer, item)[0])
        return not self.unfit[item]

    def packages_free(self, packing: Packing) -> int:
        """Packages on which no balloon stands."""
        taken = {numa for balloon in packing.placed for numa in balloon.numa_nodes}
        return sum(taken.isdisjoint(package) for package in self.packages)

    def quick_packing(self, items: Iterable[SizeClass]) -> Packing | None:
        """The packing where no search is needed for it, else None; it is the one that ``pack`` finds first."""
        key = tuple(sorted(items))
        if key in self.known:
            return None if self.known[key].unplaced else self.known[key]
        if key in self.hard:
            return None
        left: dict[int, int] = dict(self.offer.free)
        placed: list[Placed] = []
        for item in sorted(key, key=lambda item: (-item.cores, -item.tp)):
            numa_set = best_set(left, self.offer.sets, item)
            if numa_set is None:
                self.hard.add(key)
                return None
            placed.append(Placed(item, numa_set))
            left = take(left, numa_set, item)
        self.known[key] = Packing(tuple(placed), (), left)
        return self.known[key]

    def packing(self, items: Iterable[SizeClass]) -> Packing:
        """How these balloons are placed on one node."""
        key = tuple(sorted(items))
        if key not in self.known:
            self.known[key] = pack(self.offer.free, self.offer.sets, key)
        return self.known[key]


def kinds(
    offers: Sequence[Capacity],
    packages: Sequence[tuple[NumaSet, ...]],
    unfit: Sequence[frozenset[SizeClass]] | None = None,
) -> list[Kind]:
    """The kinds of nodes in a fleet, in the order of their first nodes; ``packages`` has each node's NUMA nodes.

    ``unfit`` has the classes that each node cannot hold for another reason than its cores.
    """
    found: dict[object, Kind] = {}
    for offer, groups, without in zip(offers, packages, unfit or [frozenset()] * len(offers), strict=True):
        cores = (offer.threads_per_core, tuple(offer.free.items()), tuple(sorted(offer.sets.items())))
        kind = found.setdefault((cores, groups, without), Kind(offer, groups, unfit=dict.fromkeys(without, True)))
        kind.nodes.append(offer.node)
    return list(found.values())


def items_of(pattern: Pattern, classes: Sequence[SizeClass]) -> list[SizeClass]:
    """The balloons of a pattern, one by one."""
    return [item for item, count in zip(classes, pattern, strict=True) for _ in range(count)]


def packable(kind: Kind, pattern: Pattern, classes: Sequence[SizeClass]) -> Pattern:
    """The pattern itself if it can be placed, else it without the balloons that could not."""
    while True:
        packing = kind.packing(items_of(pattern, classes))
        if not packing.unplaced:
            return pattern
        missing = packing.unplaced
        pattern = tuple(count - missing.count(item) for item, count in zip(classes, pattern, strict=True))


def most_alone(kind: Kind, item: SizeClass) -> tuple[int, bool]:
    """How many balloons of one class fit on an empty node of this kind, and whether that is proven."""
    if item not in kind.alone:
        kind.alone[item] = _most_alone(kind, item) if kind.can_hold(item) else (0, True)
    return kind.alone[item]


def _most_alone(kind: Kind, item: SizeClass) -> tuple[int, bool]:
    """Disjoint NUMA sets are counted, overlapping ones packed until nothing more fits."""
    sets: tuple[NumaSet, ...] = kind.offer.sets[item.tp]
    shares = {numa: cores // item.cores_per_rank for numa, cores in kind.offer.free.items()}
    if sum(map(len, sets)) == len({numa for numa_set in sets for numa in numa_set}):
        return sum(min(shares[numa] for numa in numa_set) for numa_set in sets), True
    most = sum(shares.values()) // item.tp
    placed, left = 0, dict(kind.offer.free)
    while (numa_set := best_set(left, {item.tp: sets}, item)) is not None:
        placed, left = placed + 1, take(left, numa_set, item)
    while placed < most:
        packing = pack(kind.offer.free, kind.offer.sets, [item] * (placed + 1))
        if packing.unplaced:
            return placed, packing.proven
        placed += 1
    return placed, True
