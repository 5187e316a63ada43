"""From the files of a Linux machine to its topology: pure, and strict about what contradicts itself.

Sources of the formats: Documentation/admin-guide/cputopology.rst, Documentation/ABI/stable/sysfs-devices-node and
Documentation/ABI/testing/sysfs-devices-system-cpu of the kernel. Siblings are what the kernel lists for each CPU, never
a halved list.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from balloonist import cpuinfo
from balloonist.cpuset import Cpuset, CpusetError
from balloonist.problem import ProblemError
from balloonist.sysfsnuma import Numa, numa_nodes
from balloonist.sysfstree import CPU, NODE, Reader, Snapshot, listed
from balloonist.topology import Core, Die, NumaNode, Package, Topology
from balloonist.topologychecks import contradictions

Places = Mapping[int, tuple[int, int]]
"""Package and die of each online CPU."""


def assemble(snapshot: Snapshot, node: str) -> Topology:
    """The topology that the files describe; ``node`` names it.

    Raises :class:`ProblemError` with every file that is missing, unreadable or contradicts another.
    """
    reader = Reader(snapshot)
    online, offline = _cpus(reader)
    reader.raise_if_any()
    siblings = _siblings(reader, online, online | offline)
    numa = numa_nodes(reader, online, online | offline)
    _check_distances(reader, numa)
    places = _places(reader, online)
    isolated = reader.cpuset(f"{CPU}/isolated")
    core_types = _core_types(reader, online)
    reader.raise_if_any()
    cores = _cores(reader, siblings, numa, places)
    reader.raise_if_any()
    about = snapshot.files.get("proc/cpuinfo", "")
    topology = Topology(
        node=node,
        architecture=snapshot.architecture or cpuinfo.architecture(about),
        kernel=_line(_kernel(snapshot.files)),
        cpu_model=_line(cpuinfo.cpu_model(about)),
        packages=_packages(places),
        numa_nodes=tuple(
            NumaNode(
                part.id, part.memory_mib, part.distances, tuple(core for core in cores if core.numa_node == part.id)
            )
            for part in numa
        ),
        offline=offline,
        isolated=isolated & (online | offline),
        core_types=core_types,
        numa_directory=NODE in snapshot.directories,
    )
    if found := contradictions(topology, online, "sys/devices/system"):
        raise ProblemError(found)
    return replace(topology, warnings=(*reader.warnings, *_notes(topology, snapshot)))


def _cpus(reader: Reader) -> tuple[Cpuset, Cpuset]:
    """The online CPUs, and those that are present but offline.

    The kernel's ``offline`` also lists CPUs that could be plugged in later; only present ones count. A view in which a
    present CPU is neither online nor offline is not the host's (lxc/lxcfs#731).
    """
    online = reader.cpuset(f"{CPU}/online", required=True)
    if reader.has(f"{CPU}/present"):
        present = reader.cpuset(f"{CPU}/present", required=True)
    else:
        present = Cpuset.of(reader.snapshot.numbers(CPU, "cpu")) | online
    if reader.problems:
        return online, present - online
    if unknown := online - present:
        reader.refuse(f"{CPU}/online", f"CPUs {unknown} are online but not present (present: {present})")
    if not reader.has(f"{CPU}/offline"):
        return online, present - online
    offline = reader.cpuset(f"{CPU}/offline")
    if lost := present - online - offline:
        reader.refuse(
            f"{CPU}/present",
            f"CPUs {lost} are present, but neither online ({online}) nor offline ({offline.text or 'none'})",
            "this is not the host's view: a container filesystem such as lxcfs hides CPUs; collect on the host",
        )
    if twice := online & offline:
        reader.refuse(f"{CPU}/offline", f"CPUs {twice} are both online and offline", "a CPU is one of them")
    return online, present - online


def _siblings(reader: Reader, online: Cpuset, present: Cpuset) -> dict[int, Cpuset]:
    """The online siblings of each online CPU, itself included."""
    paths = {cpu: _siblings_path(reader, cpu) for cpu in online}
    found: dict[int, Cpuset] = {}
    for cpu, path in paths.items():
        cpus = reader.cpuset(path, required=True)
        if not cpus:
            continue
        if cpu not in cpus:
            reader.refuse(path, f"lists CPUs {cpus}, without CPU {cpu} itself", "a CPU is its own sibling")
        if unknown := cpus - present:
            reader.refuse(path, f"lists CPUs {unknown} that are not present", f"present are {present}")
        found[cpu] = cpus & online
    for cpu, cpus in found.items():
        for other in cpus:
            theirs = found.get(other)
            if theirs is not None and theirs != cpus and (cpu < other or cpu not in theirs):
                message = f"says that CPUs {cpus} share a core, but {paths[other]} says {theirs}"
                reader.refuse(paths[cpu], message, "siblings name each other")
    return found


def _siblings_path(reader: Reader, cpu: int) -> str:
    """core_cpus_list, or its name before kernel 5.3."""
    directory = f"{CPU}/cpu{cpu}/topology"
    newer, older = f"{directory}/core_cpus_list", f"{directory}/thread_siblings_list"
    return newer if reader.has(newer) or not reader.has(older) else older


def _check_distances(reader: Reader, numa: Iterable[Numa]) -> None:
    for index, part in enumerate(numa):
        own, nearest = part.distances[index], min(part.distances)
        if own > nearest:
            message = f"says that NUMA node {part.id} is {own} from itself and {nearest} from another"
            reader.refuse(f"{NODE}/node{part.id}/distance", message, "the distance to itself is the smallest")


def _places(reader: Reader, online: Cpuset) -> Places:
    directories = {cpu: f"{CPU}/cpu{cpu}/topology" for cpu in online}
    return {
        cpu: (reader.identifier(f"{directory}/physical_package_id"), reader.identifier(f"{directory}/die_id"))
        for cpu, directory in directories.items()
    }


def _cores(reader: Reader, siblings: Mapping[int, Cpuset], numa: Iterable[Numa], places: Places) -> tuple[Core, ...]:
    """The cores by lowest CPU; siblings share NUMA node, package and die."""
    numa_of = {cpu: part.id for part in numa for cpu in part.cpus}
    cores: list[Core] = []
    for cpu, cpus in siblings.items():
        if cpu != cpus.first:
            continue
        path = _siblings_path(reader, cpu)
        found = sorted({numa_of[other] for other in cpus})
        if len(found) > 1:
            message = f"siblings {cpus} are on NUMA nodes {listed(found)}"
            reader.refuse(path, message, "siblings share one NUMA node")
        where = sorted({places[other] for other in cpus})
        if len(where) > 1:
            spread = ", ".join(f"package {package} die {die}" for package, die in where)
            reader.refuse(path, f"siblings {cpus} are spread over {spread}", "siblings share one package and die")
        cores.append(Core(cpus, numa_of[cpu], *places[cpu]))
    return tuple(cores)


def _packages(places: Places) -> tuple[Package, ...]:
    dies: defaultdict[int, defaultdict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for cpu, (package, die) in places.items():
        dies[package][die].append(cpu)
    return tuple(
        Package(package, tuple(Die(die, Cpuset.of(cpus)) for die, cpus in sorted(members.items())))
        for package, members in sorted(dies.items())
    )


_ALIKE: Final = 0.9
"""Capacities this near to the largest are of one kind of core: firmware measures equal cores a few percent apart."""


def _core_types(reader: Reader, online: Cpuset) -> tuple[tuple[str, Cpuset], ...]:
    """Performance and efficiency cores: Intel names them, Arm gives each CPU a capacity."""
    performance = reader.cpuset("sys/devices/cpu_core/cpus") & online
    efficiency = reader.cpuset("sys/devices/cpu_atom/cpus") | reader.cpuset("sys/devices/cpu_lowpower/cpus")
    efficiency &= online
    if both := performance & efficiency:
        reader.refuse("sys/devices/cpu_atom/cpus", f"CPUs {both} are in sys/devices/cpu_core/cpus as well")
    if not (performance and efficiency):
        capacities = _capacities(reader, online)
        largest = max(capacities.values(), default=0)
        performance = Cpuset.of(cpu for cpu, capacity in capacities.items() if capacity >= largest * _ALIKE)
        efficiency = Cpuset.of(capacities) - performance
    return (("efficiency", efficiency), ("performance", performance)) if efficiency else ()


def _capacities(reader: Reader, online: Cpuset) -> dict[int, int]:
    """The relative speed of each CPU (1024 is the fastest); empty unless the kernel gives it for all of them."""
    paths = {cpu: f"{CPU}/cpu{cpu}/cpu_capacity" for cpu in online}
    texts = {cpu: reader.snapshot.files.get(path) for cpu, path in paths.items()}
    return {cpu: reader.number(paths[cpu], text) for cpu, text in texts.items() if text} if all(texts.values()) else {}


def _kernel(files: Mapping[str, str]) -> str:
    match = re.match(r"Linux version (\S+)", files.get("proc/version", ""))
    return files.get("proc/sys/kernel/osrelease") or (match[1] if match else "")


def _line(text: str) -> str:
    """The text without control characters, which firmware may put into a CPU's name."""
    return " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text).split())


