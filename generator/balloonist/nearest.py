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
        for tp in sorted(view.node.offer.sets, key=lambda tp: (abs(tp - model.tp), -tp)):
            if tp != model.tp and tp <= model.cpu:
                how = self._fits(replace(model, tp=tp), view)
                if how is not None:
                    yield f"fits with tp={tp}{how}"
                    return

    def _other_cpu(self, model: Model, view: View) -> Iterator[str]:
        planned = {balloon.size_class for balloon in view.node.placed if balloon.size_class.tp == model.tp}
        for item in sorted(planned, key=lambda item: abs(item.cores - model.cpu)):
            if item != model.size_class and self.accepts(replace(model, cpu=item.cores), view):
                yield f"fits with cpu={item.cores}"
                break
        # Where a balloon of the same size could be made, a smaller one is no answer.
        most = 0 if self._fits(model, view) is not None else self._most_cores(model, view)
        if most:
            how = self._fits(replace(model, cpu=most), view)
            yield f"fits with cpu <= {most}{how}"

    def _most_cores(self, model: Model, view: View) -> int:
        """The most cores below the model's that fit, a multiple of tp; 0 for none.

        With a fixed plan only a plan of its own is looked at: there every smaller size fits as well.
        """
        if view.fixed and view.config.cpu_policy == "nri-balloons":

            def works(cores: int) -> bool:
                anew = with_balloon_for(view, SizeClass(model.tp, cores))
                return anew is not None and self.accepts(replace(model, cpu=cores * model.tp), anew)
        else:

            def works(cores: int) -> bool:
                return self.accepts(replace(model, cpu=cores * model.tp), view)

        limit = MAX_CONTAINER_CPUS // view.node.topology.threads_per_core // model.tp
        low, high = 0, min(model.size_class.cores_per_rank - 1, limit)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if works(middle) else (low, middle - 1)
        return low * model.tp

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
        for tp in sorted(view.node.offer.sets, key=lambda tp: (abs(tp - model.tp), -tp)):
            most = self._most_cores(replace(model, tp=tp, cpu=max(model.cpu, tp)), view)
            how = self._fits(replace(model, tp=tp, cpu=most), view) if most else None
            if how is not None:
                yield f"fits with tp={tp} and cpu <= {most}{how}"
                return


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
    # The order in which the plan lists balloons is that of policyspec and of the plugin.
    rank = {(tp, item): index for tp, sets in offer.sets.items() for index, item in enumerate(sets)}
    placed = tuple(sorted(packing.placed, key=lambda one: (one.size_class, rank[one.size_class.tp, one.numa_nodes])))
    names = dict(view.names)
    for one in wanted:
        names.setdefault(one, f"{tp_name(one.tp)}-c{one.cores}")
    running = tuple(replace(one, numa_nodes=()) for one in view.running)
    node = replace(view.node, placed=placed, left=dict(packing.left))
    return replace(view, node=node, names=names, running=running, planned_anew=True)


def _rounded_down(view: View) -> View:
    """Memory in whole GiB, so that nodes that differ by a few MiB share the work; what fits in less fits."""
    return replace(view, memory_gib={numa: float(math.floor(gib)) for numa, gib in view.memory_gib.items()})
