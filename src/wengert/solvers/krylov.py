"""Iterative solvers for linear systems that only multiply by the matrix: conjugate gradients, BiCGSTAB, GMRES.

In: `product` and `preconditioner`, functions of a Tensor, and the right-hand side b. Vectors lie along the last axis;
the axes before it are lanes, systems of their own that go on until all have converged. Out: the solution, the number of
products with the matrix, and the norms of the residuals.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from wengert.api import functions as fn
from wengert.api.creation import tensor
from wengert.autodiff.cond import while_loop
from wengert.autodiff.scan import scan
from wengert.tensor import Tensor

Product = Callable[[Tensor], Tensor]


class KrylovResult(NamedTuple):
    """The result of an iteration."""

    x: Tensor
    steps: Tensor
    residual: Tensor


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Inner products along the last axis, which stays with size 1."""
    return fn.sum(a * b, axis=-1, keepdims=True)


def norm(a: Tensor) -> Tensor:
    """Norms along the last axis, which stays with size 1."""
    return fn.sqrt(dot(a, a))


def _over(a: Tensor, b: Tensor, alive: Tensor) -> Tensor:
    """a / b in lanes that go on; 0 in others, and where b is 0."""
    able = fn.logical_and(alive, b != 0)
    return fn.where(able, a / fn.where(able, b, 1), 0)


def _count() -> Tensor:
    return tensor(0, dtype=np.dtype(np.int64))


def cg(product: Product, preconditioner: Product, b: Tensor, allowed: Tensor, max_steps: int) -> KrylovResult:
    """Conjugate gradients (Hestenes and Stiefel, 1952), for symmetric positive definite matrices."""
    z = preconditioner(b)

    def going(s: Any) -> Tensor:
        return fn.logical_and(fn.any(norm(s["r"]) > allowed), s["k"] < max_steps)

    def step(s: Any) -> Any:
        alive = norm(s["r"]) > allowed
        ap = product(s["p"])
        alpha = _over(s["rz"], dot(s["p"], ap), alive)
        x, r = s["x"] + alpha * s["p"], s["r"] - alpha * ap
        z = preconditioner(r)
        rz = dot(r, z)
        p = fn.where(alive, z + _over(rz, s["rz"], alive) * s["p"], s["p"])
        return {"x": x, "r": r, "p": p, "rz": fn.where(alive, rz, s["rz"]), "k": s["k"] + 1}

    end = while_loop(going, step, {"x": fn.zeros_like(b), "r": b, "p": z, "rz": dot(b, z), "k": _count()})
    return KrylovResult(end["x"], end["k"], norm(end["r"]))


def bicgstab(product: Product, preconditioner: Product, b: Tensor, allowed: Tensor, max_steps: int) -> KrylovResult:
    """BiCGSTAB (van der Vorst, 1992), for any matrix, with a short recurrence."""
    one, zero = fn.ones_like(dot(b, b)), fn.zeros_like(b)
    start = {"x": zero, "r": b, "p": zero, "v": zero, "rho": one, "alpha": one, "omega": one, "k": _count()}

    def going(s: Any) -> Tensor:
        return fn.logical_and(fn.any(norm(s["r"]) > allowed), s["k"] < max_steps)

    def step(s: Any) -> Any:
        alive = norm(s["r"]) > allowed
        rho = dot(b, s["r"])
        beta = _over(rho * s["alpha"], s["rho"] * s["omega"], alive)
        p = s["r"] + beta * (s["p"] - s["omega"] * s["v"])
        p_hat = preconditioner(p)
        v = product(p_hat)
        alpha = _over(rho, dot(b, v), alive)
        half = s["r"] - alpha * v
        half_hat = preconditioner(half)
        t = product(half_hat)
        omega = _over(dot(t, half), dot(t, t), alive)
        x, r = s["x"] + alpha * p_hat + omega * half_hat, half - omega * t
        new = {"x": x, "r": r, "p": p, "v": v, "rho": rho, "alpha": alpha, "omega": omega}
        return {**{name: fn.where(alive, new[name], s[name]) for name in new}, "k": s["k"] + 1}

    end = while_loop(going, step, start)
    return KrylovResult(end["x"], end["k"] * 2, norm(end["r"]))


