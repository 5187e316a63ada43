"""Topology files: JSON read with findings for people, written in one step."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from balloonist import schema, topologyjson
from balloonist.problem import ProblemError, problem
from balloonist.textfile import read_text, write_text
from balloonist.topology import Topology

STANDARD: Final = Path("-")
"""The path that means standard input or standard output."""


def read(path: Path) -> Topology:
    """Read and check one topology; raises :class:`ProblemError` naming file and key."""
    if path != STANDARD:
        return parse(read_text(path), str(path))
    if sys.stdin is None:
        raise problem("standard input", "", "is closed", "pipe a topology into it")
    try:
        return parse(sys.stdin.read(), "standard input")
    except UnicodeDecodeError as error:
        raise problem("standard input", "", f"is not UTF-8 text (byte {error.start})") from None


def parse(text: str, source: str) -> Topology:
    """The topology in a JSON text; ``source`` names it in errors."""
    if not text.strip():
        raise problem(source, "", "the file is empty", "write it with: balloonist topology collect")
    try:
        document = json.loads(text, object_pairs_hook=_refuse_twins, parse_float=_Fraction)
        json.dumps(document, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        message = f"is not valid JSON: {error.msg} (column {error.colno})"
        raise problem(source, f"line {error.lineno}", message) from None
    except UnicodeEncodeError:
        raise problem(source, "", "has half a character (a lone surrogate)", "save it as UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise problem(source, "", f"is not valid JSON: {error}") from None
    found = schema.problems(document, "topology", source)
    if found:
        raise ProblemError(found)
    return topologyjson.from_json(document, source)


def write(path: Path, node: Topology) -> bool:
    """Write one topology (``-`` is standard output); returns whether the file changed."""
    if path == STANDARD:
        sys.stdout.write(topologyjson.dump(node))
        return True
    return write_text(path, topologyjson.dump(node))


class _Fraction(float):
    """A number written with a point; JSON Schema would take 2.0 for an integer, people and our model do not."""

    def is_integer(self) -> bool:
        return False


def _refuse_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) < len(pairs):
        names = [name for name, _ in pairs]
        twin = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"key {twin!r} is there twice in one object")
    return document
