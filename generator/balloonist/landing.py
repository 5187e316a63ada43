"""Where a model would land on a node beside what runs there, without judging its memory.

``fixed``: the balloons of the plan are slots. The plugin gives a model the first empty balloon of its type in the
order they were made, which is the plan's order; nothing else can happen. ``elastic``: the plugin is simulated, from its
start, with what runs already and then the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from balloonist import policyspec
from balloonist.config import Config
from balloonist.layout import NodeLayout
from balloonist.numasets import NumaSet
from balloonist.placement import policy
from balloonist.placement.container import BALLOON_KEY, Operation
from balloonist.placement.simulator import Outcome, Simulator
from balloonist.placements import Running
from balloonist.sizeclass import SizeClass, tp_name
from balloonist.verdict import Verdict

NAMESPACE = "llm"
"""A namespace that no policy of ours treats in a special way."""


@dataclass(frozen=True)
class View:
    """One node as the pre-flight sees it. ``memory_gib`` is that of each NUMA node; ``kind`` is equal for nodes with
    equal CPUs, reservation and plan. ``planned_anew`` marks a plan that does not exist yet. ``system_milli`` is what
    pods that are no models ask for, in thousandths of a CPU, where that is known."""

    node: NodeLayout
    config: Config
    names: Mapping[SizeClass, str]
    running: tuple[Running, ...]
    memory_gib: Mapping[int, float]
    kind: int
    planned_anew: bool = False
    system_milli: int = 0

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.topology.node

    @property
    def fixed(self) -> bool:
        """Whether the balloons exist beforehand."""
        return self.config.layout == "fixed"

    def type_of(self, item: SizeClass) -> str:
        """The balloon type that a model of this class uses unless it is told another."""
        return self.names[item] if self.fixed and item in self.names else tp_name(item.tp)

    def types(self) -> dict[str, SizeClass | None]:
        """The types that models can have here, with the class of their balloons where that is fixed."""
        if not self.fixed:
            return {tp_name(tp): None for tp in sorted(self.node.offer.sets)}
        return {self.names[balloon.size_class]: balloon.size_class for balloon in self.node.placed}


@dataclass(frozen=True)
class Landing:
    """``numa_nodes`` of the model (empty: it does not start), those of each running replica, and the verdicts."""

    numa_nodes: NumaSet
    running: tuple[NumaSet, ...]
    verdicts: tuple[Verdict, ...]


@dataclass
class Lander:
    """Finds landings; nodes of one kind with the same things running share the work."""

    _known: dict[object, Landing] = field(default_factory=dict)

    def land(self, view: View, item: SizeClass, type_name: str, others_milli: int = 0) -> Landing:
        """Where a model of class ``item`` lands that asks for balloon type ``type_name`` (which the node has).

        ``others_milli`` is what all containers that are no models ask for, in thousandths of a CPU: in the elastic
        layout they compete with it.
        """
        running = tuple((one.label, one.size_class, one.balloon, one.numa_nodes) for one in view.running)
        plan = view.node.placed if view.planned_anew else None
        key = (view.kind, running, plan, item, type_name, others_milli)
        if key not in self._known:
            self._known[key] = _in_slots(view, item) if view.fixed else _simulated(view, item, type_name, others_milli)
        return self._known[key]


def _in_slots(view: View, item: SizeClass) -> Landing:
    slots: dict[SizeClass, list[NumaSet]] = {}
    for balloon in view.node.placed:
        slots.setdefault(balloon.size_class, []).append(balloon.numa_nodes)
    planned = len(slots.get(item, ()))
    verdicts: list[Verdict] = []
    places: dict[int, NumaSet] = {}
    # Those whose place is known go first: the others have what is left.
    for index, one in sorted(enumerate(view.running), key=lambda pair: not pair[1].numa_nodes):
        free = slots.get(one.size_class, [])
        if not free:
            verdicts.append(_beside_the_plan(one))
            continue
        places[index] = one.numa_nodes if one.numa_nodes in free else free[0]
        free.remove(places[index])
    ranked = tuple(places.get(index, one.numa_nodes) for index, one in enumerate(view.running))
    name = view.names[item]
    free = slots.get(item, [])
    if not free:
        message = f"no balloon of type {name} is free: {planned} planned, {planned} in use"
        return Landing((), ranked, (*verdicts, Verdict("free", "error", message)))
    message = f"{len(free)} of {planned} balloons of type {name} are free"
    return Landing(free[0], ranked, (*verdicts, Verdict("free", "ok", message, free[0])))


def _beside_the_plan(one: Running) -> Verdict:
    message = f"{one.label} runs here, but the plan has no balloon for it: the values on the cluster are other ones"
    return Verdict("placements", "warning", message, one.numa_nodes)


def start(view: View) -> Simulator:
    """The plugin's start on this node, with the policy that is rendered for it."""
    spec = policyspec.spec(view.node, view.config, view.names)
    return Simulator(view.node.topology, policy.read(spec, view.name))


