"""A max_pool as elementwise ops, for `layout`: its input is then computed as it is read and never stored.

The maximum of a window is taken tap by tap; each tap is a strided slice of the value. Overlapping windows would compute
the value several times. Values here have channels last.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from wengert.core.dtypes import FLOATING, int32
from wengert.core.graph import Node, Shape
from wengert.ops import elementwise as e
from wengert.ops.channels_last import place_dtype
from wengert.ops.core import cast, literal
from wengert.ops.creation import iota
from wengert.ops.movement import broadcast_to, reshape, take_slice
from wengert.ops.recorders import Elementwise

MOST_TAPS = 9


def takes_in(attrs: dict[str, Any], x: Node, readers: Sequence[Node]) -> bool:
    """Whether a pool should absorb the computation of its input: nothing else reads that, and there are few taps."""
    apart = all(k <= s for k, s in zip(attrs["kernel"], attrs["stride"])) and set(attrs["dilation"]) == {1}
    plain = not any(number for pair in attrs["padding"] for number in pair) and math.prod(attrs["kernel"]) <= MOST_TAPS
    return apart and plain and len(readers) == 1 and isinstance(x.op, Elementwise) and x.dtype in FLOATING


def largest(x: Node, shape: Shape, kernel: Shape, stride: Shape) -> tuple[Node, Node]:
    """The maximum of each window, in the shape of the result, and its index in the plane.

    NaN counts as largest, and the first of equal elements wins, as in the op itself.
    """
    sizes, best, chosen = x.shape[1:-1], None, None
    for tap in itertools.product(*map(range, kernel)):
        value = take_slice(x, (0, *tap, 0), (1, *stride, 1), shape)
        place = _place(shape, sizes, stride, tap)
        if best is None or chosen is None:
            best, chosen = value, broadcast_to(place, shape)
            continue
        better = e.logical_or(e.greater(value, best), e.not_equal(value, value))
        best, chosen = e.where(better, value, best), e.where(better, place, chosen)
    assert best is not None and chosen is not None
    return best, cast(chosen, place_dtype(sizes))


def _place(shape: Shape, sizes: Shape, stride: Shape, tap: Shape) -> Node:
    """The index in its plane of each window's tap; the same for all channels."""
    total = literal(0, int32)
    for axis, (n, size, s, t) in enumerate(zip(shape[1:], sizes, stride, tap)):
        ramp = reshape(iota(n, int32), (n, *(1,) * (len(sizes) - axis)))
        total = total * literal(size, int32) + ramp * literal(s, int32) + literal(t, int32)
    return total
