"""The pre-flight: whether a model would start, on which NUMA nodes, and if not, what would.

Everything here is computed from the environment and from what runs already, which is an argument: a file or a live
cluster can be its source. Nothing is downloaded and nothing is asked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from balloonist import layout, memorychecks, modelchecks
from balloonist.catalog import Model
from balloonist.environment import Environment
from balloonist.landing import Lander, View
from balloonist.layout import Fleet, NodeLayout
from balloonist.nearest import Finder
from balloonist.nodechecks import examine
from balloonist.placements import Running
from balloonist.problem import ProblemError
from balloonist.topology import Topology
from balloonist.verdict import Answer, NodeAnswer, Verdict, fits


def fleet_for(environment: Environment, model: Model) -> tuple[Fleet, tuple[Verdict, ...]]:
    """The layout to check against, with a verdict where the model itself makes the plan impossible.

    A plan without the model's replicas is used then. Raises :class:`ProblemError` for what is not the model's fault.
    """
    try:
        return layout.compute(environment), ()
    except ProblemError:
        environment, others = _without_misfits(environment, model)
    try:
        return layout.compute(environment), others
    except ProblemError as error:
        fleet = layout.compute(_with_replicas(environment, model, 0))
        reasons = [item for item in error.problems if item.severity == "error"]
        fewer = _most_replicas(environment, model)
        nearest = f"fits with replicas: {fewer}" if fewer else "the nodes below say what would fit"
        return fleet, (
            *others,
            *(
                Verdict("plan", "error", f"the plan is impossible with it: {item.message}", (), nearest)
                for item in reasons
            ),
        )


def _without_misfits(environment: Environment, model: Model) -> tuple[Environment, tuple[Verdict, ...]]:
    """The environment without replicas of other models that make the plan impossible, with a warning for each.

    What is wrong with another entry of the catalog is no answer to the question about this one.
    """
    others = {one.name for one in environment.models} - {model.name}
    verdicts: list[Verdict] = []
    while others:
        try:
            layout.compute(_with_replicas(environment, model, 0))
            break
        except ProblemError as error:
            guilty = [item for item in error.problems if item.severity == "error" and item.key in others]
            if not guilty:
                break
        for item in guilty:
            others.discard(item.key)
            other = next(one for one in environment.models if one.name == item.key)
            environment = _with_replicas(environment, other, 0)
            message = f"{item.key} of the catalog makes the plan impossible and was left out: {item.message}"
            verdicts.append(Verdict("plan", "warning", message, nearest=item.hint))
    return environment, tuple(verdicts)


def _with_replicas(environment: Environment, model: Model, replicas: int) -> Environment:
    models = (replace(one, replicas=replicas) if one.name == model.name else one for one in environment.models)
    return replace(environment, models=tuple(models))


def _most_replicas(environment: Environment, model: Model) -> int:
    """The most replicas below the declared number that a plan can have; 0 for none."""
    low, high = 0, (model.replicas or 1) - 1
    while low < high:
        middle = (low + high + 1) // 2
        try:
            layout.compute(_with_replicas(environment, model, middle))
        except ProblemError:
            high = middle - 1
        else:
            low = middle
    return low


def preflight(
    fleet: Fleet,
    model: Model,
    running: Sequence[Running] = (),
    *,
    nodes: Sequence[str] | None = None,
    type_name: str = "",
    models: Sequence[Model] = (),
    system_milli: Mapping[str, int] | None = None,
) -> Answer:
    """Check ``model`` on the nodes asked (None: all) beside what is ``running``.

    ``type_name`` overrides the balloon type; ``models`` is the catalog, against which planned memory is summed up.
    ``system_milli`` is what other pods ask for by node, in thousandths of a CPU, where that is known.
    """
    check = _Checks(fleet, running, type_name or model.balloon, system_milli or {})
    asked = [node for node in fleet.nodes if nodes is None or node.topology.node in nodes]
    sizes = {ranks // model.stages for node in asked for ranks in node.offer.sets if ranks % model.stages == 0}
    of_model = modelchecks.check(model, sizes)
    answers = [check.answer(model, check.view(node)) for node in asked]
    elsewhere = check.elsewhere(model, fleet.nodes, answers)
    finished = tuple(
        check.finished(model, check.view(node), answer, elsewhere, models)
        for node, answer in zip(asked, answers, strict=True)
    )
    return Answer(model.name, tuple(check.with_other_tp(model, of_model, asked)), finished)


class _Checks:
    """One run: the views of the nodes, and what alike nodes share."""

    def __init__(
        self, fleet: Fleet, running: Sequence[Running], type_name: str, system_milli: Mapping[str, int]
    ) -> None:
        self._fleet = fleet
        self._type_name = type_name
        self._system_milli = system_milli
        self._lander = Lander()
        self._running: defaultdict[str, list[Running]] = defaultdict(list)
        for one in running:
            self._running[one.node].append(one)
        self._kinds: dict[object, int] = {}
        self._views: dict[str, View] = {}
        self._suggested: dict[object, tuple[str, ...]] = {}
        self._finder = Finder(self._accepts)

    def view(self, node: NodeLayout) -> View:
        """The node as the checks see it."""
        name = node.topology.node
        if name not in self._views:
            kind = self._kinds.setdefault(_kind(node), len(self._kinds))
            memory = {numa.id: numa.memory_mib / 1024 for numa in node.topology.numa_nodes}
            running = tuple(self._running[name])
            self._views[name] = View(
                node,
                self._fleet.config,
                self._fleet.names,
                running,
                memory,
                kind,
                system_milli=self._system_milli.get(name, 0),
            )
        return self._views[name]

    def answer(self, model: Model, view: View) -> NodeAnswer:
        """The node's verdicts without suggestions."""
        return examine(model, view, self._lander, self._type_name)

    def _accepts(self, model: Model, view: View) -> bool:
        # A suggestion with another size uses the type of that size, whatever type was asked for.
        return fits(modelchecks.check(model, ())) and examine(model, view, self._lander).fits

    def elsewhere(self, model: Model, nodes: Iterable[NodeLayout], answers: Sequence[NodeAnswer]) -> str:
        """Another node on which the model fits, in words; "" if there is none, or if no node said no."""
        if all(answer.fits for answer in answers) or not fits(modelchecks.check(model, ())):
            return ""
        known = {answer.node: answer for answer in answers}
        for node in nodes:
            answer = known.get(node.topology.node) or self.answer(model, self.view(node))
            if answer.fits:
                return f"fits on node {answer.node}"
        return ""

    def finished(
        self, model: Model, view: View, answer: NodeAnswer, elsewhere: str, models: Sequence[Model]
    ) -> NodeAnswer:
        """The answer with the nearest yes in each no, and with what the plan as a whole needs."""
        planned = tuple(memorychecks.plan_check(view, models)) if self._fleet.config.layout == "fixed" else ()
        if answer.fits:
            return replace(answer, verdicts=(*answer.verdicts, *planned))
        suggestions = [*self._suggestions(model, view, answer), *([elsewhere] if elsewhere else [])]
        verdicts = tuple(
            verdict if verdict.ok else replace(verdict, nearest=_joined(verdict.nearest, suggestions))
            for verdict in answer.verdicts
        )
        return replace(answer, verdicts=(*verdicts, *planned))

    def _suggestions(self, model: Model, view: View, answer: NodeAnswer) -> tuple[str, ...]:
        no = tuple(verdict.check for verdict in answer.verdicts if not verdict.ok)
        memory = tuple((numa, int(gib)) for numa, gib in view.memory_gib.items())
        key = (view.kind, memory, tuple(replace(one, node="") for one in view.running), no)
        if key not in self._suggested:
            self._suggested[key] = self._finder.suggestions(model, view, answer)
        return self._suggested[key]

    def with_other_tp(
        self, model: Model, verdicts: Iterable[Verdict], nodes: Sequence[NodeLayout]
    ) -> Iterable[Verdict]:
        """For heads that do not divide: a TP size that fits on one of the nodes altogether."""
        for verdict in verdicts:
            if verdict.check != "heads" or verdict.ok:
                yield verdict
                continue
            found = (
                f"{text} on node {node.topology.node}"
                for node in nodes
                for text in self._suggestions(model, self.view(node), self.answer(model, self.view(node)))
                if "tp=" in text
            )
            yield replace(verdict, nearest=_joined(verdict.nearest, list(found)[:1]))


