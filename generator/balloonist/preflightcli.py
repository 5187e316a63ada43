"""The command ``preflight``: does this model start on these nodes, said before anything is downloaded."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from balloonist import config, environment, modelconfig, placements, preflight, report, vllmsettings
from balloonist.catalog import Model
from balloonist.environment import Environment
from balloonist.environmentcli import environment_option, output_option
from balloonist.layout import Fleet
from balloonist.livepods import Live
from balloonist.problem import problem
from balloonist.verdict import Answer, NodeAnswer, Verdict

if TYPE_CHECKING:
    from rich.console import Console

LENIENT: Final = "MM_NRI_PREFLIGHT"
SKIP: Final = "MM_NRI_SKIP_PREFLIGHT"
BALLOON: Final = "MM_NRI_BALLOON_NAME"

_FILE = click.Path(path_type=Path, dir_okay=False)
_COLOURS: Final = {"ok": "green", "note": "cyan", "warning": "yellow", "error": "red"}
_SHOWN_NODES: Final = 20


_DETAILS: Final = """\
Checked are tensor parallelism against NUMA nodes and attention heads, CPUs, free balloons, memory of each NUMA
node, and the settings of vLLM. Every "no" carries the number that failed and the nearest yes.

The file for --placements is a JSON (or YAML) list with one entry for each running replica:

\b
  [{"node": "w1", "model": "llama3-8b-awq"},
   {"node": "w1", "tp": 2, "cpu": 32, "memory_gib": 40, "numa_nodes": [0, 1]},
   {"node": "w2", "balloon": "vllm-balloon-tp1", "tp": 1, "cpu": 16, "count": 2}]

cpu is in physical cores in all, memory_gib in all; memory_gib, numa_nodes, balloon and count may be left out.

\b
Environment variables:
  MM_NRI_PREFLIGHT=warn        errors become warnings, exit code 0
  MM_NRI_SKIP_PREFLIGHT=1      check nothing, exit code 0
  MM_NRI_BALLOON_NAME=<type>   the balloon type that the model will ask for

