"""The policy as the plugin completes it before it makes a balloon: the built-in types, their limits, the wishes.

Rules: the types ``reserved`` and ``default`` exist whether written or not (written ones keep their place in the list,
and the list's order decides which type's namespaces match first). An unwritten ``reserved`` comes first, an unwritten
``default`` last. A reserved cpuset is only a wish of the type ``reserved``, and a wish of all others to keep away:
without ``minCPUs`` it starts empty. Every device that one type wants to be close to, all other types want to be far
from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from balloonist.cpuset import Cpuset
from balloonist.placement.chooser import Wishes
from balloonist.placement.machine import Machine
from balloonist.placement.picker import Priority
from balloonist.placement.policy import DEFAULT, RESERVED, Amount, BalloonType, Policy

_RESERVED_DEVICE = "reserved CPUs"
_ISOLATED_DEVICE = "isolated CPUs"
_CORE_DEVICES = {"performance": "performance cores", "efficient": "efficient cores"}
_CREATION = ("", "all", "balance-balloons")


class StartRefused(Exception):  # noqa: N818 - named after what happened, not after a mistake of the caller
    """The plugin does not take the policy: it exits when it starts."""


@dataclass(frozen=True, eq=False)
class Effective:
    """A policy that the plugin takes, for one machine."""

    policy: Policy
    types: tuple[BalloonType, ...]
    allowed: int
    reserved: int
    wishes: Mapping[str, Wishes]

    @cached_property
    def by_name(self) -> Mapping[str, BalloonType]:
        """The types by name."""
        return {item.name: item for item in self.types}

    @cached_property
    def families(self) -> Mapping[str, frozenset[str]]:
        """Each type's name with those of its components, and theirs: what counts as its instances when balancing."""
        return {item.name: frozenset(self._family(item.name)) for item in self.types}

    def _family(self, name: str) -> Iterator[str]:
        yield name
        for component in self.by_name[name].components:
            yield from self._family(component)

    @cached_property
    def shares_idle(self) -> bool:
        """Whether any type shares idle CPUs."""
        return any(item.share_idle_in for item in self.types)


def effective(policy: Policy, machine: Machine) -> Effective:
    """Complete and check the policy; raises :class:`StartRefused` with the reason."""
    allowed = machine.online
    if policy.available is not None:
        if policy.available.cpuset is None:
            raise StartRefused("availableResources.cpu must be a cpuset: the plugin takes no number of CPUs there")
        allowed &= policy.available.cpuset.mask
    if policy.reserved is None:
        raise StartRefused("reservedResources.cpu is required")
    types = _with_builtin(policy)
    types = tuple(_reserved_type(item, policy, allowed) if item.name == RESERVED else item for item in types)
    _check(types)
    reserved = policy.reserved.cpuset.mask if policy.reserved.cpuset is not None else 0
    return Effective(policy, types, allowed, reserved, _wishes(policy, types, machine, reserved))


def _with_builtin(policy: Policy) -> tuple[BalloonType, ...]:
    types = policy.types
    names = {item.name for item in types}
    if RESERVED not in names:
        types = (BalloonType(RESERVED, min_balloons=1, priority=Priority.LOW), *types)
    if DEFAULT not in names:
        types = (*types, BalloonType(DEFAULT, min_balloons=1, max_balloons=1, priority=Priority.LOW))
    return types


