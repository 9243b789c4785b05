"""Counting: the indices of nonzero elements, and how often numbers occur.

The size of such a result depends on the data, and is passed to these primitives. The caller has read that one number
(`api.data_dependent`), so the elements themselves stay on the device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.core.devices import HOST
from wengert.core.dtypes import HALF, INTEGER, float32, int64
from wengert.core.errors import DTypeError, ShapeError
from wengert.core.graph import Node
from wengert.ops.core import cast, data
from wengert.ops.elementwise import (
    floor_divide,
    greater_equal,
    less,
    logical_and,
    remainder,
    where,
)
from wengert.ops.factors import whole
from wengert.ops.movement import reshape
from wengert.ops.op import Op
from wengert.ops.reduce import count_nonzero


def _flat_nonzero(x: Any, size: int) -> Any:
    found = np.flatnonzero(x)[:size]
    return np.concatenate([found, np.zeros(size - len(found), np.int64)])


def _infer_flat_nonzero(x: Node, size: int) -> tuple[Any, Any]:
    if not 0 <= size <= x.size:
        raise ShapeError(f"flat_nonzero: {size} of the {x.size} elements of shape {x.shape}")
    return (size,), int64


FLAT_NONZERO = Op(
    "flat_nonzero",
    infer=_infer_flat_nonzero,
    numpy=_flat_nonzero,
    differentiable=False,
    factors=whole,
    expensive=True,
    complex=True,
    can_fail=False,
)
"""The places in memory's order of the first `size` elements that are not zero; 0 for those there are too few of."""


class Finder:
    """Finds indices eagerly, outside any recording; `wengert.runtime` fills it in."""

    places: Callable[[Node], Any] = staticmethod(lambda x: None)  # in the order of memory; None: record it


finder = Finder()


def places_of(x: Node, look: Callable[[Node], Any]) -> list[Node]:
    """The indices of the nonzero elements of `x`, along each axis. `look` returns the value of a node.

    Off the host, only their number is transferred; the elements stay on the device.
    """
    if x.device == HOST:
        array = np.asarray(look(x))
        return [data(places) for places in np.nonzero(array.astype(float32) if array.dtype in HALF else array)]
    flat = flat_places(x, look)
    if x.ndim == 1:
        return [flat]
    found, inner = [], x.size
    for size in x.shape:
        inner //= max(size, 1)
        found.append(remainder(floor_divide(flat, max(inner, 1)), max(size, 1)))
    return found


def flat_places(x: Node, look: Callable[[Node], Any]) -> Node:
    """The same as `places_of`, as one flat index in memory order."""
    array = finder.places(x)
    if array is None and x.device == HOST:
        array = np.flatnonzero(np.asarray(look(x)))
    return FLAT_NONZERO(x, size=int(look(count_nonzero(x)))) if array is None else data(array, x.device)


def _bincount(x: Any, size: int) -> Any:
    return np.bincount(x[(x >= 0) & (x < size)], minlength=size) if size else np.zeros(0, np.int64)


def _infer_bincount(x: Node, size: int) -> tuple[Any, Any]:
    if x.ndim != 1 or x.dtype not in INTEGER:
        raise DTypeError(f"bincount takes integers along one axis, not {x.dtype} of shape {x.shape}")
    return (size,), int64


def _bincount_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    """Each lane counts in a range of its own."""
    (x,), size = sources, y.attrs["size"]
    lanes = x.shape[0]
    wide = cast(x, int64)
    known = logical_and(greater_equal(wide, 0), less(wide, size))
    numbers = where(known, wide + data(size * np.arange(lanes)[:, None], x.device), -1)
    return reshape(BINCOUNT(reshape(numbers, (-1,)), size=lanes * size), (lanes, size))


BINCOUNT = Op(
    "bincount",
    infer=_infer_bincount,
    numpy=_bincount,
    differentiable=False,
    batch=_bincount_batch,
    factors=whole,
    expensive=True,
    can_fail=False,
)
"""How often each of the numbers from 0 to `size - 1` occurs; others are not counted."""