Exit codes: 0 it fits on at least one of the nodes, 1 it fits on none or the input is wrong, 2 wrong usage.
"""


@click.command("preflight", epilog=_DETAILS)
@click.argument("model_name", metavar="MODEL")
@environment_option
@click.option("--node", "names", multiple=True, metavar="NAME", help="Only this node; may be given several times.")
@click.option("--all-nodes", is_flag=True, help="Every node of the environment (so it is without --node).")
@click.option("--placements", "placements_path", type=_FILE, metavar="FILE", help="What runs already (see below).")
@click.option("--live", is_flag=True, help="Take what runs already from the pods of the cluster.")
@click.option("--context", metavar="NAME", help="Context of the kubeconfig for --live.")
@click.option(
    "--model-config", "config_path", type=_FILE, metavar="config.json", help="The model's own config: heads, dtype."
)
@output_option
def preflight_command(
    *,
    model_name: str,
    directory: Path,
    names: tuple[str, ...],
    all_nodes: bool,
    placements_path: Path | None,
    live: bool,
    context: str | None,
    config_path: Path | None,
    form: str,
) -> None:
    """Say whether MODEL of the catalog would start, where it would run, and if not, what would fit.

    \b
    Example:
      balloonist preflight llama3-8b-awq --env env/example
      balloonist preflight llama3-8b-awq --env env/example --node xeon-snc2 --placements running.json -o json
    """
    if names and all_nodes:
        raise click.UsageError("--node and --all-nodes exclude each other")
    if _switch(SKIP, {"": False, "0": False, "false": False, "1": True, "true": True}):
        click.echo(f"{model_name}: pre-flight skipped ({SKIP}={os.environ[SKIP]})", err=form != "table")
        return
    lenient = _switch(LENIENT, {"": False, "error": False, "warn": True})
    loaded = environment.load(directory)
    model = _model(loaded, model_name, config_path)
    loaded = replace(loaded, models=tuple(model if one.name == model.name else one for one in loaded.models))
    asked = _nodes(loaded, names)
    if live and placements_path:
        raise click.UsageError("--live and --placements exclude each other")
    answer = _answer(loaded, model, asked, partial(_cluster, context) if live else partial(_file, placements_path))
    if lenient:
        answer = preflight.warned(answer)
    if form == "table":
        _print(answer)
        _print_settings(vllmsettings.settings(model))
    else:
        report.emit({**preflight.as_data(answer), "vllm": vllmsettings.as_data(model)}, form)
    sys.exit(0 if answer.fits or lenient else 1)


def _switch(name: str, meanings: Mapping[str, bool]) -> bool:
    value = os.environ.get(name, "")
    if value.lower() not in meanings:
        known = ", ".join(meaning for meaning in meanings if meaning)
        raise problem(name, "", f"{value!r} is not one of its values", f"known: {known}")
    return meanings[value.lower()]


def _model(loaded: Environment, name: str, config_path: Path | None) -> Model:
    known = [model.name for model in loaded.models]
    if name not in known:
        source = str(loaded.path / "models.yaml")
        raise problem(source, "", f"the catalog has no model {name!r}", config.nearest(name, known))
    model = loaded.models[known.index(name)]
    if config_path is None:
        return model
    model, warnings = modelconfig.applied(model, modelconfig.read(config_path), str(config_path))
    report.show(warnings)
    return model


def _nodes(loaded: Environment, names: tuple[str, ...]) -> tuple[str, ...] | None:
    known = [node.node for node in loaded.nodes]
    for name in names:
        if name not in known:
            raise problem(str(loaded.path), "--node", f"there is no node {name!r}", config.nearest(name, known))
    return names or None


Source = Callable[[Environment, Fleet], Live]
"""Where what runs already is read from."""


def _file(path: Path | None, loaded: Environment, fleet: Fleet) -> Live:
    names = [node.topology.node for node in fleet.nodes]
    return Live(() if path is None else placements.read(path, loaded.models, names), {})


def _cluster(context: str | None, _: Environment, fleet: Fleet) -> Live:
    from balloonist import cluster  # noqa: PLC0415 - costs start-up time

    return cluster.live(context, fleet)


def _answer(loaded: Environment, model: Model, asked: tuple[str, ...] | None, source: Source) -> Answer:
    fleet, impossible = preflight.fleet_for(loaded, model)
    live = source(loaded, fleet)
    answer = preflight.preflight(
        fleet,
        model,
        live.running,
        nodes=asked,
        type_name=os.environ.get(BALLOON, ""),
        models=loaded.models,
        system_milli=live.system_milli,
    )
    return replace(answer, verdicts=(*impossible, *answer.verdicts))


def _print(answer: Answer) -> None:
    """Verdicts of the model, then one block for each kind of answer: nodes that are told the same share it."""
    from rich.markup import escape  # noqa: PLC0415 - costs start-up time

    console = report.console()
    for verdict in answer.verdicts:
        console.print(_line(verdict))
    kinds: dict[object, list[NodeAnswer]] = {}
    for node in answer.nodes:
        same = tuple(replace(verdict, message=verdict.message.replace(node.node, "NODE")) for verdict in node.verdicts)
        kinds.setdefault((node.fits, node.numa_nodes, same), []).append(node)
    for alike in list(kinds.values())[:_SHOWN_NODES]:
        names = ", ".join(node.node for node in alike[:5]) + (f" and {len(alike) - 5} more" if len(alike) > 5 else "")
        where = f" on NUMA {', '.join(map(str, alike[0].numa_nodes))}" if alike[0].fits and alike[0].numa_nodes else ""
        word = f"[bold green]fits[/]{where}" if alike[0].fits else "[bold red]does not fit[/]"
        console.print(f"[bold]{escape(names)}[/]: {word}")
        _print_verdicts(console, alike[0].verdicts)
    if len(kinds) > _SHOWN_NODES:
        console.print(f"{len(kinds) - _SHOWN_NODES} more kinds of nodes are not shown: use --node, or -o json")
    yes = sum(node.fits for node in answer.nodes) if not any(not verdict.ok for verdict in answer.verdicts) else 0
    console.print(f"{escape(answer.model)}: fits on {yes} of {len(answer.nodes)} nodes")


def _print_settings(chosen: vllmsettings.Settings) -> None:
    environment = " ".join(f"{name}={value}" for name, value in chosen.environment)
    click.echo(" ".join(["vLLM:", environment, *chosen.arguments]))


def _print_verdicts(console: Console, verdicts: Iterable[Verdict]) -> None:
    """One line for each verdict, and what would fit once below all of them."""
    from rich.markup import escape  # noqa: PLC0415

    parts: dict[str, None] = {}
    for verdict in verdicts:
        console.print("  " + _line(verdict if verdict.ok else replace(verdict, nearest="")))
        parts |= {} if verdict.ok else dict.fromkeys(verdict.nearest.split("; "))
    if parts:
        console.print(f"  [bold]nearest[/] {escape('; '.join(parts))}")


def _line(verdict: Verdict) -> str:
    from rich.markup import escape  # noqa: PLC0415

    where = f" NUMA {','.join(map(str, verdict.numa_nodes))}" if verdict.numa_nodes else ""
    nearest = f" -> {escape(verdict.nearest)}" if verdict.nearest else ""
    colour = _COLOURS[verdict.level]
    return f"[{colour}]{verdict.level:<7}[/] {verdict.check}{where}: {escape(verdict.message)}{nearest}"
