"""Placing balloons on NUMA nodes."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from balloonist.packing import Sets, pack, room
from balloonist.sizeclass import SizeClass, size_class, type_names

TWO: Sets = {1: [(0,), (1,)], 2: [(0, 1)]}


def test_large_balloons_are_spread_before_small_ones() -> None:
    # opea-project/Enterprise-Inference#62: 24, 24 and 8 cores on two NUMA nodes of 32
    packing = pack({0: 32, 1: 32}, TWO, [SizeClass(1, 24), SizeClass(1, 24), SizeClass(1, 8)])
    assert not packing.unplaced
    assert Counter(balloon.numa_nodes for balloon in packing.placed if balloon.size_class.cores == 24) == {
        (0,): 1,
        (1,): 1,
    }
    assert sorted(packing.left.values()) == [0, 8]


def test_the_search_finds_what_spreading_misses() -> None:
    # spreading gives 6 | 5, then 5 | 4 and 3 | 1: the last 4 fits nowhere, though 6+4 and 5+5 would
    wanted = [SizeClass(1, 6), SizeClass(1, 5), SizeClass(1, 5), SizeClass(1, 4)]
    packing = pack({0: 10, 1: 10}, TWO, wanted)
    assert not packing.unplaced
    assert list(packing.left.values()) == [0, 0]


def test_an_impossible_plan_is_proven() -> None:
    packing = pack({0: 10, 1: 10}, TWO, [SizeClass(1, 6)] * 3)
    assert len(packing.unplaced) == 1
    assert packing.proven


def test_a_search_that_would_take_too_long_says_so() -> None:
    wanted = [SizeClass(1, 2)] * 299
    packing = pack(dict.fromkeys(range(200), 3), {1: [(numa,) for numa in range(200)]}, wanted)
    assert packing.unplaced
    assert not packing.proven


def test_room_is_that_of_the_tightest_numa_node_of_the_best_set() -> None:
    assert room({0: 10, 1: 4}, TWO, 1) == 10
    assert room({0: 10, 1: 4}, TWO, 2) == 4
    assert room({0: 10, 1: 4}, TWO, 3) == 0


@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=6),
    st.lists(st.builds(SizeClass, st.integers(1, 3), st.integers(1, 8)), max_size=8),
)
def test_no_numa_node_is_overfull_and_nothing_is_lost(cores: list[int], wanted: list[SizeClass]) -> None:
    free = dict(enumerate(cores))
    sets = {tp: [tuple(range(start, start + tp)) for start in range(len(cores) - tp + 1)] for tp in (1, 2, 3)}
    packing = pack(free, sets, wanted)
    used: Counter[int] = Counter()
    for balloon in packing.placed:
        assert balloon.numa_nodes in sets[balloon.size_class.tp]
        for numa in balloon.numa_nodes:
            used[numa] += balloon.size_class.cores_per_rank
    assert all(used[numa] + packing.left[numa] == cores for numa, cores in free.items())
    assert all(left >= 0 for left in packing.left.values())
    assert Counter(balloon.size_class for balloon in packing.placed) + Counter(packing.unplaced) == Counter(wanted)
    assert packing == pack(free, sets, list(reversed(wanted)))


def test_uneven_shares_are_rounded_up() -> None:
    assert size_class(16, 3) == SizeClass(3, 6)
    assert size_class(16, 3).cpus(2) == 36


def test_the_first_class_of_a_tp_has_the_plain_name() -> None:
    classes = [SizeClass(1, 16), SizeClass(1, 8), SizeClass(1, 16), SizeClass(2, 8)]
    assert type_names(classes) == {
        SizeClass(1, 16): "vllm-balloon-tp1",
        SizeClass(1, 8): "vllm-balloon-tp1-c8",
        SizeClass(2, 8): "vllm-balloon-tp2",
    }
