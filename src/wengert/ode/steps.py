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
from wengert.ode import jacobians, rosenbrock_tableaus, tableaus
from wengert.ode.kvaerno import KVAERNO5, DiagonalTableau
from wengert.ode.rosenbrock_tableaus import Rosenbrock
from wengert.ode.stages import stage
from wengert.ode.system import Leaves, Slope, combined, plus, ravel, size_of, times, unravel
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
        parts = [self.attempt(f, t, y, slope, h * share) for share in _shares(self.tableau.inner)]
        return _by_hermite(y, slope, h, [*parts, step])


def _shares(inner: int) -> list[float]:
    return [(i + 1) / (inner + 1) for i in range(inner)]


def _by_hermite(y: Leaves, slope: Leaves, h: Tensor, parts: Sequence[Attempt]) -> list[Leaves]:
    """Through the beginning of a step and the ends of evenly spaced parts of it."""
    changes = [[a - b for a, b in zip(part.y, y)] for part in parts]
    moved = [times(h, found) for found in (slope, *[part.slope for part in parts])]
    return _polynomial(y, _hermite(len(moved)), [*changes, *moved])


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

    def __init__(self, tableau: Rosenbrock, jacobian: jacobians.Jacobian = jacobians.dense) -> None:
        self.tableau, self.jacobian = tableau, jacobian
        self.name, self.order, self.error_order = tableau.name, tableau.order, tableau.error_order
        self.degree = len(tableau.within)

    def attempt(self, f: Slope, t: Tensor, y: Leaves, slope: Leaves, h: Tensor) -> Attempt:
        table, start = self.tableau, ravel(y)

        def along(t: Tensor, at: Tensor) -> Tensor:
            return ravel(f(t, unravel(at, y)))

        linearized = self.jacobian(lambda at: along(t, at), start)
        _, by_time = wg.jvp(lambda t: along(t, start), (t,), (wg.ones_like(t),))
        # times h gamma, so that a short step has a matrix near I: (I - h gamma J) u = h gamma (...)
        solved = linearized(h * table.gamma)
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


class Scale(Protocol):
    """What a tolerance is to a method: the size of an error of 1, by element."""

    def scale(self, y: Leaves, other: Leaves) -> Leaves:
        """For a state between these two."""


class DiagonallyImplicit:
    """An ESDIRK method: one LU factorisation a step, with which every stage is found by Newton's method.

    Stages are solved to a hundredth of the tolerance; without one, to rounding.
    """

    adaptive = True
    inner = 1

    def __init__(
        self,
        tableau: DiagonalTableau,
        jacobian: jacobians.Jacobian = jacobians.dense,
        tolerance: Scale | None = None,
    ) -> None:
        self.tableau, self.jacobian, self.tolerance = tableau, jacobian, tolerance
        self.name, self.order, self.error_order = tableau.name, tableau.order, tableau.order
        self.degree = 2 * self.inner + 3

    def attempt(self, f: Slope, t: Tensor, y: Leaves, slope: Leaves, h: Tensor) -> Attempt:
        table, start = self.tableau, ravel(y)
        scale = h * table.gamma

        def along(t: Tensor, at: Tensor) -> Tensor:
            return ravel(f(t, unravel(at, y)))

        solve = self.jacobian(lambda at: along(t, at), wg.stop_gradient(start))(wg.stop_gradient(scale))
        stages: list[Leaves] = [[h * ravel(slope)]]
        allowed = self._allowed(y)
        for row, c in zip(table.a[1:], table.c[1:]):
            base = plus([start], combined(row, stages))[0]

            def residual(z: Tensor, base: Tensor = base, c: float = c) -> Tensor:
                return z - base - scale * along(t + c * h, z)

            found = stage(
                residual,
                base + table.gamma * stages[-1][0],
                solve,
                lambda change: size_of([change], [allowed]),
                preconditioned=self.jacobian is not jacobians.dense,
            )
            # what f gives there would enlarge the error of the stage where the system is stiff
            stages.append([(found - base) / table.gamma])
        error = combined(table.error, stages) or [wg.zeros_like(start)]
        # the last stage is the slope at the end as well: f would amplify how far that is off by the stiffness
        slope = unravel(stages[-1][0] / wg.where(h == 0, 1.0, h), y)
        return Attempt(unravel(found, y), slope, unravel(error[0], y), [unravel(one[0], y) for one in stages])

    def _allowed(self, y: Leaves) -> Tensor:
        """The size of a correction that is small enough, by element."""
        values = [wg.stop_gradient(one) for one in y]
        if self.tolerance is not None:
            return 0.01 * ravel(self.tolerance.scale(values, values))
        whole = wg.abs(ravel(values))
        eps = wg.finfo(whole.dtype).eps
        return 100 * eps * (whole + wg.max(whole)) + wg.finfo(whole.dtype).smallest_normal

    def within(self, f: Slope, t: Tensor, y: Leaves, slope: Leaves, h: Tensor) -> list[Leaves]:
        parts = [self.attempt(f, t, y, slope, h * share) for share in (*_shares(self.inner), 1.0)]
        return _by_hermite(y, slope, h, parts)


def prepared(method: Method, jacobian: jacobians.Jacobian, tolerance: Scale) -> Method:
    """A method for one solve: with its Jacobian and its tolerances."""
    if isinstance(method, LinearlyImplicit):
        return LinearlyImplicit(method.tableau, jacobian)
    if isinstance(method, DiagonallyImplicit):
        return DiagonallyImplicit(method.tableau, jacobian, tolerance)
    return method


METHODS: dict[str, Method] = {
    **{one.name: Explicit(one) for one in (tableaus.TSIT5, tableaus.DOPRI5, tableaus.DOPRI8, tableaus.RK4)},
    **{one.name: LinearlyImplicit(one) for one in (rosenbrock_tableaus.RODAS4, rosenbrock_tableaus.RODAS5)},
    KVAERNO5.name: DiagonallyImplicit(KVAERNO5),
}
"""The methods by their names."""
