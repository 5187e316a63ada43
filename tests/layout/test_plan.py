"""The fixed plan: written by hand, from replicas, or filled from the catalog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balloonist.capacity import Capacity, capacity, why_not
from balloonist.config import Fill
from balloonist.cpuset import EMPTY
from balloonist.plan import Demand, NodePlan, plan_fleet
from balloonist.problem import Problem
from balloonist.sizeclass import SizeClass
from machines import machine, machines


def offer(node: str = "w1", packages: int = 1, numa: int = 2, cores: int = 32, threads: int = 2) -> Capacity:
    return capacity(machine(packages, numa, cores, threads, node=node), EMPTY, None)


def plan(
    offers: Sequence[Capacity],
    demands: Sequence[Demand] = (),
    by_hand: dict[str, list[SizeClass]] | None = None,
    fill: Fill = "all",
) -> tuple[dict[str, NodePlan], list[Problem]]:
    return plan_fleet(offers, demands, by_hand or {}, fill, "models.yaml")


def counts(node: NodePlan) -> Counter[SizeClass]:
    return Counter(balloon.size_class for balloon in node.placed)


SMALL, LARGE, WIDE = SizeClass(1, 8), SizeClass(1, 24), SizeClass(2, 8)


def test_a_written_plan_is_kept_exactly() -> None:
    plans, problems = plan([offer()], [Demand("a", SMALL)], {"w1": [LARGE, LARGE, SMALL]})
    assert not problems
    assert counts(plans["w1"]) == {LARGE: 2, SMALL: 1}


def test_an_overfull_written_plan_is_refused_with_the_numbers() -> None:
    _, problems = plan([offer()], by_hand={"w1": [LARGE] * 3})
    (found,) = problems
    assert "3 x tp=1 with 24 cores; 72 cores" in found.message
    assert "64 free cores (NUMA node 0: 32, NUMA node 1: 32)" in found.message
    assert found.hint == "fits: 2 x tp=1 with 24 cores"


@pytest.mark.parametrize(
    ("item", "message", "hint"),
    [
        (SizeClass(3, 8), "tp=3 needs 3 NUMA nodes with CPUs and memory, w1 has 2", "the largest it can hold"),
        (SizeClass(1, 33), "it needs 33 whole cores on one NUMA node, w1 has at most 32", "fits with tp=2"),
        (SizeClass(2, 40), "on each of 2 NUMA nodes, w1 has at most 32", "fits with cpu <= 64"),
    ],
)
def test_a_balloon_that_cannot_exist_is_refused_with_the_nearest_that_can(
    item: SizeClass, message: str, hint: str
) -> None:
    _, (found,) = plan([offer()], by_hand={"w1": [item]})
    assert message in found.message
    assert hint in found.hint


def test_more_than_256_cpus_for_one_container_are_refused() -> None:
    message, hint = why_not(offer(numa=2, cores=80), SizeClass(2, 65))
    assert message == "it asks for 260 logical CPUs, one container may ask for at most 256"
    assert hint == "at most 128 cores with tp=2"


def test_replicas_are_exact_and_spread_over_the_emptiest_nodes() -> None:
    offers = [offer(node) for node in ("w1", "w2", "w3")]
    plans, problems = plan(offers, [Demand("a", LARGE, 3), Demand("b", SMALL, 1), Demand("c", WIDE, 0)])
    assert not problems
    assert [counts(plans[node]) for node in ("w1", "w2", "w3")] == [{LARGE: 1, SMALL: 1}, {LARGE: 1}, {LARGE: 1}]


def test_replicas_that_do_not_fit_are_refused_with_the_numbers() -> None:
    _, (found,) = plan([offer()], [Demand("a", LARGE, 3)])
    assert found.severity == "error"
    assert found.message == "3 replicas of tp=1 with 24 cores are declared, only 2 fit beside the others"


def test_replicas_count_the_balloons_of_written_plans() -> None:
    plans, problems = plan([offer("w1"), offer("w2")], [Demand("a", LARGE, 2)], {"w1": [LARGE]})
    assert not problems
    assert counts(plans["w2"]) == {LARGE: 1}


def test_without_replicas_every_model_has_a_balloon_and_the_rest_is_filled_in_catalog_order() -> None:
    demands = [Demand("a", LARGE), Demand("b", SMALL), Demand("c", WIDE)]
    plans, problems = plan([offer(cores=48)], demands)
    assert not problems
    # once each: 24 + 8 + 2x8 = 48 of 96 cores; then a (24), b (8), c (16)
    assert counts(plans["w1"]) == {LARGE: 2, SMALL: 2, WIDE: 2}
    assert sum(plans["w1"].left.values()) == 0


def test_fill_once_leaves_the_rest_to_the_system() -> None:
    plans, _ = plan([offer(cores=48)], [Demand("a", LARGE), Demand("b", SMALL), Demand("c", WIDE)], fill="once")
    assert counts(plans["w1"]) == {LARGE: 1, SMALL: 1, WIDE: 1}
    assert sum(plans["w1"].left.values()) == 48


def test_a_model_that_fits_no_node_is_an_error_with_the_nearest_yes() -> None:
    _, (found,) = plan([offer("w1"), offer("w2", cores=16)], [Demand("big", SizeClass(1, 40))])
    assert (found.source, found.key, found.severity) == ("models.yaml", "big", "error")
    assert "fits on no node: it needs 40 whole cores on one NUMA node, w1 has at most 32" in found.message
    assert "fits with tp=2" in found.hint


def test_a_model_without_room_beside_the_others_is_a_warning() -> None:
    _, problems = plan([offer(cores=24)], [Demand("a", LARGE), Demand("a2", LARGE), Demand("b", SMALL)])
    (found,) = problems
    assert (found.key, found.severity) == ("b", "warning")


def test_each_node_says_which_models_it_has_no_balloon_for() -> None:
    plans, _ = plan([offer("w1"), offer("w2", numa=1)], [Demand("a", WIDE)])
    assert plans["w1"].without == ()
    assert plans["w2"].without == (("a", "tp=2 needs 2 NUMA nodes with CPUs and memory, w2 has 1"),)


demand_lists = st.lists(
    st.builds(
        Demand,
        st.uuids().map(str),
        st.builds(SizeClass, st.integers(1, 4), st.integers(1, 12)),
        st.none() | st.integers(0, 4),
    ),
    max_size=6,
)


@given(st.lists(machines(), min_size=1, max_size=3), demand_lists, st.sampled_from(["all", "once"]))
def test_any_plan_keeps_every_numa_node_within_its_cores(
    nodes: list[object], demands: list[Demand], fill: Fill
) -> None:
    offers = [capacity(node, EMPTY, None) for node in nodes]  # type: ignore[arg-type]
    offers = [Capacity(f"w{index}", one.threads_per_core, one.free, one.sets) for index, one in enumerate(offers)]
    plans, problems = plan(offers, demands, fill=fill)
    assert (plans, problems) == plan(offers, demands, fill=fill)
    for one in offers:
        used: Counter[int] = Counter()
        for balloon in plans[one.node].placed:
            assert balloon.numa_nodes in one.sets[balloon.size_class.tp]
            used.update(dict.fromkeys(balloon.numa_nodes, balloon.size_class.cores_per_rank))
        assert {numa: used[numa] + left for numa, left in plans[one.node].left.items()} == dict(one.free)
        assert all(left >= 0 for left in plans[one.node].left.values())
    if not any(problem.severity == "error" for problem in problems):
        made: Counter[SizeClass] = sum((counts(node) for node in plans.values()), Counter())
        for demand in demands:
            if demand.replicas:
                assert made[demand.size_class] >= demand.replicas
