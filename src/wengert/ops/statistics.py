"""Statistics, distances, integrals, membership: compositions over whole axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.core.dtypes import COMPLEX, bool_, int8
from wengert.core.errors import ShapeError
from wengert.core.graph import Node
from wengert.ops.comparison import clip, equal, isnan, logical_not, maximum, minimum, where
from wengert.ops.contract import diagonal, einsum, outer, tensordot
from wengert.ops.core import as_node, cast, operand, operands
from wengert.ops.elementwise import conj, multiply, real
from wengert.ops.exponential import sqrt
from wengert.ops.formulas import _times, inexact, isclose, zero_like
from wengert.ops.gather import take
from wengert.ops.linalg import matmul
from wengert.ops.movement import expand_dims, matrix_transpose, normalize_axis, reshape, slice_axis
from wengert.ops.reduce import all, any, in_float32, mean, norm, sum, var
from wengert.ops.running import cumsum, diff
from wengert.ops.sorting import searchsorted, sort

# --- moments --------------------------------------------------------------------------------------------------------


def var_mean(x: Any, /, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> tuple[Node, Node]:
    """The variance, as in `var`, and the mean along some axes.

    >>> import wengert as wg
    >>> [float(part) for part in wg.var_mean(wg.tensor([1.0, 3.0]))]
    [1.0, 2.0]
    """
    return var(x, axis=axis, correction=correction, keepdims=keepdims), mean(x, axis=axis, keepdims=keepdims)


def nansum(x: Any, /, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Node:
    """The sum of the elements that are not NaN.

    >>> import wengert as wg
    >>> wg.nansum(wg.tensor([1.0, wg.nan, 2.0])).item()
    3.0
    """
    x = as_node(x)
    return sum(where(isnan(x), zero_like(x), x), axis=axis, dtype=dtype, keepdims=keepdims)


@in_float32
def nanmean(x: Any, /, axis: Any = None, keepdims: bool = False) -> Node:
    """The mean of the elements that are not NaN; NaN if there are none.

    >>> import wengert as wg
    >>> wg.nanmean(wg.tensor([1.0, wg.nan, 2.0])).item()
    1.5
    """
    x = inexact(x)
    count = sum(cast(logical_not(isnan(x)), x.dtype), axis=axis, keepdims=keepdims)
    return nansum(x, axis=axis, keepdims=keepdims) / count


@in_float32
def cov(x: Any, /, correction: float = 1) -> Node:
    """The covariance matrix of variables (rows) over observations (columns); for a single variable, its variance.

    >>> import wengert as wg
    >>> wg.cov(wg.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    x = inexact(x)
    if x.ndim > 2:
        raise ShapeError(f"cov takes a matrix with a variable in each row, not shape {x.shape}")
    rows = x if x.ndim == 2 else reshape(x, (1, -1))
    distance = rows - mean(rows, axis=1, keepdims=True)
    freedom = float(max(rows.shape[1] - correction, 0))
    product = matmul(distance, conj(matrix_transpose(distance)))
    found = product * (1 / freedom) if freedom else product / 0.0
    return found if rows.shape[0] > 1 else reshape(found, ())


@in_float32
def corrcoef(x: Any, /) -> Node:
    """The correlation coefficients of variables (rows): their covariances divided by the products of their deviations.

    >>> import wengert as wg
    >>> wg.corrcoef(wg.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])).tolist()
    [[1.0, -1.0], [-1.0, 1.0]]
    """
    found = cov(x)
    if found.ndim == 0:
        return found / found
    variances = diagonal(found)
    deviations = sqrt(real(variances) if found.dtype in COMPLEX else variances)
    scaled = found / outer(deviations, deviations)
    return scaled if found.dtype in COMPLEX else clip(scaled, -1, 1)  # rounding may lead outside


# --- distances and products -----------------------------------------------------------------------------------------


def cdist(x1: Any, x2: Any, /, p: float = 2.0) -> Node:
    """The distance, in the p-norm, of each row of `x1` from each row of `x2`; leading axes are batches.

    >>> import wengert as wg
    >>> wg.cdist(wg.tensor([[0.0, 0.0]]), wg.tensor([[3.0, 4.0], [0.0, 1.0]])).tolist()
    [[5.0, 1.0]]
    """
    a, b = operands(x1, x2)
    if a.ndim < 2 or b.ndim < 2:
        raise ShapeError(f"cdist takes matrices whose rows are points; the shapes are {a.shape} and {b.shape}")
    return norm(expand_dims(a, axis=-2) - expand_dims(b, axis=-3), ord=p, axis=-1)


def pdist(x: Any, /, p: float = 2.0) -> Node:
    """The distances, in the p-norm, of each row of a matrix from each later one: those above the diagonal of `cdist`.

    >>> import wengert as wg
    >>> wg.pdist(wg.tensor([[0.0, 0.0], [3.0, 4.0], [0.0, 8.0]])).tolist()
    [5.0, 8.0, 5.0]
    """
    x = inexact(x)
    if x.ndim != 2:
        raise ShapeError(f"pdist takes a matrix whose rows are points; the shape is {x.shape}")
    first, second = np.triu_indices(x.shape[0], 1)
    return norm(take(x, first, axis=0) - take(x, second, axis=0), ord=p, axis=-1)


def bilinear(x1: Any, x2: Any, weight: Any, bias: Any = None, /) -> Node:
    """`x1 @ weight[k] @ x2 + bias[k]` for each output k, along the last axes; the weight is (out, in1, in2).

    >>> import wengert as wg
    >>> wg.bilinear(wg.tensor([1.0, 2.0]), wg.tensor([3.0]), wg.tensor([[[1.0], [1.0]]])).tolist()
    [9.0]
    """
    a, b = as_node(x1), as_node(x2)
    w = as_node(weight)
    if a.shape[:-1] != b.shape[:-1] or not a.ndim:
        raise ShapeError(
            f"bilinear: all axes except the last must agree in both inputs; shapes are {a.shape} and {b.shape}"
        )
    if w.ndim != 3 or w.shape[1:] != (a.shape[-1], b.shape[-1]):
        raise ShapeError(
            f"bilinear: the weight must be (out, {a.shape[-1]}, {b.shape[-1]}) for these inputs; its shape is {w.shape}"
        )
    y = einsum("...i,oij,...j->...o", a, w, b)
    return y if bias is None else y + as_node(bias)


def inner(x1: Any, x2: Any, /) -> Node:
    """The inner products along the last axes of both.

    >>> import wengert as wg
    >>> wg.inner(wg.tensor([1, 2]), wg.tensor([3, 4])).item()
    11
    """
    a, b = operands(x1, x2)
    return multiply(a, b) if a.ndim == 0 or b.ndim == 0 else tensordot(a, b, axes=((-1,), (-1,)))


def addmm(x: Any, x1: Any, x2: Any, /, beta: float = 1, alpha: float = 1) -> Node:
    """`beta * x + alpha * x1 @ x2`, of matrices.

    >>> import wengert as wg
    >>> wg.addmm(wg.tensor([1.0]), wg.tensor([[2.0]]), wg.tensor([[3.0]]), beta=10.0).tolist()
    [[16.0]]
    """
    a, b = as_node(x1), as_node(x2)
    if a.ndim != 2 or b.ndim != 2:
        raise ShapeError(f"addmm takes two matrices, not shapes {a.shape} and {b.shape}; wg.baddbmm takes batches")
    return _times(beta, as_node(x)) + _times(alpha, matmul(a, b))


def baddbmm(x: Any, x1: Any, x2: Any, /, beta: float = 1, alpha: float = 1) -> Node:
    """`beta * x + alpha * x1 @ x2`, of as many matrices each.

    >>> import wengert as wg
    >>> wg.baddbmm(wg.tensor([1.0]), wg.tensor([[[2.0]]]), wg.tensor([[[3.0]]]), beta=10.0).tolist()
    [[[16.0]]]
    """
    a, b = as_node(x1), as_node(x2)
    if a.ndim != 3 or b.ndim != 3:
        raise ShapeError(f"baddbmm takes matrices along a first axis, not shapes {a.shape} and {b.shape}")
    return _times(beta, as_node(x)) + _times(alpha, matmul(a, b))


# --- integrals ------------------------------------------------------------------------------------------------------


def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Node:
    """The integral of `y` along an axis by the trapezoidal rule, at the points `x` or with spacing `dx`.

    >>> import wengert as wg
    >>> wg.trapezoid(wg.tensor([1.0, 2.0, 3.0])).item()
    4.0
    """
    y = inexact(y)
    at = normalize_axis(axis, y.ndim, "trapezoid")
    return sum(_trapezoids(y, x, dx, at), axis=at)


def cumulative_trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Node:
    """The integral of `y` from its first element up to each later one by the trapezoidal rule.

    >>> import wengert as wg
    >>> wg.cumulative_trapezoid(wg.tensor([1.0, 2.0, 3.0])).tolist()
    [1.5, 4.0]
    """
    y = inexact(y)
    at = normalize_axis(axis, y.ndim, "cumulative_trapezoid")
    return cumsum(_trapezoids(y, x, dx, at), axis=at)


def _trapezoids(y: Node, x: Any, dx: Any, axis: int) -> Node:
    n = y.shape[axis]
    middle = (slice_axis(y, axis, min(1, n), n) + slice_axis(y, axis, 0, max(n - 1, 0))) / 2
    if x is None:
        return multiply(middle, dx)
    places = x if type(x) is Node else operand(x, y.dtype, y.device)
    if places.ndim == 1:
        places = reshape(places, (-1, *(1,) * (y.ndim - 1 - axis)))
        return multiply(middle, diff(places, axis=0))
    return multiply(middle, diff(places, axis=axis - y.ndim))


# --- questions ------------------------------------------------------------------------------------------------------


def allclose(x1: Any, x2: Any, /, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Node:
    """Whether all elements are close in the sense of `isclose`.

    >>> import wengert as wg
    >>> bool(wg.allclose(wg.tensor([1.0, 2.0]), wg.tensor([1.0, 2.0 + 1e-7])))
    True
    """
    return all(isclose(x1, x2, rtol=rtol, atol=atol, equal_nan=equal_nan))


def isin(x: Any, values: Any, /, invert: bool = False) -> Node:
    """Which elements of `x` are among some values; with `invert`, which are not.

    >>> import wengert as wg
    >>> wg.isin(wg.tensor([1, 2, 3]), wg.tensor([3, 1])).tolist()
    [True, False, True]
    """
    a, b = operands(x, values)
    b = reshape(b, (-1,))
    if a.dtype in COMPLEX or b.dtype in COMPLEX or b.size < 8:
        found = any(equal(expand_dims(a, axis=-1), b), axis=-1)
    else:
        a, b = (cast(node, int8) if node.dtype is bool_ else node for node in (a, b))
        b = sort(b)
        places = minimum(maximum(searchsorted(b, reshape(a, (-1,))), 0), b.size - 1)
        found = equal(reshape(take(b, places), a.shape), a)
    return logical_not(found) if invert else found
