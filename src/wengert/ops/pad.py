"""Padding in PyTorch's order: pairs of (before, after), the last axis first. All of it is movement.

constant   a number around; a negative pair crops          replicate  the element at the edge again and again
reflect    the elements behind the edge, mirrored          circular   the elements of the other end
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wengert.core.dtypes import bool_
from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.core.graph import Node
from wengert.ops.core import as_node, cast, literal, operand
from wengert.ops.elementwise import where
from wengert.ops.movement import broadcast_to, concat, flip, place, slice_axis, take_slice


def _pairs(x: Node, pad: Any) -> list[tuple[int, int]]:
    """One pair for each axis of `x`, in the order of its axes."""
    try:
        counts = [int(n.__index__()) for n in pad]
    except (AttributeError, TypeError):
        raise DTypeError(
            f"pad: the padding must be a tuple of integers, (before, after) an axis, not {pad!r}"
        ) from None
    if len(counts) % 2 or len(counts) > 2 * x.ndim:
        raise ArgumentError(
            f"pad: got {len(counts)} numbers for a value of shape {x.shape}; give two for each axis, the last axis "
            "first"
        )
    given = list(zip(counts[::2], counts[1::2]))
    pairs = [(0, 0)] * (x.ndim - len(given)) + given[::-1]
    for axis, (size, (before, after)) in enumerate(zip(x.shape, pairs)):
        if min(before, 0) + min(after, 0) + size < 0:
            raise ShapeError(f"pad: ({before}, {after}) crops more from axis {axis} than its {size} elements")
    return pairs


def _cropped(x: Node, pairs: list[tuple[int, int]]) -> Node:
    """`x` without what the negative paddings take away."""
    starts = tuple(max(0, -before) for before, _ in pairs)
    sizes = tuple(n + min(0, before) + min(0, after) for n, (before, after) in zip(x.shape, pairs))
    return take_slice(x, starts, (1,) * x.ndim, sizes)


def _with_constant(x: Node, pairs: list[tuple[int, int]], value: Any) -> Node:
    shape = tuple(n + max(0, before) + max(0, after) for n, (before, after) in zip(x.shape, pairs))
    starts, steps = tuple(max(0, before) for before, _ in pairs), (1,) * x.ndim
    laid = place(x, shape, starts, steps)
    if shape == x.shape or (isinstance(value, (int, float)) and value == 0):
        return laid
    inside = place(broadcast_to(literal(True, bool_, x.device), x.shape), shape, starts, steps)
    return where(inside, laid, cast(operand(value, x.dtype, x.device), x.dtype))


def _mirrored(x: Node, axis: int, before: int, after: int) -> list[Node]:
    size = x.shape[axis]
    if max(before, after) >= size:
        raise ShapeError(
            f'pad: ({before}, {after}) with mode "reflect" on axis {axis} of {size} elements: '
            f"at most {max(0, size - 1)} elements can be reflected"
        )
    head = flip(slice_axis(x, axis, 1, before + 1), axis=axis)
    return [head, x, flip(slice_axis(x, axis, size - 1 - after, size - 1), axis=axis)]


def _repeated(x: Node, axis: int, before: int, after: int) -> list[Node]:
    size = x.shape[axis]
    if not size:
        raise ShapeError(f'pad: axis {axis} of shape {x.shape} has no edge to repeat with mode "replicate"')
    first, last = slice_axis(x, axis, 0, 1), slice_axis(x, axis, size - 1, size)

    def times(part: Node, count: int) -> Node:
        return broadcast_to(part, (*x.shape[:axis], count, *x.shape[axis + 1 :]))

    return [times(first, before), x, times(last, after)]


def _wrapped(x: Node, axis: int, before: int, after: int) -> list[Node]:
    size = x.shape[axis]
    if max(before, after) > size:
        raise ShapeError(
            f'pad: ({before}, {after}) with mode "circular" wraps around axis {axis} of {size} more than once'
        )
    return [slice_axis(x, axis, size - before, size), x, slice_axis(x, axis, 0, after)]


_BY_COPY: dict[str, Callable[[Node, int, int, int], list[Node]]] = {
    "reflect": _mirrored,
    "replicate": _repeated,
    "circular": _wrapped,
}


def pad(x: Any, pad: Any, mode: str = "constant", value: Any = 0) -> Node:
    """`x` with padding around it: `pad` has (before, after) for the last axis, then for the one before it, ...

    `mode` is "constant" (with `value`), "reflect", "replicate" or "circular". A negative number crops.

    >>> import wengert as wg
    >>> wg.pad(wg.tensor([1, 2, 3]), (2, 1), mode="reflect").tolist()
    [3, 2, 1, 2, 3, 2]
    """
    x = as_node(x)
    pairs = _pairs(x, pad)
    cropped = _cropped(x, pairs)
    if mode == "constant":
        return _with_constant(cropped, pairs, 0 if value is None else value)
    if mode not in _BY_COPY:
        raise ArgumentError(f'pad: mode must be "constant", "reflect", "replicate" or "circular", not {mode!r}')
    for axis, (before, after) in enumerate(pairs):
        if before > 0 or after > 0:
            cropped = concat(_BY_COPY[mode](cropped, axis, max(0, before), max(0, after)), axis=axis)
    return cropped
