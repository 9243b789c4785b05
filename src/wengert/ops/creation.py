"""Creation: values from nothing. Constants are a literal and a broadcast, which cost nothing; ramps are `iota` scaled.

Every function takes `dtype` and `device`; `wengert.api.functions` adds `requires_grad`. Numbers come out as NumPy's do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wengert.core import devices
from wengert.core.dtypes import (
    COMPLEX,
    HALF,
    INEXACT,
    INTEGER,
    as_dtype,
    bool_,
    complex128,
    default_complex,
    default_float,
    float32,
    float64,
    int64,
    promote,
    real_of,
    scalar_dtype,
)
from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.core.graph import Node, Shape
from wengert.ops.core import Weak, as_node, cast, literal, operand, operands, to_device
from wengert.ops.elementwise import absolute, equal, floor, greater_equal, less, where
from wengert.ops.movement import as_shape, broadcast_to, reshape
from wengert.ops.op import Op
from wengert.ops.recorders import broadcast_shapes

IOTA = Op(
    "iota",
    infer=lambda length, dtype: ((length,), as_dtype(dtype)),
    numpy=lambda length, dtype: np.arange(length).astype(as_dtype(dtype)),
    differentiable=False,
    kind="source",
)


def iota(length: int, dtype: np.dtype[Any] = int64) -> Node:
    """The numbers 0, 1, ... `length - 1`."""
    return IOTA(length=length, dtype=dtype)


def check_device(device: Any, name: str) -> str:
    """The device asked for, if there is one; the default without."""
    return devices.default if device is None else devices.named(device, name)


def _dtype_or(dtype: Any, default: np.dtype[Any]) -> np.dtype[Any]:
    return default if dtype is None else as_dtype(dtype)


def _shape(name: str, shape: Any, more: Sequence[Any]) -> Shape:
    """A shape that is one argument. More come from PyTorch's `zeros(2, 3)` or NumPy's `zeros(2, dtype)`."""
    if more and all(isinstance(n, (int, np.integer)) for n in (shape, *more)):
        raise ArgumentError(f"{name}: a shape is one argument here: write {name}({(shape, *more)})")
    if more:
        raise ArgumentError(f"{name}: after the shape comes dtype, by its name: {name}({shape}, dtype={more[0]})")
    sizes = as_shape(shape, name)
    if any(n < 0 for n in sizes):
        raise ShapeError(f"{name}: shape {sizes} has a negative size")
    return sizes


# --- constants ------------------------------------------------------------------------------------------------------


def _constant(value: complex, shape: Shape, dtype: np.dtype[Any], device: str) -> Node:
    return broadcast_to(literal(value, dtype, device), shape)


def zeros(shape: Any, *more: Any, dtype: Any = None, device: Any = None) -> Node:
    """Zeros of a shape, a tuple or an integer; float32 unless another dtype is asked for.

    >>> import wengert as wg
    >>> wg.zeros((2, 2)).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    sizes = _shape("zeros", shape, more)
    return _constant(0, sizes, _dtype_or(dtype, default_float), check_device(device, "zeros"))


