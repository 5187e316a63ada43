"""Topology files edited by hand: each kind of mistake names the file, the key and what was expected."""

from __future__ import annotations

import copy
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from balloonist import topologyfile
from balloonist.problem import ProblemError
from balloonist.topologyjson import dump, to_json
from machines import machine

Document = dict[str, Any]
GOOD: Document = to_json(machine(2, 1, 2, numbering="adjacent"))


def put(*path: str | int, to: object) -> Callable[[Document], None]:
    """An edit that sets the value at ``path``."""

    def edit(document: Document) -> None:
        place: Any = document
        for part in path[:-1]:
            place = place[part]
        place[path[-1]] = to

    return edit


def drop(*path: str | int) -> Callable[[Document], None]:
    """An edit that removes the value at ``path``."""

    def edit(document: Document) -> None:
        place: Any = document
        for part in path[:-1]:
            place = place[part]
        del place[path[-1]]

    return edit


MISTAKES: dict[str, tuple[Callable[[Document], None], str, str]] = {
    "wrong version": (put("apiVersion", to="balloonist/v2"), "apiVersion", 'should be "balloonist/v1"'),
    "wrong kind": (put("kind", to="Config"), "kind", 'should be "Topology"'),
    "no node": (drop("node"), "", "'node' is missing"),
    "node in capitals": (put("node", to="W1"), "node", "has the wrong form"),
    "node is a number": (put("node", to=1), "node", "is not of type string"),
    "unknown key": (put("numa_node", to=[]), "numa_node", "did you mean 'numa_nodes'?"),
    "unknown key of a NUMA node": (put("numa_nodes", 0, "memory", to=1), "numa_nodes[0].memory", "memory_mib"),
    "no cpus": (drop("cpus"), "", "'cpus' is missing"),
    "no online": (drop("cpus", "online"), "cpus", "'online' is missing"),
    "online is a list": (put("cpus", "online", to=[0, 1]), "cpus.online", "is not of type string"),
    "online is nonsense": (put("cpus", "online", to="0..7"), "cpus.online", "has the wrong form"),
    "online is empty": (put("cpus", "online", to=""), "cpus.online", "no CPU is online"),
    "online is backwards": (put("cpus", "online", to="7-0"), "cpus.online", "ends before it begins"),
    "online has a huge id": (put("cpus", "online", to="0-999999"), "cpus.online", "larger than 65535"),
    "online is too short": (put("cpus", "online", to="0-6"), "cpus.online", "CPUs 7 are on a core but not online"),
    "online is too long": (put("cpus", "online", to="0-8"), "numa_nodes", "CPUs 8 are online but on no core"),
    "offline and online": (put("cpus", "offline", to="7"), "cpus.offline", "CPUs 7 are both online and offline"),
    "isolated is unknown": (put("cpus", "isolated", to="9"), "cpus.isolated", "CPUs 9 are neither"),
    "core type is unknown": (put("core_types", "efficiency", to="9"), "core_types.efficiency", "9 are not online"),
    "core type misspelt": (put("core_types", "efficency", to="0"), "core_types.efficency", "did you mean 'efficiency'"),
    "CPU of two core types": (
        put("core_types", to={"performance": "0-3", "efficiency": "3-7"}),
        "core_types",
        "a CPU is of more than one type",
    ),
    "node ends in a line break": (put("node", to="w1\n"), "node", "has the wrong form"),
    "CPU list ends in a line break": (put("cpus", "online", to="0-7\n"), "cpus.online", "has the wrong form"),
    "architecture is empty": (put("architecture", to=""), "architecture", "is empty"),
    "terminal codes in a name": (put("cpu_model", to="x\x1b[2J"), "cpu_model", "without control characters"),
    "terminal codes in a warning": (put("warnings", to=["\x9b2J"]), "warnings[0]", "without control characters"),
    "no packages": (put("packages", to=[]), "packages", "is empty"),
    "package twice": (put("packages", 1, "id", to=0), "packages", "id 0 is there more than once"),
    "package id negative": (put("packages", 1, "id", to=-1), "packages[1].id", "at least 0"),
    "package id is text": (put("packages", 1, "id", to="1"), "packages[1].id", "is not of type integer"),
    "packages out of order": (
        lambda document: document["packages"].reverse(),
        "packages",
        "ids [1, 0] are out of order",
    ),
    "die twice": (
        put("packages", 0, "dies", to=[{"id": 0, "cpus": "0-1"}, {"id": 0, "cpus": "2-3"}]),
        "packages[0].dies",
        "id 0 is there more than once",
    ),
    "CPU in two dies": (put("packages", 1, "dies", 0, "cpus", to="2-7"), "packages", "in more than one die"),
    "CPU in no die": (put("packages", 1, "dies", 0, "cpus", to="4-6"), "numa_nodes[1].cores[1]", "no package"),
    "die has an unknown CPU": (put("packages", 1, "dies", 0, "cpus", to="4-8"), "packages", "CPUs 8 are in a die but"),
    "no NUMA nodes": (put("numa_nodes", to=[]), "numa_nodes", "is empty"),
    "NUMA node twice": (put("numa_nodes", 1, "id", to=0), "numa_nodes", "id 0 is there more than once"),
    "NUMA nodes out of order": (
        lambda document: document["numa_nodes"].reverse(),
        "numa_nodes",
        "ids [1, 0] are out of order",
    ),
    "NUMA id is huge": (put("numa_nodes", 1, "id", to=10**30), "numa_nodes[1].id", "at most 65535"),
    "package id is huge": (put("packages", 1, "id", to=2**31), "packages[1].id", "at most 2147483647"),
    "memory is huge": (put("numa_nodes", 0, "memory_mib", to=10**400), "numa_nodes[0].memory_mib", "is too large"),
    "memory is not a number": (
        put("numa_nodes", 0, "memory_mib", to=float("nan")),
        "numa_nodes[0].memory_mib",
        "NaN is not of type integer",
    ),
    "memory is infinite": (
        put("numa_nodes", 0, "memory_mib", to=float("inf")),
        "numa_nodes[0].memory_mib",
        "Infinity is not of type integer",
    ),
    "memory is null": (put("numa_nodes", 0, "memory_mib", to=None), "numa_nodes[0].memory_mib", "null is not of type"),
    "memory is text": (
        put("numa_nodes", 0, "memory_mib", to="1024"),
        "numa_nodes[0].memory_mib",
        "not of type integer",
    ),
    "memory is negative": (put("numa_nodes", 0, "memory_mib", to=-1), "numa_nodes[0].memory_mib", "at least 0"),
    "memory has a point": (
        put("numa_nodes", 0, "memory_mib", to=2.0),
        "numa_nodes[0].memory_mib",
        "2.0 is not of type",
    ),
    "memory is true": (put("numa_nodes", 0, "memory_mib", to=True), "numa_nodes[0].memory_mib", "not of type integer"),
    "memory is missing": (drop("numa_nodes", 0, "memory_mib"), "numa_nodes[0]", "'memory_mib' is missing"),
    "too few distances": (put("numa_nodes", 0, "distances", to=[10]), "numa_nodes[0].distances", "1 distances for 2"),
    "distance too small": (
        put("numa_nodes", 0, "distances", to=[1, 21]),
        "numa_nodes[0].distances[0]",
        "at least 10",
    ),
    "distances swapped": (
        put("numa_nodes", 0, "distances", to=[21, 10]),
        "numa_nodes[0].distances",
        "the distance to itself is 21",
    ),
    "distance too large": (
        put("numa_nodes", 0, "distances", to=[10, 300]),
        "numa_nodes[0].distances[1]",
        "at most 255",
    ),
    "cores are one text": (put("numa_nodes", 0, "cores", to="0-3"), "numa_nodes[0].cores", "is not of type array"),
    "core is a number": (put("numa_nodes", 0, "cores", 0, to=0), "numa_nodes[0].cores[0]", "is not of type string"),
    "core is empty": (put("numa_nodes", 0, "cores", 0, to=""), "numa_nodes[0].cores[0]", "is empty"),
    "core is blank": (put("numa_nodes", 0, "cores", 0, to=" "), "numa_nodes[0].cores[0]", "a core has no CPU"),
    "core is nonsense": (put("numa_nodes", 0, "cores", 0, to="0+1"), "numa_nodes[0].cores[0]", "cannot read '0+1'"),
    "core is not listed": (drop("numa_nodes", 0, "cores", 0), "numa_nodes", "CPUs 0-1 are online but on no core"),
    "CPU on two cores": (
        put("numa_nodes", 0, "cores", 1, to="1-3"),
        "numa_nodes[0].cores",
        "CPU 1 is on more than one",
    ),
    "core over two packages": (put("numa_nodes", 0, "cores", 1, to="2-4"), "numa_nodes[0].cores[1]", "spread over"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_names_file_key_and_expectation(tmp_path: Path, name: str) -> None:
    edit, key, message = MISTAKES[name]
    document = copy.deepcopy(GOOD)
    edit(document)
    path = tmp_path / "w1.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ProblemError) as error:
        topologyfile.read(path)
    assert all(item.source == str(path) for item in error.value.problems)
    fitting = [item for item in error.value.problems if item.key == key and message in str(item)]
    assert fitting, str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        (" \n", "the file is empty"),
        ("{", "line 1: is not valid JSON: Expecting property name"),
        ('{\n  "node": "w1",\n}', "line 2: is not valid JSON|line 3: is not valid JSON"),
        ('{\n  "node" "w1"}', "line 2: is not valid JSON: Expecting ':' delimiter (column 10)"),
        ("[]", "is not of type object"),
        ("null", "is not of type object"),
        ("NaN", "is not of type object"),
        ('{"node": "a", "node": "b"}', "key 'node' is there twice"),
        ("[" * 100_000, "is not valid JSON"),
        ("9" * 5000, "is not valid JSON"),
        (json.dumps(GOOD)[:-40], "is not valid JSON"),
        (json.dumps({**GOOD, "cpu_model": "\ud800"}), "lone surrogate"),
    ],
)
def test_texts_that_are_no_topology(text: str, message: str) -> None:
    with pytest.raises(ProblemError) as error:
        topologyfile.parse(text, "w1.json")
    assert any(part in str(error.value) for part in message.split("|"))
    assert str(error.value).startswith("w1.json")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="cannot be read: No such file"):
        topologyfile.read(tmp_path / "none.json")
    with pytest.raises(ProblemError, match="cannot be read: Is a directory"):
        topologyfile.read(tmp_path)
    (tmp_path / "latin.json").write_bytes(b'{"node": "\xfc"}')
    with pytest.raises(ProblemError, match="is not UTF-8"):
        topologyfile.read(tmp_path / "latin.json")


def test_a_pipe_or_device_is_written_to_and_stays(tmp_path: Path) -> None:
    """Replacing the target in one step would turn /dev/null into a file."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    topology = machine(1, 1, 2)
    assert topologyfile.write(pipe, topology)
    assert os.read(reader, 100_000).decode() == dump(topology)
    os.close(reader)
    assert pipe.is_fifo()


def test_targets_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "file").write_text("")
    for name in ("loop", "file/w1.json", "a" * 300, ""):
        with pytest.raises(ProblemError, match=r"cannot be written: .+"):
            topologyfile.write(tmp_path / name, machine(1, 1, 1))


def test_a_closed_standard_input_is_said_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(ProblemError, match="standard input: is closed"):
        topologyfile.read(topologyfile.STANDARD)


def test_a_file_is_written_once_and_read_back(tmp_path: Path) -> None:
    topology = machine(offline="3", memory_only=1)
    path = tmp_path / "topology" / "w1.json"
    assert topologyfile.write(path, topology)
    assert not topologyfile.write(path, topology)
    assert topologyfile.read(path) == topology
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))  # as an editor on Windows saves it
    assert topologyfile.read(path) == topology
