"""The plan of a fleet against brute force, and its promises."""

from __future__ import annotations

from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from balloonist import fleetmix, fleetplan, fleetsolver
from balloonist.capacity import Capacity
from balloonist.packing import pack
from balloonist.plan import Demand
from balloonist.sizeclass import SizeClass
from fleet.fleets import fits, fleet, offer


def demands(*sizes: int, replicas: int | None = 1) -> list[Demand]:
    """One model of TP 1 for each size in cores."""
    return [Demand(f"m{index}", SizeClass(1, size), replicas) for index, size in enumerate(sizes)]


@st.composite
def small_fleets(draw: st.DrawFn) -> list[Capacity]:
    """One to three nodes of one or two NUMA nodes with up to 10 cores."""
    nodes = draw(st.integers(1, 3))
    shape = st.lists(st.integers(1, 10), min_size=1, max_size=2)
    return [offer(f"n{index}", *draw(shape), pairs=True) for index in range(nodes)]


classes = st.builds(SizeClass, st.sampled_from([1, 1, 2]), st.integers(1, 6))


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(offers=small_fleets(), items=st.lists(classes, min_size=1, max_size=7))
def test_declared_replicas_are_placed_exactly_if_that_is_possible(
    offers: list[Capacity], items: list[SizeClass]
) -> None:
    asked = [Demand(f"m{index}", item, 1) for index, item in enumerate(items)]
    planned = fleetplan.plan(fleet(*offers), asked, "all")
    assert (not planned.shortages) == fits(offers, items)
    assert planned.replicas_proven
    assert planned.impossible == bool(planned.shortages)
    by_name = {item.node: item for item in offers}
    total = 0
    for node, pattern in fleetplan.by_node(planned).items():
        wanted = [item for item, count in zip(planned.classes, pattern, strict=True) for _ in range(count)]
        assert not pack(by_name[node].free, by_name[node].sets, wanted).unplaced
        total += len(wanted)
    assert total == len(items) - sum(item.wanted - item.placed for item in planned.shortages)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(offers=small_fleets(), items=st.lists(classes, min_size=1, max_size=3))
def test_the_number_of_copies_is_the_largest(offers: list[Capacity], items: list[SizeClass]) -> None:
    planned = fleetplan.plan(fleet(*offers), [Demand(f"m{i}", item) for i, item in enumerate(items)], "all")
    copies = planned.copies
    assert copies is not None
    assert planned.copies_proven
    assert fits(offers, items * copies)
    assert not fits(offers, items * (copies + 1))


def test_the_solver_finds_what_the_heuristic_misses() -> None:
    # Only 5+3+2 and 4+2+2+2 fill both nodes; largest first puts 5 and 4 on different nodes, then 3 beside 4.
    offers, asked = [offer("a", 10), offer("b", 10)], demands(5, 4, 3, 2, 2, 2, 2)
    heuristic = fleetplan.plan(fleet(*offers), asked, "all", solver=False)
    assert heuristic.shortages
    planned = fleetplan.plan(fleet(*offers), asked, "all", solver=True)
    assert not planned.shortages
    assert planned.replicas_proven


def test_a_shortage_has_numbers_and_a_proof() -> None:
    planned = fleetplan.plan(fleet(offer("a", 10), offer("b", 10)), demands(6, replicas=3), "all")
    shortage = planned.shortages[0]
    assert (shortage.wanted, shortage.placed, shortage.alone) == (3, 2, 2)
    assert planned.replicas_proven


def test_without_a_solver_only_counting_proves_that_not_all_fit() -> None:
    for replicas, sizes, counted in ((3, (6,), True), (1, (5, 4, 3, 2, 2, 2, 2), False)):
        asked = demands(*sizes, replicas=replicas)
        planned = fleetplan.plan(fleet(offer("a", 10), offer("b", 10)), asked, "all", solver=False)
        assert (bool(planned.shortages), planned.impossible, planned.replicas_proven) == (True, counted, False)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(offers=small_fleets(), items=st.lists(classes, min_size=1, max_size=5))
def test_patterns_never_claim_what_is_not_so(offers: list[Capacity], items: list[SizeClass]) -> None:
    with mock.patch.object(fleetmix, "DIRECT_VARIABLES", -1):
        declared = fleetplan.plan(fleet(*offers), [Demand(f"m{i}", item, 1) for i, item in enumerate(items)], "all")
        many = fleetplan.plan(fleet(*offers), [Demand(f"m{i}", item) for i, item in enumerate(items[:3])], "all")
    possible = fits(offers, items)
    assert possible or declared.shortages
    assert not (possible and declared.impossible)
    assert many.copies is not None
    assert many.bound is not None
    assert fits(offers, items[:3] * many.copies)
    assert not fits(offers, items[:3] * (many.bound + 1))


def test_replicas_of_a_model_are_spread_over_nodes_and_models_share_packages() -> None:
    planned = fleetplan.plan(fleet(*(offer(name, 20) for name in "abcd")), demands(4, 5, replicas=2), "all")
    assert fleetplan.by_node(planned) == {"a": (1, 1), "b": (1, 1), "c": (0, 0), "d": (0, 0)}


def test_once_gives_every_node_one_of_each() -> None:
    planned = fleetplan.plan(fleet(offer("a", 20), offer("b", 8)), demands(5, 3, replicas=None), "once")
    assert fleetplan.by_node(planned) == {"a": (1, 1), "b": (1, 1)}


def test_every_model_is_served_although_each_node_alone_has_room_for_few() -> None:
    planned = fleetplan.plan(fleet(*(offer(str(n), 10) for n in range(3))), demands(10, 9, 8, replicas=None), "all")
    assert planned.copies == 1
    assert planned.copies_proven


@pytest.mark.parametrize("solver", [True, False])
def test_equal_input_gives_equal_plans(solver: bool) -> None:
    offers = [offer(f"n{index:02}", 17, 19 - index % 3, pairs=True) for index in range(40)]
    asked = [Demand(f"m{index}", SizeClass(1 + index % 2, 2 + index)) for index in range(7)]
    first, second = (fleetplan.plan(fleet(*offers), asked, "all", solver=solver) for _ in range(2))
    assert first == second


def test_the_solver_says_nothing_on_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    program = fleetsolver.Program()
    program.variable(1, 3)
    solution = fleetsolver.solve(program, integer=True)
    assert solution is not None
    assert solution.objective == 3
    assert capfd.readouterr().out == ""
