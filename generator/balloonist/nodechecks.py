"""Checks of a model on one node: size, balloon, free room, memory, and what its other containers take."""

from __future__ import annotations

from collections.abc import Iterator

from balloonist import memorychecks
from balloonist.capacity import why_not
from balloonist.catalog import Model
from balloonist.config import nearest as nearest_name
from balloonist.landing import Lander, Landing, View, numa_text
from balloonist.placements import extra_milli
from balloonist.sizeclass import MAX_CONTAINER_CPUS
from balloonist.verdict import NodeAnswer, Verdict, fits


def examine(model: Model, view: View, lander: Lander, type_name: str = "") -> NodeAnswer:
    """Every check of the model on this node; ``type_name`` overrides the balloon type that its class has."""
    balloons = view.config.cpu_policy == "nri-balloons"
    too_large = list(_size(model, view))
    verdicts = [*too_large]
    landing = Landing((), tuple(one.numa_nodes for one in view.running), ())
    if balloons and fits(too_large):
        asked = type_name or view.type_of(model.size_class)
        unusable = list(_balloon(model, view, asked))
        verdicts += unusable
        if fits(unusable):
            landing = lander.land(view, model.size_class, asked, _others_milli(model, view))
            verdicts += landing.verdicts
    if not balloons:
        verdicts += _whole_node(model, view)
    verdicts += memorychecks.check(model, view, landing.numa_nodes, landing.running, pinned=balloons)
    verdicts += _other_containers(model, view)
    return NodeAnswer(view.name, landing.numa_nodes, tuple(verdicts))


def _size(model: Model, view: View) -> Iterator[Verdict]:
    """TP against the NUMA nodes, cores of a rank against one NUMA node, the limit of one container."""
    item, offer = model.size_class, view.node.offer
    message, _ = why_not(offer, item)
    cpus = item.cpus(offer.threads_per_core)
    if item.tp not in offer.sets:
        yield Verdict("numa", "error", message + _not_counted(view))
    elif cpus > MAX_CONTAINER_CPUS:
        yield Verdict("limit", "error", message)
    elif message:
        free = ", ".join(f"{numa}: {cores}" for numa, cores in offer.free.items())
        yield Verdict("cores", "error", f"{message} (free whole cores by NUMA node: {free})")
    else:
        yield Verdict("numa", "ok", f"tp={item.tp} of {len(offer.free)} NUMA nodes with CPUs and memory")
        shares = f"{item.cores_per_rank} cores on each of {item.tp} NUMA nodes"
        yield Verdict("cores", "ok", f"requests {cpus} CPUs ({shares} x {offer.threads_per_core} threads)")


def _not_counted(view: View) -> str:
    """The NUMA nodes that cannot hold a model, in words."""
    no_memory = [numa.id for numa in view.node.topology.numa_nodes if numa.cores and not numa.memory_mib]
    no_cpus = [numa.id for numa in view.node.topology.numa_nodes if not numa.cores]
    parts = [f"{numa_text(ids)} without {what}" for ids, what in ((no_memory, "memory"), (no_cpus, "CPUs")) if ids]
    return f" (not counted: {', '.join(parts)})" if parts else ""


def _balloon(model: Model, view: View, asked: str) -> Iterator[Verdict]:
    """The balloon type exists on the node, and its balloons are of exactly the size that the pod requests."""
    types = view.types()
    item = model.size_class
    if asked not in types or (view.fixed and item not in view.names):
        known = ", ".join(f"{name} ({item})" if item else name for name, item in types.items())
        wanted = f"balloon type {asked}" if asked not in types else f"a balloon for {item}"
        hint = f"; it has: {known}" if known else "; it has none"
        close = nearest_name(asked, list(types)) if types and asked not in types and asked != view.type_of(item) else ""
        close = close if close.startswith("did you mean") else ""
        yield Verdict("balloon", "error", f"{view.name} has no {wanted}{hint}", nearest=close)
        return
    threads = view.node.topology.threads_per_core
    planned = types[asked]
    if planned is not None and planned != item:
        message = (
            f"balloons of type {asked} are {planned} ({planned.cpus(threads)} CPUs), the model is {item} and requests"
            f" {item.cpus(threads)}: a pod requests exactly its balloon's size"
        )
        yield Verdict("balloon", "error", message, nearest=f"cpu: {planned.cores} with tp: {planned.tp}")
    elif planned is None and asked != view.type_of(item):
        message = f"type {asked} makes balloons for another TP than the model's tp={item.tp}"
        yield Verdict("balloon", "error", message, nearest=view.type_of(item))
    else:
        yield Verdict("balloon", "ok", f"balloon type {asked}, request {item.cpus(threads)} CPUs")


def _whole_node(model: Model, view: View) -> Iterator[Verdict]:
    """Without balloons nothing but the node's own number of cores is certain."""
    wanted = model.size_class.cores + sum(one.size_class.cores for one in view.running)
    has = view.node.offer.cores
    message = f"{wanted} cores with what runs already, {has} of {view.name} are not reserved"
    yield Verdict("free", "error" if wanted > has else "ok", message)
    if view.config.cpu_policy == "best-effort":
        yield Verdict("free", "note", "best-effort: the cores are shared with everything else on the node")


def _other_containers(model: Model, view: View) -> Iterator[Verdict]:
    """Containers without an annotation run on the reserved CPUs, which grow only into what no balloon holds."""
    milli = _others_milli(model, view)
    if view.config.cpu_policy != "nri-balloons" or not (extra_milli(model) or view.system_milli):
        return
    reserved = len(view.node.reserved)
    spare = _spare_cpus(view)
    wanted = f"containers that are no model servers ask for {milli / 1000:g} CPUs, {reserved} are reserved"
    if milli <= reserved * 1000:
        yield Verdict("reserved", "ok", wanted)
    elif view.config.hard_cap or (view.fixed and milli > (reserved + spare) * 1000):
        more = "" if view.config.hard_cap else f" and the plan leaves {spare} over"
        nearest = f"at most {reserved + (0 if view.config.hard_cap else spare)} CPUs, or more reserved CPUs"
        yield Verdict("reserved", "error", f"{wanted}{more}: one of them would fail to start", nearest=nearest)
    else:
        where = f"the {spare} CPUs that the plan leaves over" if view.fixed else "CPUs that models may need"
        nearest = f"at most {reserved} CPUs, or more reserved CPUs"
        yield Verdict("reserved", "warning", f"{wanted}: the reserved set grows into {where}", nearest=nearest)


def _others_milli(model: Model, view: View) -> int:
    """What all containers on the node that are no models ask for together, in thousandths of a CPU."""
    return extra_milli(model) + sum(one.reserved_milli for one in view.running) + view.system_milli


def _spare_cpus(view: View) -> int:
    return sum((view.node.left or {}).values()) * view.node.topology.threads_per_core
