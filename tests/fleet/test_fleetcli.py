"""`balloonist capacity` and `balloonist plan` as a person uses them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from balloonist import environment, fleetsolver, layout
from commands import balloonist
from environments import write_environment
from machines import machine


def models(*rows: tuple[int, int, int | None]) -> list[dict[str, Any]]:
    """A catalog from (cpu, tp, replicas)."""
    found = []
    for index, (cpu, tp, replicas) in enumerate(rows):
        entry: dict[str, Any] = {"name": f"m{index}", "model_id": f"org/m{index}", "cpu": cpu, "tp": tp}
        found.append(entry | ({} if replicas is None else {"replicas": replicas}))
    return found


def test_the_plan_is_written_and_used(tmp_path: Path) -> None:
    path = write_environment(tmp_path / "env", nodes=[machine(node="w1"), machine(1, 2, 30, node="w2")])
    outcome = balloonist("plan", "--env", path)
    assert outcome.code == 0, outcome.err
    text = (path / "plan.yaml").read_text()
    assert text.startswith("# Written by `balloonist plan`")
    planned = json.loads(balloonist("plan", "--env", path, "--dry-run", "-o", "json").out)
    made = [node.placed for node in layout.compute(environment.load(path)).nodes]
    assert sum(map(len, made)) == sum(sum(node.values()) for node in planned["nodes"].values())
    assert balloonist("plan", "--env", path).out.startswith("unchanged")
    assert (path / "plan.yaml").read_text() == text
    assert balloonist("values", "--env", path).code == 0


def test_dry_run_writes_nothing(tmp_path: Path) -> None:
    path = write_environment(tmp_path / "env")
    assert balloonist("plan", "--env", path, "--dry-run").code == 0
    assert not (path / "plan.yaml").exists()


def test_too_many_replicas_are_refused_with_the_numbers(tmp_path: Path) -> None:
    path = write_environment(tmp_path / "env", models=models((20, 1, 6)))
    outcome = balloonist("plan", "--env", path)
    assert outcome.code == 1
    assert "6 replicas of tp=1 with 20 cores are declared, placed at most 4" in outcome.err
    assert "alone 4 would fit" in outcome.err
    assert not (path / "plan.yaml").exists()


def test_a_plan_in_both_files_is_an_error_that_names_both(tmp_path: Path) -> None:
    path = write_environment(tmp_path / "env", {"nri_plan": {"w1": [{"model": "large", "balloons": 1}]}})
    assert "nri_plan" in balloonist("plan", "--env", path).err
    (path / "plan.yaml").write_text("w1:\n- {model: large, balloons: 1}\n")
    err = balloonist("validate", "--env", path).err
    assert "config.yaml" in err
    assert "plan.yaml" in err


def test_mistakes_in_the_plan_file_are_found_there(tmp_path: Path) -> None:
    path = write_environment(tmp_path / "env")
    for text, word in (
        ("w9: []\n", "'w9'"),
        ("w1:\n- {model: larg, balloons: 1}\n", "did you mean 'large'"),
        ("w1:\n- {model: large, balloons: 0}\n", "w1[0].balloons"),
        ("w1:\n- {tp: 4, cpu: 2, balloons: 1}\n", "each rank needs a core"),
        ("", "the file is empty"),
    ):
        (path / "plan.yaml").write_text(text)
        outcome = balloonist("validate", "--env", path)
        assert outcome.code == 1, text
        assert word in outcome.err
        assert "plan.yaml" in outcome.err
    (path / "plan.yaml").write_text("w1:\n- {model: large, balloons: 90}\n")
    assert "do not fit" in balloonist("validate", "--env", path).err
    assert balloonist("plan", "--env", path).code == 0


def test_elastic_environments_have_no_plan(tmp_path: Path) -> None:
    path = write_environment(tmp_path / "env", {"nri_layout": "elastic"})
    assert "only the fixed layout" in balloonist("plan", "--env", path).err


def test_without_a_solver_the_result_says_so(tmp_path: Path) -> None:
    path = write_environment(tmp_path / "env", models=models((13, 1, 1), (12, 1, None)))
    with mock.patch.object(fleetsolver, "available", return_value=False):
        assert json.loads(balloonist("plan", "--env", path, "--dry-run", "-o", "json").out)["solver"] is None
        assert "heuristic" in balloonist("capacity", "--env", path).out


def test_capacity_in_every_form(tmp_path: Path) -> None:
    path = write_environment(tmp_path / "env", nodes=[machine(node="w1"), machine(node="w2")])
    found = json.loads(balloonist("capacity", "--env", path, "-o", "json").out)
    assert found["models"]["large"] == {"alone": 8, "in_mix": 1}
    assert [node["node"] for node in found["nodes"]] == ["w1", "w2"]
    one = json.loads(balloonist("capacity", "--env", path, "--node", "w2", "-o", "json").out)
    assert one["models"]["large"]["alone"] == 4
    assert "whole catalog" in balloonist("capacity", "--env", path).out
    assert "no node 'x'" in balloonist("capacity", "--env", path, "--node", "x").err


@settings(deadline=None, max_examples=25)
@given(
    rows=st.lists(
        st.tuples(st.integers(2, 20), st.sampled_from([1, 2]), st.none() | st.integers(0, 3)), min_size=1, max_size=5
    ),
    shapes=st.lists(st.tuples(st.integers(1, 2), st.integers(1, 3), st.integers(6, 16)), min_size=1, max_size=3),
)
def test_layout_takes_every_plan_and_all_replicas_are_there(
    tmp_path_factory: Any, rows: list[tuple[int, int, int | None]], shapes: list[tuple[int, int, int]]
) -> None:
    path = tmp_path_factory.mktemp("fleet") / "env"
    nodes = [machine(*shape, node=f"w{index}") for index, shape in enumerate(shapes)]
    write_environment(path, nodes=nodes, models=models(*rows))
    if balloonist("plan", "--env", path).code:
        return
    loaded = environment.load(path)
    made = [balloon.size_class for node in layout.compute(loaded).nodes for balloon in node.placed]
    for item in {model.size_class for model in loaded.models}:
        declared = sum(model.replicas or 0 for model in loaded.models if model.size_class == item)
        assert made.count(item) >= declared
