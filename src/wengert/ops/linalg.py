"""Matrix products, and what is solved with them: systems, inverses, determinants.

Matrices are the last two axes; the axes before them are a batch, and two operands' batches broadcast. Neighbours:
`contract` writes other products as `matmul`, `decompose` holds the factorisations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.core.dtypes import COMPLEX, INEXACT, default_float, promote, real_of
from wengert.core.errors import DTypeError, ShapeError
from wengert.core.graph import Node, Shape
from wengert.ops.core import as_node, cast, operands
from wengert.ops.creation import eye, tril, triu
from wengert.ops.elementwise import add, conjugate, imag, safe_multiply
from wengert.ops.factors import Factors, batch_axes
from wengert.ops.facts import product_flops
from wengert.ops.movement import broadcast_to, expand_dims, matrix_transpose, reshape
from wengert.ops.op import Op, pick, picks
from wengert.ops.recorders import broadcast, with_rank
from wengert.ops.reduce import SUM

# --- what the ops over matrices share -------------------------------------------------------------------------------


def over_lanes(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    """The batching rule of an op that maps over leading axes by itself: lanes are one more of them."""
    rank = max(source.ndim - lanes for source, lanes in zip(sources, batched))
    return y.op(*[with_rank(s, rank) if lanes else s for s, lanes in zip(sources, batched)], **y.attrs)


def as_matrices(x: Any, name: str, square: bool = False) -> Node:
    """`x` as matrices of floating-point numbers. Integers become the default float dtype."""
    x = as_node(x)
    if x.ndim < 2:
        raise ShapeError(f"{name} takes a matrix, or a batch of them in the axes before; the shape is {x.shape}")
    if square and x.shape[-1] != x.shape[-2]:
        hint = "; pinv takes any shape" if name in ("inv", "solve") else ""
        raise ShapeError(f"{name} takes square matrices; shape {x.shape} is {x.shape[-2]} by {x.shape[-1]}{hint}")
    return x if x.dtype in INEXACT else cast(x, default_float)


def adjoint(x: Node) -> Node:
    """The conjugate transpose of matrices; of real ones the transpose."""
    return matrix_transpose(conjugate(x))


def _same(x: Node) -> tuple[Any, Any]:
    return x.shape, x.dtype


# --- matmul ---------------------------------------------------------------------------------------------------------


def _matmul_infer(a: Node, b: Node) -> tuple[Any, Any]:
    if a.shape[-1] != b.shape[-2]:
        raise ShapeError(
            f"matmul: shapes {a.shape} and {b.shape} do not fit: the first has {a.shape[-1]} columns, "
            f"the second {b.shape[-2]} rows" + _transpose_hint(a, b)
        )
    batch = broadcast(a.shape[:-2], b.shape[:-2], "matmul") if len(a.shape) + len(b.shape) > 4 else ()
    return (*batch, a.shape[-2], b.shape[-1]), a.dtype


def _transpose_hint(a: Node, b: Node) -> str:
    if a.shape[-1] == b.shape[-1]:
        return ". a @ b.mT would fit"
    return ". a.mT @ b would fit" if a.shape[-2] == b.shape[-2] else ""


def _matmul_by_second(g: Node, a: Node, b: Node) -> Node:
    """The cotangent of the second factor. One matrix for many (a weight) gets one tall product, not a sum of many."""
    if len(b.shape) == 2 and len(a.shape) > 2:
        rows = math.prod(a.shape[:-1])  # not -1: the product may be over no elements
        a, g = reshape(a, (rows, a.shape[-1])), reshape(g, (rows, g.shape[-1]))
    return MATMUL(adjoint(a), g)


def _matmul_factors(node: Node) -> Factors:
    (a, b), (y,), *_ = batch_axes(node)
    sources = (*a[:-2], "row", "depth"), (*b[:-2], "depth", "column")
    return Factors(sources, ((*y[:-2], "row", "column"),), {"depth": "sum"})


MATMUL: Op = Op(
    "matmul",
    infer=_matmul_infer,
    numpy=np.matmul,
    vjp=(lambda g, y, a, b: MATMUL(g, adjoint(b)), lambda g, y, a, b: _matmul_by_second(g, a, b)),
    multilinear=(0, 1),
    complex=True,
    batch=over_lanes,
    expensive=True,
    precision="low",
    can_fail=False,
    factors=_matmul_factors,
    flops=lambda node: product_flops(node.size, node.sources[0].shape[-1:]),
)


def matmul(x1: Any, x2: Any, /) -> Node:
    """The matrix product `x1 @ x2`. A vector on the left is a row, on the right a column; batches broadcast.

    >>> import wengert as wg
    >>> wg.matmul(wg.tensor([[1.0, 2.0], [3.0, 4.0]]), wg.tensor([1.0, 1.0])).tolist()
    [3.0, 7.0]
    """
    a, b = (x1, x2) if type(x1) is Node and type(x2) is Node else operands(x1, x2)
    if len(a.shape) > 1 and len(b.shape) > 1 and a.dtype is b.dtype:
        return MATMUL(a, b)
    if a.ndim == 0 or b.ndim == 0:
        raise ShapeError(f"matmul: shapes {a.shape} and {b.shape}: a number is no matrix; multiply with *")
    meet = promote(a.dtype, b.dtype)
    left = cast(reshape(a, (1, a.shape[0])) if a.ndim == 1 else a, meet)
    right = cast(reshape(b, (b.shape[0], 1)) if b.ndim == 1 else b, meet)
    y = MATMUL(left, right)
    if a.ndim > 1 and b.ndim > 1:
        return y
    shape = y.shape[:-2] + (y.shape[-2:-1] if a.ndim > 1 else ()) + (y.shape[-1:] if b.ndim > 1 else ())
    return reshape(y, shape)


def linear(x: Any, weight: Any, bias: Any = None) -> Node:
    """`x @ weight.T + bias` along the last axis of `x`; the weight is (out_features, in_features).

    >>> import wengert as wg
    >>> wg.linear(wg.tensor([1.0, 2.0]), wg.tensor([[3.0, 4.0]]), wg.tensor([0.5])).tolist()
    [11.5]
    """
    x, weight = operands(x, weight)
    if weight.ndim != 2 or x.ndim == 0 or x.shape[-1] != weight.shape[1]:
        raise ShapeError(
            f"linear: a weight of shape {weight.shape}, (out_features, in_features), does not go with an input of "
            f"shape {x.shape}, whose last axis is in_features"
        )
    y = matmul(x, matrix_transpose(weight))
    return y if bias is None else y + as_node(bias)


# --- systems of equations -------------------------------------------------------------------------------------------


def _solve_infer(a: Node, b: Node, **attrs: Any) -> tuple[Any, Any]:
    return (*broadcast(a.shape[:-2], b.shape[:-2], "solve"), *b.shape[-2:]), b.dtype


def _solve_vjp(g: Node, y: Node) -> list[Node]:
    by_b = SOLVE(adjoint(y.sources[0]), g)
    return [-(by_b @ adjoint(y)), by_b]


def _solve_factors(node: Node) -> Factors:
    """The batch, and the columns of `b`: each is solved for alone."""
    (a, b), (y,), *_ = batch_axes(node)
    return Factors((a, (*b[:-1], "column")), ((*y[:-1], "column"),))


SOLVE = Op(
    "solve",
    infer=_solve_infer,
    numpy=np.linalg.solve,
    vjp=_solve_vjp,
    complex=True,
    batch=over_lanes,
    factors=_solve_factors,
    expensive=True,
    precision="full",
)


def solve(x1: Any, x2: Any, /, *, left: bool = True) -> Node:
    """The `x` with `x1 @ x = x2`. `x2` is a vector if it has one axis, otherwise (a batch of) matrices of columns.

    With `left=False` the `x` with `x @ x1 = x2`; the rows of `x2` are right sides then.

    >>> import wengert as wg
    >>> wg.linalg.solve(wg.tensor([[2.0, 0.0], [0.0, 4.0]]), wg.tensor([2.0, 2.0])).tolist()
    [1.0, 0.5]
    """
    if not left:
        return transposed_system(solve, x1, x2)
    a, b, vector = system("solve", x1, x2)
    y = SOLVE(a, b)
    return reshape(y, y.shape[:-1]) if vector else y


def transposed_system(solved: Callable[[Node, Node], Node], x1: Any, x2: Any) -> Node:
    """The `x` with `x @ x1 = x2`, by what solves `x1.mT @ x.mT = x2.mT`; a vector is its own transpose."""
    a, b = operands(x1, x2)
    x = solved(matrix_transpose(a), matrix_transpose(b) if b.ndim > 1 else b)
    return matrix_transpose(x) if b.ndim > 1 else x


def system(name: str, x1: Any, x2: Any) -> tuple[Node, Node, bool]:
    """The matrix and the right side of a system in one dtype, and whether the right side was a vector."""
    a, b = operands(x1, x2)
    a = as_matrices(a, name, square=True)
    if b.ndim == 0:
        raise ShapeError(f"{name}: the right side is one number; it needs {a.shape[-1]} rows")
    vector = b.ndim == 1
    columns = reshape(b, (b.shape[0], 1)) if vector else b
    n = a.shape[-1]
    if columns.shape[-2] != n:
        raise ShapeError(
            f"{name}: a matrix of shape {a.shape} needs a right side with {n} rows; shape {b.shape} has "
            f"{columns.shape[-2]}" + _right_side_hint(a, b)
        )
    meet = promote(a.dtype, b.dtype)
    return cast(a, meet), cast(columns, meet), vector


def _right_side_hint(a: Node, b: Node) -> str:
    if b.shape == a.shape[:-1]:
        return ". For a vector in each lane take x2[..., None]"
    return ". x2.mT would fit" if b.ndim > 1 and b.shape[-1] == a.shape[-1] else ""


def _triangular_numpy(a: Any, b: Any, upper: bool, unit_diagonal: bool) -> Any:
    triangle = np.triu(a) if upper else np.tril(a)
    if unit_diagonal:
        triangle[..., range(a.shape[-1]), range(a.shape[-1])] = 1
    return np.linalg.solve(triangle, b)


def _triangular_vjp(g: Node, y: Node) -> list[Node]:
    upper, unit = y.attrs["upper"], y.attrs["unit_diagonal"]
    by_b = TRIANGULAR_SOLVE(adjoint(y.sources[0]), g, upper=not upper, unit_diagonal=unit)
    by_a = -(by_b @ adjoint(y))
    return [triu(by_a, k=int(unit)) if upper else tril(by_a, k=-int(unit)), by_b]


TRIANGULAR_SOLVE = Op(
    "triangular_solve",
    infer=_solve_infer,
    numpy=_triangular_numpy,
    vjp=_triangular_vjp,
    complex=True,
    batch=over_lanes,
    factors=_solve_factors,
    expensive=True,
    precision="full",
)


def triangular_solve(a: Any, b: Any, /, *, upper: bool = False, unit_diagonal: bool = False) -> Node:
    """The `x` with `a @ x = b` for a triangular `a`; the other triangle is not looked at.

    With `unit_diagonal` the diagonal is taken as ones and is not looked at either. `b` is as in `solve`.

    >>> import wengert as wg
    >>> wg.linalg.triangular_solve(wg.tensor([[2.0, 0.0], [1.0, 1.0]]), wg.tensor([[2.0], [3.0]])).tolist()
    [[1.0], [2.0]]
    """
    return solve_triangular(a, b, upper=upper, unitriangular=unit_diagonal)


def solve_triangular(a: Any, b: Any, /, *, upper: bool = False, left: bool = True, unitriangular: bool = False) -> Node:
    """`triangular_solve` by PyTorch's name: with `left=False` the `x` with `x @ a = b`.

    >>> import wengert as wg
    >>> wg.linalg.solve_triangular(wg.tensor([[2.0, 1.0], [0.0, 4.0]]), wg.tensor([4.0, 8.0]), upper=True).tolist()
    [1.0, 2.0]
    """
    if not left:
        turned = lambda a, b: solve_triangular(a, b, upper=not upper, unitriangular=unitriangular)  # noqa: E731
        return transposed_system(turned, a, b)
    matrix, columns, vector = system("triangular_solve", a, b)
    y = TRIANGULAR_SOLVE(matrix, columns, upper=bool(upper), unit_diagonal=bool(unitriangular))
    return reshape(y, y.shape[:-1]) if vector else y


def _inv_vjp(g: Node, y: Node, x: Node) -> Node:
    back = adjoint(y)
    return -(back @ g @ back)


INV = Op(
    "inv",
    infer=_same,
    numpy=np.linalg.inv,
    vjp=(_inv_vjp,),
    complex=True,
    batch=over_lanes,
    factors=batch_axes,
    expensive=True,
    precision="full",
)


def inv(x: Any, /) -> Node:
    """The inverse of square matrices. To apply it, `solve(x, b)` is faster and more exact than `inv(x) @ b`.

    >>> import wengert as wg
    >>> wg.linalg.inv(wg.tensor([[2.0, 0.0], [0.0, 4.0]])).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    return INV(as_matrices(x, "inv", square=True))


