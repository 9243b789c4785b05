"""`minimize`: minima by BFGS or a truncated Newton method, as solutions of "the gradient is zero"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.api import functions as fn
from wengert.api.creation import tensor
from wengert.autodiff import body as bodies
from wengert.autodiff.cond import while_loop
from wengert.autodiff.transforms import value_and_grad
from wengert.core.errors import ArgumentError
from wengert.core.graph import Graph, Node, recorded_as, recording
from wengert.ops.core import stop_gradient
from wengert.solvers.converged import converged
from wengert.solvers.flat import Flat
from wengert.solvers.implicit import at, implicit, largest, linear_solver
from wengert.solvers.linear import Info
from wengert.tensor import Tensor

Objective = Callable[[Tensor], tuple[Tensor, Tensor]]


def minimize(
    function: Callable[..., Any],
    x0: Any,
    *args: Any,
    method: str = "bfgs",
    tol: float | None = None,
    max_steps: int = 500,
    linear: str | None = None,
    info: bool = False,
) -> Any:
    """Find a local minimum of `function(x, *args)`, a scalar, starting from `x0`.

    `method` is "bfgs" (which stores a matrix of the Hessian's size) or "newton-cg" (Hessian-vector products only).
    The gradient's largest element falls below `tol` (1e-9 in float64, 1e-4 in float32; times the value, or the initial
    value, where both are larger than 1); otherwise reading x raises an error. With `info`, returns x and an
    `Info(iterations, residual)` of the gradient.

    Derivatives with respect to `args` and everything else that the function reads are those of the exact minimum, in
    both modes and to any order, independent of the iterations. `linear` selects how they solve systems with the
    Hessian: "dense", "cg", ...

    >>> import wengert as wg
    >>> energy = lambda x, a: ((x - a) ** 2).sum() + (x**4).sum()
    >>> start = wg.zeros(2, dtype=wg.float64)
    >>> wg.minimize(energy, start, wg.tensor([3.0, 0.75])).numpy().round(6).tolist()
    [1.0, 0.5]
    """
    if method not in ("bfgs", "newton-cg"):
        raise ArgumentError(f'minimize: method must be "bfgs" or "newton-cg", not {method!r}')
    flat = Flat("minimize", x0)
    both = value_and_grad(lambda v: function(flat.unravel(v), *args))
    graph = bodies.record("minimize", both, (flat.vector,)).graph
    whole, constants = bodies.close(graph)
    condition = bodies.with_outputs(whole, whole.outputs[1:])
    how = linear_solver("minimize", linear)
    with recorded_as(recording.location, False):
        frozen = [stop_gradient(c) for c in constants]

        def objective(x: Tensor) -> tuple[Tensor, Tensor]:
            value, gradient = whole.inline(*frozen, x.node)
            return Tensor(value), Tensor(gradient)

        allowed = tol if tol is not None else 1e-9 if flat.dtype == np.float64 else 1e-4
        ways = {"bfgs": _bfgs, "newton-cg": _newton_cg(condition, frozen)}
        x, steps, residual, limit = _descend(ways[method], objective, flat.vector, float(allowed), max_steps)
        value = converged(f"minimize ({method})", x.node, steps.node, residual.node, limit.node)
    found = flat.unravel(implicit(value, condition, constants, how))
    return (found, Info(steps, residual)) if info else found


def _descend(
    way: Any, objective: Objective, start: Tensor, tol: float, max_steps: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Go along directions until the gradient is small: the point, the steps, the gradient's size, and what is allowed.

    `way` has what it remembers at the start, and gives a direction and, after a step, what it remembers then.
    """
    memory, direction, remember = way(start)
    value, gradient = objective(start)

    def limit(s: Any) -> Tensor:
        return tol * fn.maximum(fn.minimum(abs(s["value"]), abs(value)), 1)  # a value that runs away has none

    def going(s: Any) -> Tensor:
        small = largest(s["gradient"]) <= limit(s)
        return fn.logical_and(fn.logical_not(small), fn.logical_and(s["able"], s["k"] < max_steps))

    def step(s: Any) -> Any:
        d = direction(s["x"], s["gradient"], s["memory"])
        slope = fn.sum(d * s["gradient"])
        downhill = slope < 0
        d = fn.where(downhill, d, -s["gradient"])
        slope = fn.where(downhill, slope, -fn.sum(s["gradient"] ** 2))
        t = _line_search(objective, s["x"], s["value"], slope, d)
        x = s["x"] + t * d
        after, gradient = objective(x)
        memory = remember(s["memory"], x - s["x"], gradient - s["gradient"], s["k"])
        return {"x": x, "value": after, "gradient": gradient, "memory": memory, "k": s["k"] + 1, "able": t > 1e-15}

    carry = {"x": start, "value": value, "gradient": gradient, "memory": memory}
    end = while_loop(going, step, {**carry, "k": tensor(0, dtype=np.dtype(np.int64)), "able": tensor(True)})
    return end["x"], end["k"], largest(end["gradient"]), limit(end)


