"""One step of a method: from a state and its slope to the next, with an error estimate and values within the step.

`Method.attempt` makes a step, `Method.within` the polynomial through it: a list of states, the factors of 1, theta,
theta^2, ... where theta goes from 0 to 1 along the step. The polynomial is made from the step's beginning alone, so
that a loop carries no stages, and only for steps in which somebody wants a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

import wengert as wg
from wengert import Tensor
from wengert.ode import rosenbrock_tableaus, tableaus
from wengert.ode.factored import factored
from wengert.ode.rosenbrock_tableaus import Rosenbrock
from wengert.ode.system import Leaves, Slope, combined, plus, ravel, times, unravel
from wengert.ode.tableaus import Tableau


class Attempt(NamedTuple):
    """Where a step ends: the state, its slope, the error estimate, and the stages."""

    y: Leaves
    slope: Leaves
    error: Leaves | None
    stages: list[Leaves]


class Method(Protocol):
    """What all methods have.

    `error_order` is the power of the step size that the error estimate goes with, `degree` that of the polynomial.
    """

    name: str
    order: int
    error_order: int
    adaptive: bool
    degree: int

    def attempt(self, f: Slope, t: Tensor, y: Leaves, slope: Leaves, h: Tensor) -> Attempt:
        """A step of length h from a state whose slope is known."""

    def within(self, f: Slope, t: Tensor, y: Leaves, slope: Leaves, h: Tensor) -> list[Leaves]:
        """The polynomial through the step."""


class Explicit:
    """An explicit Runge-Kutta method."""

    def __init__(self, tableau: Tableau) -> None:
        self.tableau = tableau
        self.name, self.order, self.error_order = tableau.name, tableau.order, tableau.error_order
        self.adaptive = tableau.error is not None
        self.degree = 2 * tableau.inner + 3 if tableau.within is None else len(tableau.within)

    def attempt(self, f: Slope, t: Tensor, y: Leaves, slope: Leaves, h: Tensor) -> Attempt:
        table = self.tableau
        stages = [times(h, slope)]
        at, found = y, slope
        for row, c in zip(table.a[1:], table.c[1:]):
            at = plus(y, combined(row, stages))
            found = f(t + c * h, at)
            stages.append(times(h, found))
        if table.first_same_as_last:
            end, last = at, found
        else:
            end = plus(y, combined(table.b, stages))
            last = f(t + h, end)
        error = None if table.error is None else combined(table.error, stages)
        return Attempt(end, last, error, stages)

    def within(self, f: Slope, t: Tensor, y: Leaves, slope: Leaves, h: Tensor) -> list[Leaves]:
        step = self.attempt(f, t, y, slope, h)
        if self.tableau.within is not None:
            return _polynomial(y, self.tableau.within, step.stages)
        ends = [(y, slope), (step.y, step.slope)]
        for i in range(self.tableau.inner):
            part = self.attempt(f, t, y, slope, h * ((i + 1) / (self.tableau.inner + 1)))
            ends.insert(i + 1, (part.y, part.slope))
        changes = [[a - b for a, b in zip(at, y)] for at, _ in ends[1:]]
        moved = [times(h, found) for _, found in ends]
        return _polynomial(y, _hermite(len(ends)), [*changes, *moved])


@lru_cache
def _hermite(points: int) -> Any:
    """Hermite's polynomial through evenly spaced points: the factors of each power of theta, from the first on.

    The columns are the values less the first one, without the first; then the slopes.
    """
    at, powers = np.linspace(0, 1, points), np.arange(1, 2 * points)
    values = at[1:, None] ** powers
    slopes = powers * at[:, None] ** (powers - 1)
    return np.linalg.inv(np.concatenate([values, slopes]))


def _polynomial(y: Leaves, weights: Any, stages: Sequence[Leaves]) -> list[Leaves]:
    rows = [combined(row, stages) for row in weights]
    return [y, *[[wg.zeros_like(one) for one in y] if row is None else row for row in rows]]


class LinearlyImplicit:
    """A Rosenbrock method: the Jacobian by forward mode, one LU factorisation a step."""

    adaptive = True

    def __init__(self, tableau: Rosenbrock) -> None:
        self.tableau = tableau
        self.name, self.order, self.error_order = tableau.name, tableau.order, tableau.error_order
        self.degree = len(tableau.within)

    def attempt(self, f: Slope, t: Tensor, y: Leaves, slope: Leaves, h: Tensor) -> Attempt:
        table, start = self.tableau, ravel(y)

        def along(t: Tensor, at: Tensor) -> Tensor:
            return ravel(f(t, unravel(at, y)))

        matrix = wg.jacobian(lambda at: along(t, at), mode="forward")(start)
        _, by_time = wg.jvp(lambda t: along(t, start), (t,), (wg.ones_like(t),))
        # times h gamma, so that a short step has a matrix near I: (I - h gamma J) u = h gamma (...)
        solved = factored(wg.eye(start.shape[0], dtype=start.dtype) - h * table.gamma * matrix)
        stages: list[Leaves] = []
        for row, others, c, d in zip(table.a, table.c_matrix, table.c, table.d):
            found = ravel(slope) if not row else along(t + c * h, plus([start], combined(row, stages))[0])
            right = h * found if d == 0 else h * found + (h * h * d) * by_time
            coupled = combined(others, stages)
            stages.append([solved(table.gamma * (right if coupled is None else right + coupled[0]))])
        end = unravel(plus([start], combined(table.m, stages))[0], y)
        return Attempt(end, f(t + h, end), unravel(stages[-1][0], y), [unravel(one[0], y) for one in stages])

    def within(self, f: Slope, t: Tensor, y: Leaves, slope: Leaves, h: Tensor) -> list[Leaves]:
        return _polynomial(y, self.tableau.within, self.attempt(f, t, y, slope, h).stages)


METHODS: dict[str, Method] = {
    **{one.name: Explicit(one) for one in (tableaus.TSIT5, tableaus.DOPRI5, tableaus.DOPRI8, tableaus.RK4)},
    **{one.name: LinearlyImplicit(one) for one in (rosenbrock_tableaus.RODAS4, rosenbrock_tableaus.RODAS5)},
}
"""The methods by their names."""
