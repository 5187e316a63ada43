"""The BalloonsPolicy spec of one node (config.nri/v1alpha1), as the balloons plugin reads it.

``fixed``: each planned balloon has a *slot*, a type used for nothing else that leads to its NUMA nodes. The top type of
a class lists its slots and has minBalloons = maxBalloons = their number and minCPUs = maxCPUs = its size. The plugin
creates all of them at start; "balance-balloons" takes the component with the fewest instances, so each slot gets
exactly one balloon whatever other types exist. Where a balloon lands is therefore decided here and nowhere else.

``elastic``: one top type for each TP, balanced over its NUMA sets, with balloons made on demand. A NUMA node is only
*preferred*, so a balloon may spill.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from balloonist.config import Config
from balloonist.layout import NodeLayout
from balloonist.numasets import NumaSet
from balloonist.sizeclass import SizeClass, tp_name
from balloonist.topology import Topology

NODE_DIRECTORY: Final = "/sys/devices/system/node/node"

Spec = dict[str, Any]


def harmless_spec() -> Spec:
    """The policy for nodes without one of their own: nothing is pinned, an annotated model is refused by name."""
    return {
        "agent": {"nodeResourceTopology": False},
        "pinCPU": False,
        "pinMemory": False,
        "reservedResources": {"cpu": "1"},
    }


def spec(node: NodeLayout, config: Config, names: Mapping[SizeClass, str]) -> Spec:
    """The policy spec of one node; ``names`` gives the balloon type name of each size class."""
    topology = node.topology
    document: Spec = {
        "agent": {"nodeResourceTopology": config.node_resource_topology},
        "allocatorTopologyBalancing": True,
        "pinCPU": True,
        "pinMemory": True,
        "reservedResources": {"cpu": f"cpuset:{node.reserved.text}"},
    }
    if node.kept_out:
        document["availableResources"] = {"cpu": f"cpuset:{(topology.online - node.kept_out).text}"}
    types = _fixed_types(node, names) if config.layout == "fixed" else _elastic_types(node)
    document["balloonTypes"] = [*types, _reserved_type(node, config)]
    return document


def _reserved_type(node: NodeLayout, config: Config) -> Spec:
    """Everything that is no model; without minCPUs the plugin would not hold the reserved CPUs back from models."""
    size = len(node.reserved)
    document: Spec = {"name": "reserved", "namespaces": ["*"], "minCPUs": size}
    if config.hard_cap:
        document["maxCPUs"] = size
    if not config.pin_system_memory:
        document["pinMemory"] = False
    return document


def _fixed_types(node: NodeLayout, names: Mapping[SizeClass, str]) -> list[Spec]:
    hidden = _hidden_siblings(node.topology)
    slots: list[Spec] = []
    tops: list[Spec] = []
    used: set[int] = set()
    counts = Counter(balloon.size_class for balloon in node.placed)
    for item, count in counts.items():
        name = names[item]
        size = item.cpus(node.topology.threads_per_core)
        for index, balloon in enumerate(balloon for balloon in node.placed if balloon.size_class == item):
            if item.tp == 1:
                slots.append(_bound_type(node.topology, slot_name(name, index), balloon.numa_nodes[0]))
            else:
                used.update(balloon.numa_nodes)
                slots.append(_set_type(node.topology, slot_name(name, index), balloon.numa_nodes))
        tops.append(
            {
                "name": name,
                "componentCreation": "balance-balloons",
                "components": [{"balloonType": slot_name(name, index)} for index in range(count)],
                "minBalloons": count,
                "maxBalloons": count,
                "minCPUs": size,
                "maxCPUs": size,
                "preferNewBalloons": False,
                **hidden,
            }
        )
    return [*_numa_types(node.topology, used), *slots, *tops]


def _elastic_types(node: NodeLayout) -> list[Spec]:
    hidden = _hidden_siblings(node.topology)
    sets: list[Spec] = []
    tops: list[Spec] = []
    for tp, numa_sets in sorted(node.offer.sets.items()):
        if tp == 1:
            components = [numa_type_name(node.topology, numa) for (numa,) in numa_sets]
        else:
            components = [f"set{index}-tp{tp}" for index in range(len(numa_sets))]
            sets += [
                _set_type(node.topology, name, numa_set) for name, numa_set in zip(components, numa_sets, strict=True)
            ]
        tops.append(
            {
                "name": tp_name(tp),
                "componentCreation": "balance-balloons",
                "components": [{"balloonType": component} for component in components],
                "preferNewBalloons": True,
                **hidden,
            }
        )
    return [*_numa_types(node.topology, set(node.offer.free)), *sets, *tops]


def slot_name(type_name: str, index: int) -> str:
    """The name of one slot of a fixed balloon type."""
    return f"{type_name}-slot{index}"


def numa_type_name(topology: Topology, numa: int) -> str:
    """The name of the type bound to one NUMA node, e.g. ``pkg1node3``."""
    return f"pkg{topology.numa(numa).packages[0]}node{numa}"


def _numa_types(topology: Topology, numa_nodes: set[int]) -> list[Spec]:
    return [_bound_type(topology, numa_type_name(topology, numa), numa) for numa in sorted(numa_nodes)]


def _bound_type(topology: Topology, name: str, numa: int) -> Spec:
    """A type whose CPUs come from one NUMA node (as long as that has enough)."""
    document: Spec = {"name": name}
    if topology.numa_directory:
        document["preferCloseToDevices"] = [f"{NODE_DIRECTORY}{numa}"]
    return document | _hidden_siblings(topology)


def _set_type(topology: Topology, name: str, numa_nodes: NumaSet) -> Spec:
    """A type with an equal share on each NUMA node of a set. A composite carries no CPU allocation options."""
    components = [{"balloonType": numa_type_name(topology, numa)} for numa in numa_nodes]
    return {"name": name, "componentCreation": "all", "components": components, **_hidden_siblings(topology)}


def _hidden_siblings(topology: Topology) -> Spec:
    """The container sees one CPU of each core: its siblings stay idle and belong to nobody else."""
    return {"hideHyperthreads": True} if topology.threads_per_core > 1 else {}
