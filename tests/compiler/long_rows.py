"""Random reductions of mixed widths over long rows: where vectorised loops carry floats, doubles and integers at once.

    long_rows(seed) -> Sample

gcc 12 made wrong code of AVX-512 loops that add floats to doubles under a mask. So: rows as long as a vector, a block,
a part of a sum, and one more or less; several reductions of the same row in one loop, of every dtype; masks that come
from comparisons, from padding and from steps; sums in float64 of narrower numbers, positions in int64 beside them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.compiler.wide_graphs import Sample
from wengert.core.dtypes import FLOATING, bfloat16, bool_, float16, float32, float64, int8, int16, int32, int64, uint8
from wengert.core.graph import Graph, Node, now, recorded_as
from wengert.ops import elementwise as e
from wengert.ops import movement as m
from wengert.ops import reduce as r
from wengert.ops.core import cast, literal, placeholder

Pick = Callable[[Sequence[Any]], Any]
LENGTHS = [n + k for n in (8, 16, 32, 48, 64, 128, 256, 512, 1024, 4096) for k in (-1, 0, 1)] + [1, 7, 1000, 9001]
DTYPES = [bool_, int8, int16, int32, int64, uint8, float16, bfloat16, float32, float32, float64]
ALLOWED = {float64: 1e-12, float32: 1e-5, float16: 2e-3, bfloat16: 2e-2}  # of the largest number, or of 1


def long_rows(seed: int) -> Sample:
    """A graph of a few reductions of the same long rows."""
    rng = np.random.default_rng(seed)
    pick: Pick = lambda options: options[int(rng.integers(len(options)))]
    length, rows = pick(LENGTHS), pick([1, 2, 3, 5, 17])
    shape, axis = pick([((rows, length), 1), ((length, rows), 0), ((length,), 0), ((2, length, rows), 1)])
    since = now()
    with recorded_as(None, False):
        inputs = [placeholder(shape, pick(DTYPES)) for _ in range(3)]
        outputs = [_reduction(pick, inputs, axis) for _ in range(int(rng.integers(2, 6)))]
        if rng.random() < 0.3:
            outputs.append(_scaled_by_its_sum(inputs[0], axis))
    graph = Graph(inputs, outputs, since)
    arrays = [_numbers(rng, node) for node in inputs]
    with np.errstate(all="ignore"):
        expected = [np.asarray(array) for array in graph(*arrays)]
    return Sample(graph, arrays, expected, [ALLOWED.get(node.dtype, 0.0) for node in outputs])


def _numbers(rng: np.random.Generator, node: Node) -> np.ndarray:
    if node.dtype is bool_:
        return rng.random(node.shape) < 0.5
    if node.dtype in FLOATING:  # few digits, and as many above 0 as below: sums are exact enough in any order
        return (rng.integers(-64, 65, node.shape) / 32).astype(node.dtype)
    return rng.integers(0 if node.dtype is uint8 else -9, 10, node.shape, dtype=node.dtype)


def _reduction(pick: Pick, inputs: list[Node], axis: int) -> Node:
    value = _masked(pick, _element(pick, inputs), inputs)
    name = pick(["sum", "sum", "sum", "mean", "max", "min", "argmax", "argmin", "any", "all", "count"])
    if name == "count":
        return r.sum(cast(_positive(value), pick([int64, int32, float32, float64])), axis)
    if name in ("any", "all"):
        return {"any": r.any, "all": r.all}[name](_positive(value), axis)
    if name in ("sum", "mean"):
        return {"sum": r.sum, "mean": r.mean}[name](cast(value, pick([float32, float64])), axis)
    value = cast(value, uint8) if value.dtype is bool_ else value
    return {"max": r.max, "min": r.min, "argmax": r.argmax, "argmin": r.argmin}[name](value, axis)


def _positive(value: Node) -> Node:
    return value if value.dtype is bool_ else e.greater(value, literal(0, value.dtype))


def _element(pick: Pick, inputs: list[Node]) -> Node:
    """An element that is reduced: a number, or one made of two numbers of other dtypes."""
    a, b = pick(inputs), pick(inputs)
    both = pick([float32, float32, float64])
    return pick([a, a, e.multiply(cast(a, both), cast(b, both)), e.add(cast(a, both), cast(b, both))])


def _masked(pick: Pick, value: Node, inputs: list[Node]) -> Node:
    """The value where a condition holds, and 0 (which padding lays around it) elsewhere."""
    way, ones, rank = pick(["all", "where", "moved on", "spread"]), (1,) * value.ndim, value.ndim
    if way == "where":
        return e.where(_positive(pick(inputs)), value, literal(pick([0, 1]), value.dtype))
    if way == "moved on":
        wide = m.place(value, tuple(n + 2 for n in value.shape), (2,) * rank, ones)
        return m.take_slice(wide, (0,) * rank, ones, value.shape)
    if way == "spread":
        half = m.take_slice(value, (0,) * rank, (2,) * rank, tuple(-(-n // 2) for n in value.shape))
        return m.place(half, value.shape, (0,) * rank, (2,) * rank)
    return value


def _scaled_by_its_sum(x: Node, axis: int) -> Node:
    """A pass over the row after the one that sums it."""
    total = r.sum(cast(x, float64), axis, keepdims=True)
    return e.multiply(cast(x, float32), cast(e.tanh(total), float32))
