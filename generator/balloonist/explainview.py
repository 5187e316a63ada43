"""The layout of nodes drawn for people: a map of the machine and two tables for each kind of node."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from balloonist import explain, report, topologymap
from balloonist.catalog import Model
from balloonist.layout import Fleet, NodeLayout


def show(console: Console, fleet: Fleet, nodes: Sequence[NodeLayout], models: Sequence[Model]) -> None:
    """Print every kind of node once, with the names of the nodes that are alike."""
    kinds: dict[str, list[NodeLayout]] = {}
    for node in nodes:
        kinds.setdefault(_likeness(fleet, node, models), []).append(node)
    for alike in kinds.values():
        console.print(_node_view(console, fleet, alike, models))


def _likeness(fleet: Fleet, node: NodeLayout, models: Sequence[Model]) -> str:
    document = explain.describe(fleet, node, models)
    return repr({key: value for key, value in document.items() if key not in ("node", "group")})


def _node_view(console: Console, fleet: Fleet, alike: Sequence[NodeLayout], models: Sequence[Model]) -> RenderableType:
    node = alike[0]
    document = explain.describe(fleet, node, models)
    parts: list[RenderableType] = [
        Text(_title(alike), style="bold"),
        topologymap.draw(
            node.topology,
            reserved=node.reserved,
            owners=explain.owners(fleet, node),
            width=console.width,
            unicode=report.speaks_unicode(),
        ),
        _numa_table(document),
    ]
    if document["balloon_types"]:
        parts.append(_types_table(document))
    parts += [Text.from_markup(line) for line in _sentences(document)]
    parts.append(Text(""))
    return Group(*parts)


def _title(alike: Sequence[NodeLayout]) -> str:
    names = [node.topology.node for node in alike]
    others = f" (and {len(names) - 1} alike: {', '.join(names[1:5])}{', ...' if len(names) > 5 else ''})"
    return f"{names[0]}{others if len(names) > 1 else ''}"


def _numa_table(document: dict[str, Any]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    planned = "cores_left" in document["numa_nodes"][0]
    for heading in ("NUMA", "memory", "cores", "reserved CPUs", "cores for models"):
        table.add_column(heading, justify="left" if "reserved" in heading else "right")
    if planned:
        table.add_column("balloons")
        table.add_column("cores left", justify="right")
    for row in document["numa_nodes"]:
        cells = [
            str(row["id"]),
            f"{row['memory_mib'] / 1024:.0f} GiB",
            str(row["cores"]),
            row["reserved"] or "-",
            str(row["cores_for_models"]),
        ]
        if planned:
            balloons = ", ".join(f"{count} x {name}" for name, count in row["balloons"].items())
            cells += [balloons or "-", str(row["cores_left"])]
        table.add_row(*map(escape, cells))
    return table


def _types_table(document: dict[str, Any]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    fixed = document["layout"] == "fixed"
    headings = ("balloon type", "tp", "cores", "pod requests", "balloons on NUMA nodes", "for models")
    for heading in headings if fixed else ("balloon type", "tp", "NUMA sets"):
        table.add_column(heading, justify="right" if heading in ("tp", "cores") else "left")
    for row in document["balloon_types"]:
        if fixed:
            places = " ".join("+".join(map(str, numa_nodes)) for numa_nodes in row["balloons"])
            request = f"cpu: {row['effective_cpu']}"
            users = ", ".join(row["models"]) or "-"
            table.add_row(row["name"], str(row["tp"]), str(row["cores"]), request, places, users)
        else:
            places = " ".join("+".join(map(str, numa_nodes)) for numa_nodes in row["numa_sets"])
            table.add_row(row["name"], str(row["tp"]), places)
    return table


def _sentences(document: dict[str, Any]) -> Iterable[str]:
    reserved = document["reserved"]
    yield f"Reserved for the system: {reserved['count']} CPUs ({escape(reserved['from'])})."
    if document["layout"] == "fixed":
        left = sum(row["cores_left"] for row in document["numa_nodes"])
        yield _system_room(left, left * document["threads_per_core"], reserved["hard_cap"])
    if document["layout"] == "elastic":
        yield (
            "Elastic layout: the plugin only prefers these NUMA nodes. When one is short, a model is silently spread"
            " over others."
        )
    for item in document["without"]:
        yield f"No balloon for {escape(item['model'])}: {escape(item['reason'])}."
    for remark in document["remarks"]:
        yield f"[yellow]Note[/]: {escape(remark)}."


def _system_room(cores: int, cpus: int, hard_cap: bool) -> str:
    if hard_cap:
        return f"A hard cap is set: system pods that need more fail to start; {cores} cores stay idle."
    if not cores:
        return (
            "Nothing is left over: system pods that ask for more than the reserved CPUs fail to start"
            " (nri_fill: once, replicas or nri_plan leave room)."
        )
    return f"System pods may grow by the {cores} cores ({cpus} CPUs) that the plan leaves over."
