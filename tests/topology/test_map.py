"""The map of a machine: golden pictures, and rules that hold for any machine, width and terminal."""

from __future__ import annotations

import io
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from balloonist.cpuset import EMPTY, Cpuset
from balloonist.sysfstopology import assemble
from balloonist.sysfstree import CPU, NODE, Snapshot
from balloonist.topology import Topology
from balloonist.topologymap import draw
from machines import machine, machines
from topology.tree import Files, Threads, linux, pairs

GOLDEN = Path(__file__).parent / "golden"


def from_files(files: Files, numa_nodes: int) -> Topology:
    """A topology out of sysfs files, without a disk."""
    directories = {f"{NODE}/node{node}" for node in range(numa_nodes)} | ({NODE} if numa_nodes else set())
    return assemble(Snapshot(files, frozenset(directories)), "w1")


def hybrid() -> Topology:
    """8 performance cores of two threads, 12 efficiency cores; two CPUs offline, two isolated."""
    cores = [*pairs(8, apart=1), *(Threads(str(cpu)) for cpu in range(16, 26))]
    files = linux(cores, {0: 1 << 25}, offline="26-27")
    files |= {f"{CPU}/isolated": "14-15", "sys/devices/cpu_core/cpus": "0-15", "sys/devices/cpu_atom/cpus": "16-27"}
    return from_files(files, 1)


