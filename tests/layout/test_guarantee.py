"""The promise of the fixed layout, on the simulated plugin: whatever comes and goes, a model stays in its place."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from balloonist import layout, policyspec
from balloonist.capacity import free_cores
from balloonist.catalog import Model
from balloonist.config import Config
from balloonist.cpuset import EMPTY, Cpuset, union
from balloonist.environment import Environment
from balloonist.layout import Fleet, NodeLayout
from balloonist.placement import policy
from balloonist.placement.container import Operation
from balloonist.placement.simulator import Outcome, Simulator
from balloonist.problem import ProblemError
from balloonist.topology import Topology
from machines import machine, machines

ANNOTATION = "balloon.balloons.resource-policy.nri.io/container.main"


def fleet_of(topology: Topology, models: list[Model], **changes: Any) -> Fleet:
    config = Config("config.yaml", "nri-balloons", {"default": ""}, **changes)
    return layout.compute(Environment(Path("env"), config, tuple(models), (topology,), {}))


def start(fleet: Fleet) -> Simulator:
    node = fleet.nodes[0]
    return Simulator(node.topology, policy.read(policyspec.spec(node, fleet.config, fleet.names)))


def numa_nodes(topology: Topology, cpus: Cpuset) -> tuple[int, ...]:
    return tuple(numa.id for numa in topology.numa_nodes if not numa.cpus.isdisjoint(cpus))


def model_pod(name: str, kind: str, cpus: int) -> Operation:
    return Operation("create", name, "llm", {ANNOTATION: kind}, cpus * 1000, 0)


def system_pod(name: str, milli: int) -> Operation:
    return Operation("create", name, "kube-system", {}, milli, 0)


@st.composite
def catalogs(draw: st.DrawFn) -> list[Model]:
    models = []
    for index in range(draw(st.integers(1, 5))):
        tp = draw(st.integers(1, 4))
        models.append(
            Model(f"m{index}", "", draw(st.integers(tp, tp * 8)), tp, replicas=draw(st.none() | st.integers(1, 3)))
        )
    return models


@st.composite
def fixed_fleets(draw: st.DrawFn) -> Fleet:
    changes = draw(
        st.fixed_dictionaries(
            {
                "profile": st.sampled_from(["siblings", "minimal", "standard"]),
                "rounding": st.sampled_from(["whole-cores", "compatible"]),
                "fill": st.sampled_from(["all", "once"]),
                "hard_cap": st.booleans(),
            }
        )
    )
    try:
        fleet = fleet_of(draw(machines(max_cores=12)), draw(catalogs()), **changes)
    except ProblemError:
        assume(False)
        raise
    assume(fleet.nodes[0].placed)
    return fleet


def planned(fleet: Fleet) -> list[tuple[str, int, tuple[int, ...]]]:
    """Type, size in logical CPUs and NUMA nodes of each planned balloon."""
    node = fleet.nodes[0]
    return [
        (fleet.names[item.size_class], item.size_class.cpus(node.topology.threads_per_core), item.numa_nodes)
        for item in node.placed
    ]


many = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


@many
@given(fixed_fleets())
def test_every_balloon_starts_on_the_numa_nodes_that_were_planned(fleet: Fleet) -> None:
    node = fleet.nodes[0]
    seen: Counter[str] = Counter()
    balloons = dict(start(fleet).balloons)
    whole = union(core.cpus for numa in node.offer.free for core in free_cores(node.topology, numa, node.reserved))
    for kind, size, expected in planned(fleet):
        cpus = balloons[f"{kind}[{seen[kind]}]"]
        seen[kind] += 1
        assert len(cpus) == size
        assert numa_nodes(node.topology, cpus) == expected
        assert cpus <= whole
        assert {len(cpus & node.topology.numa(numa).cpus) for numa in expected} == {size // len(expected)}
    assert len(balloons) == len(planned(fleet)) + 2  # and reserved and default
    assert node.reserved <= balloons["reserved[0]"]


@many
@given(fixed_fleets(), st.data())
def test_whatever_comes_and_goes_no_model_leaves_its_place(fleet: Fleet, data: st.DataObject) -> None:
    node = fleet.nodes[0]
    simulator = start(fleet)
    free = Counter(kind for kind, _, _ in planned(fleet))
    size_of = {kind: size for kind, size, _ in planned(fleet)}
    places: dict[str, set[tuple[int, ...]]] = {}
    for kind, _, numa_set in planned(fleet):
        places.setdefault(kind, set()).add(numa_set)
    running: dict[str, str] = {}
    for step in range(data.draw(st.integers(1, 30))):
        choice = data.draw(st.sampled_from(["model", "model", "system", "remove"]))
        if choice == "remove" and running:
            name = data.draw(st.sampled_from(sorted(running)))
            assert simulator.apply(Operation("remove", name, "", {}, 0, 0)).ok
            free[running.pop(name)] += 1
        elif choice == "system":
            name = f"s{step}"
            if simulator.apply(system_pod(name, data.draw(st.integers(0, 12_000)))).ok:
                running[name] = "system"
        else:
            kind = data.draw(st.sampled_from(sorted(places)))
            outcome = simulator.apply(model_pod(f"m{step}", kind, size_of[kind]))
            assert outcome.ok == (free[kind] > 0), outcome  # a planned balloon is always there, one more never
            if outcome.ok:
                running[f"m{step}"] = kind
                free[kind] -= 1
        check(node, {name: simulator.outcome(name) for name in running}, running, places)


def check(
    node: NodeLayout, outcomes: dict[str, Outcome], running: dict[str, str], places: dict[str, set[tuple[int, ...]]]
) -> None:
    taken = EMPTY
    cores_of_models = EMPTY
    for name, outcome in outcomes.items():
        kind = running[name]
        if kind == "system":
            continue
        cpus = outcome.cpus | outcome.hidden
        assert not outcome.spilled
        assert numa_nodes(node.topology, cpus) in places[kind]
        assert cpus.isdisjoint(node.reserved)
        assert cpus.isdisjoint(taken)
        taken |= cpus
        cores_of_models |= union(core.cpus for core in node.topology.cores if not core.cpus.isdisjoint(cpus))
    assert cores_of_models == taken  # whole cores only: nothing shares one
    for name, outcome in outcomes.items():
        if running[name] == "system":
            assert outcome.cpus.isdisjoint(taken)


def test_an_emptied_balloon_keeps_its_cpus_from_growing_system_pods() -> None:
    fleet = fleet_of(machine(1, 2, 8), [Model("a", "", 7, 1, replicas=2)])
    simulator = start(fleet)
    first = simulator.apply(model_pod("a", "vllm-balloon-tp1", 14))
    simulator.apply(Operation("remove", "a", "", {}, 0, 0))
    assert not simulator.apply(system_pod("s", 6000)).ok
    again = simulator.apply(model_pod("b", "vllm-balloon-tp1", 14))
    assert again.ok
    assert again.cpus == first.cpus


def test_two_balloons_of_one_set_and_one_of_another_stay_where_they_were_planned() -> None:
    # a type shared by slots would be counted for all of them, and the second balloon would go to the other set
    models = [Model("a", "", 8, 2, replicas=3), Model("b", "", 8, 1, replicas=1)]
    fleet = fleet_of(machine(2, 2, 13), models)
    balloons = dict(start(fleet).balloons)
    found = [numa_nodes(fleet.nodes[0].topology, balloons[f"vllm-balloon-tp2[{index}]"]) for index in range(3)]
    assert found == [item.numa_nodes for item in fleet.nodes[0].placed if item.size_class.tp == 2]
    assert sorted(Counter(found).values()) == [1, 2]