def _joined(own: str, suggestions: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(part for part in (own, *suggestions) if part)) or "nothing like it fits here"


def _kind(node: NodeLayout) -> tuple[object, ...]:
    """Equal for nodes on which the same models land alike: CPUs, NUMA nodes with memory, reservation and plan."""
    return (
        _machine(node.topology),
        node.reserved.mask,
        node.kept_out.mask,
        tuple(node.offer.sets.items()),
        node.placed,
    )


def _machine(topology: Topology) -> tuple[object, ...]:
    return (
        tuple((numa.id, numa.memory_mib > 0, numa.distances, numa.cpus.mask) for numa in topology.numa_nodes),
        tuple((core.cpus.mask, core.package) for core in topology.cores),
        topology.isolated.mask,
        topology.offline.mask,
        topology.numa_directory,
        topology.core_types,
    )


def warned(answer: Answer) -> Answer:
    """The answer with every error turned into a warning."""

    def soft(verdicts: Iterable[Verdict]) -> tuple[Verdict, ...]:
        return tuple(verdict if verdict.ok else replace(verdict, level="warning") for verdict in verdicts)

    nodes = tuple(replace(node, verdicts=soft(node.verdicts)) for node in answer.nodes)
    return replace(answer, verdicts=soft(answer.verdicts), nodes=nodes)


def as_data(answer: Answer) -> Mapping[str, object]:
    """The answer as JSON-able data."""

    def plain(verdicts: Iterable[Verdict]) -> list[dict[str, object]]:
        return [
            {
                "check": verdict.check,
                "level": verdict.level,
                "numa_nodes": list(verdict.numa_nodes),
                "message": verdict.message,
                "nearest": verdict.nearest,
            }
            for verdict in verdicts
        ]

    nodes = [
        {
            "node": node.node,
            "fits": node.fits,
            "numa_nodes": list(node.numa_nodes),
            "verdicts": plain(node.verdicts),
        }
        for node in answer.nodes
    ]
    return {"model": answer.model, "fits": answer.fits, "verdicts": plain(answer.verdicts), "nodes": nodes}
