"""Write what is derived from the single sources: the policy schema, the charts' schemas, the values tables.

- The CRD in charts/nri-balloons/crds/ gives schemas/balloonspolicy.schema.json: its spec, closed at every level.
- schemas/<chart>.values.schema.json gives charts/<chart>/values.schema.json: draft-07, with every reference bundled.
- The same schema gives the table between the markers in charts/<chart>/README.md.

Run: python tools/write_chart_schemas.py [--check]. With --check nothing is written; exit 1 names what is stale.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[1]
CRD: Final = ROOT / "charts" / "nri-balloons" / "crds" / "config.nri_balloonspolicies.yaml"
POLICY_SCHEMA: Final = "balloonspolicy"
CHARTS: Final = ("balloons-policy", "nri-balloons")
ID_PREFIX: Final = "urn:balloonist:"
TABLE_BEGIN: Final = "<!-- values -->"
TABLE_END: Final = "<!-- /values -->"

Schema = dict[str, Any]


def policy_schema(crd: Schema) -> Schema:
    """The JSON Schema of a BalloonsPolicy spec, from the CRD's structural schema."""
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"{ID_PREFIX}{POLICY_SCHEMA}",
        "title": "Spec of a BalloonsPolicy (config.nri/v1alpha1)",
        **closed(spec),
    }


def closed(node: Any) -> Any:
    """The schema without Kubernetes' extensions, every object closed to unknown keys."""
    if isinstance(node, list):
        return [closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    result = {key: closed(value) for key, value in node.items() if not key.startswith("x-kubernetes-")}
    if isinstance(node.get("properties"), dict) and node.get("type") == "object":
        result.setdefault("additionalProperties", False)
    if result.get("format") in ("int64", "int32"):
        del result["format"]
    return result


def bundled(name: str) -> Schema:
    """The values schema of a chart as draft-07, with the schemas that it refers to among its definitions."""
    source = load(name)
    definitions: Schema = {}
    result = _draft07(source, definitions)
    result.pop("$id", None)
    result["$schema"] = "http://json-schema.org/draft-07/schema#"
    if definitions:
        result["definitions"] = {**result.get("definitions", {}), **dict(sorted(definitions.items()))}
    return result


def _draft07(node: Any, definitions: Schema) -> Any:
    if isinstance(node, list):
        return [_draft07(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if isinstance(reference, str):
        # draft-07 ignores what stands beside a reference, so the description goes without loss of meaning
        return {"$ref": f"#/definitions/{_target(reference, definitions)}"}
    renamed = {"definitions" if key == "$defs" else key: value for key, value in node.items()}
    return {key: _draft07(value, definitions) for key, value in renamed.items()}


def _target(reference: str, definitions: Schema) -> str:
    if reference.startswith("#/$defs/"):
        return reference.removeprefix("#/$defs/")
    name = reference.removeprefix(ID_PREFIX)
    if name not in definitions:
        definitions[name] = {}  # a schema may refer to itself
        other = _draft07(load(name), definitions)
        definitions[name] = {key: value for key, value in other.items() if not key.startswith("$")}
    return name


def load(name: str) -> Schema:
    """A schema of schemas/, the policy's always fresh from the CRD."""
    if name == POLICY_SCHEMA:
        return policy_schema(yaml.safe_load(CRD.read_text(encoding="utf-8")))
    document: Schema = json.loads((ROOT / "schemas" / f"{name}.schema.json").read_text(encoding="utf-8"))
    return document


def values_table(schema: Schema) -> str:
    """A Markdown table with a row for each value that has no values below it."""
    rows = ["| key | type | default | meaning |", "| --- | --- | --- | --- |"]
    for key, node in _leaves(schema, ""):
        default = json.dumps(node["default"]) if "default" in node else ""
        rows.append(f"| `{key}` | {_type(node)} | {f'`{default}`' if default else ''} | {node.get('description', '')} |")
    return "\n".join(rows)


def _leaves(schema: Schema, prefix: str) -> Iterator[tuple[str, Schema]]:
    for name, node in sorted(schema.get("properties", {}).items()):
        key = f"{prefix}{name}"
        if node.get("properties"):
            yield from _leaves(node, f"{key}.")
        else:
            yield key, node


def _type(node: Schema) -> str:
    kind = node.get("type", "object" if "$ref" in node else "")
    if "enum" in node:
        return " \\| ".join(f"`{value}`" for value in node["enum"])
    return " or ".join(kind) if isinstance(kind, list) else str(kind)


def with_table(readme: str, table: str) -> str:
    """The README with the table between its markers; unchanged where it has none."""
    head, begin, rest = readme.partition(TABLE_BEGIN)
    _, end, tail = rest.partition(TABLE_END)
    return f"{head}{begin}\n{table}\n{end}{tail}" if begin and end else readme


def generated() -> dict[Path, str]:
    """Every derived file with the text it should have."""
    texts = {ROOT / "schemas" / f"{POLICY_SCHEMA}.schema.json": as_text(load(POLICY_SCHEMA))}
    for chart in CHARTS:
        directory = ROOT / "charts" / chart
        texts[directory / "values.schema.json"] = as_text(bundled(f"{chart}.values"))
        readme = directory / "README.md"
        if readme.exists():
            table = values_table(load(f"{chart}.values"))
            texts[readme] = with_table(readme.read_text(encoding="utf-8"), table)
    return texts


def as_text(schema: Schema) -> str:
    """JSON as it is written to files."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def main() -> int:
    """Write, or with --check only compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if a file is stale")
    check = parser.parse_args().check
    stale = [
        path
        for path, text in generated().items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path in stale:
        name = path.relative_to(ROOT)
        sys.stdout.write(f"{name} is stale\n" if check else f"wrote {name}\n")
        if not check:
            path.write_text(generated()[path], encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
