"""The topology of a Linux machine, live or recorded: reading the files. What they mean is in ``sysfstopology.py``."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from balloonist.cpuset import MAX_CPU
from balloonist.problem import Problem, problem
from balloonist.sysfstopology import assemble
from balloonist.sysfstree import CPU, NODE, Snapshot
from balloonist.topology import Topology

_MACHINE_FILES: Final = (
    *(f"{CPU}/{name}" for name in ("online", "offline", "present", "isolated")),
    *(f"sys/devices/{unit}/cpus" for unit in ("cpu_core", "cpu_atom", "cpu_lowpower")),
    f"{NODE}/online",
    *(f"proc/{name}" for name in ("meminfo", "cpuinfo", "version", "sys/kernel/osrelease", "self/status")),
)
_CPU_FILES: Final = (
    *(f"topology/{name}" for name in ("core_cpus_list", "thread_siblings_list", "physical_package_id", "die_id")),
    "cpu_capacity",
)
_NODE_FILES: Final = ("cpulist", "distance", "meminfo")
_ROOT_HINT: Final = "--root is the directory that holds sys/ and proc/ of a machine"


def collect(root: Path, node: str) -> Topology:
    """The topology of the machine whose sys/ and proc/ are below ``root`` ("/" is this machine); ``node`` names it.

    Raises :class:`ProblemError` with everything that is missing, unreadable or contradictory; files are named relative
    to ``root``.
    """
    return assemble(snapshot(root), node)


def is_live(root: Path) -> bool:
    """Whether ``root`` is this machine itself."""
    return os.path.realpath(root) == "/"  # Path.resolve() fails on a loop of symbolic links


def snapshot(root: Path) -> Snapshot:
    """Every file below ``root`` that says something about CPUs, NUMA nodes or memory.

    Raises :class:`ProblemError` where the tree is no Linux machine.
    """
    if not _is_directory(root, CPU):
        raise problem(str(root), "", f"has no {CPU}", _ROOT_HINT)
    cpus = _numbered(root, CPU, "cpu")
    nodes = _numbered(root, NODE, "node")
    files: dict[str, str] = {}
    problems: list[Problem] = []
    for path in (*_MACHINE_FILES, *_paths(cpus, _CPU_FILES), *_paths(nodes, _NODE_FILES)):
        try:
            text = _read(root / path)
        except OSError as error:
            problems.append(Problem(path, "", f"cannot be read: {error.strerror or error}", "expected a text file"))
            continue
        if text is not None:
            files[path] = text
    directories = frozenset([*cpus, *nodes, *([NODE] if _is_directory(root, NODE) else [])])
    return Snapshot(files, directories, tuple(problems), os.uname().machine if is_live(root) else "")


def _is_directory(root: Path, path: str) -> bool:
    try:
        return (root / path).is_dir()
    except OSError as error:  # no permission, or a name that is too long
        message = f"{path} cannot be read: {error.strerror or error}"
        raise problem(str(root), "", message, _ROOT_HINT) from None


def _read(path: Path) -> str | None:
    """The stripped text; None if there is no such file, OSError if it cannot be read (or might block for ever)."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise OSError("it is not a regular file")
        return path.read_bytes().decode("utf-8", "replace").strip()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _numbered(root: Path, parent: str, name: str) -> list[str]:
    """The subdirectories ``<name>N`` of ``parent`` by number."""
    pattern = re.compile(rf"{name}([0-9]{{1,5}})")
    try:
        entries = [entry.name for entry in (root / parent).iterdir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise problem(parent, "", f"cannot be read: {error.strerror or error}", "expected a directory") from None
    numbers = sorted(int(match[1]) for match in map(pattern.fullmatch, entries) if match)
    return [f"{parent}/{name}{number}" for number in numbers if number <= MAX_CPU]


def _paths(directories: list[str], names: tuple[str, ...]) -> Iterator[str]:
    return (f"{directory}/{name}" for directory in directories for name in names)
