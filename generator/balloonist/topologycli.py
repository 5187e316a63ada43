"""The command group ``balloonist topology``: collect, synthesize, show."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import sys
from pathlib import Path
from typing import get_args

import click

from balloonist import report, reserve, topologyfile, topologyjson
from balloonist.cpuset import EMPTY, Cpuset, CpusetError
from balloonist.problem import Problem, problem
from balloonist.synthesize import Numbering, synthesize
from balloonist.topology import Topology

output_file = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=topologyfile.STANDARD,
    metavar="FILE",
    help="File to write; without it, standard output.",
)


@click.group("topology")
def topology() -> None:
    """Collect, invent and show the CPU topology of nodes."""


@topology.command("collect")
@click.option(
    "--root",
    type=click.Path(path_type=Path),
    default=Path("/"),
    metavar="DIR",
    help="Directory that holds sys/ and proc/; the live system by default.",
)
@click.option(
    "--node",
    metavar="NAME",
    help="Name of the Kubernetes node; the host's name (of a recorded tree: DIR's) by default.",
)
@output_file
def collect_command(root: Path, node: str | None, output: Path) -> None:
    """Read packages, NUMA nodes, cores and memory from a Linux sysfs tree and write them as JSON.

    \b
    Example:
      balloonist topology collect -o env/mine/topology/w1.json --node w1
      balloonist topology collect --root /mnt/recorded --node w2
    """
    from balloonist import sysfs  # noqa: PLC0415 - costs start-up time

    name = _checked_name(node) if node is not None else _default_name(root, live=sysfs.is_live(root))
    _write(sysfs.collect(root, name), output)


@topology.command("synthesize")
@click.option("--packages", type=int, default=2, show_default=True, help="Packages (sockets).")
@click.option("--numa-per-package", type=int, default=2, show_default=True, help="NUMA nodes of each package.")
@click.option("--cores-per-numa", type=int, default=24, show_default=True, help="Physical cores of each NUMA node.")
@click.option("--threads-per-core", type=int, default=2, show_default=True, help="Threads of each core.")
@click.option(
    "--numbering",
    type=click.Choice(get_args(Numbering)),
    default="linux",
    show_default=True,
    help="linux: all first threads, then all second ones; adjacent: siblings are neighbours.",
)
@click.option("--offline", default="", metavar="LIST", help="CPUs that are offline, e.g. 3,6-7.")
@click.option("--memory-only-nodes", type=int, default=0, show_default=True, help="NUMA nodes without CPUs.")
@click.option("--memory-gib", type=int, default=256, show_default=True, help="Memory of each NUMA node in GiB.")
@click.option("--node", default="synthetic", show_default=True, metavar="NAME", help="Name of the node.")
@output_file
def synthesize_command(node: str, offline: str, output: Path, **numbers: object) -> None:
    """Write the topology of a machine that one does not have yet, for planning.

    \b
    Example:
      balloonist topology synthesize --packages 2 --numa-per-package 3 --cores-per-numa 43 --memory-gib 128
    """
    _write(synthesize(_checked_name(node), offline=_cpuset("--offline", offline), **numbers), output)


@topology.command("show")
@click.argument("file", type=click.Path(path_type=Path), metavar="FILE")
@click.option("--reserved", default="", metavar="LIST", help="CPUs to mark as reserved, e.g. 0-1,96-97.")
@click.option("-o", "--output", "form", type=click.Choice(report.FORMATS), default="table", show_default=True)
def show_command(file: Path, reserved: str, form: str) -> None:
    """Draw the machine as a map of packages, NUMA nodes and cores. FILE may be '-' for standard input.

    \b
    Example:
      balloonist topology show env/example/topology/xeon-snc2.json
      balloonist topology synthesize --packages 1 | balloonist topology show - --reserved 0-1
    """
    shown = topologyfile.read(file)
    kept = reserve.from_list(shown, reserved, "--reserved") if reserved else EMPTY
    if form != "table":
        report.emit(topologyjson.to_json(shown), form)
        return
    from balloonist import topologymap  # noqa: PLC0415 - costs start-up time

    console = report.console()
    console.print(f"[bold]{shown.node}[/]")
    console.print(topologymap.draw(shown, kept, width=console.width, unicode=report.speaks_unicode()))
    notes = [*shown.warnings, *reserve.remarks(shown, kept)]
    report.show(Problem(shown.node, "", note, severity="warning") for note in notes)


def _write(collected: Topology, output: Path) -> None:
    topologyfile.write(output, collected)
    report.show(Problem(collected.node, "", note, severity="warning") for note in collected.warnings)
    if output != topologyfile.STANDARD:
        sys.stderr.write(f"wrote {output}\n")


def _checked_name(name: str) -> str:
    if len(name) > 253 or not re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name):
        hint = "lower-case letters, digits, '-' and '.', as kubectl get nodes shows it"
        raise problem("", "--node", f"{name!r} is no node name", hint)
    return name


def _default_name(root: Path, *, live: bool) -> str:
    """The host's name made into one that Kubernetes takes; a recorded tree has its own, or lends that of its directory.

    This host's name would be wrong for a recorded tree.
    """
    name = socket.gethostname() if live else Path(os.path.realpath(root)).name
    if not live:
        with contextlib.suppress(OSError):  # most recordings have none
            name = (root / "etc/hostname").read_text(encoding="utf-8", errors="replace").strip() or name
    return re.sub(r"[^a-z0-9.-]+", "-", name.lower())[:253].strip("-.") or "node"


def _cpuset(option: str, text: str) -> Cpuset:
    try:
        return Cpuset.parse(text)
    except CpusetError as error:
        raise problem("", option, str(error)) from None
