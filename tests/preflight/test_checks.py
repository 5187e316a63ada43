"""Single checks: heads, memory of a rank, config.json, free balloons, and the nearest yes of each no."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from balloonist import heads, modelconfig
from balloonist.catalog import ExtraContainer, Model
from balloonist.modelmemory import kv_cache, rank_memory, weights_gib
from balloonist.problem import ProblemError
from machines import machine
from preflight.fleets import ask, check_of, runs, with_memory

MODEL = Model("m", "", 16, 1, memory_gib=8)


@pytest.mark.parametrize(
    ("tp", "count", "kv", "valid"),
    [
        (1, 32, 8, True),
        (8, 32, 8, True),
        (16, 32, 8, True),  # each KV head is copied to two ranks
        (3, 24, 8, False),
        (6, 24, 4, False),  # six ranks cannot share four KV heads evenly
        (2, 64, 1, True),
        (3, None, None, True),
        (5, None, 5, True),
        (3, 64, None, False),
    ],
)
def test_heads(tp: int, count: int | None, kv: int | None, valid: bool) -> None:
    assert (heads.problem_with(tp, count, kv) == "") == valid


@pytest.mark.parametrize(
    ("billions", "dtype", "quantization", "gib"),
    [
        (8.03, "bfloat16", "", 14.96),
        (8.03, "", "", 14.96),
        (8.03, "float32", "", 29.91),
        (8.03, "float16", "awq", 5.33),  # the files have 5.73e9 bytes
        (70.6, "float16", "gptq", 36.2),
        (8.03, "bfloat16", "fp8", 8.41),
        (0.5, "bfloat16", "int8", 0.93),
    ],
)
def test_weights(billions: float, dtype: str, quantization: str, gib: float) -> None:
    model = replace(MODEL, parameters_b=billions, dtype=dtype, quantization=quantization)
    assert weights_gib(model) == pytest.approx(gib, abs=0.02)


def test_kv_cache_in_order_of_who_says_it() -> None:
    shape = replace(MODEL, memory_gib=None, layers=32, heads=32, kv_heads=8, head_dim=128, parameters_b=8.0)
    assert kv_cache(shape) == (4, "vLLM's default")
    long = replace(shape, max_model_len=131_072)
    assert kv_cache(long)[0] == 16
    assert kv_cache(replace(long, tp=4, cpu=16))[0] == 4
    assert kv_cache(replace(long, tp=16, cpu=16))[0] == 2  # two ranks keep the same KV head
    assert kv_cache(replace(long, kv_cache_gib=20))[0] == 20
    assert kv_cache(replace(long, env={"VLLM_CPU_KVCACHE_SPACE": "30"}))[0] == 30
    assert rank_memory(replace(MODEL, memory_gib=None)) is None
    whole = rank_memory(replace(MODEL, tp=2, memory_gib=9))
    assert whole is not None
    assert whole.gib == 4.5


def test_a_kv_cache_too_small_for_one_sequence() -> None:
    model = Model("m", "", 16, 1, parameters_b=8.0, layers=32, heads=32, kv_heads=8, head_dim=128, kv_cache_gib=8)
    refusal = check_of(ask(replace(model, max_model_len=131_072)), "kv-cache")
    assert "needs 16.0 GiB" in refusal.message
    assert refusal.nearest == "kv_cache_gib: 16, or max_model_len: 65536"
    assert ask(replace(model, max_model_len=65_536)).fits


LLAMA = {"num_attention_heads": 32, "num_key_value_heads": 8, "num_hidden_layers": 16, "hidden_size": 2048}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({**LLAMA, "torch_dtype": "bfloat16"}, {"heads": 32, "kv_heads": 8, "layers": 16, "head_dim": 64}),
        ({**LLAMA, "head_dim": 128, "dtype": "float16"}, {"head_dim": 128, "dtype": "float16"}),
        ({"num_attention_heads": 12}, {"heads": 12, "kv_heads": 12}),
        ({"text_config": LLAMA, "num_hidden_layers": 2, "vision_config": {}}, {"layers": 16, "heads": 32}),
        ({**LLAMA, "quantization_config": {"quant_method": "awq", "bits": 4}}, {"quantization": "awq"}),
        ({**LLAMA, "quantization_config": {"quant_method": "gptq", "bits": 8}}, {"quantization": "int8"}),
        ({**LLAMA, "quantization_config": {"quant_method": "fp8"}}, {"quantization": "fp8"}),
        (
            {
                **LLAMA,
                "quantization_config": {
                    "quant_method": "compressed-tensors",
                    "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "int"}}},
                },
            },
            {"quantization": "int8"},
        ),
    ],
)
def test_model_configs(document: dict[str, Any], expected: dict[str, Any]) -> None:
    found = modelconfig.facts(document, "config.json")
    assert {name: found.get(name) for name in expected} == expected


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({}, "num_attention_heads"),
        ({"num_attention_heads": 0}, "0 is not a whole number"),
        ({"num_attention_heads": "32"}, "'32' is not a whole number"),
        ({"num_attention_heads": True}, "True is not a whole number"),
        ({**LLAMA, "torch_dtype": "float8"}, "'float8' is not known"),
        ({**LLAMA, "torch_dtype": ["float16"]}, "is not known"),
        ({**LLAMA, "quantization_config": "awq"}, "is not an object"),
        ({**LLAMA, "quantization_config": {"quant_method": "mxfp4"}}, "'mxfp4' is not known"),
        ({**LLAMA, "quantization_config": {"quant_method": "gptq", "bits": 3}}, "with 3 bits is not known"),
    ],
)
def test_model_configs_that_are_none(document: dict[str, Any], words: str) -> None:
    with pytest.raises(ProblemError) as raised:
        modelconfig.facts(document, "config.json")
    assert words in str(raised.value)


def test_too_many_cores_for_one_numa_node() -> None:
    refusal = check_of(ask(replace(MODEL, cpu=46)), "cores")
    assert "needs 46 whole cores on one NUMA node, w1 has at most 23" in refusal.message
    assert "fits with cpu <= 23 in a new plan" in refusal.nearest
    assert "fits with tp=2 in a new plan" in refusal.nearest


def test_more_than_one_container_may_ask_for() -> None:
    refusal = check_of(ask(replace(MODEL, cpu=160, tp=4), machine(2, 2, 48)), "limit")
    assert "asks for 320 logical CPUs" in refusal.message
    assert "at most 256" in refusal.message
    assert "fits with cpu <= 128 in a new plan" in refusal.nearest


def test_all_balloons_in_use() -> None:
    running = [runs(MODEL) for _ in range(4)]
    refusal = check_of(ask(MODEL, running=running), "free")
    assert "4 planned, 4 in use" in refusal.message
    assert "fits with cpu <= 7 in a new plan" in refusal.nearest
    other = ask(MODEL, machine(), machine(node="w2"), running=running, only=["w1"])
    assert "fits on node w2" in check_of(other, "free").nearest


def test_a_balloon_that_the_plan_lacks() -> None:
    small = Model("small", "", 4, 1, memory_gib=8, replicas=0)
    refusal = check_of(ask(small, others=[MODEL]), "balloon")
    assert (
        "w1 has no balloon type vllm-balloon-tp1; it has: vllm-balloon-tp1-c16 (tp=1 with 16 cores)" in refusal.message
    )
    assert "fits in a new plan with one more balloon of tp=1 with 4 cores" in refusal.nearest
    assert "fits with cpu=16" in refusal.nearest


def test_elastic_is_full() -> None:
    running = [runs(replace(MODEL, cpu=23)) for _ in range(4)]
    answer = ask(MODEL, running=running, layout="elastic")
    assert not answer.fits
    refusal = check_of(answer, "free")
    assert "asks for 32 CPUs, 0 are free" in refusal.message
    assert refusal.nearest == "nothing like it fits here"


def test_elastic_a_spill_names_the_shares() -> None:
    running = [runs(MODEL) for _ in range(4)]
    refusal = check_of(ask(MODEL, running=running, layout="elastic"), "spill")
    assert "over" in refusal.message
    assert "on NUMA node" in refusal.message
    assert "fits with cpu=7" in refusal.nearest


def test_an_override_that_does_not_exist_or_has_another_tp() -> None:
    answer = ask(replace(MODEL, balloon="vllm-baloon-tp1"), others=[replace(MODEL, name="other")])
    assert "did you mean 'vllm-balloon-tp1'?" in check_of(answer, "balloon").nearest
    answer = ask(MODEL, layout="elastic", type_name="vllm-balloon-tp2")
    assert "another TP than the model's tp=1" in check_of(answer, "balloon").message


def test_memory_of_what_runs_is_subtracted() -> None:
    heavy = replace(MODEL, memory_gib=100)
    machine_ = machine(1, 1, 48, memory_gib=128)
    assert ask(heavy, machine_).fits
    refusal = check_of(ask(heavy, machine_, running=[runs(heavy, rank_gib=40.0)]), "memory")
    assert "of which models that run there have 40.0" in refusal.message
    unknown = ask(heavy, machine_, running=[runs(heavy)])
    assert unknown.fits
    assert "memory of m is not known" in check_of(unknown, "memory", "warning").message


def test_what_runs_on_known_numa_nodes_takes_the_balloon_there() -> None:
    node = with_memory(machine(1, 2, 24), {0: 256 * 1024, 1: 64 * 1024})
    model = replace(MODEL, memory_gib=100)
    assert ask(model, node, running=[runs(model, numa_nodes=(1,), rank_gib=10.0)]).nodes[0].numa_nodes == (0,)
    refused = ask(model, node, running=[runs(model, numa_nodes=(0,), rank_gib=10.0)])
    assert check_of(refused, "memory").numa_nodes == (1,)


def test_what_the_plan_has_no_balloon_for_is_said() -> None:
    stranger = Model("stranger", "", 5, 1)
    assert (
        "the plan has no balloon for it"
        in check_of(ask(MODEL, running=[runs(stranger)]), "placements", "warning").message
    )


def test_a_plan_that_memory_cannot_hold_is_a_warning() -> None:
    answer = ask(replace(MODEL, cpu=8, memory_gib=20), machine(1, 1, 48, memory_gib=64))
    assert answer.fits
    assert "needs 100.0 of its 64.0 GiB" in check_of(answer, "memory-plan", "warning").message


def test_tight_memory_is_a_warning_and_unknown_memory_too() -> None:
    tight = ask(replace(MODEL, memory_gib=63), machine(1, 1, 24, memory_gib=64))
    assert tight.fits
    assert "tight" in check_of(tight, "memory", "warning").message
    assert "not known" in check_of(ask(replace(MODEL, memory_gib=None)), "memory", "warning").message


def test_shared_memory_is_noted_for_more_ranks_than_one() -> None:
    assert "/dev/shm" in check_of(ask(replace(MODEL, tp=2)), "shm", "note").message
    assert all(verdict.check != "shm" for verdict in ask(MODEL).verdicts)


def test_two_settings_have_to_change() -> None:
    # 80 cores and 16 of them on each of two NUMA nodes: neither tp nor cpu alone helps
    answer = ask(replace(MODEL, cpu=80, tp=4), machine(1, 2, 16))
    assert "fits with tp=2 and cpu <= 30 in a new plan" in check_of(answer, "numa").nearest


def test_best_effort_counts_cores_of_the_whole_node() -> None:
    assert ask(replace(MODEL, cpu=20), cpu_policy="best-effort").fits
    refusal = check_of(ask(MODEL, cpu_policy="kubelet-static", running=[runs(MODEL) for _ in range(5)]), "free")
    assert "96 cores with what runs already, 92 of w1 are not reserved" in refusal.message


def test_an_elastic_layout_may_grow_reserved_cpus_with_a_warning() -> None:
    model = replace(MODEL, extra_containers=(ExtraContainer("proxy", 30_000),))
    answer = ask(model, layout="elastic")
    assert answer.fits
    assert "30 CPUs, 8 are reserved" in check_of(answer, "reserved", "warning").message
