"""Commands about a whole fleet: capacity and plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from balloonist import environment, fleetcapacity, fleetlimits, fleetplan, layout, planfile, report
from balloonist.config import PlannedBalloons
from balloonist.environment import Environment
from balloonist.environmentcli import environment_option, nodes_named, output_option
from balloonist.fleetcapacity import FleetCapacity
from balloonist.fleetkinds import Kind, kinds
from balloonist.fleetplan import FleetPlan
from balloonist.numasets import package_groups
from balloonist.plan import Demand
from balloonist.problem import Problem, ProblemError, problem
from balloonist.sizeclass import SizeClass
from balloonist.textfile import write_text

NO_SOLVER = "heuristic: pip install 'balloonist[solver]' finds the best and proves it"


@click.command("capacity")
@environment_option
@click.option("--node", "names", multiple=True, metavar="NAME", help="Only this node; may be given several times.")
@output_option
def capacity_command(directory: Path, names: tuple[str, ...], form: str) -> None:
    """Say how many copies of each model fit, alone and as the catalog's mix of replicas.

    Every node is taken as empty: existing plans do not count. A model without replicas counts once in the mix.

    \b
    Example:
      balloonist capacity --env env/example
      balloonist capacity --env env/example --node xeon-snc2 -o json
    """
    loaded = environment.load(directory, use_plan_file=False)
    found, demands, hopeless = _fleet(loaded, names)
    report.show(replace(item, severity="warning") for item in hopeless)
    measured = fleetcapacity.measure(found, demands)
    if form == "table":
        _show_capacity(measured, demands)
    else:
        report.emit(_capacity_data(measured, demands), form)


@click.command("plan")
@environment_option
@click.option("--dry-run", is_flag=True, help="Write nothing.")
@output_option
def plan_command(directory: Path, dry_run: bool, form: str) -> None:
    """Place the catalog over the whole fleet and write the plan of every node to DIR/plan.yaml.

    Refused, with the numbers, if the declared replicas do not all fit. The same input gives the same bytes.

    \b
    Example:
      balloonist plan --env env/example --dry-run
      balloonist plan --env env/example && balloonist values --env env/example
    """
    loaded = environment.load(directory, use_plan_file=False)
    path = directory / planfile.FILE
    if loaded.config.plan is not None:
        message = f"nri_plan is the plan of this environment; {path} would contradict it"
        raise problem(loaded.config.source, "nri_plan", message, "remove nri_plan first")
    if loaded.config.cpu_policy != "nri-balloons" or loaded.config.layout != "fixed":
        key = "nri_layout" if loaded.config.cpu_policy == "nri-balloons" else "kubernetes_cpu_policy"
        raise problem(loaded.config.source, key, "only the fixed layout of nri-balloons has a plan")
    found, demands, hopeless = _fleet(loaded, ())
    if hopeless:
        raise ProblemError(hopeless)
    planned = fleetplan.plan(found, demands, loaded.config.fill)
    source = str(directory / "models.yaml")
    if planned.shortages:
        raise ProblemError(_refusals(planned, demands, source))
    entries = _entries(planned, demands)
    checked = _check(loaded, entries, path)
    written = False if dry_run else write_text(path, planfile.render(entries))
    report.show(checked)
    data = _plan_data(planned, found, entries)
    if form != "table":
        report.emit(data, form)
        return
    click.echo(f"{'would write' if dry_run else 'wrote' if written else 'unchanged'} {path}")
    _show_plan(data)


def _fleet(loaded: Environment, names: tuple[str, ...]) -> tuple[list[Kind], list[Demand], list[Problem]]:
    """The kinds of (named) nodes, empty, the models that get balloons, and why others cannot have any."""
    empty = replace(loaded, config=replace(loaded.config, plan=None, layout="elastic", cpu_policy="nri-balloons"))
    fleet = layout.compute(empty)
    nodes = nodes_named(fleet, names, loaded.path)
    source = str(loaded.path / "models.yaml")
    problems = list(fleetlimits.model_problems(loaded.models, nodes, source))
    hopeless = {item.key for item in problems}
    demands = layout.demands_of((model for model in loaded.models if model.name not in hopeless), fleet.names)
    planned = {demand.model for demand in demands}
    smallest = fleetlimits.smallest_ranks(model for model in loaded.models if model.name in planned)
    found = kinds(
        [node.offer for node in nodes],
        [package_groups(node.topology) for node in nodes],
        [fleetlimits.classes_without_memory(smallest, node) for node in nodes],
    )
    return found, demands, problems


def _models_of(demands: list[Demand], item: SizeClass) -> list[str]:
    return [demand.model for demand in demands if demand.size_class == item]


def _refusals(planned: FleetPlan, demands: list[Demand], source: str) -> list[Problem]:
    most = "at most " if planned.replicas_proven else ""
    if planned.impossible:
        how = "it is proven that not all fit"
    elif planned.solver:
        how = "the search was cut short: that they cannot all fit is not proven"
    else:
        how = f"this is {NO_SOLVER}"
    return [
        Problem(
            source,
            ", ".join(_models_of(demands, item.size_class)),
            f"{item.wanted} replicas of {item.size_class} are declared, placed {most}{item.placed} beside the others",
            f"alone {item.alone} would fit; {how}",
        )
        for item in planned.shortages
    ]


def _entries(planned: FleetPlan, demands: list[Demand]) -> dict[str, list[tuple[str, int]]]:
    """For each node the models and their balloons; models of one class share them and go by the first's name."""
    names = [_models_of(demands, item)[0] for item in planned.classes]
    return {
        node: [(name, count) for name, count in zip(names, pattern, strict=True) if count]
        for node, pattern in fleetplan.by_node(planned).items()
    }


