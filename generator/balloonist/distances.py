"""The NUMA distances of a machine in words, or as a matrix where words would lose something."""

from __future__ import annotations

from typing import Final

from balloonist.topology import NumaNode, Topology

_SELF: Final = "itself"
_NEAR: Final = "in a package"
_FAR: Final = "across packages"
_BARE: Final = "to memory without CPUs"


def lines(topology: Topology, width: int) -> list[str]:
    """One line such as ``NUMA distances: 10 itself, 12 in a package``; below it the matrix if a kind has several.

    The matrix is left out where it does not fit into ``width`` columns.
    """
    kinds: dict[str, set[int]] = {kind: set() for kind in (_SELF, _NEAR, _FAR, _BARE)}
    for numa in topology.numa_nodes:
        for other, distance in zip(topology.numa_nodes, numa.distances, strict=True):
            kinds[_kind(numa, other)].add(distance)
    shown = (f"{_range(values)} {kind}" for kind, values in kinds.items() if values)
    text = [f"NUMA distances: {', '.join(shown)}"]
    if any(len(values) > 1 for values in kinds.values()):
        text += _matrix(topology, width)
    return text


def _kind(numa: NumaNode, other: NumaNode) -> str:
    if numa.id == other.id:
        return _SELF
    if not (numa.cores and other.cores):
        return _BARE
    return _NEAR if set(numa.packages) & set(other.packages) else _FAR


def _range(values: set[int]) -> str:
    return f"{min(values)}-{max(values)}" if len(values) > 1 else str(min(values))


def _matrix(topology: Topology, width: int) -> list[str]:
    rows = [["NUMA", *(str(numa.id) for numa in topology.numa_nodes)]]
    rows += [[str(numa.id), *map(str, numa.distances)] for numa in topology.numa_nodes]
    wide = max(len(cell) for row in rows for cell in row[1:])
    text = ["  " + row[0].rjust(4) + "".join(" " + cell.rjust(wide) for cell in row[1:]) for row in rows]
    return text if len(text[0]) <= width else []