def matrix_power(x: Any, n: int, /) -> Node:
    """The product of `n` copies of square matrices; of their inverses if `n` is negative; the identity if it is 0.

    >>> import wengert as wg
    >>> wg.linalg.matrix_power(wg.tensor([[1.0, 1.0], [0.0, 1.0]]), 3).tolist()
    [[1.0, 3.0], [0.0, 1.0]]
    """
    x = as_matrices(x, "matrix_power", square=True)
    if not isinstance(n, (int, np.integer)):
        raise DTypeError(f"matrix_power: the power is an integer, not {n!r}")
    if n == 0:
        return broadcast_to(eye(x.shape[-1], dtype=x.dtype, device=x.device), x.shape)
    base, rest = (inv(x), -n) if n < 0 else (x, n)
    result: Node | None = None
    while rest:  # by repeated squaring
        if rest & 1:
            result = base if result is None else result @ base
        rest >>= 1
        base = base @ base if rest else base
    assert result is not None
    return result


# --- determinants ---------------------------------------------------------------------------------------------------


def _of_matrix(x: Node) -> Shape:
    return x.shape[:-2]


def over_matrix(numbers: Node) -> Node:
    """One number a matrix, with two axes of size 1 behind: it broadcasts against the matrices."""
    return expand_dims(numbers, axis=(-2, -1))


