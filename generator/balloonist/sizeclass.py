"""Size classes: how large the balloon of a model is, and what its balloon type is called.

A model asks for physical cores in all (``cpu``) and a tensor-parallel size. Its ranks get equal shares, so an uneven
share is rounded up; models with equal TP and cores per rank are of one class and use each other's balloons.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

NAME_PREFIX: Final = "vllm-balloon"

MAX_CONTAINER_CPUS: Final = 256
"""Logical CPUs one container may ask for: cgroup v1 cpu.shares and the plugin's reading of it end at 262144."""


@dataclass(frozen=True, order=True)
class SizeClass:
    """``tp`` ranks of ``cores_per_rank`` whole physical cores each."""

    tp: int
    cores_per_rank: int

    @property
    def cores(self) -> int:
        """Physical cores of the balloon in all."""
        return self.tp * self.cores_per_rank

    def cpus(self, threads_per_core: int) -> int:
        """Logical CPUs of the balloon, which is also what a pod has to request: its effective CPU."""
        return self.cores * threads_per_core

    def __str__(self) -> str:
        return f"tp={self.tp} with {self.cores} cores"


def size_class(cpu: int, tp: int) -> SizeClass:
    """The class of a model that wants ``cpu`` physical cores in all over ``tp`` ranks (both at least 1)."""
    return SizeClass(tp, -(-cpu // tp))


def type_names(classes: Iterable[SizeClass]) -> dict[SizeClass, str]:
    """Balloon type names: ``vllm-balloon-tpN`` for a TP's first class, ``vllm-balloon-tpN-c<cores>`` for its others."""
    names: dict[SizeClass, str] = {}
    taken: set[int] = set()
    for item in classes:
        if item not in names:
            names[item] = tp_name(item.tp) if item.tp not in taken else f"{tp_name(item.tp)}-c{item.cores}"
            taken.add(item.tp)
    return names


def tp_name(tp: int) -> str:
    """The balloon type name people know for one TP size."""
    return f"{NAME_PREFIX}-tp{tp}"
