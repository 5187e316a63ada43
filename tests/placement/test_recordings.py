"""The simulator agrees with everything that the real plugin was recorded doing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from balloonist.placement.machine import machine
from balloonist.placement.recording import Recording, read_recording, replay

FILES = sorted((Path(__file__).parent / "recordings").glob("*.json"))


def load(path: Path) -> Recording:
    return read_recording(json.loads(path.read_text(encoding="utf-8")), path.name)


def test_there_are_recordings() -> None:
    assert len(FILES) >= 32


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_start(path: Path) -> None:
    recording = load(path)
    assert (replay(recording).refused == "") is recording.started


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_operation(path: Path) -> None:
    """After each operation: started or refused, and all live containers' CPUs (to the id), NUMA nodes and memory."""
    recording = load(path)
    numa_of = machine(recording.topology).numa_of
    for (outcome, state), observed, operation in zip(
        replay(recording).steps, recording.observed, recording.operations, strict=recording.started
    ):
        assert outcome.ok is observed.ok, operation
        assert dict(state) == dict(observed.state), operation
        if outcome.ok and outcome.op == "create":
            seen = observed.state[outcome.id].cpus
            assert outcome.cpus == seen
            assert sum(1 << node for node in outcome.numa_nodes) == numa_of(seen.mask)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_spilled(path: Path) -> None:
    """Where the recording shows a container on a NUMA node that none of its types ask for, it is said to have spilled.

    (A recording does not show hidden siblings, so a spill of only those cannot be seen in it.)
    """
    recording = load(path)
    wanted_nodes = {
        item.name: {int(device.rsplit("node", 1)[1]) for device in item.prefer_close_to_devices}
        for item in recording.policy.types
    }
    numa_of = machine(recording.topology).numa_of
    for (outcome, _), observed in zip(replay(recording).steps, recording.observed, strict=recording.started):
        wanted = set().union(*(wanted_nodes.get(name, set()) for name in outcome.balloon_types))
        if not wanted:
            assert not outcome.spilled
            continue
        seen = numa_of(observed.state[outcome.id].cpus.mask)
        beyond = seen & ~sum(1 << node for node in wanted)
        assert outcome.spilled or not beyond


def test_a_known_spill_is_seen() -> None:
    steps = replay(load(Path(__file__).parent / "recordings" / "spill-tp1.json")).steps
    assert [outcome.id for outcome, _ in steps if outcome.spilled]
