"""What a fleet can hold, against repeated placing."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from balloonist import fleetcapacity
from balloonist.capacity import capacity, why_not
from balloonist.cpuset import EMPTY
from balloonist.fleetkinds import kinds
from balloonist.numasets import package_groups
from balloonist.packing import pack
from balloonist.plan import Demand
from balloonist.sizeclass import SizeClass
from balloonist.topology import Topology
from fleet.fleets import fleet, offer
from machines import machines


@settings(deadline=None, max_examples=60)
@given(topology=machines(), item=st.builds(SizeClass, st.integers(1, 8), st.integers(2, 9)))
def test_alone_is_what_repeated_placing_reaches(topology: Topology, item: SizeClass) -> None:
    found = capacity(topology, EMPTY, None)
    measured = fleetcapacity.measure(kinds([found], [package_groups(topology)]), [Demand("m", item)], solver=False)
    count = 0
    while not why_not(found, item)[0] and not pack(found.free, found.sets, [item] * (count + 1)).unplaced:
        count += 1
    assert measured.kinds[0].alone[0].copies == count


def test_mixes_count_replicas_and_the_fleet_can_do_more_than_its_nodes() -> None:
    demands = [Demand("large", SizeClass(1, 9), 1), Demand("small", SizeClass(1, 4))]
    measured = fleetcapacity.measure(fleet(offer("a", 10), offer("b", 10)), demands)
    assert [item.mixes for item in measured.kinds] == [0]
    assert (measured.mixes, measured.mixes_bound) == (1, 1)
    assert (measured.cores, measured.cores_used) == (20, 18)


def test_a_fleet_without_models_is_measured_too() -> None:
    measured = fleetcapacity.measure(fleet(offer("a", 10)), [])
    assert (measured.mixes, measured.cores, measured.cores_used) == (0, 10, 0)
