"""Probes: for every rule of `simplify` and every graph pass, the cases on which it is tested."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from wengert.autodiff.checkpoint import checkpoint
from wengert.core.dtypes import bfloat16, bool_, complex64, float16, float32, float64, int8, int32, int64, uint8
from wengert.core.graph import Node, Shape
from wengert.ops import elementwise as e
from wengert.ops import movement as m
from wengert.ops.addressing import ADD_ALONG, TAKE_ALONG
from wengert.ops.attention import ATTENTION
from wengert.ops.conv import conv2d
from wengert.ops.core import ALIAS, cast, literal
from wengert.ops.linalg import MATMUL
from wengert.ops.op import PACK, PICK
from wengert.ops.reduce import ALL, ANY, MAX, MIN, PROD, SUM
from wengert.runtime.certificate import cases as c
from wengert.runtime.certificate.cases import Cases
from wengert.runtime.certificate.collective_probes import COLLECTIVES
from wengert.runtime.certificate.loop_probes import LOOPS
from wengert.tensor import Tensor

Record = Callable[[Node], Any]


def _number(value: Any, like: Node) -> Node:
    return literal(value, like.dtype, like.device)


def _wide(x: Node, value: Any) -> Node:
    """A number in the shape of a value."""
    return m.broadcast_to(_number(value, x), x.shape)


# --- elementwise ----------------------------------------------------------------------------------------------------


def _with_numbers(op: Any, numbers: Iterable[Any], dtypes: Any = c.NUMBERS) -> list[Cases]:
    """An op of a value and each number, either way round."""
    found = []
    for number in numbers:
        found.append(c.elements(lambda x, n=number: op(x, _wide(x, n)), 1, dtypes))
        found.append(c.elements(lambda x, n=number: op(_wide(x, n), x), 1, dtypes))
    return found


def _by(number: float) -> Callable[[Node], Node]:
    return lambda x: e.divide(x, _wide(x, number))


def _power(number: float) -> Callable[[Node], Node]:
    return lambda x: e.power(x, _wide(x, number))


SIMPLIFY: dict[str, list[Cases]] = {
    "fold": [
        *[
            c.elements(lambda x, op=op: op(x, op(_wide(x, 3), _wide(x, 5))), 1)
            for op in (e.add, e.multiply, e.subtract)
        ],
        c.elements(lambda x: e.add(x, e.exp(_wide(x, 0.3))), 1, c.FLOATS),
    ],
    "broadcast_by_itself": [c.elements(lambda x, y: e.add(m.broadcast_to(_number(2, x), x.shape), y), 2)],
    "add_zero": _with_numbers(e.add, (0, -0.0), c.FLOATS)
    + _with_numbers(e.add, (0,), (int8, int32, int64))
    + [
        c.elements(lambda x: e.add(e.exp(x), _wide(x, 0.0)), 1, c.FLOATS),
        c.elements(lambda x: e.add(e.square(x), _wide(x, 0.0)), 1, c.FLOATS),
    ],
    "add_negative": [c.elements(lambda x, y: e.add(x, -y), 2), c.elements(lambda x, y: e.add(-x, y), 2)],
    "subtract_zero": _with_numbers(e.subtract, (0.0, -0.0), c.FLOATS) + _with_numbers(e.subtract, (0,), (int8, int64)),
    "subtract_negative": [c.elements(lambda x, y: e.subtract(x, -y), 2)],
    "negative_negative": [
        c.elements(lambda x: e.negative(e.negative(x))),
        *[c.elements(lambda x, n=n: -(x * _wide(x, n)), 1, c.FLOATS) for n in (0.3, -2.0, 0.0, -0.0, float("inf"))],
    ],
    "multiply_one": _with_numbers(e.multiply, (1,)) + _with_numbers(e.multiply, (-1,), (*c.FLOATS, int8, int32)),
    "multiply_negatives": [c.elements(lambda x, y: (-x) * (-y), 2)],
    "multiply_itself": [c.elements(lambda x: x * x)],
    "divide_number": [c.elements(_by(n), 1, c.FLOATS) for n in (1.0, -1.0, 2.0, -4.0, 0.125, 3.0, 1024.0)],
    "multiply_finite": [
        *[c.elements(lambda x, n=n: e.safe_multiply(x, _wide(x, n)), 1, c.FLOATS) for n in (0.0, 2.5, -1e-3)],
        *[c.elements(lambda x, n=n: e.safe_multiply(_wide(x, n), x), 1, c.FLOATS) for n in (0.0, 2.5, -1e-3)],
    ],
    "power_number": [c.drawn(_power(n), [(64,)]) for n in (0.0, 1.0, 2.0, 3.0, 4.0, -1.0)]
    + [c.elements(_power(n), 1, (float16, bfloat16)) for n in (0.0, 1.0)],
    "square_of_sign": [
        c.elements(lambda x, f=f, g=g: f(g(x))) for f in (e.square, e.absolute) for g in (e.negative, e.absolute)
    ],
    "same_value": [c.elements(lambda x: e.positive(x)), c.elements(lambda x: e.add(ALIAS(x), x))],
    "same_if_real": [c.elements(lambda x, op=op: op(x), 1, c.FLOATS) for op in (e.conj, e.real)],
    "same_twice": [
        *[c.elements(lambda x, op=op: op(x, x)) for op in (e.maximum, e.minimum)],
        *[c.elements(lambda x, op=op: op(x, x), 1, (bool_,)) for op in (e.logical_and, e.logical_or)],
    ],
    "where_known": [
        *[c.elements(lambda x, y, b=b: e.where(_truth(x, b), x, y), 2) for b in (False, True)],
        c.chosen(lambda p, x: e.where(p, x, x), 1),
    ],
    "where_not": [c.chosen(lambda p, x, y: e.where(e.logical_not(p), x, y), 2)],
    "where_where": [
        c.chosen(lambda p, x, y: e.where(p, e.where(p, x, y), e.where(p, y, x)), 2),
        c.chosen(lambda p, x, y: e.where(p, y, e.where(p, y, x)), 2),
    ],
    "not_not": [c.elements(lambda x: e.logical_not(e.logical_not(x)), 1, (bool_,))],
    "logic_known": [
        c.elements(lambda x, op=op, b=b: op(x, _truth(x, b)), 1, (bool_,))
        for op in (e.logical_and, e.logical_or)
        for b in (False, True)
    ],
    "cast_of_cast": [
        c.elements(lambda x, a=a, b=b: cast(cast(x, a), b), 1, c.ANY)
        for a, b in itertools.product((float32, float64, int32, int64), (*c.FLOATS, int32, uint8, bool_, complex64))
    ],
}
"""The rules of elementwise ops."""


def _truth(x: Node, value: bool) -> Node:
    return m.broadcast_to(literal(value, bool_, x.device), x.shape)


# --- movement -------------------------------------------------------------------------------------------------------


def _twice(op: Callable[..., Node], first: Any, last: Any) -> Record:
    """An op applied twice."""
    return lambda x: op(op(x, first), last)


def _flipped(x: Node, axes: Shape) -> Node:
    return m.flip(x, axis=axes)


def _reshapes(shape: Shape) -> Iterator[Record]:
    size = _size(shape)
    for first, last in itertools.product(((size,), (1, size), (*shape, 1)), (shape, (size, 1), (size,))):
        yield _twice(m.reshape, first, last)
    for axis in range(len(shape)):
        yield partial(_without_kept, axis=axis)


def _without_kept(x: Node, axis: int) -> Node:
    """A sum that keeps its axis, in the shape of one that does not."""
    total = SUM(x, axes=(axis,), keepdims=True)
    return m.reshape(total, (*x.shape[:axis], *x.shape[axis + 1 :]))


def _permutes(shape: Shape) -> Iterator[Record]:
    orders = list(itertools.permutations(range(len(shape))))
    for first, last in itertools.product(orders, orders):
        yield _twice(m.permute_dims, first, last)


def _broadcasts(shape: Shape) -> Iterator[Record]:
    once = tuple(3 if n == 1 else n for n in shape)
    for first, last in (((2, *shape), (4, 2, *shape)), (once, (2, *once)), ((1, *shape), (1, 1, *shape))):
        yield _twice(m.broadcast_to, first, last)
    yield lambda x: m.broadcast_to(m.reshape(x, (1, *shape)), (3, *shape))


def _slices(shape: Shape) -> Iterator[Record]:
    for first, step in itertools.product((0, 1), (1, 2)):
        starts = tuple(min(first, n - 1) for n in shape)
        yield partial(_cut_twice, starts=starts, step=step)
        yield partial(_cut_out, starts=starts)


def _cut_twice(x: Node, starts: Shape, step: int) -> Node:
    """Every step-th element from some place on, and of these the last ones."""
    sizes = tuple(-(-(n - start) // step) for n, start in zip(x.shape, starts))
    inner = tuple(max(n - 1, 1) for n in sizes)
    begin = tuple(n - i for n, i in zip(sizes, inner))
    return m.take_slice(m.take_slice(x, starts, (step,) * x.ndim, sizes), begin, (1,) * x.ndim, inner)


def _cut_out(x: Node, starts: Shape) -> Node:
    """A slice of exactly what was placed into zeros."""
    return m.take_slice(_placed(x, starts), starts, (1,) * x.ndim, x.shape)


def _placed(x: Node, starts: Shape, step: int = 1) -> Node:
    room = tuple(s + (n - 1) * step + 2 for s, n in zip(starts, x.shape))
    return m.place(x, room, starts, (step,) * x.ndim)


def _places(shape: Shape) -> Iterator[Record]:
    for a, b, step in itertools.product((0, 1), (0, 2), (1, 2)):
        yield _twice(partial(_placed, step=step), (a,) * len(shape), (b,) * len(shape))


def _flips(shape: Shape) -> Iterator[Record]:
    sets = [axes for k in range(1, len(shape) + 1) for axes in itertools.combinations(range(len(shape)), k)]
    for first, last in itertools.product(sets, sets):
        yield _twice(_flipped, first, last)


def _concats(shape: Shape) -> Iterator[Record]:
    for axis, n in enumerate(shape):
        for at in range(n + 1):
            yield partial(_joined, axis=axis, at=at)


def _joined(x: Node, axis: int, at: int) -> Node:
    """Two neighbouring parts, joined again."""
    return m.CONCAT(m.slice_axis(x, axis, 0, at), m.slice_axis(x, axis, at, x.shape[axis]), axis=axis)


def _size(shape: Shape) -> int:
    size = 1
    for n in shape:
        size *= n
    return size


MOVEMENT: dict[str, list[Cases]] = {
    "reshape_again": [c.moved(_reshapes)],
    "permute_again": [c.moved(_permutes)],
    "broadcast_again": [c.moved(_broadcasts)],
    "slice_again": [c.moved(_slices)],
    "place_again": [c.moved(_places)],
    "flip_again": [c.moved(_flips)],
    "concat_of_parts": [c.moved(_concats)],
    "pick_packed": [c.elements(lambda x, y, i=i: PICK(PACK(x, y), index=i), 2, (float32, int8)) for i in (0, 1)],
}
"""The rules of movement."""


# --- reductions -----------------------------------------------------------------------------------------------------


def _reduced(op: Any, axes: Shape, keepdims: bool = False) -> Record:
    return lambda x: op(x, axes=axes, keepdims=keepdims)


def _reduced_twice(op: Any, keeps: bool) -> Record:
    return lambda x: op(op(x, axes=(0,), keepdims=keeps), axes=(0,), keepdims=False)


def _repeated(op: Any, axes: Shape) -> Record:
    return lambda x: op(m.broadcast_to(x, (7, *x.shape)), axes=axes, keepdims=False)


def _ones(x: Node) -> Node:
    return m.reshape(x, (x.size, 1))


def _halves(x: Node) -> Node:
    """The elements in two rows."""
    return m.reshape(m.slice_axis(x, 0, 0, x.size // 2 * 2), (2, x.size // 2))


REDUCTIONS: dict[str, list[Cases]] = {
    "reduce_little": [
        *[c.elements(lambda x, op=op: _reduced(op, (1,))(_ones(x)), 1) for op in (SUM, MAX, MIN, PROD)],
        *[c.elements(lambda x, op=op: _reduced(op, (1,))(_ones(x)), 1, c.ANY) for op in (ALL, ANY)],
        c.drawn(_reduced(SUM, (0,)), [(0, 4)]),
    ],
    "reduce_repeated": [
        c.drawn(_repeated(op, axes), [(3, 5)], [(8, 1)]) for op in (SUM, MAX, MIN) for axes in ((0,), (0, 1), (0, 2))
    ]
    + [c.elements(_repeated(op, (0,)), 1, c.WHOLE) for op in (SUM, MAX, MIN)],
    "reduce_reduced": [
        c.drawn(_reduced_twice(op, keeps), [(3, 5, 4)], [(40, 1, 3)])
        for op in (SUM, MAX, MIN, PROD)
        for keeps in (False, True)
    ],
    "sum_of_negative": [
        *[c.drawn(lambda x, a=a: SUM(-x, axes=a, keepdims=False), [(5, 9)]) for a in ((0,), (1,), (0, 1))],
        c.elements(lambda x: SUM(-_halves(x), axes=(0,), keepdims=False), 1, c.WHOLE),
    ],
}
"""The rules of reductions."""


# --- passes ---------------------------------------------------------------------------------------------------------


def _checkpointed(x: Node, y: Node) -> Any:
    first, second = checkpoint(lambda x, y: (e.sin(x) * y, x - y))(Tensor(x), Tensor(y))
    return [(first * second).node, second.node]


def _common(x: Node, y: Node) -> Any:
    sums = [SUM(x, axes=(0,), keepdims=keeps) for keeps in (True, False)]
    swapped = [op(a, b) for op in (e.subtract, e.maximum, e.less, e.divide) for a, b in ((x, y), (y, x))]
    parts = [m.slice_axis(y, 0, start, start + 2) for start in (0, 1)]
    casts = [cast(x, dtype) for dtype in (float32, float64)]
    return [e.exp(x + y) * e.exp(y + x), *sums, *swapped, *parts, *casts]


def _products(x: Node, y: Node) -> Any:
    return [MATMUL(e.sin(x), y), MATMUL(x, e.cos(y)), MATMUL(x * x, y)]


def _gathered(x: Node, index: Node) -> Any:
    rows = x - SUM(x, axes=(1,), keepdims=True)
    picked = TAKE_ALONG(rows, index, axis=1)
    laid = ADD_ALONG(_wide(x, 0.0), picked, index, axis=1)
    return [picked, laid, SUM(laid, axes=(1,), keepdims=True)]


def _dead(x: Node, y: Node) -> Any:
    """Three results of which two are picked, and an unread value."""
    e.exp(x)
    first, _, last = checkpoint(lambda x, y: (x + y, x * y, x - y))(Tensor(x), Tensor(y))
    return [first.node, last.node]


def _late(x: Node, w: Node) -> Node:
    hidden = e.sigmoid(x * _number(2, x))
    return MATMUL(e.tanh(MATMUL(hidden, w)), w) + hidden


def _signs(x: Node, w: Node) -> Node:
    """A relu, and a similar op that is not one, whose signs are read after two products."""
    hidden = x
    for number in (0, 1):
        total = hidden + e.tanh(MATMUL(hidden, w))
        below = e.less_equal(total, _number(0, x))
        kept = e.where(below, _number(number, x), total)
        hidden = e.where(below, _number(0, x), MATMUL(e.tanh(MATMUL(kept, w)), kept))
    return hidden


def _padded(x: Node, w: Node) -> Any:
    """A product, and reductions that must not see its padding."""
    product = MATMUL(x, w)
    negative = -MATMUL(e.absolute(x), e.absolute(w))
    return [product, MAX(negative, axes=(1,), keepdims=False), MIN(-negative, axes=(1,), keepdims=False)]


def _heads(qkv: Node) -> Node:
    parts = [m.slice_axis(qkv, 2, i * 12, i * 12 + 12) for i in range(3)]
    q, k, v = (cast(m.permute_dims(m.reshape(x, (2, 6, 3, 4)), (0, 2, 1, 3)), bfloat16) for x in parts)
    return m.reshape(m.permute_dims(ATTENTION(q, k, v, causal=True, scale=0.5), (0, 2, 1, 3)), (2, 6, 12))


PASSES: dict[str, list[Cases]] = {
    "inline": [c.elements(_checkpointed, 2, (float32, float64))],
    "contiguous_collectives": COLLECTIVES,
    "cse": [c.elements(_common, 2, c.FLOATS)],
    **LOOPS,
    "batch_matmul": [c.drawn(_products, [(5, 7), (7, 3)], [(4, 16), (16, 4)])],
    "transpose_matmul": [
        c.drawn(lambda x, y: m.permute_dims(MATMUL(x, y), (1, 0)), [(5, 7), (7, 3)], [(16, 64), (64, 8)])
    ],
    "gemv_to_reduction": [
        c.drawn(MATMUL, [(5, 7), (7, 1)], [(1, 33), (33, 4)], [(6, 1), (1, 5)], [(1, 64), (64, 1)]),
        c.drawn(lambda x, y: MATMUL(m.permute_dims(x, (1, 0)), y), [(7, 5), (7, 1)]),
    ],
    "attention_layout": [c.drawn(_heads, [(2, 6, 36)], dtypes=(float32,))],
    "factor": [
        c.drawn(lambda x, s: SUM(x * s, axes=(1,), keepdims=True), [(4, 9), (4, 1)], [(2, 65), (2, 1)]),
        c.drawn(lambda x, y, s: SUM(x * (y * s), axes=(1,), keepdims=False), [(4, 9), (4, 9), (4, 1)]),
        c.drawn(lambda x, s: SUM(e.divide(x, s), axes=(1,), keepdims=True), [(4, 9), (4, 1)]),
    ],
    "onehot": [c.indexed(_gathered, ((4, 9), (4, 1), 9), ((1, 2), (1, 1), 2))],
    "layout": [
        c.drawn(lambda x, w: conv2d(x, w, padding=1), [(2, 3, 6, 6), (4, 3, 3, 3)], dtypes=(bfloat16,)),
        c.drawn(
            lambda x, w: SUM(conv2d(x, w), axes=(1,), keepdims=False), [(1, 4, 6, 6), (4, 4, 3, 3)], dtypes=(float16,)
        ),
    ],
    "join_matmul": [
        c.drawn(lambda a, b, c, d: MATMUL(a, b) + MATMUL(c, d), [(1 << 15, 8), (8, 64)] * 2, dtypes=(float32,)),
        c.drawn(
            lambda a, b, c: e.tanh(MATMUL(a, b)) * MATMUL(a, c), [(1 << 14, 128), (128, 8), (128, 8)], dtypes=(float32,)
        ),
    ],
    "align": [c.drawn(_padded, [(2048, 1024), (1024, 1030)], dtypes=(bfloat16,))],
    "dce": [c.elements(_dead, 2, (float32,))],
    "remat": [c.drawn(record, [(256, 256), (256, 256)], dtypes=(float32,)) for record in (_late, _signs)],
}
"""Those of whole passes."""

PROBES: dict[tuple[str, str], list[Cases]] = {
    **{("simplify", rule): cases for rule, cases in {**SIMPLIFY, **MOVEMENT, **REDUCTIONS}.items()},
    **{(name, ""): cases for name, cases in PASSES.items()},
}
"""By pass and rule."""
