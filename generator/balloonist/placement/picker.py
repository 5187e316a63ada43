"""Which CPUs exactly are taken from a set that has more than enough (the plugin's ``pkg/cpuallocator``).

The order: whole idle packages, cache groups (``cachegroups.py``), whole idle cores by lowest CPU id, then single
threads, from the cores with the fewest free threads first (so half-used cores before whole ones). A core is taken
whole only while enough CPUs are still wanted, so a single-thread core fills an odd rest.

A type's ``allocatorPriority`` matters in two ways: ``none`` ignores the CPUs' own priority, the others favour, in
this order, CPUs of that priority and below. All CPUs have normal priority, except efficiency cores, which are low.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cmp_to_key

from balloonist.placement import cachegroups
from balloonist.placement.bits import bits, lowest
from balloonist.placement.machine import CoreShape, Machine


class Priority(IntEnum):
    """A type's allocatorPriority; balloons of high priority types are made first when the plugin starts."""

    HIGH = 0
    NORMAL = 1
    LOW = 2
    NONE = 3


class Picker:
    """Takes CPUs for one machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._by_priority = (0, machine.online & ~machine.efficient, machine.efficient)
        self._groups = {priority: self._core_groups(priority) for priority in Priority}

    def pick(self, source: int, count: int, prefer: Priority) -> int:
        """``count`` CPUs of ``source``, which must have at least that many."""
        if source.bit_count() == count:
            return source
        taken = self._idle_packages(source, count, prefer)
        rest = count - taken.bit_count()
        if rest:
            taken |= cachegroups.take(
                self._machine.cache_groups,
                source & ~taken,
                rest,
                lambda free, wanted: self._cores_and_threads(free, 0, wanted, prefer),
            )
            rest = count - taken.bit_count()
        return self._cores_and_threads(source & ~taken, taken, rest, prefer) if rest else taken

    def _cores_and_threads(self, source: int, taken: int, count: int, prefer: Priority) -> int:
        """``taken`` and ``count`` more CPUs of ``source``."""
        cores = self._idle_cores(source, count, prefer)
        taken |= cores
        rest = count - cores.bit_count()
        return taken | self._threads(source & ~cores, taken, rest, prefer) if rest else taken

    def _idle_packages(self, source: int, count: int, prefer: Priority) -> int:
        taken = 0
        idle: list[tuple[int, int]] = []
        for package, cpus in self._machine.packages:
            wanted = cpus if prefer is Priority.NONE else cpus & self._by_priority[prefer]
            if wanted and wanted & ~source == 0 and wanted.bit_count() <= count:
                idle.append((package, cpus))
        if len(idle) > 1:

            def larger(a: tuple[int, int], b: tuple[int, int]) -> int:
                return -self._compare(a[1], b[1], prefer, -1) or a[0] - b[0]

            idle.sort(key=cmp_to_key(larger))
        for _, cpus in idle:
            wanted = cpus if prefer is Priority.NONE else cpus & self._by_priority[prefer]
            if wanted.bit_count() <= count:
                taken |= wanted
                count -= wanted.bit_count()
        return taken

    def _idle_cores(self, source: int, count: int, prefer: Priority) -> int:
        taken = 0
        for shapes in self._groups[prefer]:
            if count == 0:
                break
            if len(shapes) == 1:
                shape = shapes[0]
                part = shape.expand(lowest(shape.whole(source), count // len(shape.offsets)))
            else:
                part = self._mixed_cores(shapes, source, count)
            taken |= part
            count -= part.bit_count()
        return taken

    def _mixed_cores(self, shapes: tuple[CoreShape, ...], source: int, count: int) -> int:
        """Cores of several shapes that are equally good: by lowest CPU, each as long as it still fits."""
        taken = firsts = 0
        for shape in shapes:
            firsts |= shape.whole(source)
        for first in bits(firsts):
            core = self._machine.core_of[first]
            if core.bit_count() <= count:
                taken |= core
                count -= core.bit_count()
                if count == 0:
                    break
        return taken

    def _threads(self, source: int, taken: int, count: int, prefer: Priority) -> int:
        """Single threads: the package most used so far first, then the tightest that fits, then half-used cores."""
        packages = [(package, cpus) for package, cpus in self._machine.packages if cpus & source]
        if len(packages) > 1:

            def better(a: tuple[int, int], b: tuple[int, int]) -> int:
                return (
                    (b[1] & taken).bit_count() - (a[1] & taken).bit_count()
                    or -self._compare(a[1] & source, b[1] & source, prefer, count)
                    or a[0] - b[0]
                )

            packages.sort(key=cmp_to_key(better))
        core_of = self._machine.core_of
        found = 0
        for _, cpus in packages:
            ordered = sorted(
                bits(cpus & source),
                key=lambda cpu: (self._cpu_rank(cpu, prefer), (core_of[cpu] & source).bit_count(), cpu),
            )
            for cpu in ordered[:count]:
                found |= 1 << cpu
            count -= min(count, len(ordered))
            if count == 0:
                break
        return found

    def _cpu_rank(self, cpu: int, prefer: Priority) -> int:
        if prefer is Priority.NONE or not self._machine.efficient:
            return 0
        own = Priority.LOW if self._machine.efficient >> cpu & 1 else Priority.NORMAL
        return own - prefer if own >= prefer else len(Priority) + prefer - own

    def _core_groups(self, prefer: Priority) -> tuple[tuple[CoreShape, ...], ...]:
        """The core shapes in order of preference, equally good ones together."""

        def compare(a: CoreShape, b: CoreShape) -> int:
            return -self._compare(a.expand(a.firsts & -a.firsts), b.expand(b.firsts & -b.firsts), prefer, -1)

        groups: list[list[CoreShape]] = []
        for shape in sorted(self._machine.shapes, key=cmp_to_key(compare)):
            if groups and compare(groups[-1][0], shape) == 0:
                groups[-1].append(shape)
            else:
                groups.append([shape])
        return tuple(map(tuple, groups))

    def _compare(self, a: int, b: int, prefer: Priority, count: int) -> int:
        """Above 0 if CPU set ``a`` suits the priority better than ``b``, below 0 if worse.

        With a ``count``, the set that just holds that many CPUs is better; else more CPUs of the wanted priority or a
        lower one are, and then fewer of a higher one.
        """
        if prefer is Priority.NONE:
            return 0
        if count > 0:
            in_a, in_b = self._wanted(a, prefer), self._wanted(b, prefer)
            if prefer is Priority.HIGH and in_a == in_b == 0:
                in_a, in_b = self._wanted(a, Priority.NORMAL), self._wanted(b, Priority.NORMAL)
            if in_a >= count and in_b >= count:
                return in_b - in_a
            if prefer is not Priority.NORMAL and (in_a >= count) is not (in_b >= count):
                return in_a - in_b
        for priority in (*range(prefer, Priority.NONE), *range(prefer)):
            difference = self._wanted(a, priority) - self._wanted(b, priority)
            if difference:
                return difference if priority >= prefer else -difference
        return 0

    def _wanted(self, cpus: int, priority: int) -> int:
        return (cpus & self._by_priority[priority]).bit_count()
