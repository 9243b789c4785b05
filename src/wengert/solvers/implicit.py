"""The op whose value solves an equation, and its derivatives by the implicit function theorem.

Where F(x, constants) = 0, a small change of the constants moves x so that F stays zero: J dx = -F' d(constants), with
the Jacobian J of F with respect to x. Forward mode solves that system, reverse mode the transposed one. How x was found
does not matter, and none of it is stored. The rules are recorded ops, and a matrix-free solver's result is such a value
again, so derivatives of every order exist.

Vectors lie along the last axis; the axes before it are lanes, each an equation of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.api.creation import tensor
from wengert.autodiff import body as bodies
from wengert.autodiff.forward import forward
from wengert.autodiff.jacobian import each_over_lanes
from wengert.autodiff.reverse import or_zero, reverse
from wengert.core.dtypes import float64
from wengert.core.errors import ArgumentError
from wengert.core.graph import Graph, Node, dependents, now, recorded_as, recording
from wengert.ops.core import data, stop_gradient, variable
from wengert.ops.elementwise import maximum, multiply, negative, subtract
from wengert.ops.linalg import solve
from wengert.ops.movement import broadcast_to, expand_dims, matrix_transpose, moveaxis, reshape
from wengert.ops.op import Op, count_lanes, each_batched, pick
from wengert.solvers import krylov
from wengert.solvers.converged import converged
from wengert.tensor import Tensor

DENSE = 400
"""Up to so many unknowns a linear system is solved with its matrix, unless a method is asked for."""
METHODS = ("dense", "cg", "gmres", "bicgstab")


class LinearSolver(NamedTuple):
    """How to solve linear systems."""

    method: str | None = None  # one of METHODS; None: by the size
    tol: float | None = None  # of the residual, relative to the right-hand side
    max_steps: int | None = None
    restart: int = 40


def linear_solver(name: str, method: Any, tol: Any = None, max_steps: Any = None, restart: int = 40) -> LinearSolver:
    """Check the options that a user passed."""
    if isinstance(method, LinearSolver):
        return method
    if method not in (None, *METHODS):
        raise ArgumentError(f"{name}: linear must be one of {', '.join(METHODS)}, not {method!r}")
    if tol is not None and not tol > 0:
        raise ArgumentError(f"{name}: tol must be a positive number, not {tol!r}")
    return LinearSolver(method, tol, max_steps, restart)


def accuracy(dtype: np.dtype[Any], tol: float | None) -> float:
    """The given tolerance, or the default for a dtype."""
    return (1e-12 if dtype == float64 else 5e-6) if tol is None else float(tol)


class Equation(NamedTuple):
    """An equation recorded at its solution: F, the unknown, and the constants that have derivatives."""

    value: Node
    x: Node
    constants: list[Node]

    def pushed(self) -> Graph:
        """The product J v."""
        with recorded_as(recording.location, True):
            seed = bodies.placeholder_like(self.x)
            moved = or_zero(forward([self.value], [self.x], [seed])[0], self.value)
        return Graph([seed], [moved], nodes=dependents([moved], [seed]))

    def pulled(self) -> Graph:
        """The product J^T v."""
        with recorded_as(recording.location, True):
            seed = bodies.placeholder_like(self.value)
            found = or_zero(reverse([self.value], [seed], [self.x])[0], self.x)
        return Graph([seed], [found], nodes=dependents([found], [seed]))


def at(condition: Graph, constants: Sequence[Node], x: Node) -> Equation:
    """Record the equation at some values."""
    with recorded_as(recording.location, True):
        point = variable(x)
        inner = [variable(c) if bodies.has_tangents(c) else c for c in constants]
        return Equation(condition.inline(*inner, point)[0], point, inner)


def matrix_of(product: Graph) -> Node:
    """The matrix of a linear graph, for each lane; the lanes' axes come first."""
    (seed,), results = product.inputs, product.outputs
    n = seed.shape[-1]
    rows = np.eye(n, dtype=seed.dtype).reshape(n, *(1,) * (seed.ndim - 1), n)
    basis = broadcast_to(data(rows, seed.device), (n, *seed.shape))
    return moveaxis(each_over_lanes(results, seed, basis)[0], 0, -1)


class Preconditioner(NamedTuple):
    """An approximate inverse: a linear graph of constants and a vector, with those constants."""

    graph: Graph
    constants: tuple[Node, ...]

    def __call__(self, vector: Tensor) -> Tensor:
        frozen = [stop_gradient(c) for c in self.constants]
        return Tensor(self.graph.inline(*frozen, vector.node)[0])

    def transposed(self) -> Preconditioner:
        """The preconditioner of the transposed system."""
        since = now()
        with recorded_as(recording.location, True):
            inputs = [bodies.placeholder_like(node) for node in self.graph.inputs]
            result = self.graph.inline(*inputs)[0]
            seed = bodies.placeholder_like(result)
            found = or_zero(reverse([result], [seed], [inputs[-1]])[0], inputs[-1])
        return Preconditioner(Graph([*inputs[:-1], seed], [found], since), self.constants)


def solve_linear(product: Graph, b: Node, how: LinearSolver, near: Preconditioner | None = None) -> Node:
    """Solve product(x) = b for x, differentiable with respect to b and everything that the product reads."""
    method = how.method or ("dense" if b.shape[-1] <= DENSE else "gmres")
    if method == "dense":
        found = solve(matrix_of(product), expand_dims(b, -1))
        return reshape(found, b.shape)
    condition, constants = _linear_condition(product, b)
    value = _iterated(condition, constants, how._replace(method=method), near)
    return implicit(value, condition, constants, how._replace(method=method), near)