def virtual() -> Topology:
    """16 packages of one CPU on two NUMA nodes."""
    cores = [Threads(str(cpu), numa=cpu // 8, package=cpu) for cpu in range(16)]
    return from_files(linux(cores, {0: 1 << 23, 1: 1 << 23}), 2)


def power() -> Topology:
    """Cores of eight threads, four of them offline, so that the CPU ids have gaps; irregular distances."""
    cores = [Threads(f"{first}-{first + 3}", numa=first // 112, package=first // 112) for first in range(0, 224, 8)]
    distances = {0: (10, 40, 80), 1: (40, 10, 60), 2: (80, 60, 10)}
    return from_files(linux(cores, {0: 1 << 28, 1: 1 << 28, 2: 1 << 26}, offline="4-223:4/8", distances=distances), 3)


@dataclass(frozen=True)
class Picture:
    """One golden picture."""

    topology: Topology
    width: int = 100
    reserved: Cpuset = EMPTY
    owners: Mapping[str, Cpuset] = field(default_factory=dict)
    unicode: bool = True


PICTURES = {
    "small-memory-only": Picture(machine(2, 1, 4, numbering="adjacent", memory_only=1)),
    "standard-with-balloons": Picture(
        machine(2, 2, 24),
        reserved=Cpuset.parse("0,1,24,25,48,49,72,73,96,120,144,168"),
        owners={
            "vllm-balloon-tp1": Cpuset.parse("2-17,98-113"),
            "vllm-balloon-tp2": Cpuset.parse("50-65,74-89,146-161,170-185"),
        },
    ),
    "512-cpus": Picture(machine(2, 4, 32), width=120, reserved=Cpuset.parse("0,32,64,96,256,288,320,352")),
    "virtual-narrow-ascii": Picture(virtual(), width=60, reserved=Cpuset.parse("0,8"), unicode=False),
    "one-numa-node": Picture(machine(1, 1, 4, 1)),
    "half-offline-cores": Picture(
        machine(2, 1, 8, offline="1,3,20,30-31"),
        reserved=Cpuset.parse("0,9,16"),
        owners={"vllm-balloon-tp1": Cpuset.parse("2,4,18"), "other": Cpuset.parse("5,21"), "twice": Cpuset.parse("21")},
    ),
    "narrow-with-many-balloons": Picture(
        machine(2, 2, 24, memory_only=1),
        width=60,
        reserved=Cpuset.parse("0,96"),
        owners={f"vllm-balloon-tp1[{i}]": Cpuset.parse(f"{4 * i + 2}-{4 * i + 5}") for i in range(12)},
    ),
    "512-cpus-16-numa-nodes": Picture(machine(2, 8, 16), width=144),
    "eight-threads": Picture(machine(2, 1, 12, 8, numbering="adjacent"), width=80),
    "hybrid": Picture(hybrid(), width=80, reserved=Cpuset.parse("0")),
    "gappy-ids": Picture(power(), width=80),
}


def text_of(picture: Picture) -> str:
    """The picture as it is printed without colours."""
    stream = io.StringIO()
    console = Console(file=stream, width=picture.width, color_system=None, highlight=False)
    console.print(draw(picture.topology, picture.reserved, picture.owners, picture.width, picture.unicode))
    return "".join(line.rstrip() + "\n" for line in stream.getvalue().splitlines())


@pytest.mark.parametrize("name", PICTURES)
def test_golden_picture(name: str) -> None:
    path = GOLDEN / f"{name}.txt"
    drawn = text_of(PICTURES[name])
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(drawn, encoding="utf-8")
    assert drawn == path.read_text(encoding="utf-8")


@given(machines(), st.integers(40, 200), st.booleans(), st.data())
@settings(max_examples=60, deadline=None)
def test_any_machine_fits_the_terminal(topology: Topology, width: int, unicode: bool, data: st.DataObject) -> None:
    online = st.sampled_from(topology.online.cpus)
    reserved = Cpuset.of(data.draw(st.sets(online, max_size=8)))
    owners = {f"balloon-{index}": Cpuset.of(data.draw(st.sets(online, max_size=8))) for index in range(3)}
    lines = text_of(Picture(topology, width, reserved, owners, unicode)).splitlines()
    assert max(map(len, lines)) <= width
    boxes = "".join(lines)
    assert all(f"NUMA {numa.id}" in boxes for numa in topology.numa_nodes)
    if not unicode:
        assert boxes.isascii()


@given(machines(), st.data())
@settings(max_examples=30, deadline=None)
def test_every_core_has_one_mark(topology: Topology, data: st.DataObject) -> None:
    """The numbers of the legend add up to all cores; reserved and owned CPUs are apart."""
    cores = data.draw(st.sets(st.sampled_from(topology.cores), max_size=6))
    reserved = Cpuset.of(cpu for core in cores for cpu in core.cpus)
    owned = data.draw(st.sets(st.sampled_from(topology.cores), max_size=6)) - cores
    owners = {"mine": Cpuset.of(cpu for core in owned for cpu in core.cpus)}
    drawn = text_of(Picture(topology, 300, reserved, owners))

    assert f"R reserved ({len(cores)})" in drawn or not cores
    assert f"A mine ({len(owned)} core" in drawn


@pytest.mark.parametrize("width", [30, 40, 50, 60])
def test_narrow_terminals_lose_no_words(width: int) -> None:
    drawn = text_of(Picture(machine(2, 2, 24, memory_only=1), width))
    assert "31 to memory without CPUs" in " ".join(drawn.split())
    titles = [line for line in drawn.splitlines() if "NUMA 0 ·" in line]
    assert all(re.search(r"NUMA 0 · 256 GiB (· 48 CPUs )?─", title) for title in titles)


def test_core_of_two_owners_is_seen() -> None:
    owners = {"one": Cpuset.parse("0"), "two": Cpuset.parse("2")}
    drawn = text_of(Picture(machine(1, 1, 2), owners=owners))
    assert "* 0,2" in drawn
    assert "* core of several owners (1)" in drawn


def test_the_largest_machine_is_drawn_quickly() -> None:
    started = time.process_time()
    text_of(Picture(machine(1, 1, 16_384)))
    assert time.process_time() - started < 5


def test_512_cpus_fit_one_screen() -> None:
    assert len(text_of(PICTURES["512-cpus"]).splitlines()) <= 24


def test_small_machines_show_the_cpus_of_every_core() -> None:
    drawn = text_of(Picture(machine(1, 1, 6)))
    assert all(f". {core.cpus.listing}" in drawn for core in machine(1, 1, 6).cores)


def test_more_owners_than_letters() -> None:
    topology = machine(1, 1, 64, 1)
    owners = {f"owner-{cpu}": Cpuset.of([cpu]) for cpu in range(60)}
    drawn = text_of(Picture(topology, owners=owners))
    assert "# owner-59 (1 core)" in drawn


def test_odd_ids_and_names() -> None:
    """Package ids of ARM firmware can be large, and a CPU's name can be anything."""
    topology = from_files(linux([Threads("0", package=123_456_789)], {0: 0}), 1)
    drawn = text_of(Picture(replace(topology, cpu_model="Prozessor [bold]ü"), unicode=False))
    assert "package 123456789" in drawn
    assert "Prozessor [bold]?" in drawn


def test_marks_are_readable_without_colour_and_coloured_with_it() -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=100, force_terminal=True, color_system="standard", no_color=False)
    console.print(draw(machine(1, 1, 2), Cpuset.parse("0,2")))
    assert "\x1b[1;31mR\x1b[0m" in stream.getvalue()
    plain = io.StringIO()
    Console(file=plain, width=100, force_terminal=True, no_color=True).print(
        draw(machine(1, 1, 2), Cpuset.parse("0,2"))
    )
    assert "31m" not in plain.getvalue()
