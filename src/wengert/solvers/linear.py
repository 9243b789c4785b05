"""`linear_solve`: systems given by a matrix, or by a function that multiplies by one that is never formed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from wengert.autodiff import body as bodies
from wengert.core.errors import ArgumentError, ShapeError
from wengert.core.graph import Graph
from wengert.ops.core import as_node
from wengert.solvers.flat import Flat
from wengert.solvers.implicit import (
    Preconditioner,
    _linear_condition,
    implicit,
    iterated,
    linear_solver,
    solve_linear,
)
from wengert.tensor import Tensor


class Info(NamedTuple):
    """How a solver ended: its number of iterations (matrix products, for a linear system) and the residual."""

    iterations: Tensor
    residual: Tensor


def linear_solve(
    matrix: Any,
    b: Any,
    *,
    method: str | None = None,
    preconditioner: Callable[[Any], Any] | None = None,
    tol: float | None = None,
    max_steps: int | None = None,
    restart: int = 40,
    info: bool = False,
) -> Any:
    """Solve `matrix(x) = b` for x, where `matrix` is a linear function of values like `b`, or a square matrix.

    `method` is "cg" (symmetric positive definite), "gmres" or "bicgstab" (any), or "dense", which forms the matrix;
    without it, "dense" up to 400 unknowns and "gmres" beyond. `preconditioner` is a linear function that approximates
    the inverse. The residual's norm falls below `tol` times the norm of `b` (1e-12 in float64); otherwise reading x
    raises an error. With `info`, returns x and an `Info(iterations, residual)`.

    Derivatives with respect to `b` and everything that `matrix` reads are those of the exact solution, in both modes
    and to any order: they solve further systems and store nothing from the iterations.

    >>> import wengert as wg
    >>> stiffness = lambda x: 2 * x - wg.pad(x[1:], (0, 1)) - wg.pad(x[:-1], (1, 0))
    >>> x = wg.linear_solve(stiffness, wg.ones(3, dtype=wg.float64), method="cg")
    >>> x.numpy().round(9).tolist()
    [1.5, 2.0, 1.5]
    """
    how = linear_solver("linear_solve", method, tol, max_steps, restart)
    flat = Flat("linear_solve", b)
    product = _recorded(flat, matrix if callable(matrix) else _multiplied(matrix, flat))
    near = None if preconditioner is None else _preconditioner(flat, preconditioner)
    if (how.method is None and flat.vector.size > 400) or how.method not in (None, "dense"):
        how = how._replace(method=how.method or "gmres")
        condition, constants = _linear_condition(product, flat.vector.node)
        value, found = iterated(condition, constants, how, near)
        x = flat.unravel(implicit(value, condition, constants, how, near))
        return (x, Info(found.steps, found.residual[..., 0])) if info else x
    if info:
        raise ArgumentError('linear_solve: info= needs an iterative method: "cg", "gmres" or "bicgstab"')
    return flat.unravel(solve_linear(product, flat.vector.node, how))


def _multiplied(matrix: Any, flat: Flat) -> Callable[[Any], Any]:
    node = as_node(matrix)
    if node.shape != (flat.vector.size,) * 2 or len(flat.shapes) != 1 or len(flat.shapes[0]) != 1:
        raise ShapeError(
            f"linear_solve: it takes a square matrix and one right-hand vector, not a matrix of shape {node.shape} "
            f"and shapes {flat.shapes}. For several right-hand sides use wg.vmap or wg.linalg.solve"
        )
    return lambda x: Tensor(node) @ x


def _recorded(flat: Flat, function: Callable[[Any], Any]) -> Graph:
    """A linear function of containers as a graph from vector to vector."""
    return bodies.record(flat.name, lambda v: Tensor(flat.ravel(function(flat.unravel(v)))), (flat.vector,)).graph


def _preconditioner(flat: Flat, function: Callable[[Any], Any]) -> Preconditioner:
    graph, constants = bodies.close(_recorded(flat, function))
    return Preconditioner(graph, tuple(constants))
