"""Bit masks as sets of CPU ids: the few operations that the placement needs beside ``&``, ``|`` and ``bit_count``."""

from __future__ import annotations

from functools import lru_cache


def bits(mask: int) -> tuple[int, ...]:
    """The positions of the set bits, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return tuple(found)


def lowest(mask: int, count: int) -> int:
    """The ``count`` lowest set bits (all of them if there are fewer)."""
    if mask.bit_count() <= count:
        return mask
    low, high = 0, mask.bit_length()
    while low < high:  # the shortest prefix that holds enough of them
        middle = (low + high) // 2
        if (mask & ((1 << middle) - 1)).bit_count() < count:
            low = middle + 1
        else:
            high = middle
    return mask & ((1 << low) - 1)


@lru_cache(maxsize=4096)
def ids(mask: int) -> tuple[int, ...]:
    """The same as :func:`bits`, remembered: for the few sets of NUMA nodes that come again and again."""
    return bits(mask)
