"""Each rule of the plugin by a small example."""

from __future__ import annotations

import pytest

from balloonist.placement.container import Operation, read_operations, seen_milli
from balloonist.placement.effective import StartRefused
from balloonist.placement.policy import read
from balloonist.placement.simulator import Simulator
from balloonist.problem import ProblemError
from placement.scenes import HIDE, KEY, balanced, composite, node_type, run, start, stop, topology

NODES = [node_type(0), node_type(1)]
TP1 = balanced("tp1", "node0", "node1", preferNewBalloons=True)
TP2 = composite("tp2", "node0", "node1", preferNewBalloons=True)


class TestWhichCpus:
    def test_whole_cores_by_lowest_id_away_from_the_reserved_core(self) -> None:
        assert run(start([*NODES, TP1]), "m", "tp1", 4).cpus.text == "1-2,9-10"

    def test_a_half_used_core_fills_an_odd_rest(self) -> None:
        assert run(start([*NODES, TP1]), "m", "tp1", 5).cpus.text == "1-2,8-10"

    def test_a_single_core_is_the_first_by_name_as_text(self) -> None:
        simulator = start([*NODES, TP1], topology(numa=1, cores=12), "cpuset:0-1,12-13")
        assert run(simulator, "m", "node0", 2).cpus.text == "10,22"

    def test_one_thread_comes_from_the_emptiest_core_when_balancing_and_from_a_used_one_when_packing(self) -> None:
        machine = topology(numa=1, cores=2)
        assert run(start([node_type(0)], machine), "m", "node0", 1).cpus.text == "1"
        packing = start([node_type(0)], machine, allocatorTopologyBalancing=False)
        assert run(packing, "m", "node0", 1).cpus.text == "2"

    def test_a_single_thread_core_is_taken_whole_where_it_fits(self) -> None:
        outcome = run(start([node_type(0)], topology(numa=1, offline=[5]), "cpuset:0,4"), "m", "node0", 3)
        assert outcome.cpus.text == "1-2,6"

    def test_spreading_takes_one_thread_of_each_core(self) -> None:
        simulator = start([node_type(0, preferSpreadOnPhysicalCores=True)], reserved="cpuset:4,12")
        assert run(simulator, "m", "node0", 4).cpus.text == "0-3"

    def test_growing_stays_near_and_shrinking_gives_the_far_cpus_back(self) -> None:
        simulator = start([node_type(0)])
        run(simulator, "a", "node0", 6)
        assert not simulator.outcome("a").spilled
        run(simulator, "b", "node0", 4)
        assert simulator.outcome("a").spilled
        stop(simulator, "b")
        assert not simulator.outcome("a").spilled


class TestHiddenSiblings:
    def test_the_lowest_thread_of_each_core_is_seen(self) -> None:
        outcome = run(start([node_type(0, hideHyperthreads=True)]), "m", "node0", 4)
        assert (outcome.cpus.text, outcome.hidden.text) == ("1-2", "9-10")

    @pytest.mark.parametrize(("value", "seen"), [("true", 2), ("false", 4), ("nonsense", 4)])
    def test_the_annotation_overrides_the_type(self, value: str, seen: int) -> None:
        operation = Operation("create", "m", "llm", {KEY: "node0", f"{HIDE}/pod": value}, 4000)
        assert len(start([node_type(0)]).apply(operation).cpus) == seen


