"""The generated files of an environment: Helm values for the charts, kubelet fragments.

All documents are computed and validated before the first file is written. Every generated file begins with
:data:`HEADER`; only files that do are ever removed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from balloonist import kubelet, policyspec, schema, yamlfile
from balloonist.config import AUTO, Config
from balloonist.environment import Environment
from balloonist.layout import Fleet, NodeLayout
from balloonist.problem import Problem, ProblemError
from balloonist.textfile import read_text, write_text

HEADER: Final = "# Written by `balloonist values`. Change config.yaml or models.yaml instead and run it again.\n"

PLUGIN_FILE: Final = "nri-balloons.yaml"
POLICY_FILE: Final = "balloons-policy.yaml"
KUBELET_DIRECTORY: Final = "kubelet"


@dataclass(frozen=True)
class Changes:
    """Paths relative to the values directory, each sorted."""

    written: tuple[str, ...]
    removed: tuple[str, ...]
    unchanged: tuple[str, ...]


def render(environment: Environment, fleet: Fleet) -> dict[str, str]:
    """Text of every generated file by its path inside the values directory.

    Raises :class:`ProblemError` where a document would break its schema, or where nodes of one group differ.
    """
    documents: dict[str, Any] = {
        PLUGIN_FILE: _plugin_values(fleet.config),
        POLICY_FILE: _policy_values(environment, fleet),
    }
    found = schema.problems(documents[PLUGIN_FILE], "nri-balloons.values", PLUGIN_FILE)
    found += schema.problems(documents[POLICY_FILE], "balloons-policy.values", POLICY_FILE)
    if found:
        raise ProblemError(found)
    if fleet.config.cpu_policy == "kubelet-static":
        tp_sizes = [model.ranks for model in environment.models]
        for node in fleet.nodes:
            documents[f"{KUBELET_DIRECTORY}/{node.topology.node}.yaml"] = kubelet.fragment(node, tp_sizes)
    return {name: HEADER + yamlfile.dump(document) for name, document in sorted(documents.items())}


def stale(directory: Path, texts: dict[str, str]) -> tuple[str, ...]:
    """Files that an earlier run generated and this one does not, relative to the values directory."""
    return tuple(
        name
        for path in _files(directory)
        if (name := path.relative_to(directory).as_posix()) not in texts and read_text(path).startswith(HEADER)
    )


def current(directory: Path) -> dict[str, str]:
    """Text of every file now in the values directory that could be a generated one."""
    return {path.relative_to(directory).as_posix(): read_text(path) for path in _files(directory)}


def write(directory: Path, texts: dict[str, str]) -> Changes:
    """Write what differs and remove what an earlier run left; every single file is replaced in one step."""
    written = tuple(name for name, text in texts.items() if write_text(directory / name, text))
    removed = stale(directory, texts)
    for name in removed:
        (directory / name).unlink()
    return Changes(written, removed, tuple(name for name in texts if name not in written))


def _files(directory: Path) -> Iterable[Path]:
    folders = (directory, directory / KUBELET_DIRECTORY)
    return (path for folder in folders if folder.is_dir() for path in sorted(folder.glob("*.yaml")) if path.is_file())


def _plugin_values(config: Config) -> dict[str, Any]:
    if config.cpu_policy != "nri-balloons":
        return {"enabled": False}
    document: dict[str, Any] = {"enabled": True, "nodeResourceTopology": config.node_resource_topology}
    if config.metrics_port:
        document["metrics"] = {"enabled": True, "port": config.metrics_port}
    return document


def _policy_values(environment: Environment, fleet: Fleet) -> dict[str, Any]:
    if fleet.config.cpu_policy != "nri-balloons":
        return {"enabled": False, "policies": []}
    layouts: dict[str, tuple[policyspec.Spec, list[NodeLayout]]] = {}
    for node in fleet.nodes:
        document = policyspec.spec(node, fleet.config, fleet.names)
        layouts.setdefault(_layout_name(node, document), (document, []))[1].append(node)
    _refuse_mixed_groups(environment, layouts)
    return {
        "enabled": True,
        "default": policyspec.harmless_spec(fleet.config),
        "policies": [
            {"name": name, **_targets(environment, name, nodes), "spec": document}
            for name, (document, nodes) in sorted(layouts.items())
        ],
    }


def _layout_name(node: NodeLayout, document: policyspec.Spec) -> str:
    """A name that says the shape of the machine and changes only with the policy, e.g. ``p2n4c96t2-1a2b3c4d``."""
    topology = node.topology
    digest = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:8]
    shape = f"p{len(topology.packages)}n{len(topology.numa_nodes)}c{len(topology.cores)}t{topology.threads_per_core}"
    return f"{shape}-{digest}"


def _targets(environment: Environment, name: str, nodes: list[NodeLayout]) -> dict[str, list[str]]:
    if environment.config.groups == AUTO and len(nodes) > 1:
        return {"groups": [name], "nodes": []}
    return {
        "groups": sorted({node.group for node in nodes if node.group is not None}),
        "nodes": [node.topology.node for node in nodes if node.group is None],
    }


def _refuse_mixed_groups(
    environment: Environment, layouts: dict[str, tuple[policyspec.Spec, list[NodeLayout]]]
) -> None:
    """A group has one policy, so its nodes must have equal machines, reservations and plans."""
    first: dict[str, tuple[str, str]] = {}
    problems: list[Problem] = []
    for name, (_, nodes) in layouts.items():
        for node in nodes:
            if node.group is None:
                continue
            example, layout = first.setdefault(node.group, (node.topology.node, name))
            if layout != name:
                message = f"nodes {example} ({layout}) and {node.topology.node} ({name}) need different policies"
                hint = "a group holds nodes of equal CPUs, reserved CPUs and plan; give one of them its own group"
                problems.append(Problem(environment.config.source, f"nri_groups.{node.group}", message, hint))
                break
    if problems:
        raise ProblemError(problems)
