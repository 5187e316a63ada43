"""The settings of one environment, read from ``env/<name>/config.yaml``."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from balloonist import schema, yamlfile
from balloonist.problem import Problem, ProblemError, problem
from balloonist.reserve import Rounding

CpuPolicy = Literal["nri-balloons", "kubelet-static", "best-effort"]
LayoutKind = Literal["fixed", "elastic"]
Fill = Literal["all", "once"]
Spill = Literal["error", "warn"]

DEFAULT: Final = "default"
"""The key, in a setting given by node or group, that serves every node without an entry of its own."""

AUTO: Final = "auto"
"""The value of ``nri_groups`` that lets nodes with equal policies form groups by themselves."""

T = TypeVar("T")


@dataclass(frozen=True)
class PlannedBalloons:
    """One line of a hand-written plan: so many balloons, sized as a catalog model or by TP and cores in all."""

    balloons: int
    model: str = ""
    tp: int = 0
    cpu: int = 0


@dataclass(frozen=True)
class Config:
    """``config.yaml`` with its defaults filled in (their meaning: schemas/config.schema.json).

    ``plan_source`` is the file that ``plan`` was read from, if that was not ``source``.
    """

    source: str
    cpu_policy: CpuPolicy
    reserved: Mapping[str, str]
    profile: str = "siblings"
    rounding: Rounding = "whole-cores"
    hard_cap: bool = False
    pin_system_memory: bool = False
    layout: LayoutKind = "fixed"
    spill: Spill = "error"
    tp_sizes: tuple[int, ...] | None = None
    fill: Fill = "all"
    plan: Mapping[str, tuple[PlannedBalloons, ...]] | None = None
    plan_source: str = ""
    groups: Mapping[str, tuple[str, ...]] | Literal["auto"] | None = None
    node_resource_topology: bool = False
    metrics_port: int = 0


def read(path: Path) -> Config:
    """Read and validate ``config.yaml``; raises :class:`ProblemError` with every finding."""
    document = yamlfile.read(path)
    if document is None:
        raise problem(str(path), "", "the file is empty", "start with: kubernetes_cpu_policy: nri-balloons")
    found = schema.problems(document, "config", str(path))
    found = found or coreless_ranks(document.get("nri_plan", {}), str(path), "nri_plan.")
    if found:
        raise ProblemError(found)
    return _from_document(document, str(path))


def _from_document(document: Mapping[str, Any], source: str) -> Config:
    reserved = document.get("nri_reserved_cpu_list", "")
    groups = document.get("nri_groups")
    plan = document.get("nri_plan")
    tp_sizes = document.get("nri_tp_sizes")
    return Config(
        source=source,
        cpu_policy=document["kubernetes_cpu_policy"],
        reserved={DEFAULT: reserved} if isinstance(reserved, str) else dict(reserved),
        profile=document.get("nri_deployment_profile", "siblings"),
        rounding=document.get("nri_reserved_rounding", "whole-cores"),
        hard_cap=document.get("nri_reserved_hard_cap", False),
        pin_system_memory=document.get("nri_pin_system_memory", False),
        layout=document.get("nri_layout", "fixed"),
        spill=document.get("nri_spill", "error"),
        tp_sizes=None if tp_sizes is None else tuple(sorted(map(int, tp_sizes))),
        fill=document.get("nri_fill", "all"),
        plan=None if plan is None else planned(plan),
        groups={name: tuple(members) for name, members in groups.items()} if isinstance(groups, dict) else groups,
        node_resource_topology=document.get("nri_node_resource_topology", False),
        metrics_port=int(document.get("nri_metrics_port", 0)),
    )


def coreless_ranks(plan: Mapping[str, Any], source: str, prefix: str = "") -> list[Problem]:
    """Lines of a plan that give a rank no core; ``prefix`` is the key under which the plan stands in its file."""
    return [
        Problem(
            source,
            f"{prefix}{name}[{position}].cpu",
            f"{entry['cpu']} cores cannot serve tp={entry['tp']}: each rank needs a core",
            f"at least {entry['tp']}",
        )
        for name, entries in plan.items()
        for position, entry in enumerate(entries)
        if entry.get("cpu", 0) < entry.get("tp", 0)
    ]


def planned(document: Mapping[str, Any]) -> dict[str, tuple[PlannedBalloons, ...]]:
    """A valid plan, by node, group or default, as values."""
    return {name: tuple(map(_planned, entries)) for name, entries in document.items()}


def _planned(entry: Mapping[str, Any]) -> PlannedBalloons:
    return PlannedBalloons(
        int(entry["balloons"]), entry.get("model", ""), int(entry.get("tp", 0)), int(entry.get("cpu", 0))
    )


def plan_key(config: Config, key: str) -> tuple[str, str]:
    """The file that a plan's entry stands in and its key there, for findings."""
    return (config.plan_source, key) if config.plan_source else (config.source, f"nri_plan.{key}")


def for_node(setting: Mapping[str, T], node: str, group: str | None) -> tuple[str, T] | None:
    """The entry that counts for a node, with its key: its own, else its group's, else the default's, else None."""
    for key in (node, group, DEFAULT):
        if key is not None and key in setting:
            return key, setting[key]
    return None


def group_members(config: Config, nodes: Sequence[str]) -> dict[str, str]:
    """The configured group of each node that is in one; raises :class:`ProblemError` for contradictions."""
    if not isinstance(config.groups, Mapping):
        return {}
    problems: list[Problem] = []
    group_of: dict[str, str] = {}
    for group, patterns in sorted(config.groups.items()):
        for position, pattern in enumerate(patterns):
            members = [node for node in nodes if fnmatchcase(node, pattern)]
            key = f"nri_groups.{group}[{position}]"
            if not members:
                problems.append(Problem(config.source, key, f"no node is called {pattern!r}", nearest(pattern, nodes)))
            for node in members:
                if group_of.setdefault(node, group) != group:
                    message = f"node {node} is in group {group_of[node]} already"
                    problems.append(Problem(config.source, key, message, "a node belongs to one group"))
        if group in nodes or group == DEFAULT:
            message = f"the group is called like {'a node' if group in nodes else 'the default'}"
            problems.append(Problem(config.source, f"nri_groups.{group}", message, "give it another name"))
    if problems:
        raise ProblemError(problems)
    return group_of


def unknown_keys(config: Config, nodes: Sequence[str], groups: Iterable[str]) -> list[Problem]:
    """Keys of the per-node settings that name neither a node nor a group."""
    known = [DEFAULT, *nodes, *sorted(set(groups))]
    places = [(config.source, f"nri_reserved_cpu_list.{key}", key) for key in config.reserved]
    places += [(*plan_key(config, key), key) for key in config.plan or {}]
    return [
        Problem(source, place, f"there is no node or group {key!r}", nearest(key, known))
        for source, place, key in places
        if key not in known
    ]


def nearest(name: str, known: Sequence[str]) -> str:
    """A hint with the known name that is most like ``name``, or with the first few known names."""
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(known[:8])}{', ...' if len(known) > 8 else ''}" if known else ""
