"""The plugin on one node: start it with a policy, then start and remove containers.

    simulator = Simulator(topology, policy.read(document))   # raises StartRefused
    outcomes = simulator.run(read_operations(ops))

Choosing a balloon follows the plugin's order: a balloon that already has the pod; then, with preferNewBalloons, an
empty or new one before any that has room, else one with room, one that can grow to have it, and only then an empty or
new one. An *empty* balloon is taken without a look at its size: it is grown, and the container refused if that fails.
Among several the one with most room is taken, then the one with fewest containers. What failed in the middle is not
undone entirely: a balloon made for a container that then did not fit stays, empty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from balloonist.cpuset import EMPTY, Cpuset
from balloonist.placement.balloons import Balloon, NoRoom, Pool
from balloonist.placement.bits import ids
from balloonist.placement.container import BALLOON_KEY, Container, Operation, annotation, container
from balloonist.placement.effective import Effective, effective
from balloonist.placement.machine import Machine, machine
from balloonist.placement.memory import Memory
from balloonist.placement.policy import DEFAULT, RESERVED, BalloonType, Policy
from balloonist.problem import problem
from balloonist.topology import Topology


@dataclass(frozen=True)
class Pinning:
    """What a running container may use; empty where it is not pinned."""

    cpus: Cpuset
    mems: tuple[int, ...]


@dataclass(frozen=True)
class Outcome:
    """What came of one operation. The placement fields are empty for a removed or refused container.

    ``cpus`` are the CPUs that the container sees, ``hidden`` the siblings kept idle beside them.
    ``balloon_types`` names the balloon's type and then those of its components, all levels in order.
    ``spilled``: the balloon has CPUs beyond the NUMA nodes its types ask for. ``reserved_taken``: reserved CPUs it has,
    unless it is the reserved balloon.
    """

    op: str
    id: str
    ok: bool
    error: str = ""
    cpus: Cpuset = EMPTY
    hidden: Cpuset = EMPTY
    numa_nodes: tuple[int, ...] = ()
    mems: tuple[int, ...] = ()
    balloon: str = ""
    balloon_types: tuple[str, ...] = ()
    spilled: bool = False
    reserved_taken: Cpuset = EMPTY


class Simulator:
    """One node with the plugin running; the same operations always give the same state."""

    def __init__(self, topology: Topology, policy: Policy) -> None:
        """Start the plugin. Raises :class:`~balloonist.placement.effective.StartRefused`."""
        self.machine: Machine = machine(topology)
        self.policy: Effective = effective(policy, self.machine)
        self._memory = Memory(topology)
        self._containers: dict[str, Container] = {}
        self._home: dict[str, Balloon] = {}
        self._pool = Pool(self.machine, self.policy, self._pin)
        self._preferred = {item.name: self._preferred_cpus(item) for item in self.policy.types}
        self._pool.populate()

    def run(self, operations: Iterable[Operation]) -> list[Outcome]:
        """Apply the operations in order."""
        return [self.apply(operation) for operation in operations]

    def apply(self, operation: Operation) -> Outcome:
        """Apply one operation. Raises ProblemError if it starts a container whose name is running already."""
        if operation.op == "remove":
            try:
                self._remove(operation.id)
            except NoRoom as error:
                return Outcome("remove", operation.id, ok=False, error=str(error))
            return Outcome("remove", operation.id, ok=True)
        if operation.id in self._containers:
            raise problem("operations", operation.id, "is running already", "remove it first")
        new = container(operation)
        try:
            balloon = self._balloon_for(new, operation)
            wanted = max(1, new.milli + balloon.requested)
            if balloon.available() < wanted:
                self._pool.resize(balloon, wanted)
        except NoRoom as error:
            return Outcome("create", operation.id, ok=False, error=str(error))
        balloon.add(new)
        self._containers[new.id] = new
        self._home[new.id] = balloon
        self._pin(balloon)
        return self._outcome(new, balloon)

    def state(self) -> dict[str, Pinning]:
        """What every running container is pinned to now."""
        return {name: Pinning(Cpuset(item.cpus), ids(item.mems)) for name, item in self._containers.items()}

    def outcome(self, name: str) -> Outcome:
        """Where a running container is now (its balloon may have changed since it started); KeyError if it is not."""
        return self._outcome(self._containers[name], self._home[name])

    @property
    def free(self) -> Cpuset:
        """The CPUs in no balloon."""
        return Cpuset(self._pool.free)

    @property
    def balloons(self) -> tuple[tuple[str, Cpuset], ...]:
        """The balloons in the order they were made, with their CPUs; components are not listed."""
        return tuple((balloon.name, Cpuset(balloon.cpus)) for balloon in self._pool.balloons)

    def _remove(self, name: str) -> None:
        old = self._containers.pop(name, None)
        if old is None:
            return  # it was refused, or never there: nothing to give back
        balloon = self._home.pop(name)
        self._memory.release(name)
        balloon.drop(old)
        if balloon.containers:
            self._pool.resize(balloon, max(1, balloon.requested))
            return
        self._pool.resize(balloon, 0)
        if len(self._pool.of_type(balloon.type)) > balloon.type.min_balloons:
            self._pool.delete(balloon)

    def _balloon_for(self, new: Container, operation: Operation) -> Balloon:
        item = self._type_for(operation)
        found: Balloon | None = None
        if not item.prefer_spreading_pods:
            found = self._roomiest(item, new, self._room_grown, lambda balloon: new.pod in balloon.pods)
        if found is None and item.prefer_per_namespace_balloon:
            found = self._roomiest(item, new, self._room_grown, self._has_namespace(new.namespace))
            found = found or self._empty_or_new(item, new)
        if found is None and item.prefer_new_balloons:
            found = self._empty_or_new(item, new)
        found = found or self._roomiest(item, new, self._room)
        found = found or self._roomiest(item, new, self._room_grown, by_grown=True)
        if found is None and not item.prefer_new_balloons:
            found = self._empty_or_new(item, new)
        if found is None:
            raise NoRoom(f"no suitable balloon of type {item.name}: {self._why_none(item, new)}")
        return found

    def _type_for(self, operation: Operation) -> BalloonType:
        name = annotation(operation, BALLOON_KEY)
        if name is not None:
            if name not in self.policy.by_name:
                raise NoRoom(f"the annotation names balloon type {name!r}, which the policy does not have")
            return self.policy.by_name[name]
        for item in self.policy.types:
            if any(fnmatchcase(operation.namespace, pattern.replace("[^", "[!")) for pattern in item.namespaces):
                return item
        return self.policy.by_name[DEFAULT]

    def _empty_or_new(self, item: BalloonType, new: Container) -> Balloon | None:
        for balloon in self._pool.of_type(item):
            if not balloon.containers:
                return balloon
        free = self._pool.free.bit_count()
        if free == 0 or free < item.min_cpus:
            return None
        try:
            made = self._pool.make(item)
        except NoRoom:
            return None
        if made.largest(self._pool.free.bit_count()) < new.milli:
            self._pool.free |= made.cpus
            return None
        self._pool.list(made)
        return made

    def _roomiest(
        self,
        item: BalloonType,
        new: Container,
        room: Callable[[Balloon], int],
        condition: Callable[[Balloon], bool] = lambda _: True,
        *,
        by_grown: bool = False,
    ) -> Balloon | None:
        """The balloon with the most room among those that fit; among equals the one with the fewest containers."""
        fitting = [b for b in self._pool.of_type(item) if condition(b) and room(b) >= new.milli]
        rank = self._room_grown if by_grown else self._room
        return max(fitting, key=lambda balloon: (rank(balloon), -len(balloon.containers)), default=None)

    @staticmethod
    def _room(balloon: Balloon) -> int:
        return balloon.available() - balloon.requested

    def _room_grown(self, balloon: Balloon) -> int:
        return balloon.largest(self._pool.free.bit_count()) - balloon.requested

    @staticmethod
    def _has_namespace(namespace: str) -> Callable[[Balloon], bool]:
        return lambda balloon: any(item.namespace == namespace for item in balloon.containers.values())

    def _why_none(self, item: BalloonType, new: Container) -> str:
        same = self._pool.of_type(item)
        free = self._pool.free.bit_count()
        limit = f", maxCPUs {item.max_cpus}" if item.max_cpus else ""
        if item.max_balloons and len(same) >= item.max_balloons:
            return (
                f"all {len(same)} of maxBalloons {item.max_balloons} are in use and none can take"
                f" {new.milli / 1000:g} CPUs more ({free} free{limit})"
            )
        return f"none has or can get {new.milli / 1000:g} CPUs ({free} free{limit})"

    def _pin(self, balloon: Balloon) -> None:
        """Pin the balloon's containers to its CPUs, and to the memory of the NUMA nodes these are in."""
        if not balloon.containers:
            return
        cpus = balloon.cpus | balloon.shared
        visible = self.machine.one_per_core(cpus)
        nodes = self.machine.numa_of(cpus)
        pin_memory = self.policy.policy.pin_memory if balloon.type.pin_memory is None else balloon.type.pin_memory
        for item in balloon.containers.values():
            if self.policy.policy.pin_cpu:
                hide = balloon.type.hide_hyperthreads if item.hide is None else item.hide
                item.cpus = visible if hide else cpus
            if pin_memory:
                item.mems, others = self._memory.assign(item.id, item.memory, nodes)
                for name in others:
                    self._containers[name].mems = self._memory.zone(name)

    def _preferred_cpus(self, item: BalloonType) -> int:
        """The CPUs of the NUMA nodes that the type asks for, or its components; all CPUs where one asks for none."""
        if item.components:
            cpus = 0
            for component in item.components:
                cpus |= self._preferred_cpus(self.policy.by_name[component])
            return cpus
        close = [self.machine.device_cpus(device) for device in item.prefer_close_to_devices]
        known = [cpus for cpus in close if cpus is not None]
        return known[0] if known else self.machine.online

    def _outcome(self, item: Container, balloon: Balloon) -> Outcome:
        wanted = 0
        for part in balloon.tree():
            if not part.components:
                wanted |= self._preferred[part.type.name]
        hidden = (balloon.cpus | balloon.shared) & ~item.cpus if item.cpus else 0
        return Outcome(
            op="create",
            id=item.id,
            ok=True,
            cpus=Cpuset(item.cpus),
            hidden=Cpuset(hidden),
            numa_nodes=ids(self.machine.numa_of(item.cpus)),
            mems=ids(item.mems),
            balloon=balloon.name,
            balloon_types=tuple(part.type.name for part in balloon.tree()),
            spilled=bool(balloon.cpus & ~wanted),
            reserved_taken=Cpuset(balloon.cpus & self.policy.reserved if balloon.type.name != RESERVED else 0),
        )
