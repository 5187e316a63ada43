"""A node's CPU topology as data: the model, its JSON form and the checks that it is consistent.

Everything counts *logical CPUs* by the kernel's ids; memory is in MiB. Only online CPUs belong to cores and NUMA
nodes; offline ones are named apart. Nothing here reads a file or the machine (see ``sysfs.py`` for that).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from balloonist.cpuset import EMPTY, Cpuset, CpusetError, union
from balloonist.problem import Problem, ProblemError

API_VERSION: Final = "balloonist/v1"
KIND: Final = "Topology"


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


def to_json(topology: Topology) -> dict[str, Any]:
    """The JSON form (see schemas/topology.schema.json); the inverse of :func:`from_json`."""
    document: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "node": topology.node,
        "architecture": topology.architecture,
        "kernel": topology.kernel,
        "cpu_model": topology.cpu_model,
        "cpus": {
            "online": topology.online.text,
            "offline": topology.offline.text,
            "isolated": topology.isolated.text,
        },
        "core_types": {name: cpus.text for name, cpus in topology.core_types},
        "numa_directory": topology.numa_directory,
        "packages": [
            {"id": package.id, "dies": [{"id": die.id, "cpus": die.cpus.text} for die in package.dies]}
            for package in topology.packages
        ],
        "numa_nodes": [
            {
                "id": numa.id,
                "memory_mib": numa.memory_mib,
                "distances": list(numa.distances),
                "cores": [core.cpus.text for core in numa.cores],
            }
            for numa in topology.numa_nodes
        ],
        "warnings": list(topology.warnings),
    }
    return document


def dump(topology: Topology) -> str:
    """The JSON text; lists of plain values stand on one line, so that a diff stays readable. Same input, same bytes."""
    return _pretty(to_json(topology), "") + "\n"


def _pretty(value: Any, margin: str) -> str:
    inner = margin + "  "
    if isinstance(value, dict) and value:
        fields = [f"{inner}{json.dumps(key)}: {_pretty(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(fields) + f"\n{margin}}}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return "[\n" + ",\n".join(inner + _pretty(item, inner) for item in value) + f"\n{margin}]"
    return json.dumps(value)


def from_json(document: Mapping[str, Any], source: str) -> Topology:
    """Build a topology from a document that the JSON Schema has accepted; ``source`` names it in errors.

    Raises :class:`ProblemError` with every contradiction found: a CPU on two cores or on none, a package or NUMA node
    twice, distances that do not fit, siblings in two packages.
    """
    problems: list[Problem] = []

    def cpuset(key: str, text: str) -> Cpuset:
        try:
            return Cpuset.parse(text)
        except CpusetError as error:
            problems.append(Problem(source, key, str(error)))
            return EMPTY

    packages = tuple(
        Package(
            entry["id"],
            tuple(
                Die(die["id"], cpuset(f"packages[{index}].dies[{position}].cpus", die["cpus"]))
                for position, die in enumerate(entry["dies"])
            ),
        )
        for index, entry in enumerate(document["packages"])
    )
    homes = {cpu: (package.id, die.id) for package in packages for die in package.dies for cpu in die.cpus}
    numa_nodes: list[NumaNode] = []
    for index, entry in enumerate(document["numa_nodes"]):
        cores: list[Core] = []
        for position, text in enumerate(entry["cores"]):
            key = f"numa_nodes[{index}].cores[{position}]"
            cpus = cpuset(key, text)
            found = {homes[cpu] for cpu in cpus if cpu in homes}
            if cpus and len(found) == 1 and all(cpu in homes for cpu in cpus):
                cores.append(Core(cpus, entry["id"], *found.pop()))
            else:
                problems.append(_misplaced_core(source, key, cpus, found, homes))
        numa_nodes.append(
            NumaNode(
                entry["id"],
                entry["memory_mib"],
                tuple(entry["distances"]),
                tuple(sorted(cores, key=lambda core: core.cpus.first)),
            )
        )
    cpus = document["cpus"]
    topology = Topology(
        node=document["node"],
        architecture=document["architecture"],
        kernel=document.get("kernel", ""),
        cpu_model=document.get("cpu_model", ""),
        packages=packages,
        numa_nodes=tuple(numa_nodes),
        offline=cpuset("cpus.offline", cpus.get("offline", "")),
        isolated=cpuset("cpus.isolated", cpus.get("isolated", "")),
        core_types=tuple(
            (name, cpuset(f"core_types.{name}", text)) for name, text in sorted(document.get("core_types", {}).items())
        ),
        numa_directory=document.get("numa_directory", True),
        warnings=tuple(document.get("warnings", ())),
    )
    online = cpuset("cpus.online", cpus["online"])
    problems = problems or contradictions(topology, online, source)
    if problems:
        raise ProblemError(problems)
    return topology


def contradictions(topology: Topology, online: Cpuset, source: str) -> list[Problem]:
    """What cannot be true of any machine, given the CPUs that are said to be online; ``source`` names the topology."""
    return [*_numbering_problems(topology, source), *_membership_problems(topology, online, source)]


def _misplaced_core(
    source: str, key: str, cpus: Cpuset, found: set[tuple[int, int]], homes: Mapping[int, tuple[int, int]]
) -> Problem:
    if not cpus:
        return Problem(source, key, "a core has no CPU", "list its online sibling threads, e.g. '0,96'")
    homeless = Cpuset.of(cpu for cpu in cpus if cpu not in homes)
    if homeless:
        return Problem(
            source, key, f"CPU {homeless} belongs to no package", "every CPU of a core is in packages[].dies[]"
        )
    places = ", ".join(f"package {package} die {die}" for package, die in sorted(found))
    return Problem(source, key, f"sibling CPUs {cpus} are spread over {places}", "siblings share one package and die")


def _numbering_problems(topology: Topology, source: str) -> list[Problem]:
    """Ids that repeat, and distance lists that do not fit the NUMA nodes."""
    problems: list[Problem] = []
    count = len(topology.numa_nodes)
    if count == 0:
        problems.append(Problem(source, "numa_nodes", "there is no NUMA node", "every machine has at least one"))
    for name, ids in (
        ("packages", [package.id for package in topology.packages]),
        ("numa_nodes", [numa.id for numa in topology.numa_nodes]),
        *((f"packages[{index}].dies", [die.id for die in part.dies]) for index, part in enumerate(topology.packages)),
    ):
        for repeated in sorted(value for value, times in Counter(ids).items() if times > 1):
            problems.append(Problem(source, name, f"id {repeated} is there more than once", "every id is used once"))
        if ids != sorted(ids):
            problems.append(Problem(source, name, f"ids {ids} are out of order", "list them in ascending order"))
    for index, numa in enumerate(topology.numa_nodes):
        if len(numa.distances) != count:
            message = f"{len(numa.distances)} distances for {count} NUMA nodes"
            problems.append(
                Problem(source, f"numa_nodes[{index}].distances", message, "one distance to each NUMA node, in order")
            )
        elif numa.distances[index] > min(numa.distances):
            message = f"the distance to itself is {numa.distances[index]}, to another NUMA node {min(numa.distances)}"
            hint = "in the order of numa_nodes; the own one is the smallest"
            problems.append(Problem(source, f"numa_nodes[{index}].distances", message, hint))
    return problems


def _membership_problems(topology: Topology, online: Cpuset, source: str) -> list[Problem]:
    """Every online CPU is on exactly one core, in one die, and not offline as well."""
    problems: list[Problem] = []
    seen = EMPTY
    for index, numa in enumerate(topology.numa_nodes):
        for core in numa.cores:
            if twice := seen & core.cpus:
                message = f"CPU {twice} is on more than one core"
                problems.append(Problem(source, f"numa_nodes[{index}].cores", message, "each CPU stands on one core"))
            seen |= core.cpus
    dies = [die.cpus for package in topology.packages for die in package.dies]
    if sum(map(len, dies)) != len(union(dies)):
        problems.append(Problem(source, "packages", "a CPU is in more than one die", "each CPU stands in one die"))
    if not online:
        problems.append(Problem(source, "cpus.online", "no CPU is online", "a cpuset such as '0-191'"))
    if unknown := union(dies) - online:
        problems.append(
            Problem(source, "packages", f"CPUs {unknown} are in a die but not online", "dies list online CPUs")
        )
    problems += _core_type_problems(topology, online, source)
    if unknown := topology.isolated - online - topology.offline:
        problems.append(Problem(source, "cpus.isolated", f"CPUs {unknown} are neither online nor offline"))
    if missing := online - seen:
        message = f"CPUs {missing} are online but on no core of any NUMA node"
        problems.append(Problem(source, "numa_nodes", message, "each online CPU stands on one core of one NUMA node"))
    if extra := seen - online:
        message = f"CPUs {extra} are on a core but not online"
        problems.append(Problem(source, "cpus.online", message, "cores list online CPUs only"))
    if both := online & topology.offline:
        problems.append(Problem(source, "cpus.offline", f"CPUs {both} are both online and offline"))
    return problems


def _core_type_problems(topology: Topology, online: Cpuset, source: str) -> list[Problem]:
    """Every CPU of a core type is online, and of no other type."""
    problems = [
        Problem(source, f"core_types.{name}", f"CPUs {unknown} are not online")
        for name, cpus in topology.core_types
        if (unknown := cpus - online)
    ]
    kinds = [cpus for _, cpus in topology.core_types]
    if sum(map(len, kinds)) != len(union(kinds)):
        problems.append(Problem(source, "core_types", "a CPU is of more than one type", "each CPU is of one type"))
    return problems
