"""What one node offers to models: whole free cores on each NUMA node, and the sets they can be used in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from balloonist.cpuset import Cpuset, union
from balloonist.numasets import NumaSet, model_numa_nodes, numa_sets, tp_sizes
from balloonist.packing import room
from balloonist.sizeclass import MAX_CONTAINER_CPUS, SizeClass
from balloonist.topology import Core, Topology


@dataclass(frozen=True)
class Capacity:
    """``free`` is in whole physical cores by NUMA node id; ``sets`` gives the NUMA sets of each TP size on offer."""

    node: str
    threads_per_core: int
    free: Mapping[int, int]
    sets: Mapping[int, tuple[NumaSet, ...]]

    @property
    def cores(self) -> int:
        """Free whole cores of the node in all."""
        return sum(self.free.values())


def capacity(topology: Topology, reserved: Cpuset, allowed_tp: tuple[int, ...] | None) -> Capacity:
    """Count the cores that models can have: regular ones, wholly outside the reserved CPUs."""
    return Capacity(
        node=topology.node,
        threads_per_core=topology.threads_per_core,
        free={numa.id: len(free_cores(topology, numa.id, reserved)) for numa in model_numa_nodes(topology)},
        sets={tp: numa_sets(topology, tp) for tp in tp_sizes(topology, allowed_tp)},
    )


def free_cores(topology: Topology, numa_id: int, reserved: Cpuset) -> tuple[Core, ...]:
    """The regular cores of a NUMA node that hold no reserved CPU, by lowest CPU id."""
    return tuple(
        core
        for core in topology.numa(numa_id).cores
        if len(core.cpus) == topology.threads_per_core and core.cpus.isdisjoint(reserved)
    )


def irregular_cpus(topology: Topology, reserved: Cpuset) -> Cpuset:
    """CPUs of cores with another number of threads than the node's regular ones, less the reserved.

    They are kept out of all balloons (availableResources): a balloon counted in regular cores that got one of them
    would end in the middle of a core, and the other half would go to somebody else.
    """
    odd = union(core.cpus for core in topology.cores if len(core.cpus) != topology.threads_per_core)
    return odd - reserved


def why_not(offer: Capacity, item: SizeClass) -> tuple[str, str]:
    """Why a node cannot hold even one balloon of this class when empty, and the nearest that it could; else two ""."""
    numa_count = len(offer.free)
    if item.tp not in offer.sets:
        if item.tp > numa_count:
            message = f"tp={item.tp} needs {item.tp} NUMA nodes with CPUs and memory, {offer.node} has {numa_count}"
        else:
            message = f"tp={item.tp} is not among the sizes that nri_tp_sizes allows"
        return message, _nearest_fit(offer, item)
    asked = item.cpus(offer.threads_per_core)
    if asked > MAX_CONTAINER_CPUS:
        most = MAX_CONTAINER_CPUS // offer.threads_per_core
        message = f"it asks for {asked} logical CPUs, one container may ask for at most {MAX_CONTAINER_CPUS}"
        return message, f"at most {most // item.tp * item.tp} cores with tp={item.tp}"
    most = room(offer.free, offer.sets, item.tp)
    if item.cores_per_rank > most:
        where = "one NUMA node" if item.tp == 1 else f"each of {item.tp} NUMA nodes"
        message = f"it needs {item.cores_per_rank} whole cores on {where}, {offer.node} has at most {most}"
        return message, _nearest_fit(offer, item)
    return "", ""


def _nearest_fit(offer: Capacity, item: SizeClass) -> str:
    """The next larger TP that the same cores fit with, and the most cores that fit with this TP."""
    fits: list[str] = []
    for tp in sorted(offer.sets):
        if tp > item.tp and -(-item.cores // tp) <= room(offer.free, offer.sets, tp):
            fits.append(f"fits with tp={tp}")
            break
    most = room(offer.free, offer.sets, item.tp)
    if most:
        fits.append(f"fits with cpu <= {most * item.tp}")
    if not fits and offer.sets:
        widest = max(offer.sets)
        fits.append(f"the largest it can hold is cpu {room(offer.free, offer.sets, widest) * widest} with tp={widest}")
    return " or ".join(fits)
