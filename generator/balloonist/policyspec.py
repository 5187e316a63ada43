"""The BalloonsPolicy spec of one node (config.nri/v1alpha1), as the balloons plugin reads it.

``fixed``: each planned balloon has a *slot*, types used for nothing else that lead to its NUMA nodes. The top type of a
class lists its slots and has minBalloons = maxBalloons = their number and minCPUs = maxCPUs = its size. The plugin
creates all of them at start; "balance-balloons" takes the component with the fewest instances, so each slot gets
exactly one balloon whatever other types exist. Where a balloon lands is therefore decided here and nowhere else.

``elastic``: one top type for each TP, balanced over its NUMA sets, with balloons made on demand. A NUMA node is only
*preferred*, so a balloon may spill.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from balloonist.config import Config
from balloonist.layout import NodeLayout
from balloonist.packing import Placed
from balloonist.sizeclass import SizeClass, tp_name
from balloonist.topology import Topology

NODE_DIRECTORY: Final = "/sys/devices/system/node/node"

Spec = dict[str, Any]


def harmless_spec(config: Config) -> Spec:
    """The policy for nodes without one of their own: nothing is pinned, an annotated model is refused by name."""
    return {
        "agent": {"nodeResourceTopology": False},
        **_instrumentation(config),
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
        **_instrumentation(config),
        "pinCPU": True,
        "pinMemory": True,
        "reservedResources": {"cpu": f"cpuset:{node.reserved.text}"},
    }
    if node.kept_out:
        document["availableResources"] = {"cpu": f"cpuset:{(topology.online - node.kept_out).text}"}
    types = _fixed_types(node, names) if config.layout == "fixed" else _elastic_types(node)
    document["balloonTypes"] = [*types, _reserved_type(node, config)]
    return document


def _instrumentation(config: Config) -> Spec:
    """Metrics, and with them /healthz, are served only where a policy names the endpoint."""
    if not config.metrics_port:
        return {}
    return {"instrumentation": {"httpEndpoint": f":{config.metrics_port}", "prometheusExport": True}}


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
    slots: list[Spec] = []
    tops: list[Spec] = []
    for item, count in Counter(balloon.size_class for balloon in node.placed).items():
        name = names[item]
        size = item.cpus(node.topology.threads_per_core)
        for index, balloon in enumerate(balloon for balloon in node.placed if balloon.size_class == item):
            slots += _slot_types(node.topology, slot_name(name, index), balloon)
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
                **_hidden_siblings(node.topology),
            }
        )
    return [*slots, *tops]


def _slot_types(topology: Topology, name: str, balloon: Placed) -> list[Spec]:
    """The types of one slot: one bound to its NUMA node, or one for each rank and their composite.

    Ranks do not share the types of other slots: a composite counts as often as all types below it have instances, so
    shared ones would make "fewest instances" depend on what else exists.

    The bound types carry the rank's size as minCPUs and maxCPUs. The plugin looks at a composite's own limits only
    when it makes the balloon; on every later change it asks the components. Without their limits an emptied balloon
    would shrink to nothing, system pods could take its CPUs, and the next model in it would be spread elsewhere.
    """
    share = balloon.size_class.cores_per_rank * topology.threads_per_core
    limits = {"minCPUs": share, "maxCPUs": share}
    if len(balloon.numa_nodes) == 1:
        return [_bound_type(topology, name, balloon.numa_nodes[0]) | limits]
    ranks = {f"{name}-node{numa}": numa for numa in balloon.numa_nodes}
    bound = [_bound_type(topology, rank, numa) | limits for rank, numa in ranks.items()]
    return [*bound, _set_type(topology, name, list(ranks))]


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
                _set_type(node.topology, name, [numa_type_name(node.topology, numa) for numa in numa_set])
                for name, numa_set in zip(components, numa_sets, strict=True)
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
    bound = [_bound_type(node.topology, numa_type_name(node.topology, numa), numa) for numa in sorted(node.offer.free)]
    return [*bound, *sets, *tops]


def slot_name(type_name: str, index: int) -> str:
    """The name of one slot of a fixed balloon type."""
    return f"{type_name}-slot{index}"


def numa_type_name(topology: Topology, numa: int) -> str:
    """The name of the type bound to one NUMA node, e.g. ``pkg1node3``."""
    return f"pkg{topology.numa(numa).packages[0]}node{numa}"


def _bound_type(topology: Topology, name: str, numa: int) -> Spec:
    """A type whose CPUs come from one NUMA node (as long as that has enough)."""
    document: Spec = {"name": name}
    if topology.numa_directory:
        document["preferCloseToDevices"] = [f"{NODE_DIRECTORY}{numa}"]
    return document | _hidden_siblings(topology)


def _set_type(topology: Topology, name: str, components: Sequence[str]) -> Spec:
    """A type with an equal share in each of its components. A composite carries no CPU allocation options."""
    return {
        "name": name,
        "componentCreation": "all",
        "components": [{"balloonType": component} for component in components],
        **_hidden_siblings(topology),
    }


def _hidden_siblings(topology: Topology) -> Spec:
    """The container sees one CPU of each core: its siblings stay idle and belong to nobody else."""
    return {"hideHyperthreads": True} if topology.threads_per_core > 1 else {}