def _line_search(objective: Objective, x: Tensor, value: Tensor, slope: Tensor, d: Tensor) -> Tensor:
    """A step along d that lowers the value enough (Armijo). Near the minimum, where the value is level up to rounding,
    the slope decides (Hager and Zhang, 2005).
    """
    level = 1e-6 if x.dtype != np.float64 else 1e-13

    def short(t: Tensor) -> Tensor:
        after, gradient = objective(x + t * d)
        lower = after <= value + 1e-4 * t * slope
        flat = fn.logical_and(after <= value + level * fn.maximum(abs(value), 1), fn.sum(gradient * d) <= -0.8 * slope)
        return fn.logical_and(fn.logical_not(fn.logical_or(lower, flat)), t > 1e-15)

    return while_loop(short, lambda t: t / 2, tensor(1.0, dtype=x.dtype))


def _bfgs(start: Tensor) -> Any:
    """BFGS: an approximate inverse of the Hessian, from the changes of the gradient."""
    unit = fn.eye(start.size, dtype=start.dtype)

    def direction(x: Tensor, gradient: Tensor, inverse: Tensor) -> Tensor:
        return -(inverse @ gradient)

    def remember(inverse: Tensor, s: Tensor, y: Tensor, k: Tensor) -> Tensor:
        sy, yy = fn.sum(s * y), fn.sum(y * y)
        curved = sy > 1e-12 * fn.sqrt(fn.sum(s * s) * yy)
        rho = fn.where(curved, 1 / fn.where(curved, sy, 1), 0)
        scaled = fn.where(fn.logical_and(k == 0, curved), unit * (sy / fn.where(yy > 0, yy, 1)), inverse)
        left = unit - rho * s[:, None] * y
        return fn.where(curved, left @ scaled @ left.T + rho * s[:, None] * s, inverse)

    return unit, direction, remember


def _newton_cg(condition: Graph, frozen: Sequence[Node]) -> Any:
    """Newton's method, each step by conjugate gradients that end early: where the curvature is negative, or where the
    residual is small beside the gradient (Dembo and Steihaug, 1983).
    """

    def direction(x: Tensor, gradient: Tensor, memory: Any) -> Tensor:
        hessian = at(condition, frozen, x.node).pushed()
        product = lambda v: Tensor(hessian.inline(v.node)[0])  # noqa: E731
        size = fn.sqrt(fn.sum(gradient**2))
        allowed = fn.minimum(0.5, fn.sqrt(size)) * size

        def going(s: Any) -> Tensor:
            more = fn.logical_and(fn.sum(s["r"] ** 2) > allowed**2, s["k"] < 2 * x.size)
            return fn.logical_and(more, s["convex"])

        def step(s: Any) -> Any:
            hp, rr = product(s["p"]), fn.sum(s["r"] ** 2)
            curvature = fn.sum(s["p"] * hp)
            convex = curvature > 0
            alpha = fn.where(convex, rr / fn.where(convex, curvature, 1), 0)
            r = s["r"] - alpha * hp
            p = r + fn.sum(r**2) / rr * s["p"]
            return {"x": s["x"] + alpha * s["p"], "r": r, "p": p, "k": s["k"] + 1, "convex": convex}

        zero = fn.zeros_like(gradient)
        start = {"x": zero, "r": -gradient, "p": -gradient, "k": tensor(0, dtype=np.dtype(np.int64))}
        return while_loop(going, step, {**start, "convex": tensor(True)})["x"]

    return lambda start: ((), direction, lambda memory, s, y, k: ())
