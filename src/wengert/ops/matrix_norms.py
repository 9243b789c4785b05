"""Functions of singular values: pseudo-inverse and least squares, rank, condition, norms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.core.dtypes import HALF, float32, promote, real_of
from wengert.core.errors import ArgumentError, ShapeError
from wengert.core.graph import Node
from wengert.ops.comparison import maximum
from wengert.ops.core import as_node, beside, cast, operand, operands, stop_gradient
from wengert.ops.creation import eye, zeros
from wengert.ops.decompose import hermitian as symmetric
from wengert.ops.decompose import svdvals
from wengert.ops.elementwise import absolute, equal, greater, square, where
from wengert.ops.factors import batch_axes
from wengert.ops.linalg import adjoint, as_matrices, over_lanes, over_matrix
from wengert.ops.lu import inv_ex
from wengert.ops.movement import expand_dims, moveaxis, normalize_axis, reshape, slice_axis
from wengert.ops.op import Op
from wengert.ops.recorders import broadcast
from wengert.ops.reduce import count_nonzero, norm
from wengert.ops.reduce import max as max_along
from wengert.ops.reduce import min as min_along
from wengert.ops.reduce import sum as sum_along

# --- pseudo-inverse and rank ----------------------------------------------------------------------------------------


def _tolerance(x: Node, rtol: Any, atol: Any = None) -> Node:
    """The size relative to the largest singular value at which one counts as zero."""
    if rtol is None and atol is not None:
        rtol = 0.0  # as PyTorch has it: an absolute tolerance stands alone
    if rtol is None:
        computed_in = float32 if x.dtype in HALF else x.dtype
        rtol = max(x.shape[-2:]) * float(np.finfo(computed_in).eps)
    real = real_of(x.dtype)
    node = rtol if type(rtol) is Node else operand(rtol, real, x.device)
    return stop_gradient(cast(node, real))


def _pinv_numpy(x: Any, rtol: Any) -> Any:
    u, s, vh = np.linalg.svd(x, full_matrices=False)
    cut = rtol[..., 0] * s.max(-1, keepdims=True, initial=0)
    inverse = np.divide(1, s, out=np.zeros(np.broadcast_shapes(s.shape, cut.shape), s.dtype), where=s > cut)
    return (vh.conj().mT * inverse[..., None, :]) @ u.conj().mT


def _pinv_jvp(tangents: Sequence[Any], y: Node, x: Node, rtol: Node) -> Node:
    """Golub and Pereyra (1973), while the rank stays what it is."""
    dx, m, n = tangents[0], x.shape[-2], x.shape[-1]
    outside_columns = eye(m, dtype=x.dtype, device=x.device) - x @ y
    outside_rows = eye(n, dtype=x.dtype, device=x.device) - y @ x
    moved = adjoint(dx)
    return (y @ (adjoint(y) @ moved)) @ outside_columns + outside_rows @ (moved @ adjoint(y)) @ y - y @ dx @ y


PINV = Op(
    "pinv",
    infer=lambda x, rtol: (
        (*broadcast(x.shape[:-2], rtol.shape[:-2], "pinv"), x.shape[-1], x.shape[-2]),
        x.dtype,
    ),
    numpy=_pinv_numpy,
    jvp=_pinv_jvp,
    complex=True,
    batch=over_lanes,
    factors=batch_axes,
    expensive=True,
    precision="full",
)


def pinv(x: Any, /, *, rtol: Any = None, atol: Any = None, hermitian: bool = False) -> Node:
    """The Moore-Penrose pseudo-inverse of matrices of any shape and rank.

    Singular values up to `rtol` (a number, or one for each matrix) times the largest one count as zero; by default
    `rtol` is the larger dimension times the dtype's precision. Values up to `atol` count as zero too; if it is given,
    `rtol` defaults to 0. With `hermitian`, only the symmetric part of `x` is used. The derivative treats the rank as
    fixed.

    >>> import wengert as wg
    >>> wg.linalg.pinv(wg.tensor([[2.0], [0.0]])).tolist()
    [[0.5, 0.0]]
    """
    x = symmetric(as_matrices(x, "pinv", square=True)) if hermitian else as_matrices(x, "pinv")
    return PINV(x, expand_dims(_relative(x, rtol, atol), axis=(-2, -1)))


def _relative(x: Node, rtol: Any, atol: Any) -> Node:
    """Both tolerances as one relative to the largest singular value."""
    relative = _tolerance(x, rtol, atol)
    if atol is None or not min(x.shape[-2:]):
        return relative
    real = real_of(x.dtype)
    absolute = cast(beside(relative, atol), real)
    largest = max_along(stop_gradient(svdvals(x)), axis=-1)
    zero = equal(largest, 0)
    return stop_gradient(maximum(relative, where(zero, 1, absolute) / where(zero, 1, largest)))


def matrix_rank(x: Any, /, tol: Any = None, *, rtol: Any = None, atol: Any = None, hermitian: bool = False) -> Node:
    """The number of singular values larger than both `rtol` times the largest and `atol`, which are as in `pinv`.

    `tol` is an absolute tolerance, as in NumPy. With `hermitian`, only the symmetric part of `x` is used.

    >>> import wengert as wg
    >>> wg.linalg.matrix_rank(wg.tensor([[1.0, 2.0], [2.0, 4.0]])).item()
    1
    """
    if tol is not None and atol is not None:
        raise ArgumentError("matrix_rank: tol is another name for atol; give one of them")
    atol = tol if atol is None else atol
    x = symmetric(as_matrices(x, "matrix_rank", square=True)) if hermitian else as_matrices(x, "matrix_rank")
    values = stop_gradient(svdvals(x))
    largest = slice_axis(values, values.ndim - 1, 0, min(1, values.shape[-1]))
    bound = expand_dims(_tolerance(x, rtol, atol), axis=-1) * largest
    if atol is not None:
        bound = maximum(bound, expand_dims(cast(beside(values, atol), values.dtype), axis=-1))
    return count_nonzero(greater(values, bound), axis=-1)


class LeastSquares(NamedTuple):
    """A solution, the sums of its squared residuals, the rank of the matrix and its singular values."""

    solution: Any
    residuals: Any
    rank: Any
    singular_values: Any


def lstsq(a: Any, b: Any, /, rcond: Any = None) -> LeastSquares:
    """The `x` that minimises `sum((b - a @ x)**2)`; of several, the one with the smallest norm. `b` is as in `solve`.

    `rcond` is the `rtol` of `pinv`: which singular values count as zero. The residuals, one for each column, are given
    for matrices with more rows than columns; otherwise the array is empty. The derivative treats the rank as fixed.

    >>> import wengert as wg
    >>> wg.linalg.lstsq(wg.tensor([[1.0], [1.0]]), wg.tensor([1.0, 3.0])).solution.numpy().round(4).tolist()
    [2.0]
    """
    a, b = operands(a, b)
    a, vector = as_matrices(a, "lstsq"), b.ndim == 1
    meet = promote(a.dtype, b.dtype)
    a, columns = cast(a, meet), cast(expand_dims(b, axis=-1) if vector else b, meet)
    if columns.ndim < 2 or columns.shape[-2] != a.shape[-2]:
        raise ShapeError(f"lstsq: a right-hand side of shape {b.shape} does not match matrices of {a.shape[-2]} rows")
    solution = pinv(a, rtol=rcond) @ columns
    batch = broadcast(a.shape[:-2], columns.shape[:-2], "lstsq")
    residuals = sum_along(square(absolute(columns - a @ solution)), axis=-2)
    if a.shape[-2] <= a.shape[-1]:
        residuals = zeros((*batch, 0), dtype=residuals.dtype, device=a.device)
    solution = reshape(solution, solution.shape[:-1]) if vector else solution
    return LeastSquares(solution, residuals, matrix_rank(a, rtol=rcond), svdvals(a))


def cond(x: Any, /, p: Any = None) -> Node:
    """The condition number of matrices, in the norm `p` of `matrix_norm`; None and 2 are the ratio of the largest
    singular value to the smallest, and -2 its inverse. For singular matrices it is infinite.

    >>> import wengert as wg
    >>> wg.linalg.cond(wg.tensor([[4.0, 0.0], [0.0, 2.0]])).item()
    2.0
    """
    x = as_matrices(x, "cond")
    if p in (None, 2, -2):
        sizes = svdvals(x)
        if not sizes.shape[-1]:
            raise ShapeError(f"cond: matrices of shape {x.shape} have no singular values")
        largest, smallest = max_along(sizes, axis=-1), min_along(sizes, axis=-1)
        return smallest / largest if p == -2 else where(equal(smallest, 0), np.inf, largest / smallest)
    inverse, info = inv_ex(as_matrices(x, "cond", square=True))
    found = matrix_norm(x, ord=p) * matrix_norm(where(over_matrix(equal(info, 0)), inverse, 0), ord=p)
    return where(equal(info, 0), found, np.inf)


# --- norms ----------------------------------------------------------------------------------------------------------


def vector_norm(x: Any, /, *, axis: Any = None, keepdims: bool = False, ord: float = 2) -> Node:
    """The norm of the vectors along some axes (by default of all elements). The derivative of the 2-norm at 0 is 0.

    >>> import wengert as wg
    >>> wg.linalg.vector_norm(wg.tensor([3.0, 4.0])).item()
    5.0
    """
    return norm(as_node(x), ord=ord, axis=axis, keepdims=keepdims)


def matrix_norm(x: Any, /, *, keepdims: bool = False, ord: Any = "fro", axis: Any = (-2, -1)) -> Node:
    """The norm of matrices: "fro" (the root of the sum of squares), "nuc" (the sum of the singular values), 2 and -2
    (the largest and smallest of them), 1 and -1 (the largest and smallest column sum), inf and -inf (of the row sums).
    `axis` gives the two axes of the matrices.

    >>> import wengert as wg
    >>> wg.linalg.matrix_norm(wg.tensor([[1.0, -2.0], [3.0, 4.0]]), ord=float("inf")).item()
    7.0
    """
    x = as_matrices(x, "matrix_norm")
    if tuple(axis) == (-2, -1):
        value = _matrix_norm(x, ord)
        return reshape(value, (*value.shape, 1, 1)) if keepdims else value
    rows, columns = (normalize_axis(a, x.ndim, "matrix_norm") for a in axis)
    value = _matrix_norm(moveaxis(x, (rows, columns), (-2, -1)), ord)
    return expand_dims(value, axis=(rows, columns)) if keepdims else value


def _matrix_norm(x: Node, ord: Any) -> Node:
    if ord in ("fro", None):
        return norm(x, axis=(-2, -1))
    if ord == "nuc":
        return sum_along(svdvals(x), axis=-1)
    if ord not in (1, -1, 2, -2, float("inf"), -float("inf")):
        raise ArgumentError(f'matrix_norm: ord must be "fro", "nuc", 1, -1, 2, -2, inf or -inf, not {ord!r}')
    sizes = svdvals(x) if abs(ord) == 2 else sum_along(absolute(x), axis=-2 if abs(ord) == 1 else -1)
    return (max_along if ord > 0 else min_along)(sizes, axis=-1)
