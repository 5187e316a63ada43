"""Trees that cannot be true: each is refused with the file, what it says and what was expected; never a traceback."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from balloonist import sysfs
from balloonist.problem import ProblemError
from balloonist.sysfstopology import assemble
from balloonist.sysfstree import Snapshot
from topology.tree import CPU, NODE, Files, Threads, linux, pairs, write

Edit = Callable[[Files], None]


def good() -> Files:
    """Two packages, each one NUMA node with two cores of adjacent threads."""
    machine = [*pairs(2, apart=1), *pairs(2, apart=1, numa=1, package=1, first=4)]
    return linux(machine, {0: 1 << 25, 1: 1 << 25})


def set_to(path: str, text: str) -> Edit:
    return lambda files: files.__setitem__(path, text)


def without(*paths: str) -> Edit:
    def edit(files: Files) -> None:
        for path in [name for name in files if name.startswith(paths)]:
            del files[path]

    return edit


TOPOLOGY = f"{CPU}/cpu1/topology"
FAULTS: dict[str, tuple[Edit, str, str]] = {
    "online missing": (without(f"{CPU}/online"), f"{CPU}/online", "is missing"),
    "online empty": (set_to(f"{CPU}/online", ""), f"{CPU}/online", "is empty"),
    "online broken": (set_to(f"{CPU}/online", "0-7,"), f"{CPU}/online", "'0-7,'"),
    "online backwards": (set_to(f"{CPU}/online", "7-0"), f"{CPU}/online", "ends before it begins"),
    "online shortened": (set_to(f"{CPU}/online", "0-3"), f"{CPU}/present", "CPUs 4-7 are present, but neither"),
    "online too many": (set_to(f"{CPU}/online", "0-8"), f"{CPU}/online", "CPUs 8 are online but not present"),
    "online binary": (set_to(f"{CPU}/online", "\x00\x01"), f"{CPU}/online", "is not a cpuset"),
    "present empty": (set_to(f"{CPU}/present", ""), f"{CPU}/present", "is empty"),
    "present broken": (set_to(f"{CPU}/present", "all"), f"{CPU}/present", "'all'"),
    "online and offline": (set_to(f"{CPU}/offline", "3"), f"{CPU}/offline", "CPUs 3 are both online and offline"),
    "offline broken": (set_to(f"{CPU}/offline", "x"), f"{CPU}/offline", "'x'"),
    "isolated broken": (set_to(f"{CPU}/isolated", "1;2"), f"{CPU}/isolated", "'1;2'"),
    "no siblings": (without(f"{TOPOLOGY}/core_cpus", f"{TOPOLOGY}/thread"), f"{TOPOLOGY}/core_cpus_list", "missing"),
    "no topology": (without(TOPOLOGY), f"{TOPOLOGY}/core_cpus_list", "is missing"),
    "siblings empty": (set_to(f"{TOPOLOGY}/core_cpus_list", ""), f"{TOPOLOGY}/core_cpus_list", "is empty"),
    "siblings broken": (set_to(f"{TOPOLOGY}/core_cpus_list", "0-"), f"{TOPOLOGY}/core_cpus_list", "'0-'"),
    "not its own sibling": (set_to(f"{TOPOLOGY}/core_cpus_list", "0"), TOPOLOGY, "without CPU 1 itself"),
    "siblings disagree": (set_to(f"{TOPOLOGY}/core_cpus_list", "1"), f"{CPU}/cpu0/topology", "CPUs 0-1 share a core"),
    "sibling not there": (set_to(f"{TOPOLOGY}/core_cpus_list", "0-1,9"), TOPOLOGY, "CPUs 9 that are not present"),
    "package not a number": (set_to(f"{TOPOLOGY}/physical_package_id", "x"), TOPOLOGY, "'x' is not a number"),
    "package empty": (set_to(f"{TOPOLOGY}/physical_package_id", ""), f"{TOPOLOGY}/physical_package_id", "is empty"),
    "package negative": (set_to(f"{TOPOLOGY}/physical_package_id", "-2"), TOPOLOGY, "'-2' is not a number"),
    "siblings in two packages": (set_to(f"{TOPOLOGY}/physical_package_id", "1"), f"{CPU}/cpu0", "spread over package"),
    "siblings in two dies": (set_to(f"{TOPOLOGY}/die_id", "3"), f"{CPU}/cpu0/topology", "package 0 die 3"),
    "capacity broken": (
        lambda files: files.update({f"{CPU}/cpu{cpu}/cpu_capacity": "²" for cpu in range(8)}),
        f"{CPU}/cpu0/cpu_capacity",
        "is not a number",
    ),
    "both core types": (
        lambda files: files.update({"sys/devices/cpu_core/cpus": "0-4", "sys/devices/cpu_atom/cpus": "4-7"}),
        "sys/devices/cpu_atom/cpus",
        "CPUs 4 are in sys/devices/cpu_core/cpus as well",
    ),
    "NUMA nodes differ": (set_to(f"{NODE}/online", "0-2"), f"{NODE}/node2", "is missing"),
    "NUMA node not listed": (set_to(f"{NODE}/online", "0"), f"{NODE}/online", "there is a directory node1"),
    "NUMA online broken": (set_to(f"{NODE}/online", "0+1"), f"{NODE}/online", "'0+1'"),
    "NUMA online empty": (set_to(f"{NODE}/online", ""), f"{NODE}/online", "is empty"),
    "cpulist missing": (without(f"{NODE}/node1/cpulist"), f"{NODE}/node1/cpulist", "is missing"),
    "cpulist broken": (set_to(f"{NODE}/node1/cpulist", "4-x"), f"{NODE}/node1/cpulist", "'4-x'"),
    "cpulist shortened": (set_to(f"{NODE}/node1/cpulist", "4-5"), NODE, "CPUs 6-7 are online but on no NUMA node"),
    "cpulist overlaps": (set_to(f"{NODE}/node1/cpulist", "3-7"), f"{NODE}/node1/cpulist", "node0/cpulist as well"),
    "cpulist has unknown": (set_to(f"{NODE}/node1/cpulist", "4-9"), f"{NODE}/node1/cpulist", "lists CPUs 8-9"),
    "siblings on two NUMA nodes": (
        lambda files: files.update({f"{NODE}/node0/cpulist": "0,2-3", f"{NODE}/node1/cpulist": "1,4-7"}),
        f"{CPU}/cpu0/topology/core_cpus_list",
        "siblings 0-1 are on NUMA nodes 0, 1",
    ),
    "meminfo missing": (without(f"{NODE}/node1/meminfo"), f"{NODE}/node1/meminfo", "is missing"),
    "meminfo empty": (set_to(f"{NODE}/node1/meminfo", ""), f"{NODE}/node1/meminfo", "is empty"),
    "meminfo truncated": (set_to(f"{NODE}/node1/meminfo", "Node 1 MemTo"), f"{NODE}/node1/meminfo", "no line MemTotal"),
    "meminfo cut in the number": (set_to(f"{NODE}/node1/meminfo", "Node 1 MemTotal: 33"), NODE, "no line MemTotal"),
    "distance missing": (without(f"{NODE}/node1/distance"), f"{NODE}/node1/distance", "is missing"),
    "distance too short": (set_to(f"{NODE}/node1/distance", "21"), f"{NODE}/node1/distance", "says '21'"),
    "distance no numbers": (set_to(f"{NODE}/node1/distance", "a b"), f"{NODE}/node1/distance", "says 'a b'"),
    "distance too large": (set_to(f"{NODE}/node1/distance", "256 10"), f"{NODE}/node1/distance", "to 255"),
    "distances swapped": (set_to(f"{NODE}/node1/distance", "10 21"), f"{NODE}/node1/distance", "is 21 from itself"),
    "distance cut off": (set_to(f"{NODE}/node0/distance", "10 2"), f"{NODE}/node0/distance", "10 (local)"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_named_with_its_file(tmp_path: Path, name: str) -> None:
    edit, path, message = FAULTS[name]
    files = good()
    edit(files)
    with pytest.raises(ProblemError) as error:
        sysfs.collect(write(tmp_path, files), "w1")
    assert any(item.source.startswith(path) and message in str(item) for item in error.value.problems), str(error.value)


def test_the_tree_of_these_faults_is_good(tmp_path: Path) -> None:
    assert sysfs.collect(write(tmp_path, good()), "w1").warnings == ()


def test_view_of_a_container_filesystem_is_refused(tmp_path: Path) -> None:
    """lxc/lxcfs#731: one CPU online of 32 present, none offline."""
    files = linux([Threads(str(cpu)) for cpu in range(32)], {0: 1 << 25})
    files |= {f"{CPU}/online": "0", f"{CPU}/offline": ""}
    with pytest.raises(ProblemError, match="not the host's view"):
        sysfs.collect(write(tmp_path, files), "w1")


