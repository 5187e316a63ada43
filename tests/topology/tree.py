"""Sysfs trees for tests: the files that Linux shows for a machine, as a mapping and on disk."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from balloonist.cpuset import Cpuset, union
from balloonist.topology import Topology

CPU = "sys/devices/system/cpu"
NODE = "sys/devices/system/node"

Files = dict[str, str]


@dataclass(frozen=True)
class Threads:
    """The online threads of one core and where they are."""

    cpus: str
    numa: int = 0
    package: int = 0
    die: int = 0


def core_files(cores: Iterable[Threads]) -> Files:
    """Siblings, package and die of every CPU."""
    files: Files = {}
    for core in cores:
        for cpu in Cpuset.parse(core.cpus):
            directory = f"{CPU}/cpu{cpu}/topology"
            files[f"{directory}/core_cpus_list"] = core.cpus
            files[f"{directory}/thread_siblings_list"] = core.cpus
            files[f"{directory}/physical_package_id"] = str(core.package)
            files[f"{directory}/die_id"] = str(core.die)
    return files


def numa_files(
    cores: Iterable[Threads], memory_kb: Mapping[int, int], distances: Mapping[int, Iterable[int]] | None = None
) -> Files:
    """The NUMA directory; ``memory_kb`` has every NUMA node. Distances are 10 and 21 unless given."""
    cpus: defaultdict[int, list[Cpuset]] = defaultdict(list)
    for core in cores:
        cpus[core.numa].append(Cpuset.parse(core.cpus))
    files = {f"{NODE}/online": Cpuset.of(memory_kb).text}
    for node, kilobytes in memory_kb.items():
        row = distances[node] if distances else [10 if other == node else 21 for other in memory_kb]
        files[f"{NODE}/node{node}/cpulist"] = union(cpus[node]).text
        files[f"{NODE}/node{node}/distance"] = " ".join(map(str, row))
        free = f"Node {node} MemFree:        1024 kB"
        files[f"{NODE}/node{node}/meminfo"] = f"Node {node} MemTotal:       {kilobytes} kB\n{free}"
    return files


def linux(
    cores: Iterable[Threads],
    memory_kb: Mapping[int, int] | None,
    *,
    offline: str = "",
    distances: Mapping[int, Iterable[int]] | None = None,
) -> Files:
    """All files of a machine. ``memory_kb`` None means that the kernel shows no NUMA directory."""
    cores = list(cores)
    online = union(Cpuset.parse(core.cpus) for core in cores)
    present = online | Cpuset.parse(offline)
    files = {
        f"{CPU}/online": online.text,
        f"{CPU}/offline": offline,
        f"{CPU}/present": present.text,
        f"{CPU}/possible": present.text,
        f"{CPU}/isolated": "",
        "proc/meminfo": "MemTotal:       16384000 kB\nMemFree:         1000000 kB",
        "proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: synthetic\nflags\t\t: fpu lm ht",
    }
    files |= core_files(cores)
    return files | (numa_files(cores, memory_kb, distances) if memory_kb is not None else {})


def of_topology(topology: Topology) -> Files:
    """The files that Linux would show for a topology."""
    cores = [Threads(core.cpus.text, core.numa_node, core.package, core.die) for core in topology.cores]
    memory = {numa.id: numa.memory_mib * 1024 for numa in topology.numa_nodes}
    distances = {numa.id: numa.distances for numa in topology.numa_nodes}
    return linux(cores, memory, offline=topology.offline.text, distances=distances)


def write(root: Path, files: Mapping[str, str]) -> Path:
    """Write the files below ``root``, each with the newline that the kernel adds; returns ``root``."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="utf-8")
    return root


def pairs(cores: int, apart: int, *, numa: int = 0, package: int = 0, first: int = 0) -> list[Threads]:
    """Cores of two threads whose ids are ``apart`` from each other."""
    step = 2 if apart == 1 else 1
    return [
        Threads(Cpuset.of((first + index * step, first + index * step + apart)).text, numa, package)
        for index in range(cores)
    ]
