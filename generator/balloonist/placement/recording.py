"""The recorded-file format: a described machine, a policy, operations and what the real plugin did with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from balloonist.cpuset import Cpuset
from balloonist.placement.container import Operation, read_operations
from balloonist.placement.effective import StartRefused
from balloonist.placement.policy import Policy, read
from balloonist.placement.simulator import Outcome, Pinning, Simulator
from balloonist.problem import problem
from balloonist.synthesize import synthesize
from balloonist.topology import Topology


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
        topology=described_topology(document["topology"], source),
        policy=read(document["policy"], source),
        operations=read_operations(document["ops"], source),
        started=observed[0].ok if observed else True,
        observed=tuple(observed[1:]),
    )


def described_topology(description: Mapping[str, Any], source: str = "topology") -> Topology:
    """The machine that a recording describes; ``offline`` is a list of CPU ids or a cpuset text.

    Raises ProblemError, which names ``source``, where the description is of no machine.
    """
    offline = description.get("offline") or ()
    try:
        cpus = Cpuset.parse(offline) if isinstance(offline, str) else Cpuset.of(offline)
        return synthesize("recorded", **{**description, "offline": cpus})
    except (TypeError, ValueError) as error:
        raise problem(source, "", f"describes no machine: {error}", "packages, numa_per_package, ...") from None


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
