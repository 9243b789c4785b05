"""Running ops: each result along an axis is made of the elements up to it.

`cumsum` is linear, its transpose is the running sum from the other end. A running product, or log-sum-exp, of tracked
values is made of shifted multiplications (or additions), doubling the shift: in log2(n) steps, and with derivatives of
every order exact with any number of zeros. Running extremes are gathered from where they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.core.dtypes import COMPLEX, INEXACT, bool_, default_float, int64
from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.core.graph import Node
from wengert.ops.addressing import TAKE_ALONG
from wengert.ops.core import as_node, cast, literal, operand
from wengert.ops.elementwise import logaddexp, multiply, not_equal
from wengert.ops.factors import other_axes
from wengert.ops.movement import broadcast_to, concat, normalize_axis, reshape, slice_axis
from wengert.ops.op import Op, Precision, behind_lanes
from wengert.ops.reduce import dtype_of_sum
from wengert.ops.sorting import ValuesAndIndices


def _running(name: str, reference: Callable[..., Any], precision: Precision = None) -> Op:
    """A running op whose derivative comes from a composition that takes its place when values are tracked."""
    return Op(
        name,
        infer=lambda x, axis: (x.shape, x.dtype),
        numpy=reference,
        differentiable=False,
        batch=behind_lanes,
        factors=other_axes,
        expensive=True,
        precision=precision,
    )


def _doubled(combine: Callable[[Node, Node], Node], x: Node, axis: int) -> Node:
    """The running combination along an axis: after a shift of s each element holds the last 2s (Hillis and Steele)."""
    n, shift = x.shape[axis], 1
    while shift < n:
        later = combine(slice_axis(x, axis, shift, n), slice_axis(x, axis, 0, n - shift))
        x = concat([slice_axis(x, axis, 0, shift), later], axis=axis)
        shift *= 2
    return x


# --- sums -----------------------------------------------------------------------------------------------------------


def _cumsum(x: Any, axis: int, backwards: bool) -> Any:
    if not backwards:
        return np.cumsum(x, axis, dtype=x.dtype)
    return np.flip(np.cumsum(np.flip(x, axis), axis, dtype=x.dtype), axis)


CUMSUM: Op = Op(
    "cumsum",
    infer=lambda x, axis, backwards: (x.shape, x.dtype),
    numpy=_cumsum,
    vjp=(lambda g, y, x: CUMSUM(g, axis=y.attrs["axis"], backwards=not y.attrs["backwards"]),),
    linear=(0,),
    complex=True,
    batch=behind_lanes,
    factors=other_axes,
    expensive=True,
    precision="full",
    can_fail=False,
)


def _only_axis(name: str, x: Node, axis: int | None) -> int:
    if x.ndim == 0:
        raise ShapeError(f"{name}: a 0-d value has no axis to run along")
    if axis is None and x.ndim > 1:
        raise ArgumentError(f"{name}: shape {x.shape} has {x.ndim} axes; say along which with axis=...")
    return normalize_axis(0 if axis is None else axis, x.ndim, name)


def _with_initial(y: Node, axis: int, initial: int) -> Node:
    shape = (*y.shape[:axis], 1, *y.shape[axis + 1 :])
    return concat([broadcast_to(literal(initial, y.dtype, y.device), shape), y], axis=axis)


def cumulative_sum(x: Any, /, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Node:
    """The running sum along an axis, beginning with 0 if `include_initial`. One axis alone need not be named.

    >>> import wengert as wg
    >>> wg.cumulative_sum(wg.tensor([1, 2, 3]), include_initial=True).tolist()
    [0, 1, 3, 6]
    """
    x = as_node(x)
    at = _only_axis("cumulative_sum", x, axis)
    y = CUMSUM(cast(x, dtype_of_sum(x, dtype)), axis=at, backwards=False)
    return _with_initial(y, at, 0) if include_initial else y


def cumulative_prod(x: Any, /, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Node:
    """The running product along an axis, beginning with 1 if `include_initial`. One axis alone need not be named.

    >>> import wengert as wg
    >>> wg.cumulative_prod(wg.tensor([1.0, 2.0, 3.0])).tolist()
    [1.0, 2.0, 6.0]
    """
    x = as_node(x)
    at = _only_axis("cumulative_prod", x, axis)
    x = cast(x, dtype_of_sum(x, dtype))
    y = _doubled(multiply, x, at) if x.tracked else CUMPROD(x, axis=at)
    return _with_initial(y, at, 1) if include_initial else y


CUMPROD = _running("cumprod", lambda x, axis: np.cumprod(x, axis, dtype=x.dtype), precision="full")


def cumsum(x: Any, /, axis: int | None = None, dtype: Any = None) -> Node:
    """The running sum along an axis; of the flattened `x` without one.

    >>> import wengert as wg
    >>> wg.cumsum(wg.tensor([1.0, 2.0, 3.0]), 0).tolist()
    [1.0, 3.0, 6.0]
    """
    x = as_node(x)
    return cumulative_sum(reshape(x, (-1,)) if axis is None else x, axis=axis, dtype=dtype)


def cumprod(x: Any, /, axis: int | None = None, dtype: Any = None) -> Node:
    """The running product along an axis; of the flattened `x` without one. Its derivatives are exact with zeros.

    >>> import wengert as wg
    >>> wg.cumprod(wg.tensor([1.0, 2.0, 3.0]), 0).tolist()
    [1.0, 2.0, 6.0]
    """
    x = as_node(x)
    return cumulative_prod(reshape(x, (-1,)) if axis is None else x, axis=axis, dtype=dtype)


def logcumsumexp(x: Any, /, axis: int = -1) -> Node:
    """`log(cumsum(exp(x)))` along an axis, without overflow.

    >>> import wengert as wg
    >>> wg.logcumsumexp(wg.tensor([1000.0, 1000.0])).tolist()
    [1000.0, 1000.693...]
    """
    x = as_node(x)
    if x.dtype in COMPLEX:
        raise DTypeError("logcumsumexp takes real values")
    x = x if x.dtype in INEXACT else cast(x, default_float)
    at = normalize_axis(axis, x.ndim, "logcumsumexp")
    return _doubled(logaddexp, x, at) if x.tracked else LOGCUMSUMEXP(x, axis=at)


LOGCUMSUMEXP = _running("logcumsumexp", lambda x, axis: np.logaddexp.accumulate(x, axis))


# --- extremes -------------------------------------------------------------------------------------------------------


def _extreme(name: str, accumulate: Callable[..., Any]) -> Op:
    """Where along an axis the extreme so far is: the last such place, or that of a NaN."""

    def reference(x: Any, axis: int) -> Any:
        best = accumulate(x, axis)
        shape = [1] * x.ndim
        shape[axis] = x.shape[axis]
        places = np.where((x == best) | (x != x), np.arange(x.shape[axis]).reshape(shape), 0)
        return np.maximum.accumulate(places, axis)

    return Op(
        name,
        infer=lambda x, axis: (x.shape, int64),
        numpy=reference,
        differentiable=False,
        batch=behind_lanes,
        factors=other_axes,
        expensive=True,
    )


CUMARGMAX = _extreme("cumargmax", np.maximum.accumulate)
CUMARGMIN = _extreme("cumargmin", np.minimum.accumulate)


def _record_extreme(name: str, op: Op, x: Any, axis: int) -> ValuesAndIndices:
    x = as_node(x)
    if x.dtype in COMPLEX:
        raise DTypeError(f"{name}: complex numbers have no order")
    at = normalize_axis(axis, x.ndim, name)
    indices = op(x, axis=at)
    return ValuesAndIndices(TAKE_ALONG(x, indices, axis=at), indices)


def cummax(x: Any, /, axis: int = -1) -> ValuesAndIndices:
    """The largest element so far along an axis, and where it is (the last such place).

    >>> import wengert as wg
    >>> wg.cummax(wg.tensor([1, 3, 2])).values.tolist()
    [1, 3, 3]
    """
    return _record_extreme("cummax", CUMARGMAX, x, axis)


def cummin(x: Any, /, axis: int = -1) -> ValuesAndIndices:
    """The smallest element so far along an axis, and where it is (the last such place).

    >>> import wengert as wg
    >>> values, indices = wg.cummin(wg.tensor([3.0, 1.0, 2.0]), 0)
    >>> values.tolist(), indices.tolist()
    ([3.0, 1.0, 1.0], [0, 1, 1])
    """
    return _record_extreme("cummin", CUMARGMIN, x, axis)


# --- differences ----------------------------------------------------------------------------------------------------


def diff(x: Any, /, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Node:
    """The differences of neighbours along an axis, taken `n` times, with values put before and behind first.

    >>> import wengert as wg
    >>> wg.diff(wg.tensor([1, 4, 9])).tolist()
    [3, 5]
    """
    x = as_node(x)
    at = normalize_axis(axis, x.ndim, "diff")
    if not isinstance(n, (int, np.integer)) or n < 0:
        raise ArgumentError(f"diff: n says how often, a number from 0 up, not {n!r}")
    if n == 0:
        return x
    parts = [_beside(prepend, x, at), x, _beside(append, x, at)]
    x = concat([part for part in parts if part is not None], axis=at)
    for _ in range(n):
        size = x.shape[at]
        later, earlier = slice_axis(x, at, min(1, size), size), slice_axis(x, at, 0, max(size - 1, 0))
        x = not_equal(later, earlier) if x.dtype is bool_ else later - earlier
    return x


def _beside(value: Any, x: Node, axis: int) -> Node | None:
    """A value put beside `x` along an axis; a single number is one element there."""
    if value is None:
        return None
    node = value if type(value) is Node else operand(value, x.dtype, x.device)
    return broadcast_to(node, (*x.shape[:axis], 1, *x.shape[axis + 1 :])) if node.ndim == 0 else node
