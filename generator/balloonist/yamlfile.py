"""YAML as people write it by hand: read strictly, written canonically.

Reading refuses what YAML lets pass silently: duplicate keys, several documents. Writing is block style in the order
given, so that equal data is equal bytes.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any, Final

import yaml

from balloonist.problem import ProblemError, problem
from balloonist.textfile import read_text

_Base: type = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_Dumper: type = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


_MERGE: Final = "tag:yaml.org,2002:merge"
"""The key ``<<``: what it brings may be given again, that is its purpose."""


class _StrictLoader(_Base):  # type: ignore[misc]
    """A safe loader that refuses a key given twice in one mapping."""


def _mapping(loader: Any, node: yaml.MappingNode) -> dict[Hashable, Any]:
    seen: dict[Hashable, yaml.Mark] = {}
    for key_node, _ in node.value:
        if key_node.tag == _MERGE:
            continue
        key = loader.construct_object(key_node, deep=True)
        if isinstance(key, Hashable) and key in seen:
            raise yaml.constructor.ConstructorError(
                f"key {key!r} was first given on line {seen[key].line + 1}",
                node.start_mark,
                f"key {key!r} is there twice",
                key_node.start_mark,
            )
        if isinstance(key, Hashable):
            seen[key] = key_node.start_mark
    mapping: dict[Hashable, Any] = yaml.SafeLoader.construct_mapping(loader, node, deep=True)
    return mapping


_StrictLoader.add_constructor("tag:yaml.org,2002:map", _mapping)


def read(path: Path) -> Any:
    """The single document in a YAML (or JSON) file, None if it is empty; raises :class:`ProblemError` with the line."""
    return parse(read_text(path), str(path))


def parse(text: str, source: str) -> Any:
    """The single document in ``text``; ``source`` names it in errors."""
    try:
        return yaml.load(text, Loader=_StrictLoader)
    except yaml.MarkedYAMLError as error:
        raise _explained(error, text, source) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise problem(source, "", f"is not valid YAML: {error}") from None


def dump(document: Any) -> str:
    """Block-style YAML in the order of the given mappings, without anchors; ends with a newline."""
    text: str = yaml.dump(
        document, Dumper=_NoAliasDumper, sort_keys=False, default_flow_style=False, width=4096, allow_unicode=True
    )
    return text


class _NoAliasDumper(_Dumper):  # type: ignore[misc]
    """A safe dumper that writes shared objects out in full: anchors make generated files hard to read."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        return True


def _explained(error: yaml.MarkedYAMLError, text: str, source: str) -> ProblemError:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 0
    message = error.problem or "is not valid YAML"
    hint = error.context or ""
    lines = text.splitlines()
    if mark and mark.line < len(lines) and "\t" in lines[mark.line]:
        message, hint = "a tab is used for indentation", "YAML allows only spaces there"
    return problem(source, f"line {line}" if line else "", message, hint)