def ones(shape: Any, *more: Any, dtype: Any = None, device: Any = None) -> Node:
    """Ones of a shape, a tuple or an integer; float32 unless another dtype is asked for.

    >>> import wengert as wg
    >>> wg.ones((2, 2)).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    sizes = _shape("ones", shape, more)
    return _constant(1, sizes, _dtype_or(dtype, default_float), check_device(device, "ones"))


def empty(shape: Any, *more: Any, dtype: Any = None, device: Any = None) -> Node:
    """A value of a shape whose elements do not matter. They are zeros: values are never changed in place.

    >>> import wengert as wg
    >>> wg.empty((2, 3)).shape
    (2, 3)
    """
    sizes = _shape("empty", shape, more)
    return _constant(0, sizes, _dtype_or(dtype, default_float), check_device(device, "empty"))


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Node:
    """A shape filled with a number, of the number's dtype unless another is asked for.

    >>> import wengert as wg
    >>> wg.full((2,), 7.0).tolist()
    [7.0, 7.0]
    """
    return _full(_shape("full", shape, ()), fill_value, None if dtype is None else as_dtype(dtype), device, "full")


def _full(shape: Shape, value: Any, dtype: np.dtype[Any] | None, device: Any, name: str) -> Node:
    if isinstance(value, (bool, int, float, complex)) and not isinstance(value, np.generic):
        return _constant(value, shape, dtype or scalar_dtype(value), check_device(device, name))
    node = operand(value, dtype) if isinstance(value, Weak) else as_node(value)
    if device is not None or node.owner is None:
        node = to_device(node, check_device(device, name))
    if node.shape != ():
        raise ShapeError(f"{name}: the fill value is one number, not a value of shape {node.shape}; see broadcast_to")
    return broadcast_to(cast(node, dtype or node.dtype), shape)


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Node:
    """Zeros of the shape and dtype of `x`.

    >>> import wengert as wg
    >>> wg.zeros_like(wg.ones(3)).tolist()
    [0.0, 0.0, 0.0]
    """
    return _like(x, 0, dtype, device, "zeros_like")


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Node:
    """Ones of the shape and dtype of `x`.

    >>> import wengert as wg
    >>> wg.ones_like(wg.zeros(3)).tolist()
    [1.0, 1.0, 1.0]
    """
    return _like(x, 1, dtype, device, "ones_like")


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Node:
    """A value of the shape and dtype of `x` whose elements do not matter.

    >>> import wengert as wg
    >>> wg.empty_like(wg.ones((2, 3))).shape
    (2, 3)
    """
    return _like(x, 0, dtype, device, "empty_like")


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Node:
    """The shape and dtype of `x` filled with a number.

    >>> import wengert as wg
    >>> wg.full_like(wg.ones(2), 7.0).tolist()
    [7.0, 7.0]
    """
    return _like(x, fill_value, dtype, device, "full_like")


def _like(x: Any, value: Any, dtype: Any, device: Any, name: str) -> Node:
    x = as_node(x)
    return _full(x.shape, value, _dtype_or(dtype, x.dtype), x.device if device is None else device, name)


# --- ramps ----------------------------------------------------------------------------------------------------------


def _number(value: Any, name: str) -> Any:
    """A Python number, also from a NumPy scalar."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, (int, float, complex)):
        return value
    raise DTypeError(f"{name} takes Python numbers, not {type(value).__name__}: of a tensor take x.item()")


