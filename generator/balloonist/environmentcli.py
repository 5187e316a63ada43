"""Commands that work on an environment directory: values, validate, explain."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from balloonist import environment, layout, report, schema, values, yamlfile
from balloonist.environment import Environment
from balloonist.layout import Fleet, NodeLayout
from balloonist.problem import Problem, ProblemError, problem

Command = TypeVar("Command", bound=Callable[..., Any])


def environment_option(function: Command) -> Command:
    """The option --env DIR of every command that works on an environment."""
    return click.option(
        "--env",
        "directory",
        required=True,
        type=click.Path(path_type=Path),
        metavar="DIR",
        help="Environment directory with config.yaml, models.yaml and topology/.",
    )(function)


output_option = click.option(
    "-o", "--output", "form", type=click.Choice(report.FORMATS), default="table", show_default=True, help="Output form."
)


def nodes_named(fleet: Fleet, names: Sequence[str], directory: Path) -> list[NodeLayout]:
    """The nodes that --node asks for, all of them without one; raises :class:`ProblemError` for an unknown name."""
    known = [node.topology.node for node in fleet.nodes]
    for name in names:
        if name not in known:
            raise problem(str(directory), "--node", f"there is no node {name!r}", f"known: {', '.join(known[:8])}")
    return [node for node in fleet.nodes if not names or node.topology.node in names]


@click.command("values")
@environment_option
@click.option("--check", is_flag=True, help="Write nothing; exit 1 and show the difference if files are not current.")
def values_command(directory: Path, check: bool) -> None:
    """Compute the layout and write DIR/values/: Helm values and kubelet fragments.

    Everything is validated before the first file is written. The same input gives the same bytes.

    \b
    Example:
      balloonist values --env env/example
      balloonist values --env env/example --check     # in CI
    """
    loaded = environment.load(directory)
    fleet = layout.compute(loaded)
    texts = values.render(loaded, fleet)
    report.show(fleet.warnings)
    if check:
        sys.exit(_check(loaded, texts))
    changes = values.write(loaded.values_directory, texts)
    for verb, names in (("wrote", changes.written), ("removed", changes.removed), ("unchanged", changes.unchanged)):
        for name in names[:10]:
            click.echo(f"{verb} {loaded.values_directory / name}")
        if len(names) > 10:
            click.echo(f"{verb} {len(names) - 10} more")
    click.echo(_summary(fleet))


def _check(loaded: Environment, texts: dict[str, str]) -> int:
    directory = loaded.values_directory
    now = values.current(directory)
    outdated = [name for name, text in texts.items() if now.get(name) != text]
    surplus = values.stale(directory, texts)
    for name in [*outdated, *surplus]:
        before, after = now.get(name, ""), texts.get(name, "")
        path = str(directory / name)
        lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), path, f"{path} (as it should be)")
        sys.stdout.writelines(lines)
    if outdated or surplus:
        found = [Problem(str(directory / name), "", "is not current") for name in outdated]
        found += [Problem(str(directory / name), "", "is left from an earlier run") for name in surplus]
        report.show([*found, Problem("", "", f"run: balloonist values --env {loaded.path}")])
        return 1
    click.echo(f"{directory}: {len(texts)} files are current")
    return 0


def _summary(fleet: Fleet) -> str:
    balloons = sum(len(node.placed) for node in fleet.nodes)
    reserved = sum(len(node.reserved) for node in fleet.nodes)
    cores = sum(balloon.size_class.cores for node in fleet.nodes for balloon in node.placed)
    offered = sum(node.offer.cores for node in fleet.nodes)
    text = f"{len(fleet.nodes)} nodes, {fleet.config.cpu_policy}: {reserved} CPUs reserved"
    if fleet.config.cpu_policy == "nri-balloons" and fleet.config.layout == "fixed":
        return f"{text}, {balloons} balloons on {cores} of {offered} cores that models can have"
    return f"{text}, {offered} cores for models"


@click.command("validate")
@environment_option
@output_option
def validate_command(directory: Path, form: str) -> None:
    """Check config, catalog, topologies and the written values; exit 1 if anything is wrong.

    \b
    Example:
      balloonist validate --env env/example
      balloonist validate --env env/example -o json
    """
    found: list[Problem] = []
    try:
        loaded = environment.load(directory)
        fleet = layout.compute(loaded)
        found += fleet.warnings
        found += _value_findings(loaded, values.render(loaded, fleet))
    except ProblemError as error:
        found += error.problems
    errors = sum(item.severity == "error" for item in found)
    if form == "table":
        report.show(found)
        click.echo(f"{directory}: {errors} errors, {len(found) - errors} warnings")
    else:
        report.emit(report.as_data(found), form)
    sys.exit(1 if errors else 0)


def _value_findings(loaded: Environment, texts: dict[str, str]) -> list[Problem]:
    """What is wrong with the values on disk: broken ones are errors, merely old ones are a warning."""
    directory = loaded.values_directory
    schema_of = {values.PLUGIN_FILE: "nri-balloons.values", values.POLICY_FILE: "balloons-policy.values"}
    found: list[Problem] = []
    now = values.current(directory)
    for name, schema_name in schema_of.items():
        if name not in now:
            continue
        path = str(directory / name)
        try:
            found += schema.problems(yamlfile.parse(now[name], path), schema_name, path)
        except ProblemError as error:
            found += error.problems
    old = [name for name, text in texts.items() if now.get(name) != text] + list(values.stale(directory, texts))
    if old and not found:
        hint = f"run: balloonist values --env {loaded.path}"
        found.append(Problem(str(directory), "", f"not current: {', '.join(old[:5])}", hint, "warning"))
    return found


@click.command("explain")
@environment_option
@click.option("--node", "names", multiple=True, metavar="NAME", help="Only this node; may be given several times.")
@output_option
def explain_command(directory: Path, names: tuple[str, ...], form: str) -> None:
    """Say which balloons exist on which NUMA nodes, what is left for the system, and why.

    \b
    Example:
      balloonist explain --env env/example
      balloonist explain --env env/example --node xeon-snc2 -o json
    """
    from balloonist import explain  # noqa: PLC0415 - costs start-up time

    loaded = environment.load(directory)
    fleet = layout.compute(loaded)
    nodes = nodes_named(fleet, names, directory)
    report.show(fleet.warnings)
    if form != "table":
        report.emit([explain.describe(fleet, node, loaded.models) for node in nodes], form)
        return
    from balloonist import explainview  # noqa: PLC0415 - costs start-up time

    explainview.show(report.console(), fleet, nodes, loaded.models)
