"""LU factorisations with partial pivoting, linear systems solved with them, and factorisations that never raise errors.

The pivots are SciPy's: `pivots[k]` is the row, counted from 0, that changed places with row k. The functions in `_ex`
return `info` instead of raising: 0, or the number (from 1) of the pivot, or of the leading minor, that failed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.core.dtypes import int32
from wengert.core.errors import ArgumentError, DTypeError, OutOfRangeError, ShapeError
from wengert.core.graph import Node
from wengert.ops.addressing import TAKE_ALONG
from wengert.ops.contract import diagonal
from wengert.ops.core import as_node, cast
from wengert.ops.creation import eye, tril, triu
from wengert.ops.decompose import CHOLESKY, hermitian
from wengert.ops.elementwise import equal, not_equal, where
from wengert.ops.factors import batch_axes, first_axes
from wengert.ops.linalg import TRIANGULAR_SOLVE, adjoint, as_matrices, inv, over_lanes, over_matrix, solve, system
from wengert.ops.movement import broadcast_to, concat, expand_dims, matrix_transpose, reshape, slice_axis
from wengert.ops.op import Op, picks
from wengert.ops.recorders import broadcast
from wengert.ops.reduce import any as any_along
from wengert.ops.reduce import argmax
from wengert.ops.sorting import argsort

# --- the factorisation ----------------------------------------------------------------------------------------------


def _factor_numpy(x: Any) -> tuple[Any, Any, Any]:
    """Gaussian elimination of all matrices of the batch at once, in place."""
    *batch, m, n = x.shape
    a = np.array(x).reshape(math.prod(batch), m, n)
    lanes, steps = np.arange(len(a)), min(m, n)
    pivots = np.zeros((len(a), steps), int32)
    order = np.tile(np.arange(m, dtype=int32), (len(a), 1))
    for k in range(steps):
        column = a[:, k:, k]
        sizes = np.abs(column.real) + np.abs(column.imag)  # which LAPACK takes for the size of a complex number
        row = k + sizes.argmax(1) if len(a) else np.zeros(0, np.int64)
        pivots[:, k] = row
        for rows in (a, order):
            rows[lanes, k], rows[lanes, row] = rows[lanes, row].copy(), rows[lanes, k].copy()
        pivot = a[:, k, k]
        below = np.divide(a[:, k + 1 :, k], pivot[:, None], out=a[:, k + 1 :, k].copy(), where=pivot[:, None] != 0)
        a[:, k + 1 :, k] = below
        a[:, k + 1 :, k + 1 :] -= below[:, :, None] * a[:, None, k, k + 1 :]
    return a.reshape(x.shape), pivots.reshape(*batch, steps), order.reshape(*batch, m)


def _factor_infer(x: Node) -> tuple[Any, Any]:
    steps = min(x.shape[-2:])
    return (x.shape, (*x.shape[:-2], steps), x.shape[:-1]), (x.dtype, int32, int32)


def _rows(x: Node, start: int, stop: int) -> Node:
    return slice_axis(x, x.ndim - 2, start, stop)


def _columns(x: Node, start: int, stop: int) -> Node:
    return slice_axis(x, x.ndim - 1, start, stop)


def _in_order(x: Node, order: Node) -> Node:
    """The rows of matrices in another order."""
    batch = broadcast(x.shape[:-2], order.shape[:-1], "lu")
    places = broadcast_to(expand_dims(order, axis=-1), (*batch, order.shape[-1], x.shape[-1]))
    return TAKE_ALONG(broadcast_to(x, (*batch, *x.shape[-2:])), places, axis=len(batch))


def _unit_lower(x: Node) -> Node:
    """The lower factor of a packed factorisation: the part below the diagonal, beneath a diagonal of ones."""
    steps = min(x.shape[-2:])
    return tril(_columns(x, 0, steps), k=-1) + eye(x.shape[-2], steps, dtype=x.dtype, device=x.device)


def _factor_jvp(tangents: Sequence[Any], y: Node, x: Node) -> list[Any]:
    """While the pivots stay. In the square block L^-1 dA U^-1 = L^-1 dL + dU U^-1, below and above the diagonal."""
    packed, _, order = picks(y)
    m, n = x.shape[-2:]
    steps = min(m, n)
    moved = _in_order(tangents[0], order)
    square = _columns(_rows(packed, 0, steps), 0, steps)
    lower, upper = _unit_lower(square), triu(square)
    inside = _columns(_rows(moved, 0, steps), 0, steps)
    half = _lower_solve(lower, inside)
    inner = _right_solve(half, upper)
    d_upper = triu(inner) @ upper
    tangent = lower @ tril(inner, k=-1) + d_upper
    if n > m:
        beside = _columns(packed, steps, n)
        change = lower @ tril(inner, k=-1)
        tangent = concat([tangent, _lower_solve(lower, _columns(moved, steps, n) - change @ beside)], axis=-1)
    if m > n:
        below = _rows(packed, steps, m)
        tangent = concat([tangent, _right_solve(_rows(moved, steps, m) - below @ d_upper, upper)], axis=-2)
    return [tangent, None, None]


def _lower_solve(lower: Node, right: Node) -> Node:
    return TRIANGULAR_SOLVE(lower, right, upper=False, unit_diagonal=True)


def _right_solve(left: Node, upper: Node) -> Node:
    """`left @ inv(upper)`."""
    return adjoint(TRIANGULAR_SOLVE(adjoint(upper), adjoint(left), upper=False, unit_diagonal=False))


FACTOR_LU = Op(
    "lu_factor",
    infer=_factor_infer,
    numpy=_factor_numpy,
    jvp=_factor_jvp,
    complex=True,
    batch=over_lanes,
    factors=batch_axes,
    expensive=True,
    precision="full",
    can_fail=False,
)


class LUFactors(NamedTuple):
    """Both factors in one matrix (without the unit diagonal of L), and the pivots."""

    LU: Any
    pivots: Any


class LUInfo(NamedTuple):
    """`LUFactors` with the number of the first zero pivot; 0 if there is none."""

    LU: Any
    pivots: Any
    info: Any


class PLU(NamedTuple):
    """A permutation, a lower triangular factor with a diagonal of ones, and an upper triangular one."""

    P: Any
    L: Any
    U: Any


def lu_factor(x: Any, /) -> LUFactors:
    """The LU factorisation with partial pivoting, packed for `lu_solve`: L below the diagonal, U on and above it.

    >>> import wengert as wg
    >>> wg.linalg.lu_factor(wg.tensor([[1.0, 2.0], [2.0, 2.0]])).LU.tolist()
    [[2.0, 2.0], [0.5, 1.0]]
    """
    packed, pivots, _ = picks(FACTOR_LU(as_matrices(x, "lu_factor")))
    return LUFactors(packed, pivots)


def lu_factor_ex(x: Any, /) -> LUInfo:
    """`lu_factor` with `info`: the number of the first zero pivot, counted from 1; 0 if there is none.

    >>> import wengert as wg
    >>> wg.linalg.lu_factor_ex(wg.tensor([[1.0, 2.0], [2.0, 4.0]])).info.item()
    2
    """
    packed, pivots = lu_factor(x)
    return LUInfo(packed, pivots, _first_zero(packed))


def _first_zero(packed: Node) -> Node:
    zero = equal(diagonal(packed), 0)
    if not zero.shape[-1]:
        return broadcast_to(as_node(np.zeros((), int32)), zero.shape[:-1])
    return cast(where(any_along(zero, axis=-1), argmax(zero * 1, axis=-1) + 1, 0), int32)


def lu(x: Any, /) -> PLU:
    """The factors of `x = P @ L @ U`, by Gaussian elimination with partial pivoting.

    The derivative treats the permutation as fixed, and requires an invertible leading block of `x`.

    >>> import wengert as wg
    >>> p, l, u = wg.linalg.lu(wg.tensor([[1.0, 2.0], [2.0, 2.0]]))
    >>> p.tolist(), l.tolist(), u.tolist()
    ([[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.5, 1.0]], [[2.0, 2.0], [0.0, 1.0]])
    """
    x = as_matrices(x, "lu")
    packed, _, order = picks(FACTOR_LU(x))
    places = np.arange(x.shape[-2], dtype=int32)[:, None]
    permutation = cast(equal(expand_dims(order, axis=-2), as_node(places)), packed.dtype)
    return PLU(permutation, _unit_lower(packed), triu(_rows(packed, 0, min(x.shape[-2:]))))


# --- systems --------------------------------------------------------------------------------------------------------


def _order_numpy(pivots: Any, rows: int) -> Any:
    """The order of rows that a sequence of exchanges leaves."""
    *batch, steps = pivots.shape
    flat = np.asarray(pivots).reshape(math.prod(batch), steps)
    if flat.size and not 0 <= flat.min() <= flat.max() < rows:
        raise OutOfRangeError(f"pivots are rows of a matrix with {rows}, not {flat.min()} to {flat.max()}")
    order, lanes = np.tile(np.arange(rows, dtype=int32), (len(flat), 1)), np.arange(len(flat))
    for k in range(steps):
        row = flat[:, k]
        order[lanes, k], order[lanes, row] = order[lanes, row].copy(), order[lanes, k].copy()
    return order.reshape(*batch, rows)


PIVOTS_TO_ORDER: Op = Op(
    "pivots_to_order",
    infer=lambda pivots, rows: ((*pivots.shape[:-1], rows), int32),
    numpy=_order_numpy,
    differentiable=False,
    batch=lambda y, sources, batched: PIVOTS_TO_ORDER(*sources, **y.attrs),
    factors=first_axes(lambda node: 1),
)


def lu_solve(factors: Any, b: Any, /, *, trans: int = 0) -> Node:
    """Solve `a @ x = b` for `x`, given the factors of `a` from `lu_factor`; `b` is as in `solve`.

    `trans` is SciPy's: 1 solves `a.mT @ x = b`, 2 the system of the conjugate transpose.

    >>> import wengert as wg
    >>> factors = wg.linalg.lu_factor(wg.tensor([[1.0, 2.0], [2.0, 2.0]]))
    >>> wg.linalg.lu_solve(factors, wg.tensor([3.0, 4.0])).tolist()
    [1.0, 1.0]
    """
    if not isinstance(factors, (tuple, list)) or len(factors) < 2:
        raise ArgumentError(
            "lu_solve takes the pair of factors and pivots that lu_factor returns, and a right-hand side"
        )
    if trans not in (0, 1, 2):
        raise ArgumentError(
            f"lu_solve: trans must be 0, 1 (the transpose) or 2 (the conjugate transpose), not {trans!r}"
        )
    packed, columns, vector = system("lu_solve", factors[0], b)
    pivots = as_node(factors[1])
    if pivots.dtype.kind not in "iu":
        raise DTypeError(f"lu_solve: the pivots must be integers, not {pivots.dtype}")
    if pivots.shape[-1:] != packed.shape[-1:]:
        raise ShapeError(f"lu_solve: got {pivots.shape[-1]} pivots for matrices of {packed.shape[-1]} rows")
    order = PIVOTS_TO_ORDER(pivots, rows=packed.shape[-1])
    solved = _solve_transposed(packed, order, columns, trans == 1) if trans else _solve_factored(packed, order, columns)
    return reshape(solved, solved.shape[:-1]) if vector else solved


def _solve_factored(packed: Node, order: Node, columns: Node) -> Node:
    half = TRIANGULAR_SOLVE(packed, _in_order(columns, order), upper=False, unit_diagonal=True)
    return TRIANGULAR_SOLVE(packed, half, upper=True, unit_diagonal=False)


def _solve_transposed(packed: Node, order: Node, columns: Node, plain: bool) -> Node:
    turned = matrix_transpose(packed) if plain else adjoint(packed)
    half = TRIANGULAR_SOLVE(turned, columns, upper=False, unit_diagonal=False)
    solved = TRIANGULAR_SOLVE(turned, half, upper=True, unit_diagonal=True)
    return _in_order(solved, argsort(order))


def cholesky_solve(b: Any, factor: Any, /, *, upper: bool = False) -> Node:
    """Solve `a @ x = b` for `x`, given the Cholesky factor of `a`: the lower one, or the upper one with `upper`.

    >>> import wengert as wg
    >>> factor = wg.linalg.cholesky(wg.tensor([[4.0, 2.0], [2.0, 5.0]]))
    >>> wg.linalg.cholesky_solve(wg.tensor([6.0, 7.0]), factor).tolist()
    [1.0, 1.0]
    """
    matrix, columns, vector = system("cholesky_solve", factor, b)
    lower, turned = (adjoint(matrix), matrix) if upper else (matrix, adjoint(matrix))
    half = TRIANGULAR_SOLVE(lower, columns, upper=False, unit_diagonal=False)
    solved = TRIANGULAR_SOLVE(turned, half, upper=True, unit_diagonal=False)
    return reshape(solved, solved.shape[:-1]) if vector else solved


def cholesky_inverse(factor: Any, /, *, upper: bool = False) -> Node:
    """The inverse of the matrix that has this Cholesky factor.

    >>> import wengert as wg
    >>> wg.linalg.cholesky_inverse(wg.tensor([[2.0]])).tolist()
    [[0.25]]
    """
    matrix = as_matrices(factor, "cholesky_inverse", square=True)
    return cholesky_solve(eye(matrix.shape[-1], dtype=matrix.dtype, device=matrix.device), matrix, upper=upper)


# --- factorisations that say how they failed ------------------------------------------------------------------------


def _minor_numpy(x: Any) -> Any:
    """The first leading minor that is not positive, by elimination without pivots; 0 where all are."""
    *batch, n = x.shape[:-1]
    a = np.array(x).reshape(math.prod(batch), n, n)
    info = np.zeros(len(a), int32)
    for k in range(n):
        pivot = a[:, k, k].real
        failed = ~(pivot > 0)
        info[failed & (info == 0)] = k + 1
        safe = np.where(failed, 1, pivot)
        a[:, k + 1 :, k + 1 :] -= a[:, k + 1 :, k, None] * a[:, k, None, k + 1 :] / safe[:, None, None]
    return info.reshape(batch)


FAILING_MINOR: Op = Op(
    "failing_minor",
    infer=lambda x: (x.shape[:-2], int32),
    numpy=_minor_numpy,
    differentiable=False,
    batch=over_lanes,
    factors=batch_axes,
    precision="full",
    can_fail=False,
)


class CholeskyInfo(NamedTuple):
    """The factor, and the number of the first leading minor that is not positive; 0 if all are."""

    L: Any
    info: Any


class InverseInfo(NamedTuple):
    """The inverse, and the number of the first zero pivot; 0 if there is none."""

    inverse: Any
    info: Any


class SolveInfo(NamedTuple):
    """The solution, and the number of the first zero pivot; 0 if there is none."""

    result: Any
    info: Any


def cholesky_ex(x: Any, /, *, upper: bool = False) -> CholeskyInfo:
    """`cholesky` without errors: where `info` is not 0, the factor is NaN.

    >>> import wengert as wg
    >>> wg.linalg.cholesky_ex(wg.tensor([[1.0, 0.0], [0.0, -1.0]])).info.item()
    2
    """
    x = hermitian(as_matrices(x, "cholesky_ex", square=True))
    info = FAILING_MINOR(x)
    failed = over_matrix(not_equal(info, 0))
    lower = CHOLESKY(where(failed, eye(x.shape[-1], dtype=x.dtype, device=x.device), x))
    return CholeskyInfo(where(failed, np.nan, adjoint(lower) if upper else lower), info)


def inv_ex(x: Any, /) -> InverseInfo:
    """`inv` without errors: where `info` is not 0, the inverse is NaN.

    >>> import wengert as wg
    >>> wg.linalg.inv_ex(wg.tensor([[1.0, 2.0], [2.0, 4.0]])).info.item()
    2
    """
    safe, failed, info = _without_singular(as_matrices(x, "inv_ex", square=True))
    return InverseInfo(where(failed, np.nan, inv(safe)), info)


def solve_ex(x1: Any, x2: Any, /, *, left: bool = True) -> SolveInfo:
    """`solve` without errors: where `info` is not 0, the solution is NaN.

    >>> import wengert as wg
    >>> wg.linalg.solve_ex(wg.tensor([[2.0]]), wg.tensor([4.0])).result.tolist()
    [2.0]
    """
    safe, failed, info = _without_singular(as_matrices(x1, "solve_ex", square=True))
    result = solve(safe, x2, left=left)
    vector = as_node(x2).ndim == 1
    return SolveInfo(where(reshape(failed, failed.shape[:-1]) if vector else failed, np.nan, result), info)


def _without_singular(x: Node) -> tuple[Node, Node, Node]:
    """Matrices with the identity in place of singular ones, which those are, and the first zero pivot."""
    info = _first_zero(picks(FACTOR_LU(x))[0])
    failed = over_matrix(not_equal(info, 0))
    return where(failed, eye(x.shape[-1], dtype=x.dtype, device=x.device), x), failed, info
