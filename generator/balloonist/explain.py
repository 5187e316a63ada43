"""What a layout means, as plain data: which balloons exist on which NUMA nodes, what the system keeps, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from balloonist import policyspec
from balloonist.catalog import Model
from balloonist.config import Config, for_node
from balloonist.cpuset import Cpuset
from balloonist.layout import Fleet, NodeLayout
from balloonist.placement import policy
from balloonist.placement.simulator import Simulator
from balloonist.sizeclass import tp_name


def describe(fleet: Fleet, node: NodeLayout, models: Sequence[Model]) -> dict[str, Any]:
    """One node as JSON-able data. CPU sets are text in list format; cores are physical, CPUs logical."""
    topology = node.topology
    return {
        "node": topology.node,
        "group": node.group,
        "architecture": topology.architecture,
        "packages": len(topology.packages),
        "cores": len(topology.cores),
        "cpus": len(topology.online),
        "threads_per_core": topology.threads_per_core,
        "cpu_policy": fleet.config.cpu_policy,
        "layout": fleet.config.layout if fleet.config.cpu_policy == "nri-balloons" else None,
        "reserved": {
            "cpus": node.reserved.text,
            "count": len(node.reserved),
            "from": reserved_from(fleet.config, node),
            "hard_cap": fleet.config.hard_cap,
        },
        "kept_out": node.kept_out.text,
        "numa_nodes": [_numa_row(node, fleet, numa_id) for numa_id in (numa.id for numa in topology.numa_nodes)],
        "balloon_types": _types(fleet, node, models),
        "without": [{"model": model, "reason": reason} for model, reason in node.without],
        "remarks": [*topology.warnings, *node.remarks],
    }


def reserved_from(config: Config, node: NodeLayout) -> str:
    """Which setting decided the reserved CPUs."""
    listed = for_node(config.reserved, node.topology.node, node.group)
    if listed and listed[1].strip():
        return f"nri_reserved_cpu_list.{listed[0]}"
    return f"profile {config.profile}, {config.rounding}"


def owners(fleet: Fleet, node: NodeLayout) -> dict[str, Cpuset]:
    """The CPUs of each balloon of a fixed layout once the plugin runs, by a name such as ``vllm-balloon-tp1[0]``.

    Found by simulating the plugin's start with the policy that is rendered for this node.
    """
    if not node.placed:
        return {}
    spec = policyspec.spec(node, fleet.config, fleet.names)
    started = Simulator(node.topology, policy.read(spec, node.topology.node))
    types = {fleet.names[balloon.size_class] for balloon in node.placed}
    return {name: cpus for name, cpus in started.balloons if name.partition("[")[0] in types}


def _numa_row(node: NodeLayout, fleet: Fleet, numa_id: int) -> dict[str, Any]:
    numa = node.topology.numa(numa_id)
    here = Counter(fleet.names[balloon.size_class] for balloon in node.placed if numa_id in balloon.numa_nodes)
    row: dict[str, Any] = {
        "id": numa_id,
        "memory_mib": numa.memory_mib,
        "cores": len(numa.cores),
        "reserved": (numa.cpus & node.reserved).text,
        "cores_for_models": node.offer.free.get(numa_id, 0),
    }
    if node.left is not None:
        row["balloons"] = dict(sorted(here.items()))
        row["cores_left"] = node.left.get(numa_id, 0)
    return row


def _types(fleet: Fleet, node: NodeLayout, models: Sequence[Model]) -> list[dict[str, Any]]:
    if fleet.config.cpu_policy != "nri-balloons":
        return []
    if fleet.config.layout == "elastic":
        return [
            {"name": tp_name(tp), "tp": tp, "numa_sets": [list(numa_set) for numa_set in sets]}
            for tp, sets in sorted(node.offer.sets.items())
        ]
    threads = node.topology.threads_per_core
    return [
        {
            "name": fleet.names[item],
            "tp": item.tp,
            "cores": item.cores,
            "effective_cpu": item.cpus(threads),
            "balloons": [list(balloon.numa_nodes) for balloon in node.placed if balloon.size_class == item],
            "models": [model.name for model in models if model.size_class == item],
        }
        for item in dict.fromkeys(balloon.size_class for balloon in node.placed)
    ]
