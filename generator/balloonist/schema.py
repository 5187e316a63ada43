"""Validation against the JSON Schemas in ``schemas/``, with findings a person can act on."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from referencing import Registry, Resource

from balloonist.problem import Problem


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
def _validator(name: str) -> Draft202012Validator:
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(directory().glob("*.schema.json"))]
    resources = [(document["$id"], Resource.from_contents(document)) for document in documents if "$id" in document]
    registry: Registry[Any] = Registry().with_resources(resources)
    return Draft202012Validator(load(name), registry=registry)


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
    value, limit = error.instance, error.validator_value
    description = error.schema.get("description", "") if isinstance(error.schema, dict) else ""
    match error.validator:
        case "type":
            wanted = limit if isinstance(limit, str) else " or ".join(limit)
            return f"{_shown(value)} is not of type {wanted}", description
        case "required":
            missing = [name for name in limit if name not in value]
            names = ", ".join(repr(name) for name in missing)
            return f"{names} is missing" if len(missing) == 1 else f"{names} are missing", description
        case "enum":
            return f"{_shown(value)} is not one of the allowed values", _nearest(str(value), list(map(str, limit)))
        case "const":
            return f"{_shown(value)} should be {_shown(limit)}", description
        case "minimum" | "exclusiveMinimum":
            return f"{_shown(value)} is too small", f"at least {limit}"
        case "maximum" | "exclusiveMaximum":
            return f"{_shown(value)} is too large", f"at most {limit}"
        case "minLength" | "minItems" | "minProperties":
            return "is empty" if not value else f"has too few entries: {len(value)}", description or f"at least {limit}"
        case "pattern":
            return f"{_shown(value)} has the wrong form", description or f"pattern {limit}"
        case "uniqueItems":
            return f"{_shown(value)} names something twice", description
        case _:
            return error.message, description


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(known)}" if known else ""


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
