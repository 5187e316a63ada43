"""Environment directories for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from balloonist import topologyjson, yamlfile
from balloonist.topology import Topology
from machines import machine

CATALOG: tuple[dict[str, Any], ...] = (
    {"name": "large", "model_id": "org/large", "cpu": 16, "tp": 1},
    {"name": "small", "model_id": "org/small", "cpu": 8, "tp": 1},
    {"name": "wide", "model_id": "org/wide", "cpu": 16, "tp": 2},
)


def write_environment(
    path: Path,
    settings: Mapping[str, Any] | None = None,
    *,
    nodes: Iterable[Topology] | None = None,
    models: Iterable[Mapping[str, Any]] = CATALOG,
) -> Path:
    """Write ``config.yaml``, ``models.yaml`` and one topology for each node below ``path``."""
    (path / "topology").mkdir(parents=True)
    config = {"kubernetes_cpu_policy": "nri-balloons", **(settings or {})}
    (path / "config.yaml").write_text(yamlfile.dump(config))
    (path / "models.yaml").write_text(yamlfile.dump({"models": [dict(model) for model in models]}))
    for node in [machine()] if nodes is None else nodes:
        (path / "topology" / f"{node.node}.json").write_text(topologyjson.dump(node))
    return path
