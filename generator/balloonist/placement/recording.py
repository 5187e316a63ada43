"""The recorded-file format: a described machine, a policy, operations and what the real plugin did with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from balloonist.cpuset import Cpuset, union
from balloonist.placement.container import Operation, read_operations
from balloonist.placement.effective import StartRefused
from balloonist.placement.policy import Policy, read
from balloonist.placement.simulator import Outcome, Pinning, Simulator
from balloonist.topology import Core, Die, NumaNode, Package, Topology


@dataclass(frozen=True)
class Observed:
    """What the real plugin answered to one operation, and how every container was pinned after it."""

    op: str
    ok: bool
    error: str
    state: Mapping[str, Pinning]


@dataclass(frozen=True)
class Recording:
    """One recorded file; ``started`` says whether the real plugin took the policy."""

    name: str
    topology: Topology
    policy: Policy
    operations: tuple[Operation, ...]
    started: bool
    observed: tuple[Observed, ...]


@dataclass(frozen=True)
class Replay:
    """The simulator's answers: why it would not start, or per operation the outcome and every container's pinning."""

    refused: str
    steps: tuple[tuple[Outcome, Mapping[str, Pinning]], ...]


def read_recording(document: Mapping[str, Any], source: str) -> Recording:
    """Read a recorded file. Raises ProblemError."""
    observed = [_observed(entry) for entry in document.get("observed", [])]
    return Recording(
        name=str(document.get("name", source)),
        topology=described_topology(document["topology"]),
        policy=read(document["policy"], source),
        operations=read_operations(document["ops"], source),
        started=observed[0].ok if observed else True,
        observed=tuple(observed[1:]),
    )


def described_topology(description: Mapping[str, Any]) -> Topology:
    """The machine that a recording describes; NUMA distances 10, 12 (same package), 21 and 31 (memory only)."""
    packages, per_package = description["packages"], description["numa_per_package"]
    per_numa, threads = description["cores_per_numa"], description["threads_per_core"]
    total = packages * per_package * per_numa
    offline = Cpuset.of(description.get("offline", ()))
    nodes = packages * per_package
    memory_only = description.get("memory_only_nodes", 0)

    def threads_of(core: int) -> Cpuset:
        if description.get("numbering", "linux") == "adjacent":
            return Cpuset.of(core * threads + thread for thread in range(threads)) - offline
        return Cpuset.of(core + thread * total for thread in range(threads)) - offline

    def distances(node: int) -> tuple[int, ...]:
        return tuple(_distance(node, other, nodes, per_package) for other in range(nodes + memory_only))

    numas = []
    for node in range(nodes + memory_only):
        numbers = range(node * per_numa, (node + 1) * per_numa) if node < nodes else ()
        cpus = (threads_of(core) for core in numbers)
        cores = tuple(Core(siblings, node, node // per_package, 0) for siblings in cpus if siblings)
        numas.append(NumaNode(node, description.get("memory_gib", 256) * 1024, distances(node), cores))
    return Topology(
        node="recorded",
        architecture="amd64",
        kernel="",
        cpu_model="",
        packages=tuple(
            Package(p, (Die(0, union(n.cpus for n in numas[p * per_package : (p + 1) * per_package])),))
            for p in range(packages)
        ),
        numa_nodes=tuple(numas),
        offline=offline,
    )


def _distance(node: int, other: int, with_cpus: int, per_package: int) -> int:
    if node == other:
        return 10
    if max(node, other) >= with_cpus:
        return 31
    return 12 if node // per_package == other // per_package else 21


def _observed(entry: Mapping[str, Any]) -> Observed:
    state = {
        name: Pinning(Cpuset.parse(pinned.get("cpus", "")), Cpuset.parse(pinned.get("mems", "")).cpus)
        for name, pinned in (entry.get("state") or {}).items()
    }
    return Observed(entry["op"], bool(entry["ok"]), str(entry.get("error", "")), state)


def replay(recording: Recording) -> Replay:
    """Simulate the recorded operations."""
    try:
        simulator = Simulator(recording.topology, recording.policy)
    except StartRefused as refused:
        return Replay(str(refused), ())
    return Replay("", tuple((simulator.apply(operation), simulator.state()) for operation in recording.operations))
