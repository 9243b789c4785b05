"""Broadcasting: the shape that shapes meet in, worked out while recording."""

from __future__ import annotations

from wengert.core.dtypes import complex128
from wengert.core.errors import ShapeError
from wengert.core.graph import Node, Shape
from wengert.ops.movement import reshape
from wengert.ops.op import check_size

_broadcasts: dict[tuple[Shape, Shape], Shape] = {}


def broadcast(a: Shape, b: Shape, name: str) -> Shape:
    """The shape two shapes broadcast to. Remembered: the same few pairs come again and again."""
    found = _broadcasts.get((a, b))
    if found is None:
        found = _broadcast(a, b, name)
        if len(_broadcasts) >= 1024:
            _broadcasts.clear()
        _broadcasts[a, b] = found
    return found


def _broadcast(a: Shape, b: Shape, name: str) -> Shape:
    rank = max(len(a), len(b))
    left, right = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    for axis, (m, n) in enumerate(zip(left, right)):
        if m != n and 1 not in (m, n):
            raise ShapeError(
                f"{name}: shapes {a} and {b} do not broadcast: axis {axis - rank} has {m} and {n} elements. "
                "From the right, sizes must be equal or one of them 1; add an axis with x[:, None] or expand_dims"
            )
    shape = tuple(n if m == 1 else m for m, n in zip(left, right))
    if shape not in (a, b):
        check_size(name, shape, complex128)  # whatever the dtype is: this is remembered for all of them
    return shape


def broadcast_shapes(name: str, *shapes: Shape) -> Shape:
    """The shape several shapes broadcast to."""
    result: Shape = ()
    for shape in shapes:
        result = broadcast(result, shape, name)
    return result


def with_rank(x: Node, rank: int) -> Node:
    """A batched operand of an op of this rank: axes of size 1 go in behind the lanes, so that the rest lines up."""
    missing = rank - (len(x.shape) - 1)
    return reshape(x, (x.shape[0], *(1,) * missing, *x.shape[1:])) if missing else x
