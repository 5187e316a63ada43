"""A machine drawn as a person would draw it: packages as boxes, NUMA nodes in them, one mark for each core."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from string import ascii_lowercase, ascii_uppercase
from typing import Final, TypeVar

from rich.console import Group, RenderableType
from rich.text import Text

from balloonist import distances
from balloonist.cpuset import EMPTY, Cpuset, union
from balloonist.textboxes import BORDERS, flow, frame, grid, grid_width
from balloonist.topology import Core, NumaNode, Topology

RESERVED: Final = "R"
SPLIT: Final = "r"
FREE: Final = "."
PARTIAL: Final = "-"
EFFICIENCY: Final = "e"
SHARED: Final = "*"

LETTERS: Final = [letter for letter in ascii_uppercase if letter != RESERVED] + [
    letter for letter in ascii_lowercase if letter not in (SPLIT, EFFICIENCY)
]
"""Marks of owners, in the order the owners are given; owners beyond them share the last mark, ``#``."""

OTHERS: Final = "#"

_COLOURS: Final = ("green", "blue", "magenta", "yellow", "cyan", "bright_green", "bright_blue", "bright_magenta")
_CORES_WITH_IDS: Final = 12
"""NUMA nodes of up to so many cores show the CPU ids of each core; larger ones show a strip and runs of cores."""
_STRIP: Final = 32
_NARROWEST: Final = 24


_Item = TypeVar("_Item")


@dataclass(frozen=True)
class _Drawing:
    """What is being drawn and how; ``limit`` is the widest content of a NUMA node's box."""

    topology: Topology
    reserved: Cpuset
    marks: Mapping[str, tuple[str, Cpuset]]
    limit: int
    unicode: bool

    @cached_property
    def efficiency(self) -> Cpuset:
        return union(cpus for name, cpus in self.topology.core_types if name == "efficiency")

    def mark(self, core: Core) -> str:
        """The one character that says whose a core is."""
        if core.cpus <= self.reserved:
            return RESERVED
        letters = [letter for letter, cpus in self.marks.values() if not core.cpus.isdisjoint(cpus)]
        if letters:
            return letters[0] if len(letters) == 1 else SHARED
        if not core.cpus.isdisjoint(self.reserved):
            return SPLIT
        if core.cpus <= self.efficiency:
            return EFFICIENCY
        return FREE if len(core.cpus) == self.topology.threads_per_core else PARTIAL

    def dotted(self, *parts: str) -> str:
        """The parts that are not empty, with a dot (or comma) between them."""
        text = (" · " if self.unicode else ", ").join(filter(None, parts))
        return text if self.unicode else text.encode("ascii", "replace").decode()


def draw(
    topology: Topology,
    reserved: Cpuset = EMPTY,
    owners: Mapping[str, Cpuset] | None = None,
    width: int = 100,
    unicode: bool = True,
) -> RenderableType:
    """The map of one machine, at most ``width`` columns wide where that is at least 30.

    ``owners`` names who has which CPUs. ``unicode`` False keeps to ASCII characters.
    """
    letters = [*LETTERS, *[OTHERS] * len(owners or {})]
    marks = {name: (letter, cpus) for (name, cpus), letter in zip((owners or {}).items(), letters, strict=False)}
    limit = max(_NARROWEST, min(_STRIP + 4, width - 2 * BORDERS))
    drawing = _Drawing(topology, reserved, marks, limit, unicode)
    sentence, *matrix = distances.lines(topology, width)
    picture = [*_map(drawing, width), *flow(_legend(drawing), width, "   ")]
    return Group(
        *(Text(line) for line in _summary(drawing)),
        Text(sentence),
        *(Text(line, no_wrap=True) for line in matrix),
        Text("\n", no_wrap=True, overflow="crop").join(picture),
        *(Text(line) for line in _remarks(topology, width)),
    )