class TestComposites:
    def test_the_least_used_component_type_is_taken_ties_by_list_order(self) -> None:
        simulator = start([*NODES, TP1])
        assert [run(simulator, name, "tp1").numa_nodes for name in "abc"] == [(0,), (1,), (0,)]

    def test_components_of_other_balloons_count(self) -> None:
        simulator = start([*NODES, TP1, balanced("only0", "node0", preferNewBalloons=True)])
        run(simulator, "a", "only0")
        assert run(simulator, "b", "tp1").numa_nodes == (1,)

    def test_parts_round_up(self) -> None:
        outcome = run(start([*NODES, TP2]), "m", "tp2", 5)
        assert (len(outcome.cpus), outcome.numa_nodes) == (6, (0, 1))
        assert outcome.balloon_types == ("tp2", "node0", "node1")

    def test_a_request_too_small_to_divide_gets_no_cpu_and_is_not_pinned(self) -> None:
        outcome = run(start([*NODES, TP2]), "m", "tp2", 0)
        assert (outcome.ok, outcome.cpus.text, outcome.mems) == (True, "", ())

    def test_a_components_maximum_holds_and_its_number_limit_does_not(self) -> None:
        simulator = start([node_type(0, maxCPUs=2, maxBalloons=1), balanced("tp1", "node0", preferNewBalloons=True)])
        assert not run(simulator, "big", "tp1", 3).ok
        assert [run(simulator, name, "tp1", 2).ok for name in "ab"] == [True, True]

    def test_a_node_is_only_preferred(self) -> None:
        simulator = start([*NODES, TP1])
        outcome = run(simulator, "m", "tp1", 10)
        assert (outcome.spilled, outcome.numa_nodes) == (True, (0, 1))

    def test_reserved_cpus_are_taken_when_there_is_nothing_else(self) -> None:
        outcome = run(start([*NODES, TP1]), "m", "tp1", 16)
        assert (outcome.ok, outcome.reserved_taken.text) == (True, "0")


class TestFixedBalloons:
    TOP = balanced("tp1", "node0", "node1", minBalloons=2, maxBalloons=2, minCPUs=4, maxCPUs=4)

    def test_they_exist_from_the_start_and_one_more_is_refused(self) -> None:
        simulator = start([*NODES, self.TOP])
        assert [len(cpus) for name, cpus in simulator.balloons if name.startswith("tp1")] == [4, 4]
        assert [run(simulator, name, "tp1", 4).ok for name in "abc"] == [True, True, False]

    def test_an_emptied_one_gives_its_cpus_back_unless_its_component_has_a_minimum(self) -> None:
        simulator = start([*NODES, self.TOP])
        run(simulator, "a", "tp1", 4)
        stop(simulator, "a")
        assert simulator.balloons[0][1].text == ""
        held = start([node_type(0, minCPUs=4), node_type(1, minCPUs=4), self.TOP])
        run(held, "a", "tp1", 4)
        stop(held, "a")
        assert len(held.balloons[0][1]) == 4

    def test_an_empty_one_is_grown_beyond_its_maximum(self) -> None:
        assert len(run(start([*NODES, self.TOP]), "m", "tp1", 5).cpus) == 5

    def test_small_containers_share_one(self) -> None:
        simulator = start([*NODES, self.TOP])
        assert [run(simulator, name, "tp1", 2).balloon for name in "ab"] == ["tp1[0]", "tp1[1]"]
        assert run(simulator, "c", "tp1", 2).balloon == "tp1[0]"

    def test_more_than_fit_stop_the_start(self) -> None:
        with pytest.raises(StartRefused, match="minBalloons"):
            start([*NODES, self.TOP | {"minBalloons": 5, "maxBalloons": 5}])


class TestReserved:
    def test_without_a_minimum_it_starts_empty(self) -> None:
        assert dict(start([]).balloons)["reserved[0]"].text == ""

    def test_its_minimum_takes_the_reserved_cpus(self) -> None:
        simulator = start([{"name": "reserved", "minCPUs": 2}], reserved="cpuset:3,11")
        assert dict(simulator.balloons)["reserved[0]"].text == "3,11"

    def test_a_number_of_cpus_is_its_size(self) -> None:
        assert len(dict(start([], reserved="1500m").balloons)["reserved[0]"]) == 2

    def test_best_effort_pods_get_one_cpu_and_it_grows(self) -> None:
        simulator = start([], reserved="cpuset:0-1")
        assert run(simulator, "a", "", 0, namespace="kube-system").cpus.text == "0"
        run(simulator, "b", "", 1.5, namespace="kube-system")
        assert simulator.state()["a"].cpus.text == "0-1"

    def test_its_maximum_refuses(self) -> None:
        simulator = start([{"name": "reserved", "minCPUs": 2, "maxCPUs": 2}], reserved="cpuset:0-1")
        assert run(simulator, "a", "", 2, namespace="kube-system").ok
        outcome = run(simulator, "b", "", 0.1, namespace="kube-system")
        assert (outcome.ok, "maxCPUs 2" in outcome.error) == (False, True)

    def test_its_maximum_does_not_refuse_the_first_pod(self) -> None:
        simulator = start([{"name": "reserved", "minCPUs": 2, "maxCPUs": 2}], reserved="cpuset:0-1")
        outcome = run(simulator, "a", "", 5, namespace="kube-system")
        assert (outcome.ok, len(outcome.cpus)) == (True, 2)


