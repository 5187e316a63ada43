"""What holds for any policy and any operations."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from balloonist.placement.bits import bits, lowest
from balloonist.placement.container import Operation
from balloonist.placement.effective import StartRefused
from balloonist.placement.machine import machine
from balloonist.placement.picker import Picker, Priority
from balloonist.placement.simulator import Simulator
from balloonist.topology import Topology
from placement.scenes import KEY, balanced, composite, node_type, start, stop, topology


@st.composite
def machines(draw: st.DrawFn) -> Topology:
    packages, numa, cores = draw(st.integers(1, 2)), draw(st.integers(1, 3)), draw(st.integers(4, 6))
    threads = draw(st.sampled_from([1, 2, 2, 4]))
    return topology(
        packages,
        numa,
        cores,
        threads,
        numbering=draw(st.sampled_from(["linux", "adjacent"])),
        offline=draw(st.sets(st.integers(2, 3), max_size=2).map(sorted)),
        memory_gib=8,
    )


@st.composite
def plugins(draw: st.DrawFn) -> tuple[Topology, list[dict[str, Any]]]:
    """A machine and model types of TP 1 and, with several NUMA nodes, 2; made at start, limited, or free."""
    node = draw(machines())
    count = len(node.numa_nodes)
    names = [f"node{index}" for index in range(count)]
    hide = draw(st.booleans())
    limit = draw(st.sampled_from([{}, {}, {"maxCPUs": 4}]))
    types = [node_type(index, hideHyperthreads=hide, **limit) for index in range(count)]
    fixed = draw(st.booleans())
    sets = [("tp1", names)]
    if count > 1:
        sets.append(("tp2", ["set"]))
        types.append(composite("set", *names[:2], hideHyperthreads=hide))
    for name, components in sets:
        amount = draw(st.integers(1, 2))
        size = draw(st.integers(1, 4))
        limits = {"minBalloons": amount, "maxBalloons": amount, "minCPUs": size, "maxCPUs": size} if fixed else {}
        types.append(balanced(name, *components, hideHyperthreads=hide, preferNewBalloons=not fixed, **limits))
    types.append({"name": "reserved", "namespaces": ["*"], "minCPUs": draw(st.integers(0, 2))})
    return node, types


operations = st.lists(
    st.tuples(
        st.integers(0, 5),
        st.sampled_from(["tp1", "tp2", ""]),
        st.sampled_from([0, 100, 1000, 1500, 2000, 3000, 6000]),
        st.sampled_from([0, 0, 3 << 30, 20 << 30]),
    ),
    max_size=25,
)
Steps = list[tuple[int, str, int, int]]


def begin(node: Topology, types: list[dict[str, Any]]) -> Simulator | None:
    try:
        return start(types, node, "cpuset:0-1" if 1 in node.online else "cpuset:0")
    except StartRefused:
        return None


def perform(simulator: Simulator, steps: Steps) -> list[Any]:
    """Start the container, or remove it where it is running."""
    seen = []
    for number, kind, milli, memory in steps:
        name = f"c{number}"
        if name in simulator.state():
            seen.append(stop(simulator, name))
            continue
        annotations = {KEY: kind} if kind else {}
        seen.append(simulator.apply(Operation("create", name, "llm", annotations, milli, memory)))
    return seen


@settings(max_examples=150, deadline=None)
@given(plugins(), operations)
def test_every_cpu_is_free_or_in_exactly_one_balloon(
    plugin: tuple[Topology, list[dict[str, Any]]], steps: Steps
) -> None:
    simulator = begin(*plugin)
    if simulator is None:
        return
    for step in steps:
        perform(simulator, [step])
        masks = [simulator.free.mask, *(cpus.mask for _, cpus in simulator.balloons)]
        assert sum(mask.bit_count() for mask in masks) == len(plugin[0].online)
        assert sum(masks) == plugin[0].online.mask  # disjoint masks add up


@settings(max_examples=100, deadline=None)
@given(plugins(), operations)
def test_the_reserved_minimum_stays(plugin: tuple[Topology, list[dict[str, Any]]], steps: Steps) -> None:
    simulator = begin(*plugin)
    if simulator is None:
        return
    seed = dict(simulator.balloons)["reserved[0]"]
    perform(simulator, steps)
    assert len(dict(simulator.balloons)["reserved[0]"]) >= len(seed)


@settings(max_examples=100, deadline=None)
@given(plugins(), operations)
def test_the_same_input_gives_the_same_output(plugin: tuple[Topology, list[dict[str, Any]]], steps: Steps) -> None:
    first, second = begin(*plugin), begin(*plugin)
    if first is None or second is None:
        assert first is second
        return
    assert perform(first, steps) == perform(second, steps)
    assert first.state() == second.state()


@settings(max_examples=100, deadline=None)
@given(plugins(), operations)
def test_when_all_are_gone_only_what_must_exist_has_cpus(
    plugin: tuple[Topology, list[dict[str, Any]]], steps: Steps
) -> None:
    simulator = begin(*plugin)
    if simulator is None:
        return
    sizes = sorted(len(cpus) for name, cpus in simulator.balloons if name.startswith("reserved"))
    perform(simulator, steps)
    for name in list(simulator.state()):
        stop(simulator, name)
    assert sorted(len(cpus) for name, cpus in simulator.balloons if name.startswith("reserved")) == sizes
    assert simulator.state() == {}


@settings(max_examples=100, deadline=None)
@given(plugins(), operations)
def test_an_answer_is_consistent_in_itself(plugin: tuple[Topology, list[dict[str, Any]]], steps: Steps) -> None:
    simulator = begin(*plugin)
    if simulator is None:
        return
    for outcome in perform(simulator, steps):
        assert bool(outcome.error) is not outcome.ok
        assert outcome.cpus.isdisjoint(outcome.hidden)
        assert not outcome.cpus or (outcome.op == "create" and outcome.ok)
        assert bool(outcome.numa_nodes) is bool(outcome.cpus)


@given(st.integers(0, 1 << 70), st.integers(0, 80))
def test_lowest_bits(mask: int, count: int) -> None:
    assert bits(lowest(mask, count)) == bits(mask)[:count]


@settings(max_examples=100, deadline=None)
@given(machines(), st.data(), st.sampled_from(Priority))
def test_the_picker_takes_exactly_what_is_wanted(node: Topology, data: st.DataObject, priority: Priority) -> None:
    source = node.online.mask & data.draw(st.integers(1, node.online.mask))
    wanted = data.draw(st.integers(0, source.bit_count()))
    picked = Picker(machine(node)).pick(source, wanted, priority)
    assert picked.bit_count() == wanted
    assert picked & ~source == 0
