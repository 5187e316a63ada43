"""Exact answers about a whole fleet: the most of a mix of balloons that it can hold.

A :class:`Mix` asks for balloons of each class that must be there (``fixed``) and for *wishes*: things that each add
balloons, are worth something, and may be had several times. Two ways lead to the answer:

- Small fleets are one integer program with a variable for each node, class and NUMA set.
- Large ones are solved by patterns (column generation): the linear program over the patterns known so far gives every
  class a price; for each kind of node the best pattern at these prices is found by a small integer program and added;
  when none is better the linear program is solved for all patterns. Any prices give an upper bound (Lagrange), so a
  whole number of copies that reaches the rounded bound is proven to be the most. The nodes of a kind share patterns,
  which is why the work does not grow with their number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from balloonist import fleetsolver
from balloonist.fleetkinds import Kind, Pattern, packable
from balloonist.fleetsolver import INFINITY, Program, Solution
from balloonist.sizeclass import SizeClass

DIRECT_VARIABLES: Final = 1_500
"""Variables up to which a fleet is solved node by node."""

ROUNDS: Final = 20
"""Rounds of column generation after which the bound reached is taken as it is."""

PRICING_NODES: Final = 20
PRICING_GAP: Final = 0.005
"""Where the search for the best pattern of one kind stops; its proven bound is used, so the result stays correct."""

STEADY: Final = 0.8
"""Share of the prices of the best bound so far in the prices of a round."""

MASTER_NODES: Final = 200
"""Search nodes for whole numbers of nodes of each pattern."""

SMALL: Final = 1e-6


@dataclass(frozen=True)
class Wish:
    """Something to have up to ``most`` times: it is worth ``gain`` each time and needs ``balloons`` by class index."""

    gain: float
    most: int
    balloons: Mapping[int, int]


@dataclass(frozen=True)
class Mix:
    """What is asked of a fleet; ``fixed`` counts the balloons that must be there, by class."""

    kinds: Sequence[Kind]
    classes: Sequence[SizeClass]
    fixed: Pattern
    wishes: Sequence[Wish]


@dataclass(frozen=True)
class Answer:
    """How often each wish is met, how many nodes of each kind have which pattern, and the bound on the whole gain."""

    met: tuple[int, ...]
    patterns: tuple[Mapping[Pattern, int], ...]
    gain: float
    bound: float

    @property
    def proven(self) -> bool:
        """Whether nothing better exists (gains are whole numbers)."""
        return self.gain >= math.floor(self.bound + 1e-4) - SMALL


def solve(mix: Mix, start: Sequence[Mapping[Pattern, int]]) -> Answer | None:
    """The best answer found and its bound; ``start`` holds patterns for each kind to begin with. None: none found."""
    size = sum(len(kind.nodes) * _width(mix, kind) for kind in mix.kinds)
    if size <= DIRECT_VARIABLES:
        counts = [len(kind.nodes) for kind in mix.kinds]
        return direct(mix, counts, mix.fixed, [wish.most for wish in mix.wishes])
    return _by_patterns(mix, start)


def best_pattern(
    kind: Kind, classes: Sequence[SizeClass], prices: Sequence[float], gap: float = 0.0
) -> tuple[Pattern, float]:
    """The pattern of one node that is worth most at these prices, and a proven bound on its worth."""
    program = Program()
    counts = _node(program, kind, classes, prices)
    nothing = (0,) * len(classes)
    if not program.gains:
        return nothing, 0.0
    solution = fleetsolver.solve(program, integer=True, nodes=PRICING_NODES, gap=gap)
    if solution is None:
        return nothing, math.inf
    return packable(kind, _pattern(solution, counts), classes), solution.bound


def _width(mix: Mix, kind: Kind) -> int:
    return sum(len(kind.offer.sets[item.tp]) for item in mix.classes if kind.can_hold(item))


def _node(
    program: Program, kind: Kind, classes: Sequence[SizeClass], prices: Sequence[float], floor: float = 0.0
) -> list[list[int]]:
    """Add one node to a program; returns the variables that count the balloons of each class."""
    load: dict[int, dict[int, float]] = {numa: {} for numa in kind.offer.free}
    counts: list[list[int]] = [[] for _ in classes]
    for index, item in enumerate(classes):
        if not kind.can_hold(item) or prices[index] <= floor:
            continue
        for numa_set in kind.offer.sets[item.tp]:
            most = min(kind.offer.free[numa] // item.cores_per_rank for numa in numa_set)
            if most:
                variable = program.variable(prices[index], most)
                counts[index].append(variable)
                for numa in numa_set:
                    load[numa][variable] = item.cores_per_rank
    for numa, terms in load.items():
        if terms:
            program.row(-INFINITY, kind.offer.free[numa], terms)
    return counts


def _pattern(solution: Solution, counts: Sequence[Sequence[int]]) -> Pattern:
    return tuple(sum(round(solution.values[variable]) for variable in variables) for variables in counts)


def _wish_rows(
    program: Program,
    wishes: Sequence[tuple[Wish, int]],
    fixed: Sequence[int],
    supply: Sequence[Mapping[int, float]],
) -> tuple[list[int], list[int]]:
    """Add the wishes, and for each class the demand that its supply covers them; returns wish variables and rows."""
    variables = [program.variable(wish.gain, most) for wish, most in wishes]
    rows: list[int] = []
    for index, terms in enumerate(supply):
        needs = {
            variable: -float(wish.balloons[index])
            for variable, (wish, _) in zip(variables, wishes, strict=True)
            if index in wish.balloons
        }
        rows.append(program.row(fixed[index], INFINITY, {**terms, **needs}))
    return variables, rows


def direct(mix: Mix, nodes: Sequence[int], fixed: Sequence[int], most: Sequence[int]) -> Answer | None:
    """One integer program for so many ``nodes`` of each kind; alike nodes are ordered by load to break symmetry."""
    program = Program()
    members: list[tuple[int, list[list[int]]]] = []
    supply: list[dict[int, float]] = [{} for _ in mix.classes]
    for position, (kind, count) in enumerate(zip(mix.kinds, nodes, strict=True)):
        before: dict[int, float] = {}
        for _ in range(count):
            counts = _node(program, kind, mix.classes, [0.0] * len(mix.classes), floor=-1)
            members.append((position, counts))
            for index, variables in enumerate(counts):
                supply[index].update(dict.fromkeys(variables, 1.0))
            load = {variable: float(mix.classes[i].cores) for i, found in enumerate(counts) for variable in found}
            if before and load:
                program.row(0, INFINITY, {**before, **{variable: -cores for variable, cores in load.items()}})
            before = load
    wishes, _ = _wish_rows(program, list(zip(mix.wishes, most, strict=True)), fixed, supply)
    solution = fleetsolver.solve(program, integer=True)
    if solution is None:
        return None
    patterns: list[dict[Pattern, int]] = [{} for _ in mix.kinds]
    for position, counts in members:
        pattern = _pattern(solution, counts)
        if packable(mix.kinds[position], pattern, mix.classes) != pattern:
            return None
        patterns[position][pattern] = patterns[position].get(pattern, 0) + 1
    met = tuple(round(solution.values[variable]) for variable in wishes)
    return Answer(met, tuple(patterns), round(solution.objective, 6), solution.bound)


def _master(mix: Mix, known: Sequence[Mapping[Pattern, None]]) -> tuple[Program, list[list[int]], list[int], list[int]]:
    """The program over known patterns: it, the variables of each kind's patterns, of the wishes, and class rows."""
    program = Program()
    supply: list[dict[int, float]] = [{} for _ in mix.classes]
    uses: list[list[int]] = []
    for kind, patterns in zip(mix.kinds, known, strict=True):
        variables: list[int] = []
        for pattern in patterns:
            variable = program.variable(0.0, len(kind.nodes))
            variables.append(variable)
            for index, count in enumerate(pattern):
                if count:
                    supply[index][variable] = float(count)
        program.row(-INFINITY, len(kind.nodes), dict.fromkeys(variables, 1.0))
        uses.append(variables)
    wishes, rows = _wish_rows(program, [(wish, wish.most) for wish in mix.wishes], mix.fixed, supply)
    return program, uses, wishes, rows


