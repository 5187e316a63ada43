"""The command line as a whole: help, exit codes, nothing loaded that is not needed."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from balloonist import cli
from commands import balloonist

REPOSITORY = Path(__file__).parents[1]


def test_help_lists_every_command_with_what_it_does() -> None:
    outcome = balloonist("--help")
    assert outcome.code == 0
    assert sorted(cli.COMMANDS) == sorted(cli.SUMMARIES)
    for command in cli.COMMANDS:
        assert command in outcome.out


@pytest.mark.parametrize("command", sorted(cli.COMMANDS))
def test_every_command_has_help_with_an_example(command: str) -> None:
    outcome = balloonist(command, "--help")
    assert outcome.code == 0
    assert "Example:" in outcome.out or "Commands:" in outcome.out
    assert outcome.out.startswith(f"Usage: balloonist {command}")


@pytest.mark.parametrize("arguments", [["no-such-command"], ["values"], ["values", "--no-such-option"]])
def test_wrong_usage_ends_with_code_2(arguments: list[str]) -> None:
    outcome = balloonist(*arguments)
    assert outcome.code == 2
    assert "Traceback" not in outcome.err


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys; sys.argv = ['balloonist', '--help']\n"
        "from balloonist import cli\n"
        "try:\n    cli.main()\nexcept SystemExit:\n    pass\n"
        "loaded = {'jsonschema', 'yaml', 'rich', 'kubernetes'} & set(sys.modules)\n"
        "sys.exit(f'loaded {loaded}' if loaded else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("redirection", ["> /dev/full", ">&-", "| true"])
@pytest.mark.parametrize("arguments", ["--help", "topology synthesize", "explain --env env/example -o json"])
def test_output_that_nobody_takes_ends_without_a_traceback(arguments: str, redirection: str) -> None:
    command = f"{shlex.quote(sys.executable)} -m balloonist {arguments} {redirection}"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=REPOSITORY, timeout=60, check=False)
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    if "full" in redirection:
        assert (done.returncode, done.stderr) == (1, "error: the output cannot be written: No space left on device\n")
