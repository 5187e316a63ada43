"""JSON Schema files for kubeconform, made from what the API server itself publishes.

One file per kind, named like kubeconform's own layout ("daemonset-apps-v1.json"), each complete in itself.
Unknown fields are refused everywhere, except where the API keeps them on purpose.
"""

import fcntl
import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from cluster.apiserver import Cluster, running_cluster
from cluster.binaries import cache_directory, tool_version

JsonObject = dict[str, Any]

# Part of the cache's path: raise it when the files would come out differently.
FORMAT = 1
DIALECT = "http://json-schema.org/draft-07/schema#"
REFERENCE_PREFIX = "#/definitions/"
GROUP_VERSION_KIND = "x-kubernetes-group-version-kind"
KEEPS_UNKNOWN_FIELDS = "x-kubernetes-preserve-unknown-fields"
# The published schema calls these strings; the API server takes numbers too.
ALSO_NUMBERS: Mapping[str, list[str]] = {
    "io.k8s.apimachinery.pkg.api.resource.Quantity": ["string", "number"],
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": ["string", "integer"],
}


def schema_location(directory: Path) -> str:
    """Return the value for kubeconform's -schema-location."""
    return f"{directory}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"


def run_kubeconform(kubeconform: Path, manifests: str, *directories: Path) -> subprocess.CompletedProcess[str]:
    """Validate a stream of YAML documents against the schema files in the directories, refusing unknown kinds."""
    locations = [argument for path in directories for argument in ("-schema-location", schema_location(path))]
    command = [str(kubeconform), "-strict", "-summary", "-verbose", *locations, "-"]
    return subprocess.run(command, input=manifests, capture_output=True, text=True, timeout=120, check=False)


def dump_builtin_schemas(cluster: Cluster, directory: Path) -> None:
    """Write the schema of every kind the running API server knows."""
    published = json.loads(cluster.kubectl("get", "--raw", "/openapi/v2").stdout)
    raw_definitions: Mapping[str, JsonObject] = published["definitions"]
    definitions = {name: strict(override_type(name, schema)) for name, schema in raw_definitions.items()}
    for name, schema in definitions.items():
        kinds = schema.get(GROUP_VERSION_KIND, [])
        # Options and events of watches belong to every group; nobody writes them as manifests.
        if len(kinds) == 1:
            needed = {other: definitions[other] for other in sorted(referenced(name, definitions) - {name})}
            gvk = kinds[0]
            write_schema({**schema, "definitions": needed}, gvk["group"], gvk["version"], gvk["kind"], directory)


def dump_crd_schemas(crd: Mapping[str, Any], directory: Path) -> None:
    """Write the schema of every version of a CustomResourceDefinition; no server is needed."""
    spec = crd["spec"]
    for version in spec["versions"]:
        schema = strict(version["schema"]["openAPIV3Schema"])
        schema["properties"]["metadata"] = {"type": "object"}
        write_schema(schema, spec["group"], version["name"], spec["names"]["kind"], directory)


def write_schema(schema: JsonObject, group: str, version: str, kind: str, directory: Path) -> None:
    """Write one kind's file, with apiVersion and kind fixed and required."""
    properties = {
        **schema.get("properties", {}),
        "apiVersion": {"const": f"{group}/{version}" if group else version},
        "kind": {"const": kind},
    }
    required = sorted({*schema.get("required", []), "apiVersion", "kind"})
    whole = {**schema, "$schema": DIALECT, "properties": properties, "required": required}
    directory.mkdir(parents=True, exist_ok=True)
    name = "-".join(part for part in (kind, group.split(".", maxsplit=1)[0], version) if part)
    (directory / f"{name.lower()}.json").write_text(json.dumps(whole), encoding="utf-8")


def override_type(name: str, schema: JsonObject) -> JsonObject:
    """Widen the few types that the API server reads more generously than it publishes."""
    if name in ALSO_NUMBERS:
        return {"description": schema.get("description", ""), "type": ALSO_NUMBERS[name]}
    return schema


def strict(schema: JsonObject) -> JsonObject:
    """Return a copy that refuses fields it does not name, at every depth."""
    copy = {key: strict_member(key, value) for key, value in schema.items()}
    if copy.pop("x-kubernetes-int-or-string", False):
        copy.pop("anyOf", None)
        copy["type"] = ["string", "integer"]
    if copy.pop("nullable", False) and isinstance(copy.get("type"), str):
        copy["type"] = [copy["type"], "null"]
    if "properties" in copy and "additionalProperties" not in copy and not copy.get(KEEPS_UNKNOWN_FIELDS):
        copy["additionalProperties"] = False
    return copy


def strict_member(key: str, value: Any) -> Any:
    """Apply strict() to the parts of a schema that are schemas themselves."""
    if key in ("properties", "definitions"):
        return {name: strict(member) for name, member in value.items()}
    # Branches of anyOf, oneOf, allOf and not only constrain fields that are declared beside them.
    if key in ("items", "additionalProperties") and isinstance(value, dict):
        return strict(value)
    return value


def referenced(name: str, definitions: Mapping[str, JsonObject]) -> set[str]:
    """Return the names of all definitions that one reaches, itself included."""
    reached: set[str] = set()
    waiting = [name]
    while waiting:
        current = waiting.pop()
        if current not in reached:
            reached.add(current)
            waiting.extend(references(definitions[current]))
    return reached


def references(node: Any) -> Iterator[str]:
    """Yield the names of the definitions that a schema refers to directly."""
    if isinstance(node, dict):
        target = node.get("$ref")
        if isinstance(target, str):
            yield target.removeprefix(REFERENCE_PREFIX)
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


def builtin_schemas() -> Path:
    """Return the directory with the schemas of the pinned Kubernetes; the first call starts a server to get them."""
    parent = cache_directory() / "schemas"
    directory = parent / f"kubernetes-{tool_version('kube-apiserver')}-format-{FORMAT}"
    parent.mkdir(parents=True, exist_ok=True)
    with (parent / ".lock").open("w") as lock:
        # Several test workers may ask at once; the lock goes with the file.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not directory.exists():
            with tempfile.TemporaryDirectory(dir=parent) as scratch:
                with running_cluster(Path(scratch) / "cluster") as cluster:
                    dump_builtin_schemas(cluster, Path(scratch) / "schemas")
                shutil.move(Path(scratch) / "schemas", directory)
    return directory
