"""The rule for reserved CPUs: profiles, rounding, lists that people write."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from balloonist import reserve
from balloonist.cpuset import Cpuset
from balloonist.problem import ProblemError
from balloonist.topology import Topology
from machines import machine, machines


def test_the_compatible_rounding_reproduces_the_set_people_know() -> None:
    reserved = reserve.from_profile(machine(), "standard", "compatible")
    assert reserved.listing == "0,1,24,25,48,49,72,73,96,120,144,168"


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("siblings", "0,24,48,72,96,120,144,168"),
        ("minimal", "0,24,48,72,96,120,144,168"),
        ("standard", "0-1,24-25,48-49,72-73,96-97,120-121,144-145,168-169"),
        ("observability", "0-1,24-25,48-49,72-73,96-97,120-121,144-145,168-169"),
        ("full", "0-2,24-26,48-50,72-74,96-98,120-122,144-146,168-170"),
    ],
)
def test_whole_cores_on_two_packages_with_two_numa_nodes(profile: str, expected: str) -> None:
    assert reserve.from_profile(machine(), profile, "whole-cores") == Cpuset.parse(expected)


@pytest.mark.parametrize(
    ("profile", "rounding", "expected"),
    [
        # 8 CPUs on 3 NUMA nodes: 3, 3 and 2
        ("minimal", "compatible", "0,1,8,9,16,24,32,40"),
        ("minimal", "whole-cores", "0,1,8,9,16,24,25,32,33,40"),
        # 20 CPUs: 7, 7 and 6
        ("full", "compatible", "0,1,2,3,8,9,10,11,16,17,18,24,25,26,32,33,34,40,41,42"),
    ],
)
def test_a_total_that_does_not_divide_goes_to_the_lowest_numa_nodes(profile: str, rounding: str, expected: str) -> None:
    three = machine(packages=1, numa=3, cores=8)
    reserved = reserve.from_profile(three, profile, "compatible" if rounding == "compatible" else "whole-cores")
    assert reserved.listing == expected


def test_adjacent_siblings_are_taken_from_the_topology() -> None:
    assert reserve.from_profile(machine(1, 2, 4, numbering="adjacent"), "siblings", "whole-cores").listing == "0,1,8,9"


def test_a_half_offline_first_core_gives_only_its_online_thread() -> None:
    assert reserve.from_profile(machine(1, 1, 8, offline="8"), "siblings", "whole-cores").listing == "0"


def test_memory_only_numa_nodes_have_no_share() -> None:
    assert len(reserve.from_profile(machine(memory_only=2), "siblings", "whole-cores")) == 8


def test_isolated_cores_are_reserved_last() -> None:
    plain = machine(1, 1, 8)
    isolated = replace(plain, isolated=Cpuset.parse("0-1,8-9"))
    assert reserve.from_profile(isolated, "siblings", "whole-cores").listing == "2,10"
    assert "isolated" in reserve.remarks(isolated, Cpuset.parse("0"))[1]


def test_a_profile_larger_than_a_numa_node_is_refused_with_the_numbers() -> None:
    with pytest.raises(ProblemError, match=r"full reserves 20 CPUs, 10 of them on NUMA node 0, which has only 4"):
        reserve.from_profile(machine(1, 2, 2), "full", "whole-cores")


def test_a_list_is_used_exactly_as_given_and_split_cores_are_named() -> None:
    # kubernetes/kubernetes#114673: 0-4 on 48 CPUs was silently rewritten
    node = machine(1, 1, 24)
    reserved = reserve.from_list(node, "0-4")
    assert reserved.text == "0-4"
    assert any("24-28" in remark for remark in reserve.remarks(node, reserved))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0-3,200", "the node has no CPUs 200"),
        ("0,5", "CPUs 5 are offline"),
        ("0-3,x", "cannot read 'x'"),
        ("3-1", "ends before it begins"),
    ],
)
def test_a_list_with_wrong_cpus_is_refused(text: str, message: str) -> None:
    with pytest.raises(ProblemError, match=message):
        reserve.from_list(machine(offline="5"), text)


def test_a_valid_list_is_taken_where_a_whole_package_is_offline() -> None:
    # kubernetes/kubernetes#98121: interleaved numbering, all CPUs of NUMA node 1 offline
    node = machine(2, 1, 4, 1, offline="4-7")
    assert reserve.from_list(node, "0,2").listing == "0,2"


@given(machines(), st.sampled_from(["siblings", *reserve.PROFILE_CPUS]), st.sampled_from(get_args(reserve.Rounding)))
def test_every_profile_reserves_at_least_its_size_and_only_online_cpus(
    topology: Topology, profile: str, rounding: reserve.Rounding
) -> None:
    try:
        reserved = reserve.from_profile(topology, profile, rounding)
    except ProblemError:
        assert any(len(numa.cpus) < 20 for numa in topology.numa_nodes)
        return
    assert reserved <= topology.online
    assert len(reserved) >= reserve.PROFILE_CPUS.get(profile, 1)
    if rounding == "whole-cores":
        assert not reserve.split_siblings(topology, reserved)
    elif profile in reserve.PROFILE_CPUS:
        assert len(reserved) == reserve.PROFILE_CPUS[profile]
    with_cpus = [numa for numa in topology.numa_nodes if numa.cpus]
    if reserve.PROFILE_CPUS.get(profile, len(with_cpus)) >= len(with_cpus):
        assert all(not numa.cpus.isdisjoint(reserved) for numa in with_cpus)
