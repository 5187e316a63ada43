"""What a fleet could hold: copies of each model alone, copies of the whole catalog together, and cores in use.

The bound on cores is the sum of free whole cores. It is rarely reached: a balloon takes whole cores, equally many on
every NUMA node of its set, so what is smaller than the smallest share is left over on each NUMA node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from balloonist import fleetmix, fleetplan, fleetsolver
from balloonist.fleetfill import Filler
from balloonist.fleetkinds import Kind, most_alone
from balloonist.plan import Demand
from balloonist.sizeclass import SizeClass


@dataclass(frozen=True)
class Alone:
    """Copies of one class on one node with nothing else; ``proven`` False where the search was cut short."""

    size_class: SizeClass
    copies: int
    proven: bool


@dataclass(frozen=True)
class KindCapacity:
    """One kind of node. ``mixes`` of the catalog fit on one node, at most ``mixes_bound``.

    ``cores_used`` of the ``cores`` of one node are taken by its best filling, ``cores_bound`` is what is proven.
    """

    kind: Kind
    alone: tuple[Alone, ...]
    mixes: int
    mixes_bound: int
    cores: int
    cores_used: int
    cores_bound: int


@dataclass(frozen=True)
class FleetCapacity:
    """The whole fleet; ``mix`` is how many balloons of each class one mix has."""

    classes: tuple[SizeClass, ...]
    mix: tuple[int, ...]
    kinds: tuple[KindCapacity, ...]
    mixes: int
    mixes_bound: int
    solver: bool

    @property
    def cores(self) -> int:
        """Free whole cores: the upper bound."""
        return sum(len(item.kind.nodes) * item.cores for item in self.kinds)

    @property
    def cores_used(self) -> int:
        """Cores in balloons when every node is filled as well as possible."""
        return sum(len(item.kind.nodes) * item.cores_used for item in self.kinds)


def measure(kinds: Sequence[Kind], demands: Sequence[Demand], *, solver: bool | None = None) -> FleetCapacity:
    """Measure the fleet; a model without replicas counts once in the mix."""
    exact = fleetsolver.available() if solver is None else solver
    classes = tuple(dict.fromkeys(demand.size_class for demand in demands))
    mix = tuple(sum(demand.copies for demand in demands if demand.size_class == item) for item in classes)
    found = tuple(_kind(kind, classes, mix, exact) for kind in kinds)
    mixes, bound = fleetplan.most_copies(kinds, classes, mix, solver=exact) if classes else (0, 0)
    return FleetCapacity(classes, mix, found, mixes, bound, exact)


def _kind(kind: Kind, classes: tuple[SizeClass, ...], mix: tuple[int, ...], exact: bool) -> KindCapacity:
    one = [Kind(kind.offer, kind.packages, kind.nodes[:1], kind.known, kind.unfit)]
    alone = tuple(Alone(item, *most_alone(kind, item)) for item in classes)
    mixes, mixes_bound = fleetplan.most_copies(one, classes, mix, solver=exact) if classes else (0, 0)
    used, bound = _fullest(one[0], classes, exact)
    return KindCapacity(kind, alone, mixes, mixes_bound, kind.offer.cores, used, bound)


def _fullest(kind: Kind, classes: Sequence[SizeClass], exact: bool) -> tuple[int, int]:
    """Cores in balloons of the best filling of one node, and the proven bound on them."""
    filler = Filler([kind], classes)
    fitting = sorted(range(len(classes)), key=lambda index: -classes[index].cores)
    while fitting:
        fitting = [index for index in fitting if filler.add(index)]
    used = sum(count * item.cores for count, item in zip(filler.totals(), classes, strict=True))
    if not exact or used == kind.offer.cores:
        return used, kind.offer.cores
    pattern, bound = fleetmix.best_pattern(kind, classes, [float(item.cores) for item in classes])
    better = sum(count * item.cores for count, item in zip(pattern, classes, strict=True))
    return max(used, better), int(min(kind.offer.cores, bound + 1e-4))