def _by_patterns(mix: Mix, start: Sequence[Mapping[Pattern, int]]) -> Answer | None:
    """Column generation. Prices are mixed with those of the best bound so far, else they swing and rounds are lost."""
    known: list[dict[Pattern, None]] = [dict.fromkeys(patterns) for patterns in start]
    steady = _core_prices(mix)
    bound = sum(wish.gain * wish.most for wish in mix.wishes)
    for _ in range(ROUNDS):
        program, _, _, rows = _master(mix, known)
        solution = fleetsolver.solve(program, integer=False)
        if solution is None:
            return None
        if solution.objective >= math.floor(bound + SMALL) - SMALL:
            break
        prices = [abs(solution.duals[row]) for row in rows]
        rents = [abs(dual) for dual in solution.duals[: len(mix.kinds)]]
        new = False
        for weight in (STEADY, 0.0):
            mixed = [weight * old + (1 - weight) * now for old, now in zip(steady, prices, strict=True)]
            mixed = [price if price > SMALL else 0.0 for price in mixed]
            worth, found = _price(mix, mixed, prices, rents, known)
            new = new or found
            if worth < bound:
                bound, steady = worth, mixed
            if new:
                break
        if not new:
            break
    return _whole(mix, known, bound)


def _core_prices(mix: Mix) -> list[float]:
    """Prices by cores alone: what a core is worth in the wish that makes the least of it."""
    cores = [sum(mix.classes[index].cores * count for index, count in wish.balloons.items()) for wish in mix.wishes]
    each = min((wish.gain / total for wish, total in zip(mix.wishes, cores, strict=True)), default=0.0)
    return [each * item.cores for item in mix.classes]


