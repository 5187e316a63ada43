"""The files that tools/write_chart_schemas.py writes: up to date, and as strict as what they come from."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from jsonschema import Draft7Validator, Draft202012Validator

from balloonist import schema as schemas
from charts.charttools import CHARTS, CRD, REPOSITORY

TOOL = REPOSITORY / "tools" / "write_chart_schemas.py"
RECORDINGS = sorted((REPOSITORY / "tests" / "placement" / "recordings").glob("*.json"))


def load_tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_chart_schemas", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


WRITER = load_tool()


def run_tool(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(TOOL), *arguments], capture_output=True, text=True, check=False)


def subschemas(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        yield node
        for value in node.values():
            yield from subschemas(value)
    elif isinstance(node, list):
        for value in node:
            yield from subschemas(value)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The schemas and charts, free to be changed."""
    for name in ("schemas", "charts"):
        shutil.copytree(REPOSITORY / name, tmp_path / name)
    return tmp_path


def test_nothing_is_stale() -> None:
    done = run_tool("--check")
    assert done.returncode == 0, done.stdout + done.stderr


def test_check_names_what_is_stale_and_a_run_writes_it(copy: Path) -> None:
    crd = copy / CRD.relative_to(REPOSITORY)
    crd.write_text(crd.read_text(encoding="utf-8").replace("hideHyperthreads", "hideThreads"), encoding="utf-8")
    readme = copy / "charts" / "balloons-policy" / "README.md"
    readme.write_text(readme.read_text(encoding="utf-8").replace("| `enabled` |", "| `on` |"), encoding="utf-8")
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    done = run_tool("--check", "--root", str(copy))
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "schemas/balloonspolicy.schema.json is stale",
        "charts/balloons-policy/values.schema.json is stale",
        "charts/balloons-policy/README.md is stale",
    ]
    assert {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()} == before
    assert run_tool("--root", str(copy)).returncode == 0
    assert run_tool("--check", "--root", str(copy)).returncode == 0
    assert readme.read_bytes() == (CHARTS / "balloons-policy" / "README.md").read_bytes()


def test_charts_and_schemas_may_be_missing(copy: Path) -> None:
    (copy / "schemas" / "nri-balloons.values.schema.json").unlink()
    shutil.rmtree(copy / "charts" / "balloons-policy")
    assert run_tool("--check", "--root", str(copy)).returncode == 0


def test_policy_schema_is_closed_everywhere() -> None:
    policy = schemas.load("balloonspolicy")
    Draft202012Validator.check_schema(policy)
    objects = [node for node in subschemas(policy) if node.get("type") == "object"]
    assert len(objects) > 20
    assert all("additionalProperties" in node for node in objects)
    assert all(not key.startswith("x-kubernetes") for node in subschemas(policy) for key in node)


