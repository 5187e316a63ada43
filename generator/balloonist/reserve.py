"""Which logical CPUs the system keeps: the reserved cpuset of a node.

Profiles give a number of logical CPUs for the whole node. It is shared out over the NUMA nodes that have CPUs (the
lowest ids get the remainder); each share takes the NUMA node's lowest cores. ``whole-cores`` then takes all threads of
those cores, so that no model ever shares a core with the system; ``compatible`` keeps the exact number: the first
threads of those cores first, then their siblings.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from balloonist.cpuset import EMPTY, Cpuset, CpusetError, union
from balloonist.problem import problem
from balloonist.topology import Core, NumaNode, Topology

Rounding = Literal["whole-cores", "compatible"]

PROFILE_CPUS: Final[Mapping[str, int]] = {"minimal": 8, "standard": 12, "observability": 16, "full": 20}
"""Logical CPUs of the numbered profiles, for the whole node."""

SIBLINGS: Final = "siblings"
"""The default profile: all threads of one core on each NUMA node."""


def from_profile(topology: Topology, profile: str, rounding: Rounding) -> Cpuset:
    """The reserved CPUs that ``profile`` gives on this node.

    Raises :class:`ProblemError` where a NUMA node has fewer CPUs than its share, and KeyError for an unknown profile.
    """
    with_cpus = [numa for numa in topology.numa_nodes if numa.cores]
    if profile == SIBLINGS:
        return union(_usable_cores(numa, topology.isolated)[0].cpus for numa in with_cpus)
    total = PROFILE_CPUS[profile]
    reserved = EMPTY
    for index, numa in enumerate(with_cpus):
        share = total // len(with_cpus) + (index < total % len(with_cpus))
        if share > len(numa.cpus):
            raise problem(
                topology.node,
                "nri_deployment_profile",
                f"profile {profile} reserves {total} CPUs, {share} of them on NUMA node {numa.id}, which has only"
                f" {len(numa.cpus)}",
                "choose a smaller profile or give nri_reserved_cpu_list",
            )
        reserved |= _share(_usable_cores(numa, topology.isolated), share, rounding)
    return reserved


def from_list(topology: Topology, text: str, key: str = "nri_reserved_cpu_list") -> Cpuset:
    """The CPUs of a list that a person gave, used exactly as given.

    Raises :class:`ProblemError` where the text is no cpuset or names CPUs that are offline or not there.
    """
    try:
        wanted = Cpuset.parse(text)
    except CpusetError as error:
        raise problem(topology.node, key, str(error)) from None
    if offline := wanted & topology.offline:
        raise problem(topology.node, key, f"CPUs {offline} are offline", f"online are {topology.online}")
    if missing := wanted - topology.online:
        raise problem(topology.node, key, f"the node has no CPUs {missing}", f"it has {topology.online}")
    return wanted


def remarks(topology: Topology, reserved: Cpuset) -> list[str]:
    """What a person should know of this reservation: cores it splits, isolated CPUs it takes."""
    notes: list[str] = []
    siblings = split_siblings(topology, reserved)
    if siblings:
        notes.append(
            f"reserved CPUs {reserved} split cores: their siblings {siblings} are not reserved, so a container may"
            " share a core with the system"
        )
    if isolated := reserved & topology.isolated:
        notes.append(
            f"reserved CPUs {isolated} are isolated by the kernel (isolcpus): the scheduler does not spread system"
            " threads over them"
        )
    return notes


def split_siblings(topology: Topology, reserved: Cpuset) -> Cpuset:
    """The CPUs outside ``reserved`` whose core has a thread inside it."""
    return union(core.cpus - reserved for core in topology.cores if not core.cpus.isdisjoint(reserved))


def _usable_cores(numa: NumaNode, isolated: Cpuset) -> tuple[Core, ...]:
    """Cores in the order they are reserved: isolated ones last, since system threads are not balanced over them."""
    return tuple(sorted(numa.cores, key=lambda core: (not core.cpus.isdisjoint(isolated), core.cpus.first)))


def _share(cores: tuple[Core, ...], share: int, rounding: Rounding) -> Cpuset:
    chosen: list[Core] = []
    while sum(len(core.cpus) for core in chosen) < share:
        chosen.append(cores[len(chosen)])
    whole = union(core.cpus for core in chosen)
    if rounding == "whole-cores":
        return whole
    threads = max((len(core.cpus) for core in chosen), default=0)
    by_thread = [core.cpus.cpus[thread] for thread in range(threads) for core in chosen if thread < len(core.cpus)]
    return Cpuset.of(by_thread[:share])
