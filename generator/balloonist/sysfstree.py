"""The files of /sys and /proc as text, and readers that note every fault instead of stopping at the first one."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from balloonist.cpuset import EMPTY, Cpuset, CpusetError
from balloonist.problem import Problem, ProblemError

CPU: Final = "sys/devices/system/cpu"
NODE: Final = "sys/devices/system/node"

_SHOWN: Final = 50
"""Findings that are listed one by one; a broken tree of 512 CPUs would else scroll the first ones away."""


@dataclass(frozen=True)
class Snapshot:
    """What is below a root: texts by path relative to it (without surrounding white space), and directories.

    ``directories`` has ``cpuN``, ``nodeN`` and the NUMA directory itself, as paths relative to the root.
    ``unreadable`` are the files that are there but gave an error. ``architecture`` is the running kernel's machine
    name where the root is the live system, else "".
    """

    files: Mapping[str, str]
    directories: frozenset[str]
    unreadable: tuple[Problem, ...] = ()
    architecture: str = ""

    def numbers(self, parent: str, name: str) -> tuple[int, ...]:
        """The N of all directories ``<parent>/<name>N``, ascending."""
        prefix = f"{parent}/{name}"
        return tuple(sorted(int(path[len(prefix) :]) for path in self.directories if path.startswith(prefix)))


@dataclass
class Reader:
    """Reads values out of a snapshot; what is wrong goes to :attr:`problems`, and a harmless value is returned."""

    snapshot: Snapshot
    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.problems += self.snapshot.unreadable
        self._broken = {problem.source for problem in self.snapshot.unreadable}

    def refuse(self, path: str, message: str, hint: str = "") -> None:
        """Note that the file ``path`` cannot be right."""
        self.problems.append(Problem(path, "", message, hint))

    def raise_if_any(self) -> None:
        """Raise :class:`ProblemError` if anything was refused so far."""
        if not self.problems:
            return
        found = list(dict.fromkeys(self.problems))
        if len(found) > _SHOWN:
            found[_SHOWN:] = [Problem("", "", f"and {len(found) - _SHOWN} more findings of this kind")]
        raise ProblemError(found)

    def has(self, path: str) -> bool:
        """Whether the file is there, readable or not."""
        return path in self.snapshot.files or path in self._broken

    def text(self, path: str, expected: str) -> str | None:
        """The text of a file that has to be there and not be empty; None (and a finding) otherwise."""
        text = self.snapshot.files.get(path)
        if not text and path not in self._broken:
            self.refuse(path, "is missing" if text is None else "is empty", f"expected {expected}")
        return text or None

    def cpuset(self, path: str, *, required: bool = False) -> Cpuset:
        """A CPU list; the empty set where the file is absent or empty, which is a finding if it is ``required``."""
        text = self.text(path, "a list of CPUs such as 0-63") if required else self.snapshot.files.get(path)
        try:
            return Cpuset.parse(text or "")
        except CpusetError as error:
            self.refuse(path, str(error))
            return EMPTY

    def identifier(self, path: str) -> int:
        """A package or die id; some machines have none or say -1, which both stand for the only one: 0."""
        if not self.has(path):
            return 0
        text = self.text(path, "a number such as 0")
        if text is None or text == "-1":
            return 0
        return self.number(path, text)

    def number(self, path: str, text: str) -> int:
        """``text`` of ``path`` as a number that is not negative."""
        if not re.fullmatch(r"[0-9]{1,10}", text):
            self.refuse(path, f"{text[:40]!r} is not a number", "expected a number such as 0")
            return 0
        return int(text)

    def memory_mib(self, path: str) -> int:
        """The MemTotal of a meminfo file in MiB, rounded down."""
        text = self.text(path, "a line such as 'MemTotal: 263856 kB'")
        match = re.search(r"\bMemTotal:[ \t]*([0-9]{1,15}) kB", text or "")
        if match is None:
            if text is not None:
                self.refuse(path, "has no line MemTotal", "expected a line such as 'MemTotal: 263856 kB'")
            return 0
        return int(match[1]) // 1024


def listed(numbers: Iterable[int]) -> str:
    """Numbers as people list them: ``0, 2, 3``; "none" for none."""
    return ", ".join(map(str, numbers)) or "none"
