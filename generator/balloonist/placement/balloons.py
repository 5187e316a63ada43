"""Balloon instances: making, resizing and deleting them, simple and composite (the plugin's ``balloons-policy``).

Rules worth knowing: a composite divides its size evenly, rounded down to a milli-CPU, and each component then rounds
up to whole CPUs and keeps to its *own* minCPUs and maxCPUs; the composite's own limits are not looked at when it is
resized. ``balance-balloons`` makes one component, of the type with the fewest instances anywhere (components of other
balloons included, and the instances of its own components too), ties by list order. ``maxBalloons`` counts only
balloons that are not components.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from balloonist.placement.chooser import give_back, grow_from
from balloonist.placement.container import Container
from balloonist.placement.effective import Effective, StartRefused
from balloonist.placement.machine import Machine
from balloonist.placement.picker import Picker, Priority
from balloonist.placement.policy import BalloonType


class NoRoom(Exception):  # noqa: N818 - an outcome
    """The plugin cannot make or resize a balloon; the message says why."""


class Balloon:
    """One balloon: its CPUs, its containers, and its components if it is a composite."""

    __slots__ = ("components", "containers", "cpus", "instance", "pods", "requested", "shared", "type")

    def __init__(self, balloon_type: BalloonType, instance: int, components: list[Balloon]) -> None:
        self.type = balloon_type
        self.instance = instance
        self.components = components
        self.cpus = 0
        self.shared = 0
        self.requested = 0
        self.containers: dict[str, Container] = {}
        self.pods: dict[str, int] = {}

    @property
    def name(self) -> str:
        """The name the plugin logs, e.g. ``reserved[0]``."""
        return f"{self.type.name}[{self.instance}]"

    def available(self) -> int:
        """Milli-CPUs it has."""
        return self.cpus.bit_count() * 1000

    def largest(self, free: int) -> int:
        """Milli-CPUs it could have if it took all ``free`` CPUs (a number)."""
        usable = free
        if self.components:
            smallest = min(component.largest(free) for component in self.components)
            usable = min(smallest * len(self.components) // 1000, free)
        maximum = self.type.max_cpus
        return (self.cpus.bit_count() + usable if maximum == 0 or maximum > usable else maximum) * 1000

    def tree(self) -> Iterator[Balloon]:
        """Itself and all its components, theirs included."""
        yield self
        for component in self.components:
            yield from component.tree()

    def add(self, container: Container) -> None:
        """Put a container in."""
        self.containers[container.id] = container
        self.pods[container.pod] = self.pods.get(container.pod, 0) + 1
        self.requested += container.milli

    def drop(self, container: Container) -> None:
        """Take a container out."""
        del self.containers[container.id]
        self.requested -= container.milli
        self.pods[container.pod] -= 1
        if self.pods[container.pod] == 0:
            del self.pods[container.pod]


class Pool:
    """All balloons of a node and its free CPUs. ``repin`` is called for each balloon whose CPUs have changed."""

    def __init__(self, machine: Machine, policy: Effective, repin: Callable[[Balloon], None]) -> None:
        self._machine = machine
        self._policy = policy
        self._picker = Picker(machine)
        self._repin = repin
        self.free = policy.allowed
        self.balloons: list[Balloon] = []
        self._by_type: dict[str, list[Balloon]] = {item.name: [] for item in policy.types}
        self._instances = dict.fromkeys(self._by_type, 0)

    def populate(self) -> None:
        """Make every ``minBalloons`` balloon, high allocatorPriority first, in list order. Raises StartRefused."""
        for priority in Priority:
            for item in self._policy.types:
                if item.priority is not priority:
                    continue
                for _ in range(item.min_balloons):
                    try:
                        self._enter(self.make(item))
                    except NoRoom as error:
                        what = f"the {item.min_balloons} balloons (minBalloons) of type {item.name}"
                        raise StartRefused(f"{what} do not all fit: {error}") from None
        self._share_idle(self.free, 0)

    def of_type(self, item: BalloonType) -> list[Balloon]:
        """The balloons of a type, those that are components not included."""
        return self._by_type[item.name]

    def make(self, item: BalloonType) -> Balloon:
        """A new balloon of its minimum size; the caller lists it in :attr:`balloons`. Raises :class:`NoRoom`."""
        same = self.of_type(item)
        if 0 < item.max_balloons <= len(same):
            raise NoRoom(f"maxBalloons {item.max_balloons} of type {item.name} is reached")
        used = {balloon.instance for balloon in same}
        instance = next(number for number in range(len(same) + 1) if number not in used)
        components: list[Balloon] = []
        try:
            for component in self._components_to_make(item):
                components.append(self.make(component))
            balloon = Balloon(item, instance, components)
            self.resize(balloon, item.min_cpus * 1000)
        except NoRoom:
            for component_balloon in components:
                self.delete(component_balloon)
            raise
        return balloon

    def _components_to_make(self, item: BalloonType) -> Iterable[BalloonType]:
        types = [self._policy.by_name[name] for name in item.components]
        if not types or item.component_creation != "balance-balloons":
            return types
        families, instances = self._policy.families, self._instances
        return [min(types, key=lambda component: sum(instances[name] for name in families[component.name]))]

    def delete(self, balloon: Balloon) -> None:
        """Forget a balloon; its CPUs become free."""
        same = self._by_type[balloon.type.name]
        if balloon in same:
            same.remove(balloon)
            self.balloons.remove(balloon)
            for part in balloon.tree():
                self._instances[part.type.name] -= 1
        self.free |= balloon.cpus

    def list(self, balloon: Balloon) -> None:
        """Make a new balloon known."""
        self._enter(balloon)
        if balloon.cpus:
            self._share_idle(self.free, balloon.cpus)

    def _enter(self, balloon: Balloon) -> None:
        self.balloons.append(balloon)
        self._by_type[balloon.type.name].append(balloon)
        for part in balloon.tree():
            self._instances[part.type.name] += 1

    def resize(self, balloon: Balloon, milli: int) -> None:
        """Give the balloon that many milli-CPUs within its limits. Raises :class:`NoRoom`, leaving it as it was."""
        if balloon.components:
            self._resize_composite(balloon, milli)
            return
        item = balloon.type
        count = -(-milli // 1000)
        if item.max_cpus:
            count = min(count, item.max_cpus)
        count = max(count, item.min_cpus)
        difference = count - balloon.cpus.bit_count()
        if difference == 0:
            return
        wishes = self._policy.wishes[item.name]
        if difference > 0:
            source = grow_from(self._machine, wishes, balloon.cpus, self.free, difference)
            if source is None:
                raise NoRoom(f"type {item.name} needs {difference} more CPUs and {self.free.bit_count()} are free")
            new = self._picker.pick(source, difference, item.priority)
            self.free &= ~new
            balloon.cpus |= new
            self._share_idle(self.free, new)
        else:
            old = give_back(self._machine, wishes, balloon.cpus, self.free, -difference)
            self.free |= old
            balloon.cpus &= ~old
            self._share_idle(old, 0)
        self._repin(balloon)

    def _resize_composite(self, balloon: Balloon, milli: int) -> None:
        free = self.free
        before = [component.cpus for component in balloon.components]
        share = milli // len(balloon.components)
        cpus = 0
        for component in balloon.components:
            try:
                self.resize(component, share)
            except NoRoom:
                self.free = free  # as the plugin does it: the components' own components are not put back
                for other, old in zip(balloon.components, before, strict=True):
                    other.cpus = old
                raise
            cpus |= component.cpus
        balloon.cpus = cpus
        self._repin(balloon)

    def _share_idle(self, added: int, removed: int) -> None:
        """Let balloons with shareIdleCPUsInSame use the idle CPUs of the elements they have CPUs in."""
        if not self._policy.shares_idle:
            return
        changed: list[Balloon] = []
        added &= ~self._machine.isolated
        for balloon in self.balloons:
            shared = balloon.shared & ~removed
            if balloon.type.share_idle_in:
                for mask in self._machine.level_masks[balloon.type.share_idle_in]:
                    if mask & balloon.cpus:
                        shared |= mask & added
            if shared != balloon.shared:
                balloon.shared = shared
                changed.append(balloon)
        for balloon in changed:
            self._repin(balloon)
