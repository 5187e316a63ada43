"""What keeps models off nodes besides cores: attention heads and the memory of NUMA nodes.

The plan counts cores. A class of balloons is kept off a node where no model of it could ever run, and a finished plan
is refused where the balloons of a NUMA node need more memory than it has. Both judge a class by its *smallest* model
of known memory, so that only what is impossible for certain is refused. Memory is in GiB.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from balloonist import heads
from balloonist.catalog import Model
from balloonist.layout import NodeLayout
from balloonist.memorychecks import planned_gib
from balloonist.modelmemory import rank_memory
from balloonist.problem import Problem
from balloonist.sizeclass import SizeClass


def model_problems(models: Sequence[Model], nodes: Sequence[NodeLayout], source: str) -> Iterator[Problem]:
    """Models that no node can serve, whatever its free cores: their heads do not divide, or a rank fits nowhere."""
    sizes = {count for node in nodes for count in node.offer.sets}
    for model in models:
        if model.replicas == 0:
            continue
        reason = heads.problem_with(model.tp, model.heads, model.kv_heads)
        if reason:
            fitting = (count // model.stages for count in sizes if count % model.stages == 0)
            valid = heads.valid_sizes(fitting, model.heads, model.kv_heads)
            yield Problem(
                source, model.name, reason, f"valid tp on these nodes: {', '.join(map(str, valid)) or 'none'}"
            )
            continue
        memory = rank_memory(model)
        most = max((_most_memory(node, model.ranks) for node in nodes), default=0.0)
        if memory is not None and most and memory.gib > most:
            message = f"a rank needs {memory.gib:.1f} GiB ({memory.parts}), the largest NUMA node has {most:.1f}"
            yield Problem(source, model.name, message, "a larger tp, a smaller KV cache or quantised weights")


def classes_without_memory(smallest: Mapping[SizeClass, float], node: NodeLayout) -> frozenset[SizeClass]:
    """Classes of which not even the smallest model's rank fits the memory of any NUMA set of the node."""
    return frozenset(item for item, gib in smallest.items() if gib > _most_memory(node, item.tp))


def overfull(node: NodeLayout, smallest: Mapping[SizeClass, float], source: str) -> Iterator[Problem]:
    """NUMA nodes whose planned balloons need more memory than there is, even with the smallest models in them."""
    for numa, gib in planned_gib(node, smallest):
        has = node.topology.numa(numa).memory_mib / 1024
        if gib > has:
            message = f"NUMA node {numa} has {has:.1f} GiB, the models in its planned balloons need {gib:.1f}"
            yield Problem(source, node.topology.node, message, "fewer replicas, nri_fill: once, or smaller KV caches")


def smallest_ranks(models: Iterable[Model]) -> dict[SizeClass, float]:
    """Memory of a rank of each class's smallest model; classes with a model of unknown memory are left out."""
    found: dict[SizeClass, float] = {}
    unknown: set[SizeClass] = set()
    for model in models:
        memory = rank_memory(model)
        if memory is None:
            unknown.add(model.size_class)
        else:
            found[model.size_class] = min(memory.gib, found.get(model.size_class, memory.gib))
    return {item: gib for item, gib in found.items() if item not in unknown}


def _most_memory(node: NodeLayout, ranks: int) -> float:
    """The memory that every rank can have on the best NUMA set of that many NUMA nodes; 0 where there is no set."""
    sets = node.offer.sets.get(ranks, ())
    return max((min(node.topology.numa(numa).memory_mib for numa in item) / 1024 for item in sets), default=0.0)
