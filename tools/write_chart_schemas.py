#!/usr/bin/env python3
"""Write what follows from the schemas and the CRD; ``--check`` writes nothing and exits 1 naming stale files.

* ``schemas/balloonspolicy.schema.json``: the spec of a BalloonsPolicy, from the CRD in ``charts/nri-balloons/crds/``.
* ``charts/<chart>/values.schema.json``: ``schemas/<chart>.values.schema.json`` for Helm, in draft-07 and in one file.
* The table of values in ``charts/<chart>/README.md``, between ``<!-- values -->`` and ``<!-- /values -->``.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

Schema = dict[str, Any]

REPOSITORY: Final = Path(__file__).resolve().parents[1]
CRD: Final = Path("charts/nri-balloons/crds/config.nri_balloonspolicies.yaml")
POLICY_SCHEMA: Final = Path("schemas/balloonspolicy.schema.json")
VALUES_SUFFIX: Final = ".values.schema.json"
ID_PREFIX: Final = "urn:balloonist:"
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
HELM_DIALECT: Final = "http://json-schema.org/draft-07/schema#"

TABLE: Final = re.compile(r"(<!-- values -->\n).*?(<!-- /values -->)", re.DOTALL)

SCHEMA_MAPS: Final = ("properties", "patternProperties", "$defs", "dependentSchemas")
SCHEMA_LISTS: Final = ("allOf", "anyOf", "oneOf")
SCHEMAS: Final = ("items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else")
NOT_IN_DRAFT_07: Final = (
    "$anchor",
    "$dynamicRef",
    "minContains",
    "maxContains",
    "prefixItems",
    "unevaluatedProperties",
)
KUBERNETES: Final = "x-kubernetes-"
KUBERNETES_FORMATS: Final = ("int32", "int64", "duration")
"""Formats that JSON Schema does not know, or means something else by (its durations are those of ISO 8601)."""


def main() -> int:
    """Write or check the files of this repository."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file is stale")
    parser.add_argument("--root", type=Path, default=REPOSITORY, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    changed = stale(arguments.root)
    for path, text in changed.items():
        if not arguments.check:
            (arguments.root / path).write_text(text, encoding="utf-8")
        sys.stdout.write(f"{path} {'is stale' if arguments.check else 'written'}\n")
    if changed and arguments.check:
        sys.stderr.write("Run tools/write_chart_schemas.py.\n")
        return 1
    return 0


def stale(root: Path) -> dict[Path, str]:
    """The files whose text is not what it should be, with the right text; paths are relative to the root."""
    return {path: text for path, text in texts(root).items() if _read(root / path) != text}


def texts(root: Path) -> dict[Path, str]:
    """Every file that follows from others. Charts and schemas that do not exist are left out."""
    policy = policy_schema(yaml.safe_load(_read(root / CRD)))
    found = {POLICY_SCHEMA: _json(policy)}
    schemas = {
        document["$id"]: document
        for path in sorted((root / "schemas").glob("*.schema.json"))
        if path.name != POLICY_SCHEMA.name and (document := json.loads(_read(path)))
    }
    schemas[policy["$id"]] = policy
    for path in sorted((root / "schemas").glob(f"*{VALUES_SUFFIX}")):
        chart = Path("charts") / path.name.removesuffix(VALUES_SUFFIX)
        if not (root / chart).is_dir():
            continue
        schema = json.loads(_read(path))
        found[chart / "values.schema.json"] = _json(helm_schema(schema, schemas))
        readme = _read(root / chart / "README.md")
        if TABLE.search(readme):
            values = yaml.safe_load(_read(root / chart / "values.yaml")) or {}
            table = "\n" + values_table(schema, values, schemas) + "\n"
            found[chart / "README.md"] = TABLE.sub(lambda match, text=table: match[1] + text + match[2], readme)  # type: ignore[misc]
    return found


# From the CRD to JSON Schema


def policy_schema(crd: Mapping[str, Any]) -> Schema:
    """The closed JSON Schema of a BalloonsPolicy's spec."""
    version = next(item for item in crd["spec"]["versions"] if item["storage"])
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    head = {
        "$schema": DIALECT,
        "$id": f"{ID_PREFIX}balloonspolicy",
        "$comment": "Written by tools/write_chart_schemas.py from the CRD.",
        "title": f"Spec of a {crd['spec']['names']['kind']} ({crd['spec']['group']}/{version['name']})",
    }
    return head | closed(spec)


def closed(schema: Mapping[str, Any]) -> Schema:
    """A structural schema as JSON Schema that refuses unknown fields at every level."""
    copy: Schema = {}
    for key, value in schema.items():
        if key.startswith(KUBERNETES) or (key == "format" and value in KUBERNETES_FORMATS):
            continue
        if key == "properties":
            copy[key] = {name: closed(member) for name, member in value.items()}
        elif key in ("items", "additionalProperties") and isinstance(value, Mapping):
            copy[key] = closed(value)
        else:
            copy[key] = value
    if schema.get("x-kubernetes-list-type") == "set":
        copy["uniqueItems"] = True
    if "properties" in copy:
        copy["additionalProperties"] = False
    return copy


# From JSON Schema 2020-12 to what Helm reads


def helm_schema(schema: Mapping[str, Any], schemas: Mapping[str, Schema]) -> Schema:
    """One draft-07 schema with everything it refers to among its definitions."""
    definitions: dict[str, Schema] = {}
    body = _draft_07(schema, schema, schemas, definitions)
    origin = f"schemas/{_name(schema)}.schema.json"
    head = {"$schema": HELM_DIALECT, "$comment": f"Written by tools/write_chart_schemas.py from {origin}."}
    bundled: Schema = head | body
    if definitions:
        bundled["definitions"] = dict(sorted(definitions.items()))
    return bundled


def _draft_07(
    schema: Any, document: Mapping[str, Any], schemas: Mapping[str, Schema], definitions: dict[str, Schema]
) -> Any:
    """A subschema of a document in draft-07; what it refers to is added to the definitions."""

    def convert(value: Any) -> Any:
        return _draft_07(value, document, schemas, definitions)

    if not isinstance(schema, Mapping):
        return schema
    copy: Schema = {}
    for key, value in schema.items():
        if key in NOT_IN_DRAFT_07:
            raise ValueError(f"{_name(document)}: draft-07 has no {key}")
        if key in ("$schema", "$id", "$comment", "$defs", "$ref"):
            continue
        if key in SCHEMA_MAPS:
            copy["dependencies" if key == "dependentSchemas" else key] = {
                name: convert(item) for name, item in value.items()
            }
        elif key in SCHEMA_LISTS:
            copy[key] = [convert(item) for item in value]
        elif key in SCHEMAS:
            copy[key] = convert(value)
        elif key == "dependentRequired":
            copy["dependencies"] = value
        else:
            copy[key] = value
    if "$ref" in schema:
        pointer = {"$ref": f"#/definitions/{_define(schema['$ref'], document, schemas, definitions)}"}
        # In draft-07 whatever stands beside a $ref is ignored.
        copy = {**copy, "allOf": [pointer, *copy.get("allOf", [])]} if copy else pointer
    return copy


def _define(
    reference: str, document: Mapping[str, Any], schemas: Mapping[str, Schema], definitions: dict[str, Schema]
) -> str:
    """Bundle what a reference points to; returns the name of its definition."""
    target, owner = _resolve(reference, document, schemas)
    fragment = reference.partition("#")[2]
    name = ".".join([_name(owner), *filter(None, fragment.removeprefix("/$defs/").split("/"))])
    if name not in definitions:
        definitions[name] = {}  # a place for references to itself
        definitions[name] = _draft_07(target, owner, schemas, definitions)
    return name


def _resolve(
    reference: str, document: Mapping[str, Any], schemas: Mapping[str, Schema]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The subschema that a reference points to, and the document it stands in."""
    uri, _, fragment = reference.partition("#")
    owner = schemas[uri] if uri else document
    target: Any = owner
    for part in filter(None, fragment.split("/")):
        target = target[part]
    return target, owner


def _name(document: Mapping[str, Any]) -> str:
    return str(document["$id"]).removeprefix(ID_PREFIX)


# The table of values


def values_table(schema: Mapping[str, Any], values: Mapping[str, Any], schemas: Mapping[str, Schema]) -> str:
    """A Markdown table of all values: key, type, default, description."""
    rows = ["| Key | Type | Default | Description |", "| --- | --- | --- | --- |"]
    for key, member, default in _rows(schema, schema, values, schemas, ""):
        cells = (
            f"`{key}`",
            _type(member),
            f"`{json.dumps(default, ensure_ascii=False)}`",
            member.get("description", ""),
        )
        rows.append("| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def _rows(
    schema: Mapping[str, Any], document: Mapping[str, Any], values: Any, schemas: Mapping[str, Schema], prefix: str
) -> Iterator[tuple[str, Mapping[str, Any], Any]]:
    """Every value that is not a group of others; schemas of other documents are not gone into."""
    for name, raw in schema.get("properties", {}).items():
        key = f"{prefix}{name}"
        member, owner = _followed(raw, document, schemas)
        default = values[name] if isinstance(values, Mapping) and name in values else member.get("default")
        if member.get("properties") and owner is document:
            yield from _rows(member, document, default, schemas, f"{key}.")
        else:
            yield key, member, default


def _followed(
    schema: Mapping[str, Any], document: Mapping[str, Any], schemas: Mapping[str, Schema]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """A subschema with what it refers to; what it says itself comes first."""
    owner = document
    while "$ref" in schema:
        target, owner = _resolve(schema["$ref"], owner, schemas)
        schema = {**target, **{key: value for key, value in schema.items() if key != "$ref"}}
    return schema, owner


def _type(schema: Mapping[str, Any]) -> str:
    """The type as people say it."""
    for key in ("anyOf", "oneOf"):
        if key in schema and "type" not in schema:
            return " or ".join(dict.fromkeys(_type(item) for item in schema[key]))
    if "$ref" in schema:
        return "object"
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    kind = schema.get("type", "any")
    return kind if isinstance(kind, str) else " or ".join(kind)


def _json(document: Mapping[str, Any]) -> str:
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


if __name__ == "__main__":
    sys.exit(main())