def _linear_condition(product: Graph, b: Node) -> tuple[Graph, list[Node]]:
    """product(x) - b as a graph of constants and x, and the constants; b is the last of them."""
    captured = product.captured()
    since = now()
    with recorded_as(recording.location, True):
        fresh = [bodies.placeholder_like(node) for node in captured]
        right, x = bodies.placeholder_like(b), bodies.placeholder_like(b)
        value = subtract(product.inline(x, captured=list(zip(captured, fresh)))[0], right)
    return Graph([*fresh, right, x], [value], since), [*captured, b]


def _iterated(condition: Graph, constants: Sequence[Node], how: LinearSolver, near: Preconditioner | None) -> Node:
    return iterated(condition, constants, how, near)[0]


def iterated(
    condition: Graph, constants: Sequence[Node], how: LinearSolver, near: Preconditioner | None
) -> tuple[Node, krylov.KrylovResult]:
    """Solve a linear condition by an iteration, without derivatives; returns the solution checked, and as found."""
    with recorded_as(recording.location, False):
        frozen = [stop_gradient(c) for c in constants]
        b = Tensor(frozen[-1])
        zero = broadcast_to(data(np.zeros((), b.dtype), b.device), b.shape)

        def product(vector: Tensor) -> Tensor:
            return Tensor(condition.inline(*frozen[:-1], zero, vector.node)[0])

        allowed = krylov.norm(b) * accuracy(b.dtype, how.tol)
        most = 10 * b.shape[-1] if how.max_steps is None else how.max_steps
        iterate: Callable[..., krylov.KrylovResult] = getattr(krylov, str(how.method))
        more = {"restart": how.restart} if how.method == "gmres" else {}
        found = iterate(product, near or _unchanged, b, allowed, max_steps=most, **more)
        checked = converged(str(how.method), found.x.node, found.steps.node, found.residual.node, allowed.node)
    return checked, found


def _unchanged(vector: Tensor) -> Tensor:
    return vector


# --- the op ---------------------------------------------------------------------------------------------------------


def implicit(
    x: Node, condition: Graph, constants: Sequence[Node], how: LinearSolver, near: Preconditioner | None = None
) -> Node:
    """Mark `x` as the solution of condition(*constants, x) = 0."""
    sources = [stop_gradient(x), *constants, *(near.constants if near else ())]
    graph = near.graph if near else None
    return pick(IMPLICIT(*sources, condition=condition, solver=how, count=len(constants), near=graph), 0)


def _parts(y: Node) -> tuple[Equation, Preconditioner | None]:
    """The equation of a node, at its value; and the approximate inverse that it was given."""
    count, graph = y.attrs["count"], y.attrs["near"]
    equation = at(y.attrs["condition"], y.sources[1 : 1 + count], pick(y, 0))
    return equation, None if graph is None else Preconditioner(graph, y.sources[1 + count :])


def _jvp(tangents: Sequence[Node | None], y: Node, *sources: Node) -> list[Node | None]:
    equation, near = _parts(y)
    moving = [(c, t) for c, t in zip(equation.constants, tangents[1:]) if t is not None]
    right = forward([equation.value], [c for c, _ in moving], [t for _, t in moving])[0] if moving else None
    if right is None:
        return [None]
    return [solve_linear(equation.pushed(), negative(right), y.attrs["solver"], near)]


def _vjp(g: Sequence[Node | None], y: Node) -> list[Node | None]:
    nothing: list[Node | None] = [None] * len(y.sources)
    if g[0] is None:
        return nothing
    equation, near = _parts(y)
    back = near.transposed() if near else None
    how = y.attrs["solver"]
    if ((how.method or "dense") == "dense" and y.shape[0][-1] <= DENSE) or how.method == "dense":
        found = reshape(solve(matrix_transpose(matrix_of(equation.pushed())), expand_dims(g[0], -1)), g[0].shape)
    else:
        found = solve_linear(equation.pulled(), g[0], how, back)
    floating = [c for c in equation.constants if bodies.has_tangents(c)]
    cotangents = dict(zip(floating, reverse([equation.value], [negative(found)], floating)))
    result = [None, *[cotangents.get(c) for c in equation.constants]]
    return [*result, *nothing[len(result) :]]


def _batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    lanes, count = count_lanes(sources, batched), y.attrs["count"]
    x = each_batched(sources[:1], batched[:1], lanes)
    flags = [*batched[1 : 1 + count], True]
    condition, _ = bodies.batched_body(y.attrs["condition"], lanes, flags, [True])
    near = y.attrs["near"]
    if near is not None:
        near, _ = bodies.batched_body(near, lanes, [*batched[1 + count :], True], [True])
    return IMPLICIT(*x, *sources[1:], **{**y.attrs, "condition": condition, "near": near})


IMPLICIT = Op(
    "implicit",
    infer=lambda x, *constants, condition, solver, count, near: ((x.shape,), (x.dtype,)),
    numpy=lambda x, *constants, condition, solver, count, near: (x,),
    vjp=_vjp,
    jvp=_jvp,
    batch=_batch,
    moves=True,
    kind="function",
)


def largest(vector: Tensor) -> Tensor:
    """The largest absolute value along the last axis, or NaN if there is one."""
    return abs(vector).max(axis=-1)


def allowed_residual(dtype: np.dtype[Any], tol: float | None, scale: Tensor) -> Tensor:
    """A tolerance, absolute for values up to 1 and relative to larger ones."""
    one = tensor(1.0, dtype=dtype)
    return Tensor(multiply(maximum(scale.node, one.node), accuracy(dtype, tol)))
