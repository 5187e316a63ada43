"""A container as the plugin sees it, and the operations that start and remove containers.

The plugin learns a CPU request only from cpu.shares (unless its webhook runs): 1 CPU is 1024 shares, the value is
truncated on the way in, rounded on the way out, and capped at 262144 shares, which are 256 CPUs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from balloonist.problem import problem

_MIN_SHARES: Final = 2
_MAX_SHARES: Final = 262_144
_DOMAIN: Final = "resource-policy.nri.io"
BALLOON_KEY: Final = f"balloon.balloons.{_DOMAIN}"
HIDE_KEY: Final = f"hide-hyperthreads.{_DOMAIN}"


@dataclass(frozen=True)
class Operation:
    """One step: ``create`` or ``remove`` the container (of a pod with that one container, unless ``pod`` says more)."""

    op: Literal["create", "remove"]
    id: str
    namespace: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    cpu_milli: int = 0
    memory: int = 0
    pod: str = ""
    container: str = "main"


@dataclass(eq=False, slots=True)
class Container:
    """A running container and what it is pinned to (CPUs and NUMA nodes, as masks; 0 where it is not pinned)."""

    id: str
    pod: str
    namespace: str
    milli: int
    memory: int
    hide: bool | None
    cpus: int = 0
    mems: int = 0


def seen_milli(milli: int) -> int:
    """The CPU request that the plugin sees for one of ``milli`` milli-CPUs."""
    shares = max(_MIN_SHARES, min(_MAX_SHARES, milli * 1024 // 1000))
    return 0 if shares == _MIN_SHARES else int(shares * 1000 / 1024 + 0.5)


def annotation(operation: Operation, key: str) -> str | None:
    """The value that holds for the container: its own form first, then the pod's, then the bare key."""
    for name in (f"{key}/container.{operation.container}", f"{key}/pod", key):
        if name in operation.annotations:
            return operation.annotations[name]
    return None


def container(operation: Operation) -> Container:
    """The container that a ``create`` starts."""
    hide = {"true": True, "false": False}.get(_parsed_bool(annotation(operation, HIDE_KEY)))
    pod = operation.pod or operation.id
    milli = seen_milli(operation.cpu_milli)
    return Container(operation.id, pod, operation.namespace, milli, operation.memory, hide)


def _parsed_bool(text: str | None) -> str:
    if text in ("1", "t", "T", "TRUE", "true", "True"):
        return "true"
    return "false" if text in ("0", "f", "F", "FALSE", "false", "False") else ""


def read_operations(document: Any, source: str = "operations") -> tuple[Operation, ...]:
    """Read the ``ops`` list of a recording (or a whole recording). Raises ProblemError naming the operation."""
    entries = document.get("ops") if isinstance(document, Mapping) else document
    if not isinstance(entries, list):
        raise problem(source, "ops", "is not a list", "a list of {op: create|remove, id: ...}")
    return tuple(_operations(entries, source))


def _operations(entries: list[Any], source: str) -> Iterable[Operation]:
    for index, entry in enumerate(entries):
        where = f"ops[{index}]"
        if not isinstance(entry, Mapping) or entry.get("op") not in ("create", "remove"):
            raise problem(source, f"{where}.op", "is not an operation", "create or remove")
        if not entry.get("id"):
            raise problem(source, f"{where}.id", "is missing", "a name for the container")
        for key in ("cpu_milli", "memory"):
            value = entry.get(key) or 0
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise problem(source, f"{where}.{key}", f"{value!r} is not a whole number of at least 0")
        annotations = entry.get("annotations") or {}
        texts = isinstance(annotations, Mapping) and all(isinstance(value, str) for value in annotations.values())
        if not texts:
            raise problem(source, f"{where}.annotations", "is not a mapping of texts", "{KEY: VALUE}")
        yield Operation(
            op=entry["op"],
            id=str(entry["id"]),
            namespace=str(entry.get("namespace") or "default"),
            annotations=dict(annotations),
            cpu_milli=entry.get("cpu_milli") or 0,
            memory=entry.get("memory") or 0,
            pod=str(entry.get("pod") or ""),
            container=str(entry.get("container") or "main"),
        )