def pod(view: View, name: str, type_name: str, item: SizeClass) -> Operation:
    """The start of a model's container with that name."""
    milli = item.cpus(view.node.topology.threads_per_core) * 1000
    return Operation("create", name, NAMESPACE, {f"{BALLOON_KEY}/container.main": type_name}, milli)


def _simulated(view: View, item: SizeClass, type_name: str, others_milli: int) -> Landing:
    simulator = start(view)
    verdicts: list[Verdict] = []
    places: list[NumaSet] = []
    for index, one in enumerate(view.running):
        outcome = simulator.apply(
            pod(view, f"running-{index}", one.balloon or tp_name(one.size_class.tp), one.size_class)
        )
        places.append(one.numa_nodes or outcome.numa_nodes)
        if not outcome.ok:
            message = f"{one.label} runs here, but the simulated plugin refuses it: {outcome.error}"
            verdicts.append(Verdict("placements", "warning", message, one.numa_nodes))
    outcome = simulator.apply(pod(view, "model", type_name, item))
    if not outcome.ok:
        asked = item.cpus(view.node.topology.threads_per_core)
        message = f"the plugin would refuse it: it asks for {asked} CPUs, {len(simulator.free)} are free"
        return Landing((), tuple(places), (*verdicts, Verdict("free", "error", message)))
    verdicts += _spilled(view, item, outcome, [one.numa_nodes for one in view.running])
    system = Operation("create", "system", "kube-system", {}, others_milli)
    if others_milli and not simulator.apply(system).ok:
        message = (
            f"containers that are no models ask for {others_milli / 1000:g} CPUs: beside the model and what runs, the"
            " plugin has no room for the reserved set to grow, so a container would fail to start"
        )
        verdicts.append(Verdict("reserved", "error", message))
    return Landing(outcome.numa_nodes, tuple(places), tuple(verdicts))


def _spilled(view: View, item: SizeClass, outcome: Outcome, told: Sequence[NumaSet]) -> Iterable[Verdict]:
    where = numa_text(outcome.numa_nodes)
    if any(told):
        message = "the simulated plugin starts what runs in the order of the list: its places may differ from the real"
        yield Verdict("placements", "note", message)
    if not outcome.spilled and len(outcome.numa_nodes) == item.tp:
        yield Verdict("spill", "ok", f"the simulated plugin puts it on {where}", outcome.numa_nodes)
        return
    per_node = {numa.id: len(numa.cpus & (outcome.cpus | outcome.hidden)) for numa in view.node.topology.numa_nodes}
    shares = ", ".join(f"{cpus} on NUMA node {numa}" for numa, cpus in per_node.items() if cpus)
    message = f"the plugin would spread tp={item.tp} over {len(outcome.numa_nodes)} NUMA nodes: {shares} CPUs"
    yield Verdict("spill", "error" if view.config.spill == "error" else "warning", message, outcome.numa_nodes)


def numa_text(numa_nodes: Iterable[int]) -> str:
    """NUMA nodes in words."""
    listed = list(numa_nodes)
    return f"NUMA node{'s' if len(listed) != 1 else ''} {', '.join(map(str, listed))}"
