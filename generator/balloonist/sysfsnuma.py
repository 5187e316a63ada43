"""The NUMA nodes of a Linux machine out of its files: CPUs, memory and distances of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from balloonist.cpuset import Cpuset, union
from balloonist.sysfstree import CPU, NODE, Reader, listed

_LOCAL: Final = 10
_LARGEST_DISTANCE: Final = 255
_MEMINFO: Final = "proc/meminfo"


@dataclass(frozen=True)
class Numa:
    """One NUMA node; ``cpus`` are online ones, ``distances`` follow the ascending ids."""

    id: int
    cpus: Cpuset
    memory_mib: int
    distances: tuple[int, ...]


def numa_nodes(reader: Reader, online: Cpuset, present: Cpuset) -> tuple[Numa, ...]:
    """All NUMA nodes by id; a single one with all CPUs where the kernel shows no NUMA directory."""
    if NODE not in reader.snapshot.directories:
        return (Numa(0, online, _machine_memory(reader), (_LOCAL,)),)
    ids = _ids(reader)
    nodes = tuple(
        Numa(node, _cpus(reader, node, present) & online, _memory(reader, node, ids), _distances(reader, node, ids))
        for node in ids
    )
    for index, node in enumerate(nodes):
        for other in nodes[:index]:
            if both := node.cpus & other.cpus:
                message = f"CPUs {both} are in {NODE}/node{other.id}/cpulist as well"
                reader.refuse(f"{NODE}/node{node.id}/cpulist", message, "a CPU is on one NUMA node")
    if homeless := online - union(node.cpus for node in nodes):
        message = f"CPUs {homeless} are online but on no NUMA node (NUMA nodes here: {listed(ids)})"
        reader.refuse(NODE, message, "each online CPU is in the cpulist of one NUMA node")
    return nodes


def _ids(reader: Reader) -> tuple[int, ...]:
    """Ids of the NUMA nodes; the list of the kernel and the directories have to agree."""
    there = reader.snapshot.numbers(NODE, "node")
    path = f"{NODE}/online"
    if not reader.has(path):
        if not there:
            reader.refuse(path, "is missing", "expected a list of NUMA nodes such as 0-1")
        return there
    expected = reader.cpuset(path, required=True)  # the same list format
    if not expected:
        return there
    for node in expected - Cpuset.of(there):
        reader.refuse(f"{NODE}/node{node}", "is missing", f"{path} lists NUMA nodes {expected}")
    for node in Cpuset.of(there) - expected:
        reader.refuse(path, f"lists NUMA nodes {expected}, but there is a directory node{node}", "both name the same")
    return there


def _cpus(reader: Reader, node: int, present: Cpuset) -> Cpuset:
    path = f"{NODE}/node{node}/cpulist"
    if not reader.has(path):
        reader.refuse(path, "is missing", "expected a list of CPUs such as 0-63, empty for a memory-only NUMA node")
    cpus = reader.cpuset(path)
    if unknown := cpus - present:
        reader.refuse(
            path,
            f"lists CPUs {unknown}, which {CPU}/online and offline do not have ({present})",
            "this is not the host's view: a container filesystem such as lxcfs hides CPUs; collect on the host",
        )
    return cpus


def _memory(reader: Reader, node: int, ids: Sequence[int]) -> int:
    """Memory of a NUMA node in MiB; a machine with a single one may show it only in /proc/meminfo."""
    path = f"{NODE}/node{node}/meminfo"
    if not reader.has(path) and len(ids) == 1:
        reader.warnings.append(f"{path} is missing: the memory of NUMA node {node} is that of {_MEMINFO}")
        return _machine_memory(reader)
    return reader.memory_mib(path)


def _machine_memory(reader: Reader) -> int:
    if not reader.has(_MEMINFO):
        reader.warnings.append(f"{_MEMINFO} is missing: the memory is not known and taken as 0")
        return 0
    return reader.memory_mib(_MEMINFO)


def _distances(reader: Reader, node: int, ids: Sequence[int]) -> tuple[int, ...]:
    path = f"{NODE}/node{node}/distance"
    if not reader.has(path) and len(ids) == 1:
        return (_LOCAL,)
    harmless = tuple(_LOCAL for _ in ids)
    expected = f"one distance to each of {len(ids)} NUMA nodes, such as {' '.join(['10', *['21'] * (len(ids) - 1)])!r}"
    text = reader.text(path, expected)
    if text is None:
        return harmless
    parts = text.split()
    if len(parts) != len(ids) or not all(re.fullmatch(r"[0-9]{1,3}", part) for part in parts):
        reader.refuse(path, f"says {text[:60]!r}", f"expected {expected}")
        return harmless
    distances = tuple(map(int, parts))
    if not _LOCAL <= min(distances) <= max(distances) <= _LARGEST_DISTANCE:
        reader.refuse(path, f"says {text[:60]!r}", f"distances are {_LOCAL} (local) to {_LARGEST_DISTANCE}")
    return distances
