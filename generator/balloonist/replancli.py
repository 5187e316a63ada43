"""The command ``balloonist replan``: is it safe to apply new values to a node on which models run?"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from balloonist import environment, layout, placements, policyspec, report, values, yamlfile
from balloonist.environment import Environment
from balloonist.environmentcli import environment_option, nodes_named, output_option
from balloonist.layout import Fleet, NodeLayout
from balloonist.placements import Running
from balloonist.problem import Problem, problem
from balloonist.replan import Pod, Replan, replan
from balloonist.sizeclass import tp_name

POLICY_KIND = "BalloonsPolicy"


@click.command("replan")
@environment_option
@click.option("--node", required=True, metavar="NAME", help="The node whose policy is to change.")
@click.option("--placements", "placed", type=click.Path(path_type=Path), metavar="FILE", help="What runs on the nodes.")
@click.option("--live", is_flag=True, help="Take what runs from the pods of the cluster.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig for --live.")
@click.option(
    "--current",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The policy in force, e.g. from kubectl get -o yaml; without it, the values written last.",
)
@click.option("--force", is_flag=True, help="Exit 0 although running models are touched.")
@output_option
def replan_command(
    *,
    directory: Path,
    node: str,
    placed: Path | None,
    live: bool,
    context: str | None,
    current: Path | None,
    force: bool,
    form: str,
) -> None:
    """Say which running models a new policy would re-pin, shrink or lose, and the safe order of steps.

    Compares the policy in force with the one that the environment gives now. Exit code 1 if a running model is touched,
    or if the policy changes and nobody said what runs (--placements or --live).

    \b
    Example:
      kubectl get balloonspolicy -n kube-system node.w1 -o yaml > current.yaml
      balloonist replan --env env/mine --node w1 --current current.yaml --placements running.yaml
    """
    loaded = environment.load(directory)
    fleet = layout.compute(loaded)
    (item,) = nodes_named(fleet, (node,), directory)
    old = _spec_of(current) if current else _written_spec(loaded, item)
    if placed and live:
        raise click.UsageError("--live and --placements exclude each other")
    running = _running(placed, live, context, loaded, fleet)
    result = replan(item.topology, old, policyspec.spec(item, fleet.config, fleet.names), _pods(running, fleet, item))
    _show(result, form)
    unknown = result.changed and not (placed or live)
    if unknown:
        message = "the policy changes, and what runs on the node is not known"
        report.show([Problem(node, "", message, "give --live or --placements", "warning" if force else "error")])
    sys.exit(1 if (result.touched or unknown) and not force else 0)


def _running(
    placed: Path | None, live: bool, context: str | None, loaded: Environment, fleet: Fleet
) -> tuple[Running, ...]:
    if live:
        from balloonist import cluster  # noqa: PLC0415 - costs start-up time

        return cluster.live(context, fleet).running
    names = [item.topology.node for item in fleet.nodes]
    return placements.read(placed, loaded.models, names) if placed else ()


def _pods(running: Iterable[Running], fleet: Fleet, node: NodeLayout) -> list[Pod]:
    """The models on this node with names of their own: ``name``, ``name-2`` and so on."""
    pods: list[Pod] = []
    seen: Counter[str] = Counter()
    for one in running:
        if one.node != node.topology.node:
            continue
        seen[one.label] += 1
        name = one.label if seen[one.label] == 1 else f"{one.label}-{seen[one.label]}"
        kind = one.balloon or fleet.names.get(one.size_class) or tp_name(one.size_class.tp)
        pods.append(Pod(name, kind, one.size_class.cpus(node.topology.threads_per_core)))
    return pods


def _spec_of(path: Path) -> Mapping[str, Any]:
    document = yamlfile.read(path)
    if isinstance(document, dict) and document.get("kind") == POLICY_KIND:
        document = document.get("spec")
    if not isinstance(document, dict) or "reservedResources" not in document:
        raise problem(str(path), "", f"is no {POLICY_KIND}", "a resource from kubectl get -o yaml, or its spec")
    return document


def _written_spec(loaded: Environment, node: NodeLayout) -> Mapping[str, Any]:
    path = loaded.values_directory / values.POLICY_FILE
    if not path.exists():
        raise problem(str(path), "", "does not exist, so the policy in force is not known", "give it with --current")
    name = node.topology.node
    for entry in yamlfile.read(path).get("policies") or ():
        if name in (entry.get("nodes") or ()) or (node.group and node.group in (entry.get("groups") or ())):
            spec: Mapping[str, Any] = entry["spec"]
            return spec
    raise problem(str(path), "policies", f"has no policy for node {name}", "give the policy in force with --current")


def _show(result: Replan, form: str) -> None:
    if form != "table":
        report.emit(_document(result), form)
        return
    from rich.table import Table  # noqa: PLC0415 - costs start-up time

    console = report.console()
    if result.effects:
        table = Table("model", "effect", "CPUs now", "CPUs then", "NUMA now", "NUMA then", box=None, pad_edge=False)
        for effect in result.effects:
            numa = (" ".join(map(str, numa)) or "-" for numa in (effect.numa_before, effect.numa_after))
            table.add_row(effect.pod.name, effect.kind, effect.before.text or "-", effect.after.text or "-", *numa)
        console.print(table)
    for number, step in enumerate(result.steps, start=1):
        click.echo(f"{number}. {step}")


def _document(result: Replan) -> dict[str, Any]:
    return {
        "node": result.node,
        "changed": result.changed,
        "models": [
            {
                "name": effect.pod.name,
                "balloon": effect.pod.balloon,
                "effect": effect.kind,
                "reason": effect.reason,
                "cpus_before": effect.before.text,
                "cpus_after": effect.after.text,
                "numa_before": list(effect.numa_before),
                "numa_after": list(effect.numa_after),
            }
            for effect in result.effects
        ],
        "steps": list(result.steps),
    }