def test_view_that_shows_only_the_containers_cpus_is_refused(tmp_path: Path) -> None:
    """Newer container filesystems shorten every list below cpu/, but not those of the NUMA nodes."""
    files = linux([Threads(str(cpu)) for cpu in range(32)], {0: 1 << 25})
    files |= {f"{CPU}/online": "0-1", f"{CPU}/present": "0-1", f"{CPU}/possible": "0-1"}
    with pytest.raises(ProblemError, match="not the host's view"):
        sysfs.collect(write(tmp_path, files), "w1")


def test_cpus_on_no_numa_node_are_listed(tmp_path: Path) -> None:
    """open-mpi/hwloc#430: the directories of NUMA nodes 1 and 3 are not there."""
    files = linux([Threads(str(cpu), numa=0 if cpu < 12 else 2) for cpu in range(24)], {0: 1 << 25, 2: 1 << 25})
    files |= {f"{NODE}/node0/cpulist": "0-5", f"{NODE}/node2/cpulist": "6-11"}
    with pytest.raises(ProblemError, match="CPUs 12-23 are online but on no NUMA node"):
        sysfs.collect(write(tmp_path, files), "w1")


def test_faults_are_reported_together(tmp_path: Path) -> None:
    files = good()
    files |= {f"{TOPOLOGY}/core_cpus_list": "1-", f"{NODE}/node1/distance": "x", f"{CPU}/isolated": "y"}
    del files[f"{NODE}/node0/meminfo"]
    with pytest.raises(ProblemError) as error:
        sysfs.collect(write(tmp_path, files), "w1")
    sources = {item.source for item in error.value.problems}
    expected = (f"{TOPOLOGY}/core_cpus_list", f"{NODE}/node1/distance", f"{CPU}/isolated", f"{NODE}/node0/meminfo")
    assert sources.issuperset(expected)


