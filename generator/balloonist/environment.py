"""One environment as people keep it in a directory: config, catalog and the topologies of its nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from balloonist import catalog, config, planfile, topologyfile
from balloonist.catalog import Model
from balloonist.config import Config
from balloonist.problem import Problem, ProblemError, problem
from balloonist.topology import Topology

T = TypeVar("T")


@dataclass(frozen=True)
class Environment:
    """``env/<name>/``: nodes are in name order; ``group_of`` holds the configured group of nodes that have one."""

    path: Path
    config: Config
    models: tuple[Model, ...]
    nodes: tuple[Topology, ...]
    group_of: Mapping[str, str]

    @property
    def values_directory(self) -> Path:
        """Where the generated values are written."""
        return self.path / "values"


def load(path: Path, *, use_plan_file: bool = True) -> Environment:
    """Read and check a whole environment; raises :class:`ProblemError` with what is wrong in any of its files.

    ``use_plan_file`` False leaves ``plan.yaml`` unread, for a command that is about to write it anew.
    """
    if not path.is_dir():
        raise problem(str(path), "", "is not a directory", "an environment is a directory with config.yaml")
    if not (path / "config.yaml").exists():
        raise problem(str(path), "", "has no config.yaml", "copy env/example to start from")
    problems: list[Problem] = []
    settings = _attempt(problems, lambda: _settings(path, use_plan_file))
    models_path = path / "models.yaml"
    models = _attempt(problems, lambda: catalog.read(models_path) if models_path.exists() else ())
    nodes = _nodes(path / "topology", problems)
    if settings is None or models is None or problems:
        raise ProblemError(problems)
    names = [node.node for node in nodes]
    group_of = config.group_members(settings, names)
    problems += config.unknown_keys(settings, names, group_of.values())
    problems += _unknown_models(settings, models)
    if problems:
        raise ProblemError(problems)
    return Environment(path, settings, models, nodes, group_of)


def _settings(path: Path, use_plan_file: bool) -> Config:
    settings = config.read(path / "config.yaml")
    return planfile.with_plan(settings, path / planfile.FILE) if use_plan_file else settings


def _attempt(problems: list[Problem], step: Callable[[], T]) -> T | None:
    try:
        return step()
    except ProblemError as error:
        problems.extend(error.problems)
        return None


def _nodes(directory: Path, problems: list[Problem]) -> tuple[Topology, ...]:
    files = sorted(directory.glob("*.json")) if directory.is_dir() else []
    if not files:
        hint = f"write one for each node: balloonist topology collect -o {directory}/NODE.json"
        problems.append(Problem(str(directory), "", "there is no topology file", hint))
    file_of: dict[str, Path] = {}
    nodes: list[Topology] = []
    for path in files:
        topology = _attempt(problems, partial(topologyfile.read, path))
        if topology is None:
            continue
        if topology.node in file_of:
            message = f"node {topology.node!r} is described by {file_of[topology.node].name} already"
            problems.append(Problem(str(path), "node", message, "one file for each node"))
            continue
        file_of[topology.node] = path
        nodes.append(topology)
    return tuple(sorted(nodes, key=lambda node: node.node))


def _unknown_models(settings: Config, models: tuple[Model, ...]) -> list[Problem]:
    names = [model.name for model in models]
    return [
        Problem(
            config.plan_key(settings, key)[0],
            f"{config.plan_key(settings, key)[1]}[{position}].model",
            f"the catalog has no model {entry.model!r}",
            config.nearest(entry.model, names),
        )
        for key, entries in (settings.plan or {}).items()
        for position, entry in enumerate(entries)
        if entry.model and entry.model not in names
    ]