def arange(start: Any, /, stop: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Node:
    """The numbers from `start` (0, if only one bound is given) in steps, up to and without `stop`.

    >>> import wengert as wg
    >>> wg.arange(3).tolist(), wg.arange(1, 0, -0.5).tolist()
    ([0, 1, 2], [1.0, 0.5])
    """
    where_to = check_device(device, "arange")
    start, stop = (0, start) if stop is None else (start, stop)
    start, stop, step = (_number(value, "arange") for value in (start, stop, step))
    chosen = _dtype_or(dtype, scalar_dtype(start + stop + step))
    if isinstance(start + stop + step, complex) or chosen in COMPLEX or chosen is bool_:
        raise DTypeError("arange gives integers or real floating-point numbers")
    if step == 0 or not all(map(math.isfinite, (start, stop, step))):
        raise ArgumentError(f"arange: no finite number of steps of {step} leads from {start} to {stop}")
    exact = all(isinstance(value, int) for value in (start, stop, step))
    length = max(0, -((start - stop) // step) if exact else math.ceil((stop - start) / step))
    _check_range(start + (length - 1) * step if length else start, chosen)
    # NumPy takes the step between the first two numbers as rounded to the dtype; halves are computed in float32
    compute = float32 if chosen in HALF else chosen
    first, second = (np.asarray(value).astype(chosen).astype(compute) for value in (start, start + step))
    ramp = iota(length, compute)
    delta = (second - first).item()
    ramp = ramp if delta == 1 else ramp * literal(delta, compute)
    return to_device(cast(ramp if first == 0 else ramp + literal(first.item(), compute), chosen), where_to)


def _check_range(last: float, dtype: np.dtype[Any]) -> None:
    if dtype in INTEGER and not np.iinfo(dtype).min <= last <= np.iinfo(dtype).max:
        raise DTypeError(f"arange: {last} does not fit into {dtype}; ask for another dtype")


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Node:
    """`num` numbers from `start` to `stop` at equal distances; without `stop` itself if not `endpoint`.

    Between Python numbers they are computed in float64 and rounded once. Between tensors they are differentiable, and
    run along a new first axis.

    >>> import wengert as wg
    >>> wg.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    count = as_shape(num, "linspace")[0]
    if count < 0:
        raise ArgumentError(f"linspace: num is {num}, and cannot be negative")
    if type(start) is Node or type(stop) is Node:
        return _between_values(start, stop, count, count - 1 if endpoint else count, dtype, device)
    where_to = check_device(device, "linspace")
    start, stop = _number(start, "linspace"), _number(stop, "linspace")
    complex_ends = isinstance(start, complex) or isinstance(stop, complex)
    chosen = _dtype_or(dtype, default_complex if complex_ends else default_float)
    if complex_ends and chosen not in COMPLEX:
        raise DTypeError(f"linspace: complex ends do not go into {chosen}")
    wide = complex128 if chosen in COMPLEX else float64
    ramp = _between(start, stop, count, count - 1 if endpoint else count, wide)
    if endpoint and count > 1:
        ramp = where(equal(iota(count), count - 1), literal(stop, wide), ramp)
    return to_device(cast(floor(ramp) if chosen in INTEGER else ramp, chosen), where_to)


def logspace(start: Any, stop: Any, /, num: int, *, base: float = 10.0, dtype: Any = None, device: Any = None) -> Node:
    """`num` powers of a base, whose exponents go from `start` to `stop` at equal distances.

    >>> import wengert as wg
    >>> wg.logspace(0, 2, 3).tolist()
    [1.0, 10.0, 100.0]
    """
    exponents = linspace(start, stop, num, dtype=float64, device=device)
    return cast(literal(base, float64, exponents.device) ** exponents, _dtype_or(dtype, default_float))


def _between(start: complex, stop: complex, count: int, intervals: int, dtype: np.dtype[Any]) -> Node:
    """In NumPy's order of operations, also where the step underflows."""
    ramp, distance = iota(count, dtype), stop - start
    if intervals <= 0:
        return ramp * literal(distance, dtype) + literal(start, dtype)
    step = distance / intervals
    if step == 0:
        return ramp / literal(intervals, dtype) * literal(distance, dtype) + literal(start, dtype)
    return ramp * literal(step, dtype) + literal(start, dtype)


def _between_values(start: Any, stop: Any, count: int, intervals: int, dtype: Any, device: Any) -> Node:
    """Both halves go from the nearer end, so that both ends are met exactly."""
    start, stop = operands(start, stop)
    meet = promote(start.dtype, stop.dtype)
    wide = meet if meet in INEXACT else default_float
    start, stop = cast(start, wide), cast(stop, wide)
    shape = broadcast_shapes("linspace", start.shape, stop.shape)
    steps = reshape(iota(count, real_of(wide)), (count, *(1,) * len(shape)))
    distance = (stop - start) / literal(max(intervals, 1), wide)
    forward = start + steps * distance
    backward = stop - (literal(intervals, real_of(wide)) - steps) * distance
    ramp = where(less(steps, intervals / 2), forward, backward) if intervals > 0 else forward
    made = cast(floor(ramp) if dtype is not None and as_dtype(dtype) in INTEGER else ramp, _dtype_or(dtype, wide))
    return made if device is None else to_device(made, check_device(device, "linspace"))


# --- matrices -------------------------------------------------------------------------------------------------------


def diagonals(rows: int, columns: int) -> Node:
    """The number of the diagonal each element of a matrix is on: 0 the main one, 1 the one above it, -1 below."""
    return reshape(iota(columns), (1, columns)) - reshape(iota(rows), (rows, 1))


def _offset(k: Any, sides: Shape) -> int:
    """The number of a diagonal; of one outside the matrix, that of one just outside, which a dtype can hold."""
    return max(-sides[0], min(int(k), sides[1]))


def _sides(name: str, n_rows: Any, n_cols: Any) -> Shape:
    return _shape(name, (n_rows, n_rows if n_cols is None else n_cols), ())


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Node:
    """A matrix with ones on its k-th diagonal (above the main one for positive `k`) and zeros elsewhere.

    >>> import wengert as wg
    >>> wg.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    sides = _sides("eye", n_rows, n_cols)
    matrix = equal(diagonals(*sides), _offset(k, sides))
    return to_device(cast(matrix, _dtype_or(dtype, default_float)), check_device(device, "eye"))


def tri(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Node:
    """A matrix with ones on and below its k-th diagonal and zeros above; `dtype=wg.bool` makes it a mask.

    >>> import wengert as wg
    >>> wg.tri(2, 3).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]
    """
    sides = _sides("tri", n_rows, n_cols)
    matrix = less(diagonals(*sides), _offset(k, sides) + 1)
    return to_device(cast(matrix, _dtype_or(dtype, default_float)), check_device(device, "tri"))


def _matrix(x: Any, name: str) -> Node:
    x = as_node(x)
    if x.ndim < 2:
        raise ShapeError(f"{name} takes a matrix, or several: at least two axes; the shape is {x.shape}")
    return x


def tril(x: Any, /, k: int = 0) -> Node:
    """`x` with zeros above the k-th diagonal of its last two axes.

    >>> import wengert as wg
    >>> wg.tril(wg.ones((2, 2))).tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    x = _matrix(x, "tril")
    return where(less(diagonals(*x.shape[-2:]), _offset(k, x.shape[-2:]) + 1), x, literal(0, x.dtype, x.device))


def triu(x: Any, /, k: int = 0) -> Node:
    """`x` with zeros below the k-th diagonal of its last two axes.

    >>> import wengert as wg
    >>> wg.triu(wg.ones((2, 2))).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    x = _matrix(x, "triu")
    return where(greater_equal(diagonals(*x.shape[-2:]), _offset(k, x.shape[-2:])), x, literal(0, x.dtype, x.device))


# --- values against each other --------------------------------------------------------------------------------------


def broadcast_arrays(*arrays: Any) -> list[Node]:
    """The values, each repeated to the shape they all broadcast to.

    >>> import wengert as wg
    >>> a, b = wg.broadcast_arrays(wg.ones((2, 1)), wg.ones(3))
    >>> a.shape, b.shape
    ((2, 3), (2, 3))
    """
    nodes = [as_node(x) for x in arrays]
    shape = broadcast_shapes("broadcast_arrays", *[x.shape for x in nodes])
    return [broadcast_to(x, shape) for x in nodes]


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Node]:
    """The coordinates of a grid, one value an axis. With "xy" the first two axes are exchanged, as in a picture.

    >>> import wengert as wg
    >>> a, b = wg.meshgrid(wg.arange(2), wg.arange(3))
    >>> a.tolist(), b.tolist()
    ([[0, 1], [0, 1], [0, 1]], [[0, 0], [1, 1], [2, 2]])
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f'meshgrid: indexing is "xy" or "ij", not {indexing!r}')
    nodes = [as_node(x) for x in arrays]
    for x in nodes:
        if x.ndim > 1:
            raise ShapeError(f"meshgrid takes values with one axis each; one has shape {x.shape}")
    axes = list(range(len(nodes)))
    if indexing == "xy" and len(nodes) > 1:
        axes[:2] = 1, 0
    spread = [reshape(x, tuple(x.size if i == axis else 1 for i in range(len(nodes)))) for x, axis in zip(nodes, axes)]
    return broadcast_arrays(*spread)


def lerp(start: Any, end: Any, weight: Any) -> Node:
    """From `start` (weight 0) to `end` (weight 1) on a straight line; both ends are met exactly.

    >>> import wengert as wg
    >>> wg.lerp(wg.tensor([0.0, 10.0]), wg.tensor([1.0, 20.0]), 0.5).tolist()
    [0.5, 15.0]
    """
    start, end = operands(start, end)
    near_start = start + weight * (end - start)
    near_end = end - (1 - weight) * (end - start)
    if isinstance(weight, (int, float, complex)):
        return near_start if (abs(weight) if isinstance(weight, complex) else weight) < 0.5 else near_end
    size = absolute(weight) if as_node(weight).dtype in COMPLEX else weight
    return where(less(size, 0.5), near_start, near_end)
