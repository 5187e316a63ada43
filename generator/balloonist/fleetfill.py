"""Placing balloons over a fleet one by one, without a solver: quick, good, and not proven to be the best.

A balloon goes to the node with the fewest balloons of its class (replicas of a model are spread over nodes), among
those to one where no wholly free package is broken into, then to the one with the most free cores, then by name.
Nodes of a kind with equal balloons are handled as one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from balloonist.fleetkinds import Kind, Pattern, items_of
from balloonist.packing import best_set
from balloonist.sizeclass import SizeClass

Order = Literal["spread", "emptiest", "fullest"]
"""Which node is taken first: as above, the one with the most free cores, or the one with the fewest."""

Contents = list[dict[Pattern, list[str]]]
"""For each kind of node: the names of the nodes that have a pattern."""


class Filler:
    """The balloons of a fleet while more are being added."""

    def __init__(self, kinds: Sequence[Kind], classes: Sequence[SizeClass], order: Order = "spread") -> None:
        self.kinds = kinds
        self.classes = classes
        self.order = order
        nothing = (0,) * len(classes)
        self.contents: Contents = [{nothing: list(kind.nodes)} for kind in kinds]
        self._grown: dict[tuple[int, Pattern, int], Pattern | None] = {}
        self._ranks: dict[tuple[int, Pattern], tuple[int, int]] = {}

    def load(self, patterns: Sequence[Mapping[Pattern, int]]) -> None:
        """Start anew from so many nodes of each kind with these patterns."""
        nothing = (0,) * len(self.classes)
        self.contents = []
        for kind, counts in zip(self.kinds, patterns, strict=True):
            names = iter(kind.nodes)
            found: dict[Pattern, list[str]] = {}
            for pattern, count in sorted(counts.items(), reverse=True):
                found.setdefault(pattern, []).extend(next(names) for _ in range(count))
            rest = list(names)
            if rest:
                found.setdefault(nothing, []).extend(rest)
            self.contents.append(found)

    def snapshot(self) -> Contents:
        """A copy of the contents, to return to."""
        return [{pattern: list(names) for pattern, names in found.items()} for found in self.contents]

    def totals(self) -> list[int]:
        """Balloons of each class in the whole fleet."""
        sums = [0] * len(self.classes)
        for found in self.contents:
            for pattern, names in found.items():
                for index, count in enumerate(pattern):
                    sums[index] += count * len(names)
        return sums

    def counts(self) -> list[dict[Pattern, int]]:
        """How many nodes of each kind have which pattern."""
        return [{pattern: len(names) for pattern, names in found.items()} for found in self.contents]

    def add(self, index: int, limit: int | None = None) -> bool:
        """Add a balloon of class ``index`` somewhere; only where there are fewer than ``limit`` of it, if given."""
        options = [
            (self._key(position, pattern, index), position, pattern)
            for position, found in enumerate(self.contents)
            if self.kinds[position].can_hold(self.classes[index])
            for pattern in found
            if (limit is None or pattern[index] < limit) and self._grow(position, pattern, index) is not None
        ]
        if not options:
            return False
        _, position, pattern = min(options)
        grown = self._grow(position, pattern, index)
        if grown is None:
            return False
        names = self.contents[position][pattern]
        self.contents[position].setdefault(grown, []).append(names.pop(0))
        if not names:
            del self.contents[position][pattern]
        return True

    def _key(self, position: int, pattern: Pattern, index: int) -> tuple[int | str, ...]:
        cores, packages = self._rank(position, pattern)
        name = self.contents[position][pattern][0]
        if self.order != "spread":
            return (-cores if self.order == "emptiest" else cores, name)
        grown = self._grow(position, pattern, index)
        broken = packages - self._rank(position, grown)[1] if grown else 0
        return (pattern[index], broken, -cores, name)

    def _rank(self, position: int, pattern: Pattern) -> tuple[int, int]:
        """Free cores and wholly free packages of a node of this kind with this pattern."""
        key = (position, pattern)
        if key not in self._ranks:
            kind = self.kinds[position]
            packing = kind.packing(items_of(pattern, self.classes))
            self._ranks[key] = sum(packing.left.values()), kind.packages_free(packing)
        return self._ranks[key]

    def _grow(self, position: int, pattern: Pattern, index: int) -> Pattern | None:
        """The pattern with one more balloon of the class, None where it does not fit."""
        key = (position, pattern, index)
        if key not in self._grown:
            grown = tuple(count + (place == index) for place, count in enumerate(pattern))
            self._grown[key] = grown if self._fits(position, pattern, grown, self.classes[index]) else None
        return self._grown[key]

    def _fits(self, position: int, pattern: Pattern, grown: Pattern, item: SizeClass) -> bool:
        kind = self.kinds[position]
        left = kind.packing(items_of(pattern, self.classes)).left
        if best_set(left, kind.offer.sets, item) is None:
            return False
        return kind.quick_packing(items_of(grown, self.classes)) is not None
