"""The models of one environment, read from ``env/<name>/models.yaml``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from balloonist import schema, yamlfile
from balloonist.problem import Problem, ProblemError, problem
from balloonist.sizeclass import SizeClass, size_class

_WHOLE_NUMBERS: Final = ("heads", "kv_heads", "layers", "head_dim", "max_model_len", "kv_cache_gib")

KV_SPACE: Final = "VLLM_CPU_KVCACHE_SPACE"
"""The variable that gives vLLM on CPUs its KV cache, in whole GiB for each rank."""


@dataclass(frozen=True)
class ExtraContainer:
    """Another container of the model's pod. ``cpu_milli`` is its request in thousandths of a logical CPU."""

    name: str
    cpu_milli: int
    init: bool = False


@dataclass(frozen=True)
class Model:
    """One model release. ``cpu`` is physical cores of one replica in all; ``replicas`` None means as many as fit.

    What follows ``balloon`` is for the pre-flight and None or empty where nobody said it. ``parameters_b`` is in
    billions, ``kv_cache_gib`` is of each rank and ``memory_gib`` of one replica in all (both GiB).
    """

    name: str
    model_id: str
    cpu: int
    tp: int = 1
    pp: int = 1
    dp: int = 1
    gated: bool = False
    replicas: int | None = None
    balloon: str = ""
    parameters_b: float | None = None
    dtype: str = ""
    quantization: str = ""
    heads: int | None = None
    kv_heads: int | None = None
    layers: int | None = None
    head_dim: int | None = None
    max_model_len: int | None = None
    kv_cache_gib: int | None = None
    memory_gib: float | None = None
    env: Mapping[str, str] = field(default_factory=dict, hash=False)
    extra_containers: tuple[ExtraContainer, ...] = ()

    @property
    def stages(self) -> int:
        """Groups of tensor-parallel ranks in one pod: its pipeline stages and its data-parallel copies."""
        return self.pp * self.dp

    @property
    def ranks(self) -> int:
        """Ranks of one pod, each on a NUMA node of its own."""
        return self.tp * self.stages

    @property
    def size_class(self) -> SizeClass:
        """The class of balloon that the model needs: what counts for a balloon is the number of ranks."""
        return size_class(self.cpu, self.ranks)


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
        pp=int(entry.get("pp", 1)),
        dp=int(entry.get("dp", 1)),
        gated=entry.get("gated", False),
        replicas=None if entry.get("replicas") is None else int(entry["replicas"]),
        balloon=entry.get("nri_balloon") or entry.get("raw", {}).get("nri_balloon", ""),
        parameters_b=entry.get("parameters_b"),
        dtype=entry.get("dtype", ""),
        quantization=entry.get("quantization", ""),
        **{name: _whole(entry.get(name)) for name in _WHOLE_NUMBERS},
        memory_gib=entry.get("memory_gib"),
        env=dict(entry.get("env", {})),
        extra_containers=tuple(
            ExtraContainer(item["name"], int(item["cpu_milli"]), item.get("init", False))
            for item in entry.get("extra_containers", ())
        ),
    )


def _whole(value: float | None) -> int | None:
    """JSON Schema counts 2.0 as an integer."""
    return None if value is None else int(value)


def _contradictions(document: Mapping[str, Any], source: str) -> list[Problem]:
    problems: list[Problem] = []
    times = Counter(entry["name"] for entry in document["models"])
    for index, entry in enumerate(document["models"]):
        key = f"models[{index}]"
        if times[entry["name"]] > 1:
            message = f"the name {entry['name']!r} is used {times[entry['name']]} times"
            problems.append(Problem(source, f"{key}.name", message, "every model has a name of its own"))
        ranks = entry.get("tp", 1) * entry.get("pp", 1) * entry.get("dp", 1)
        if ranks > entry["cpu"]:
            sizes = " and ".join(f"{size}={entry[size]}" for size in ("tp", "pp", "dp") if entry.get(size, 1) > 1)
            message = f"{entry['cpu']} cores cannot serve {sizes}: each rank needs a core"
            problems.append(Problem(source, f"{key}.cpu", message, f"at least {ranks}"))
        raw = entry.get("raw", {}).get("nri_balloon")
        if raw is not None and not isinstance(raw, str):
            problems.append(Problem(source, f"{key}.raw.nri_balloon", "is not a text", "the name of a balloon type"))
        elif raw is not None and entry.get("nri_balloon", raw) != raw:
            message = f"says {raw!r}, but nri_balloon says {entry['nri_balloon']!r}"
            problems.append(Problem(source, f"{key}.raw.nri_balloon", message, "give one of the two"))
        problems += _memory_contradictions(entry, source, key)
    return problems


def _memory_contradictions(entry: Mapping[str, Any], source: str, key: str) -> Iterator[Problem]:
    """A KV cache that is no whole number of GiB or is given twice; names of extra containers given twice."""
    space = entry.get("env", {}).get(KV_SPACE)
    where = f"{key}.env.{KV_SPACE}"
    if space is not None and not (space.isascii() and space.isdigit() and int(space) > 0):
        yield Problem(source, where, f"{space!r} is not a whole number of GiB above 0", "for example: '8'")
    elif space is not None and entry.get("kv_cache_gib", int(space)) != int(space):
        yield Problem(source, where, f"says {space}, but kv_cache_gib says {entry['kv_cache_gib']}", "give one of them")
    names = Counter(item["name"] for item in entry.get("extra_containers", ()))
    for name in (name for name, times in names.items() if times > 1):
        message = f"the container name {name!r} is used {names[name]} times"
        yield Problem(source, f"{key}.extra_containers", message, "containers of a pod have different names")
    if entry.get("kv_heads", 1) > entry.get("heads", entry.get("kv_heads", 1)):
        message = f"{entry['kv_heads']} KV heads for {entry['heads']} attention heads"
        yield Problem(source, f"{key}.kv_heads", message, "at most as many as heads")
