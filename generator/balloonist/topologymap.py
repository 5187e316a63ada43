"""A machine drawn as a person would draw it: packages as boxes, NUMA nodes in them, one mark for each core."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import Final

from rich import box
from rich.columns import Columns
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.text import Text

from balloonist.cpuset import EMPTY, Cpuset, union
from balloonist.topology import Core, NumaNode, Package, Topology

RESERVED: Final = "R"
SPLIT: Final = "r"
FREE: Final = "."
PARTIAL: Final = "-"
EFFICIENCY: Final = "e"

LETTERS: Final = [letter for letter in ascii_uppercase if letter != RESERVED] + [
    letter for letter in ascii_uppercase.lower() if letter not in (SPLIT, EFFICIENCY)
]
"""Marks of owners, in the order the owners are given; owners beyond them share the last mark, ``#``."""

OTHERS: Final = "#"

_COLOURS: Final = ("green", "blue", "magenta", "yellow", "cyan", "bright_green", "bright_blue", "bright_magenta")
_CORES_WITH_IDS: Final = 8
"""NUMA nodes of up to so many cores show the CPU ids of each core; larger ones show runs of cores."""
_STRIP: Final = 32
_BORDERS: Final = 2


@dataclass(frozen=True)
class _Drawing:
    """What is being drawn and how."""

    topology: Topology
    reserved: Cpuset
    marks: Mapping[str, tuple[str, Cpuset]]
    unicode: bool

    @property
    def box(self) -> box.Box:
        return box.SQUARE if self.unicode else box.ASCII

    def mark(self, core: Core) -> str:
        """The one character that says whose a core is."""
        if core.cpus <= self.reserved:
            return RESERVED
        for letter, cpus in self.marks.values():
            if not core.cpus.isdisjoint(cpus):
                return letter
        if not core.cpus.isdisjoint(self.reserved):
            return SPLIT
        if any(name == "efficiency" and core.cpus <= cpus for name, cpus in self.topology.core_types):
            return EFFICIENCY
        return FREE if len(core.cpus) == self.topology.threads_per_core else PARTIAL


def draw(
    topology: Topology,
    reserved: Cpuset = EMPTY,
    owners: Mapping[str, Cpuset] | None = None,
    width: int = 100,
    unicode: bool = True,
) -> RenderableType:
    """The map of one machine; ``owners`` names who has which CPUs. ``unicode`` False keeps to ASCII characters."""
    letters = [*LETTERS, *[OTHERS] * len(owners or {})]
    marks = {name: (letter, cpus) for (name, cpus), letter in zip((owners or {}).items(), letters, strict=False)}
    drawing = _Drawing(topology, reserved, marks, unicode)
    inner = max(_inner_width(drawing, numa) for numa in topology.numa_nodes)
    boxes = [_package_box(drawing, package, inner, width) for package in topology.packages]
    bare = [numa for numa in topology.numa_nodes if not numa.cores]
    parts: list[RenderableType] = [Text(line) for line in _summary(topology, unicode)]
    parts.append(Columns(boxes, padding=(0, 1)))
    if bare:
        parts.append(Columns([_numa_box(drawing, numa, inner) for numa in bare], padding=(0, 1)))
    parts += [*_legend(drawing), *(Text(line) for line in _remarks(topology))]
    return Group(*parts)


def _package_box(drawing: _Drawing, package: Package, inner: int, width: int) -> Panel:
    members = [numa for numa in drawing.topology.numa_nodes if numa.packages and numa.packages[0] == package.id]
    if not members:  # a virtual machine may show a package for each CPU; its NUMA nodes are drawn with the first one
        return Panel(Text(f"CPUs {package.cpus}"), title=f"package {package.id}", box=drawing.box, expand=False)
    columns = _columns(len(members), inner, width, len(drawing.topology.packages))
    rows = [members[start : start + columns] for start in range(0, len(members), columns)]
    grid = Group(*(Columns([_numa_box(drawing, numa, inner) for numa in row], padding=(0, 1)) for row in rows))
    wide = columns * (inner + _BORDERS + 1) - 1 + _BORDERS
    title = f"package {package.id}"
    return Panel(grid, title=title, title_align="left", box=drawing.box, width=min(wide, width), padding=0)


