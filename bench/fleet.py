"""How long planning and measuring a fleet of 1,000 nodes takes with a catalog of 50 models.

Run: python bench/fleet.py [--nodes N] [--models M]. Prints a table; nothing here passes or fails.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence

from balloonist import fleetcapacity, fleetplan
from balloonist.capacity import Capacity, capacity
from balloonist.cpuset import EMPTY
from balloonist.fleetkinds import Kind, kinds
from balloonist.numasets import package_groups
from balloonist.plan import Demand
from balloonist.sizeclass import SizeClass
from balloonist.synthesize import synthesize

SHAPES = [(2, 1, 32), (2, 2, 24), (2, 4, 32), (2, 3, 43), (1, 4, 16), (2, 2, 28), (1, 1, 64)]
"""Packages, NUMA nodes of each, cores of each NUMA node."""


def fleet(nodes: int, different: int) -> list[Kind]:
    """Nodes of so many different kinds, in turn; the kinds beyond the shapes have fewer cores."""
    offers: list[Capacity] = []
    packages = []
    for index in range(different):
        count, numa, cores = SHAPES[index % len(SHAPES)]
        machine = synthesize(
            packages=count, numa_per_package=numa, cores_per_numa=cores - index // len(SHAPES), threads_per_core=2
        )
        offers.append(capacity(machine, EMPTY, None))
        packages.append(package_groups(machine))
    turns = [index % different for index in range(nodes)]
    named = [
        Capacity(f"node-{index:04}", offers[turn].threads_per_core, offers[turn].free, offers[turn].sets)
        for index, turn in enumerate(turns)
    ]
    return kinds(named, [packages[turn] for turn in turns])


def catalog(models: int, replicas: int | None) -> list[Demand]:
    """Models of 3 to 26 cores per rank and TP 1, 2 or 4, each with its own size."""
    chance = random.Random(1)
    sizes: dict[SizeClass, None] = {}
    while len(sizes) < models:
        sizes[SizeClass(chance.choice([1, 1, 1, 2, 2, 4]), chance.randint(3, 26))] = None
    return [Demand(f"model-{index:02}", item, replicas) for index, item in enumerate(sizes)]


def declared(found: Sequence[Kind], models: int, load: float) -> list[Demand]:
    """The catalog with the replicas that ask for this share of the fleet's cores."""
    plain = catalog(models, None)
    cores = sum(len(kind.nodes) * kind.offer.cores for kind in found)
    copies = int(load * cores / sum(demand.size_class.cores for demand in plain))
    return [Demand(demand.model, demand.size_class, copies) for demand in plain]


def report(title: str, planned: fleetplan.FleetPlan, seconds: float) -> None:
    """One line of the table."""
    short = sum(item.wanted - item.placed for item in planned.shortages)
    copies = f"{planned.copies}/{planned.bound}"
    proven = planned.copies_proven if not planned.shortages and planned.copies is not None else planned.replicas_proven
    print(f"{title:<52} {seconds:>8.2f} {copies:>12} {short:>6} {'yes' if proven else 'no':>7}", flush=True)


def main() -> None:
    """Measure fleets of 3 and 20 kinds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--models", type=int, default=50)
    arguments = parser.parse_args()
    print(f"{'plan':<52} {'seconds':>8} {'copies/bound':>12} {'short':>6} {'proven':>7}")
    for different in (3, 20):
        cases = [("no replicas declared", None), ("replicas for 80 %", 0.8), ("replicas for 99.5 %", 0.995)]
        for title, load in cases:
            found = fleet(arguments.nodes, different)
            demands = declared(found, arguments.models, load) if load else catalog(arguments.models, None)
            start = time.perf_counter()
            planned = fleetplan.plan(found, demands, "all")
            report(f"{different} kinds, {title}", planned, time.perf_counter() - start)
        found = fleet(arguments.nodes, different)
        start = time.perf_counter()
        fleetcapacity.measure(found, catalog(arguments.models, None))
        print(f"{f'{different} kinds, capacity':<52} {time.perf_counter() - start:>8.2f}", flush=True)


if __name__ == "__main__":
    main()
