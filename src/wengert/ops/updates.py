"""Values with some elements replaced, combinations of elements, differences: composed of gathers, writes and
movement."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from wengert.core.errors import ArgumentError, ShapeError
from wengert.core.graph import Node
from wengert.ops.addressing import as_index, check_range
from wengert.ops.core import as_node, beside, data
from wengert.ops.creation import meshgrid
from wengert.ops.elementwise import divide, less, where
from wengert.ops.formulas import inexact
from wengert.ops.gather import index_put, take
from wengert.ops.index import set_item
from wengert.ops.movement import broadcast_to, concat, moveaxis, normalize_axis, reshape, slice_axis, stack

# --- some elements replaced -----------------------------------------------------------------------------------------


def put(x: Any, indices: Any, values: Any, /, accumulate: bool = False) -> Node:
    """`x` with the elements at these indices of the flattened `x` replaced, or added to with `accumulate`.

    >>> import wengert as wg
    >>> wg.put(wg.tensor([[1, 2], [3, 4]]), [0, 3], [9, 8]).tolist()
    [[9, 2], [3, 8]]
    """
    x, index = as_node(x), as_index(indices, "put")
    check_range(index, x.size, "put")
    index = where(less(index, 0), index + x.size, index)
    return reshape(index_put(reshape(x, (-1,)), (index,), beside(x, values), accumulate), x.shape)


def select_scatter(x: Any, source: Any, /, axis: int, index: int) -> Node:
    """`x` with the slice at one index along an axis replaced by `source`.

    >>> import wengert as wg
    >>> wg.select_scatter(wg.zeros((2, 2)), wg.ones((2,)), axis=0, index=1).tolist()
    [[0.0, 0.0], [1.0, 1.0]]
    """
    x, source = as_node(x), as_node(source)
    at = normalize_axis(axis, x.ndim, "select_scatter")
    _require_shape("select_scatter", source, (*x.shape[:at], *x.shape[at + 1 :]))
    return set_item(x, (*(slice(None),) * at, int(index)), source)


def slice_scatter(
    x: Any, source: Any, /, axis: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Node:
    """`x` with a slice along an axis replaced by `source`.

    >>> import wengert as wg
    >>> wg.slice_scatter(wg.zeros((4,)), wg.ones((2,)), start=1, end=3).tolist()
    [0.0, 1.0, 1.0, 0.0]
    """
    x, source = as_node(x), as_node(source)
    at = normalize_axis(axis, x.ndim, "slice_scatter")
    key = slice(start, end, step)
    _require_shape("slice_scatter", source, (*x.shape[:at], len(range(*key.indices(x.shape[at]))), *x.shape[at + 1 :]))
    return set_item(x, (*(slice(None),) * at, key), source)


def diagonal_scatter(x: Any, source: Any, /, offset: int = 0, axis1: int = -2, axis2: int = -1) -> Node:
    """`x` with `source` on a diagonal of two axes; the last axis of `source` runs along the diagonal.

    >>> import wengert as wg
    >>> wg.diagonal_scatter(wg.zeros((2, 2)), wg.ones((2,))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    x, source = as_node(x), as_node(source)
    first, second = (normalize_axis(axis, x.ndim, "diagonal_scatter") for axis in (axis1, axis2))
    if first == second:
        raise ArgumentError(f"diagonal_scatter: axis1 and axis2 are both {first}")
    rows, columns = x.shape[first], x.shape[second]
    length = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    moved = moveaxis(x, (first, second), (0, 1))
    _require_shape("diagonal_scatter", source, (*moved.shape[2:], length))
    places = np.arange(length)
    indices = (data(places - min(offset, 0)), data(places + max(offset, 0)))
    written = index_put(moved, indices, moveaxis(source, -1, 0))
    return moveaxis(written, (0, 1), (first, second))


def _require_shape(name: str, source: Node, shape: Sequence[int]) -> None:
    if source.shape != tuple(shape):
        raise ShapeError(f"{name}: the source has shape {source.shape}, not {tuple(shape)}")


# --- several next to each other -------------------------------------------------------------------------------------


def column_stack(arrays: Sequence[Any], /) -> Node:
    """Join vectors as the columns of a matrix, or matrices horizontally.

    >>> import wengert as wg
    >>> wg.column_stack([wg.tensor([1, 2]), wg.tensor([3, 4])]).tolist()
    [[1, 3], [2, 4]]
    """
    return concat([x if x.ndim > 1 else reshape(x, (x.size, 1)) for x in map(as_node, arrays)], axis=1)


def _at_least(rank: int, arrays: Sequence[Any]) -> Any:
    found = [_with_axes(as_node(x), rank) for x in arrays]
    return found[0] if len(found) == 1 else tuple(found)


def _with_axes(x: Node, rank: int) -> Node:
    """As NumPy has it: of three axes a vector is the middle one, a matrix the first two."""
    if x.ndim >= rank:
        return x
    if rank == 3 and x.ndim:
        return reshape(x, (1, *x.shape, 1) if x.ndim == 1 else (*x.shape, 1))
    return reshape(x, (*(1,) * (rank - x.ndim), *x.shape))


def atleast_1d(*arrays: Any) -> Any:
    """The values, each with at least one axis.

    >>> import wengert as wg
    >>> wg.atleast_1d(wg.tensor(1)).shape
    (1,)
    """
    return _at_least(1, arrays)


def atleast_2d(*arrays: Any) -> Any:
    """The values, each with at least two axes; a vector becomes a row.

    >>> import wengert as wg
    >>> wg.atleast_2d(wg.tensor([1, 2])).shape
    (1, 2)
    """
    return _at_least(2, arrays)


def atleast_3d(*arrays: Any) -> Any:
    """The values, each with at least three axes, as in NumPy: (1, N, 1) for a vector, (M, N, 1) for a matrix.

    >>> import wengert as wg
    >>> wg.atleast_3d(wg.tensor([1, 2])).shape
    (1, 2, 1)
    """
    return _at_least(3, arrays)


def combinations(x: Any, /, r: int = 2, with_replacement: bool = False) -> Node:
    """All combinations of `r` elements of a vector, one in each row; with replacement an element may repeat.

    >>> import wengert as wg
    >>> wg.combinations(wg.tensor([1, 2, 3])).tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    x = as_node(x)
    if x.ndim != 1:
        raise ShapeError(f"combinations takes a vector, not shape {x.shape}")
    if not isinstance(r, (int, np.integer)) or r < 0:
        raise ArgumentError(f"combinations: the number of elements cannot be negative: {r!r}")
    ways = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(ways(range(x.size), int(r)))
    return take(x, data(np.array(rows, np.int64).reshape(len(rows), int(r))), axis=0)


def cartesian_prod(*arrays: Any) -> Node:
    """All ways to take one element of each vector, one in each row; a single vector is returned as it is.

    >>> import wengert as wg
    >>> wg.cartesian_prod(wg.tensor([1, 2]), wg.tensor([3, 4])).tolist()
    [[1, 3], [1, 4], [2, 3], [2, 4]]
    """
    nodes = [as_node(x) for x in arrays]
    if not nodes or any(x.ndim != 1 for x in nodes):
        raise ShapeError(f"cartesian_prod takes vectors, not shapes {[x.shape for x in nodes]}")
    if len(nodes) == 1:
        return nodes[0]
    return stack([reshape(x, (-1,)) for x in meshgrid(*nodes, indexing="ij")], axis=1)


# --- differences ----------------------------------------------------------------------------------------------------


def gradient(x: Any, /, *spacing: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """The gradient by finite differences, as in NumPy: second order inside, of order `edge_order` at the ends.

    `spacing` is a distance, or the coordinates, for all axes or one for each. For several axes the result is a tuple.

    >>> import wengert as wg
    >>> wg.gradient(wg.tensor([0.0, 1.0, 4.0])).tolist()
    [1.0, 2.0, 3.0]
    """
    x = inexact(x)
    axes = tuple(range(x.ndim)) if axis is None else axis if isinstance(axis, (tuple, list)) else (axis,)
    named = [normalize_axis(a, x.ndim, "gradient") for a in axes]
    given = list(spacing) or [1.0]
    given = given * len(named) if len(given) == 1 else given
    if len(given) != len(named):
        raise ArgumentError(f"gradient: got {len(given)} spacings for {len(named)} axes")
    if edge_order not in (1, 2):
        raise ArgumentError(f"gradient: edge_order must be 1 or 2, not {edge_order!r}")
    found = tuple(_gradient_along(x, at, distance, edge_order) for at, distance in zip(named, given))
    return found[0] if len(found) == 1 else found


def _gradient_along(x: Node, axis: int, spacing: Any, edge_order: int) -> Node:
    n = x.shape[axis]
    if n <= edge_order:
        raise ShapeError(f"gradient: axis {axis} has {n} elements; edge_order {edge_order} needs {edge_order + 1}")
    steps = _steps(x, axis, spacing)

    def part(start: int, stop: int) -> Node:
        return slice_axis(x, axis, start, stop)

    def step(start: int, stop: int) -> Node:
        return slice_axis(steps, axis, start, stop)

    slopes = divide(part(1, n) - part(0, n - 1), steps)
    inner = []
    if n > 2:
        left, right = step(0, n - 2), step(1, n - 1)
        before, after = slice_axis(slopes, axis, 0, n - 2), slice_axis(slopes, axis, 1, n - 1)
        inner = [(before * right + after * left) / (left + right)]
    first, last = slice_axis(slopes, axis, 0, 1), slice_axis(slopes, axis, n - 2, n - 1)
    if edge_order == 2:
        second, before = slice_axis(slopes, axis, 1, 2), slice_axis(slopes, axis, n - 3, n - 2)
        first = first + (first - second) * (step(0, 1) / (step(0, 1) + step(1, 2)))
        last = last + (last - before) * (step(n - 2, n - 1) / (step(n - 2, n - 1) + step(n - 3, n - 2)))
    return concat([first, *inner, last], axis=axis)


def _steps(x: Node, axis: int, spacing: Any) -> Node:
    """The distances between neighbours, along an axis of as many axes as `x` has."""
    distance = beside(x, spacing)
    n, shape = x.shape[axis], [1] * x.ndim
    if distance.ndim == 0:
        shape[axis] = n - 1
        return broadcast_to(reshape(distance, (1,) * x.ndim), tuple(shape))
    if distance.shape != (n,):
        raise ShapeError(
            f"gradient: coordinates of shape {distance.shape} do not match the {n} elements along axis {axis}"
        )
    shape[axis] = n - 1
    return reshape(slice_axis(distance, 0, 1, n) - slice_axis(distance, 0, 0, n - 1), tuple(shape))
