"""Sets of logical CPUs: the algebra and the kernel's list format.

A :class:`Cpuset` is immutable and holds logical CPU ids. It is backed by one integer used as a bit mask, so union,
intersection and difference cost the same for 8 CPUs and for 512.

The text form is the kernel's (Documentation/admin-guide/cputopology.rst and ``bitmap_parselist``): comma separated
ids and ranges, where a range may carry a stride (``0-30:2``) or a group (``0-31:2/4`` means the first 2 of every 4).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

MAX_CPU: Final = 65_535
"""Largest CPU id accepted (the kernel's own limit, CONFIG_NR_CPUS, is 8192 at most); a larger one is a typing error."""

_PART: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9})(?:/(\d{1,9}))?)?)?")


class CpusetError(ValueError):
    """A text that is not a cpuset; the message quotes the text and the part that is wrong."""


@dataclass(frozen=True, slots=False, order=False)
class Cpuset:
    """An immutable set of logical CPU ids (bit *n* of :attr:`mask` stands for CPU *n*)."""

    mask: int = 0

    @classmethod
    def of(cls, cpus: Iterable[int]) -> Cpuset:
        """Return the set of the given CPU ids (0 to :data:`MAX_CPU`); raises :class:`CpusetError` on any other."""
        mask = 0
        for cpu in cpus:
            if not 0 <= cpu <= MAX_CPU:
                raise CpusetError(f"CPU id {cpu} is not between 0 and {MAX_CPU}")
            mask |= 1 << cpu
        return cls(mask)

    @classmethod
    def parse(cls, text: str) -> Cpuset:
        """Read the kernel's list format; an empty text is the empty set. Raises :class:`CpusetError`.

        Never returns a shorter set than the text says: whatever is not understood is an error.
        """
        return _parsed(text)

    @cached_property
    def cpus(self) -> tuple[int, ...]:
        """The CPU ids in ascending order."""
        return tuple(_bits(self.mask))

    def __or__(self, other: Cpuset) -> Cpuset:
        return Cpuset(self.mask | other.mask)

    def __and__(self, other: Cpuset) -> Cpuset:
        return Cpuset(self.mask & other.mask)

    def __sub__(self, other: Cpuset) -> Cpuset:
        return Cpuset(self.mask & ~other.mask)

    def __le__(self, other: Cpuset) -> bool:
        return self.mask & ~other.mask == 0

    def __contains__(self, cpu: object) -> bool:
        return isinstance(cpu, int) and cpu >= 0 and bool(self.mask >> cpu & 1)

    def __iter__(self) -> Iterator[int]:
        return iter(self.cpus)

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __bool__(self) -> bool:
        return self.mask != 0

    def isdisjoint(self, other: Cpuset) -> bool:
        """Whether no CPU is in both sets."""
        return self.mask & other.mask == 0

    @property
    def first(self) -> int:
        """The lowest CPU id; raises :class:`CpusetError` for the empty set."""
        if not self.mask:
            raise CpusetError("the empty cpuset has no first CPU")
        return (self.mask & -self.mask).bit_length() - 1

    @cached_property
    def text(self) -> str:
        """The shortest list of ids and ranges, e.g. ``0-3,8`` (a pair is written ``0-1``, as the kernel does)."""
        return ",".join(f"{low}-{high}" if low != high else f"{low}" for low, high in _runs(self.mask))

    @cached_property
    def listing(self) -> str:
        """Every id written out, e.g. ``0,1,24,25``: the form people use for reserved lists."""
        return ",".join(map(str, self.cpus))

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Cpuset.parse({self.text!r})"


EMPTY: Final = Cpuset()
"""The set without CPUs."""


def union(sets: Iterable[Cpuset]) -> Cpuset:
    """The union of any number of sets (the empty set for none)."""
    mask = 0
    for cpuset in sets:
        mask |= cpuset.mask
    return Cpuset(mask)


@lru_cache(maxsize=16_384)  # the nodes of a fleet repeat the same few thousand texts
def _parsed(text: str) -> Cpuset:
    mask = 0
    stripped = text.strip()
    if stripped:
        for part in stripped.split(","):
            mask |= _parse_part(part.strip(), text)
    return Cpuset(mask)


def _parse_part(part: str, text: str) -> int:
    match = _PART.fullmatch(part)
    if match is None or not part.isascii():
        raise CpusetError(f"{text!r} is not a cpuset: cannot read {part!r} (right: '0-3,8', '0-30:2', '0-31:2/4')")
    low = int(match[1])
    high = int(match[2]) if match[2] is not None else low
    used = int(match[3]) if match[3] is not None else 1
    group = int(match[4]) if match[4] is not None else None
    if group is None:  # "a-b:n" is every n-th CPU: the first one of each group of n
        used, group = 1, used
    if high < low:
        raise CpusetError(f"{text!r} is not a cpuset: {part!r} ends before it begins")
    if high > MAX_CPU:
        raise CpusetError(f"{text!r} is not a cpuset: CPU id {high} is larger than {MAX_CPU}")
    if group < 1 or used < 1 or used > group:
        raise CpusetError(f"{text!r} is not a cpuset: {part!r} needs 1 <= used CPUs <= group size")
    if group == used:
        return ((1 << (high - low + 1)) - 1) << low
    mask = 0
    for start in range(low, high + 1, group):
        for cpu in range(start, min(start + used, high + 1)):
            mask |= 1 << cpu
    return mask


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def _runs(mask: int) -> Iterator[tuple[int, int]]:
    low = 0
    while mask:
        skip = (mask & -mask).bit_length() - 1
        mask >>= skip
        low += skip
        length = (~mask & (mask + 1)).bit_length() - 1
        yield low, low + length - 1
        mask >>= length
        low += length
