"""What a new policy does to the models that run on a node, and the safe order of steps.

Both policies are simulated with the same models: the difference is what the plugin would do to them. A changed policy
makes the plugin place all balloons anew and re-pin running containers at once. A model server bound its threads to the
CPUs it found at its start, and its memory stays where it was, so every model that is touched has to be started again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from balloonist.cpuset import EMPTY, Cpuset
from balloonist.placement import policy
from balloonist.placement.container import BALLOON_KEY, Operation
from balloonist.placement.effective import StartRefused
from balloonist.placement.simulator import Outcome, Simulator
from balloonist.topology import Topology

Kind = Literal["untouched", "re-pinned", "moved", "fewer cores", "other size", "spread", "no place"]
"""From harmless to worst. ``moved``: other NUMA nodes. ``other size``: the balloons of its type have a new size.
``spread``: beyond the NUMA nodes of its type. ``no place``: the plugin would refuse it."""


@dataclass(frozen=True)
class Pod:
    """One running model: its name, balloon type and CPU request in logical CPUs."""

    name: str
    balloon: str
    cpus: int


@dataclass(frozen=True)
class Effect:
    """What happens to one running model; CPU sets include hidden siblings."""

    pod: Pod
    kind: Kind
    before: Cpuset
    after: Cpuset
    numa_before: tuple[int, ...]
    numa_after: tuple[int, ...]
    reason: str = ""


@dataclass(frozen=True)
class Replan:
    """``changed`` says whether the policies differ at all; ``steps`` are sentences in the order to do them."""

    node: str
    changed: bool
    effects: tuple[Effect, ...]
    steps: tuple[str, ...]

    @property
    def touched(self) -> tuple[Effect, ...]:
        """The models that have to be drained first."""
        return tuple(effect for effect in self.effects if effect.kind != "untouched")


def replan(topology: Topology, old: Mapping[str, Any], new: Mapping[str, Any], pods: Sequence[Pod]) -> Replan:
    """Compare two policy specs of a node under what runs there, in the order it was started."""
    if old == new:
        return Replan(topology.node, False, (), ("nothing to do: the policy of this node does not change",))
    before = _outcomes(topology, old, pods)
    after = _outcomes(topology, new, pods)
    sizes = {item["name"]: item.get("maxCPUs", 0) for item in new.get("balloonTypes", ())}
    effects = tuple(_effect(pod, before[pod.name], after[pod.name], sizes) for pod in pods)
    return Replan(topology.node, True, effects, tuple(_steps(topology.node, effects)))


def _outcomes(topology: Topology, spec: Mapping[str, Any], pods: Sequence[Pod]) -> dict[str, Outcome]:
    try:
        simulator = Simulator(topology, policy.read(spec, topology.node))
    except StartRefused as error:
        return {pod.name: Outcome("create", pod.name, False, f"the plugin does not start: {error}") for pod in pods}
    for pod in pods:
        annotation = {f"{BALLOON_KEY}/container.main": pod.balloon}
        outcome = simulator.apply(Operation("create", pod.name, "llm", annotation, pod.cpus * 1000))
        if not outcome.ok:
            return {**_outcomes(topology, spec, [other for other in pods if other != pod]), pod.name: outcome}
    return {pod.name: simulator.outcome(pod.name) for pod in pods}


def _effect(pod: Pod, before: Outcome, after: Outcome, sizes: Mapping[str, int]) -> Effect:
    had, has = before.cpus | before.hidden, after.cpus | after.hidden
    if not after.ok:
        return Effect(pod, "no place", had, EMPTY, before.numa_nodes, (), after.error)
    kind: Kind = "untouched"
    reason = ""
    size = sizes.get(pod.balloon, 0)
    if after.spilled:
        kind, reason = "spread", "its CPUs would be beyond the NUMA nodes of its type"
    elif size and size != pod.cpus:
        kind, reason = "other size", f"its balloons have {size} CPUs now, it asks for {pod.cpus}"
    elif len(has) < len(had):
        kind, reason = "fewer cores", f"{len(has)} CPUs instead of {len(had)}"
    elif before.ok and after.numa_nodes != before.numa_nodes:
        kind, reason = "moved", "its memory would stay on the old NUMA nodes"
    elif has != had:
        kind, reason = "re-pinned", "its threads are bound to the old CPUs"
    return Effect(pod, kind, had, has, before.numa_nodes, after.numa_nodes, reason)


def _steps(node: str, effects: Sequence[Effect]) -> list[str]:
    touched = [effect for effect in effects if effect.kind != "untouched"]
    if not touched:
        return [f"apply the new policy of {node}: no running model is touched"]
    steps = [f"drain {effect.pod.name} ({effect.kind}: {effect.reason})" for effect in touched]
    steps.append(f"apply the new policy of {node}")
    for effect in touched:
        if effect.kind == "no place":
            steps.append(f"{effect.pod.name} cannot come back to {node}: {effect.reason}")
        elif effect.kind == "other size":
            steps.append(f"redeploy {effect.pod.name} with the new size of {effect.pod.balloon}")
        else:
            steps.append(f"redeploy {effect.pod.name}")
    return steps
