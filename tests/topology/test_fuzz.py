"""Whatever stands in a file: the machine is read whole, or refused in words. Nothing else may happen."""

from __future__ import annotations

import copy
import io
import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from balloonist import topologyfile
from balloonist.problem import ProblemError
from balloonist.sysfstopology import assemble
from balloonist.sysfstree import NODE, Snapshot
from balloonist.topologyjson import dump, to_json
from balloonist.topologymap import draw
from machines import machine
from topology.tree import of_topology

MACHINE = machine(2, 1, 2, offline="7", memory_only=1)
FILES = of_topology(MACHINE)
DIRECTORIES = frozenset([NODE, *(f"{NODE}/node{numa.id}" for numa in MACHINE.numa_nodes)])
DOCUMENT = to_json(MACHINE)

kernel_like = st.text(alphabet="0123456789-,:/ \n\tkBMemTotal", max_size=12)
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 300),
    st.floats(),
    kernel_like,
    st.text(max_size=5),
    st.just([]),
    st.just({}),
    st.lists(st.integers(0, 30), max_size=4),
)


@given(st.dictionaries(st.sampled_from(sorted(FILES)), kernel_like | st.text(max_size=8), min_size=1, max_size=3))
@settings(max_examples=300, deadline=None)
def test_any_text_in_any_file_of_a_tree(edits: dict[str, str]) -> None:
    try:
        topology = assemble(Snapshot(FILES | edits, DIRECTORIES), "w1")
    except ProblemError as error:
        assert all(item.message and (item.source or item.key) for item in error.problems)
        return
    assert topology.online | topology.offline == MACHINE.online | MACHINE.offline
    assert topologyfile.parse(dump(topology), "w1") == topology


def places(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The paths of all values inside a document."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in inner for place in [(*path, key), *places(item, (*path, key))]]


@given(st.sampled_from(places(DOCUMENT)), values)
@settings(max_examples=500, deadline=None)
def test_any_value_anywhere_in_a_topology_file(path: tuple[str | int, ...], value: object) -> None:
    document: Any = copy.deepcopy(DOCUMENT)
    place = document
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    try:
        topology = topologyfile.parse(json.dumps(document), "w1.json")
    except ProblemError as error:
        assert all(item.source == "w1.json" and item.message for item in error.problems)
        return
    assert topologyfile.parse(dump(topology), "w1.json") == topology
    Console(file=io.StringIO(), width=80).print(draw(topology, width=80))
