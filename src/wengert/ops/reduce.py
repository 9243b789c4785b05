"""Reductions: many elements along some axes become one. Axes are normalised while recording.

`sum` is linear; `max`, `min` share the derivative equally among ties; `prod` is exact with any number of zeros.
"""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from wengert.core.dtypes import COMPLEX, HALF, INEXACT, SIGNED, as_dtype, bool_, default_float, float32, int64, uint64
from wengert.core.errors import DTypeError, ShapeError
from wengert.core.graph import Node, Shape
from wengert.ops.core import as_node, cast, stop_gradient
from wengert.ops.elementwise import absolute, add, equal, exp, imag, isfinite, log, not_equal, real, sqrt, square, where
from wengert.ops.factors import Combination, reducing
from wengert.ops.facts import itself, no_flops
from wengert.ops.movement import broadcast_to, concat, normalize_axes, normalize_axis, reshape, slice_axis
from wengert.ops.op import Op, behind_lanes


@functools.lru_cache(maxsize=4096)
def reduced(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """The shape that is left when these axes are reduced."""
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def restore(y: Node, like: Node, axes: tuple[int, ...]) -> Node:
    """A reduction's result with its reduced axes back, of size 1: it broadcasts against what was reduced."""
    return reshape(y, reduced(like.shape, axes, True))


def _infer(x: Node, axes: tuple[int, ...], keepdims: bool) -> tuple[Any, Any]:
    return reduced(x.shape, axes, keepdims), x.dtype


def _infer_bool(x: Node, axes: tuple[int, ...], keepdims: bool) -> tuple[Any, Any]:
    return reduced(x.shape, axes, keepdims), bool_


def _samples() -> ModuleType:
    from wengert.ops import samples

    return samples


SUM = Op(
    "sum",
    infer=_infer,
    numpy=lambda x, axes, keepdims: np.sum(x, axes, dtype=x.dtype, keepdims=keepdims),
    vjp=(lambda g, y, x: broadcast_to(restore(g, x, y.attrs["axes"]), x.shape),),
    linear=(0,),
    complex=True,
    batch=behind_lanes,
    expensive=True,
    precision="full",
    kind="reduction",
    factors=reducing("sum"),
    symbolic=itself,
    samples=lambda: _samples().of_axes(empty=True),
)


def dtype_of_sum(x: Node, dtype: Any) -> np.dtype[Any]:
    """The dtype asked for; else small integers are summed in 64 bits, and booleans counted."""
    if dtype is not None:
        return as_dtype(dtype)
    if x.dtype in INEXACT:
        return x.dtype
    return int64 if x.dtype is bool_ or x.dtype in SIGNED else uint64


def sum(x: Any, /, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Node:
    """The sum of the elements along some axes (all, if none is named).

    >>> import wengert as wg
    >>> wg.sum(wg.tensor([[1.0, 2.0], [3.0, 4.0]]), axis=0).tolist()
    [4.0, 6.0]
    """
    x = as_node(x)
    x = cast(x, dtype_of_sum(x, dtype))
    return SUM(x, axes=normalize_axes(axis, x.ndim, "sum"), keepdims=keepdims)


def sum_to(x: Node, shape: Shape) -> Node:
    """`x` summed over the axes along which a value of this shape was broadcast: the transpose of broadcasting."""
    if x.shape == shape:
        return x
    extra = x.ndim - len(shape)
    axes = tuple(i for i, n in enumerate(x.shape) if i < extra or (shape[i - extra] == 1 and n != 1))
    return reshape(SUM(x, axes=axes, keepdims=False) if axes else x, shape)


# --- extremes -------------------------------------------------------------------------------------------------------


def _extreme_vjp(g: Node, y: Node, x: Node) -> Node:
    axes = y.attrs["axes"]
    ties = cast(equal(x, restore(y, x, axes)), x.dtype)
    count = SUM(ties, axes=axes, keepdims=True)
    return restore(g, x, axes) * ties / count


def _extreme(name: Combination, reference: Callable[..., Any]) -> Op:
    return Op(
        name,
        infer=_infer,
        numpy=lambda x, axes, keepdims: reference(x, axis=axes, keepdims=keepdims),
        vjp=(_extreme_vjp,),
        batch=behind_lanes,
        expensive=True,
        kind="reduction",
        factors=reducing(name),
        symbolic=itself,
        samples=lambda: _samples().of_axes(),
    )


MAX, MIN = _extreme("max", np.max), _extreme("min", np.min)


def _record_extreme(op: Op, x: Any, axis: Any, keepdims: bool) -> Node:
    x = as_node(x)
    if x.dtype in COMPLEX:
        raise DTypeError(f"{op.name}: complex numbers have no order")
    axes = normalize_axes(axis, x.ndim, op.name)
    _require_elements(op.name, x, axes)
    return op(x, axes=axes, keepdims=keepdims)


def _require_elements(name: str, x: Node, axes: tuple[int, ...]) -> None:
    if builtins.any(x.shape[a] == 0 for a in axes):
        raise ShapeError(f"{name}: shape {x.shape} has no elements along axes {axes}, and none of them is the {name}")


def max(x: Any, /, axis: Any = None, keepdims: bool = False) -> Node:
    """The largest element along some axes. Elements that tie share its derivative equally.

    >>> import wengert as wg
    >>> wg.max(wg.tensor([[1.0, 5.0], [3.0, 2.0]]), axis=0).tolist()
    [3.0, 5.0]
    """
    return _record_extreme(MAX, x, axis, keepdims)


def min(x: Any, /, axis: Any = None, keepdims: bool = False) -> Node:
    """The smallest element along some axes. Elements that tie share its derivative equally.

    >>> import wengert as wg
    >>> wg.min(wg.tensor([[1.0, 5.0], [3.0, 2.0]]), axis=0).tolist()
    [1.0, 2.0]
    """
    return _record_extreme(MIN, x, axis, keepdims)


# --- product --------------------------------------------------------------------------------------------------------


def _multiply_along(x: Node, axis: int) -> Node:
    """The product along one axis, by multiplying halves: every derivative of it is a product of the others, exactly."""
    while x.shape[axis] > 1:
        n = x.shape[axis]
        half = n // 2
        product = slice_axis(x, axis, 0, half) * slice_axis(x, axis, half, 2 * half)
        x = product if n == 2 * half else concat([product, slice_axis(x, axis, n - 1, n)], axis=axis)
    return x


def prod(x: Any, /, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Node:
    """The product of the elements along some axes. Its derivative is exact with any number of zeros among them.

    >>> import wengert as wg
    >>> wg.prod(wg.tensor([2.0, 3.0, 4.0])).item()
    24.0
    """
    x = as_node(x)
    x = cast(x, dtype_of_sum(x, dtype))
    axes = normalize_axes(axis, x.ndim, "prod")
    if not x.tracked:
        return PROD(x, axes=axes, keepdims=keepdims)
    shape = reduced(x.shape, axes, keepdims)
    if x.size == 0:
        return PROD(x, axes=axes, keepdims=keepdims)
    for a in axes:
        x = _multiply_along(x, a)
    return reshape(x, shape)


PROD = Op(
    "prod",
    infer=_infer,
    numpy=lambda x, axes, keepdims: np.prod(x, axes, dtype=x.dtype, keepdims=keepdims),
    differentiable=False,
    batch=behind_lanes,
    expensive=True,
    precision="full",
    kind="reduction",
    factors=reducing("prod"),
    symbolic=itself,
    samples=lambda: _samples().of_axes(empty=True),
)


# --- truth ----------------------------------------------------------------------------------------------------------


def _truth(name: Combination, reference: Callable[..., Any]) -> Op:
    return Op(
        name,
        infer=_infer_bool,
        numpy=lambda x, axes, keepdims: reference(x, axis=axes, keepdims=keepdims),
        differentiable=False,
        batch=behind_lanes,
        kind="reduction",
        factors=reducing(name),
        flops=no_flops,
        samples=lambda: _samples().of_truths(),
    )


ALL, ANY = _truth("all", np.all), _truth("any", np.any)


def all(x: Any, /, axis: Any = None, keepdims: bool = False) -> Node:
    """Whether all elements along some axes are true (not zero).

    >>> import wengert as wg
    >>> wg.all(wg.tensor([[True, True], [True, False]]), axis=1).tolist()
    [True, False]
    """
    x = as_node(x)
    return ALL(x, axes=normalize_axes(axis, x.ndim, "all"), keepdims=keepdims)


def any(x: Any, /, axis: Any = None, keepdims: bool = False) -> Node:
    """Whether any element along some axes is true (not zero).

    >>> import wengert as wg
    >>> wg.any(wg.tensor([[False, True], [False, False]]), axis=1).tolist()
    [True, False]
    """
    x = as_node(x)
    return ANY(x, axes=normalize_axes(axis, x.ndim, "any"), keepdims=keepdims)


def count_nonzero(x: Any, /, axis: Any = None, keepdims: bool = False) -> Node:
    """How many elements along some axes are not zero.

    >>> import wengert as wg
    >>> wg.count_nonzero(wg.tensor([0.0, 2.0, 3.0])).item()
    2
    """
    x = as_node(x)
    return sum(cast(not_equal(x, 0) if x.dtype is not bool_ else x, int64), axis=axis, keepdims=keepdims)


# --- positions ------------------------------------------------------------------------------------------------------


def _position(name: str, reference: Callable[..., Any]) -> Op:
    return Op(
        name,
        infer=lambda x, axis, keepdims: (reduced(x.shape, (axis,), keepdims), int64),
        numpy=lambda x, axis, keepdims: reference(x, axis=axis, keepdims=keepdims),
        differentiable=False,
        batch=behind_lanes,
        kind="reduction",
        samples=lambda: _samples().of_one_axis(),
    )


ARGMAX, ARGMIN = _position("argmax", np.argmax), _position("argmin", np.argmin)


def _record_position(op: Op, x: Any, axis: int | None, keepdims: bool) -> Node:
    x = as_node(x)
    if axis is None:
        flat = _record_position(op, reshape(x, (-1,)), 0, False)
        return reshape(flat, (1,) * x.ndim) if keepdims else flat
    at = normalize_axis(axis, x.ndim, op.name)
    _require_elements(op.name, x, (at,))
    return op(x, axis=at, keepdims=keepdims)


def argmax(x: Any, /, axis: int | None = None, keepdims: bool = False) -> Node:
    """Where along an axis the largest element is (the first, if several tie); in the flattened value without one.

    >>> import wengert as wg
    >>> wg.argmax(wg.tensor([[1.0, 3.0, 2.0], [9.0, 0.0, 0.0]]), axis=1).tolist()
    [1, 0]
    """
    return _record_position(ARGMAX, x, axis, keepdims)


def argmin(x: Any, /, axis: int | None = None, keepdims: bool = False) -> Node:
    """Where along an axis the smallest element is (the first, if several tie); in the flattened value without one.

    >>> import wengert as wg
    >>> wg.argmin(wg.tensor([3.0, 1.0, 2.0])).item()
    1
    """
    return _record_position(ARGMIN, x, axis, keepdims)


# --- statistics, norms: compositions --------------------------------------------------------------------------------


def _count(x: Node, axes: tuple[int, ...]) -> int:
    return math.prod(x.shape[a] for a in axes)


def _as_inexact(x: Node) -> Node:
    return x if x.dtype in INEXACT else cast(x, default_float)


def in_float32(statistic: Callable[..., Node]) -> Callable[..., Node]:
    """A statistic whose inner sums would overflow or round in half precision: computed in float32, rounded once."""

    @functools.wraps(statistic)
    def wide(x: Any, /, *args: Any, **kwargs: Any) -> Node:
        x = as_node(x)
        if x.dtype not in HALF:
            return statistic(x, *args, **kwargs)
        return cast(statistic(cast(x, float32), *args, **kwargs), x.dtype)

    return wide


@in_float32
def mean(x: Any, /, axis: Any = None, keepdims: bool = False) -> Node:
    """The mean of the elements along some axes.

    >>> import wengert as wg
    >>> wg.mean(wg.tensor([[1.0, 2.0], [3.0, 6.0]]), axis=1).tolist()
    [1.5, 4.5]
    """
    x = _as_inexact(as_node(x))
    axes = normalize_axes(axis, x.ndim, "mean")
    count = _count(x, axes)
    return SUM(x, axes=axes, keepdims=keepdims) / (float(count) if count else float("nan"))


@in_float32
def var(x: Any, /, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Node:
    """The variance along some axes: squared distances from the mean, summed, over the count minus `correction`.

    A distance is the absolute value of a difference: the variance of complex values is real.

    >>> import wengert as wg
    >>> wg.var(wg.tensor([1.0, 3.0])).item()
    1.0
    """
    x = _as_inexact(as_node(x))
    axes = normalize_axes(axis, x.ndim, "var")
    distance = x - mean(x, axis=axes, keepdims=True)
    freedom = float(builtins.max(_count(x, axes) - correction, 0))
    total = SUM(_squared_size(distance), axes=axes, keepdims=keepdims)
    return total / freedom  # by 0 as IEEE has it: infinite, and NaN of no distances


def _squared_size(x: Node) -> Node:
    """The square of the absolute value, with a derivative at 0 too."""
    return add(square(real(x)), square(imag(x))) if x.dtype in COMPLEX else square(x)


@in_float32
def std(x: Any, /, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Node:
    """The standard deviation along some axes, the root of `var`.

    >>> import wengert as wg
    >>> wg.std(wg.tensor([1.0, 3.0])).item()
    1.0
    """
    return safe_sqrt(var(x, axis=axis, correction=correction, keepdims=keepdims))


def safe_sqrt(x: Node) -> Node:
    """The square root, with derivative 0 at 0."""
    zero = equal(x, 0)
    return where(zero, 0, sqrt(where(zero, 1, x)))


@in_float32
def norm(x: Any, ord: float = 2, axis: Any = None, keepdims: bool = False) -> Node:
    """The vector norm of some order along some axes; the derivative of the 2-norm at 0 is 0.

    >>> import wengert as wg
    >>> wg.norm(wg.tensor([3.0, 4.0])).item()
    5.0
    """
    x = _as_inexact(as_node(x))
    if ord == 2:
        return safe_sqrt(sum(_squared_size(x), axis=axis, keepdims=keepdims))
    size = absolute(x)
    if ord == 1:
        return sum(size, axis=axis, keepdims=keepdims)
    if ord == 0:
        return cast(count_nonzero(x, axis=axis, keepdims=keepdims), size.dtype)
    if math.isinf(ord):
        return (max if ord > 0 else min)(size, axis=axis, keepdims=keepdims)
    zero = equal(size, 0)
    powers = where(zero, 0, where(zero, 1, size) ** ord) if ord > 0 else size**ord
    total = sum(powers, axis=axis, keepdims=keepdims)
    empty = equal(total, 0)
    return where(empty, 0, where(empty, 1, total) ** (1 / ord))


@in_float32
def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Node:
    """`log(sum(exp(x)))` along some axes, without overflow. Of complex values the largest real part is taken out.

    >>> import wengert as wg
    >>> print(wg.logsumexp(wg.tensor([0.0, 0.0])).numpy().round(4))
    0.6931
    """
    x = _as_inexact(as_node(x))
    axes = normalize_axes(axis, x.ndim, "logsumexp")
    if x.size == 0:
        return log(sum(exp(x), axis=axes, keepdims=keepdims))
    top = stop_gradient(MAX(real(x) if x.dtype in COMPLEX else x, axes=axes, keepdims=True))
    shift = where(isfinite(top), top, 0)
    total = log(SUM(exp(x - shift), axes=axes, keepdims=True))
    return reshape(add(total, shift), reduced(x.shape, axes, keepdims))


def reduces_in_loops(node: Node) -> bool:
    """Whether a node is a reduction that loops compute. Complex numbers have sums and products."""
    if node.op.kind != "reduction":
        return False
    return node.op in (SUM, PROD) or not builtins.any(source.dtype in COMPLEX for source in node.sources)


def reduced_axes(node: Node) -> tuple[int, ...]:
    """The axes a reduction reduces."""
    return node.attrs["axes"] if "axes" in node.attrs else (node.attrs["axis"],)
