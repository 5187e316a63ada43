"""The layout of every node: what the system keeps, which balloons exist where, and what is left over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from balloonist import reserve
from balloonist.capacity import Capacity, capacity, irregular_cpus, why_not
from balloonist.catalog import Model
from balloonist.config import DEFAULT, Config, PlannedBalloons, for_node, plan_key
from balloonist.cpuset import Cpuset
from balloonist.environment import Environment
from balloonist.numasets import model_numa_nodes
from balloonist.packing import Placed
from balloonist.plan import Demand, NodePlan, plan_fleet
from balloonist.problem import Problem, ProblemError, problem
from balloonist.sizeclass import SizeClass, size_class, type_names
from balloonist.topology import Topology


@dataclass(frozen=True)
class NodeLayout:
    """One node. ``placed`` and ``left`` (free whole cores by NUMA node) belong to the fixed layout only."""

    topology: Topology
    group: str | None
    reserved: Cpuset
    kept_out: Cpuset
    offer: Capacity
    placed: tuple[Placed, ...] = ()
    left: Mapping[int, int] | None = None
    without: tuple[tuple[str, str], ...] = ()
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fleet:
    """All nodes in name order, the balloon type name of each size class, and warnings that are not errors."""

    config: Config
    nodes: tuple[NodeLayout, ...]
    names: Mapping[SizeClass, str]
    warnings: tuple[Problem, ...] = ()


def compute(environment: Environment) -> Fleet:
    """The layout of every node of the environment; raises :class:`ProblemError` where it is impossible."""
    settings = environment.config
    problems: list[Problem] = []
    nodes: list[NodeLayout] = []
    known: dict[object, NodeLayout] = {}
    for topology in environment.nodes:
        try:
            nodes.append(_empty_node(environment, topology, known))
        except ProblemError as error:
            problems.extend(error.problems)
    if problems:
        raise ProblemError(problems)
    by_hand = _hand_plans(environment)
    names = type_names(_all_classes(environment))
    if settings.cpu_policy != "nri-balloons":
        return Fleet(settings, tuple(nodes), names)
    catalog = str(environment.path / "models.yaml")
    demands = demands_of(environment.models, names)
    uneven = _uneven_shares(environment)
    if settings.layout == "elastic":
        return Fleet(settings, tuple(_with_misfits(node, demands) for node in nodes), names, tuple(uneven))
    offers = [node.offer for node in nodes]
    plans, findings = plan_fleet(offers, demands, by_hand, settings.fill, catalog)
    findings = [_located(environment, finding) if finding.source in by_hand else finding for finding in findings]
    if any(finding.severity == "error" for finding in findings):
        raise ProblemError(findings)
    order = {item: index for index, item in enumerate(names)}
    planned = tuple(_with_plan(node, plans[node.topology.node], order) for node in nodes)
    return Fleet(settings, planned, names, (*uneven, *findings))


def demands_of(models: Iterable[Model], names: Mapping[SizeClass, str]) -> list[Demand]:
    """What the models ask of a plan; one with a balloon type of somebody else's asks for nothing."""
    return [
        Demand(model.name, model.size_class, model.replicas)
        for model in models
        if model.balloon in ("", names[model.size_class])
    ]


def _empty_node(environment: Environment, topology: Topology, known: dict[object, NodeLayout]) -> NodeLayout:
    """The node before any balloon; machines with the same CPUs and reservation share the work."""
    settings = environment.config
    group = environment.group_of.get(topology.node)
    listed = for_node(settings.reserved, topology.node, group)
    text = listed[1] if listed else ""
    likeness = (_hardware(topology), text, settings.profile, settings.rounding)
    twin = known.get(likeness)
    if twin is not None:
        return replace(twin, topology=topology, group=group, offer=replace(twin.offer, node=topology.node))
    if not model_numa_nodes(topology):
        raise problem(
            topology.node,
            "numa_nodes",
            "no NUMA node has both CPUs and memory, so no model can have memory of its own",
            "memory_mib is the memory of each NUMA node in MiB",
        )
    reserved = _reserved(settings, topology, listed)
    offer = capacity(topology, reserved, settings.tp_sizes)
    if not offer.cores:
        raise problem(
            topology.node,
            "reserved",
            f"the reserved CPUs {reserved} leave no whole core for models (online: {topology.online})",
            "reserve fewer CPUs",
        )
    kept_out = irregular_cpus(topology, reserved)
    remarks = tuple(_remarks(topology, reserved, kept_out))
    known[likeness] = NodeLayout(topology, group, reserved, kept_out, offer, remarks=remarks)
    return known[likeness]


