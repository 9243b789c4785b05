"""Rearranging: rolling, repeating, tiling, turning and splitting, all made of movement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wengert.core.errors import AbstractValueError, ArgumentError, DTypeError, ShapeError
from wengert.core.graph import Node
from wengert.ops.addressing import GATHER
from wengert.ops.core import as_node, data
from wengert.ops.movement import (
    as_shape,
    broadcast_to,
    concat,
    flip,
    normalize_axis,
    reshape,
    slice_axis,
    swapaxes,
)
from wengert.ops.op import check_size


def roll(x: Any, /, shift: Any, axis: Any = None) -> Node:
    """`x` with its elements moved along some axes; what leaves at the end comes in at the front.

    Without an axis the elements of the flattened `x` move.

    >>> import wengert as wg
    >>> wg.roll(wg.tensor([1, 2, 3]), 1).tolist()
    [3, 1, 2]
    """
    x = as_node(x)
    if axis is None:
        if isinstance(shift, (tuple, list)) and len(shift) != 1:
            raise ArgumentError(f"roll: {len(shift)} shifts and no axis; name one axis for each with axis=(...)")
        return reshape(_rolled(reshape(x, (-1,)), as_shape(shift, "roll")[0], 0), x.shape)
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    shifts = as_shape(shift, "roll")
    shifts = shifts * len(axes) if len(shifts) == 1 else shifts
    if len(shifts) != len(axes):
        raise ArgumentError(f"roll: {len(shifts)} shifts for {len(axes)} axes")
    for amount, at in zip(shifts, axes):
        x = _rolled(x, amount, normalize_axis(at, x.ndim, "roll"))
    return x


def _rolled(x: Node, shift: int, axis: int) -> Node:
    n = x.shape[axis]
    cut = -shift % n if n else 0
    return concat([slice_axis(x, axis, cut, n), slice_axis(x, axis, 0, cut)], axis=axis) if cut else x


def repeat(x: Any, repeats: Any, /, axis: int | None = None) -> Node:
    """`x` with each element repeated along an axis; of the flattened `x` without one.

    `repeats` is a number, or one for each element along the axis, known while recording.

    >>> import wengert as wg
    >>> wg.repeat(wg.tensor([1, 2]), 2).tolist(), wg.repeat(wg.tensor([1, 2]), [1, 3]).tolist()
    ([1, 1, 2, 2], [1, 2, 2, 2])
    """
    x = as_node(x)
    if axis is None:
        x, axis = reshape(x, (-1,)), 0
    at = normalize_axis(axis, x.ndim, "repeat")
    counts = _counts(repeats)
    n = x.shape[at]
    if counts.size == 1:
        times, before, behind = int(counts.reshape(())), x.shape[:at], x.shape[at + 1 :]
        copies = broadcast_to(reshape(x, (*before, n, 1, *behind)), (*before, n, times, *behind))
        return reshape(copies, (*before, n * times, *behind))
    if counts.shape != (n,):
        raise ShapeError(f"repeat: repeats of shape {counts.shape} for the {n} elements along axis {at}")
    check_size("repeat", (*x.shape[:at], sum(map(int, counts)), *x.shape[at + 1 :]), x.dtype)
    return GATHER(x, data(np.repeat(np.arange(n), counts), x.device), axis=at)


def _counts(repeats: Any) -> Any:
    if type(repeats) is Node:
        if not isinstance(repeats.buffer, np.ndarray):
            raise AbstractValueError("repeat: repeats set the shape of the result, and their value is not known here")
        repeats = repeats.buffer
    counts = np.asarray(repeats)
    if counts.dtype.kind not in "iu" and counts.size:
        raise DTypeError(f"repeat: repeats are integers, not {counts.dtype}")
    if counts.size and counts.min() < 0:
        raise ArgumentError(f"repeat: repeats are not negative, {counts.min()} is")
    return counts.astype(np.int64)


def tile(x: Any, repetitions: Any, /) -> Node:
    """Copies of `x` side by side, this many along each axis; counted from the last axis if the numbers differ.

    >>> import wengert as wg
    >>> wg.tile(wg.tensor([1, 2]), (2, 2)).tolist()
    [[1, 2, 1, 2], [1, 2, 1, 2]]
    """
    x = as_node(x)
    times = as_shape(repetitions, "tile")
    if any(n < 0 for n in times):
        raise ArgumentError(f"tile: repetitions are not negative: {times}")
    rank = max(x.ndim, len(times))
    times = (1,) * (rank - len(times)) + times
    sizes = (1,) * (rank - x.ndim) + x.shape
    apart = reshape(x, tuple(size for n in sizes for size in (1, n)))
    copies = broadcast_to(apart, tuple(size for pair in zip(times, sizes) for size in pair))
    return reshape(copies, tuple(t * n for t, n in zip(times, sizes)))


def rot90(x: Any, k: int = 1, axes: Sequence[int] = (0, 1)) -> Node:
    """`x` turned by 90 degrees `k` times in the plane of two axes, from the first towards the second."""
    x = as_node(x)
    if len(axes) != 2:
        raise ArgumentError(f"rot90 turns in the plane of two axes, not of {tuple(axes)}")
    first, second = (normalize_axis(a, x.ndim, "rot90") for a in axes)
    if first == second:
        raise ArgumentError(f"rot90: the axes {tuple(axes)} are one and the same")
    turns = k % 4
    if turns == 2:
        return flip(x, axis=(first, second))
    if turns == 1:
        return swapaxes(flip(x, axis=second), first, second)
    return flip(swapaxes(x, first, second), axis=second) if turns == 3 else x


def split(x: Any, split_size_or_sections: Any, axis: int = 0) -> tuple[Node, ...]:
    """Parts of `x` along an axis: of one size (the last may be smaller), or of the sizes in a list.

    >>> import wengert as wg
    >>> [part.tolist() for part in wg.split(wg.tensor([1, 2, 3]), 2)]
    [[1, 2], [3]]
    """
    x = as_node(x)
    at = normalize_axis(axis, x.ndim, "split")
    n = x.shape[at]
    sizes = as_shape(split_size_or_sections, "split")
    if not isinstance(split_size_or_sections, (tuple, list)):
        size = sizes[0]
        if size < 1:
            raise ArgumentError(f"split: a part has at least one element, not {size}")
        sizes = (size,) * (n // size) + ((n % size,) if n % size or not n else ())
    if any(size < 0 for size in sizes) or sum(sizes) != n:
        raise ShapeError(f"split: the sizes {sizes} do not add up to the {n} elements along axis {at}")
    parts, start = [], 0
    for size in sizes:
        parts.append(slice_axis(x, at, start, start + size))
        start += size
    return tuple(parts)


def chunk(x: Any, chunks: int, axis: int = 0) -> tuple[Node, ...]:
    """At most this many parts of `x` along an axis, all of one size but the last."""
    x = as_node(x)
    if not isinstance(chunks, (int, np.integer)) or chunks < 1:
        raise ArgumentError(f"chunk: the number of parts is positive, not {chunks!r}")
    n = x.shape[normalize_axis(axis, x.ndim, "chunk")]
    return split(x, max(1, -(-n // int(chunks))), axis=axis)
