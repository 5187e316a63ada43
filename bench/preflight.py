"""How long the pre-flight of one model takes against one node and against a fleet.

Run: python bench/preflight.py [--nodes N]. Prints a table; nothing here passes or fails. "checks" is the pre-flight
alone, "layout" the plan it is checked against.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from pathlib import Path

from balloonist import layout, preflight
from balloonist.catalog import Model
from balloonist.config import Config
from balloonist.environment import Environment
from balloonist.placements import Running
from balloonist.synthesize import synthesize
from balloonist.topology import Topology

CATALOG = (
    Model("large", "", 24, 1, parameters_b=8.03, heads=32, kv_heads=8),
    Model("small", "", 6, 1, parameters_b=1.24, heads=32, kv_heads=8),
    Model("wide", "", 32, 4, parameters_b=70.6, heads=64, kv_heads=8),
)
TOO_LARGE = replace(CATALOG[0], name="too-large", cpu=40)
TOO_HEAVY = replace(CATALOG[0], name="too-heavy", parameters_b=140.0)


def alike(count: int) -> list[Topology]:
    """Nodes of 8 NUMA x 32 cores x 2 threads whose memory differs a little, as in real fleets."""
    machine = synthesize(packages=2, numa_per_package=4, cores_per_numa=32, threads_per_core=2)
    return [
        replace(
            machine,
            node=f"node-{index:04}",
            numa_nodes=tuple(replace(numa, memory_mib=numa.memory_mib - index) for numa in machine.numa_nodes),
        )
        for index in range(count)
    ]


def measure(title: str, kind: str, model: Model, nodes: list[Topology], running: tuple[Running, ...]) -> None:
    """Time the layout and the checks of one model."""
    settings = Config(
        "config.yaml", "nri-balloons", {"default": ""}, layout="elastic" if kind == "elastic" else "fixed"
    )
    environment = Environment(Path("env"), settings, CATALOG, tuple(nodes), {})
    start = time.perf_counter()
    fleet = layout.compute(environment)
    middle = time.perf_counter()
    answer = preflight.preflight(fleet, model, running, models=CATALOG)
    end = time.perf_counter()
    yes = sum(node.fits for node in answer.nodes)
    print(f"{title:<42} {kind:<8} {len(nodes):>6} {yes:>6} {middle - start:>9.2f} {end - middle:>9.3f}")


def main() -> None:
    """Measure one node and --nodes nodes, for models that fit and models that do not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    count = parser.parse_args().nodes
    print(f"{'model':<42} {'layout':<8} {'nodes':>6} {'fits':>6} {'layout s':>9} {'checks s':>9}")
    for nodes in (alike(1), alike(count)):
        one = CATALOG[0]
        running = tuple(Running(node.node, one.name, one.size_class, rank_gib=20.0) for node in nodes)
        for kind in ("fixed", "elastic"):
            measure("fits on every node", kind, one, nodes, ())
            measure("fits beside one that runs", kind, one, nodes, running)
            measure("too many cores on every node", kind, TOO_LARGE, nodes, ())
            measure("too much memory on every node", kind, TOO_HEAVY, nodes, ())


if __name__ == "__main__":
    main()
