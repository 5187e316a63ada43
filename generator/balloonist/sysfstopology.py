"""From the files of a Linux machine to its topology: pure, and strict about what contradicts itself.

Sources of the formats: Documentation/admin-guide/cputopology.rst and Documentation/ABI/stable/sysfs-devices-node of the
kernel. Siblings are what the kernel lists for each CPU, never a halved list.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from balloonist.cpuset import EMPTY, Cpuset, CpusetError, union
from balloonist.problem import Problem, ProblemError
from balloonist.sysfs import CPU, NODE, Files
from balloonist.topology import Core, Die, NumaNode, Package, Topology, contradictions


def assemble(files: Files, node: str, architecture: str = "") -> Topology:
    """The topology that ``files`` (see :func:`balloonist.sysfs.snapshot`) describe.

    ``architecture`` is used where given, else /proc/cpuinfo is asked. Raises :class:`ProblemError` with every file that
    is missing, unreadable or contradicts another.
    """
    tree = _Tree(files)
    online = tree.cpuset(f"{CPU}/online", required=True)
    offline = _offline(tree, online)
    tree.raise_if_any()
    siblings = _siblings(tree, online)
    numa = _numa_nodes(tree, online)
    tree.raise_if_any()
    places = {cpu: (tree.identifier(cpu, "physical_package_id"), tree.identifier(cpu, "die_id")) for cpu in online}
    cores = _cores(tree, siblings, numa, places)
    tree.raise_if_any()
    topology = Topology(
        node=node,
        architecture=architecture or _architecture(files.get("proc/cpuinfo", "")),
        kernel=_kernel(files),
        cpu_model=_cpu_model(files.get("proc/cpuinfo", "")),
        packages=_packages(places),
        numa_nodes=tuple(
            NumaNode(
                item.id, item.memory_mib, item.distances, tuple(core for core in cores if core.numa_node == item.id)
            )
            for item in numa
        ),
        offline=offline,
        isolated=tree.cpuset(f"{CPU}/isolated") & online,
        core_types=_core_types(tree, online),
        numa_directory=any(name.startswith(f"{NODE}/node") for name in files),
    )
    found = [*tree.problems, *contradictions(topology, online, "sys/devices/system")]
    if found:
        raise ProblemError(found)
    return _with_warnings(topology, tree.cpuset_of_status())


@dataclass(frozen=True)
class _Numa:
    id: int
    cpus: Cpuset
    memory_mib: int
    distances: tuple[int, ...]


@dataclass
class _Tree:
    """The files with readers that note what is wrong instead of stopping at the first fault."""

    files: Files
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, name: str, message: str, hint: str = "") -> None:
        self.problems.append(Problem(name, "", message, hint))

    def raise_if_any(self) -> None:
        if self.problems:
            raise ProblemError(self.problems)

    def cpuset(self, name: str, *, required: bool = False) -> Cpuset:
        text = self.files.get(name)
        if not text:
            if required:
                self.refuse(name, "is missing" if text is None else "is empty", "a list of CPUs such as 0-63")
            return EMPTY
        try:
            return Cpuset.parse(text)
        except CpusetError as error:
            self.refuse(name, str(error))
            return EMPTY

    def identifier(self, cpu: int, name: str) -> int:
        """A package or die id; some machines have none or say -1, which stands for the only one: 0."""
        path = f"{CPU}/cpu{cpu}/topology/{name}"
        text = self.files.get(path, "0")
        if not re.fullmatch(r"-?\d{1,9}", text):
            self.refuse(path, f"{text[:40]!r} is not a number", "an id such as 0")
            return 0
        return max(int(text), 0)

    def cpuset_of_status(self) -> Cpuset | None:
        """The CPUs that the collecting process itself may use; None where it is not known."""
        match = re.search(r"^Cpus_allowed_list:\s*(\S+)$", self.files.get("proc/self/status", ""), re.MULTILINE)
        try:
            return Cpuset.parse(match[1]) if match else None
        except CpusetError:
            return None


def _offline(tree: _Tree, online: Cpuset) -> Cpuset:
    """Present CPUs that are not online. A view in which some are neither is not the host's (lxc/lxcfs#731)."""
    present = tree.cpuset(f"{CPU}/present")
    listed_offline = tree.cpuset(f"{CPU}/offline")
    if f"{CPU}/offline" in tree.files and (lost := present - online - listed_offline):
        tree.refuse(
            f"{CPU}/present",
            f"CPUs {lost} are present, but neither online ({online}) nor offline ({listed_offline or 'none'})",
            "this is not the host's view: a container filesystem such as lxcfs hides CPUs; collect on the host",
        )
    if twice := online & listed_offline:
        tree.refuse(f"{CPU}/offline", f"CPUs {twice} are both online and offline")
    return present - online