def _cofactor_numpy(x: Any) -> Any:
    """By the singular values, each replaced by the product of the others: so it is exact for singular matrices too."""
    u, s, vh = np.linalg.svd(x)
    ones = np.ones_like(s[..., :1])
    before = np.cumprod(np.concatenate([ones, s], -1), -1)[..., :-1]
    after = np.cumprod(np.concatenate([ones, s[..., ::-1]], -1), -1)[..., -2::-1]
    sign = np.linalg.det(u) * np.linalg.det(vh)
    return sign[..., None, None] * ((u.conj() * (before * after)[..., None, :]) @ vh.conj())


def _cofactor_vjp(g: Node, y: Node, x: Node) -> Node:
    """From d(det(x) inv(x).T): for invertible matrices only, since it divides by the determinant."""
    if x.shape[-1] == 1:
        return g * 0
    y = conjugate(y)
    inner = SUM(g * y, axes=(g.ndim - 2, g.ndim - 1), keepdims=True)
    return (inner * y - y @ matrix_transpose(g) @ y) / over_matrix(conjugate(DET(x)))


COFACTOR = Op(
    "cofactor",
    infer=_same,
    numpy=_cofactor_numpy,
    vjp=(_cofactor_vjp,),
    complex=True,
    batch=over_lanes,
    factors=batch_axes,
    expensive=True,
    precision="full",
)
DET = Op(
    "det",
    infer=lambda x: (_of_matrix(x), x.dtype),
    numpy=np.linalg.det,
    vjp=(lambda g, y, x: over_matrix(g) * conjugate(COFACTOR(x)),),
    complex=True,
    batch=over_lanes,
    factors=batch_axes,
    expensive=True,
    precision="full",
)


