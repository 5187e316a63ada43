"""A topology prepared for fast placement: every set of CPUs is an integer bit mask, every count a popcount.

The plugin sees a node as a tree: system, packages, dies, NUMA nodes, cores, threads. Only online CPUs are in it. Not
modelled, since a topology does not tell: Speed Select and frequency priorities, and caches (``cachegroups.py`` says
what is taken instead). They change which cores of a NUMA node are taken, hardly ever which NUMA node.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from balloonist.placement.bits import bits
from balloonist.placement.cachegroups import CacheGroup
from balloonist.topology import Core, Topology

LEVELS: Final = ("system", "package", "die", "numa", "core", "thread")
_NUMA_DEVICE: Final = re.compile(r"/sys/devices/system/node/node(\d+)/?")


@dataclass(frozen=True, eq=False)
class Branch:
    """One element of the tree. ``rank`` is its place among its level's names in string order, where 10 is before 9."""

    name: str
    mask: int
    size: int
    children: tuple[Branch, ...] = ()
    rank: int = 0


@dataclass(frozen=True, eq=False)
class Tree:
    """The elements by level, from the root to the single threads, and the size of the largest of each level."""

    levels: tuple[tuple[Branch, ...], ...]
    largest: tuple[int, ...]

    @property
    def root(self) -> Branch:
        """The whole node."""
        return self.levels[0][0]


@dataclass(frozen=True, eq=False)
class CoreShape:
    """Cores whose threads lie at the same distances: ``firsts`` has the lowest thread of each, ``offsets`` all of them.

    One shift and one AND then answer for all cores at once.
    """

    offsets: tuple[int, ...]
    firsts: int
    efficient: bool

    def whole(self, cpus: int) -> int:
        """The lowest threads of the cores that are entirely in ``cpus``."""
        found = self.firsts
        for offset in self.offsets:
            found &= cpus >> offset
        return found

    def expand(self, firsts: int) -> int:
        """All threads of the cores whose lowest threads are given."""
        mask = 0
        for offset in self.offsets:
            mask |= firsts << offset
        return mask


@dataclass(frozen=True, eq=False)
class Machine:
    """What the placement rules need to know of a node."""

    topology: Topology
    online: int
    isolated: int
    efficient: int
    packages: tuple[tuple[int, int], ...]
    numa: tuple[tuple[int, int], ...]
    core_of: dict[int, int]
    shapes: tuple[CoreShape, ...]
    tree: Tree
    spread_tree: Tree
    cache_groups: tuple[CacheGroup, ...] = ()
    level_masks: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def one_per_core(self, cpus: int) -> int:
        """The lowest CPU of each core among ``cpus``: what a container with hidden siblings sees."""
        visible = 0
        for shape in self.shapes:
            seen = 0
            for offset in shape.offsets:
                present = cpus >> offset & shape.firsts
                visible |= (present & ~seen) << offset
                seen |= present
        return visible

    def numa_of(self, cpus: int) -> int:
        """The NUMA nodes of these CPUs, as a mask of node ids."""
        nodes = 0
        for node, mask in self.numa:
            if mask & cpus:
                nodes |= 1 << node
        return nodes

    def device_cpus(self, device: str) -> int | None:
        """The CPUs close to a device; None where that is not known (then the plugin's wish has no effect)."""
        match = _NUMA_DEVICE.fullmatch(device)
        if match is None or not self.topology.numa_directory:
            return None
        return next((mask for node, mask in self.numa if node == int(match[1]) and mask), None)


def machine(topology: Topology) -> Machine:
    """Prepare a topology."""
    efficient = 0
    for name, cpus in topology.core_types:
        if name == "efficiency":
            efficient = cpus.mask
    tree = _tree(topology, spread=False)
    level_masks = {name: tuple(b.mask for b in level) for name, level in zip(LEVELS, tree.levels, strict=True)}
    level_masks["l2cache"] = level_masks["core"]
    return Machine(
        topology=topology,
        online=topology.online.mask,
        isolated=topology.isolated.mask & topology.online.mask,
        efficient=efficient if efficient != topology.online.mask else 0,
        packages=tuple((package.id, package.cpus.mask) for package in topology.packages if package.cpus),
        numa=tuple((numa.id, numa.cpus.mask) for numa in topology.numa_nodes),
        core_of={cpu: core.cpus.mask for core in topology.cores for cpu in core.cpus},
        shapes=tuple(_shapes(topology.cores, efficient)),
        tree=tree,
        spread_tree=_tree(topology, spread=True),
        cache_groups=tuple(_cache_groups(topology)),
        level_masks=level_masks,
    )


