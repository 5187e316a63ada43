"""How long `balloonist values` takes and how much memory it needs, for one node and for fleets.

Run: python bench/values.py [--nodes N]. Prints a table; nothing here passes or fails.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from balloonist import topologyjson, yamlfile
from balloonist.synthesize import synthesize
from balloonist.topology import Topology

CATALOG = [
    {"name": "large", "cpu": 24, "tp": 1},
    {"name": "small", "cpu": 6, "tp": 1},
    {"name": "wide", "cpu": 32, "tp": 4},
]


def fleet_directory(path: Path, nodes: list[Topology]) -> Path:
    """Write an environment with these nodes."""
    (path / "topology").mkdir(parents=True)
    (path / "config.yaml").write_text("kubernetes_cpu_policy: nri-balloons\n")
    (path / "models.yaml").write_text(yamlfile.dump({"models": CATALOG}))
    for node in nodes:
        (path / "topology" / f"{node.node}.json").write_text(topologyjson.dump(node))
    return path


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


def all_different(count: int) -> list[Topology]:
    """The same machines, but with another pair of cores offline on each."""
    machine = synthesize(packages=2, numa_per_package=4, cores_per_numa=32, threads_per_core=2)
    nodes = []
    for index in range(count):
        gone = machine.cores[index % 256], machine.cores[(index // 256 + index + 1) % 256]
        numa_nodes = tuple(
            replace(numa, cores=tuple(core for core in numa.cores if core not in gone)) for numa in machine.numa_nodes
        )
        offline = gone[0].cpus | gone[1].cpus
        packages = tuple(
            replace(package, dies=tuple(replace(die, cpus=die.cpus - offline) for die in package.dies))
            for package in machine.packages
        )
        nodes.append(
            replace(machine, node=f"node-{index:04}", numa_nodes=numa_nodes, packages=packages, offline=offline)
        )
    return nodes


def measure(title: str, nodes: list[Topology]) -> None:
    """Time `balloonist values` in a process of its own, Python's start included."""
    with tempfile.TemporaryDirectory() as directory:
        path = fleet_directory(Path(directory) / "env", nodes)
        command = [sys.executable, "-m", "balloonist", "values", "--env", str(path)]
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - start
        size = sum(file.stat().st_size for file in (path / "values").rglob("*.yaml"))
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024
        print(f"{title:<44} {len(nodes):>6} {seconds:>9.2f} {peak:>12} {size / 1e6:>10.2f}")


def main() -> None:
    """Measure one node, then fleets of a quarter, half and all of --nodes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    count = parser.parse_args().nodes
    print(f"{'values':<44} {'nodes':>6} {'seconds':>9} {'peak MiB <=':>12} {'values MB':>10}")
    measure("one node", alike(1))
    for part in (count // 4, count // 2, count):
        measure("8 NUMA x 32 cores x 2 threads, alike", alike(part))
    for part in (count // 4, count // 2, count):
        measure("the same, no two machines alike", all_different(part))


if __name__ == "__main__":
    main()