class TestWhichType:
    @pytest.mark.parametrize("form", [KEY, f"{KEY}/pod", f"{KEY}/container.main"])
    def test_annotation_forms(self, form: str) -> None:
        operation = Operation("create", "m", "kube-system", {form: "tp1"}, 1000)
        assert start([*NODES, TP1]).apply(operation).balloon_types[0] == "tp1"

    def test_the_containers_own_form_wins_and_another_containers_is_ignored(self) -> None:
        annotations = {KEY: "tp1", f"{KEY}/pod": "tp1", f"{KEY}/container.main": "tp2", f"{KEY}/container.side": "tp1"}
        outcome = start([*NODES, TP1, TP2]).apply(Operation("create", "m", "llm", annotations, 1000))
        assert outcome.balloon_types[0] == "tp2"

    def test_an_unknown_type_is_refused(self) -> None:
        outcome = run(start([]), "m", "nope")
        assert (outcome.ok, "'nope'" in outcome.error) == (False, True)

    def test_namespaces_match_in_list_order_then_default(self) -> None:
        simulator = start(
            [{"name": "a", "namespaces": ["llm-*"]}, {"name": "b", "namespaces": ["llm-x", "kube-system"]}]
        )
        got = [run(simulator, n, "", 1, namespace=n).balloon_types[0] for n in ("llm-x", "kube-system", "other")]
        assert got == ["a", "reserved", "default"]

    def test_containers_of_a_pod_share_a_balloon(self) -> None:
        simulator = start([*NODES, TP1])
        annotations = {KEY: "tp1"}
        first = simulator.apply(Operation("create", "a", "llm", annotations, 1000, pod="p"))
        second = simulator.apply(Operation("create", "b", "llm", annotations, 1000, pod="p", container="side"))
        assert first.balloon == second.balloon


class TestStartRefused:
    @pytest.mark.parametrize(
        ("types", "reason"),
        [
            ([{"name": "a"}, {"name": "a"}], "two balloon types"),
            ([{}], "no name"),
            ([{"name": "a", "minCPUs": 3, "maxCPUs": 2}], "above maxCPUs"),
            ([{"name": "a", "minBalloons": 3, "maxBalloons": 2}], "above maxBalloons"),
            ([composite("a", "gone")], "'gone'"),
            ([composite("a", "b"), composite("b", "a")], "circle"),
            ([composite("a", "b", cpuClass="x"), {"name": "b"}], "cpuClass"),
            ([composite("a", "b", preferCloseToDevices=["x"]), {"name": "b"}], "preferCloseToDevices"),
            ([{"name": "a", "componentCreation": "all"}], "without components"),
            ([{"name": "a", "componentCreation": "some"}], "'some'"),
        ],
    )
    def test_types(self, types: list[dict[str, object]], reason: str) -> None:
        with pytest.raises(StartRefused, match=reason):
            start(types)

    @pytest.mark.parametrize(
        ("resources", "reason"),
        [
            ({"reservedResources": {}}, "required"),
            ({"reservedResources": {"cpu": "cpuset:99"}}, "99"),
            ({"reservedResources": {"cpu": "cpuset:0"}, "availableResources": {"cpu": "cpuset:1-5"}}, "not available"),
            ({"reservedResources": {"cpu": "1"}, "availableResources": {"cpu": "4"}}, "must be a cpuset"),
            ({"reservedResources": {"cpu": "3"}, "balloonTypes": [{"name": "reserved", "minCPUs": 2}]}, "minCPUs 2"),
            ({"reservedResources": {"cpu": "3"}, "balloonTypes": [{"name": "reserved", "maxCPUs": 2}]}, "maxCPUs 2"),
        ],
    )
    def test_resources(self, resources: dict[str, object], reason: str) -> None:
        with pytest.raises(StartRefused, match=reason):
            Simulator(topology(), read(resources))

    def test_an_offline_cpu_cannot_be_reserved(self) -> None:
        with pytest.raises(StartRefused, match="offline"):
            start([], topology(offline=[0]))


