"""Running balloonist's own command line inside a test."""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass
from unittest import mock

from balloonist import cli


@dataclass(frozen=True)
class Outcome:
    """How a command ended: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


def balloonist(*arguments: object, stdin: str = "") -> Outcome:
    """Run ``balloonist ARGUMENTS`` as a person would; an exception that escapes is a failure of the test."""
    out, err = io.StringIO(), io.StringIO()
    code: object = 0
    with (
        mock.patch.object(sys, "argv", ["balloonist", *map(str, arguments)]),
        mock.patch.object(sys, "stdin", io.StringIO(stdin)),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            cli.main()
        except SystemExit as end:
            code = end.code
    return Outcome(code if isinstance(code, int) else 0 if code is None else 1, out.getvalue(), err.getvalue())
