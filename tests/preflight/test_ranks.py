"""Beyond tensor parallel: pipeline stages and data-parallel copies have NUMA nodes of their own."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from balloonist import vllmsettings
from balloonist.catalog import Model
from balloonist.modelmemory import rank_memory
from balloonist.sizeclass import SizeClass
from commands import balloonist
from environments import write_environment
from machines import machine

MODEL = Model("m", "org/m", 32, tp=2, pp=2, heads=32, kv_heads=8, layers=32, parameters_b=8.0)


def environment(path: Path, **changes: object) -> Path:
    entry = {"name": "m", "cpu": 32, "tp": 2, "pp": 2, "heads": 32, "kv_heads": 8, "layers": 32, **changes}
    return write_environment(path / "env", nodes=[machine(), machine(1, 2, 40, node="w2")], models=[entry])


def test_the_balloon_has_a_numa_node_for_each_rank() -> None:
    assert MODEL.ranks == 4
    assert MODEL.size_class == SizeClass(4, 8)
    assert replace(MODEL, dp=2).size_class == SizeClass(8, 4)


def test_a_pod_of_two_stages_lands_on_four_numa_nodes(tmp_path: Path) -> None:
    outcome = balloonist("preflight", "m", "--env", environment(tmp_path, parameters_b=8), "-o", "json")
    assert outcome.code == 0
    answer = json.loads(outcome.out)
    nodes = {node["node"]: node for node in answer["nodes"]}
    assert (nodes["w1"]["fits"], nodes["w1"]["numa_nodes"]) == (True, [0, 1, 2, 3])
    assert not nodes["w2"]["fits"]
    assert any("tp 2 x pp 2 x dp 1 are 4 ranks" in verdict["message"] for verdict in answer["verdicts"])
    assert answer["vllm"]["arguments"] == ["--tensor-parallel-size=2", "--pipeline-parallel-size=2"]


def test_stages_share_the_weights_and_copies_do_not() -> None:
    alone, staged, copied = (rank_memory(replace(MODEL, tp=1, pp=pp, dp=dp)) for pp, dp in ((1, 1), (2, 1), (1, 2)))
    assert alone
    assert staged
    assert copied
    assert staged.gib < alone.gib == copied.gib


def test_the_suggested_tp_counts_all_ranks(tmp_path: Path) -> None:
    outcome = balloonist("preflight", "m", "--env", environment(tmp_path, tp=4, pp=2, cpu=64), "--node", "w1")
    assert outcome.code == 1
    assert "fits with tp=2" in outcome.out


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"pp": 0}, "models[0].pp"), ({"dp": 64}, "cannot serve tp=2 and pp=2 and dp=64"), ({"pp": "2"}, "models[0].pp")],
)
def test_impossible_numbers_of_ranks_are_refused(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    outcome = balloonist("validate", "--env", environment(tmp_path, **changes))
    assert outcome.code == 1
    assert message in outcome.err


def test_more_stages_than_layers(tmp_path: Path) -> None:
    outcome = balloonist("preflight", "m", "--env", environment(tmp_path, layers=1), "--node", "w1")
    assert outcome.code == 1
    assert "1 layers cannot be split into 2 pipeline stages" in outcome.out


def test_vllm_is_told_what_follows_from_the_layout() -> None:
    chosen = dict(vllmsettings.settings(replace(MODEL, kv_cache_gib=12)).environment)
    assert chosen == {
        "VLLM_CPU_KVCACHE_SPACE": "12",
        "VLLM_CPU_NUM_OF_RESERVED_CPU": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "auto",
    }
    small = replace(MODEL, cpu=4, tp=2, pp=1)
    assert dict(vllmsettings.settings(small).environment)["VLLM_CPU_NUM_OF_RESERVED_CPU"] == "0"


def test_what_the_catalog_says_wins_and_an_explicit_list_has_no_reserved_cpus() -> None:
    explicit = replace(MODEL, env={"VLLM_CPU_OMP_THREADS_BIND": "0-7|8-15|16-23|24-31", "OTHER": "x"})
    chosen = dict(vllmsettings.settings(explicit).environment)
    assert chosen["VLLM_CPU_OMP_THREADS_BIND"] == "0-7|8-15|16-23|24-31"
    assert chosen["OTHER"] == "x"
    assert "VLLM_CPU_NUM_OF_RESERVED_CPU" not in chosen
