"""Machines and models of public reports: what failed there at run time is said by the pre-flight."""

from __future__ import annotations

from dataclasses import replace

import pytest

from balloonist.catalog import ExtraContainer, Model
from balloonist.placements import Running
from machines import machine
from preflight.fleets import ask, check_of, runs, with_memory

QWEN_32B = Model("qwen-32b", "", 32, 1, parameters_b=32.8, dtype="bfloat16", heads=40, kv_heads=8, kv_cache_gib=80)


def test_a_32b_model_with_80_gib_of_kv_cache_is_refused_on_128_gib_nodes() -> None:
    # vllm-project/vllm#15800: with thread binding only the local memory of 256 GiB counts, the worker dies
    answer = ask(QWEN_32B, machine(2, 1, 48, memory_gib=128))
    refusal = check_of(answer, "memory")
    assert not answer.fits
    assert "143.1 GiB" in refusal.message
    assert "weights 61.1" in refusal.message
    assert "KV cache 80" in refusal.message
    assert "NUMA node 0 has 128.0 GiB" in refusal.message
    assert "fits with tp=2" in refusal.nearest
    assert "fits with kv_cache_gib <= 64" in refusal.nearest


@pytest.mark.parametrize("kv", [20, 40, 80])
def test_on_eight_nodes_of_32_gib_no_kv_cache_helps(kv: int) -> None:
    answer = ask(replace(QWEN_32B, kv_cache_gib=kv, cpu=8), machine(2, 4, 12, memory_gib=32))
    refusal = check_of(answer, "memory")
    assert "32.0 GiB" in refusal.message
    assert "kv_cache_gib" not in refusal.nearest


def test_eight_nodes_of_31_gb() -> None:
    # gramineproject/gramine#530: 2 sockets, SNC4, 8 nodes of 28 threads and 31 GB
    snc4 = with_memory(machine(2, 4, 14), dict.fromkeys(range(8), 31_000))
    small = Model("8b", "", 12, 1, parameters_b=8.03, dtype="bfloat16", heads=32, kv_heads=8, kv_cache_gib=16)
    refusal = check_of(ask(small, snc4), "memory")
    assert "33.0 GiB" in refusal.message
    assert "30.3 GiB" in refusal.message
    assert "fits with kv_cache_gib <= 13" in refusal.nearest
    assert ask(replace(small, kv_cache_gib=8), snc4).fits
    large = Model("70b", "", 96, 8, parameters_b=70.6, dtype="bfloat16", heads=64, kv_heads=8)
    fits = ask(large, snc4)
    assert fits.fits
    assert "weights 131.5 / tp 8" in check_of(fits, "memory", "ok").message
    assert not ask(replace(large, kv_cache_gib=16), snc4).fits


def test_memory_of_nodes_without_cpus_does_not_count_and_is_named() -> None:
    # containers/nri-plugins#329
    model = Model("m", "", 16, 1, memory_gib=200)
    refusal = check_of(ask(model, machine(2, 1, 24, memory_only=2, memory_gib=128)), "memory")
    assert "NUMA nodes 2, 3 with 256 GiB have no CPUs" in refusal.message
    assert "fits with tp=2" in refusal.nearest


def test_numa_nodes_without_memory_do_not_count_for_tp() -> None:
    # open-mpi/hwloc#430: half of the dies have no memory of their own
    half = with_memory(machine(1, 4, 12), {1: 0, 3: 0})
    refusal = check_of(ask(Model("m", "", 8, 4), half), "numa")
    assert "tp=4 needs 4 NUMA nodes with CPUs and memory, w1 has 2" in refusal.message
    assert "NUMA nodes 1, 3 without memory" in refusal.message
    assert "fits with tp=2" in refusal.nearest


def test_without_memory_pinning_the_whole_node_counts() -> None:
    # containers/nri-plugins#451: only then
    assert not ask(QWEN_32B, machine(2, 1, 48, memory_gib=128)).fits
    for policy in ("kubelet-static", "best-effort"):
        answer = ask(QWEN_32B, machine(2, 1, 48, memory_gib=128), cpu_policy=policy)
        assert answer.fits
        assert "memory is not pinned and w1 has 256.0 GiB" in check_of(answer, "memory", "ok").message
    assert not ask(
        replace(QWEN_32B, kv_cache_gib=200), machine(2, 1, 48, memory_gib=128), cpu_policy="best-effort"
    ).fits


