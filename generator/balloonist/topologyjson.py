"""The JSON form of a topology (its schema: schemas/topology.schema.json)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from balloonist.cpuset import EMPTY, Cpuset, CpusetError
from balloonist.problem import Problem, ProblemError
from balloonist.topology import Core, Die, NumaNode, Package, Topology
from balloonist.topologychecks import contradictions

API_VERSION: Final = "balloonist/v1"
KIND: Final = "Topology"

Homes = Mapping[int, tuple[int, int]]
"""Package and die of each online CPU."""


def to_json(topology: Topology) -> dict[str, Any]:
    """The JSON form (see schemas/topology.schema.json); the inverse of :func:`from_json`."""
    document: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "node": topology.node,
        "architecture": topology.architecture,
        "kernel": topology.kernel,
        "cpu_model": topology.cpu_model,
        "cpus": {
            "online": topology.online.text,
            "offline": topology.offline.text,
            "isolated": topology.isolated.text,
        },
        "core_types": {name: cpus.text for name, cpus in topology.core_types},
        "numa_directory": topology.numa_directory,
        "packages": [
            {"id": package.id, "dies": [{"id": die.id, "cpus": die.cpus.text} for die in package.dies]}
            for package in topology.packages
        ],
        "numa_nodes": [
            {
                "id": numa.id,
                "memory_mib": numa.memory_mib,
                "distances": list(numa.distances),
                "cores": [core.cpus.text for core in numa.cores],
            }
            for numa in topology.numa_nodes
        ],
        "warnings": list(topology.warnings),
    }
    return document


def dump(topology: Topology) -> str:
    """The JSON text; lists of plain values stand on one line, so that a diff stays readable. Same input, same bytes."""
    return _pretty(to_json(topology), "") + "\n"


def _pretty(value: Any, margin: str) -> str:
    inner = margin + "  "
    if isinstance(value, dict) and value:
        fields = [f"{inner}{json.dumps(key)}: {_pretty(item, inner)}" for key, item in value.items()]
        return "{\n" + ",\n".join(fields) + f"\n{margin}}}"
    if isinstance(value, list) and any(isinstance(item, dict | list) for item in value):
        return "[\n" + ",\n".join(inner + _pretty(item, inner) for item in value) + f"\n{margin}]"
    return json.dumps(value)


def from_json(document: Mapping[str, Any], source: str) -> Topology:
    """Build a topology from a document that the JSON Schema has accepted; ``source`` names it in errors.

    Raises :class:`ProblemError` with every contradiction found: a CPU on two cores or on none, a package or NUMA node
    twice, distances that do not fit, siblings in two packages.
    """
    reader = _Reader(source)
    packages = tuple(reader.package(index, entry) for index, entry in enumerate(document["packages"]))
    homes = {cpu: (package.id, die.id) for package in packages for die in package.dies for cpu in die.cpus}
    core_types = sorted(document.get("core_types", {}).items())
    topology = Topology(
        node=document["node"],
        architecture=document["architecture"],
        kernel=document.get("kernel", ""),
        cpu_model=document.get("cpu_model", ""),
        packages=packages,
        numa_nodes=tuple(reader.numa_node(index, entry, homes) for index, entry in enumerate(document["numa_nodes"])),
        offline=reader.cpuset("cpus.offline", document["cpus"].get("offline", "")),
        isolated=reader.cpuset("cpus.isolated", document["cpus"].get("isolated", "")),
        core_types=tuple((name, reader.cpuset(f"core_types.{name}", text)) for name, text in core_types),
        numa_directory=document.get("numa_directory", True),
        warnings=tuple(document.get("warnings", ())),
    )
    online = reader.cpuset("cpus.online", document["cpus"]["online"])
    problems = reader.problems or contradictions(topology, online, source)
    if problems:
        raise ProblemError(problems)
    return topology


@dataclass
class _Reader:
    """Reads parts of a document and notes what is wrong with them."""

    source: str
    problems: list[Problem] = field(default_factory=list)

    def cpuset(self, key: str, text: str) -> Cpuset:
        try:
            return Cpuset.parse(text)
        except CpusetError as error:
            self.problems.append(Problem(self.source, key, str(error)))
            return EMPTY

    def package(self, index: int, entry: Mapping[str, Any]) -> Package:
        dies = enumerate(entry["dies"])
        keyed = ((f"packages[{index}].dies[{position}].cpus", die) for position, die in dies)
        return Package(entry["id"], tuple(Die(die["id"], self.cpuset(key, die["cpus"])) for key, die in keyed))

    def numa_node(self, index: int, entry: Mapping[str, Any], homes: Homes) -> NumaNode:
        cores: list[Core] = []
        for position, text in enumerate(entry["cores"]):
            key = f"numa_nodes[{index}].cores[{position}]"
            cpus = self.cpuset(key, text)
            found = {homes[cpu] for cpu in cpus if cpu in homes}
            if cpus and len(found) == 1 and all(cpu in homes for cpu in cpus):
                cores.append(Core(cpus, entry["id"], *found.pop()))
            else:
                self.problems.append(_misplaced_core(self.source, key, cpus, found, homes))
        cores.sort(key=lambda core: core.cpus.first)
        return NumaNode(entry["id"], entry["memory_mib"], tuple(entry["distances"]), tuple(cores))


def _misplaced_core(source: str, key: str, cpus: Cpuset, found: set[tuple[int, int]], homes: Homes) -> Problem:
    if not cpus:
        return Problem(source, key, "a core has no CPU", "list its online sibling threads, e.g. '0,96'")
    homeless = Cpuset.of(cpu for cpu in cpus if cpu not in homes)
    if homeless:
        return Problem(
            source, key, f"CPU {homeless} belongs to no package", "every CPU of a core is in packages[].dies[]"
        )
    places = ", ".join(f"package {package} die {die}" for package, die in sorted(found))
    return Problem(source, key, f"sibling CPUs {cpus} are spread over {places}", "siblings share one package and die")
