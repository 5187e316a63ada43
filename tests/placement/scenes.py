"""Small machines, policies and operations for the placement tests."""

from __future__ import annotations

from typing import Any

from balloonist.placement.container import Operation
from balloonist.placement.policy import read
from balloonist.placement.recording import described_topology
from balloonist.placement.simulator import Outcome, Simulator
from balloonist.topology import Topology

KEY = "balloon.balloons.resource-policy.nri.io"
HIDE = "hide-hyperthreads.resource-policy.nri.io"


def topology(packages: int = 1, numa: int = 2, cores: int = 4, threads: int = 2, **more: Any) -> Topology:
    """By default one package with two NUMA nodes of four cores with two threads: 0-3,8-11 and 4-7,12-15."""
    described = {"packages": packages, "numa_per_package": numa, "cores_per_numa": cores, "threads_per_core": threads}
    return described_topology({"numbering": "linux", **described, **more})


def node_type(node: int, **more: Any) -> dict[str, Any]:
    """A type that wants to be on one NUMA node."""
    return {"name": f"node{node}", "preferCloseToDevices": [f"/sys/devices/system/node/node{node}"], **more}


def composite(name: str, *components: str, creation: str = "all", **more: Any) -> dict[str, Any]:
    """A composite type."""
    return {"name": name, "componentCreation": creation, "components": [{"balloonType": c} for c in components], **more}


def balanced(name: str, *components: str, **more: Any) -> dict[str, Any]:
    """A composite type that makes one component, of the least used type."""
    return composite(name, *components, creation="balance-balloons", **more)


def start(
    types: list[dict[str, Any]], machine: Topology | None = None, reserved: str = "cpuset:0", **options: Any
) -> Simulator:
    """A running plugin with these types and a reserved cpuset."""
    spec = {
        "reservedResources": {"cpu": reserved},
        "allocatorTopologyBalancing": True,
        "balloonTypes": types,
        **options,
    }
    return Simulator(machine or topology(), read(spec))


def run(
    simulator: Simulator, name: str, balloon: str, cpus: float = 2, *, memory_gib: int = 0, namespace: str = "llm"
) -> Outcome:
    """Start a container in a balloon type ("" for whatever the namespace says)."""
    annotations = {KEY: balloon} if balloon else {}
    return simulator.apply(Operation("create", name, namespace, annotations, round(cpus * 1000), memory_gib << 30))


def stop(simulator: Simulator, name: str) -> Outcome:
    """Remove a container."""
    return simulator.apply(Operation("remove", name))
