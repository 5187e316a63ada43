"""What cannot be true of any machine: contradictions inside a topology, whoever made it."""

from __future__ import annotations

from collections import Counter

from balloonist.cpuset import EMPTY, Cpuset, union
from balloonist.problem import Problem
from balloonist.topology import Topology


def contradictions(topology: Topology, online: Cpuset, source: str) -> list[Problem]:
    """What cannot be true of any machine, given the CPUs that are said to be online; ``source`` names the topology."""
    return [*_numbering_problems(topology, source), *_membership_problems(topology, online, source)]


def _numbering_problems(topology: Topology, source: str) -> list[Problem]:
    """Ids that repeat, and distance lists that do not fit the NUMA nodes."""
    problems: list[Problem] = []
    count = len(topology.numa_nodes)
    if count == 0:
        problems.append(Problem(source, "numa_nodes", "there is no NUMA node", "every machine has at least one"))
    for name, ids in (
        ("packages", [package.id for package in topology.packages]),
        ("numa_nodes", [numa.id for numa in topology.numa_nodes]),
        *((f"packages[{index}].dies", [die.id for die in part.dies]) for index, part in enumerate(topology.packages)),
    ):
        for repeated in sorted(value for value, times in Counter(ids).items() if times > 1):
            problems.append(Problem(source, name, f"id {repeated} is there more than once", "every id is used once"))
        if ids != sorted(ids):
            problems.append(Problem(source, name, f"ids {ids} are out of order", "list them in ascending order"))
    for index, numa in enumerate(topology.numa_nodes):
        if len(numa.distances) != count:
            message = f"{len(numa.distances)} distances for {count} NUMA nodes"
            problems.append(
                Problem(source, f"numa_nodes[{index}].distances", message, "one distance to each NUMA node, in order")
            )
        elif numa.distances[index] > min(numa.distances):
            message = f"the distance to itself is {numa.distances[index]}, to another NUMA node {min(numa.distances)}"
            hint = "in the order of numa_nodes; the own one is the smallest"
            problems.append(Problem(source, f"numa_nodes[{index}].distances", message, hint))
    return problems


def _membership_problems(topology: Topology, online: Cpuset, source: str) -> list[Problem]:
    """Every online CPU is on exactly one core, in one die, and not offline as well."""
    problems: list[Problem] = []
    seen = EMPTY
    for index, numa in enumerate(topology.numa_nodes):
        for core in numa.cores:
            if twice := seen & core.cpus:
                message = f"CPU {twice} is on more than one core"
                problems.append(Problem(source, f"numa_nodes[{index}].cores", message, "each CPU stands on one core"))
            seen |= core.cpus
    dies = [die.cpus for package in topology.packages for die in package.dies]
    if sum(map(len, dies)) != len(union(dies)):
        problems.append(Problem(source, "packages", "a CPU is in more than one die", "each CPU stands in one die"))
    if not online:
        problems.append(Problem(source, "cpus.online", "no CPU is online", "a cpuset such as '0-191'"))
    if unknown := union(dies) - online:
        problems.append(
            Problem(source, "packages", f"CPUs {unknown} are in a die but not online", "dies list online CPUs")
        )
    problems += _core_type_problems(topology, online, source)
    if unknown := topology.isolated - online - topology.offline:
        problems.append(Problem(source, "cpus.isolated", f"CPUs {unknown} are neither online nor offline"))
    if missing := online - seen:
        message = f"CPUs {missing} are online but on no core of any NUMA node"
        problems.append(Problem(source, "numa_nodes", message, "each online CPU stands on one core of one NUMA node"))
    if extra := seen - online:
        message = f"CPUs {extra} are on a core but not online"
        problems.append(Problem(source, "cpus.online", message, "cores list online CPUs only"))
    if both := online & topology.offline:
        problems.append(Problem(source, "cpus.offline", f"CPUs {both} are both online and offline"))
    return problems


def _core_type_problems(topology: Topology, online: Cpuset, source: str) -> list[Problem]:
    """Every CPU of a core type is online, and of no other type."""
    problems = [
        Problem(source, f"core_types.{name}", f"CPUs {unknown} are not online")
        for name, cpus in topology.core_types
        if (unknown := cpus - online)
    ]
    kinds = [cpus for _, cpus in topology.core_types]
    if sum(map(len, kinds)) != len(union(kinds)):
        problems.append(Problem(source, "core_types", "a CPU is of more than one type", "each CPU is of one type"))
    return problems
