"""The fixed plan: how many balloons of which class stand on which NUMA nodes of every node.

The rule, in this order:

1. A node with a plan written in the configuration gets exactly that, or is refused.
2. Replicas declared in the catalog are spread over the other nodes: the largest balloons first, each on the node with
   the most free cores (by name among equals). This is a heuristic; where it fails, the balloons of a node are placed
   anew before the replica is given up.
3. Models without replicas get one balloon on every node where they fit, the largest first. Then, with fill ``all``,
   one more each in catalog order, again and again until nothing fits; with ``once`` the rest stays with the system.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from balloonist.capacity import Capacity, why_not
from balloonist.config import Fill
from balloonist.packing import Packing, Placed, best_set, pack, take
from balloonist.problem import Problem
from balloonist.sizeclass import SizeClass


@dataclass(frozen=True)
class Demand:
    """What one catalog model asks of the plan; ``replicas`` None means as many as fit."""

    model: str
    size_class: SizeClass
    replicas: int | None = None

    @property
    def copies(self) -> int:
        """Copies in one mix of the whole catalog."""
        return 1 if self.replicas is None else self.replicas


@dataclass(frozen=True)
class NodePlan:
    """The balloons of one node, the cores left on each NUMA node, and the models it has none for, with the reason."""

    placed: tuple[Placed, ...]
    left: Mapping[int, int]
    without: tuple[tuple[str, str], ...] = ()


@dataclass
class _Node:
    """A node while balloons are being added to it."""

    offer: Capacity
    left: dict[int, int]
    placed: list[Placed] = field(default_factory=list)

    def add(self, item: SizeClass) -> bool:
        """Add one balloon if there is room, placing the others anew if that makes room."""
        if self.add_here(item):
            return True
        if item.cores > sum(self.left.values()) or why_not(self.offer, item)[0]:
            return False
        again = pack(self.offer.free, self.offer.sets, [*(balloon.size_class for balloon in self.placed), item])
        if again.unplaced:
            return False
        self.placed, self.left = list(again.placed), dict(again.left)
        return True

    def add_here(self, item: SizeClass) -> bool:
        """Add one balloon if there is room beside the others as they stand."""
        if why_not(self.offer, item)[0]:
            return False
        numa_set = best_set(self.left, self.offer.sets, item)
        if numa_set is None:
            return False
        self.placed.append(Placed(item, numa_set))
        self.left = take(self.left, numa_set, item)
        return True

    def fingerprint(self) -> tuple[object, ...]:
        """Equal for nodes on which further balloons end up alike."""
        return (
            self.offer.threads_per_core,
            tuple(self.offer.free.items()),
            tuple(self.offer.sets.items()),
            tuple(self.placed),
        )


def plan_fleet(
    offers: Sequence[Capacity],
    demands: Sequence[Demand],
    by_hand: Mapping[str, Sequence[SizeClass]],
    fill: Fill,
    source: str,
) -> tuple[dict[str, NodePlan], list[Problem]]:
    """Plan every node; findings name the catalog (``source``), or the node whose written plan (``by_hand``) is wrong.

    Findings of severity ``error`` make the plan void.
    """
    problems: list[Problem] = []
    nodes = {offer.node: _Node(offer, dict(offer.free)) for offer in offers}
    for name, wanted in by_hand.items():
        problems += _place_by_hand(nodes[name], wanted)
    open_nodes = [node for name, node in nodes.items() if name not in by_hand]
    problems += _fitting_nowhere(offers, demands, source)
    if not problems:
        problems += _spread_replicas(open_nodes, demands, by_hand.values(), source)
        _fill_nodes(open_nodes, [demand for demand in demands if demand.replicas is None], fill)
    plans = {name: _finished(node, demands) for name, node in nodes.items()}
    return plans, problems + ([] if problems else _served_nowhere(plans, demands, source))


def _place_by_hand(node: _Node, wanted: Sequence[SizeClass]) -> list[Problem]:
    for item in dict.fromkeys(wanted):
        message, hint = why_not(node.offer, item)
        if message:
            return [Problem(node.offer.node, "", f"no balloon for {item} can exist: {message}", hint)]
    packing = pack(node.offer.free, node.offer.sets, wanted)
    if packing.unplaced:
        return [Problem(node.offer.node, "", _overfull(node.offer, wanted, packing), _most_that_fits(packing))]
    node.placed, node.left = list(packing.placed), dict(packing.left)
    return []


def _overfull(offer: Capacity, wanted: Sequence[SizeClass], packing: Packing) -> str:
    asked = ", ".join(f"{count} x {item}" for item, count in Counter(wanted).items())
    free = ", ".join(f"NUMA node {numa}: {cores}" for numa, cores in offer.free.items())
    verdict = "do not fit" if packing.proven else "could not be placed (the search was cut short)"
    total = sum(item.cores for item in wanted)
    return f"the planned balloons ({asked}; {total} cores) {verdict} on {offer.cores} free cores ({free})"


def _most_that_fits(packing: Packing) -> str:
    counted = Counter(balloon.size_class for balloon in packing.placed)
    fitting = ", ".join(f"{count} x {item}" for item, count in counted.items())
    return f"fits: {fitting}" if fitting else "none of them fits"


def _fitting_nowhere(offers: Sequence[Capacity], demands: Sequence[Demand], source: str) -> list[Problem]:
    """Models that not even an empty node could hold; the reason given is that of the node with the most cores."""
    problems: list[Problem] = []
    largest = sorted(offers, key=lambda offer: (-len(offer.free), -offer.cores, offer.node))
    for demand in demands:
        reasons: dict[str, tuple[str, str]] = {}
        for offer in largest:
            reason = why_not(offer, demand.size_class)
            if not reason[0]:
                break
            reasons.setdefault(reason[0], reason)
        else:
            if demand.replicas == 0 or not offers:
                continue
            message, hint = min(reasons.values(), key=lambda reason: "fits" not in reason[1])
            problems.append(Problem(source, demand.model, f"fits on no node: {message}", hint))
    return problems


def _spread_replicas(
    nodes: Sequence[_Node], demands: Sequence[Demand], by_hand: Iterable[Sequence[SizeClass]], source: str
) -> list[Problem]:
    problems: list[Problem] = []
    provided = Counter(item for wanted in by_hand for item in wanted)
    heap = [(-sum(node.left.values()), node.offer.node, node) for node in nodes]
    heapq.heapify(heap)
    declared = [demand for demand in demands if demand.replicas]
    for demand in sorted(declared, key=lambda demand: (-demand.size_class.cores, -demand.size_class.tp)):
        wanted = demand.replicas or 0
        from_hand = min(wanted, provided[demand.size_class])
        provided[demand.size_class] -= from_hand
        placed = from_hand
        while placed < wanted and _add_to_emptiest(heap, demand.size_class):
            placed += 1
        if placed < wanted:
            left = sum(sum(node.left.values()) for node in nodes)
            message = f"{wanted} replicas of {demand.size_class} are declared, only {placed} fit beside the others"
            problems.append(Problem(source, demand.model, message, f"{left} cores are left in the fleet, in pieces"))
    return problems


def _add_to_emptiest(heap: list[tuple[int, str, _Node]], item: SizeClass) -> bool:
    passed: list[tuple[int, str, _Node]] = []
    tried: set[tuple[object, ...]] = set()
    found = False
    while heap and not found:
        entry = heapq.heappop(heap)
        node = entry[2]
        fingerprint = node.fingerprint()
        found = fingerprint not in tried and node.add(item)
        tried.add(fingerprint)
        passed.append((-sum(node.left.values()), entry[1], node) if found else entry)
    for entry in passed:
        heapq.heappush(heap, entry)
    return found


def _fill_nodes(nodes: Sequence[_Node], demands: Sequence[Demand], fill: Fill) -> None:
    """Rule 3; nodes that are alike are worked out once."""
    done: dict[tuple[object, ...], _Node] = {}
    for node in nodes:
        fingerprint = node.fingerprint()
        twin = done.get(fingerprint)
        if twin is not None:
            node.placed, node.left = list(twin.placed), dict(twin.left)
            continue
        for demand in sorted(demands, key=lambda demand: (-demand.size_class.cores, -demand.size_class.tp)):
            node.add(demand.size_class)
        fitting = [demand.size_class for demand in demands]
        while fill == "all" and fitting:
            fitting = [item for item in fitting if node.add_here(item)]
        done[fingerprint] = node


def _finished(node: _Node, demands: Sequence[Demand]) -> NodePlan:
    counts = Counter(balloon.size_class for balloon in node.placed)
    without = tuple(
        (demand.model, why_not(node.offer, demand.size_class)[0] or "no room is left beside the others")
        for demand in demands
        if not counts[demand.size_class]
    )
    rank = {(tp, item): index for tp, sets in node.offer.sets.items() for index, item in enumerate(sets)}
    placed = sorted(node.placed, key=lambda balloon: rank[balloon.size_class.tp, balloon.numa_nodes])
    return NodePlan(tuple(placed), node.left, without)


def _served_nowhere(plans: Mapping[str, NodePlan], demands: Sequence[Demand], source: str) -> list[Problem]:
    """Models that fit in principle but have no balloon anywhere: a warning, since nobody declared how many to have."""
    made = {balloon.size_class for plan in plans.values() for balloon in plan.placed}
    return [
        Problem(
            source,
            demand.model,
            "has no balloon on any node: no room is left beside the other models",
            "give the models replicas, or write nri_plan",
            "warning",
        )
        for demand in demands
        if plans and demand.replicas is None and demand.size_class not in made
    ]
