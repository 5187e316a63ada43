"""A node's CPU topology as data.

Everything counts *logical CPUs* by the kernel's ids; memory is in MiB. Only online CPUs belong to cores and NUMA
nodes; offline ones are named apart. Nothing here reads a file or the machine (see ``sysfs.py`` for that).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

from balloonist.cpuset import EMPTY, Cpuset, union


@dataclass(frozen=True)
class Core:
    """One physical core: its online sibling threads, and where it sits."""

    cpus: Cpuset
    numa_node: int
    package: int
    die: int


@dataclass(frozen=True)
class NumaNode:
    """One NUMA node. ``distances`` follow the order of :attr:`Topology.numa_nodes`; 10 is local (ACPI SLIT)."""

    id: int
    memory_mib: int
    distances: tuple[int, ...]
    cores: tuple[Core, ...]

    @cached_property
    def cpus(self) -> Cpuset:
        """The online logical CPUs of this NUMA node; empty for a memory-only node."""
        return union(core.cpus for core in self.cores)

    @property
    def packages(self) -> tuple[int, ...]:
        """The packages its cores belong to, ascending; more than one on some virtual machines."""
        return tuple(sorted({core.package for core in self.cores}))


@dataclass(frozen=True)
class Die:
    """One die of a package with its online logical CPUs (die ids are unique only inside their package)."""

    id: int
    cpus: Cpuset


@dataclass(frozen=True)
class Package:
    """One physical package (socket)."""

    id: int
    dies: tuple[Die, ...]

    @cached_property
    def cpus(self) -> Cpuset:
        """The online logical CPUs of the package."""
        return union(die.cpus for die in self.dies)


@dataclass(frozen=True)
class Topology:
    """One Kubernetes node.

    ``numa_directory`` is False where the kernel shows no ``/sys/devices/system/node``: then there is one NUMA node 0.
    ``core_types`` holds what the kernel says of hybrid machines, as (name, CPUs)
    pairs sorted by name: "efficiency" and "performance".
    ``warnings`` are the collector's remarks for people.
    """

    node: str
    architecture: str
    kernel: str
    cpu_model: str
    packages: tuple[Package, ...]
    numa_nodes: tuple[NumaNode, ...]
    offline: Cpuset = EMPTY
    isolated: Cpuset = EMPTY
    core_types: tuple[tuple[str, Cpuset], ...] = ()
    numa_directory: bool = True
    warnings: tuple[str, ...] = ()

    @cached_property
    def online(self) -> Cpuset:
        """All online logical CPUs."""
        return union(numa.cpus for numa in self.numa_nodes)

    @cached_property
    def cores(self) -> tuple[Core, ...]:
        """All cores, by NUMA node and then by lowest CPU id."""
        return tuple(core for numa in self.numa_nodes for core in numa.cores)

    @cached_property
    def threads_per_core(self) -> int:
        """Threads of a regular core: the count that covers the most CPUs (the larger count on a tie).

        A half-offline core of an SMT machine, or an efficiency core of a hybrid one, is irregular: it has fewer.
        """
        cpus_by_threads: Counter[int] = Counter()
        for core in self.cores:
            cpus_by_threads[len(core.cpus)] += len(core.cpus)
        return max(cpus_by_threads, key=lambda threads: (cpus_by_threads[threads], threads))

    def numa(self, node_id: int) -> NumaNode:
        """The NUMA node of that id; KeyError if there is none."""
        for numa in self.numa_nodes:
            if numa.id == node_id:
                return numa
        raise KeyError(node_id)
