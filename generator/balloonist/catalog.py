"""The models of one environment, read from ``env/<name>/models.yaml``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from balloonist import schema, yamlfile
from balloonist.problem import Problem, ProblemError, problem
from balloonist.sizeclass import SizeClass, size_class


@dataclass(frozen=True)
class Model:
    """One model release. ``cpu`` is physical cores of one replica in all; ``replicas`` None means as many as fit."""

    name: str
    model_id: str
    cpu: int
    tp: int = 1
    gated: bool = False
    replicas: int | None = None
    balloon: str = ""

    @property
    def size_class(self) -> SizeClass:
        """The class of balloon that the model needs."""
        return size_class(self.cpu, self.tp)


def read(path: Path) -> tuple[Model, ...]:
    """Read and validate ``models.yaml`` in its order; raises :class:`ProblemError` with every finding."""
    document = yamlfile.read(path)
    if document is None:
        raise problem(str(path), "", "the file is empty", "an empty catalog is written: models: []")
    found = schema.problems(document, "models", str(path)) or _contradictions(document, str(path))
    if found:
        raise ProblemError(found)
    return tuple(_model(entry) for entry in document["models"])


def _model(entry: Mapping[str, Any]) -> Model:
    return Model(
        name=entry["name"],
        model_id=entry.get("model_id", ""),
        cpu=int(entry["cpu"]),
        tp=int(entry.get("tp", 1)),
        gated=entry.get("gated", False),
        replicas=None if entry.get("replicas") is None else int(entry["replicas"]),
        balloon=entry.get("nri_balloon") or entry.get("raw", {}).get("nri_balloon", ""),
    )


def _contradictions(document: Mapping[str, Any], source: str) -> list[Problem]:
    problems: list[Problem] = []
    times = Counter(entry["name"] for entry in document["models"])
    for index, entry in enumerate(document["models"]):
        key = f"models[{index}]"
        if times[entry["name"]] > 1:
            message = f"the name {entry['name']!r} is used {times[entry['name']]} times"
            problems.append(Problem(source, f"{key}.name", message, "every model has a name of its own"))
        tp = entry.get("tp", 1)
        if tp > entry["cpu"]:
            message = f"{entry['cpu']} cores cannot serve tp={tp}: each rank needs a core"
            problems.append(Problem(source, f"{key}.cpu", message, f"at least {tp}"))
        raw = entry.get("raw", {}).get("nri_balloon")
        if raw is not None and not isinstance(raw, str):
            problems.append(Problem(source, f"{key}.raw.nri_balloon", "is not a text", "the name of a balloon type"))
        elif raw is not None and entry.get("nri_balloon", raw) != raw:
            message = f"says {raw!r}, but nri_balloon says {entry['nri_balloon']!r}"
            problems.append(Problem(source, f"{key}.raw.nri_balloon", message, "give one of the two"))
    return problems
