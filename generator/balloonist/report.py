"""How findings and results reach a person: colours only on a terminal, else plain text; JSON or YAML on request."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from balloonist.problem import Problem

if TYPE_CHECKING:
    from rich.console import Console

FORMATS = ("table", "json", "yaml")


def console(*, stderr: bool = False) -> Console:
    """A rich console; without a terminal it neither colours nor wraps at 80 columns."""
    from rich.console import Console  # noqa: PLC0415 - costs start-up time

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else 120
    return Console(file=stream, width=width, highlight=False, soft_wrap=not stream.isatty(), emoji=False)


def speaks_unicode() -> bool:
    """Whether standard output can show box-drawing characters."""
    return (sys.stdout.encoding or "ascii").lower().replace("-", "").startswith("utf")


def emit(document: Any, form: str) -> None:
    """Print data as JSON or YAML on standard output."""
    from balloonist import yamlfile  # noqa: PLC0415 - costs start-up time

    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n" if form == "json" else yamlfile.dump(document)
    sys.stdout.write(text)


def as_data(problems: Iterable[Problem]) -> list[dict[str, str]]:
    """Findings as plain data."""
    return [asdict(problem) for problem in problems]


def show(problems: Iterable[Problem]) -> None:
    """Print findings on standard error, errors last so that they are what one sees; equal ones once."""
    from rich.markup import escape  # noqa: PLC0415 - costs start-up time

    errors = console(stderr=True)
    ordered = sorted(dict.fromkeys(problems), key=lambda problem: problem.severity == "error")
    for item in ordered:
        colour = "red" if item.severity == "error" else "yellow"
        errors.print(f"[bold {colour}]{item.severity}[/]: {escape(str(item))}")
