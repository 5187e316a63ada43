"""From where CPUs are taken, and which are given back (the plugin's ``cputree``).

Growing: first the wishes in order, each dropped when it would leave too few CPUs: close to a device (a NUMA node),
then far from the devices that other types want to be close to. Of what is left, the deepest element of the tree
(thread, core, NUMA node, die, package, system) that alone has enough free CPUs; among several of that depth the one
where the balloon already has most CPUs, compared from the top of the tree down; then the one with the most free CPUs
(topology balancing) or the fewest (packing), also from the top down; then the first by name, as text.

Shrinking, one CPU at a time: first those CPUs that meet the fewest wishes; then from where the balloon has the
fewest; then from where the fewest are free; then the last by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from balloonist.placement.machine import Branch, Machine, Tree


@dataclass(frozen=True)
class Wishes:
    """A type's allocation options, its devices resolved to CPUs."""

    close: tuple[int, ...]
    far: tuple[int, ...]
    balancing: bool
    spread: bool


def grow_from(machine: Machine, wishes: Wishes, current: int, free: int, count: int) -> int | None:
    """The free CPUs (at least ``count``) from which to take ``count``; None if there are not enough."""
    have = free.bit_count()
    if have <= count:
        return free if have == count else None
    remaining = free
    for cpus in wishes.close:
        if (remaining & cpus).bit_count() >= count:
            remaining &= cpus
    for cpus in wishes.far:
        if (remaining & ~cpus).bit_count() >= count:
            remaining &= ~cpus
    tree = machine.spread_tree if wishes.spread else machine.tree
    source = _local(tree, current, remaining, count, balancing=wishes.balancing)
    if not wishes.spread or source.bit_count() == count:
        return source
    chosen = 0
    for _ in range(count):
        one = _local(tree, current, remaining, 1, balancing=wishes.balancing)
        chosen |= one
        current |= one
        remaining &= ~one
    return chosen


def give_back(machine: Machine, wishes: Wishes, current: int, free: int, count: int) -> int:
    """The ``count`` CPUs of ``current`` to give back."""
    if current.bit_count() <= count:
        return current
    released, undecided = _unwished(wishes, current, count)
    tree = machine.spread_tree if wishes.spread else machine.tree
    for _ in range(count - released.bit_count()):
        one = _least_needed(tree, undecided, free)
        released |= one
        undecided &= ~one
        free |= one
    return released


def _unwished(wishes: Wishes, current: int, count: int) -> tuple[int, int]:
    """The CPUs that meet too few wishes to be kept, and those equally good ones of which some must go too."""
    groups = [current]
    for cpus in wishes.close:  # split by the most important wish first: least wished groups end up first
        groups = [part for group in groups for part in (group & ~cpus, group & cpus) if part]
    released = 0
    for group in groups:
        if released.bit_count() + group.bit_count() > count:
            return released, group
        released |= group
    return released, 0


def _local(tree: Tree, current: int, free: int, count: int, *, balancing: bool) -> int:
    """The free CPUs of the best element that has ``count`` of them."""
    depth, candidates = _deepest(tree, free, count)
    if depth == 0:
        return free
    if current:
        candidates = _refine(tree.root, depth, candidates, current, most=True)
    candidates = _refine(tree.root, depth, candidates, free, most=balancing)
    return _by_name(tree.root, depth, candidates, last=False).mask & free


def _deepest(tree: Tree, free: int, count: int) -> tuple[int, int]:
    """The deepest level with an element that has enough free CPUs, and all CPUs of such elements."""
    if count == 1:
        return len(tree.levels) - 1, free
    for depth in range(len(tree.levels) - 2, 0, -1):
        if tree.largest[depth] < count:
            continue
        candidates = 0
        for branch in tree.levels[depth]:
            mask = branch.mask
            if (mask & free).bit_count() >= count:
                candidates |= mask
        if candidates:
            return depth, candidates
    return 0, free


def _refine(root: Branch, depth: int, candidates: int, counted: int, *, most: bool) -> int:
    """Keep the candidates whose path from the root has the most (or fewest) ``counted`` CPUs, upper levels first."""
    branches: Sequence[Branch] = (root,)
    for _ in range(depth):
        best = -1
        kept: list[Branch] = []
        for branch in branches:
            for child in branch.children:
                mask = child.mask
                if not mask & candidates:
                    continue
                number = (mask & counted).bit_count()
                if number == best:
                    kept.append(child)
                elif best < 0 or (number > best) is most:
                    best = number
                    kept = [child]
        if best == 0 and most:
            break  # below here every count is zero: nothing more to tell apart
        branches = kept
        union = 0
        for branch in kept:
            union |= branch.mask
        candidates &= union
    return candidates


def _by_name(root: Branch, depth: int, candidates: int, *, last: bool) -> Branch:
    branches: Sequence[Branch] = (root,)
    for _ in range(depth):
        branches = [child for branch in branches for child in branch.children if child.mask & candidates]
    if last:
        return max(branches, key=lambda branch: branch.rank)
    return min(branches, key=lambda branch: branch.rank)


def _least_needed(tree: Tree, current: int, free: int) -> int:
    depth = len(tree.levels) - 1
    candidates = _refine(tree.root, depth, current, current, most=False)
    candidates = _refine(tree.root, depth, candidates, free, most=False)
    return _by_name(tree.root, depth, candidates, last=True).mask
