"""A BalloonsPolicy spec as typed values: only what decides where containers go.

Reading is lenient as the plugin is: unknown fields are ignored (the API server's schema is where they are caught).
What the simulator does not model but would change placements is named in :attr:`Policy.not_simulated`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from balloonist.cpuset import Cpuset, CpusetError
from balloonist.placement.picker import Priority
from balloonist.problem import problem

RESERVED: Final = "reserved"
DEFAULT: Final = "default"

_GAPS: Final = ("matchExpressions", "groupBy", "loads", "memoryTypes")
_SUFFIXES: Final = {"": Decimal(1), "m": Decimal("0.001"), "k": Decimal(1000), "Ki": Decimal(1024)}


@dataclass(frozen=True)
class BalloonType:
    """One entry of ``balloonTypes``. 0 means no limit in the four counts, None "as the policy says" in the options."""

    name: str
    namespaces: tuple[str, ...] = ()
    components: tuple[str, ...] = ()
    component_creation: str = ""
    min_cpus: int = 0
    max_cpus: int = 0
    min_balloons: int = 0
    max_balloons: int = 0
    priority: Priority = Priority.HIGH
    prefer_new_balloons: bool = False
    prefer_spreading_pods: bool = False
    prefer_per_namespace_balloon: bool = False
    prefer_close_to_devices: tuple[str, ...] = ()
    prefer_isolated: bool = False
    prefer_core_type: str = ""
    topology_balancing: bool | None = None
    spread_on_cores: bool | None = None
    hide_hyperthreads: bool = False
    share_idle_in: str = ""
    pin_memory: bool | None = None
    cpu_class: str = ""


_LEVELS: Final = ("system", "package", "die", "numa", "l2cache", "core", "thread")


@dataclass(frozen=True)
class Amount:
    """``cpu`` of reservedResources or availableResources: a cpuset, or a number of milli-CPUs."""

    cpuset: Cpuset | None = None
    milli: int = 0


@dataclass(frozen=True)
class Policy:
    """The spec of one BalloonsPolicy."""

    types: tuple[BalloonType, ...]
    reserved: Amount | None
    available: Amount | None
    topology_balancing: bool
    spread_on_cores: bool
    pin_cpu: bool
    pin_memory: bool
    reserved_namespaces: tuple[str, ...]
    not_simulated: tuple[str, ...] = ()


def read(document: Mapping[str, Any], source: str = "policy") -> Policy:
    """Read a spec, or a whole BalloonsPolicy resource. Raises :class:`~balloonist.problem.ProblemError`."""
    spec = (
        document.get("spec", document) if document.get("kind") == "BalloonsPolicy" or "spec" in document else document
    )
    if not isinstance(spec, Mapping):
        raise problem(source, "spec", "is not a mapping", "the spec of a BalloonsPolicy")
    entries = spec.get("balloonTypes") or []
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise problem(source, "balloonTypes", "is not a list of mappings")
    gaps = [f"balloonTypes[{i}].{key}" for i, entry in enumerate(entries) for key in _GAPS if entry.get(key)]
    if spec.get("preserve"):
        gaps.append("preserve")
    return Policy(
        types=tuple(_type(entry, f"balloonTypes[{index}]", source) for index, entry in enumerate(entries)),
        reserved=_amount(spec, "reservedResources", source),
        available=_amount(spec, "availableResources", source),
        topology_balancing=bool(spec.get("allocatorTopologyBalancing", False)),
        spread_on_cores=bool(spec.get("preferSpreadOnPhysicalCores", False)),
        pin_cpu=spec.get("pinCPU") is not False,
        pin_memory=spec.get("pinMemory") is not False,
        reserved_namespaces=tuple(spec.get("reservedPoolNamespaces") or ("kube-system",)),
        not_simulated=tuple(gaps),
    )


def _type(entry: Mapping[str, Any], key: str, source: str) -> BalloonType:
    def count(name: str) -> int:
        value = entry.get(name) or 0
        if not isinstance(value, int) or isinstance(value, bool):
            raise problem(source, f"{key}.{name}", f"{value!r} is not a whole number")
        return value

    def names(name: str) -> tuple[str, ...]:
        value = entry.get(name) or ()
        if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
            raise problem(source, f"{key}.{name}", "is not a list of texts")
        return tuple(value)

    components = entry.get("components") or []
    if not isinstance(components, list) or not all(isinstance(item, Mapping) for item in components):
        raise problem(source, f"{key}.components", "is not a list of mappings", "[{balloonType: NAME}, ...]")
    return BalloonType(
        name=str(entry.get("name") or ""),
        namespaces=names("namespaces"),
        components=tuple(str(item.get("balloonType") or "") for item in components),
        component_creation=str(entry.get("componentCreation") or ""),
        min_cpus=count("minCPUs"),
        max_cpus=count("maxCPUs"),
        min_balloons=count("minBalloons"),
        max_balloons=count("maxBalloons"),
        priority=_priority(entry.get("allocatorPriority", "high")),
        prefer_new_balloons=bool(entry.get("preferNewBalloons")),
        prefer_spreading_pods=bool(entry.get("preferSpreadingPods")),
        prefer_per_namespace_balloon=bool(entry.get("preferPerNamespaceBalloon")),
        prefer_close_to_devices=names("preferCloseToDevices"),
        prefer_isolated=bool(entry.get("preferIsolCpus")),
        prefer_core_type=str(entry.get("preferCoreType") or ""),
        topology_balancing=entry.get("allocatorTopologyBalancing"),
        spread_on_cores=entry.get("preferSpreadOnPhysicalCores"),
        hide_hyperthreads=bool(entry.get("hideHyperthreads")),
        share_idle_in=_level(str(entry.get("shareIdleCPUsInSame") or ""), source, key),
        pin_memory=entry.get("pinMemory"),
        cpu_class=str(entry.get("cpuClass") or ""),
    )


def _level(name: str, source: str, key: str) -> str:
    if name and name not in _LEVELS:
        message = f"{name!r} is no level of the topology"
        raise problem(source, f"{key}.shareIdleCPUsInSame", message, f"one of {', '.join(_LEVELS)}")
    return name


def _priority(text: Any) -> Priority:
    return Priority.__members__.get(str(text).upper(), Priority.NONE)


def _amount(spec: Mapping[str, Any], key: str, source: str) -> Amount | None:
    resources = spec.get(key)
    value = resources.get("cpu") if isinstance(resources, Mapping) else None
    if value is None:
        return None
    text = str(value).strip()
    try:
        if text.startswith("cpuset:"):
            return Amount(cpuset=Cpuset.parse(text.removeprefix("cpuset:")))
        number = text.rstrip("mkKi")
        return Amount(milli=int(Decimal(number) * _SUFFIXES[text[len(number) :]] * 1000))
    except (CpusetError, InvalidOperation, KeyError, ValueError, OverflowError) as error:
        reason = str(error) if isinstance(error, CpusetError) else f"{text!r} is neither a cpuset nor a number of CPUs"
        raise problem(source, f"{key}.cpu", reason, "'cpuset:0-3', '2' or '750m'") from None
