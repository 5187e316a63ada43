"""The command line: which commands there are, and how failures end.

Exit codes: 0 done, 1 something is wrong with the input or a check failed, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import importlib
import os
import sys
from typing import Final

import click

from balloonist.problem import ProblemError

COMMANDS: Final = {
    "capacity": "balloonist.fleetcli:capacity_command",
    "explain": "balloonist.environmentcli:explain_command",
    "plan": "balloonist.fleetcli:plan_command",
    "preflight": "balloonist.preflightcli:preflight_command",
    "replan": "balloonist.replancli:replan_command",
    "simulate": "balloonist.simulatecli:simulate",
    "topology": "balloonist.topologycli:topology",
    "validate": "balloonist.environmentcli:validate_command",
    "values": "balloonist.environmentcli:values_command",
}
"""Where each command lives; a module is imported only when its command is used, so that --help is quick."""

SUMMARIES: Final = {
    "capacity": "Say how many copies of each model the fleet can hold.",
    "explain": "Show which balloons exist on which NUMA nodes, and why.",
    "plan": "Place the catalog over the whole fleet and write plan.yaml.",
    "preflight": "Say whether a model would start on the nodes, and if not, what would fit.",
    "replan": "Say what a new policy does to the models that run on a node, and the safe steps.",
    "simulate": "Say what the balloons plugin does with a sequence of pods on a node.",
    "topology": "Collect, invent and show the CPU topology of nodes.",
    "validate": "Check config, catalog, topologies and values of an environment.",
    "values": "Compute the layout of an environment and write its Helm values.",
}


class _LazyGroup(click.Group):
    """A group that imports a command's module on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        target = COMMANDS.get(cmd_name)
        if target is None:
            return None
        module, attribute = target.split(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(sorted(SUMMARIES.items()))


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="balloonist")
def balloonist() -> None:
    """Give LLM model servers on Kubernetes exclusive, NUMA-local CPU cores.

    \b
    Example:
      balloonist topology collect -o env/mine/topology/w1.json
      balloonist values --env env/mine
      balloonist explain --env env/mine
    """


def main() -> None:
    """Entry point: findings become sentences on standard error and exit code 1, never a traceback."""
    _open_missing_streams()
    try:
        code = balloonist.main(prog_name="balloonist", standalone_mode=False)
        sys.stdout.flush()
    except ProblemError as error:
        from balloonist import report  # noqa: PLC0415 - costs start-up time

        report.show(error.problems)
        sys.exit(1)
    except click.exceptions.Abort:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BrokenPipeError:
        _discard_output()
        sys.exit(1)
    except OSError as error:
        _discard_output()
        sys.stderr.write(f"error: the output cannot be written: {error.strerror or error}\n")
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


def _open_missing_streams() -> None:
    """Python has no stream where the caller closed it (``>&-``); then nobody wants the output."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115, PTH123 - open until the end


def _discard_output() -> None:
    """Keep the interpreter from writing, at its end, what could not be written before."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