def gmres(
    product: Product, preconditioner: Product, b: Tensor, allowed: Tensor, max_steps: int, restart: int
) -> KrylovResult:
    """GMRES (Saad and Schultz, 1986) with restarts, for any matrix; the basis is made orthogonal twice."""
    m = min(restart, b.shape[-1])

    def going(s: Any) -> Tensor:
        return fn.logical_and(fn.any(norm(s["r"]) > allowed), s["k"] < max_steps)

    def step(s: Any) -> Any:
        basis, hessenberg = _arnoldi(lambda v: product(preconditioner(v)), s["r"], m)
        y = _least_squares(hessenberg, norm(s["r"]))
        moved = preconditioner(fn.matmul(y[..., None, :], basis[..., :m, :])[..., 0, :])
        x = fn.where(norm(s["r"]) > allowed, s["x"] + moved, s["x"])
        return {"x": x, "r": b - product(x), "k": s["k"] + m}

    end = while_loop(going, step, {"x": fn.zeros_like(b), "r": b, "k": _count()})
    return KrylovResult(end["x"], end["k"], norm(end["r"]))


def _least_squares(hessenberg: Tensor, length: Tensor) -> Tensor:
    """The y that makes `hessenberg @ y` nearest to `length` times the first unit vector, by Givens rotations.

    Where a diagonal element is 0 but for rounding, the space holds the solution without it, and y is 0 there.
    """
    m = hessenberg.shape[-1]
    rows, columns = fn.arange(m + 1), fn.arange(m)
    right = fn.where(rows == 0, length, fn.zeros_like(length))

    def row(matrix: Tensor, k: Tensor) -> Tensor:
        return fn.sum(fn.where(rows[:, None] == k, matrix, 0), axis=-2)

    def place(vector: Tensor, numbers: Tensor, k: Tensor) -> Tensor:
        return fn.sum(fn.where(numbers == k, vector, 0), axis=-1, keepdims=True)

    def rotated(state: Any, k: Tensor) -> tuple[Any, None]:
        matrix, right = state
        upper, lower = row(matrix, k), row(matrix, k + 1)
        first, second = place(right, rows, k), place(right, rows, k + 1)
        a, b = place(upper, columns, k), place(lower, columns, k)
        size = fn.sqrt(a * a + b * b)
        still = size == 0
        c, s = fn.where(still, 1, a / fn.where(still, 1, size)), fn.where(still, 0, b / fn.where(still, 1, size))
        above, below = (c * upper + s * lower)[..., None, :], (c * lower - s * upper)[..., None, :]
        matrix = fn.where(rows[:, None] == k, above, fn.where(rows[:, None] == k + 1, below, matrix))
        right = fn.where(rows == k, c * first + s * second, fn.where(rows == k + 1, c * second - s * first, right))
        return (matrix, right), None

    (triangle, right), _ = scan(rotated, (hessenberg, right), columns)
    tiny = 10 * np.finfo(hessenberg.dtype).eps * fn.max(abs(hessenberg), axis=(-2, -1))[..., None]

    def solved(y: Tensor, k: Tensor) -> tuple[Tensor, None]:
        upper = row(triangle, k)
        diagonal = place(upper, columns, k)
        able = abs(diagonal) > tiny
        rest = place(right, rows, k) - fn.sum(upper * y, axis=-1, keepdims=True)
        return fn.where(columns == k, fn.where(able, rest / fn.where(able, diagonal, 1), 0), y), None

    y, _ = scan(solved, fn.zeros_like(hessenberg[..., 0, :]), columns, reverse=True)
    return y


def _arnoldi(product: Product, r: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """An orthonormal basis of the Krylov space, (m + 1, n), and the product's matrix in it, (m + 1, m)."""
    length = norm(r)
    first = r / fn.where(length > 0, length, 1)
    rows = fn.arange(m + 1)[:, None]
    start = fn.where(rows == 0, first[..., None, :], 0)
    tiny = 10 * np.finfo(r.dtype).eps

    def step(basis: Tensor, j: Tensor) -> tuple[Tensor, Tensor]:
        w = product(fn.sum(fn.where(rows == j, basis, 0), axis=-2))
        size, total = norm(w), None
        for _ in range(2):  # once is not enough: what rounding left is of the size of w
            h = fn.matmul(basis, w[..., None])
            w = w - fn.sum(h * basis, axis=-2)
            total = h if total is None else total + h
        length = norm(w)
        ends = length <= tiny * size  # the space holds the solution
        unit = fn.where(ends, 0, w / fn.where(ends, 1, length))
        column = fn.where(rows == j + 1, fn.where(ends, 0, length)[..., None, :], total)
        return fn.where(rows == j + 1, unit[..., None, :], basis), column[..., 0]

    basis, columns = scan(step, start, fn.arange(m))
    return basis, fn.moveaxis(columns, 0, -1)
