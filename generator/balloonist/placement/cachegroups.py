"""CPUs by last-level cache group: the step between whole packages and whole cores when CPUs are picked.

A machine's topology does not tell its caches. Taken here: each NUMA node has a last-level cache of its own, and that
makes groups where a package (or die) has several NUMA nodes. Processors with several such caches in one NUMA node
have smaller groups; which NUMA nodes are used is the same, which cores of them may differ.

Rules: groups that are entirely free are used up first, those of the die, else the package, that fits most tightly;
the last one is split. Then groups with some free CPUs: one of exactly the rest, else the fullest first, the last one
split. No group is used unless one package can serve the whole request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cmp_to_key

Split = Callable[[int, int], int]
"""Takes a number of CPUs from a set: whole cores, then threads."""


@dataclass(frozen=True)
class CacheGroup:
    """CPUs that share a last-level cache smaller than their die; ``id`` counts them over the machine."""

    id: int
    package: int
    die: int
    cpus: int


@dataclass(frozen=True)
class _Usable:
    """A group with free CPUs."""

    group: CacheGroup
    free: int

    @property
    def size(self) -> int:
        return self.free.bit_count()

    @property
    def place(self) -> tuple[int, int]:
        return self.group.package, self.group.die


class _Counts:
    """Free CPUs by package and by die."""

    def __init__(self, items: Iterable[_Usable]) -> None:
        self.package: dict[int, int] = {}
        self.die: dict[tuple[int, int], int] = {}
        for item in items:
            self.package[item.group.package] = self.package.get(item.group.package, 0) + item.size
            self.die[item.place] = self.die.get(item.place, 0) + item.size


def take(groups: tuple[CacheGroup, ...], source: int, count: int, split: Split) -> int:
    """``count`` CPUs of ``source`` by groups, or 0 if the groups do not serve the request."""
    if len(groups) < 2 or count < 2:
        return 0
    if any(not source & ~group.cpus for group in groups):
        return 0  # one group is the same as none: its whole cores and threads are next anyway
    found = [_Usable(group, group.cpus & source) for group in groups if group.cpus & source]
    idle = [item for item in found if item.free == item.group.cpus]
    used = [item for item in found if item.free != item.group.cpus]
    if not found:
        return 0
    part = count % groups[0].cpus.bit_count()
    idle_counts, used_counts = _Counts(idle), _Counts(used)
    idle = _sorted_idle(idle, idle_counts, used_counts, count - part, part)
    if not (idle and count - part > 0):  # with idle groups in play the plugin leaves the used ones in order of id
        used = _sorted_used(used, used_counts, count)
    package = (idle or used)[0].group.package
    if (idle_counts.package.get(package, 0) if idle else 0) + used_counts.package.get(package, 0) < count:
        return 0
    taken = 0
    for item in idle:
        rest = count - taken.bit_count()
        if rest == 0:
            break
        taken |= item.free if item.size <= rest else split(item.free, rest)
    rest = count - taken.bit_count()
    if rest == 0:
        return taken
    more = _from_used(list(_leading(used, package)), rest, split)
    return taken | more if more else 0


def _leading(used: list[_Usable], package: int) -> Iterable[_Usable]:
    for item in used:
        if item.group.package != package:
            return
        yield item


def _from_used(used: list[_Usable], count: int, split: Split) -> int:
    for item in used:
        if item.size == count:
            return item.free
    needed: list[_Usable] = []
    for item in used:
        needed.append(item)
        if sum(other.size for other in needed) >= count:
            break
    if sum(item.size for item in needed) < count:
        return 0
    taken = 0
    for item in needed:
        if count < item.size:
            break
        taken |= item.free
        count -= item.size
    if count == 0:
        return taken
    last = needed[-1].free
    return taken | split(last, count) if last & ~taken and last.bit_count() >= count else 0


def _sorted_idle(idle: list[_Usable], whole: _Counts, partly: _Counts, full: int, part: int) -> list[_Usable]:
    """Tightest die first that serves the request alone, then tightest package."""

    def fit(a: tuple[int, int], b: tuple[int, int]) -> int | None:
        """Compare two places by their (idle, partly used) CPUs: negative, positive, 0 equal; None if neither serves."""
        a_full, b_full = a[0] >= full, b[0] >= full
        a_part, b_part = a[1] >= part, b[1] >= part
        if a_full and a_part and not (b_full and b_part):
            return -1
        if b_full and b_part and not (a_full and a_part):
            return 1
        if a_full and b_full and a_part and b_part:
            return a[0] - b[0] or a[1] - b[1]
        return None

    def compare(a: _Usable, b: _Usable) -> int:
        by_die = fit(*((whole.die.get(item.place, 0), partly.die.get(item.place, 0)) for item in (a, b)))
        if by_die is not None:
            return by_die or _by_id(a, b)
        packages = (item.group.package for item in (a, b))
        by_package = fit(*((whole.package.get(package, 0), partly.package.get(package, 0)) for package in packages))
        return by_package or _by_id(a, b)

    return sorted(idle, key=cmp_to_key(compare))


def _sorted_used(used: list[_Usable], counts: _Counts, count: int) -> list[_Usable]:
    """Tightest die first that serves the request alone, in it the fullest groups; the others stay in order."""

    def compare(a: _Usable, b: _Usable) -> int:
        in_a, in_b = counts.die[a.place], counts.die[b.place]
        if in_a >= count and in_b >= count:
            return in_a - in_b or b.size - a.size or _by_id(a, b)
        return (in_b >= count) - (in_a >= count)

    return sorted(used, key=cmp_to_key(compare))


def _by_id(a: _Usable, b: _Usable) -> int:
    return a.group.id - b.group.id