def _siblings(tree: _Tree, online: Cpuset) -> dict[int, Cpuset]:
    found: dict[int, Cpuset] = {}
    for cpu in online:
        directory = f"{CPU}/cpu{cpu}/topology"
        names = [f"{directory}/thread_siblings_list", f"{directory}/core_cpus_list"]
        name = next((name for name in names if name in tree.files), names[0])
        found[cpu] = tree.cpuset(name, required=True) & online
        if name in tree.files and found[cpu] and cpu not in found[cpu]:
            tree.refuse(name, f"lists {found[cpu]}, without CPU {cpu} itself", "a CPU is its own sibling")
    for cpu, cpus in found.items():
        for other in cpus:
            if found.get(other) != cpus and cpu < other and found.get(other):
                name = f"{CPU}/cpu{cpu}/topology/thread_siblings_list"
                tree.refuse(name, f"lists {cpus}, but CPU {other} lists {found[other]}", "siblings agree")
    return found


def _numa_nodes(tree: _Tree, online: Cpuset) -> tuple[_Numa, ...]:
    ids = sorted({int(match[1]) for name in tree.files if (match := re.match(rf"{NODE}/node(\d+)/", name))})
    if not ids:
        return (_Numa(0, online, _total_memory(tree.files.get("proc/meminfo")) or 0, (10,)),)
    nodes = tuple(
        _Numa(
            node,
            tree.cpuset(f"{NODE}/node{node}/cpulist") & online,
            _memory(tree, node, ids),
            _distances(tree, node, ids),
        )
        for node in ids
    )
    for index, node in enumerate(nodes):
        for other in nodes[index + 1 :]:
            if both := node.cpus & other.cpus:
                tree.refuse(f"{NODE}/node{other.id}/cpulist", f"CPUs {both} are on NUMA node {node.id} as well")
    if homeless := online - union(node.cpus for node in nodes):
        hint = "each online CPU is in the cpulist of one NUMA node"
        tree.refuse(NODE, f"CPUs {homeless} are online but on no NUMA node ({_listed(ids)} are there)", hint)
    return nodes


def _memory(tree: _Tree, node: int, ids: Sequence[int]) -> int:
    """Memory of a NUMA node in MiB; a machine with a single one may show it only in /proc/meminfo."""
    name = f"{NODE}/node{node}/meminfo"
    text = tree.files.get(name)
    if text is None and len(ids) == 1:
        return _total_memory(tree.files.get("proc/meminfo")) or 0
    memory = _total_memory(text)
    if memory is None:
        tree.refuse(name, "is missing" if text is None else "has no MemTotal", "a line 'Node 0 MemTotal: 263856 kB'")
    return memory or 0


def _total_memory(meminfo: str | None) -> int | None:
    match = re.search(r"\bMemTotal:\s*(\d+) kB", meminfo or "")
    return int(match[1]) // 1024 if match else None


def _distances(tree: _Tree, node: int, ids: Sequence[int]) -> tuple[int, ...]:
    name = f"{NODE}/node{node}/distance"
    text = tree.files.get(name)
    if text is None:
        return tuple(10 if other == node else 20 for other in ids)
    if not re.fullmatch(r"\d{1,3}(\s+\d{1,3})*", text) or len(text.split()) != len(ids):
        tree.refuse(name, f"{text[:60]!r} is not one distance to each of {len(ids)} NUMA nodes", "such as '10 21'")
        return tuple(10 if other == node else 20 for other in ids)
    return tuple(int(part) for part in text.split())


