"""Reading the files of a Linux machine that describe its CPUs and memory, from the live system or a recorded tree."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from balloonist.problem import Problem, ProblemError, problem

CPU: Final = "sys/devices/system/cpu"
NODE: Final = "sys/devices/system/node"

Files = Mapping[str, str]
"""Text of each file that is there, without surrounding white space, by its path below the root."""

_MACHINE_FILES: Final = (
    *(f"{CPU}/{name}" for name in ("online", "offline", "present", "isolated")),
    *(f"sys/devices/{kind}/cpus" for kind in ("cpu_core", "cpu_atom")),
    f"{NODE}/online",
    *(f"proc/{name}" for name in ("meminfo", "cpuinfo", "version", "sys/kernel/osrelease", "self/status")),
)
_CPU_FILES: Final = (
    *(f"topology/{name}" for name in ("thread_siblings_list", "core_cpus_list", "physical_package_id", "die_id")),
    "cpu_capacity",
)
_NODE_FILES: Final = ("cpulist", "distance", "meminfo")


def snapshot(root: Path) -> Files:
    """Every file under ``root`` that says something about CPUs, NUMA nodes or memory.

    Raises :class:`ProblemError` where the tree is no Linux machine or a file is there but cannot be read.
    """
    if not (root / CPU).is_dir():
        raise problem(str(root), "", f"has no {CPU}", "--root is the directory that holds sys/ and proc/ of a machine")
    files: dict[str, str] = {}
    problems: list[Problem] = []
    for name in _names(root):
        try:
            text = _read(root / name)
        except OSError as error:
            problems.append(Problem(name, "", f"cannot be read: {error.strerror or error}"))
            continue
        if text is not None:
            files[name] = text
    if problems:
        raise ProblemError(problems)
    return files


def architecture(root: Path) -> str:
    """The machine name of the running kernel for the live root; "" for a recorded tree."""
    return os.uname().machine if root.resolve() == Path("/") else ""


def _names(root: Path) -> Iterator[str]:
    yield from _MACHINE_FILES
    for directory in _numbered(root / CPU, "cpu"):
        yield from (f"{CPU}/{directory}/{name}" for name in _CPU_FILES)
    for directory in _numbered(root / NODE, "node"):
        yield from (f"{NODE}/{directory}/{name}" for name in _NODE_FILES)


def _numbered(parent: Path, prefix: str) -> Iterable[str]:
    pattern = re.compile(rf"{prefix}(\d+)")
    found = (pattern.fullmatch(entry.name) for entry in parent.iterdir()) if parent.is_dir() else ()
    return [match[0] for match in sorted(filter(None, found), key=lambda match: int(match[1]))]


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8", "replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None