def _check(loaded: Environment, entries: dict[str, list[tuple[str, int]]], path: Path) -> list[Problem]:
    """Compute the layout with this plan before anything is written; returns its warnings."""
    plan = {
        node: tuple(PlannedBalloons(count, model) for model, count in balloons) for node, balloons in entries.items()
    }
    settings = replace(loaded.config, plan=plan, plan_source=str(path))
    fleet = layout.compute(replace(loaded, config=settings))
    smallest = fleetlimits.smallest_ranks(loaded.models)
    overfull = [item for node in fleet.nodes for item in fleetlimits.overfull(node, smallest, str(path))]
    if overfull:
        raise ProblemError(overfull)
    return list(fleet.warnings)


def _plan_data(planned: FleetPlan, found: list[Kind], entries: dict[str, list[tuple[str, int]]]) -> dict[str, Any]:
    used = sum(
        len(names) * count * item.cores
        for contents in planned.contents
        for pattern, names in contents.items()
        for count, item in zip(pattern, planned.classes, strict=True)
    )
    return {
        "cores_used": used,
        "cores_bound": sum(len(kind.nodes) * kind.offer.cores for kind in found),
        "all_replicas_placed": True,
        "copies": planned.copies,
        "copies_bound": planned.bound,
        "copies_proven": planned.copies_proven,
        "solver": "highs" if planned.solver else None,
        "nodes": {node: dict(balloons) for node, balloons in entries.items()},
    }


def _show_plan(data: dict[str, Any]) -> None:
    totals: dict[str, int] = {}
    for balloons in data["nodes"].values():
        for model, count in balloons.items():
            totals[model] = totals.get(model, 0) + count
    for model, count in totals.items():
        click.echo(f"  {model}: {count} balloons")
    click.echo("All declared replicas have a place (proven: here they are).")
    if data["copies"] is not None:
        proof = "proven the most" if data["copies_proven"] else f"at most {data['copies_bound']}, not proven the most"
        click.echo(f"Every model without replicas has {data['copies']} or more balloons ({proof}).")
        if not data["copies_proven"] and data["solver"] is None:
            click.echo(f"This is {NO_SOLVER}.")
    click.echo(f"{data['cores_used']} of {data['cores_bound']} free whole cores are in balloons.")
    click.echo("The bound is all cores outside the reservation; how the rest is filled and spread is a heuristic.")


def _capacity_data(measured: FleetCapacity, demands: list[Demand]) -> dict[str, Any]:
    alone = [
        sum(len(item.kind.nodes) * item.alone[index].copies for item in measured.kinds)
        for index in range(len(measured.classes))
    ]
    return {
        "models": {
            demand.model: {"alone": alone[measured.classes.index(demand.size_class)], "in_mix": demand.copies}
            for demand in demands
        },
        "mixes": measured.mixes,
        "mixes_bound": measured.mixes_bound,
        "cores_used": measured.cores_used,
        "cores_used_bound": sum(len(item.kind.nodes) * item.cores_bound for item in measured.kinds),
        "cores_bound": measured.cores,
        "solver": "highs" if measured.solver else None,
        "nodes": [
            {
                "node": name,
                "alone": {
                    demand.model: item.alone[measured.classes.index(demand.size_class)].copies for demand in demands
                },
                "mixes": item.mixes,
                "cores_used": item.cores_used,
                "cores_bound": item.cores,
            }
            for item in measured.kinds
            for name in item.kind.nodes
        ],
    }


def _show_capacity(measured: FleetCapacity, demands: list[Demand]) -> None:
    from rich.table import Table  # noqa: PLC0415 - costs start-up time

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("model")
    for item in measured.kinds:
        more = f" (and {len(item.kind.nodes) - 1} alike)" if len(item.kind.nodes) > 1 else ""
        table.add_column(f"{item.kind.nodes[0]}{more}", justify="right")
    table.add_column("fleet", justify="right")
    data = _capacity_data(measured, demands)
    for demand in demands:
        index = measured.classes.index(demand.size_class)
        row = [str(item.alone[index].copies) for item in measured.kinds]
        table.add_row(demand.model, *row, str(data["models"][demand.model]["alone"]))
    rows = [
        ("whole catalog", [item.mixes for item in measured.kinds], measured.mixes),
        ("cores in use", [item.cores_used for item in measured.kinds], measured.cores_used),
        ("free whole cores", [item.cores for item in measured.kinds], measured.cores),
    ]
    for title, cells, total in rows:
        table.add_row(title, *map(str, cells), str(total))
    report.console().print(table)
    sure = "proven" if measured.mixes == measured.mixes_bound else f"at most {measured.mixes_bound}"
    click.echo(f"The catalog's mix of replicas fits {measured.mixes} times ({sure}).")
    click.echo(
        f"At best {measured.cores_used} of {measured.cores} free whole cores are in balloons (proven: at most"
        f" {data['cores_used_bound']}): a balloon takes whole cores, equally many on each NUMA node of its set."
    )
    click.echo(
        "Counted are cores. Memory is looked at for one copy on each node; 'balloonist plan' refuses a plan whose"
        " models need more than their NUMA nodes have."
    )
    if not measured.solver:
        click.echo(f"The two lines before the last are {NO_SOLVER}.")
