"""The nearest thing that would fit on a node. Nothing is suggested that the same checks did not accept first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from balloonist.catalog import KV_SPACE, Model
from balloonist.landing import View
from balloonist.modelmemory import rank_memory
from balloonist.packing import pack
from balloonist.sizeclass import MAX_CONTAINER_CPUS, SizeClass, tp_name
from balloonist.verdict import NodeAnswer

Accepts = Callable[[Model, View], bool]
"""Whether the model fits on the node by every check, those of the model itself included."""

NEW_PLAN: Final = " in a new plan"
"""What is said of balloons that the current plan does not have: nri_plan or balloonist values can make them."""

_ROOM: Final = frozenset({"numa", "cores", "limit", "balloon", "free", "spill"})


@dataclass(frozen=True)
class Finder:
    """Looks for changes of one setting that make a model fit; ``accepts`` is the full set of checks."""

    accepts: Accepts

    def suggestions(self, model: Model, view: View, answer: NodeAnswer) -> tuple[str, ...]:
        """What would fit on this node, best first; () if no single change helps."""
        checks = {verdict.check for verdict in answer.verdicts if not verdict.ok}
        view = _rounded_down(view)
        found: list[str] = []
        if checks & _ROOM:
            found += self._same_again(model, view)
            found += self._other_cpu(model, view)
        if "memory" in checks:
            found += self._smaller_kv(model, view)
        found += self._other_tp(model, view)
        return tuple(found) or tuple(self._two_changes(model, view))

    def _fits(self, model: Model, view: View) -> str | None:
        """ "" if it fits as things are, NEW_PLAN if it would with a balloon of its own; None if it does not."""
        if self.accepts(model, view):
            return ""
        anew = with_balloon_for(view, model.size_class)
        return NEW_PLAN if anew is not None and self.accepts(model, anew) else None

    def _same_again(self, model: Model, view: View) -> Iterator[str]:
        how = self._fits(model, view)
        if how == NEW_PLAN:
            yield f"fits{NEW_PLAN} with one more balloon of {model.size_class}"
        elif how is not None:
            yield f"fits with balloon type {view.type_of(model.size_class)}"

    def _other_tp(self, model: Model, view: View) -> Iterator[str]:
        for tp in _tp_sizes(model, view):
            if tp != model.tp and tp * model.stages <= model.cpu:
                how = self._fits(replace(model, tp=tp), view)
                if how is not None:
                    yield f"fits with tp={tp}{how}"
                    return

    def _other_cpu(self, model: Model, view: View) -> Iterator[str]:
        planned = {balloon.size_class for balloon in view.node.placed if balloon.size_class.tp == model.ranks}
        for item in sorted(planned, key=lambda item: abs(item.cores - model.cpu)):
            if item != model.size_class and self.accepts(replace(model, cpu=item.cores), view):
                yield f"fits with cpu={item.cores}"
                break
        # Where a balloon of the same size could be made, a smaller one is no answer.
        most = 0 if self._fits(model, view) is not None else self._most_cores(model, view)
        if most:
            yield f"fits with {self._cpu_text(model, view, most)}"

    def _cpu_text(self, model: Model, view: View, most: int) -> str:
        """The cores that fit, with "<=" only where each smaller number was looked at and fits as well.

        With fewer cores a balloon may land on another NUMA node, whose memory is too small. The elastic layout is
        simulated, which is too slow for every number.
        """
        if view.fixed and all(self._fits_anew(model, view, cores) for cores in range(1, most // model.ranks + 1)):
            return f"cpu <= {most}{NEW_PLAN}"
        return f"cpu={most}{self._fits(replace(model, cpu=most), view)}"

    def _fits_anew(self, model: Model, view: View, cores: int) -> bool:
        """Whether the model with so many cores for each rank fits with a plan made for it."""
        anew = with_balloon_for(view, SizeClass(model.ranks, cores))
        return anew is not None and self.accepts(replace(model, cpu=cores * model.ranks), anew)

    def _most_cores(self, model: Model, view: View) -> int:
        """The most cores below the model's that fit, a multiple of tp; 0 for none.

        Found by halving; with a fixed plan only a plan made for that size is looked at.
        """

        def works(cores: int) -> bool:
            if view.fixed and view.config.cpu_policy == "nri-balloons":
                return self._fits_anew(model, view, cores)
            return self.accepts(replace(model, cpu=cores * model.ranks), view)

        limit = MAX_CONTAINER_CPUS // view.node.topology.threads_per_core // model.ranks
        low, high = 0, min(model.size_class.cores_per_rank - 1, limit)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if works(middle) else (low, middle - 1)
        return low * model.ranks

    def _smaller_kv(self, model: Model, view: View) -> Iterator[str]:
        memory = rank_memory(model)
        if memory is None or not memory.kv_gib:
            return
        room = max(view.memory_gib.values(), default=0.0) - memory.rest_gib
        environment = {name: value for name, value in model.env.items() if name != KV_SPACE}
        low, high = 0, min(memory.kv_gib - 1, max(0, math.floor(room)))
        while low < high:
            middle = (low + high + 1) // 2
            changed = replace(model, kv_cache_gib=middle, env=environment)
            low, high = (middle, high) if self._fits(changed, view) is not None else (low, middle - 1)
        if low:
            how = self._fits(replace(model, kv_cache_gib=low, env=environment), view)
            yield f"fits with kv_cache_gib <= {low}{how}"

    def _two_changes(self, model: Model, view: View) -> Iterator[str]:
        """Another TP together with fewer cores, for models that no single change helps."""
        for tp in _tp_sizes(model, view):
            changed = replace(model, tp=tp, cpu=max(model.cpu, tp * model.stages))
            most = self._most_cores(changed, view)
            if most:
                yield f"fits with tp={tp} and {self._cpu_text(changed, view, most)}"
                return


def _tp_sizes(model: Model, view: View) -> list[int]:
    """TP sizes for which all ranks of the model have NUMA nodes here, the nearest to the model's own first."""
    counts = view.node.offer.sets
    sizes = [count // model.stages for count in counts if count % model.stages == 0]
    return sorted(sizes, key=lambda tp: (abs(tp - model.tp), -tp))


def with_balloon_for(view: View, item: SizeClass) -> View | None:
    """The node with a plan made anew: a balloon for everything that runs and one for this class; None if impossible."""
    if not view.fixed or view.config.cpu_policy != "nri-balloons":
        return None
    offer = view.node.offer
    wanted = [*(one.size_class for one in view.running), item]
    if any(one.tp not in offer.sets for one in wanted):
        return None
    packing = pack(offer.free, offer.sets, wanted)
    if packing.unplaced:
        return None
    rank = {(tp, item): index for tp, sets in offer.sets.items() for index, item in enumerate(sets)}
    names = dict(view.names)
    for one in wanted:
        names.setdefault(one, f"{tp_name(one.tp)}-c{one.cores}")
    order = {item: index for index, item in enumerate(names)}  # as the layout lists balloons, and the plugin makes them
    placed = tuple(
        sorted(packing.placed, key=lambda one: (order[one.size_class], rank[one.size_class.tp, one.numa_nodes]))
    )
    running = tuple(replace(one, numa_nodes=()) for one in view.running)
    node = replace(view.node, placed=placed, left=dict(packing.left))
    return replace(view, node=node, names=names, running=running, planned_anew=True)


def _rounded_down(view: View) -> View:
    """Memory in whole GiB, so that nodes that differ by a few MiB share the work; what fits in less fits."""
    return replace(view, memory_gib={numa: float(math.floor(gib)) for numa, gib in view.memory_gib.items()})
