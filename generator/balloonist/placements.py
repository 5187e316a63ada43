"""What runs on the nodes already: read from a file, and in the terms of a layout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from balloonist import config, schema, yamlfile
from balloonist.catalog import Model
from balloonist.modelmemory import rank_memory
from balloonist.problem import Problem, ProblemError
from balloonist.sizeclass import SizeClass, size_class


@dataclass(frozen=True)
class Running:
    """One running replica. ``balloon`` "" is the type of its class; ``rank_gib`` None where its memory is not known.

    ``numa_nodes`` () means that nobody said where it runs: then it is where the plugin puts it. ``reserved_milli`` is
    what its other containers ask of the reserved CPUs.
    """

    node: str
    label: str
    size_class: SizeClass
    balloon: str = ""
    rank_gib: float | None = None
    numa_nodes: tuple[int, ...] = ()
    reserved_milli: int = 0


def read(path: Path, models: Sequence[Model], nodes: Sequence[str]) -> tuple[Running, ...]:
    """Read and validate a placements file; raises :class:`ProblemError` with every finding."""
    document = yamlfile.read(path)
    found = schema.problems(document, "placements", str(path))
    if not found:
        found = list(_strangers(document, str(path), [model.name for model in models], nodes))
    if found:
        raise ProblemError(found)
    by_name = {model.name: model for model in models}
    return tuple(item for entry in document for item in [_running(entry, by_name)] * int(entry.get("count", 1)))


def _strangers(
    document: Sequence[Mapping[str, Any]], source: str, models: Sequence[str], nodes: Sequence[str]
) -> Iterable[Problem]:
    for index, entry in enumerate(document):
        if entry["node"] not in nodes:
            message = f"there is no node {entry['node']!r}"
            yield Problem(source, f"[{index}].node", message, config.nearest(entry["node"], nodes))
        if "model" in entry and entry["model"] not in models:
            message = f"the catalog has no model {entry['model']!r}"
            yield Problem(source, f"[{index}].model", message, config.nearest(entry["model"], models))
        if entry.get("cpu", 1) < entry.get("tp", 1):
            message = f"{entry['cpu']} cores cannot serve tp={entry['tp']}: each rank has a core"
            yield Problem(source, f"[{index}].cpu", message, f"at least {entry['tp']}")


def _running(entry: Mapping[str, Any], models: Mapping[str, Model]) -> Running:
    numa_nodes = tuple(sorted(map(int, entry.get("numa_nodes", ()))))
    gib = entry.get("memory_gib")
    if "model" not in entry:
        item = size_class(int(entry["cpu"]), int(entry["tp"]))
        rank_gib = None if gib is None else gib / item.tp
        return Running(entry["node"], str(item), item, entry.get("balloon", ""), rank_gib, numa_nodes)
    model = models[entry["model"]]
    memory = rank_memory(model)
    rank_gib = gib / model.ranks if gib is not None else memory.gib if memory else None
    balloon = entry.get("balloon") or model.balloon
    return Running(
        entry["node"], model.name, model.size_class, balloon, rank_gib, numa_nodes, extra_milli(model, running=True)
    )


def extra_milli(model: Model, *, running: bool = False) -> int:
    """CPU that the pod's other containers ask for at one time, in thousandths.

    Init containers run one after the other, before the others and no more once the pod runs.
    """
    together = sum(item.cpu_milli for item in model.extra_containers if not item.init)
    alone = max((item.cpu_milli for item in model.extra_containers if item.init), default=0)
    return together if running else max(together, alone)
