"""A stage of a diagonally implicit step: the z with z = base + s f(z), by Newton's method with one Jacobian.

In: the equation, a guess, and what solves systems of I - s J. Out: z, whose derivatives are those of the equation by
the implicit function theorem, not of the iterations. Where these do not converge z is NaN, and the step is taken again,
shorter.
"""

from __future__ import annotations

from typing import Any

import wengert as wg
from wengert import Tensor
from wengert.autodiff import body as bodies
from wengert.core.dtypes import int32
from wengert.core.graph import recorded_as, recording
from wengert.ode.jacobians import Vector
from wengert.ops.core import stop_gradient
from wengert.solvers.implicit import LinearSolver, Preconditioner, implicit

MOST = 12
"""Newton iterations after which a stage counts as not found."""


def stage(residual: Vector, guess: Tensor, solve: Vector, size: Vector, preconditioned: bool) -> Tensor:
    """The z with residual(z) = 0, where `solve` solves approximate systems of the residual's Jacobian.

    `size` measures a correction: below 1 it is small enough. `preconditioned`: derivatives, too, use `solve`.
    """
    condition, constants = bodies.close(bodies.record("ode.solve", residual, (guess,)).graph)
    near = None
    if preconditioned:
        near = Preconditioner(*_closed(bodies.record("ode.solve", solve, (guess,)).graph))
    with recorded_as(recording.location, False):
        frozen = [stop_gradient(c) for c in constants]
        left = lambda z: Tensor(condition.inline(*frozen, z.node)[0])  # noqa: E731
        value = _newton(left, wg.stop_gradient(guess), solve, size)
    return Tensor(implicit(value.node, condition, constants, LinearSolver(), near))


def _closed(graph: Any) -> Any:
    found, constants = bodies.close(graph)
    return found, tuple(constants)


def _newton(left: Vector, guess: Tensor, solve: Vector, size: Vector) -> Tensor:
    def going(state: Any) -> Tensor:
        _, moved, k = state
        return wg.logical_and(k < MOST, wg.logical_not(moved <= 1.0))

    def step(state: Any) -> Any:
        z, _, k = state
        change = wg.stop_gradient(solve(left(z)))
        # a stage near 0 converges to rounding, no further
        return z - change, size(change).to(z.dtype), k + 1

    start = (guess, wg.full((), float("inf"), dtype=guess.dtype), wg.zeros((), dtype=int32))
    z, moved, _ = wg.while_loop(going, step, start)
    return wg.where(moved <= 1.0, z, float("nan"))
