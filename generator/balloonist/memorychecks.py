"""Checks of a model's memory against the NUMA nodes it would run on.

With memory pinning, which the rendered policy switches on for models, only the NUMA nodes of the balloon's CPUs count:
memory of NUMA nodes without CPUs (HBM, CXL) is never given by itself (containers/nri-plugins#329). Units: GiB.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from balloonist.catalog import Model
from balloonist.landing import View, numa_text
from balloonist.layout import NodeLayout
from balloonist.modelmemory import RankMemory, rank_memory
from balloonist.numasets import NumaSet
from balloonist.sizeclass import SizeClass
from balloonist.verdict import Verdict

TIGHT: Final = 0.95
"""Above this part of a NUMA node's memory the pre-flight warns: the kernel and system pods live there too."""


def check(model: Model, view: View, landing: NumaSet, running: Sequence[NumaSet], *, pinned: bool) -> list[Verdict]:
    """Memory verdicts; without a ``landing`` the NUMA nodes with the most free memory are judged."""
    memory = rank_memory(model)
    if memory is None:
        message = "the model's memory is not known and was not checked"
        return [Verdict("memory", "warning", message, nearest="give parameters_b or memory_gib in the catalog")]
    taken, unknown = _taken(view, running)
    verdicts: list[Verdict] = []
    if unknown:
        message = f"the memory of {', '.join(unknown)} is not known: it was not subtracted"
        verdicts.append(Verdict("memory", "warning", message, nearest="give its parameters_b or memory_gib"))
    if not pinned:
        return [*verdicts, _whole_node(model, view, memory, taken)]
    numa_nodes = landing or _roomiest(view, model.ranks, taken)
    ranks = max(1, model.ranks)
    for numa in numa_nodes:
        # A model that spilled has its memory on more NUMA nodes than it has ranks.
        share = memory.gib if len(numa_nodes) <= ranks else memory.gib * ranks / len(numa_nodes)
        verdicts.append(_numa_node(view, numa, memory, share, taken.get(numa, 0.0)))
    return verdicts


def _numa_node(view: View, numa: int, memory: RankMemory, share: float, taken: float) -> Verdict:
    has = view.memory_gib[numa]
    used = f", of which models that run there have {taken:.1f}" if taken else ""
    room = f"NUMA node {numa} has {has:.1f} GiB{used}"
    need = f"{share:.1f} GiB ({memory.parts})"
    if share > has - taken:
        message = f"a rank needs {need}; {room}; memory is pinned, so no other NUMA node counts{_without_cpus(view)}"
        return Verdict("memory", "error", message, (numa,))
    if share > has * TIGHT - taken:
        message = f"tight: a rank needs {need}; {room}, and the system lives there too"
        return Verdict("memory", "warning", message, (numa,))
    return Verdict("memory", "ok", f"a rank needs {need}; {room}", (numa,))


def _without_cpus(view: View) -> str:
    without = [numa.id for numa in view.node.topology.numa_nodes if not numa.cores and numa.memory_mib]
    if not without:
        return ""
    gib = sum(view.memory_gib[numa] for numa in without)
    return f" ({numa_text(without)} with {gib:.0f} GiB {'has' if len(without) == 1 else 'have'} no CPUs: HBM or CXL)"


def _whole_node(model: Model, view: View, memory: RankMemory, taken: Mapping[int, float]) -> Verdict:
    """Without pinning the kernel takes memory wherever there is some: all of it counts."""
    need = memory.gib * model.ranks
    has = sum(view.memory_gib.values())
    used = sum(taken.values())
    message = (
        f"it needs {need:.1f} GiB ({model.ranks} x {memory.gib:.1f}: {memory.parts}); memory is not pinned and"
        f" {view.name} has {has:.1f} GiB{f', of which {used:.1f} are in use by models' if used else ''}"
    )
    if need > has - used:
        return Verdict("memory", "error", message)
    return Verdict("memory", "warning" if need > has * TIGHT - used else "ok", message)


def _taken(view: View, running: Sequence[NumaSet]) -> tuple[dict[int, float], list[str]]:
    """Memory of running models by NUMA node, and the names of those whose memory or place is not known."""
    taken: defaultdict[int, float] = defaultdict(float)
    unknown: dict[str, None] = {}
    for one, numa_nodes in zip(view.running, running, strict=True):
        if one.rank_gib is None or not numa_nodes:
            unknown[one.label] = None
            continue
        for numa in numa_nodes:
            taken[numa] += one.rank_gib * one.size_class.tp / len(numa_nodes)
    return taken, list(unknown)


def _roomiest(view: View, tp: int, taken: Mapping[int, float]) -> NumaSet:
    sets = view.node.offer.sets.get(tp, ())
    return max(sets, key=lambda item: min(view.memory_gib[numa] - taken.get(numa, 0.0) for numa in item), default=())


def planned_gib(node: NodeLayout, rank_gib: Mapping[SizeClass, float]) -> list[tuple[int, float]]:
    """Memory that the planned balloons of each NUMA node need when a rank of each class needs so much."""
    planned: defaultdict[int, float] = defaultdict(float)
    for balloon in node.placed:
        for numa in balloon.numa_nodes:
            planned[numa] += rank_gib.get(balloon.size_class, 0.0)
    return sorted(planned.items())


def plan_check(view: View, models: Sequence[Model]) -> Iterator[Verdict]:
    """fixed: whether every planned balloon could be in use at once; each counts as its class's largest model."""
    largest: dict[SizeClass, float] = {}
    for model in models:
        memory = rank_memory(model)
        if memory is not None:
            largest[model.size_class] = max(memory.gib, largest.get(model.size_class, 0.0))
    for numa, gib in planned_gib(view.node, largest):
        if gib > view.memory_gib[numa]:
            message = (
                f"if every planned balloon there holds the largest model of its size, NUMA node {numa} needs"
                f" {gib:.1f} of its {view.memory_gib[numa]:.1f} GiB: not all of them can run at once"
            )
            yield Verdict("memory-plan", "warning", message, (numa,), "fewer balloons in nri_plan, or nri_fill: once")
