"""What vLLM on CPUs has to be told so that its ranks use their balloon: arguments and environment.

Source: vLLM's documentation of its CPU backend. Threads are bound by vLLM itself ("auto": one NUMA node for each rank,
within the CPUs that the container may use); an explicit list would need CPU ids that only the plugin knows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from balloonist.catalog import KV_SPACE, Model
from balloonist.modelchecks import BINDING, RESERVED_CPUS
from balloonist.modelmemory import kv_cache

CORES_FOR_SCHEDULER: Final = 4
"""Cores of a rank from which one is kept free of OpenMP threads, for the scheduler and the API server."""


@dataclass(frozen=True)
class Settings:
    """Arguments and environment of the model server, both in a fixed order."""

    arguments: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]


def settings(model: Model) -> Settings:
    """The settings that follow from the layout; what the catalog says in ``env`` wins."""
    sizes = (
        ("tensor-parallel-size", model.tp),
        ("pipeline-parallel-size", model.pp),
        ("data-parallel-size", model.dp),
    )
    arguments = [f"--{name}={size}" for name, size in sizes if size > 1]
    if model.max_model_len:
        arguments.append(f"--max-model-len={model.max_model_len}")
    environment = {KV_SPACE: str(kv_cache(model)[0]), BINDING: "auto"}
    if model.env.get(BINDING, "auto") == "auto":
        environment[RESERVED_CPUS] = str(int(model.size_class.cores_per_rank >= CORES_FOR_SCHEDULER))
    return Settings(tuple(arguments), tuple(sorted({**environment, **model.env}.items())))


def as_data(model: Model) -> dict[str, object]:
    """The settings as JSON-able data."""
    chosen = settings(model)
    return {"arguments": list(chosen.arguments), "environment": dict(chosen.environment)}
