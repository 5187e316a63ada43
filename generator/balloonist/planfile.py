"""``env/<name>/plan.yaml``: the fixed plan of every node, as `balloonist plan` writes it.

It says the same as ``nri_plan`` in ``config.yaml`` (its schema: schemas/plan.schema.json) and is used when that is
absent. Having both is an error: nobody could say which one counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from balloonist import config, schema, yamlfile
from balloonist.config import Config, PlannedBalloons
from balloonist.problem import ProblemError, problem

FILE: Final = "plan.yaml"

HEADER: Final = (
    "# Written by `balloonist plan`: the balloons of every node. Run it again after a change of nodes or models.\n"
)


def with_plan(settings: Config, path: Path) -> Config:
    """The settings with the plan of the file at ``path``, unchanged where there is none.

    Raises :class:`ProblemError` where the file is broken or the settings have a plan of their own.
    """
    if not path.exists():
        return settings
    if settings.plan is not None:
        message = f"there is a plan in {settings.source} (nri_plan) and in {path}"
        raise problem(str(path), "", message, "keep one of the two: remove nri_plan, or remove the file")
    plan = read(path)
    return replace(settings, plan=plan, plan_source=str(path))


def read(path: Path) -> dict[str, tuple[PlannedBalloons, ...]]:
    """Read and validate a plan file; raises :class:`ProblemError` with every finding."""
    document = yamlfile.read(path)
    if document is None:
        raise problem(str(path), "", "the file is empty", "an empty plan is written: {}; or remove the file")
    found = schema.problems(document, "plan", str(path)) or config.coreless_ranks(document, str(path))
    if found:
        raise ProblemError(found)
    return config.planned(document)


def render(plan: Mapping[str, Sequence[tuple[str, int]]]) -> str:
    """The text of a plan file: for each node the models and how many balloons of each, in the order given."""
    document: dict[str, Any] = {
        node: [{"model": model, "balloons": balloons} for model, balloons in entries] for node, entries in plan.items()
    }
    return HEADER + yamlfile.dump(document)