def _reserved_type(written: BalloonType, policy: Policy, allowed: int) -> BalloonType:
    """Exactly one reserved balloon; a cpuset gives it normal priority and its wish, a number gives it its size."""
    amount = policy.reserved or Amount()
    completed = replace(
        written,
        min_balloons=1,
        max_balloons=1,
        namespaces=(*written.namespaces, "kube-system", *policy.reserved_namespaces),
    )
    if amount.cpuset is not None:
        outside = amount.cpuset.mask & ~allowed
        if outside:
            raise StartRefused(
                f"reserved CPUs {Cpuset(outside)} are not available:"
                " offline, not on this node, or not in availableResources"
            )
        size = len(amount.cpuset)
        return replace(
            completed,
            min_cpus=written.min_cpus or min(size, written.max_cpus),  # no maximum is 0, and then so is the minimum
            priority=Priority.NORMAL,
            prefer_close_to_devices=(_RESERVED_DEVICE, *written.prefer_close_to_devices),
        )
    size = -(-amount.milli // 1000)
    if written.min_cpus == 0 and written.max_cpus and written.max_cpus < size:
        raise StartRefused(f"type reserved: maxCPUs {written.max_cpus} is below the {size} CPUs of reservedResources")
    if written.min_cpus not in (0, size):
        raise StartRefused(
            f"type reserved: minCPUs {written.min_cpus} differs from the {size} CPUs of reservedResources"
        )
    return replace(completed, min_cpus=size)


def _check(types: tuple[BalloonType, ...]) -> None:
    names: set[str] = set()
    for item in types:
        if not item.name:
            raise StartRefused("a balloon type has no name")
        if item.name in names:
            raise StartRefused(f"two balloon types are called {item.name}")
        names.add(item.name)
        if item.max_cpus and item.min_cpus > item.max_cpus:
            raise StartRefused(f"type {item.name}: minCPUs {item.min_cpus} is above maxCPUs {item.max_cpus}")
        if item.max_balloons and item.min_balloons > item.max_balloons:
            raise StartRefused(
                f"type {item.name}: minBalloons {item.min_balloons} is above maxBalloons {item.max_balloons}"
            )
        _check_composition(item)
    for item in types:
        for component in item.components:
            if component not in names:
                raise StartRefused(f"type {item.name}: its component {component!r} is no balloon type of this policy")
    by_name = {item.name: item for item in types}
    for item in types:
        _check_circle(item.name, by_name, ())


def _check_composition(item: BalloonType) -> None:
    if item.component_creation not in _CREATION:
        raise StartRefused(
            f"type {item.name}: componentCreation {item.component_creation!r} is none of all, balance-balloons"
        )
    if item.component_creation and not item.components:
        raise StartRefused(f"type {item.name}: componentCreation without components")
    forbidden = {
        "cpuClass": item.cpu_class,
        "preferSpreadOnPhysicalCores": item.spread_on_cores is not None,
        "allocatorTopologyBalancing": item.topology_balancing is not None,
        "preferCloseToDevices": item.prefer_close_to_devices,
        "preferIsolCpus": item.prefer_isolated,
        "preferCoreType": item.prefer_core_type,
    }
    found = [name for name, value in forbidden.items() if value]
    if item.components and found:
        raise StartRefused(f"type {item.name}: a composite type may not have {', '.join(found)}")


def _check_circle(name: str, by_name: Mapping[str, BalloonType], above: tuple[str, ...]) -> None:
    if name in above:
        raise StartRefused(f"the components go in a circle: {' > '.join((*above, name))}")
    for component in by_name[name].components:
        _check_circle(component, by_name, (*above, name))


def _wishes(policy: Policy, types: tuple[BalloonType, ...], machine: Machine, reserved: int) -> dict[str, Wishes]:
    virtual = {
        _RESERVED_DEVICE: reserved,
        _ISOLATED_DEVICE: machine.isolated,
        _CORE_DEVICES["performance"]: 0,  # no CPU has high priority without frequency data
        _CORE_DEVICES["efficient"]: machine.efficient,
    }
    close = {item.name: tuple(_close_devices(item)) for item in types}
    avoided = [_ISOLATED_DEVICE] if machine.isolated else []
    avoided += [device for devices in close.values() for device in devices]

    def cpus(device: str) -> int | None:
        return virtual[device] if device in virtual else machine.device_cpus(device)

    wishes = {}
    for item in types:
        far = [device for device in dict.fromkeys(avoided) if device not in close[item.name]]
        wishes[item.name] = Wishes(
            close=tuple(mask for device in close[item.name] if (mask := cpus(device)) is not None),
            far=tuple(mask for device in far if (mask := cpus(device)) is not None),
            balancing=policy.topology_balancing if item.topology_balancing is None else item.topology_balancing,
            spread=policy.spread_on_cores if item.spread_on_cores is None else item.spread_on_cores,
        )
    return wishes


def _close_devices(item: BalloonType) -> Iterator[str]:
    yield from item.prefer_close_to_devices
    if item.prefer_isolated:
        yield _ISOLATED_DEVICE
    if item.prefer_core_type in _CORE_DEVICES:
        yield _CORE_DEVICES[item.prefer_core_type]