def _hardware(topology: Topology) -> tuple[object, ...]:
    """What decides a node's layout: cores and where they sit, which NUMA nodes have memory at all, distances."""
    return (
        tuple((numa.id, numa.memory_mib > 0, numa.distances) for numa in topology.numa_nodes),
        tuple((core.cpus.mask, core.numa_node, core.package) for core in topology.cores),
        topology.isolated.mask,
        topology.offline.mask,
        topology.numa_directory,
    )


def _reserved(settings: Config, topology: Topology, listed: tuple[str, str] | None) -> Cpuset:
    if listed and listed[1].strip():
        return reserve.from_list(topology, listed[1], f"nri_reserved_cpu_list.{listed[0]}")
    return reserve.from_profile(topology, settings.profile, settings.rounding)


def _remarks(topology: Topology, reserved: Cpuset, kept_out: Cpuset) -> Iterable[str]:
    yield from reserve.remarks(topology, reserved)
    if kept_out:
        yield (
            f"CPUs {kept_out} are on cores that do not have {topology.threads_per_core} online threads like the others;"
            " no balloon gets them. Name them in nri_reserved_cpu_list to let the system use them"
        )
    for numa in topology.numa_nodes:
        if numa.cores and not numa.memory_mib:
            yield f"NUMA node {numa.id} has CPUs but no memory: no model is placed on it"
        if not numa.cores:
            yield f"NUMA node {numa.id} has memory but no online CPU: no model is placed on it"
    if isolated := topology.isolated - reserved:
        yield f"CPUs {isolated} are isolated by the kernel (isolcpus) and may be given to models"


def _hand_plans(environment: Environment) -> dict[str, list[SizeClass]]:
    """The written plan of each node that has one, as a list with one class for each balloon."""
    plans: dict[str, list[SizeClass]] = {}
    for topology in environment.nodes:
        found = for_node(environment.config.plan or {}, topology.node, environment.group_of.get(topology.node))
        if found is not None:
            plans[topology.node] = [
                item for entry in found[1] for item in [_planned_class(environment, entry)] * entry.balloons
            ]
    return plans


def _located(environment: Environment, finding: Problem) -> Problem:
    """A finding on the written plan of a node, with the file and key that the plan stands in."""
    node = finding.source
    found = for_node(environment.config.plan or {}, node, environment.group_of.get(node))
    source, key = plan_key(environment.config, found[0] if found else DEFAULT)
    return replace(finding, source=source, key=key, message=f"node {node}: {finding.message}")


def _planned_class(environment: Environment, entry: PlannedBalloons) -> SizeClass:
    if entry.model:
        return next(model.size_class for model in environment.models if model.name == entry.model)
    return size_class(entry.cpu, entry.tp)


def _all_classes(environment: Environment) -> Iterable[SizeClass]:
    """Every class in naming order: the catalog's, then those that only the written plan has, by key."""
    yield from (model.size_class for model in environment.models)
    for _, entries in sorted((environment.config.plan or {}).items()):
        yield from (_planned_class(environment, entry) for entry in entries)


def _with_plan(node: NodeLayout, plan: NodePlan, order: Mapping[SizeClass, int]) -> NodeLayout:
    """Balloons are listed, and so made, in the catalog's order: a model added last takes no other's cores."""
    placed = sorted(plan.placed, key=lambda balloon: order[balloon.size_class])
    return replace(node, placed=tuple(placed), left=plan.left, without=plan.without)


def _with_misfits(node: NodeLayout, demands: Iterable[Demand]) -> NodeLayout:
    reasons = ((demand.model, why_not(node.offer, demand.size_class)[0]) for demand in demands)
    return replace(node, without=tuple((model, reason) for model, reason in reasons if reason))


def _uneven_shares(environment: Environment) -> list[Problem]:
    return [
        Problem(
            str(environment.path / "models.yaml"),
            model.name,
            f"{model.cpu} cores are no {model.ranks} equal shares: the balloon has {model.size_class.cores}",
            f"cpu: {model.size_class.cores} says the same and needs no rounding",
            "warning",
        )
        for model in environment.models
        if model.cpu % model.ranks
    ]