def _shapes(cores: Sequence[Core], efficient: int) -> Iterator[CoreShape]:
    shapes: dict[tuple[tuple[int, ...], bool], int] = {}
    for core in cores:
        first = core.cpus.first
        key = (tuple(cpu - first for cpu in core.cpus), bool(efficient >> first & 1))
        shapes[key] = shapes.get(key, 0) | 1 << first
    for (offsets, is_efficient), firsts in sorted(shapes.items()):
        yield CoreShape(offsets, firsts, is_efficient)


def _cache_groups(topology: Topology) -> Iterator[CacheGroup]:
    """One group per NUMA node where a die has several of them (and the package has several groups)."""
    groups: list[tuple[int, int, int]] = []
    for package in topology.packages:
        own = []
        for die in package.dies:
            parts = [numa.cpus.mask & die.cpus.mask for numa in topology.numa_nodes]
            own += [(package.id, die.id, part) for part in parts if part and part != die.cpus.mask]
        groups += own if len(own) > 1 else []
    for number, (package_id, die_id, cpus) in enumerate(groups):
        yield CacheGroup(number, package_id, die_id, cpus)


def _tree(topology: Topology, *, spread: bool) -> Tree:
    """The tree; ``spread`` splits each NUMA node into its cores' first threads, second threads and so on."""
    packages: list[Branch] = []
    for package in topology.packages:
        dies: list[Branch] = []
        for die in package.dies:
            name = f"p{package.id}d{die.id}"
            numas: list[Branch] = []
            for numa in topology.numa_nodes:
                cores = [core for core in numa.cores if (core.package, core.die) == (package.id, die.id)]
                if cores:
                    numas.append(_numa_branch(f"{name}n{numa.id}", cores, spread=spread))
            if numas:
                dies.append(_branch(name, numas))
        if dies:
            packages.append(_branch(f"p{package.id}", dies))
    return _ranked(_branch("system", packages))


def _numa_branch(name: str, cores: Sequence[Core], *, spread: bool) -> Branch:
    if not spread:
        return _branch(name, [_core_branch(name, core, bits(core.cpus.mask)) for core in cores])
    classes = []
    for index in range(max(len(core.cpus) for core in cores)):
        members = [
            _core_branch(name, core, core.cpus.cpus[index : index + 1]) for core in cores if core.cpus.cpus[index:]
        ]
        classes.append(_branch(f"{name}class{index}", members))
    return _branch(name, classes)


def _core_branch(prefix: str, core: Core, cpus: Sequence[int]) -> Branch:
    name = f"{prefix}cpu{core.cpus.first}"
    return _branch(name, [Branch(f"{name}t{cpu}", 1 << cpu, 1) for cpu in cpus])


def _branch(name: str, children: Sequence[Branch]) -> Branch:
    mask = 0
    for child in children:
        mask |= child.mask
    return Branch(name, mask, mask.bit_count(), tuple(children))


def _ranked(root: Branch) -> Tree:
    """Give every element its rank within its level and collect the levels."""
    levels: list[list[Branch]] = [[root]]
    while levels[-1][0].children:
        levels.append([child for branch in levels[-1] for child in branch.children])
    made: dict[int, Branch] = {}
    for level in reversed(levels):
        order = {id(branch): rank for rank, branch in enumerate(sorted(level, key=lambda branch: branch.name))}
        for branch in level:
            children = tuple(made[id(child)] for child in branch.children)
            made[id(branch)] = Branch(branch.name, branch.mask, branch.size, children, order[id(branch)])
    final = tuple(tuple(made[id(branch)] for branch in level) for level in levels)
    return Tree(final, tuple(max(branch.size for branch in level) for level in final))
