"""How many operations a second the placement simulator does on a large machine (8 NUMA nodes x 64 cores x 2 threads).

Run: python bench/simulate.py [OPERATIONS]
"""

from __future__ import annotations

import random
import sys
import time
from typing import Any

from balloonist.placement.container import Operation
from balloonist.placement.policy import read
from balloonist.placement.recording import described_topology
from balloonist.placement.simulator import Simulator

NUMA_NODES = 8
MACHINE = {"packages": 2, "numa_per_package": 4, "cores_per_numa": 64, "threads_per_core": 2, "numbering": "linux"}
RESERVED = ",".join(f"{node * 64 + core},{node * 64 + core + 512}" for node in range(NUMA_NODES) for core in range(2))
KEY = "balloon.balloons.resource-policy.nri.io/container.main"
SIZES = {1: 24, 2: 48, 4: 64}


def policy(*, fixed: bool) -> dict[str, Any]:
    """A policy with model types of TP 1, 2 and 4, all balloons made at start or none."""
    types: list[dict[str, Any]] = [
        {
            "name": f"node{node}",
            "preferCloseToDevices": [f"/sys/devices/system/node/node{node}"],
            "hideHyperthreads": True,
        }
        for node in range(NUMA_NODES)
    ]
    for tp, count in ((1, 8), (2, 4), (4, 4)):
        sets = [list(range(first, first + tp)) for first in range(0, NUMA_NODES, tp)]
        names = [f"node{first[0]}" for first in sets]
        if tp > 1:
            names = [f"set{index}-tp{tp}" for index in range(len(sets))]
            for name, members in zip(names, sets, strict=True):
                components = [{"balloonType": f"node{node}"} for node in members]
                types.append({"name": name, "hideHyperthreads": True, "components": components})
        top: dict[str, Any] = {
            "name": f"model-tp{tp}",
            "hideHyperthreads": True,
            "componentCreation": "balance-balloons",
            "components": [{"balloonType": name} for name in names],
            "preferNewBalloons": not fixed,
        }
        if fixed:
            top |= {"minBalloons": count, "maxBalloons": count, "minCPUs": SIZES[tp], "maxCPUs": SIZES[tp]}
        types.append(top)
    types.append({"name": "reserved", "namespaces": ["*"], "minCPUs": 32})
    return {
        "reservedResources": {"cpu": f"cpuset:{RESERVED}"},
        "allocatorTopologyBalancing": True,
        "balloonTypes": types,
    }


def operations(count: int) -> list[Operation]:
    """Models and system pods coming and going, the same for every run."""
    source = random.Random(1)
    running: list[str] = []
    steps: list[Operation] = []
    for number in range(count):
        if running and source.random() < len(running) / 50:
            steps.append(Operation("remove", running.pop(source.randrange(len(running)))))
            continue
        name = f"c{number}"
        running.append(name)
        if source.random() < 0.3:
            milli = source.choice((100, 250, 1000, 2000))
            steps.append(Operation("create", name, "kube-system", {}, milli))
        else:
            tp = source.choice((1, 1, 2, 4))
            steps.append(Operation("create", name, "llm", {KEY: f"model-tp{tp}"}, SIZES[tp] * 1000))
    return steps


def main() -> None:
    """Print operations per second for both layouts."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    steps = operations(count)
    topology = described_topology(MACHINE)
    for layout in ("fixed", "elastic"):
        simulator = Simulator(topology, read(policy(fixed=layout == "fixed")))
        began = time.perf_counter()
        started = sum(outcome.ok for outcome in map(simulator.apply, steps))
        seconds = time.perf_counter() - began
        print(f"{layout:8} {count} operations in {seconds:.2f} s: {count / seconds:,.0f} ops/s ({started} ok)")


if __name__ == "__main__":
    main()
