"""Kernels with sizes as arguments: right over shapes, axes and dtypes, by one text for an op and its dtypes."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.kernels.emulator import Emulator, compiler
from tests.kernels.headers import pasted
from tests.kernels.test_addressing_cuda import CASES as ADDRESSED
from wengert.core.dtypes import ALL, COMPLEX, bfloat16, bool_, float16, float32, float64, int32, int64, uint8, uint64
from wengert.core.graph import Node
from wengert.kernels import prebuilt
from wengert.kernels.launch import H200, RTX_2080, Launch, LaunchList
from wengert.kernels.space import Access, Space, _divisor, space
from wengert.kernels.writer import ERROR
from wengert.ops import elementwise, movement, reduce
from wengert.ops.addressing import GATHER, SCATTER_ADD, TAKE_ALONG
from wengert.ops.core import cast, data, literal, placeholder
from wengert.ops.creation import iota
from wengert.ops.linalg import matmul
from wengert.ops.random import random_bits
from wengert.ops.running import CUMSUM

Array = np.ndarray[Any, Any]


def array(dtype: Any, *shape: int) -> Node:
    """A node with numbers of its own in it."""
    rng = np.random.default_rng(zlib.crc32(f"{dtype}{shape}".encode()))
    values = rng.integers(0, 2, shape) if dtype is bool_ else rng.integers(1 if dtype.kind == "u" else -9, 9, shape)
    return data(np.asarray(values, dtype) if dtype.kind in "biu" else np.asarray(values * 0.37, dtype))


def elements() -> list[Node]:
    """Elementwise ops over shapes that do and do not divide into vectors, broadcast every way."""
    found: list[Node] = []
    for shape in ((), (1,), (7,), (64,), (515,), (3, 8), (5, 7), (2, 3, 4), (2, 1, 3, 1, 2)):
        x, y = array(float32, *shape), array(float32, *shape)
        found += [elementwise.add(x, y), elementwise.multiply(x, literal(2.5, float32)), elementwise.exp(x)]
    rows, column, row = array(float32, 6, 8), array(float32, 6, 1), array(float32, 8)
    found += [elementwise.add(rows, other) for other in (column, row)] + [elementwise.add(column, row)]
    numbers = [array(dtype, 3, 13) for dtype in (bfloat16, float16, float64, int32, uint8, uint64)]
    found += [elementwise.maximum(x, x) for x in numbers] + [elementwise.multiply(x, x) for x in numbers]
    mask = elementwise.less(rows, row)
    return [
        *found,
        elementwise.where(array(bool_, 6, 1), rows, column),
        elementwise.where(mask.op(rows, row), row, rows),
    ]


def casts() -> list[Node]:
    """Every dtype from and to float32 and bfloat16, in lengths with a rest."""
    real = [dtype for dtype in ALL if dtype not in COMPLEX]
    to = [cast(array(dtype, 3, 13), other) for dtype in real for other in (float32, bfloat16) if dtype is not other]
    return [*to, *[cast(array(float32, 3, 13), dtype) for dtype in real if dtype is not float32]]


def moves() -> list[Node]:
    """Transposes small and tiled, slices, flips, broadcasts, padding, joining; elements of 1 to 16 bytes."""
    found: list[Node] = []
    for dtype in (uint8, float16, float32, float64, wg.complex128):
        x = data(np.arange(2 * 35 * 18).reshape(2, 35, 18).astype(dtype))
        found += [movement.permute_dims(x, axes) for axes in ((2, 1, 0), (0, 2, 1), (1, 0, 2))]
        even = data(np.arange(2 * 36 * 3 * 68).reshape(2, 36, 3, 68).astype(dtype))
        found += [movement.permute_dims(even, axes) for axes in ((2, 0, 3, 1), (3, 2, 0, 1), (0, 3, 1, 2))]
        found += [movement.flip(x, axis=1), movement.flip(x), movement.take_slice(x, (1, 2, 0), (1, 3, 2), (1, 9, 9))]
        found += [movement.place(x, (2, 80, 20), (0, 1, 2), (1, 2, 1)), movement.concat([x, x, x], axis=1)]
        found += [movement.broadcast_to(data(np.asarray([[3], [4]]).astype(dtype)), (5, 2, 7))]
    return [
        *found,
        movement.broadcast_to(literal(3.0, float32), (4, 5)),
        movement.take_slice(x, (0, 0, 0), (1, 1, 1), (0, 2, 2)),
    ]


def totals() -> list[Node]:
    """Reductions over any axes, of rows along memory and across it, short, shared by blocks, and of nothing."""
    shapes: list[tuple[tuple[int, ...], Any]] = [((4, 6), 0), ((4, 6), 1), ((4, 6), None), ((3, 5, 7), (0, 2))]
    shapes += [((3, 5, 7), 1), ((2, 3, 4, 5), (1, 3)), ((8, 16), 0), ((1, 1), None), ((300, 32), 0), ((2, 3000), 1)]
    shapes += [((120_000,), 0), ((9000, 8), 0), ((3000, 3), 0)]
    found = [reduce.sum(array(float32, *shape), axis=axis) for shape, axis in shapes]
    found += [reduce.argmax(array(float32, *shape), axis=1) for shape in ((4, 6), (2, 3000), (3, 5, 8))]
    found += [reduce.argmin(array(float32, 9000, 8), axis=0), reduce.sum(array(float32, 0, 3), axis=0)]
    found += [op(array(dtype, 6, 40), axis=axis) for dtype in (bfloat16, uint8, float64, int32) for axis in (0, 1)
              for op in (reduce.max, reduce.min)]  # fmt: skip
    found += [op(array(bool_, 6, 32), axis=axis) for op in (reduce.all, reduce.any) for axis in (0, 1)]
    return [*found, reduce.prod(array(int64, 2, 9), axis=1), reduce.sum(array(float16, 5, 70), axis=1)]


def made() -> list[Node]:
    """Ramps and random bits."""
    key, counter = data(np.asarray([3, 4], np.uint32)), data(np.asarray(1 << 40, uint64))
    return [iota(n, dtype) for n in (1, 77) for dtype in (int64, float32, bfloat16)] + [
        random_bits(key, counter, (5, 7))
    ]


def addressed() -> list[Node]:
    """Elements named by integers, running sums, and small products."""
    products = [matmul(array(float32, m, k), array(float32, k, n)) for m, k, n in ((3, 5, 7), (33, 130, 20), (1, 1, 1))]
    return [*(make() for make in ADDRESSED.values()), *products]


FAMILIES = [elements, casts, moves, totals, made, addressed]


@pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with")
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
def test_every_text_computes_its_op(family: Any) -> None:
    nodes = family()
    works = [worked(node) for node in nodes]
    emulator = Emulator(works)
    for node, work in zip(nodes, works):
        sources = [value(source) for source in node.sources]
        want = node.op.run(sources, node)
        got = np.full(node.size * node.dtype.itemsize, 0x2B, np.uint8).view(node.dtype).reshape(node.shape)
        named = {f"x{k}": source for k, source in enumerate(sources)}
        emulator.run(work, {**named, "y": got, ERROR: np.zeros(1, np.int32)})
        tolerance = {float16: 1e-2, bfloat16: 1e-1, float32: 2e-5}.get(node.dtype, 1e-12)
        np.testing.assert_allclose(got.astype(complex), want.astype(complex), tolerance, tolerance, err_msg=str(node))


def worked(node: Node) -> LaunchList:
    work = prebuilt.work(node, RTX_2080)
    assert work is not None, str(node)
    return pasted(work) if node.op.name == "matmul" else work


def value(node: Node) -> Array:
    return np.asarray(node.buffer if node.buffer is not None else node.op.run([value(s) for s in node.sources], node))


# --- one text for all shapes ----------------------------------------------------------------------------------------


def random_node(rng: np.random.Generator) -> Node:
    """One of a few ops of known dtypes over a shape that was never seen."""
    shape = tuple(int(n) for n in rng.integers(1, 40, rng.integers(0, 6)))
    x = placeholder(shape, float32)
    axes = tuple(int(a) for a in rng.permutation(len(shape)))
    other = placeholder(
        tuple(1 if rng.random() < 0.4 else n for n in shape[rng.integers(0, len(shape) + 1) :]), float32
    )
    kind = rng.integers(0, 5)
    if kind == 0 or not shape:
        return elementwise.add(x, other)
    if kind == 1:
        return reduce.sum(x, axis=axes[: rng.integers(1, len(axes) + 1)])
    if kind == 2:
        return movement.PERMUTE(x, axes=axes)
    if kind == 3:
        starts = tuple(int(rng.integers(0, n)) for n in shape)
        steps = tuple(int(rng.integers(1, 4)) for _ in shape)
        return movement.SLICE(
            x, starts=starts, steps=steps, sizes=tuple(-(-(n - s) // t) for n, s, t in zip(shape, starts, steps))
        )
    return movement.CONCAT(x, x, axis=axes[0])


def test_a_new_shape_is_no_new_text() -> None:
    rng = np.random.default_rng(0)
    works = [prebuilt.work(random_node(rng), H200) for _ in range(300)]
    texts = {launch.source for work in works if work is not None for launch in work.launches}
    assert all(work is not None for work in works)
    assert len(texts) == 4  # add, sum, copies, and copies by tiles


def test_a_new_shape_of_rows_or_products_is_one_of_a_few_texts() -> None:
    rng = np.random.default_rng(0)
    texts: dict[str, set[str]] = {}
    for _ in range(100):
        m, n, k, *more = (int(size) for size in rng.integers(2, 60, 5))
        x, index = placeholder((m, n), float32), placeholder(tuple(more), int64)
        rows = placeholder((*more, n), float32)
        found = [GATHER(x, index, axis=0), SCATTER_ADD(x, rows, index, axis=0), matmul(x, placeholder((n, k), float32))]
        for node in (*found, TAKE_ALONG(x, placeholder((m, k), int64), axis=1), CUMSUM(x, axis=0, backwards=False)):
            texts.setdefault(node.op.name, set()).update(launch.source for launch in launches(node))
    counts = {name: len(found) for name, found in texts.items()}
    # rows are moved 4, 8 or 16 bytes at a time; those of a product begin on 16 bytes or do not
    assert counts == {"gather": 3, "scatter_add": 6, "matmul": 4, "take_along": 1, "cumsum": 1}


def test_what_needs_larger_places_has_a_kernel_of_its_own() -> None:
    large = placeholder((1 << 16, 1 << 16), float32)
    assert prebuilt.work(elementwise.exp(large), H200) is None
    assert prebuilt.work(reduce.sum(large), H200) is None
    assert prebuilt.work(movement.permute_dims(large, (1, 0)), H200) is None
    assert prebuilt.work(iota(1 << 31), H200) is None


def test_launches_follow_from_the_work() -> None:
    (one,) = launches(elementwise.exp(placeholder((1 << 24,), float32)))
    assert one.entry.endswith("vectors") and one.grid[0] * one.block[0] * 8 == 1 << 24
    first, then = launches(reduce.sum(placeholder((1 << 24,), float32)))
    assert first.grid[1] > H200.sms and then.entry.endswith("parts")
    (one,) = launches(reduce.sum(placeholder((1 << 14, 1 << 10), float32), axis=1))
    assert one.entry.endswith("long") and one.grid[0] > H200.sms


def launches(node: Node) -> tuple[Launch, ...]:
    work = prebuilt.work(node, H200)
    assert isinstance(work, LaunchList)
    return work.launches


# --- spaces ---------------------------------------------------------------------------------------------------------


def test_axes_that_lie_one_behind_the_other_are_one() -> None:
    assert space((2, 3, 4), [Access((12, 4, 1)), Access((12, 4, 1))]).extents == (24,)
    assert space((2, 3, 4), [Access((12, 4, 1)), Access((0, 0, 1))]).extents == (6, 4)
    assert space((2, 1, 4), [Access((4, 9, 1))]) == Space((8,), (Access((1,)),))
    assert space((), [Access(())]) == Space((1,), (Access((0,)),))


def test_divisors_divide() -> None:
    rng = np.random.default_rng(0)
    for by in [1, 2, 3, 7, 641, (1 << 31) - 1, *map(int, rng.integers(1, 1 << 31, 200))]:
        multiplier, shift = _divisor(by)
        for n in [0, 1, by - 1, by, min(2 * by, (1 << 31) - 1), (1 << 31) - 1, *map(int, rng.integers(0, 1 << 31, 20))]:
            high = n * multiplier >> 32
            assert (high + n) >> shift == n // by and multiplier < 1 << 32 and high + n < 1 << 32