def test_every_field_has_a_description() -> None:
    spec = yaml.safe_load(CRD.read_text(encoding="utf-8"))["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    for node in subschemas({"properties": {key: spec["properties"][key] for key in ("spec", "status")}}):
        if isinstance(fields := node.get("properties"), dict):
            for name, field in fields.items():
                assert isinstance(field, dict) and field.get("description"), name


def test_the_crd_has_no_default_but_the_one_the_plugin_needs() -> None:
    spec = yaml.safe_load(CRD.read_text(encoding="utf-8"))["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    with_default = [node for node in subschemas(spec) if "default" in node and "type" in node]
    assert [node["default"] for node in with_default] == ["high"]


@pytest.mark.parametrize("path", sorted(CHARTS.glob("*/values.schema.json")), ids=lambda path: path.parent.name)
def test_helm_schema(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    assert document["$schema"] == "http://json-schema.org/draft-07/schema#"
    Draft7Validator.check_schema(document)
    for node in subschemas(document):
        if isinstance(reference := node.get("$ref"), str):
            assert reference.removeprefix("#/definitions/") in document["definitions"]
            assert set(node) == {"$ref"}, "draft-07 ignores what stands beside a $ref"
    values = yaml.safe_load((path.parent / "values.yaml").read_text(encoding="utf-8"))
    assert list(Draft7Validator(document).iter_errors(values)) == []


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
def test_policies_of_the_recordings_are_valid(path: Path) -> None:
    policy = json.loads(path.read_text(encoding="utf-8"))["policy"]
    assert schemas.problems(policy, "balloonspolicy", path.name) == []


@pytest.mark.parametrize(
    ("key", "value", "place"),
    [
        ("balloonTypes", [{"name": "a", "minCpus": 1}], "balloonTypes[0].minCpus"),
        ("balloonTypes", [{"minCPUs": 1}], "balloonTypes[0]"),
        ("reservedResource", {"cpu": "1"}, "reservedResource"),
        ("agent", {"nodeResourceTopology": "yes"}, "agent.nodeResourceTopology"),
        ("reservedResources", {"cpu": "0-3"}, "reservedResources.cpu"),
        ("balloonTypes", [{"name": "a", "memoryTypes": ["DRAM", "DRAM"]}], "balloonTypes[0].memoryTypes"),
    ],
)
def test_findings_name_the_place(key: str, value: object, place: str) -> None:
    policy = {"reservedResources": {"cpu": "1"}, key: value}
    assert [item.key for item in schemas.problems(policy, "balloonspolicy", "values")] == [place]


def test_references_are_bundled() -> None:
    other = {"$id": "urn:balloonist:other", "$defs": {"leaf": {"type": "string"}}, "$ref": "#/$defs/leaf"}
    schema = {
        "$id": "urn:balloonist:some.values",
        "properties": {
            "far": {"$ref": "urn:balloonist:other", "description": "Far."},
            "part": {"$ref": "urn:balloonist:other#/$defs/leaf"},
            "own": {"$ref": "#/$defs/leaf"},
            "self": {"$ref": "#/$defs/tree"},
        },
        "dependentRequired": {"far": ["own"]},
        "$defs": {"leaf": {"type": "integer"}, "tree": {"items": {"$ref": "#/$defs/tree"}}},
    }
    bundled = WRITER.helm_schema(schema, {"urn:balloonist:other": other})
    assert bundled["properties"] == {
        "far": {"description": "Far.", "allOf": [{"$ref": "#/definitions/other"}]},
        "part": {"$ref": "#/definitions/other.leaf"},
        "own": {"$ref": "#/definitions/some.values.leaf"},
        "self": {"$ref": "#/definitions/some.values.tree"},
    }
    assert bundled["dependencies"] == {"far": ["own"]}
    assert bundled["definitions"] == {
        "other": {"$ref": "#/definitions/other.leaf"},
        "other.leaf": {"type": "string"},
        "some.values.leaf": {"type": "integer"},
        "some.values.tree": {"items": {"$ref": "#/definitions/some.values.tree"}},
    }
    with pytest.raises(ValueError, match="prefixItems"):
        WRITER.helm_schema({"$id": "urn:balloonist:x", "prefixItems": []}, {})


def test_values_table() -> None:
    schema = {
        "$id": "urn:balloonist:some.values",
        "properties": {
            "image": {
                "type": "object",
                "properties": {
                    "tag": {"type": "string", "description": "a | b", "default": "1"},
                    "pull": {"enum": ["Always", "Never"]},
                },
            },
            "extra": {"$ref": "#/$defs/extra", "description": "More."},
        },
        "$defs": {"extra": {"type": ["object", "null"], "description": "Less."}},
    }
    assert WRITER.values_table(schema, {"image": {"pull": "Never"}}, {}).splitlines()[2:] == [
        '| `image.tag` | string | `"1"` | a \\| b |',
        '| `image.pull` | `"Always"` or `"Never"` | `"Never"` |  |',
        "| `extra` | object or null | `null` | More. |",
    ]