@pytest.mark.parametrize(("heads", "kv_heads", "tp"), [(52, 52, 8), (52, 4, 3), (64, 8, 3)])
def test_heads_that_do_not_divide(heads: int, kv_heads: int, tp: int) -> None:
    # vllm-project/vllm#2652, #414
    answer = ask(Model("m", "", 24, tp, heads=heads, kv_heads=kv_heads, memory_gib=8), machine(1, 3, 43))
    refusal = check_of(answer, "heads")
    assert f"{heads} attention heads do not divide by tp={tp}" in refusal.message
    assert "1, 2" in refusal.nearest
    assert ", 4" not in refusal.nearest
    assert "fits with tp=2" in refusal.nearest


def test_an_explicit_binding_list_and_the_reserved_cpu_setting() -> None:
    # vllm-project/vllm#43240
    env = {"VLLM_CPU_OMP_THREADS_BIND": "60-119", "VLLM_CPU_NUM_OF_RESERVED_CPU": "1"}
    model = Model("m", "", 32, 1, memory_gib=8, env=env)
    refusal = check_of(ask(model, machine(2, 1, 60)), "binding")
    assert "'60-119'" in refusal.message
    assert "ignores VLLM_CPU_NUM_OF_RESERVED_CPU=1" in refusal.message
    assert "leave VLLM_CPU_OMP_THREADS_BIND away" in refusal.nearest
    assert ask(replace(model, env={"VLLM_CPU_OMP_THREADS_BIND": "60-119"}), machine(2, 1, 60)).fits
    assert ask(replace(model, env={"VLLM_CPU_NUM_OF_RESERVED_CPU": "1"}), machine(2, 1, 60)).fits


def test_a_small_board_without_numa() -> None:
    # vllm-project/vllm#40374, #55247: four cores, one NUMA node, memory known for the whole board only
    board = replace(machine(1, 1, 4, 1, memory_gib=16), numa_directory=False)
    assert ask(Model("m", "", 3, 1, parameters_b=1.24), board).fits
    too_large = check_of(ask(Model("m", "", 4, 1, parameters_b=1.24), board), "cores")
    assert "needs 4 whole cores" in too_large.message
    assert "at most 3" in too_large.message
    assert "fits with cpu <= 3" in too_large.nearest


def test_three_models_on_two_nodes_are_placed_without_a_split() -> None:
    # opea-project/Enterprise-Inference#62: 24, 24 and 8 cores on two NUMA nodes of 32
    models = [Model(name, "", cpu, 1, replicas=1, memory_gib=8) for name, cpu in (("a", 24), ("b", 24), ("c", 8))]
    node = machine(2, 1, 33)
    places = []
    running: list[Running] = []
    for model in models:
        others = [other for other in models if other is not model]
        answer = ask(model, node, others=others, running=running)
        assert answer.fits
        places.append(answer.nodes[0].numa_nodes)
        running.append(runs(model))
    assert sorted(places[:2]) == [(0,), (1,)]
    assert len(places[2]) == 1


def test_other_containers_that_ask_for_more_than_is_reserved() -> None:
    # kubernetes/kubernetes#87532: both numbers are said
    sidecar = Model("m", "", 23, 1, memory_gib=8, extra_containers=(ExtraContainer("proxy", 12_000),))
    refusal = check_of(ask(sidecar, machine(2, 1, 24), hard_cap=True), "reserved")
    assert "12 CPUs, 4 are reserved" in refusal.message
    assert "at most 4 CPUs" in refusal.nearest
    full = check_of(ask(sidecar, machine(2, 1, 24)), "reserved")
    assert "12 CPUs, 4 are reserved and the plan leaves 0 over" in full.message
    roomy = ask(replace(sidecar, cpu=16, replicas=1), machine(2, 1, 24))
    assert roomy.fits
    assert "grows into the 60 CPUs" in check_of(roomy, "reserved", "warning").message
    small = replace(sidecar, extra_containers=(ExtraContainer("fetch", 3000, init=True), ExtraContainer("proxy", 2000)))
    assert "3 CPUs" in check_of(ask(small, machine(2, 1, 24)), "reserved", "ok").message


def test_sidecars_of_what_runs_count_too() -> None:
    model = Model("m", "", 11, 1, memory_gib=8, extra_containers=(ExtraContainer("proxy", 2000),))
    answer = ask(model, machine(2, 1, 24), hard_cap=True, running=[runs(model, reserved_milli=3000)])
    assert "5 CPUs, 4 are reserved" in check_of(answer, "reserved").message


def test_two_models_over_two_nodes_stay_in_one_package() -> None:
    # containers/nri-plugins#617
    model = Model("m", "", 16, 2, memory_gib=8)
    for layout in ("fixed", "elastic"):
        first = ask(model, machine(2, 2, 24), layout=layout)
        second = ask(model, machine(2, 2, 24), layout=layout, running=[runs(model)])
        assert first.nodes[0].numa_nodes in ((0, 1), (2, 3))
        assert second.nodes[0].numa_nodes in ((0, 1), (2, 3))
