"""What is wrong with somebody's input, as a value: where it is, what it is and what would be right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True, order=True)
class Problem:
    """One finding. ``source`` is a file (or node) name, ``key`` a path inside it such as ``numa_nodes[0].cores[3]``."""

    source: str
    key: str
    message: str
    hint: str = ""
    severity: Severity = "error"

    def __str__(self) -> str:
        where = ": ".join(part for part in (self.source, self.key) if part)
        text = f"{where}: {self.message}" if where else self.message
        return f"{text} ({self.hint})" if self.hint else text


class ProblemError(Exception):
    """Raised where work cannot go on; carries at least one :class:`Problem` of severity ``error``."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(map(str, self.problems)))


def problem(source: str, key: str, message: str, hint: str = "") -> ProblemError:
    """Shorthand for an error with a single finding: ``raise problem(file, key, message, hint)``."""
    return ProblemError([Problem(source, key, message, hint)])
