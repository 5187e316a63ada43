"""The plan of a whole fleet: exact where a solver is installed, said to be heuristic where none was used.

1. All declared replicas have a place, or the plan is refused with the numbers.
2. The models without replicas get the same number of balloons each, the most that is possible (at most one with
   ``nri_fill: once``); where not even one each was found, the largest that fit get one.
3. What is left is filled with one more of each in catalog order, again and again; with ``once`` every node gets one
   of each where it fits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from balloonist import fleetmix, fleetsolver
from balloonist.config import Fill
from balloonist.fleetfill import Contents, Filler
from balloonist.fleetkinds import Kind, Pattern, most_alone
from balloonist.fleetmix import Answer, Mix, Wish
from balloonist.plan import Demand
from balloonist.sizeclass import SizeClass


@dataclass(frozen=True)
class Shortage:
    """Replicas of one class: declared, placed at most beside the others, and the most that fit alone in the fleet."""

    size_class: SizeClass
    wanted: int
    placed: int
    alone: int


@dataclass(frozen=True)
class FleetPlan:
    """Which nodes have which balloons. ``copies`` is the number that every model without replicas has at least.

    ``bound`` is the most copies there could be, ``solver`` whether one was at hand. ``shortages`` is empty where all
    replicas have a place. ``impossible`` says whether it is proven that they cannot all have one,
    ``replicas_proven`` whether no plan has more cores of them, ``copies_proven`` whether none has more copies.
    """

    classes: tuple[SizeClass, ...]
    contents: Contents
    shortages: tuple[Shortage, ...]
    copies: int | None
    bound: int | None
    impossible: bool
    replicas_proven: bool
    copies_proven: bool
    solver: bool


@dataclass(frozen=True)
class _Task:
    """Classes with the balloons that are declared of each, and how many models without replicas are of each."""

    kinds: Sequence[Kind]
    classes: tuple[SizeClass, ...]
    declared: Pattern
    open_models: Pattern

    @property
    def largest_first(self) -> list[int]:
        return sorted(range(len(self.classes)), key=lambda index: (-self.classes[index].cores, self.classes[index]))

    @property
    def cores(self) -> int:
        return sum(len(kind.nodes) * kind.offer.cores for kind in self.kinds)


def task(kinds: Sequence[Kind], demands: Sequence[Demand]) -> _Task:
    """The demands by class, in catalog order."""
    classes = tuple(dict.fromkeys(demand.size_class for demand in demands))
    declared = [0] * len(classes)
    open_models = [0] * len(classes)
    for demand in demands:
        index = classes.index(demand.size_class)
        declared[index] += demand.replicas or 0
        open_models[index] += demand.replicas is None
    return _Task(kinds, classes, tuple(declared), tuple(open_models))


def plan(kinds: Sequence[Kind], demands: Sequence[Demand], fill: Fill, *, solver: bool | None = None) -> FleetPlan:
    """Plan the fleet; ``solver`` False does without one even if it is installed."""
    asked = task(kinds, demands)
    exact = fleetsolver.available() if solver is None else solver
    filler, impossible, proven = _replicas(asked, exact)
    placed = filler.totals()
    if tuple(placed) != asked.declared:
        return FleetPlan(
            asked.classes, filler.contents, _shortages(asked, placed), None, None, impossible, proven, False, exact
        )
    copies, bound = _copies(asked, filler, exact, fill)
    _fill_up(asked, filler, fill)
    sure = bound is None or copies == bound
    return FleetPlan(asked.classes, filler.contents, (), copies, bound, False, True, sure, exact)


def most_copies(kinds: Sequence[Kind], classes: Sequence[SizeClass], mix: Pattern, *, solver: bool) -> tuple[int, int]:
    """How many times the whole mix fits, and the proven bound on that."""
    asked = _Task(kinds, tuple(classes), (0,) * len(classes), mix)
    copies, bound = _copies(asked, Filler(kinds, classes), solver, "all", serve_some=False)
    return copies or 0, bound or 0


def _replicas(asked: _Task, exact: bool) -> tuple[Filler, bool, bool]:
    """All declared replicas, or as many cores of them as possible.

    Also whether it is proven that not all are possible, and whether no more are.
    """
    tried: list[Filler] = []
    for order in ("spread", "emptiest", "fullest"):
        filler = Filler(asked.kinds, asked.classes, order)
        complete = [filler.add(index) for index in asked.largest_first for _ in range(asked.declared[index])]
        if all(complete):
            filler.order = "spread"
            return filler, False, True
        tried.append(filler)
    filler = max(tried, key=lambda filler: _gain(asked, filler))
    filler.order = "spread"
    wanted = sum(map(_product, zip(asked.declared, asked.classes, strict=True)))
    impossible = wanted > asked.cores or any(item.alone < item.wanted for item in _shortages(asked, filler.totals()))
    if not exact:
        return filler, impossible, False
    wishes = [
        Wish(item.cores, count, {index: 1})
        for index, (item, count) in enumerate(zip(asked.classes, asked.declared, strict=True))
        if count
    ]
    nothing = (0,) * len(asked.classes)
    answer = fleetmix.solve(Mix(asked.kinds, asked.classes, nothing, wishes), _start(asked, tried))
    if answer is None:
        return filler, impossible, False
    if answer.gain > _gain(asked, filler):
        _take(filler, answer, asked.declared)
        for index in asked.largest_first:
            _add_missing(asked, filler, index)
    gain = _gain(asked, filler)
    return filler, impossible or answer.bound < wanted - 0.5, gain == wanted or gain > answer.bound - 0.5


def _add_missing(asked: _Task, filler: Filler, index: int) -> None:
    """Place what the patterns left over of one class, as far as there is room."""
    missing = asked.declared[index] - filler.totals()[index]
    while missing > 0 and filler.add(index):
        missing -= 1


def _product(pair: tuple[int, SizeClass]) -> int:
    return pair[0] * pair[1].cores


def _gain(asked: _Task, filler: Filler) -> int:
    return sum(map(_product, zip(filler.totals(), asked.classes, strict=True)))


def _start(asked: _Task, tried: Sequence[Filler]) -> list[dict[Pattern, int]]:
    """Patterns to begin with: those of the heuristics and, for each class, as many of it as fit on a node."""
    found = tried[0].counts()
    for filler in tried[1:]:
        for patterns, more in zip(found, filler.counts(), strict=True):
            patterns.update(more)
    for kind, patterns in zip(asked.kinds, found, strict=True):
        for index, item in enumerate(asked.classes):
            most = most_alone(kind, item)[0]
            patterns.setdefault(tuple(most * (place == index) for place in range(len(asked.classes))), 0)
    return found


def _take(filler: Filler, answer: Answer, wanted: Sequence[int]) -> None:
    """Load an answer without the balloons that patterns have beyond what is wanted."""
    filler.load(answer.patterns)
    surplus = [have - want for have, want in zip(filler.totals(), wanted, strict=True)]
    contents: Contents = []
    for found in filler.contents:
        trimmed: dict[Pattern, list[str]] = {}
        for pattern, names in found.items():
            for name in names:
                less = [min(count, max(0, over)) for count, over in zip(pattern, surplus, strict=True)]
                surplus = [over - gone for over, gone in zip(surplus, less, strict=True)]
                kept = tuple(count - gone for count, gone in zip(pattern, less, strict=True))
                trimmed.setdefault(kept, []).append(name)
        contents.append({pattern: sorted(names) for pattern, names in trimmed.items()})
    filler.contents = contents


def _shortages(asked: _Task, placed: Sequence[int]) -> tuple[Shortage, ...]:
    return tuple(
        Shortage(item, want, have, sum(len(kind.nodes) * most_alone(kind, item)[0] for kind in asked.kinds))
        for item, want, have in zip(asked.classes, asked.declared, placed, strict=True)
        if have < want
    )


def _copies(
    asked: _Task, filler: Filler, exact: bool, fill: Fill, *, serve_some: bool = True
) -> tuple[int | None, int | None]:
    """Give every model without replicas the same number of balloons; returns that number and the bound on it."""
    if not any(asked.open_models):
        return None, None
    bound = _simple_bound(asked)
    if fill == "once":
        bound = min(bound, 1)
    copies = 0
    before = filler.snapshot()
    while copies < bound and _one_each(asked, filler):
        copies += 1
        before = filler.snapshot()
    partial = filler.contents
    filler.contents = before
    if copies < bound and exact:
        wish = Wish(1, bound, {index: count for index, count in enumerate(asked.open_models) if count})
        answer = fleetmix.solve(Mix(asked.kinds, asked.classes, asked.declared, [wish]), _start(asked, [filler]))
        if answer is not None:
            bound = min(bound, int(answer.bound + 1e-4))
            if answer.met[0] > copies:
                copies = answer.met[0]
                pairs = zip(asked.declared, asked.open_models, strict=True)
                _take(filler, answer, [base + copies * each for base, each in pairs])
    if copies == 0 and serve_some:
        filler.contents = partial
    return copies, bound


def _simple_bound(asked: _Task) -> int:
    """Copies that the cores would do for, and that each class would reach alone."""
    used = sum(map(_product, zip(asked.declared, asked.classes, strict=True)))
    each = sum(map(_product, zip(asked.open_models, asked.classes, strict=True)))
    bounds = [(asked.cores - used) // each]
    for item, base, count in zip(asked.classes, asked.declared, asked.open_models, strict=True):
        if count:
            alone = sum(len(kind.nodes) * most_alone(kind, item)[0] for kind in asked.kinds)
            bounds.append(max(0, alone - base) // count)
    return min(bounds)


def _one_each(asked: _Task, filler: Filler) -> bool:
    """One more balloon for every model without replicas, the largest first; False where one had no place."""
    done = [filler.add(index) for index in asked.largest_first for _ in range(asked.open_models[index])]
    return all(done)


def _fill_up(asked: _Task, filler: Filler, fill: Fill) -> None:
    """Fill the rest: as long as anything fits, or with ``once`` until every node has one for each model."""
    fitting = [index for index, count in enumerate(asked.open_models) if count]
    while fitting:
        fitting = [
            index for index in fitting if filler.add(index, asked.open_models[index] if fill == "once" else None)
        ]


def by_node(planned: FleetPlan) -> Mapping[str, Pattern]:
    """The balloons of each node, in name order."""
    nodes = {name: pattern for found in planned.contents for pattern, names in found.items() for name in names}
    return dict(sorted(nodes.items()))
