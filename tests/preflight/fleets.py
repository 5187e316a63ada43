"""Fleets and answers for the pre-flight's tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from balloonist import preflight
from balloonist.catalog import Model
from balloonist.config import Config
from balloonist.environment import Environment
from balloonist.layout import Fleet
from balloonist.placements import Running
from balloonist.topology import Topology
from balloonist.verdict import Answer, NodeAnswer, Verdict
from machines import machine


def environment_of(models: Sequence[Model], *nodes: Topology, **settings: Any) -> Environment:
    config = Config("config.yaml", settings.pop("cpu_policy", "nri-balloons"), {"default": ""}, **settings)
    return Environment(Path("env"), config, tuple(models), nodes or (machine(),), {})


def ask(
    model: Model,
    *nodes: Topology,
    others: Sequence[Model] = (),
    running: Sequence[Running] = (),
    only: Sequence[str] | None = None,
    type_name: str = "",
    **settings: Any,
) -> Answer:
    """The whole pre-flight of one model."""
    environment = environment_of([model, *others], *nodes, **settings)
    fleet, impossible = preflight.fleet_for(environment, model)
    answer = preflight.preflight(fleet, model, running, nodes=only, type_name=type_name, models=environment.models)
    return replace(answer, verdicts=(*impossible, *answer.verdicts))


def check_of(answer: Answer | NodeAnswer, name: str, level: str = "error") -> Verdict:
    """The first verdict of that check and level, of the model or else of its first node."""
    verdicts = list(answer.verdicts)
    if isinstance(answer, Answer):
        verdicts += [verdict for node in answer.nodes for verdict in node.verdicts]
    found = [verdict for verdict in verdicts if (verdict.check, verdict.level) == (name, level)]
    assert found, verdicts
    return found[0]


def runs(model: Model, node: str = "w1", **changes: Any) -> Running:
    return replace(Running(node, model.name, model.size_class), **changes)


def with_memory(topology: Topology, mib: dict[int, int]) -> Topology:
    """The machine with the given memory on some of its NUMA nodes."""
    numa_nodes = (replace(numa, memory_mib=mib.get(numa.id, numa.memory_mib)) for numa in topology.numa_nodes)
    return replace(topology, numa_nodes=tuple(numa_nodes))


__all__ = ["Fleet", "ask", "check_of", "environment_of", "runs", "with_memory"]