class TestMemory:
    def test_the_nodes_of_the_cpus(self) -> None:
        simulator = start([*NODES, TP1, TP2], topology(memory_only_nodes=1))
        assert (run(simulator, "a", "tp1").mems, run(simulator, "b", "tp2").mems) == ((0,), (0, 1))

    def test_a_limit_above_the_node_adds_the_nearest_nodes(self) -> None:
        simulator = start([*NODES, TP1], topology(packages=2, numa=1, memory_gib=8))
        assert run(simulator, "a", "tp1", memory_gib=6).mems == (0,)
        assert run(simulator, "b", "tp1", memory_gib=9).mems == (0, 1)

    def test_limits_add_up_and_the_largest_is_moved(self) -> None:
        simulator = start([node_type(0, preferNewBalloons=True)], topology(memory_gib=8))
        run(simulator, "a", "node0", memory_gib=6)
        assert run(simulator, "b", "node0", memory_gib=4).mems == (0,)
        assert simulator.state()["a"].mems == (0, 1)

    def test_more_than_the_machine_has_falls_back_to_the_own_node(self) -> None:
        assert run(start([*NODES, TP1], topology(memory_gib=1)), "a", "tp1", memory_gib=64).mems == (0,)

    def test_growing_to_a_new_node_adds_the_nearest_to_both_as_well_and_shrinking_takes_none_away(self) -> None:
        simulator = start([node_type(0)], topology(numa=4))
        run(simulator, "a", "node0", 6)
        run(simulator, "b", "node0", 4)
        assert simulator.state()["a"].mems == (0, 1, 2, 3)
        stop(simulator, "b")
        assert simulator.state()["a"].mems == (0, 1, 2, 3)

    def test_not_pinned(self) -> None:
        simulator = start([*NODES, TP1], pinCPU=False, pinMemory=False)
        outcome = run(simulator, "a", "tp1")
        assert (outcome.ok, outcome.cpus.text, outcome.mems) == (True, "", ())


class TestIdleCpus:
    def test_they_are_shared_within_the_level_and_taken_back(self) -> None:
        simulator = start([node_type(0, shareIdleCPUsInSame="numa", preferNewBalloons=True), node_type(1)])
        assert run(simulator, "a", "node0", 2).cpus.text == "0-3,8-11"
        run(simulator, "b", "node0", 2)
        assert not set(simulator.state()["a"].cpus) & {2, 10} or not set(simulator.state()["b"].cpus) & {1, 9}


class TestRequests:
    @pytest.mark.parametrize(
        ("milli", "seen"), [(0, 0), (1, 0), (2, 0), (3, 3), (100, 100), (1500, 1500), (300_000, 256_000)]
    )
    def test_what_cpu_shares_tell(self, milli: int, seen: int) -> None:
        assert seen_milli(milli) == seen

    @pytest.mark.parametrize(
        "entry", [{"op": "grow", "id": "a"}, {"op": "create"}, {"op": "create", "id": "a", "cpu_milli": -1}, "x"]
    )
    def test_bad_operations_are_named(self, entry: object) -> None:
        with pytest.raises(ProblemError, match=r"ops\[0\]"):
            read_operations([entry])

    def test_removing_what_never_ran_is_fine_and_starting_twice_is_not(self) -> None:
        simulator = start([*NODES, TP1])
        assert stop(simulator, "x").ok
        run(simulator, "a", "tp1")
        with pytest.raises(ProblemError, match="running already"):
            run(simulator, "a", "tp1")

    def test_a_whole_resource_and_its_spec_read_alike(self) -> None:
        spec = {"reservedResources": {"cpu": "1"}, "balloonTypes": [{"name": "a", "loads": ["x"]}]}
        assert read({"kind": "BalloonsPolicy", "metadata": {"name": "default"}, "spec": spec}) == read(spec)
        assert read(spec).not_simulated == ("balloonTypes[0].loads",)

    @pytest.mark.parametrize("text", ["cpuset:3-1", "many", "1Gi"])
    def test_bad_amounts_are_named(self, text: str) -> None:
        with pytest.raises(ProblemError, match=r"reservedResources\.cpu"):
            read({"reservedResources": {"cpu": text}})
