"""The KubeletConfiguration fragment of one node for ``kubernetes_cpu_policy: kubelet-static``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from balloonist.layout import NodeLayout

KUBELET_NUMA_LIMIT: Final = 8
"""NUMA nodes beyond which the kubelet refuses a topology manager policy unless it is told otherwise."""


def fragment(node: NodeLayout, tp_sizes: Sequence[int]) -> dict[str, Any]:
    """What to merge into the kubelet's configuration of this node; ``tp_sizes`` are those of the catalog.

    Models with TP > 1 need several NUMA nodes, which ``single-numa-node`` would refuse; ``restricted`` still refuses a
    pod that could be aligned but is not.
    """
    topology = node.topology
    aligned = all(tp == 1 for tp in tp_sizes)
    document: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "cpuManagerPolicy": "static",
        "reservedSystemCPUs": node.reserved.text,
        "topologyManagerPolicy": "single-numa-node" if aligned else "restricted",
    }
    if topology.threads_per_core > 1:
        document["cpuManagerPolicyOptions"] = {"full-pcpus-only": "true"}
    if len(topology.numa_nodes) > KUBELET_NUMA_LIMIT:
        document["topologyManagerPolicyOptions"] = {"max-allowable-numa-nodes": str(len(topology.numa_nodes))}
    return document