def _cores(
    tree: _Tree, siblings: dict[int, Cpuset], numa: Iterable[_Numa], places: dict[int, tuple[int, int]]
) -> list[Core]:
    numa_of = {cpu: node.id for node in numa for cpu in node.cpus}
    cores: list[Core] = []
    for cpu, cpus in siblings.items():
        if cpu != cpus.first:
            continue
        name = f"{CPU}/cpu{cpu}/topology/thread_siblings_list"
        if len({numa_of[other] for other in cpus}) > 1:
            spread = _listed(sorted({numa_of[other] for other in cpus}))
            tree.refuse(name, f"siblings {cpus} are on NUMA nodes {spread}", "siblings share one NUMA node")
        if len({places[other] for other in cpus}) > 1:
            tree.refuse(
                name, f"siblings {cpus} are in different packages or dies", "siblings share one package and die"
            )
        cores.append(Core(cpus, numa_of[cpu], *places[cpu]))
    return cores


def _packages(places: dict[int, tuple[int, int]]) -> tuple[Package, ...]:
    dies: defaultdict[int, defaultdict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for cpu, (package, die) in places.items():
        dies[package][die].append(cpu)
    return tuple(
        Package(package, tuple(Die(die, Cpuset.of(cpus)) for die, cpus in sorted(members.items())))
        for package, members in sorted(dies.items())
    )


def _core_types(tree: _Tree, online: Cpuset) -> tuple[tuple[str, Cpuset], ...]:
    """Performance and efficiency cores: Intel names them, Arm gives each CPU a capacity."""
    performance = tree.cpuset("sys/devices/cpu_core/cpus") & online
    efficiency = tree.cpuset("sys/devices/cpu_atom/cpus") & online
    if not efficiency:
        capacity = {cpu: tree.files.get(f"{CPU}/cpu{cpu}/cpu_capacity", "") for cpu in online}
        numbers = {cpu: int(text) for cpu, text in capacity.items() if text.isdigit()}
        if len(numbers) < len(online) or len(set(numbers.values())) < 2:
            return ()
        performance = Cpuset.of(cpu for cpu, number in numbers.items() if number == max(numbers.values()))
        efficiency = online - performance
    return (("efficiency", efficiency), ("performance", performance))


def _kernel(files: Files) -> str:
    match = re.match(r"Linux version (\S+)", files.get("proc/version", ""))
    return files.get("proc/sys/kernel/osrelease") or (match[1] if match else "")


def _architecture(cpuinfo: str) -> str:
    """A recorded tree has no uname; the keys of /proc/cpuinfo differ by architecture."""
    for pattern, name in (
        (r"^flags\s*:.*\blm\b", "x86_64"),
        (r"^vendor_id\s*:\s*IBM/S390", "s390x"),
        (r"^CPU implementer\s*:", "aarch64"),
        (r"^cpu\s*:\s*POWER", "ppc64le"),
        (r"^isa\s*:\s*rv64", "riscv64"),
        (r"^vendor_id\s*:", "x86_64"),
    ):
        if re.search(pattern, cpuinfo, re.MULTILINE):
            return name
    return "unknown"


def _cpu_model(cpuinfo: str) -> str:
    for key in ("model name", "Model", "cpu", "Hardware", "CPU part"):
        if match := re.search(rf"^{key}\s*:\s*(\S.*?)\s*$", cpuinfo, re.MULTILINE):
            return " ".join(match[1].split())
    return ""


def _with_warnings(topology: Topology, allowed: Cpuset | None) -> Topology:
    notes: list[str] = []
    if topology.offline:
        notes.append(f"CPUs {topology.offline} are offline")
    if not topology.numa_directory:
        notes.append("the kernel shows no NUMA nodes; all CPUs are taken as NUMA node 0")
    notes += [
        f"NUMA node {numa.id} has CPUs but no memory of its own"
        for numa in topology.numa_nodes
        if numa.cores and not numa.memory_mib
    ]
    if topology.core_types:
        kinds = " and ".join(f"{name} cores ({cpus})" for name, cpus in reversed(topology.core_types))
        notes.append(f"the machine mixes {kinds}")
    if allowed is not None and topology.online - allowed:
        notes.append(f"the collector itself is confined to CPUs {allowed}; the topology is the whole machine's")
    return replace(topology, warnings=tuple(notes))


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
