"""The edge to HiGHS, the solver of the optional extra ``balloonist[solver]``: linear and integer programs.

One thread, a fixed seed and limits counted in nodes of the search tree instead of seconds: the same program gives the
same answer on any day.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

NODE_LIMIT: Final = 2_000
"""Nodes of the search tree after which the best solution found so far is taken, unproven."""

INFINITY: Final = 1e30
"""What HiGHS takes for no bound."""


@dataclass
class Program:
    """A program to maximise; variables are numbered in the order they are added, and so are rows."""

    gains: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    rows: list[tuple[float, float, Mapping[int, float]]] = field(default_factory=list)

    def variable(self, gain: float, upper: float) -> int:
        """Add a variable between 0 and ``upper`` that adds ``gain`` to the objective; returns its number."""
        self.gains.append(gain)
        self.upper.append(upper)
        return len(self.gains) - 1

    def row(self, low: float, high: float, terms: Mapping[int, float]) -> int:
        """Demand that the weighted sum of variables lies between ``low`` and ``high``; returns the row's number."""
        self.rows.append((low, high, terms))
        return len(self.rows) - 1


@dataclass(frozen=True)
class Solution:
    """Values of the variables, duals of the rows, the objective and the least upper bound that is proven for it."""

    values: Sequence[float]
    duals: Sequence[float]
    objective: float
    bound: float


def available() -> bool:
    """Whether HiGHS is installed."""
    return importlib.util.find_spec("highspy") is not None


@cache
def _library() -> Any:
    """HiGHS, once its first object has printed a banner on the C library's standard output, where nobody wants it."""
    library: Any = importlib.import_module("highspy")
    flush = ctypes.CDLL(None).fflush
    sys.stdout.flush()
    flush(None)
    kept = os.dup(1)
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.close(nowhere)
        library.Highs()
        flush(None)
    finally:
        os.dup2(kept, 1)
        os.close(kept)
    return library


def solve(
    program: Program, *, integer: bool, nodes: int = NODE_LIMIT, gap: float = 0.0, target: float | None = None
) -> Solution | None:
    """Maximise; None where no solution was found.

    The search stops at so many ``nodes``, at a solution this close to the bound (``gap``, as a share of it), or at an
    objective that is good enough (``target``).
    """
    highspy = _library()
    solver = highspy.Highs()
    options: dict[str, object] = {"output_flag": False, "threads": 1, "random_seed": 0, "parallel": "off"}
    if integer:
        options |= {"mip_rel_gap": gap, "mip_abs_gap": 1e-6, "mip_max_nodes": nodes}
        if target is not None:
            options["objective_target"] = target
    for name, value in options.items():
        solver.setOptionValue(name, value)
    solver.passModel(_model(highspy, program, integer))
    solver.run()
    info = solver.getInfo()
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return None
    found = solver.getSolution()
    bound = info.mip_dual_bound if integer else info.objective_function_value
    return Solution(list(found.col_value), list(found.row_dual), info.objective_function_value, bound)


def _model(highspy: Any, program: Program, integer: bool) -> Any:
    model = highspy.HighsLp()
    model.num_col_ = len(program.gains)
    model.num_row_ = len(program.rows)
    model.sense_ = highspy.ObjSense.kMaximize
    model.col_cost_ = program.gains
    model.col_lower_ = [0.0] * len(program.gains)
    model.col_upper_ = program.upper
    model.row_lower_ = [low for low, _, _ in program.rows]
    model.row_upper_ = [high for _, high, _ in program.rows]
    matrix = model.a_matrix_
    matrix.format_ = highspy.MatrixFormat.kRowwise
    starts, index, value = [0], [], []
    for _, _, terms in program.rows:
        index += list(terms)
        value += list(terms.values())
        starts.append(len(index))
    matrix.start_, matrix.index_, matrix.value_ = starts, index, value
    matrix.num_col_, matrix.num_row_ = model.num_col_, model.num_row_
    if integer:
        model.integrality_ = [highspy.HighsVarType.kInteger] * len(program.gains)
    return model
