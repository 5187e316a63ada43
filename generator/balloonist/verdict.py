"""What the pre-flight answers, as values: single verdicts, the answer for one node, the answer for one model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "note", "warning", "error"]


@dataclass(frozen=True)
class Verdict:
    """One check. ``numa_nodes`` are the NUMA nodes it is about (none: the whole node, or the model itself).

    ``nearest`` is what would fit instead, each part found by the same checks. Only level ``error`` means "no".
    """

    check: str
    level: Level
    message: str
    numa_nodes: tuple[int, ...] = ()
    nearest: str = ""

    @property
    def ok(self) -> bool:
        """Whether the model can start as far as this check goes."""
        return self.level != "error"


@dataclass(frozen=True)
class NodeAnswer:
    """One node. ``numa_nodes`` is where the model would run: known where there is a place, else empty."""

    node: str
    numa_nodes: tuple[int, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def fits(self) -> bool:
        """Whether no check says no."""
        return fits(self.verdicts)


@dataclass(frozen=True)
class Answer:
    """One model: verdicts about the model itself, which hold on every node, and those of each node asked."""

    model: str
    verdicts: tuple[Verdict, ...]
    nodes: tuple[NodeAnswer, ...]

    @property
    def fits(self) -> bool:
        """Whether the model fits on at least one of the nodes asked."""
        return fits(self.verdicts) and any(node.fits for node in self.nodes)


def fits(verdicts: Iterable[Verdict]) -> bool:
    """Whether no verdict says no."""
    return all(verdict.ok for verdict in verdicts)
