"""The cpuset algebra against Python's own sets, and the kernel's list format in every form."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balloonist.cpuset import EMPTY, MAX_CPU, Cpuset, CpusetError, union

ids = st.sets(st.integers(0, 700) | st.integers(MAX_CPU - 3, MAX_CPU), max_size=60)


@given(ids, ids)
def test_algebra_is_that_of_sets(left: set[int], right: set[int]) -> None:
    one, other = Cpuset.of(left), Cpuset.of(right)
    assert set(one | other) == left | right
    assert set(one & other) == left & right
    assert set(one - other) == left - right
    assert (one <= other) == (left <= right)
    assert one.isdisjoint(other) == left.isdisjoint(right)
    assert (one == other) == (left == right)
    assert union([one, other, EMPTY]) == one | other


@given(ids)
def test_a_set_is_its_members_in_order(members: set[int]) -> None:
    cpuset = Cpuset.of(members)
    assert list(cpuset) == sorted(members)
    assert len(cpuset) == len(members)
    assert bool(cpuset) == bool(members)
    assert all((cpu in cpuset) == (cpu in members) for cpu in range(-1, 701))
    if members:
        assert cpuset.first == min(members)


@given(ids)
def test_texts_are_read_back(members: set[int]) -> None:
    cpuset = Cpuset.of(members)
    assert Cpuset.parse(cpuset.text) == cpuset
    assert Cpuset.parse(cpuset.listing) == cpuset
    assert Cpuset.parse(f" {cpuset.text}\n") == cpuset
    assert eval(repr(cpuset), {"Cpuset": Cpuset}) == cpuset


@given(ids)
def test_text_has_no_shorter_form(members: set[int]) -> None:
    parts = [part for part in Cpuset.of(members).text.split(",") if part]
    starts = [cpu for cpu in members if cpu - 1 not in members]
    assert len(parts) == len(starts)


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 40), st.integers(1, 40))
def test_strides_and_groups(low: int, length: int, group: int, used: int) -> None:
    used = min(used, group)
    members = {cpu for cpu in range(low, low + length + 1) if (cpu - low) % group < used}
    assert set(Cpuset.parse(f"{low}-{low + length}:{used}/{group}")) == members
    assert set(Cpuset.parse(f"{low}-{low + length}:{group}")) == set(range(low, low + length + 1, group))


@given(st.text(alphabet="0123456789-,:/ x\n", max_size=20))
def test_any_text_is_read_or_refused_with_the_text(text: str) -> None:
    try:
        cpuset = Cpuset.parse(text)
    except CpusetError as error:
        assert repr(text) in str(error)
    else:
        assert Cpuset.parse(cpuset.text) == cpuset


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", set()),
        ("\n", set()),
        ("0", {0}),
        ("0-2,4-23", set(range(24)) - {3}),
        ("0-3,8", {0, 1, 2, 3, 8}),
        ("8,0-3", {0, 1, 2, 3, 8}),
        ("0-3, 2-5", set(range(6))),
        ("0-30:2", set(range(0, 31, 2))),
        ("0-31:2/4", {cpu for cpu in range(32) if cpu % 4 < 2}),
        ("0-9:4/4", set(range(10))),
        ("007", {7}),
        (str(MAX_CPU), {MAX_CPU}),
    ],
)
def test_forms(text: str, expected: set[int]) -> None:
    """sched-ext/scx#188, deepflowio/deepflow#4633, giampaolo/psutil#2973."""
    assert set(Cpuset.parse(text)) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("-1", "1-", "3-1", "0-3,", ",0", "0,,1", "0--3", "0 1", "0;1", "0x1", "1.0", "all", "a-b", "٣", "²"),
        *("0:2", "0-8:", "0-8:0", "0-8:2/", "0-8:0/2", "0-8:3/2", "0-8:2/4/8", "0-3-5", "+1", "1e2"),
        *(str(MAX_CPU + 1), f"0-{MAX_CPU + 1}", "99999999999999999999"),
    ],
)
def test_refusals_quote_the_text(text: str) -> None:
    with pytest.raises(CpusetError) as error:
        Cpuset.parse(text)
    assert repr(text) in str(error.value)


@pytest.mark.parametrize("cpu", [-1, MAX_CPU + 1])
def test_ids_out_of_range_are_refused(cpu: int) -> None:
    with pytest.raises(CpusetError, match=f"CPU id {cpu} "):
        Cpuset.of([0, cpu])


def test_the_empty_set() -> None:
    assert Cpuset.parse("") == EMPTY
    assert EMPTY.text == EMPTY.listing == str(EMPTY) == ""
    assert "0" not in Cpuset.of([0])
    with pytest.raises(CpusetError, match="no first CPU"):
        _ = EMPTY.first
