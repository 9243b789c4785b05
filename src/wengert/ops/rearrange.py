"""Rearranging: rolling, repeating, tiling, turning and splitting, all made of movement."""

from __future__ import annotations

import itertools
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
    """`x` turned by 90 degrees `k` times in the plane of two axes, from the first towards the second.

    >>> import wengert as wg
    >>> wg.rot90(wg.tensor([[1, 2], [3, 4]])).tolist()
    [[2, 4], [1, 3]]
    """
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
    """At most this many parts of `x` along an axis, all of one size but the last.

    >>> import wengert as wg
    >>> [part.tolist() for part in wg.chunk(wg.arange(5), 2)]
    [[0, 1, 2], [3, 4]]
    """
    x = as_node(x)
    if not isinstance(chunks, (int, np.integer)) or chunks < 1:
        raise ArgumentError(f"chunk: the number of parts is positive, not {chunks!r}")
    n = x.shape[normalize_axis(axis, x.ndim, "chunk")]
    return split(x, max(1, -(-n // int(chunks))), axis=axis)


def tensor_split(x: Any, indices_or_sections: Any, axis: int = 0) -> tuple[Node, ...]:
    """So many parts of `x` along an axis, as equal in size as can be; or the parts between these indices.

    >>> import wengert as wg
    >>> [part.tolist() for part in wg.tensor_split(wg.tensor([1, 2, 3]), 2)]
    [[1, 2], [3]]
    >>> [part.tolist() for part in wg.tensor_split(wg.tensor([1, 2, 3]), [1])]
    [[1], [2, 3]]
    """
    x = as_node(x)
    at = normalize_axis(axis, x.ndim, "tensor_split")
    n = x.shape[at]
    if isinstance(indices_or_sections, (list, tuple)):
        bounds = [0, *indices_or_sections, n]
        spans = [slice(a, b).indices(n)[:2] for a, b in itertools.pairwise(bounds)]
        return tuple(slice_axis(x, at, start, max(start, stop)) for start, stop in spans)
    count = as_shape(indices_or_sections, "tensor_split")[0]
    if count < 1:
        raise ArgumentError(f"tensor_split: the number of parts is positive, not {count}")
    return split(x, [n // count + (i < n % count) for i in range(count)], axis=at)


def _even_split(name: str, x: Node, indices_or_sections: Any, axis: int) -> tuple[Node, ...]:
    if not isinstance(indices_or_sections, (list, tuple)) and x.shape[axis] % indices_or_sections:
        raise ShapeError(
            f"{name}: axis {axis} of shape {x.shape} does not divide into {indices_or_sections} equal parts"
        )
    return tensor_split(x, indices_or_sections, axis=axis)


def hsplit(x: Any, indices_or_sections: Any, /) -> tuple[Node, ...]:
    """Parts of `x` side by side: along the second axis, of a vector along its only one.

    >>> import wengert as wg
    >>> [part.tolist() for part in wg.hsplit(wg.tensor([[1, 2], [3, 4]]), 2)]
    [[[1], [3]], [[2], [4]]]
    """
    x = as_node(x)
    if x.ndim == 0:
        raise ShapeError("hsplit takes at least one axis; this is a single number")
    return _even_split("hsplit", x, indices_or_sections, min(1, x.ndim - 1))


def vsplit(x: Any, indices_or_sections: Any, /) -> tuple[Node, ...]:
    """Parts of `x` below each other: along the first of at least two axes.

    >>> import wengert as wg
    >>> [part.tolist() for part in wg.vsplit(wg.tensor([[1, 2], [3, 4]]), 2)]
    [[[1, 2]], [[3, 4]]]
    """
    x = as_node(x)
    if x.ndim < 2:
        raise ShapeError(f"vsplit takes at least two axes; the shape is {x.shape}")
    return _even_split("vsplit", x, indices_or_sections, 0)


def hstack(arrays: Sequence[Any], /) -> Node:
    """The values side by side: along the second axis, vectors along their only one.

    >>> import wengert as wg
    >>> wg.hstack([wg.tensor([1, 2]), wg.tensor([3])]).tolist()
    [1, 2, 3]
    """
    nodes = [x if x.ndim else reshape(x, (1,)) for x in map(as_node, arrays)]
    return concat(nodes, axis=min(1, nodes[0].ndim - 1) if nodes else 0)


def vstack(arrays: Sequence[Any], /) -> Node:
    """The values below each other: along the first axis, a vector as a row.

    >>> import wengert as wg
    >>> wg.vstack([wg.tensor([1, 2]), wg.tensor([3, 4])]).tolist()
    [[1, 2], [3, 4]]
    """
    return concat([x if x.ndim > 1 else reshape(x, (1, -1)) for x in map(as_node, arrays)])


def dstack(arrays: Sequence[Any], /) -> Node:
    """The values behind each other: along the third axis, a vector as a row, a matrix as one layer.

    >>> import wengert as wg
    >>> wg.dstack([wg.tensor([1, 2]), wg.tensor([3, 4])]).tolist()
    [[[1, 3], [2, 4]]]
    """
    nodes = [x if x.ndim > 1 else reshape(x, (1, -1)) for x in map(as_node, arrays)]
    return concat([x if x.ndim > 2 else reshape(x, (*x.shape, 1)) for x in nodes], axis=2)
