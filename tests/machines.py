"""Machines for tests: synthesized topologies, and strategies that draw them."""

from __future__ import annotations

from hypothesis import strategies as st

from balloonist.cpuset import EMPTY, Cpuset
from balloonist.synthesize import synthesize
from balloonist.topology import Topology


def machine(
    packages: int = 2,
    numa: int = 2,
    cores: int = 24,
    threads: int = 2,
    *,
    node: str = "w1",
    numbering: str = "linux",
    offline: str = "",
    memory_only: int = 0,
    memory_gib: int = 256,
) -> Topology:
    """A synthesized node; by default two packages of two NUMA nodes with 24 cores of two threads."""
    return synthesize(
        packages=packages,
        numa_per_package=numa,
        cores_per_numa=cores,
        threads_per_core=threads,
        numbering=numbering,
        offline=Cpuset.parse(offline) if offline else EMPTY,
        memory_only_nodes=memory_only,
        memory_gib=memory_gib,
        node=node,
    )


@st.composite
def machines(draw: st.DrawFn, node: str = "w1", *, max_cores: int = 16) -> Topology:
    """Any machine up to 4 packages and 16 NUMA nodes, some of its CPUs offline."""
    packages = draw(st.integers(1, 4))
    numa = draw(st.integers(1, 4))
    cores = draw(st.integers(1, max_cores))
    threads = draw(st.sampled_from([1, 2, 2, 4]))
    total = packages * numa * cores * threads
    offline = draw(st.sets(st.integers(1, max(1, total - 1)), max_size=min(4, total - 1))) if total > 1 else set()
    return machine(
        packages,
        numa,
        cores,
        threads,
        node=node,
        numbering=draw(st.sampled_from(["linux", "adjacent"])),
        offline=Cpuset.of(offline).text,
        memory_only=draw(st.integers(0, 2)),
    )
