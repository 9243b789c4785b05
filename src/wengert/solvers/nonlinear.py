"""`root`, `fixed_point` and `custom_root`: equations, and solutions that know which equation they solve."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.api import functions as fn
from wengert.api.creation import tensor
from wengert.autodiff import body as bodies
from wengert.autodiff.cond import while_loop
from wengert.core.graph import Graph, Node, recorded_as, recording
from wengert.ops.core import stop_gradient
from wengert.solvers.converged import converged
from wengert.solvers.flat import Flat
from wengert.solvers.implicit import (
    DENSE,
    LinearSolver,
    accuracy,
    allowed_residual,
    at,
    implicit,
    largest,
    linear_solver,
    solve_linear,
)
from wengert.solvers.linear import Info
from wengert.tensor import Tensor

Function = Callable[..., Any]


def root(
    function: Function,
    x0: Any,
    *args: Any,
    tol: float | None = None,
    max_steps: int = 100,
    linear: str | None = None,
    info: bool = False,
) -> Any:
    """Solve `function(x, *args) = 0` for x, starting from `x0`, by Newton's method with a line search.

    x is a number, an array or a container of them, and the function returns as many values. The residual's largest
    element falls below `tol` (1e-12 in float64, times the initial residual where that is above 1); otherwise reading x
    raises an error. `linear` selects how the steps and the derivatives solve their linear systems: "dense", "gmres",
    "bicgstab" or "cg"; the default is "dense" up to 400 unknowns and "gmres" beyond. With `info`, returns x and an
    `Info(iterations, residual)`.

    Derivatives with respect to `args` and everything else that the function reads are those of the exact solution, in
    both modes and to any order, independent of the iterations. The derivative with respect to `x0` is zero.

    >>> import wengert as wg
    >>> solve = lambda a: wg.root(lambda x, a: x**2 - a, wg.tensor(1.0, dtype=wg.float64), a)
    >>> solve(4.0).item(), wg.grad(solve)(wg.tensor(4.0, dtype=wg.float64)).item()
    (2.0, 0.25)
    """
    flat, condition, constants = _recorded("root", lambda x: function(x, *args), x0)
    how = linear_solver("root", linear)
    with recorded_as(recording.location, False):
        frozen = [stop_gradient(c) for c in constants]
        x, steps, residual, allowed = _newton(condition, frozen, flat.vector, how, tol, max_steps)
        value = converged("root", x.node, steps.node, residual.node, allowed.node)
    found = flat.unravel(implicit(value, condition, constants, how))
    return (found, Info(steps, residual)) if info else found


def fixed_point(
    function: Function,
    x0: Any,
    *args: Any,
    tol: float | None = None,
    max_steps: int = 1000,
    linear: str | None = None,
    info: bool = False,
) -> Any:
    """The x with `function(x, *args) = x`, by applying the function again and again from `x0`.

    It ends where a step changes no element by more than `tol` (1e-12 in float64, times the largest element where that
    is larger than 1), or looking at x raises. Derivatives, `linear` and `info` are those of `root`, but that beyond 400
    unknowns "bicgstab" is the default: where applying the function converges it does, too, in the memory of ten vectors
    ("gmres" keeps 40).

    >>> import wengert as wg
    >>> x = wg.fixed_point(wg.cos, wg.tensor(1.0, dtype=wg.float64))
    >>> round(x.item(), 6)
    0.739085
    """
    step = lambda x: function(x, *args)  # noqa: E731
    flat = Flat("fixed_point", x0)
    rest = lambda v: Tensor(flat.ravel(step(flat.unravel(v)))) - v  # noqa: E731
    condition, constants = bodies.close(bodies.record("fixed_point", rest, (flat.vector,)).graph)
    how = linear_solver("fixed_point", "bicgstab" if linear is None and flat.vector.size > DENSE else linear)
    with recorded_as(recording.location, False):
        frozen = [stop_gradient(c) for c in constants]
        change = lambda x: Tensor(condition.inline(*frozen, x.node)[0])  # noqa: E731
        first = change(flat.vector)

        def going(s: Any) -> Any:
            return fn.logical_and(
                fn.logical_not(largest(s[1]) <= allowed_residual(flat.dtype, tol, largest(s[0]))), s[2] < max_steps
            )

        def stepped(s: Any) -> Any:
            x = s[0] + s[1]
            return x, change(x), s[2] + 1

        x, moved, steps = while_loop(going, stepped, (flat.vector, first, _zero()))
        allowed = allowed_residual(flat.dtype, tol, largest(x))
        value = converged("fixed_point", (x + moved).node, steps.node, largest(moved).node, allowed.node)
    found = flat.unravel(implicit(value, condition, constants, how))
    return (found, Info(steps, largest(moved))) if info else found


def custom_root(
    function: Function, solver: Function, x0: Any, *args: Any, tol: float | None = None, linear: str | None = None
) -> Any:
    """Make the result of your own solver differentiable, as the solution of `function(x, *args) = 0`.

    `solver(f, x0)` receives the equation as a function of x alone and returns its root. It may compute outside Wengert
    (`f(x).numpy()`, SciPy), because no derivative passes through it. If the residual's largest element is above `tol`
    (1e-6; in float32 1e-3), reading the result raises an error. Derivatives and `linear` are as in `root`.

    >>> import wengert as wg
    >>> def bisect(f, x):
    ...     low, high = 0.0, 10.0
    ...     for _ in range(60):
    ...         middle = (low + high) / 2
    ...         low, high = (low, middle) if f(middle).item() > 0 else (middle, high)
    ...     return middle
    >>> x0 = wg.tensor(1.0, dtype=wg.float64)
    >>> wg.grad(lambda a: wg.custom_root(lambda x, a: x**2 - a, bisect, x0, a))(wg.tensor(4.0, dtype=wg.float64)).item()
    0.25
    """
    flat, condition, constants = _recorded("custom_root", lambda x: function(x, *args), x0)
    how = linear_solver("custom_root", linear)
    with recorded_as(recording.location, False):
        frozen = [stop_gradient(c) for c in constants]
        equation = lambda x: flat.unravel(condition.inline(*frozen, flat.ravel(x))[0])  # noqa: E731
        x = Tensor(stop_gradient(flat.ravel(solver(equation, x0))))
        residual = largest(Tensor(condition.inline(*frozen, x.node)[0]))
        allowed = tensor((1e-6 if accuracy(flat.dtype, None) < 1e-8 else 1e-3) if tol is None else tol, flat.dtype)
        value = converged("custom_root: the solver", x.node, _zero().node, residual.node, allowed.node)
    return flat.unravel(implicit(value, condition, constants, how))


def _recorded(name: str, function: Function, x0: Any) -> tuple[Flat, Graph, list[Node]]:
    """How the unknowns lie in a vector, the equation as a graph of its constants and that vector, and the constants."""
    flat = Flat(name, x0)
    of_vector = lambda v: Tensor(flat.ravel(function(flat.unravel(v))))  # noqa: E731
    return flat, *bodies.close(bodies.record(name, of_vector, (flat.vector,)).graph)


def _zero() -> Tensor:
    return tensor(0, dtype=np.dtype(np.int64))


def _newton(
    condition: Graph, frozen: Sequence[Node], start: Tensor, how: LinearSolver, tol: float | None, max_steps: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """A root, the number of steps, its residual, and what is allowed. A last step makes it as exact as it gets."""
    value = lambda x: Tensor(condition.inline(*frozen, x.node)[0])  # noqa: E731

    def direction(x: Tensor, f: Tensor) -> Tensor:
        return Tensor(solve_linear(at(condition, frozen, x.node).pushed(), (-f).node, how))

    first = value(start)
    allowed = allowed_residual(start.dtype, tol, fn.where(largest(first) < np.inf, largest(first), 1))

    def going(s: Any) -> Tensor:
        return fn.logical_and(fn.logical_not(largest(s["f"]) <= allowed), fn.logical_and(s["able"], s["k"] < max_steps))

    def step(s: Any) -> Any:
        d = direction(s["x"], s["f"])
        size = fn.sqrt(fn.sum(s["f"] ** 2))

        def short(t: Tensor) -> Tensor:
            after = fn.sqrt(fn.sum(value(s["x"] + t * d) ** 2))
            return fn.logical_and(fn.logical_not(after <= (1 - 1e-4 * t) * size), t > 1e-9)

        t = while_loop(short, lambda t: t / 2, tensor(1.0, dtype=start.dtype))
        x = s["x"] + t * d
        return {"x": x, "f": value(x), "k": s["k"] + 1, "able": t > 1e-9}

    carry = {"x": start, "f": first, "k": _zero(), "able": tensor(True)}
    end = while_loop(going, step, carry)
    residual = largest(end["f"])

    def polished(s: Any) -> Any:
        x = s["x"] + direction(s["x"], s["f"])
        better = largest(value(x)) < largest(s["f"])
        return {"x": fn.where(better, x, s["x"]), "again": tensor(False), "f": s["f"]}

    again = fn.logical_and(residual <= allowed, residual > 0)
    last = while_loop(lambda s: s["again"], polished, {"x": end["x"], "again": again, "f": end["f"]})
    return last["x"], end["k"], residual, allowed