def _price(
    mix: Mix,
    prices: Sequence[float],
    duals: Sequence[float],
    rents: Sequence[float],
    known: Sequence[dict[Pattern, None]],
) -> tuple[float, bool]:
    """Add the best pattern of every kind at these prices; returns the bound they prove and whether one helps.

    One helps if it is worth more than its kind's rent at the ``duals`` of the linear program.
    """
    bound = -sum(price * count for price, count in zip(prices, mix.fixed, strict=True))
    for wish in mix.wishes:
        cost = sum(prices[index] * count for index, count in wish.balloons.items())
        bound += wish.most * max(0.0, wish.gain - cost)
    new = False
    for kind, rent, patterns in zip(mix.kinds, rents, known, strict=True):
        pattern, worth = best_pattern(kind, mix.classes, prices, PRICING_GAP)
        bound += len(kind.nodes) * worth
        value = sum(price * count for price, count in zip(duals, pattern, strict=True))
        if value > rent + SMALL and pattern not in patterns:
            patterns[pattern] = None
            new = True
    return bound, new


def _whole(mix: Mix, known: Sequence[Mapping[Pattern, None]], bound: float) -> Answer | None:
    """Whole nodes for the patterns found: the integer program over them; patterns without use are left out."""
    program, variables, wishes, _ = _master(mix, known)
    solution = fleetsolver.solve(program, integer=True, nodes=MASTER_NODES, target=math.floor(bound + 1e-4))
    if solution is None:
        return None
    patterns = tuple(
        {
            pattern: round(solution.values[variable])
            for pattern, variable in zip(found, of_kind, strict=True)
            if round(solution.values[variable])
        }
        for found, of_kind in zip(known, variables, strict=True)
    )
    met = tuple(round(solution.values[variable]) for variable in wishes)
    return Answer(met, patterns, round(solution.objective, 6), bound)