def _map(drawing: _Drawing, width: int) -> list[Text]:
    """Boxes for packages, then those of memory-only NUMA nodes."""
    numa_nodes = drawing.topology.numa_nodes
    contents = {numa.id: _numa_lines(drawing, numa) for numa in numa_nodes}
    titles = {numa.id: _numa_title(drawing, numa) for numa in numa_nodes}
    widest = max(line.cell_len for lines in contents.values() for line in lines)
    inner = min(drawing.limit, max(widest, *(len(title) + 4 for title in titles.values())))
    groups = _groups(drawing.topology)
    heights = [[len(contents[numa.id]) + BORDERS for numa in group] for group in groups]
    outer_columns, columns = _best_columns(heights, inner, width)
    for row in _chunks(groups, outer_columns):
        for members in _levels(row, columns):  # what stands on one level is equally tall
            tallest = max(len(contents[numa.id]) for numa in members)
            for numa in members:
                contents[numa.id] += [Text()] * (tallest - len(contents[numa.id]))
    boxes = {numa.id: frame(titles[numa.id], contents[numa.id], inner, drawing.unicode) for numa in numa_nodes}
    packages = [
        frame(
            _package_title(drawing, group),
            grid([boxes[numa.id] for numa in group], columns),
            grid_width(inner + BORDERS, columns),
            drawing.unicode,
        )
        for group in groups
    ]
    bare = [boxes[numa.id] for numa in numa_nodes if not numa.cores]
    return [*grid(packages, outer_columns), *grid(bare, max(1, (width + 1) // (inner + BORDERS + 1)))]


def _groups(topology: Topology) -> list[list[NumaNode]]:
    """The NUMA nodes of each package. Packages that share a NUMA node, as on virtual machines, count as one."""
    groups: list[tuple[set[int], list[NumaNode]]] = []
    for numa in topology.numa_nodes:
        if not numa.cores:
            continue
        merged: tuple[set[int], list[NumaNode]] = (set(numa.packages), [numa])
        for group in [group for group in groups if group[0] & merged[0]]:
            groups.remove(group)
            merged = (group[0] | merged[0], [*group[1], *merged[1]])
        groups.append(merged)
    return [members for _, members in sorted(groups, key=lambda group: min(group[0]))]


def _best_columns(heights: Sequence[Sequence[int]], inner: int, width: int) -> tuple[int, int]:
    """How many packages, and how many NUMA nodes in each, stand side by side: the lowest map that fits.

    ``heights`` are those of the NUMA boxes of each package. Of equally low ones the one with fewer gaps wins, then the
    one with more packages side by side.
    """
    members = max(map(len, heights))
    choices: list[tuple[int, int, int, int]] = []
    for packages, columns in product(range(1, len(heights) + 1), range(1, members + 1)):
        package_width = grid_width(inner + BORDERS, columns) + BORDERS
        if (packages, columns) != (1, 1) and grid_width(package_width, packages) > width:
            continue
        rows = _chunks(heights, packages)
        tall = sum(BORDERS + sum(max(level) for level in _levels(row, columns)) for row in rows)
        gaps = -members % columns + -len(heights) % packages
        choices.append((tall, gaps, -packages, columns))
    _, _, packages, columns = min(choices)
    return -packages, columns


def _levels(groups: Sequence[Sequence[_Item]], columns: int) -> Iterable[list[_Item]]:
    """What stands on the same level of all groups, when each has ``columns`` members beside each other."""
    for start in range(0, max(map(len, groups)), columns):
        yield [item for group in groups for item in group[start : start + columns]]


def _chunks(items: Sequence[_Item], size: int) -> list[Sequence[_Item]]:
    return [items[start : start + size] for start in range(0, len(items), size)]


def _package_title(drawing: _Drawing, group: Sequence[NumaNode]) -> str:
    ids = sorted({package for numa in group for package in numa.packages})
    dies = [len(package.dies) for package in drawing.topology.packages if package.id in ids]
    numbers = f"package {ids[0]}" if len(ids) == 1 else f"{len(ids)} packages, {ids[0]} to {ids[-1]}"
    return drawing.dotted(numbers, f"{dies[0]} dies" if dies[0] > 1 else "")


def _numa_title(drawing: _Drawing, numa: NumaNode) -> str:
    """Number, memory and CPUs; on a narrow terminal only what fits whole."""
    cpus = _count(len(numa.cpus), "CPU") if numa.cores else ""
    parts = [f"NUMA {numa.id}", memory(numa.memory_mib), cpus]
    titles = [drawing.dotted(*parts[:count]) for count in (3, 2, 1)]
    return next((title for title in titles if len(title) + 4 <= drawing.limit), titles[-1])


def memory(mib: int) -> str:
    """An amount of memory as people say it."""
    return f"{mib / 1024:.0f} GiB" if mib >= 10_240 else f"{mib} MiB"


def _numa_lines(drawing: _Drawing, numa: NumaNode) -> list[Text]:
    if not numa.cores:
        return [Text("memory only" if numa.memory_mib else "empty")]
    marked = [(drawing.mark(core), core) for core in numa.cores]
    if len(marked) <= _CORES_WITH_IDS:
        cells = [Text.assemble((mark, _style(mark)), f" {_ids(core.cpus)}") for mark, core in marked]
        wide = max(cell.cell_len for cell in cells)
        if wide <= drawing.limit:
            for cell in cells:
                cell.pad_right(wide - cell.cell_len)
            beside = min(max(1, (drawing.limit + 2) // (wide + 2)), 4)
            return [Text("  ").join(row) for row in _chunks(cells, beside)]
    rows = _chunks(marked, min(_STRIP, drawing.limit))
    strips = [Text.assemble(*((mark, _style(mark)) for mark, _ in row)) for row in rows]
    return strips + _runs(marked, drawing.limit)


def _ids(cpus: Cpuset) -> str:
    """The siblings of a core: ``0,96``, but ``0-7`` where eight of them stand in a row."""
    return min(cpus.listing, cpus.text, key=len)


def _runs(marked: Sequence[tuple[str, Core]], limit: int) -> list[Text]:
    """The CPUs behind each mark; short lists share a line, long ones take several."""
    entries: list[Text] = []
    for mark in dict.fromkeys(mark for mark, _ in marked):
        cpus = union(core.cpus for own, core in marked if own == mark)
        head, *rest = wrapped(cpus, limit - 2)
        entries.append(Text.assemble((mark, _style(mark)), f" {head}"))
        entries += [Text(f"  {line}") for line in rest]
    return flow(entries, limit, "  ")


def wrapped(cpus: Cpuset, width: int) -> list[str]:
    """The text of a set in lines of at most ``width`` columns, broken after commas."""
    lines = [""]
    for part in re.findall(r"[^,]+,?", cpus.text):
        if len(lines[-1]) + len(part) <= width:
            lines[-1] += part
        else:
            lines.append(part)
    return lines


def _style(mark: str) -> str:
    if mark in (RESERVED, SPLIT, SHARED):
        return "bold red"
    if mark in (FREE, PARTIAL, EFFICIENCY):
        return "dim"
    return _COLOURS[LETTERS.index(mark) % len(_COLOURS)] if mark in LETTERS else "bold"


def _summary(drawing: _Drawing) -> Iterable[str]:
    topology = drawing.topology
    kernel = f"kernel {topology.kernel}" if topology.kernel else ""
    yield drawing.dotted(topology.cpu_model, topology.architecture, kernel)
    threads = topology.threads_per_core
    numbering = ""
    if threads > 1:
        example = next(core.cpus for core in topology.cores if len(core.cpus) == threads)
        numbering = f", siblings such as {_ids(example)}"
    yield (
        f"{_count(len(topology.packages), 'package')}, {_count(len(topology.numa_nodes), 'NUMA node')}, "
        f"{memory(sum(numa.memory_mib for numa in topology.numa_nodes))}, "
        f"{_count(len(topology.cores), 'core')}, {_count(len(topology.online), 'CPU')} "
        f"({_count(threads, 'thread')} per core{numbering})"
    )


def _legend(drawing: _Drawing) -> list[Text]:
    used = Counter(drawing.mark(core) for core in drawing.topology.cores)
    fixed = (
        (RESERVED, "reserved"),
        (SPLIT, "core with a reserved and a free thread"),
        (FREE, "free core"),
        (PARTIAL, "core with fewer online threads than the others"),
        (EFFICIENCY, "efficiency core"),
        (SHARED, "core of several owners"),
    )
    entries = [(mark, f"{meaning} ({used[mark]})") for mark, meaning in fixed if used[mark]]
    entries += [
        (letter, f"{name} ({_count(_cores_of(drawing, cpus), 'core')})")
        for name, (letter, cpus) in drawing.marks.items()
    ]
    return [Text.assemble((mark, _style(mark)), f" {meaning}") for mark, meaning in entries]


def _cores_of(drawing: _Drawing, cpus: Cpuset) -> int:
    return sum(not core.cpus.isdisjoint(cpus) for core in drawing.topology.cores)


def _remarks(topology: Topology, width: int) -> Iterable[str]:
    remarks = [("offline", topology.offline), ("isolated by the kernel", topology.isolated)]
    remarks += [(f"{name} cores", cpus) for name, cpus in topology.core_types]
    for name, cpus in remarks:
        if cpus:
            head = f"{name}: CPUs "
            yield head + "\n  ".join(wrapped(cpus, width - len(head)))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