def test_many_equal_faults_are_cut_short_with_their_number(tmp_path: Path) -> None:
    files = linux([Threads(str(cpu)) for cpu in range(200)], {0: 1 << 25})
    without(*(f"{CPU}/cpu{cpu}/topology" for cpu in range(200)))(files)
    files |= {f"{CPU}/cpu{cpu}/uevent": "" for cpu in range(200)}
    with pytest.raises(ProblemError, match="and 150 more findings"):
        sysfs.collect(write(tmp_path, files), "w1")


@pytest.mark.parametrize("tree", ["", "sys", "sys/devices/system/node/node0"])
def test_directory_that_is_no_machine(tmp_path: Path, tree: str) -> None:
    (tmp_path / tree).mkdir(parents=True, exist_ok=True)
    with pytest.raises(ProblemError, match="has no sys/devices/system/cpu") as error:
        sysfs.collect(tmp_path, "w1")
    assert str(tmp_path) in str(error.value)


def test_directory_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(ProblemError, match="has no sys/devices/system/cpu"):
        sysfs.collect(tmp_path / "nowhere", "w1")


def test_root_that_cannot_be_looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that is too long, a loop of symbolic links, a directory without permission: a sentence each."""
    with pytest.raises(ProblemError, match="cannot be read: File name too long"):
        sysfs.collect(tmp_path / ("a" * 300), "w1")
    (tmp_path / "loop").symlink_to("loop")
    assert not sysfs.is_live(tmp_path / "loop")
    with pytest.raises(ProblemError, match="has no sys/devices/system/cpu"):
        sysfs.collect(tmp_path / "loop", "w1")

    def refuse(path: Path) -> bool:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "is_dir", refuse)
    with pytest.raises(ProblemError, match="cannot be read: Permission denied"):
        sysfs.collect(tmp_path, "w1")


def test_directory_of_cpus_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> Iterator[Path]:
        raise PermissionError(13, "Permission denied", str(path))

    write(tmp_path, good())
    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(ProblemError, match=f"{CPU}: cannot be read: Permission denied"):
        sysfs.collect(tmp_path, "w1")


def test_empty_numa_directory(tmp_path: Path) -> None:
    files = linux([Threads("0")], None)
    write(tmp_path, files)
    (tmp_path / NODE).mkdir()
    with pytest.raises(ProblemError, match=f"{NODE}/online: is missing"):
        sysfs.collect(tmp_path, "w1")


def test_numa_node_whose_directory_is_empty(tmp_path: Path) -> None:
    write(tmp_path, good())
    (tmp_path / NODE / "node2").mkdir()
    with pytest.raises(ProblemError, match=f"{NODE}/node2/cpulist: is missing"):
        sysfs.collect(tmp_path, "w1")


def test_file_that_is_a_directory_or_a_pipe(tmp_path: Path) -> None:
    write(tmp_path, good())
    (tmp_path / CPU / "online").unlink()
    (tmp_path / CPU / "online").mkdir()
    (tmp_path / CPU / "present").unlink()
    os.mkfifo(tmp_path / CPU / "present")
    with pytest.raises(ProblemError) as error:
        sysfs.collect(tmp_path, "w1")
    found = [(item.source, item.message) for item in error.value.problems]
    assert found == [(f"{CPU}/{name}", "cannot be read: it is not a regular file") for name in ("online", "present")]


def test_unreadable_files_are_all_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    write(tmp_path, good())
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(ProblemError, match=f"{CPU}/online: cannot be read: Permission denied"):
        sysfs.collect(tmp_path, "w1")


@pytest.mark.parametrize("length", [0, 1, 3])
@pytest.mark.parametrize("path", [path for path in good() if path != "proc/cpuinfo" and "isolated" not in path])
def test_truncated_files_never_shorten_the_machine(path: str, length: int) -> None:
    """Whatever file is cut off: the CPUs are all there, or the tree is refused."""
    files = good()
    files[path] = files[path][:length]
    directories = {NODE, *(name.rsplit("/topology", 1)[0] for name in files if "/topology/" in name)}
    directories |= {f"{NODE}/node{node}" for node in (0, 1)}
    try:
        topology = assemble(Snapshot(files, frozenset(directories)), "w1")
    except ProblemError:
        return
    assert topology.online.text == "0-7"
    assert [core.cpus.text for core in topology.cores] == ["0-1", "2-3", "4-5", "6-7"]
    assert [len(numa.cpus) for numa in topology.numa_nodes] == [4, 4]
