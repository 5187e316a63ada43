"""Machines that nobody has yet: a topology from a few numbers, for planning ahead."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, get_args

from balloonist.cpuset import EMPTY, MAX_CPU, Cpuset, union
from balloonist.problem import Problem, ProblemError
from balloonist.topology import Core, Die, NumaNode, Package, Topology

Numbering = Literal["linux", "adjacent"]
"""``linux``: first threads of all cores are 0..cores-1, second threads follow. ``adjacent``: siblings are 2k, 2k+1."""

LOCAL: Final = 10
SAME_PACKAGE: Final = 12
OTHER_PACKAGE: Final = 21
MEMORY_ONLY: Final = 31

MAX_NUMA_NODES: Final = 1024
"""The kernel's own limit (CONFIG_NODES_SHIFT is 10 at most)."""

MAX_MEMORY_GIB: Final = 1_048_576
"""One PiB for a NUMA node; more is a typing error."""


@dataclass(frozen=True)
class Machine:
    """The numbers that describe a regular machine; ``memory_gib`` is for each NUMA node, memory-only ones too."""

    packages: int = 2
    numa_per_package: int = 2
    cores_per_numa: int = 24
    threads_per_core: int = 2
    numbering: Numbering = "linux"
    offline: Cpuset = EMPTY
    memory_only_nodes: int = 0
    memory_gib: int = 256

    @property
    def cores(self) -> int:
        """Cores in all, offline ones included."""
        return self.packages * self.numa_per_package * self.cores_per_numa

    @property
    def cpus(self) -> int:
        """Logical CPUs in all, offline ones included."""
        return self.cores * self.threads_per_core


def synthesize(node: str = "synthetic", **numbers: object) -> Topology:
    """The topology of a regular machine; the keywords are those of :class:`Machine`.

    Offline CPUs leave their cores; a NUMA node without online CPUs becomes memory-only. Raises :class:`ProblemError`
    for numbers that describe no machine.
    """
    machine = Machine(**numbers)  # type: ignore[arg-type]
    _refuse_nonsense(machine)
    numa_count = machine.packages * machine.numa_per_package
    total = numa_count + machine.memory_only_nodes
    numa_nodes = tuple(
        NumaNode(
            id=index,
            memory_mib=machine.memory_gib * 1024,
            distances=tuple(_distance(machine, index, other) for other in range(total)),
            cores=_cores(machine, index) if index < numa_count else (),
        )
        for index in range(total)
    )
    online = {
        package: union(numa.cpus for numa in numa_nodes if numa.packages == (package,))
        for package in range(machine.packages)
    }
    return Topology(
        node=node,
        architecture="x86_64",
        kernel="",
        cpu_model="synthetic",
        packages=tuple(Package(package, (Die(0, cpus),)) for package, cpus in online.items() if cpus),
        numa_nodes=numa_nodes,
        offline=machine.offline,
    )


def _cores(machine: Machine, numa: int) -> tuple[Core, ...]:
    package = numa // machine.numa_per_package
    first = numa * machine.cores_per_numa
    siblings = (_threads(machine, core) - machine.offline for core in range(first, first + machine.cores_per_numa))
    return tuple(Core(cpus, numa, package, 0) for cpus in sorted(filter(None, siblings), key=lambda cpus: cpus.first))


def _threads(machine: Machine, core: int) -> Cpuset:
    threads = range(machine.threads_per_core)
    if machine.numbering == "adjacent":
        return Cpuset.of(core * machine.threads_per_core + thread for thread in threads)
    return Cpuset.of(core + machine.cores * thread for thread in threads)


def _distance(machine: Machine, one: int, other: int) -> int:
    numa_count = machine.packages * machine.numa_per_package
    if one == other:
        return LOCAL
    if max(one, other) >= numa_count:
        return MEMORY_ONLY
    same = one // machine.numa_per_package == other // machine.numa_per_package
    return SAME_PACKAGE if same else OTHER_PACKAGE


def _refuse_nonsense(machine: Machine) -> None:
    problems: list[Problem] = []

    def refuse(name: str, message: str, hint: str) -> None:
        problems.append(Problem("", f"--{name.replace('_', '-')}", message, hint))

    for name in ("packages", "numa_per_package", "cores_per_numa", "threads_per_core"):
        value = getattr(machine, name)
        if value < 1:
            refuse(name, f"{value} is too small", "at least 1")
    for name in ("memory_only_nodes", "memory_gib"):
        value = getattr(machine, name)
        if value < 0:
            refuse(name, f"{value} is too small", "at least 0")
    if machine.numbering not in get_args(Numbering):
        refuse("numbering", f"{machine.numbering!r} is unknown", f"one of {', '.join(get_args(Numbering))}")
    if machine.memory_gib > MAX_MEMORY_GIB:
        refuse("memory_gib", f"{machine.memory_gib} is too large", f"at most {MAX_MEMORY_GIB}")
    numa_nodes = machine.packages * machine.numa_per_package + machine.memory_only_nodes
    if not problems and numa_nodes > MAX_NUMA_NODES:
        refuse("numa_per_package", f"the machine would have {numa_nodes} NUMA nodes", f"at most {MAX_NUMA_NODES}")
    if not problems and machine.cpus > MAX_CPU + 1:
        refuse("cores_per_numa", f"the machine would have {machine.cpus} CPUs", f"at most {MAX_CPU + 1}")
    if not problems:
        everything = Cpuset((1 << machine.cpus) - 1)
        if missing := machine.offline - everything:
            refuse("offline", f"there are no CPUs {missing}", f"the machine has {everything}")
        elif everything <= machine.offline:
            refuse("offline", "no CPU is left online", "leave at least one")
    if problems:
        raise ProblemError(problems)
