"""The command ``simulate``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from balloonist import topologyjson
from balloonist.placement.recording import described_topology
from balloonist.simulatecli import simulate

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
    assert (rows[0]["op"], rows[0]["ok"], "999" in rows[0]["error"]) == ("start", False, True)
    assert [row["ok"] for row in rows[1:]] == [False] * 13
    assert "would not start" in result.stderr
