"""The commands collect, synthesize and show, as a person runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from balloonist import topologyfile
from balloonist.topology import Topology
from balloonist.topologyjson import dump
from commands import balloonist
from machines import machine
from topology.tree import CPU, Threads, linux, of_topology, write


@pytest.fixture
def small() -> Topology:
    """One package, two cores of two threads."""
    return machine(1, 1, 2, node="small")


@pytest.fixture
def small_file(tmp_path: Path, small: Topology) -> Path:
    """The file of the small machine."""
    path = tmp_path / "small.json"
    path.write_text(dump(small))
    return path


def test_collect_writes_the_file_and_says_so(tmp_path: Path, small: Topology) -> None:
    root = write(tmp_path / "root", of_topology(small))
    target = tmp_path / "deep" / "w1.json"
    outcome = balloonist("topology", "collect", "--root", root, "--node", "small", "-o", target)
    assert (outcome.code, outcome.out) == (0, "")
    assert f"wrote {target}" in outcome.err
    assert topologyfile.read(target) == small


def test_collect_to_standard_output_and_show_from_standard_input(tmp_path: Path, small: Topology) -> None:
    root = write(tmp_path / "root", of_topology(small))
    collected = balloonist("topology", "collect", "--root", root, "--node", "small", "-o", "-")
    assert (collected.code, collected.err) == (0, "")
    assert json.loads(collected.out)["node"] == "small"
    shown = balloonist("topology", "show", "-", stdin=collected.out)
    assert shown.code == 0
    assert "package 0" in shown.out


def test_recorded_tree_is_not_named_after_this_host(tmp_path: Path, small: Topology) -> None:
    root = write(tmp_path / "Rack_7.w3", of_topology(small))
    assert json.loads(balloonist("topology", "collect", "--root", root).out)["node"] == "rack-7.w3"
    write(root, {"etc/hostname": "Worker_3.example.com"})
    assert json.loads(balloonist("topology", "collect", "--root", root).out)["node"] == "worker-3.example.com"


def test_collect_of_this_machine() -> None:
    outcome = balloonist("topology", "collect")
    assert outcome.code == 0
    assert topologyfile.parse(outcome.out, "here").online


def test_collect_warns_on_standard_error(tmp_path: Path) -> None:
    root = write(tmp_path / "w1", linux([Threads("0")], {0: 1 << 25}, offline="1"))
    outcome = balloonist("topology", "collect", "--root", root)
    assert outcome.code == 0
    assert "warning: w1: CPUs 1 are offline" in outcome.err
    assert json.loads(outcome.out)["warnings"] == ["CPUs 1 are offline"]


def test_collect_of_a_broken_tree_leaves_the_old_file(tmp_path: Path, small: Topology) -> None:
    root = write(tmp_path / "root", of_topology(small))
    (root / CPU / "online").write_text("0-")
    target = tmp_path / "w1.json"
    target.write_text("old")
    outcome = balloonist("topology", "collect", "--root", root, "-o", target)
    assert outcome.code == 1
    assert f"error: {CPU}/online: '0-' is not a cpuset" in outcome.err
    assert target.read_text() == "old"


def test_collect_from_nowhere(tmp_path: Path) -> None:
    outcome = balloonist("topology", "collect", "--root", tmp_path / "none")
    assert outcome.code == 1
    assert "has no sys/devices/system/cpu" in outcome.err


@pytest.mark.parametrize("name", ["Upper", "a_b", "-a", "a.", "", "a" * 254, "ä", "a\n"])
def test_names_that_no_node_has(name: str) -> None:
    for command in ("collect", "synthesize"):
        outcome = balloonist("topology", command, "--node", name)
        assert outcome.code == 1
        assert "is no node name" in outcome.err


def test_synthesize_writes_what_was_asked_for() -> None:
    numbers = ("--packages", 1, "--numa-per-package", 3, "--cores-per-numa", 2, "--numbering", "adjacent")
    more = ("--offline", "1", "--memory-only-nodes", 1, "--memory-gib", 64, "--node", "w9", "--threads-per-core", 2)
    outcome = balloonist("topology", "synthesize", *numbers, *more)
    assert outcome.code == 0
    expected = machine(1, 3, 2, node="w9", numbering="adjacent", offline="1", memory_only=1, memory_gib=64)
    assert topologyfile.parse(outcome.out, "w9") == expected


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--packages", "0"), 1, "--packages: 0 is too small"),
        (("--offline", "3-"), 1, "--offline: '3-' is not a cpuset"),
        (("--offline", "999"), 1, "there are no CPUs 999"),
        (("--numbering", "odd"), 2, "'odd' is not one of"),
        (("--packages", "two"), 2, "not a valid integer"),
    ],
)
def test_synthesize_refuses(arguments: tuple[str, ...], code: int, message: str) -> None:
    outcome = balloonist("topology", "synthesize", *arguments)
    assert (outcome.code, outcome.out) == (code, "")
    assert message in outcome.err


def test_show_marks_reserved_cpus(small_file: Path) -> None:
    outcome = balloonist("topology", "show", small_file, "--reserved", "0,2")
    assert outcome.code == 0
    assert "R 0,2" in outcome.out
    assert "R reserved (1)" in outcome.out


def test_show_as_data(small_file: Path) -> None:
    as_json = balloonist("topology", "show", small_file, "-o", "json")
    assert json.loads(as_json.out) == json.loads(small_file.read_text())
    as_yaml = balloonist("topology", "show", small_file, "-o", "yaml")
    assert "node: small" in as_yaml.out


@pytest.mark.parametrize(("reserved", "message"), [("0-", "'0-' is not a cpuset"), ("77", "77")])
def test_show_refuses_cpus_that_are_not_there(small_file: Path, reserved: str, message: str) -> None:
    outcome = balloonist("topology", "show", small_file, "--reserved", reserved)
    assert outcome.code == 1
    assert "--reserved" in outcome.err
    assert message in outcome.err


@pytest.mark.parametrize("command", ["collect", "synthesize", "show"])
def test_help_has_an_example(command: str) -> None:
    outcome = balloonist("topology", command, "--help")
    assert outcome.code == 0
    assert f"balloonist topology {command}" in outcome.out.split("Example:")[1]


def test_terminal_without_unicode(small_file: Path) -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "NO_COLOR": "1"}
    command = [sys.executable, "-m", "balloonist", "topology", "show", str(small_file)]
    outcome = subprocess.run(command, env=environment, capture_output=True, check=True)
    assert outcome.stdout.isascii()
    assert b"+- package 0 -" in outcome.stdout


@pytest.mark.parametrize("form", ["table", "json", "yaml"])
def test_reader_that_goes_away(tmp_path: Path, form: str) -> None:
    """As with ``| head -1``: no traceback, whatever is printed."""
    path = tmp_path / "large.json"
    path.write_text(dump(machine(2, 8, 256)))
    command = [sys.executable, "-m", "balloonist", "topology", "show", str(path), "-o", form]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stdout
        assert running.stderr
        running.stdout.close()
        assert running.stderr.read() == b""


def test_tree_below_a_loop_of_links(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    outcome = balloonist("topology", "collect", "--root", tmp_path / "loop")
    assert outcome.code == 1
    assert "has no sys/devices/system/cpu" in outcome.err
    outcome = balloonist("topology", "synthesize", "-o", tmp_path / "loop")
    assert outcome.code == 1
    assert f"{tmp_path / 'loop'}: cannot be written" in outcome.err


def test_standard_input_that_is_no_text(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "balloonist", "topology", "show", "-"]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    outcome = subprocess.run(command, env=environment, input=b'{"node": "\xff"}', capture_output=True, check=False)
    assert outcome.returncode == 1
    assert b"standard input: is not UTF-8 text" in outcome.stderr
