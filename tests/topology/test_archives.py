"""Trees recorded on a real kernel: the collector says what the kernel itself said, line by line of its log."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path

import pytest

from balloonist import sysfs
from balloonist.cpuset import Cpuset
from balloonist.topology import Topology

ARCHIVES = Path(__file__).parent / "archives"
NAMES = sorted(path.name.removesuffix(".tar.gz") for path in ARCHIVES.glob("*.tar.gz"))

ONLINE = re.compile(r"LAB online cpus (\S+) nodes (\S+) has_cpu (\S+)")
NUMA = re.compile(r"LAB node(\d+) cpus=(\S*) dist=([\d ]+) Node \d+ MemTotal:\s+(\d+) kB")
THREAD = re.compile(r"LAB cpu(\d+) pkg=(\d+) die=(\d+) core=\d+ sibl=(\S+)")


@pytest.fixture(params=NAMES)
def recorded(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Topology, str]:
    """What was collected from an archive, and the log of the kernel it was recorded on."""
    name = request.param
    with tarfile.open(ARCHIVES / f"{name}.tar.gz") as archive:
        members = [item for item in archive.getmembers() if item.isfile() or item.isdir()]
        archive.extractall(tmp_path, members, filter="data")
    return sysfs.collect(tmp_path, name), (ARCHIVES / f"{name}.log").read_text()


def test_there_are_archives() -> None:
    assert len(NAMES) == 7


def test_online_cpus_and_numa_nodes(recorded: tuple[Topology, str]) -> None:
    topology, log = recorded
    said = ONLINE.search(log)
    assert said
    assert topology.online == Cpuset.parse(said[1])
    assert Cpuset.of(numa.id for numa in topology.numa_nodes) == Cpuset.parse(said[2])
    assert Cpuset.of(numa.id for numa in topology.numa_nodes if numa.cores) == Cpuset.parse(said[3])


def test_cpus_memory_and_distances_of_each_numa_node(recorded: tuple[Topology, str]) -> None:
    topology, log = recorded
    found = NUMA.findall(log)
    assert len(found) == len(topology.numa_nodes)
    for node, cpus, distances, kilobytes in found:
        numa = topology.numa(int(node))
        assert numa.cpus == Cpuset.parse(cpus)
        assert numa.distances == tuple(map(int, distances.split()))
        assert numa.memory_mib == int(kilobytes) // 1024


def test_siblings_packages_and_dies(recorded: tuple[Topology, str]) -> None:
    topology, log = recorded
    found = THREAD.findall(log)
    assert found
    for cpu, package, die, siblings in found:
        (core,) = [core for core in topology.cores if int(cpu) in core.cpus]
        assert core.cpus == Cpuset.parse(siblings)
        assert (core.package, core.die) == (int(package), int(die))


def test_offline_cpus_and_the_shape_in_the_name(recorded: tuple[Topology, str]) -> None:
    topology, _ = recorded
    switched_off = "3,6-7,12" if topology.node.endswith("-offline") else ""
    assert topology.offline == Cpuset.parse(switched_off)
    shape = dict(re.findall(r"\b([nst])(\d)", topology.node))
    assert len(topology.numa_nodes) == int(shape["n"])
    assert len(topology.packages) == int(shape.get("s", 1))
    assert topology.threads_per_core == int(shape["t"])
    assert topology.cpu_model == "QEMU TCG CPU version 2.5+"
    assert topology.architecture == "x86_64"
    assert topology.warnings == ((f"CPUs {switched_off} are offline",) if switched_off else ())


def test_half_offline_cores_keep_their_online_thread(tmp_path: Path) -> None:
    with tarfile.open(ARCHIVES / "n2-s2-c4-t2-offline.tar.gz") as archive:
        members = [item for item in archive.getmembers() if item.isfile() or item.isdir()]
        archive.extractall(tmp_path, members, filter="data")
    topology = sysfs.collect(tmp_path, "w1")
    assert [core.cpus.text for core in topology.cores] == ["0-1", "2", "4-5", "8-9", "10-11", "13", "14-15"]
