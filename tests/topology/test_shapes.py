"""Machines of many kinds: each is written as a sysfs tree and has to come out right."""

from __future__ import annotations

from pathlib import Path

import pytest

from balloonist import sysfs, topologyfile
from balloonist.cpuset import Cpuset
from balloonist.topology import Topology
from balloonist.topologyjson import dump
from topology.tree import CPU, NODE, Files, Threads, linux, pairs, write


def collect(root: Path, files: Files) -> Topology:
    return sysfs.collect(write(root, files), "w1")


def cores(topology: Topology) -> list[str]:
    return [core.cpus.text for core in topology.cores]


def test_one_offline_cpu_leaves_a_core_with_one_thread(tmp_path: Path) -> None:
    """kubernetes/kubernetes#124066: 96 CPUs, siblings n and n+48, CPU 95 offline; its directory is still there."""
    machine = [Threads(f"{cpu},{cpu + 48}" if cpu < 47 else "47", numa=cpu // 24) for cpu in range(48)]
    files = linux(machine, {0: 1 << 28, 1: 1 << 28}, offline="95")
    files[f"{CPU}/cpu95/online"] = "0"
    topology = collect(tmp_path, files)
    assert len(topology.online) == 95
    assert topology.cores[-1].cpus == Cpuset.parse("47")
    assert topology.offline == Cpuset.parse("95")
    assert topology.warnings == ("CPUs 95 are offline",)


def test_numa_node_with_all_cpus_offline_is_memory_only(tmp_path: Path) -> None:
    """kubernetes/kubernetes#98121: interleaved numbering, every CPU of NUMA node 1 is offline."""
    odd = ",".join(map(str, range(1, 16, 2)))
    files = linux([Threads(str(cpu)) for cpu in range(0, 16, 2)], {0: 1 << 25, 1: 1 << 25}, offline=odd)
    topology = collect(tmp_path, files)
    assert topology.numa(1).cores == ()
    assert topology.numa(1).memory_mib == 32_768
    assert topology.numa(0).cpus == Cpuset.parse("0-14:2")


def test_cpus_without_memory_of_their_own_count_with_a_warning(tmp_path: Path) -> None:
    """open-mpi/hwloc#430: dies without local memory."""
    machine = [Threads(str(cpu), numa=cpu // 6) for cpu in range(24)]
    topology = collect(tmp_path, linux(machine, {0: 1 << 25, 1: 0, 2: 1 << 25, 3: 0}))
    assert len(topology.online) == 24
    assert [numa.memory_mib for numa in topology.numa_nodes] == [32_768, 0, 32_768, 0]
    assert topology.warnings == tuple(f"NUMA node {node} has CPUs but no memory of its own" for node in (1, 3))


def hybrid() -> list[Threads]:
    return [*pairs(8, apart=1), *(Threads(str(cpu)) for cpu in range(16, 28))]


def test_hybrid_machine_by_siblings_and_named_core_types(tmp_path: Path) -> None:
    """kubernetes/kubernetes#140495: 8 P-cores of two threads and 12 E-cores of one."""
    files = linux(hybrid(), {0: 1 << 25})
    files |= {"sys/devices/cpu_core/cpus": "0-15", "sys/devices/cpu_atom/cpus": "16-27"}
    topology = collect(tmp_path, files)
    assert cores(topology) == [core.cpus for core in hybrid()]
    assert topology.threads_per_core == 2
    assert dict(topology.core_types) == {
        "performance": Cpuset.parse("0-15"),
        "efficiency": Cpuset.parse("16-27"),
    }
    assert topology.warnings == ("the machine mixes performance cores (0-15) and efficiency cores (16-27)",)


def test_hybrid_machine_whose_kernel_names_no_core_types(tmp_path: Path) -> None:
    topology = collect(tmp_path, linux(hybrid(), {0: 1 << 25}))
    assert topology.core_types == ()
    assert len(topology.cores) == 20


def test_arm_core_types_come_from_the_capacity(tmp_path: Path) -> None:
    files = linux([Threads(str(cpu)) for cpu in range(8)], None)
    capacities = (446, 446, 446, 446, 871, 871, 871, 1024)
    files |= {f"{CPU}/cpu{cpu}/cpu_capacity": str(capacity) for cpu, capacity in enumerate(capacities)}
    topology = collect(tmp_path, files)
    assert dict(topology.core_types) == {"efficiency": Cpuset.parse("0-6"), "performance": Cpuset.parse("7")}


def test_equal_or_partial_capacities_mean_no_core_types(tmp_path: Path) -> None:
    files = linux([Threads(str(cpu)) for cpu in range(4)], None)
    equal = files | {f"{CPU}/cpu{cpu}/cpu_capacity": "1024" for cpu in range(4)}
    assert collect(tmp_path / "equal", equal).core_types == ()
    nearly = files | {f"{CPU}/cpu{cpu}/cpu_capacity": str(1024 - cpu * 20) for cpu in range(4)}
    assert collect(tmp_path / "nearly", nearly).core_types == ()
    partial = files | {f"{CPU}/cpu0/cpu_capacity": "1024", f"{CPU}/cpu1/cpu_capacity": "512"}
    assert collect(tmp_path / "partial", partial).core_types == ()


def test_smt_eight_with_four_threads_switched_off(tmp_path: Path) -> None:
    """ibm-power-utilities/powerpc-utils#104: in each core of eight threads, 4 to 7 are offline."""
    machine = [Threads(f"{first}-{first + 3}", numa=first // 56) for first in range(0, 112, 8)]
    files = linux(machine, {0: 1 << 25, 1: 1 << 25}, offline="4-111:4/8")
    files |= {f"{CPU}/online": "0-111:4/8"}
    files |= {
        f"{CPU}/cpu{cpu}/topology/core_cpus_list": f"{core * 8}-{core * 8 + 7}"  # the offline ones are named as well
        for core in range(14)
        for cpu in range(core * 8, core * 8 + 4)
    }
    topology = collect(tmp_path, files)
    assert topology.threads_per_core == 4
    assert cores(topology)[:2] == ["0-3", "8-11"]
    assert topology.offline == Cpuset.parse("4-111:4/8")


@pytest.mark.parametrize("threads", [1, 2, 4, 8])
def test_numbering_does_not_matter(tmp_path: Path, threads: int) -> None:
    adjacent = [Threads(Cpuset.of(range(core * threads, core * threads + threads)).text) for core in range(6)]
    split = [Threads(Cpuset.of(core + 6 * thread for thread in range(threads)).text) for core in range(6)]
    for name, machine in (("adjacent", adjacent), ("split", split)):
        topology = collect(tmp_path / name, linux(machine, {0: 1 << 25}))
        assert cores(topology) == [core.cpus for core in machine]
        assert topology.threads_per_core == threads


def test_gappy_cpu_and_numa_ids(tmp_path: Path) -> None:
    machine = [Threads("0,64", 0), Threads("3,67", 0), Threads("16,80", 8, 1), Threads("255", 8, 1)]
    distances = {0: (10, 40, 80), 8: (40, 10, 80), 252: (80, 80, 10)}
    files = linux(machine, {0: 1 << 25, 8: 1 << 25, 252: 1 << 24}, distances=distances)
    topology = collect(tmp_path, files)
    assert [numa.id for numa in topology.numa_nodes] == [0, 8, 252]
    assert topology.numa(252).cores == ()
    assert topology.numa(8).distances == (40, 10, 80)
    assert topology.online == Cpuset.parse("0,3,16,64,67,80,255")


def test_arm_board_without_numa_die_and_package(tmp_path: Path) -> None:
    """kubernetes-sigs/dra-driver-cpu#106: no NUMA directory, no die_id, package -1."""
    files = linux([Threads(str(cpu)) for cpu in range(4)], None)
    for cpu in range(4):
        files[f"{CPU}/cpu{cpu}/topology/physical_package_id"] = "-1"
        del files[f"{CPU}/cpu{cpu}/topology/die_id"]
        del files[f"{CPU}/cpu{cpu}/topology/core_cpus_list"]  # only the older name
    files["proc/cpuinfo"] = "processor\t: 0\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU part\t: 0xd0b"
    topology = collect(tmp_path, files)
    assert not topology.numa_directory
    assert [numa.id for numa in topology.numa_nodes] == [0]
    assert topology.numa(0).distances == (10,)
    assert topology.numa(0).memory_mib == 16_000
    assert [(package.id, package.dies[0].id) for package in topology.packages] == [(0, 0)]
    assert (topology.architecture, topology.cpu_model) == ("aarch64", "Arm Cortex-A76")


def test_no_numa_directory_and_no_meminfo(tmp_path: Path) -> None:
    files = linux([Threads("0")], None)
    del files["proc/meminfo"]
    topology = collect(tmp_path, files)
    assert topology.numa(0).memory_mib == 0
    assert any("proc/meminfo is missing" in warning for warning in topology.warnings)


def test_single_numa_node_without_meminfo_of_its_own(tmp_path: Path) -> None:
    """vllm-project/vllm#55247: a machine with one NUMA node shows its memory only in /proc/meminfo."""
    files = linux([Threads("0")], {0: 1})
    del files[f"{NODE}/node0/meminfo"]
    del files[f"{NODE}/node0/distance"]
    topology = collect(tmp_path, files)
    assert topology.numa(0).memory_mib == 16_000
    assert topology.numa(0).distances == (10,)


def test_virtual_machine_with_a_package_for_each_cpu(tmp_path: Path) -> None:
    """kubernetes/kubernetes#129078: 16 packages of one CPU on two NUMA nodes."""
    machine = [Threads(str(cpu), numa=cpu // 8, package=cpu) for cpu in range(16)]
    topology = collect(tmp_path, linux(machine, {0: 1 << 25, 1: 1 << 25}))
    assert [numa.cpus.text for numa in topology.numa_nodes] == ["0-7", "8-15"]
    assert topology.numa(1).packages == tuple(range(8, 16))
    assert topology.warnings[0].startswith("NUMA node 0 spans packages 0, 1, 2,")


@pytest.mark.parametrize("numa_nodes", [2, 4])
def test_several_numa_nodes_in_one_package(tmp_path: Path, numa_nodes: int) -> None:
    """facebookincubator/dynolog#597: 248 cores of two threads in one package, lists such as 0-123,248-371."""
    per_node = 248 // numa_nodes
    machine = [Threads(f"{cpu},{cpu + 248}", numa=cpu // per_node) for cpu in range(248)]
    topology = collect(tmp_path, linux(machine, dict.fromkeys(range(numa_nodes), 1 << 28)))
    assert len(topology.packages) == 1
    assert topology.numa(0).cpus.text == f"0-{per_node - 1},248-{247 + per_node}"
    assert len(topology.online) == 496


def test_512_cpus_on_16_numa_nodes_with_dies(tmp_path: Path) -> None:
    machine = [
        Threads(f"{cpu},{cpu + 256}", numa=cpu // 16, package=cpu // 128, die=cpu // 16 % 8) for cpu in range(256)
    ]
    topology = collect(tmp_path, linux(machine, dict.fromkeys(range(16), 1 << 26)))
    assert len(topology.online) == 512
    assert len(topology.numa_nodes) == 16
    assert [len(package.dies) for package in topology.packages] == [8, 8]


def test_confined_collector_sees_the_whole_machine(tmp_path: Path) -> None:
    """RRZE-HPC/likwid#630: the affinity of the collecting process says nothing about the machine."""
    files = linux([Threads(str(cpu)) for cpu in range(8)], {0: 1 << 25})
    files["proc/self/status"] = "Name:\tpython\nCpus_allowed:\t18\nCpus_allowed_list:\t3-4\nMems_allowed_list:\t0"
    topology = collect(tmp_path, files)
    assert topology.online == Cpuset.parse("0-7")
    assert "confined to CPUs 3-4" in topology.warnings[0]


def test_isolated_cpus_do_not_make_a_collector_confined(tmp_path: Path) -> None:
    files = linux([Threads(str(cpu)) for cpu in range(8)], {0: 1 << 25})
    files |= {f"{CPU}/isolated": "4-7", "proc/self/status": "Cpus_allowed_list:\t0-3"}
    topology = collect(tmp_path, files)
    assert topology.isolated == Cpuset.parse("4-7")
    assert topology.warnings == ()


def test_cpus_that_could_be_plugged_in_are_not_offline(tmp_path: Path) -> None:
    """On virtual machines the kernel's list of offline CPUs also has possible ones that are not present."""
    files = linux([Threads(str(cpu)) for cpu in range(4)], {0: 1 << 25})
    files |= {f"{CPU}/offline": "4-127", f"{CPU}/possible": "0-127"}
    topology = collect(tmp_path, files)
    assert not topology.offline
    assert topology.warnings == ()


def test_tree_without_present_and_offline_uses_the_directories(tmp_path: Path) -> None:
    files = linux([Threads("0"), Threads("1")], {0: 1 << 25})
    del files[f"{CPU}/present"], files[f"{CPU}/offline"]
    files[f"{CPU}/cpu2/online"] = "0"
    assert collect(tmp_path, files).offline == Cpuset.parse("2")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", {0}),
        ("0-2,4-23", {0, 1, 2, *range(4, 24)}),
        ("0-3,8", {0, 1, 2, 3, 8}),
        ("0-30:2", set(range(0, 31, 2))),
        ("0-31:2/4", {cpu for cpu in range(32) if cpu % 4 < 2}),
    ],
)
def test_forms_of_the_online_list(tmp_path: Path, text: str, expected: set[int]) -> None:
    """sched-ext/scx#188, deepflowio/deepflow#4633, giampaolo/psutil#2973: only the first range was read."""
    files = linux([Threads(str(cpu)) for cpu in sorted(expected)], {0: 1 << 25})
    files |= {f"{CPU}/online": text, f"{CPU}/present": text, f"{NODE}/node0/cpulist": text}
    assert set(collect(tmp_path, files).online) == expected


def test_kernel_release_from_either_file(tmp_path: Path) -> None:
    files = linux([Threads("0")], {0: 1 << 25})
    assert collect(tmp_path / "none", files).kernel == ""
    version = files | {"proc/version": "Linux version 6.1.0-57-cloud-amd64 (builder) #1 SMP"}
    assert collect(tmp_path / "version", version).kernel == "6.1.0-57-cloud-amd64"
    assert collect(tmp_path / "release", version | {"proc/sys/kernel/osrelease": "6.8.0"}).kernel == "6.8.0"


def test_names_lose_their_control_characters(tmp_path: Path) -> None:
    files = linux([Threads("0")], {0: 1 << 25})
    files |= {"proc/cpuinfo": "model name\t: Xeon\x1b[31m\x00 8592+\x85", "proc/sys/kernel/osrelease": "6.8\x07.0"}
    topology = collect(tmp_path, files)
    assert (topology.cpu_model, topology.kernel) == ("Xeon [31m 8592+", "6.8 .0")
    assert topologyfile.parse(dump(topology), "w1") == topology


def test_live_machine() -> None:
    topology = sysfs.collect(Path("/"), "here")
    assert topology.online
    assert topology.architecture
    assert topology.kernel