def _notes(topology: Topology, snapshot: Snapshot) -> Iterable[str]:
    """What a person should know about a topology that is consistent."""
    if topology.offline:
        yield f"CPUs {topology.offline} are offline"
    if not topology.numa_directory:
        yield "the kernel shows no NUMA nodes; all CPUs are taken as NUMA node 0"
    for numa in topology.numa_nodes:
        if len(numa.packages) > 1:
            yield f"NUMA node {numa.id} spans packages {listed(numa.packages)}; layouts go by NUMA node"
        if numa.cores and not numa.memory_mib:
            yield f"NUMA node {numa.id} has CPUs but no memory of its own"
    if topology.core_types:
        kinds = " and ".join(f"{name} cores ({cpus})" for name, cpus in reversed(topology.core_types))
        yield f"the machine mixes {kinds}"
    allowed = _allowed(snapshot.files.get("proc/self/status", ""))
    if allowed is not None and topology.online - topology.isolated - allowed:
        yield f"the collector itself is confined to CPUs {allowed}; the topology is the whole machine's"


def _allowed(status: str) -> Cpuset | None:
    """The CPUs that the collecting process itself may use; None where /proc/self/status does not tell."""
    match = re.search(r"^Cpus_allowed_list:[ \t]*(\S+)$", status, re.MULTILINE)
    try:
        return Cpuset.parse(match[1]) if match else None
    except CpusetError:
        return None
