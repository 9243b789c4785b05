"""How exact numeric derivatives are: the error of differences against the step h.

A large step looks at the function too far away; a small one subtracts two numbers that agree in most of their digits.
In between, the error is smallest: on a plot with both axes logarithmic it has the shape of a V.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from wengert.core.dtypes import float64
from wengert.core.graph import Graph
from wengert.learn.derivatives.recorded import Function, record

STEPS = [float(h) for h in 10.0 ** -np.arange(0, 16.25, 0.25)]


@dataclass
class Differences:
    """Relative errors of a gradient, for each step: those of (f(x+h) - f(x)) / h and (f(x+h) - f(x-h)) / 2h."""

    steps: list[float]
    errors: dict[str, list[float]]  # by method, "forward" and "central"
    estimates: dict[str, list[float]]  # the gradient at the method's best step

    def best(self, method: str) -> float:
        """The step with the smallest error."""
        return self.steps[int(np.argmin(self.errors[method]))]


def differences(function: Function, point: Sequence[float], gradient: Sequence[float]) -> Differences:
    """Estimate a gradient by differences with many steps, and compare with the exact one."""
    recorded = record(function, len(point))
    graph = Graph(recorded.inputs, [recorded.output], since=0)

    def along(i: int, h: float) -> float:
        moved = [np.array(x + h * (i == j), float64) for j, x in enumerate(point)]
        with np.errstate(all="ignore"):
            return float(graph(*moved)[0])

    here = along(0, 0.0)
    inputs = range(len(point))
    estimates = {
        "forward": [[(along(i, h) - here) / h for i in inputs] for h in STEPS],
        "central": [[(along(i, h) - along(i, -h)) / (2 * h) for i in inputs] for h in STEPS],
    }
    errors = {method: [_relative_error(each, gradient) for each in found] for method, found in estimates.items()}
    best = {method: estimates[method][int(np.argmin(found))] for method, found in errors.items()}
    return Differences(STEPS, errors, best)


def _relative_error(found: Sequence[float], exact: Sequence[float]) -> float:
    """How far off the worst component is, by the largest one; infinite where the function was left undefined."""
    scale = max(np.abs(exact).max(), np.finfo(float64).tiny)
    error = float(np.abs(np.subtract(found, exact)).max() / scale)
    return error if np.isfinite(error) else float("inf")
