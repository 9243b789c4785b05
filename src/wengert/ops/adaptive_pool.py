"""Adaptive pooling: the largest or the mean of as many windows as are asked for, which cover the last axes evenly.

Window i of n runs from floor(i * size / n) to ceil((i + 1) * size / n). Where n divides the size they are all alike and
are pooled as any windows are, by `pool`; otherwise means are products with a matrix, and maxima are taken over windows
filled up to the size of the largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.core.errors import ShapeError
from wengert.core.graph import Node, Shape
from wengert.ops.conv import per_axis
from wengert.ops.convolve import Pairs
from wengert.ops.core import as_node, data, require_floating
from wengert.ops.gather import take
from wengert.ops.linalg import matmul
from wengert.ops.movement import matrix_transpose, moveaxis
from wengert.ops.pool import avg_pool1d, avg_pool2d, avg_pool3d, check_axes, max_pool1d, max_pool2d, max_pool3d

_AVERAGE: dict[int, Callable[..., Node]] = {1: avg_pool1d, 2: avg_pool2d, 3: avg_pool3d}
_LARGEST: dict[int, Callable[..., Any]] = {1: max_pool1d, 2: max_pool2d, 3: max_pool3d}


def _target_sizes(name: str, axes: int, x: Node, output_size: Any) -> Shape:
    sizes = x.shape[x.ndim - axes :]
    given = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * axes
    if len(given) == axes:
        given = tuple(n if want is None else want for n, want in zip(sizes, given))
    return per_axis(given, axes, name, "output_size")


def _prepared(name: str, axes: int, x: Any, output_size: Any) -> tuple[Node, Shape, Shape]:
    """The input, the sizes of its last axes, and how many windows each of them gets."""
    x = check_axes(name, axes, x)
    sizes, counts = x.shape[x.ndim - axes :], _target_sizes(name, axes, x, output_size)
    if 0 in sizes:
        raise ShapeError(f"{name}: shape {x.shape} has no elements to pool")
    return x, sizes, counts


def _even_kernel(sizes: Shape, counts: Shape) -> Shape | None:
    """The size of the windows, where they are all alike."""
    if any(size % count for size, count in zip(sizes, counts)):
        return None
    return tuple(size // count for size, count in zip(sizes, counts))


def _bounds(sizes: Shape, counts: Shape) -> list[Pairs]:
    return [
        tuple((i * size // count, -(-(i + 1) * size // count)) for i in range(count))
        for size, count in zip(sizes, counts)
    ]


# --- means ----------------------------------------------------------------------------------------------------------


def _average(name: str, axes: int, x: Any, output_size: Any) -> Node:
    require_floating(name, as_node(x))
    x, sizes, counts = _prepared(name, axes, x, output_size)
    kernel = _even_kernel(sizes, counts)
    return _uneven_mean(x, _bounds(sizes, counts)) if kernel is None else _AVERAGE[axes](x, kernel)


def _uneven_mean(x: Node, bounds: Sequence[Pairs]) -> Node:
    """Averaging along an axis is a product with a matrix."""
    for axis, pairs in zip((-1, -2, -3), reversed(bounds)):
        matrix = np.zeros((len(pairs), x.shape[axis]))
        for row, (start, stop) in zip(matrix, pairs):
            row[start:stop] = 1 / (stop - start)
        weights = data(matrix.astype(x.dtype), x.device)
        if axis == -2:
            x = matmul(weights, x)
        else:
            x = moveaxis(matmul(moveaxis(x, axis, -1), matrix_transpose(weights)), -1, axis)
    return x


def adaptive_avg_pool1d(x: Any, output_size: Any) -> Node:
    """The mean of `output_size` windows that cover the last axis.

    >>> import wengert as wg
    >>> wg.adaptive_avg_pool1d(wg.tensor([[[1.0, 2.0, 3.0, 4.0]]]), 2).tolist()
    [[[1.5, 3.5]]]
    """
    return _average("adaptive_avg_pool1d", 1, x, output_size)


def adaptive_avg_pool2d(x: Any, output_size: Any) -> Node:
    """The mean of windows that cover the last two axes, as many as `output_size` says; None keeps an axis.

    >>> import wengert as wg
    >>> wg.adaptive_avg_pool2d(wg.tensor([[[1.0, 3.0], [5.0, 7.0]]]), 1).tolist()
    [[[4.0]]]
    """
    return _average("adaptive_avg_pool2d", 2, x, output_size)


def adaptive_avg_pool3d(x: Any, output_size: Any) -> Node:
    """The mean of windows that cover the last three axes, as many as `output_size` says; None keeps an axis.

    >>> import wengert as wg
    >>> wg.adaptive_avg_pool3d(wg.ones((1, 2, 4, 4, 4)), 2).shape
    (1, 2, 2, 2, 2)
    """
    return _average("adaptive_avg_pool3d", 3, x, output_size)


# --- maxima ---------------------------------------------------------------------------------------------------------


def _maximum(name: str, axes: int, x: Any, output_size: Any, return_indices: bool) -> Any:
    x, sizes, counts = _prepared(name, axes, x, output_size)
    kernel = _even_kernel(sizes, counts)
    if kernel is not None:
        return _LARGEST[axes](x, kernel, return_indices=return_indices)
    return _uneven_max(x, sizes, _bounds(sizes, counts), return_indices)


def _uneven_max(x: Node, sizes: Shape, bounds: Sequence[Pairs], return_indices: bool) -> Any:
    """Every window filled up to the size of the largest with copies of its last element, then pooled evenly.

    The first of elements that tie is taken, which is never a copy, so its place in `x` is looked up.
    """
    axes, kernel = len(bounds), []
    numbers = np.zeros((), np.int64)  # of the elements of a plane of `x`, laid out as the filled windows are
    for axis, (size, pairs) in enumerate(zip(sizes, bounds), x.ndim - axes):
        longest = max(stop - start for start, stop in pairs)
        places = np.array([min(start + t, stop - 1) for start, stop in pairs for t in range(longest)])
        x = take(x, places, axis=axis)
        numbers = np.add.outer(numbers * size, places)
        kernel.append(longest)
    if not return_indices:
        return _LARGEST[axes](x, tuple(kernel))
    values, found = _LARGEST[axes](x, tuple(kernel), return_indices=True)
    return values, take(data(numbers.reshape(math.prod(numbers.shape)), x.device), found, axis=0)


def adaptive_max_pool1d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest element of each of `output_size` windows that cover the last axis; with `return_indices` its place.

    >>> import wengert as wg
    >>> wg.adaptive_max_pool1d(wg.tensor([[1.0, 5.0, 2.0]]), 2).tolist()
    [[5.0, 5.0]]
    """
    return _maximum("adaptive_max_pool1d", 1, x, output_size, return_indices)


def adaptive_max_pool2d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest element of each window; windows cover the last two axes, as many as `output_size` says.

    None keeps an axis. With `return_indices` also the place of each in its plane.

    >>> import wengert as wg
    >>> wg.adaptive_max_pool2d(wg.ones((1, 2, 6, 6)), (3, 2)).shape
    (1, 2, 3, 2)
    """
    return _maximum("adaptive_max_pool2d", 2, x, output_size, return_indices)


def adaptive_max_pool3d(x: Any, output_size: Any, return_indices: bool = False) -> Any:
    """The largest element of each window; windows cover the last three axes, as many as `output_size` says.

    None keeps an axis. With `return_indices` also the place of each in its volume.

    >>> import wengert as wg
    >>> wg.adaptive_max_pool3d(wg.ones((1, 2, 4, 4, 4)), 2).shape
    (1, 2, 2, 2, 2)
    """
    return _maximum("adaptive_max_pool3d", 3, x, output_size, return_indices)
