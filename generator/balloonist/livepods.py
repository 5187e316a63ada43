"""From the pods of a cluster to what the pre-flight has to know: models in their balloons, and what the system asks."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from balloonist.placement.container import BALLOON_KEY
from balloonist.placements import Running
from balloonist.sizeclass import SizeClass, size_class

NOT_MODELS: Final = frozenset({"reserved", "default"})
"""The plugin's own balloon types."""

_TP: Final = re.compile(r"-tp(\d+)(?:-c\d+)?$")


@dataclass(frozen=True)
class Container:
    """A container's CPU request in thousandths; ``init`` ones run one after the other before the others.

    A sidecar (an init container that restarts) runs with the others and is no ``init`` one here.
    """

    name: str
    milli: int
    init: bool = False


@dataclass(frozen=True)
class LivePod:
    """A pod that is on a node and has not ended; ``overhead_milli`` is that of its runtime class."""

    node: str
    namespace: str
    name: str
    annotations: Mapping[str, str]
    containers: tuple[Container, ...]
    overhead_milli: int = 0


@dataclass(frozen=True)
class Live:
    """Models, and by node what all other containers ask of the reserved CPUs in thousandths of a CPU."""

    running: tuple[Running, ...]
    system_milli: Mapping[str, int]


def read(pods: Iterable[LivePod], names: Mapping[SizeClass, str], threads: Mapping[str, int]) -> Live:
    """Sort out the pods on the nodes in ``threads`` (threads per core by node); ``names`` are the layout's types."""
    tp_of = {name: item.tp for item, name in names.items()}
    running: list[Running] = []
    system: defaultdict[str, int] = defaultdict(int)
    for pod in sorted(pods, key=lambda pod: (pod.node, pod.namespace, pod.name)):
        if pod.node not in threads:
            continue
        others: list[Container] = []
        for container in pod.containers:
            kind = balloon_type(pod, container.name)
            tp = tp_of.get(kind) or _tp_in(kind)
            if tp is None or container.init or container.milli < 1000:
                others.append(container)
                continue
            cores = max(tp, -(-container.milli // (1000 * threads[pod.node])))
            running.append(Running(pod.node, f"{pod.namespace}/{pod.name}", size_class(cores, tp), kind))
        system[pod.node] += _together(others) + pod.overhead_milli
    return Live(tuple(running), dict(system))


def balloon_type(pod: LivePod, container: str) -> str:
    """The balloon type that a container's annotations ask for, "" for none; the most special one counts."""
    for key in (f"{BALLOON_KEY}/container.{container}", f"{BALLOON_KEY}/pod", BALLOON_KEY):
        if key in pod.annotations:
            return pod.annotations[key]
    return ""


def _tp_in(kind: str) -> int | None:
    match = _TP.search(kind)
    return int(match[1]) if match and kind not in NOT_MODELS and int(match[1]) else None


def _together(containers: Iterable[Container]) -> int:
    """The request of a pod as the scheduler counts it: its containers, or its largest init container."""
    listed = list(containers)
    together = sum(container.milli for container in listed if not container.init)
    return max([together, *(container.milli for container in listed if container.init)])