def det(x: Any, /) -> Node:
    """The determinant of square matrices.

    Its derivative, the matrix of cofactors, is exact for singular matrices too; the second derivative divides by the
    determinant and is NaN there. `slogdet` does not overflow for large matrices.

    >>> import wengert as wg
    >>> wg.grad(wg.linalg.det)(wg.tensor([[1.0, 2.0], [2.0, 4.0]])).numpy().round(4).tolist()
    [[4.0, -2.0], [-2.0, 1.0]]
    """
    return DET(as_matrices(x, "det", square=True))


class Slogdet(NamedTuple):
    """The determinant as `sign * exp(logabsdet)`."""

    sign: Any
    logabsdet: Any


def _slogdet_vjp(g: list[Node | None], y: Node, x: Node) -> Node | None:
    """With c = trace(inv(x) dx), the logarithm moves by the real part of c, the sign by i times the imaginary part."""
    slope = g[1]
    if g[0] is not None and x.dtype in COMPLEX:
        turn = safe_multiply(imag(safe_multiply(g[0], conjugate(pick(y, 0)))), 1j)
        slope = turn if slope is None else add(turn, slope)
    return None if slope is None else over_matrix(slope) * adjoint(INV(x))


SLOGDET = Op(
    "slogdet",
    infer=lambda x: ((_of_matrix(x), _of_matrix(x)), (x.dtype, real_of(x.dtype))),
    numpy=lambda x: tuple(np.linalg.slogdet(x)),
    vjp=(_slogdet_vjp,),
    complex=True,
    batch=over_lanes,
    factors=batch_axes,
    expensive=True,
    precision="full",
)


def slogdet(x: Any, /) -> Slogdet:
    """The sign of the determinant and the logarithm of its size, which neither over- nor underflow.

    >>> import wengert as wg
    >>> sign, logabsdet = wg.linalg.slogdet(wg.tensor([[0.0, 1.0], [1.0, 0.0]]))
    >>> sign.item(), logabsdet.item()
    (-1.0, 0.0)
    """
    return Slogdet(*picks(SLOGDET(as_matrices(x, "slogdet", square=True))))
