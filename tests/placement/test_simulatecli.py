"""The command ``simulate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from balloonist import topologyjson
from balloonist.placement.recording import described_topology
from balloonist.simulatecli import simulate
from commands import balloonist

RECORDING = Path(__file__).parent / "recordings" / "fill-tp1-16.json"


def invoke(directory: Path, form: str, policy: dict[str, Any] | None = None) -> Result:
    recording = json.loads(RECORDING.read_text(encoding="utf-8"))
    files = {
        "topology.json": topologyjson.dump(described_topology(recording["topology"])),
        "policy.yaml": yaml.safe_dump(policy or recording["policy"]),
        "ops.json": json.dumps(recording["ops"]),
    }
    for name, text in files.items():
        (directory / name).write_text(text, encoding="utf-8")
    options = {"--topology": "topology.json", "--policy": "policy.yaml", "--ops": "ops.json"}
    arguments = [part for option, name in options.items() for part in (option, str(directory / name))]
    return CliRunner().invoke(simulate, [*arguments, "-o", form])


def test_json_has_one_object_for_each_operation(tmp_path: Path) -> None:
    result = invoke(tmp_path, "json")
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    assert len(rows) == 13
    assert rows[0] == {
        "op": "create",
        "id": "m0",
        "ok": True,
        "error": "",
        "numa_nodes": [0],
        "cpus": 8,
        "spilled": False,
        "cpuset": "2-9",
        "hidden": "98-105",
        "mems": [0],
        "balloon": "vllm-balloon-tp1[0]",
        "balloon_types": ["vllm-balloon-tp1", "pkg0node0"],
        "reserved_taken": "",
    }
    assert rows[8]["reserved_taken"] == "0-1,96"
    assert (rows[12]["ok"], rows[12]["numa_nodes"], rows[12]["cpus"]) == (False, [], 0)


def test_yaml_says_the_same(tmp_path: Path) -> None:
    assert yaml.safe_load(invoke(tmp_path, "yaml").stdout) == json.loads(invoke(tmp_path, "json").stdout)


def test_table(tmp_path: Path) -> None:
    result = invoke(tmp_path, "table")
    assert result.exit_code == 0
    assert "vllm-balloon-tp1[0]" in result.stdout
    assert "refused" in result.stdout


def test_a_refused_start_gives_the_reason_and_exit_code_1(tmp_path: Path) -> None:
    result = invoke(tmp_path, "json", {"kind": "BalloonsPolicy", "spec": {"reservedResources": {"cpu": "cpuset:999"}}})
    assert result.exit_code == 1
    rows = json.loads(result.stdout)
    assert [row["ok"] for row in rows] == [False] * 13  # one object for each operation, as always
    assert all("999" in row["error"] and row["numa_nodes"] == [] for row in rows)
    assert "would not start" in result.stderr


def test_a_recorded_file_serves_as_topology_too(tmp_path: Path) -> None:
    recording = json.loads((RECORDING.parent / "fixed-preallocated.json").read_text())
    for name, document in (("whole.json", recording), ("block.json", recording["topology"])):
        (tmp_path / name).write_text(json.dumps(document, indent="\t"))
        (tmp_path / "policy.json").write_text(json.dumps(recording["policy"]))
        (tmp_path / "ops.json").write_text(json.dumps(recording["ops"]))
        options = ["--topology", tmp_path / name, "--policy", tmp_path / "policy.json", "--ops", tmp_path / "ops.json"]
        outcome = balloonist("simulate", *options, "-o", "json")
        assert outcome.code == 0, outcome.err
        assert len(json.loads(outcome.out)) == len(recording["ops"])


@pytest.mark.parametrize(
    ("policy", "operation", "message"),
    [
        ({"reservedResources": {"cpu": float("nan")}}, {}, "reservedResources.cpu"),
        ({"reservedResources": {"cpu": "Infinity"}}, {}, "reservedResources.cpu"),
        ({"balloonTypes": [{"name": "a", "shareIdleCPUsInSame": "*"}]}, {}, "balloonTypes[0].shareIdleCPUsInSame"),
        ({}, {"annotations": True}, "ops[0].annotations"),
        ({}, {"annotations": [1]}, "ops[0].annotations"),
        ({}, {"annotations": {"balloon.balloons.resource-policy.nri.io": [1]}}, "ops[0].annotations"),
    ],
)
def test_odd_input_is_refused_with_its_key(
    tmp_path: Path, policy: dict[str, object], operation: dict[str, object], message: str
) -> None:
    machine = {"packages": 1, "numa_per_package": 1, "cores_per_numa": 4, "threads_per_core": 1}
    (tmp_path / "t.json").write_text(json.dumps(machine))
    (tmp_path / "p.yaml").write_text(yaml.safe_dump({"reservedResources": {"cpu": "cpuset:0"}, **policy}))
    (tmp_path / "o.json").write_text(json.dumps([{"op": "create", "id": "a", **operation}]))
    options = ["--topology", tmp_path / "t.json", "--policy", tmp_path / "p.yaml", "--ops", tmp_path / "o.json"]
    outcome = balloonist("simulate", *options)
    assert outcome.code == 1
    assert message in outcome.err
