"""Validation against the JSON Schemas in ``schemas/``, with findings a person can act on."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

from jsonschema import Draft202012Validator, validators
from jsonschema.exceptions import ValidationError
from referencing import Registry, Resource

from balloonist.problem import Problem

ID_PREFIX: Final = "urn:balloonist:"
"""The $id of ``schemas/<name>.schema.json`` is this and its name."""


def directory() -> Path:
    """Where the schema files are: inside the installed package, or in the source tree beside it."""
    packaged = Path(__file__).parent / "schemas"
    return packaged if packaged.is_dir() else Path(__file__).parents[2] / "schemas"


def load(name: str) -> dict[str, Any]:
    """The schema ``schemas/<name>.schema.json``."""
    document: dict[str, Any] = json.loads((directory() / f"{name}.schema.json").read_text(encoding="utf-8"))
    return document


def problems(instance: object, name: str, source: str) -> list[Problem]:
    """Every way in which ``instance`` breaks schema ``name``; ``source`` (a file) names it. Empty when it is valid."""
    found = {item for error in _validator(name).iter_errors(instance) for item in _explain(error, source)}
    return sorted(found, key=lambda item: (item.key, item.message))


@cache
def _validator(name: str) -> Any:
    registry: Registry[Any] = Registry(retrieve=_retrieve)  # type: ignore[call-arg]
    return _Validator(load(name), registry=registry)


def _items(validator: Any, items: Any, instance: Any, schema: Any) -> Iterator[ValidationError]:
    """The keyword "items", with a short way for long lists of plain texts: a fleet has 100,000s of cores."""
    texts = items == {"type": "string", "minLength": 1} and isinstance(instance, list)
    if not (texts and all(type(item) is str and item for item in instance)):
        yield from Draft202012Validator.VALIDATORS["items"](validator, items, instance, schema)


def _pattern(_: Any, pattern: str, instance: Any, __: Any) -> Iterator[ValidationError]:
    """The keyword "pattern" as ECMA means it: "$" is the very end, in Python also the place before a last newline."""
    exact = pattern[:-1] + r"\Z" if pattern.endswith("$") else pattern
    if isinstance(instance, str) and not re.search(exact, instance):
        yield ValidationError(f"{instance!r} does not match {pattern!r}")


_Validator: Any = validators.extend(Draft202012Validator, {"items": _items, "pattern": _pattern})  # type: ignore[no-untyped-call]


def _retrieve(uri: str) -> Resource[Any]:
    """Find the schema that another one refers to by its id, ``urn:balloonist:<name>``."""
    return Resource.from_contents(load(uri.removeprefix(ID_PREFIX)))


def path_text(path: Iterable[str | int]) -> str:
    """A path as people write it: ``models[2].cpu``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _explain(error: ValidationError, source: str) -> Iterator[Problem]:
    if error.validator in ("anyOf", "oneOf") and error.context:
        yield from _explain_choice(error, source)
        return
    key = path_text(error.absolute_path)
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        known = sorted(error.schema.get("properties", {})) if isinstance(error.schema, dict) else []
        patterns = error.schema.get("patternProperties", {}) if isinstance(error.schema, dict) else {}
        for name in error.instance:
            if name not in known and not patterns:
                where = path_text([*error.absolute_path, str(name)])
                yield Problem(source, where, "unknown key", _nearest(str(name), known))
        return
    yield Problem(source, key, *_wording(error))


def _explain_choice(error: ValidationError, source: str) -> Iterator[Problem]:
    """Of several allowed shapes, report the one that the value was most likely meant to have."""
    branches: dict[int, list[ValidationError]] = {}
    for child in error.context or ():
        branches.setdefault(int(child.relative_schema_path[0]), []).append(child)
    fitting = [
        children
        for children in branches.values()
        if not any(child.validator in ("type", "const") and not child.relative_path for child in children)
    ]
    if len(fitting) == 1:
        for child in fitting[0]:
            yield from _explain(child, source)
        return
    expected = error.schema.get("description", "") if isinstance(error.schema, dict) else ""
    yield Problem(source, path_text(error.absolute_path), f"{_shown(error.instance)} is not allowed here", expected)


def _wording(error: ValidationError) -> tuple[str, str]:
    """Message and hint in words for the schema keywords we use; the schema's description serves as hint."""
    value: Any = error.instance
    limit: Any = error.validator_value
    description: str = error.schema.get("description", "") if isinstance(error.schema, dict) else ""
    shown = _shown(value)
    wordings: dict[str, Callable[[], tuple[str, str]]] = {
        "type": lambda: (
            f"{shown} is not of type {limit if isinstance(limit, str) else ' or '.join(limit)}",
            description,
        ),
        "required": lambda: (_missing([name for name in limit if name not in value]), description),
        "enum": lambda: (
            f"{shown} is not one of the allowed values",
            _nearest(str(value), [str(item) for item in limit]),
        ),
        "const": lambda: (f"{shown} should be {_shown(limit)}", description),
        "minimum": lambda: (f"{shown} is too small", f"at least {limit}"),
        "maximum": lambda: (f"{shown} is too large", f"at most {limit}"),
        "minLength": lambda: ("is empty", description),
        "minItems": lambda: ("is empty" if not value else f"has only {len(value)} entries", description),
        "minProperties": lambda: ("is empty", description),
        "maxLength": lambda: (f"{shown} is too long", f"at most {limit} characters"),
        "pattern": lambda: (f"{shown} has the wrong form", description or f"pattern {limit}"),
        "uniqueItems": lambda: (f"{shown} names something twice", description),
    }
    wording = wordings.get(str(error.validator))
    return wording() if wording else (error.message, description)


def _missing(names: list[str]) -> str:
    listed = ", ".join(repr(name) for name in names)
    return f"{listed} {'is' if len(names) == 1 else 'are'} missing"


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(known)}" if known else ""


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