def _columns(members: int, inner: int, width: int, packages: int) -> int:
    """NUMA nodes side by side: so many that two packages fit beside each other, if at least two nodes then do."""
    alone = max(1, (width - _BORDERS + 1) // (inner + _BORDERS + 1))
    paired = (width // 2 - _BORDERS) // (inner + _BORDERS + 1)
    return min(members, paired if packages > 1 and paired > 1 else alone)


def _numa_title(numa: NumaNode) -> str:
    memory = f"{numa.memory_mib / 1024:.0f} GiB" if numa.memory_mib >= 10_240 else f"{numa.memory_mib} MiB"
    return f"NUMA {numa.id}, {memory}"


def _inner_width(drawing: _Drawing, numa: NumaNode) -> int:
    lines = [line.cell_len for line in _numa_lines(drawing, numa)]
    return max([len(_numa_title(numa)) + 4, *lines])


def _numa_box(drawing: _Drawing, numa: NumaNode, inner: int) -> Panel:
    lines = Text("\n").join(_numa_lines(drawing, numa))
    title = _numa_title(numa)
    return Panel(lines, title=title, title_align="left", box=drawing.box, width=inner + _BORDERS, padding=0)


def _numa_lines(drawing: _Drawing, numa: NumaNode) -> list[Text]:
    if not numa.cores:
        return [Text("memory only")]
    marked = [(drawing.mark(core), core) for core in numa.cores]
    if len(marked) <= _CORES_WITH_IDS:
        cells = [Text.assemble((mark, _style(mark)), f" {core.cpus.listing}") for mark, core in marked]
        wide = max(cell.cell_len for cell in cells)
        for cell in cells:
            cell.pad_right(wide - cell.cell_len)
        rows = [cells[start : start + 2] for start in range(0, len(cells), 2)]
        return [Text("  ").join(row) for row in rows]
    strip = Text.assemble(*((mark, _style(mark)) for mark, _ in marked))
    lines = [strip[start : start + _STRIP] for start in range(0, len(strip), _STRIP)]
    return lines + [Text.assemble((mark, _style(mark)), f" {cpus.text}") for mark, cpus in _by_mark(marked)]


def _by_mark(marked: Sequence[tuple[str, Core]]) -> Iterable[tuple[str, Cpuset]]:
    for mark in dict.fromkeys(mark for mark, _ in marked):
        yield mark, union(core.cpus for own, core in marked if own == mark)


def _style(mark: str) -> str:
    if mark in (RESERVED, SPLIT):
        return "bold red"
    if mark in (FREE, PARTIAL, EFFICIENCY):
        return "dim"
    return _COLOURS[LETTERS.index(mark) % len(_COLOURS)] if mark in LETTERS else "bold"


def _summary(topology: Topology, unicode: bool) -> Iterable[str]:
    threads = topology.threads_per_core
    what = [topology.cpu_model, topology.architecture, f"kernel {topology.kernel}" if topology.kernel else ""]
    yield (" · " if unicode else ", ").join(filter(None, what))
    numbering = ""
    if threads > 1:
        example = next(core.cpus for core in topology.cores if len(core.cpus) == threads)
        numbering = f", siblings such as {example.listing}"
    yield (
        f"{_count(len(topology.packages), 'package')}, {_count(len(topology.numa_nodes), 'NUMA node')}, "
        f"{_count(len(topology.cores), 'core')}, {_count(len(topology.online), 'CPU')} "
        f"({_count(threads, 'thread')} per core{numbering})"
    )
    yield _distances(topology)


def _distances(topology: Topology) -> str:
    """The distances by relation, e.g. ``12 in a package, 21 across packages``."""
    kinds: dict[str, set[int]] = {
        "itself": set(),
        "in a package": set(),
        "across packages": set(),
        "to memory without CPUs": set(),
    }
    for numa in topology.numa_nodes:
        for other, distance in zip(topology.numa_nodes, numa.distances, strict=True):
            if numa.id == other.id:
                kinds["itself"].add(distance)
            elif not (numa.cores and other.cores):
                kinds["to memory without CPUs"].add(distance)
            else:
                near = set(numa.packages) & set(other.packages)
                kinds["in a package" if near else "across packages"].add(distance)
    shown = (f"{_range(values)} {kind}" for kind, values in kinds.items() if values)
    return f"NUMA distances: {', '.join(shown)}"


def _range(values: set[int]) -> str:
    return f"{min(values)}-{max(values)}" if len(values) > 1 else str(min(values))


def _legend(drawing: _Drawing) -> list[Text]:
    used = Counter(drawing.mark(core) for core in drawing.topology.cores)
    fixed = (
        (RESERVED, "reserved"),
        (SPLIT, "core with a reserved and a free thread"),
        (FREE, "free core"),
        (PARTIAL, "core with fewer online threads than the others"),
        (EFFICIENCY, "efficiency core"),
    )
    entries = [(mark, f"{meaning} ({used[mark]})") for mark, meaning in fixed if used[mark]]
    entries += [
        (letter, f"{name} ({_count(_cores_of(drawing, cpus), 'core')})")
        for name, (letter, cpus) in drawing.marks.items()
    ]
    return [Text.assemble((mark, _style(mark)), f" {meaning}") for mark, meaning in entries]


def _cores_of(drawing: _Drawing, cpus: Cpuset) -> int:
    return sum(not core.cpus.isdisjoint(cpus) for core in drawing.topology.cores)


def _remarks(topology: Topology) -> Iterable[str]:
    if topology.offline:
        yield f"offline: CPUs {topology.offline}"
    if topology.isolated:
        yield f"isolated by the kernel: CPUs {topology.isolated}"
    for name, cpus in topology.core_types:
        yield f"{name} cores: CPUs {cpus}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
