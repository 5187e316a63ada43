"""The command ``simulate``: what the plugin would do with a policy and a list of operations on one node."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

from balloonist import report, topologyfile, yamlfile
from balloonist.placement import policy as policies
from balloonist.placement import recording
from balloonist.placement.container import Operation, read_operations
from balloonist.placement.effective import StartRefused
from balloonist.placement.policy import Policy
from balloonist.placement.simulator import Outcome, Simulator
from balloonist.problem import Problem, problem
from balloonist.textfile import read_text
from balloonist.topology import Topology

_PATH = click.Path(path_type=Path, dir_okay=False)


@click.command("simulate")
@click.option(
    "--topology",
    "topology_path",
    required=True,
    type=_PATH,
    metavar="T.json",
    help="The node's topology, or a recorded file.",
)
@click.option("--policy", "policy_path", required=True, type=_PATH, metavar="P.yaml", help="The policy, or its spec.")
@click.option(
    "--ops", "operations_path", required=True, type=_PATH, metavar="OPS.json", help="Operations, or a recorded file."
)
@click.option(
    "-o", "--output", "form", type=click.Choice(report.FORMATS), default="table", show_default=True, help="Output form."
)
def simulate(topology_path: Path, policy_path: Path, operations_path: Path, form: str) -> None:
    """Show what the balloons plugin would do, without a cluster.

    OPS.json is a list such as [{"op": "create", "id": "m0", "namespace": "llm", "cpu_milli": 16000, "memory": 0,
    "annotations": {...}}, {"op": "remove", "id": "m0"}]. The answer has one entry for each operation. Exit code 1 if
    the plugin would not start with the policy; a refused container is an answer, not an error.

    \b
    Example:
      balloonist simulate --topology w1.json --policy policy.yaml --ops ops.json -o json
    """
    topology = _topology(topology_path)
    document = yamlfile.read(policy_path)
    if not isinstance(document, dict):
        raise problem(str(policy_path), "", "is not a mapping", "a BalloonsPolicy or its spec")
    policy = policies.read(document, str(policy_path))
    operations = read_operations(yamlfile.read(operations_path), str(operations_path))
    report.show(
        Problem(str(policy_path), key, "is not simulated: containers may land elsewhere", severity="warning")
        for key in policy.not_simulated
    )
    rows, refused = answers(topology, policy, operations)
    if form == "table":
        _print_table(rows)
    else:
        report.emit(rows, form)
    if refused:
        report.show([Problem(str(policy_path), "", f"the plugin would not start with this policy: {refused}")])
        sys.exit(1)


def _topology(path: Path) -> Topology:
    """A topology file, or the description of a machine as recordings have it (alone, or in a whole recording)."""
    text = read_text(path)
    try:
        document = json.loads(text)
    except ValueError:
        document = None  # topologyfile says what is wrong with it
    if isinstance(document, dict) and isinstance(document.get("topology"), dict):
        document = document["topology"]
    if isinstance(document, dict) and "numa_per_package" in document:
        return recording.described_topology(document, str(path))
    return topologyfile.parse(text, str(path))


def answers(topology: Topology, policy: Policy, operations: Sequence[Operation]) -> tuple[list[dict[str, Any]], str]:
    """One plain-data object for each operation, and why the plugin would not start ("" if it does).

    If it does not start, every operation is refused with that reason.
    """
    try:
        simulator = Simulator(topology, policy)
    except StartRefused as refusal:
        error = f"the plugin did not start: {refusal}"
        return [as_data(Outcome(step.op, step.id, ok=False, error=error)) for step in operations], str(refusal)
    return [as_data(outcome) for outcome in simulator.run(operations)], ""


def as_data(outcome: Outcome) -> dict[str, Any]:
    """An outcome as plain data; ``cpus`` is the number of CPUs seen, ``cpuset`` names them."""
    return {
        "op": outcome.op,
        "id": outcome.id,
        "ok": outcome.ok,
        "error": outcome.error,
        "numa_nodes": list(outcome.numa_nodes),
        "cpus": len(outcome.cpus),
        "spilled": outcome.spilled,
        "cpuset": outcome.cpus.text,
        "hidden": outcome.hidden.text,
        "mems": list(outcome.mems),
        "balloon": outcome.balloon,
        "balloon_types": list(outcome.balloon_types),
        "reserved_taken": outcome.reserved_taken.text,
    }


def _print_table(rows: Iterable[dict[str, Any]]) -> None:
    from rich.markup import escape  # noqa: PLC0415 - costs start-up time
    from rich.table import Table  # noqa: PLC0415

    table = Table("op", "id", "result", "NUMA", "CPUs", "cpuset", "mems", "balloon", "remarks", box=None)
    for row in rows:
        remarks = [row["error"]] if row["error"] else []
        remarks += ["[yellow]spilled beyond its NUMA nodes[/]"] if row["spilled"] else []
        remarks += [f"[yellow]took reserved CPUs {row['reserved_taken']}[/]"] if row["reserved_taken"] else []
        placed = row["op"] == "create" and row["ok"]
        table.add_row(
            row["op"],
            escape(row["id"]),
            "[green]ok[/]" if row["ok"] else "[red]refused[/]",
            ",".join(map(str, row["numa_nodes"])),
            str(row["cpus"]) if placed else "",
            row["cpuset"],
            ",".join(map(str, row["mems"])),
            escape(row["balloon"]),
            "; ".join(remarks if not row["error"] else [escape(row["error"])]),
        )
    report.console().print(table)
