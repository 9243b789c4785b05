"""The CUDA convolutions and poolings without a GPU: by FMA, by mma and directly, run by the emulator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.kernels.cores import emulated
from tests.kernels.emulator import Emulator, compiler
from tests.kernels.headers import pasted
from wengert.core.dtypes import bfloat16, float32, float64, int64, uint16
from wengert.core.graph import Node
from wengert.kernels.convolution.cuda import candidates, convolution, outdoes_libraries, tiles
from wengert.kernels.convolution.cuda import work as carried_out
from wengert.kernels.launch import H200, RTX_2080, LaunchList
from wengert.kernels.matmul.product import Epilogue
from wengert.kernels.pool.cuda import PoolWindows, add_along, max_pool, max_pool_back, sum_pool
from wengert.ops.channels_last import CONVOLVE_INPUT_LAST, CONVOLVE_LAST, CONVOLVE_WEIGHT_LAST
from wengert.ops.convolve import CONVOLVE, CONVOLVE_INPUT, CONVOLVE_WEIGHT, extent
from wengert.ops.core import as_node, placeholder
from wengert.ops.window import MAX_POOL, SUM_POOL

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++")

FORMS = [  # batch, channels, outs, groups, sizes, kernel, stride, padding, dilation
    (2, 4, 8, 1, (5, 6), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    (1, 3, 5, 1, (10, 12), (7, 7), (2, 2), ((3, 3), (3, 3)), (1, 1)),  # the stem: folded
    (2, 5, 6, 1, (9, 7), (3, 2), (3, 2), ((2, 1), (1, 0)), (2, 1)),
    (2, 8, 16, 2, (4, 5), (2, 3), (1, 2), ((0, 1), (1, 1)), (1, 2)),
    (2, 6, 3, 3, (5, 5), (3, 3), (2, 1), ((1, 1), (0, 0)), (1, 1)),  # two channels a group: directly
    (2, 4, 4, 1, (9,), (3,), (2,), ((1, 0),), (2,)),
    (1, 4, 4, 1, (3, 4, 5), (2, 2, 3), (1, 2, 1), ((1, 0), (0, 1), (-1, 1)), (1, 1, 1)),
]

ONE_IMAGE = (1, 64, 72, 1, (4, 5), (3, 3), (2, 1), ((1, 1), (1, 1)), (1, 1))
DOUBLED = Epilogue("to[row * 72 + column] = 2 * acc;\n", ("float *to",), ("to",), ("c",))  # of ONE_IMAGE


def nodes(form: tuple[Any, ...], dtype: Any) -> list[Node]:
    """The three primitives of a form, on small integers so that sums are exact."""
    batch, channels, outs, groups, sizes, kernel, stride, padding, dilation = form
    rng = np.random.default_rng(1)
    count = [
        (n + a + b - extent(k, d)) // s + 1 for n, k, s, (a, b), d in zip(sizes, kernel, stride, padding, dilation)
    ]

    def value(*shape: int) -> Node:
        return as_node(rng.integers(-3, 4, shape).astype(dtype))

    x, weight = value(batch, channels, *sizes), value(outs, channels // groups, *kernel)
    y = value(batch, outs, *count)
    common = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    return [
        CONVOLVE(x, weight, **common),
        CONVOLVE_INPUT(y, weight, sizes=sizes, **common),
        CONVOLVE_WEIGHT(x, y, kernel=kernel, **common),
    ]


def reference(node: Node) -> Any:
    return node.op.numpy(*[source.buffer for source in node.sources], **node.attrs)


def moved_last(x: Any) -> Any:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def check(cases: list[tuple[Node, LaunchList]]) -> None:
    emulator = Emulator([work for _, work in cases])
    for node, work in cases:
        result = np.full(node.shape, 99, node.dtype)
        first, second = (np.array(source.buffer) for source in node.sources)
        emulator.run(work, {"a": first, "b": second, "c": result})
        np.testing.assert_array_equal(result, reference(node), err_msg=f"{node.op.name} {node.attrs}")


def test_convolutions_equal_their_references() -> None:
    """The stem forward, strides and dilations by the input, groups by the weight, and small groups directly."""
    chosen = [nodes(FORMS[1], float32)[0], nodes(FORMS[2], float32)[1], nodes(FORMS[3], float32)[2]]
    chosen += nodes(FORMS[4], float32)
    check([(node, _first(node)) for node in chosen])


@pytest.mark.slow
def test_all_convolutions_equal_their_references() -> None:
    cases = [(node, _first(node)) for form in FORMS for node in nodes(form, float32)]
    check(cases + [(node, _first(node)) for node in nodes(FORMS[2], float64)])


@pytest.mark.slow
def test_tensor_cores_equal_the_references() -> None:
    """By mma, as the emulator knows it: depths that are a part of a tile, and several tiles."""
    wide = (2, 24, 16, 1, (6, 7), (3, 3), (2, 1), ((1, 1), (1, 0)), (1, 1))
    cases = []
    for node in (*nodes(FORMS[1], bfloat16), *nodes(wide, bfloat16)):
        found = convolution(node)
        assert found is not None
        cases.append((node, emulated(candidates(found, "a", "b", "c", replace(H200, arch="80"))[0])))
    check(cases)


def _first(node: Node) -> LaunchList:
    found = convolution(node)
    assert found is not None
    return pasted(candidates(found, "a", "b", "c", RTX_2080)[0])


def channels_last(node: Node) -> Node:
    """The same convolution over values with channels last."""
    op = {CONVOLVE: CONVOLVE_LAST, CONVOLVE_INPUT: CONVOLVE_INPUT_LAST}.get(node.op, CONVOLVE_WEIGHT_LAST)
    return op(*[as_node(moved_last(source.buffer)) for source in node.sources], **node.attrs)


def test_values_that_come_channels_last() -> None:
    """Those that fill chunks are read as they lie; the stem's are folded."""
    chosen = [channels_last(node) for form in FORMS[:2] for node in nodes(form, float32)]
    cases = [(node, _first(node)) for node in chosen]
    check(cases)
    for _, work in cases[:2]:
        assert not work.workspace and len(work.launches) == 1


def test_the_stem_is_folded_and_tensor_cores_are_used() -> None:
    stem = convolution(nodes(FORMS[1], bfloat16)[0])
    assert stem is not None
    work = candidates(stem, "a", "b", "c", H200)[0]
    assert "static const int kernel2 = 4;" in work.launches[2].source  # 7 columns, and one before, by twos
    assert " mma " in work.launches[2].why


def test_pooling_equals_its_reference() -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(-5, 6, (2, 6, 7, 8)).astype(np.float32)
    x[0, 0, :3] = -np.inf
    x[1, 1, 2, 2] = np.nan
    form = {"kernel": (3, 2), "stride": (2, 2), "padding": ((1, 1), (0, 1)), "dilation": (1, 2)}
    values, places = MAX_POOL.numpy(x, **form)
    sums = SUM_POOL.numpy(x, kernel=(3, 2), stride=(2, 1))
    g = rng.integers(-5, 6, values.shape).astype(np.float32)
    back = np.zeros((12, 56), np.float32)
    for plane, at, cotangent in zip(back, places.reshape(12, -1), g.reshape(12, -1)):
        np.add.at(plane, at, cotangent)
    for inner, place in ((1, int64), (6, uint16)):
        move = moved_last if inner > 1 else np.array
        w = PoolWindows(12 // inner, (7, 8), values.shape[2:], (3, 2), (2, 2), (1, 0), (1, 2), inner)
        w_sum = PoolWindows(12 // inner, (7, 8), sums.shape[2:], (3, 2), (2, 1), inner=inner)
        made = [
            pasted(max_pool(w, np.dtype(float32), place, "x", "values", "places")),
            pasted(max_pool(w, np.dtype(float32), place, "x", "values", None)),
            pasted(max_pool_back(w, np.dtype(float32), place, "g", "places", "back")),
            pasted(sum_pool(w_sum, np.dtype(float32), "x", "sums")),
        ]
        emulator = Emulator(made)
        arrays = {
            "x": move(x), "g": move(g), "values": np.zeros_like(move(values)), "sums": np.zeros_like(move(sums)),
            "places": np.zeros_like(move(places), place), "back": np.zeros_like(move(x)),
        }  # fmt: skip
        for work in made:
            emulator.run(work, arrays)
        np.testing.assert_array_equal(arrays["values"], move(values))
        np.testing.assert_array_equal(arrays["places"], move(places))
        np.testing.assert_array_equal(arrays["sums"], move(sums))
        np.testing.assert_array_equal(arrays["back"], move(back.reshape(x.shape)))


def test_the_derivative_of_max_pool_is_recognised() -> None:
    rng = np.random.default_rng(0)
    x = as_node(rng.integers(-5, 6, (2, 3, 6, 6)).astype(np.float32))
    pooled = MAX_POOL(x, kernel=(3, 3), stride=(2, 2), padding=((1, 1), (1, 1)), dilation=(1, 1))
    g = as_node(rng.integers(-5, 6, pooled.shape[0]).astype(np.float32))
    spread = MAX_POOL.vjp[0]([g, None], pooled, x).sources[0]
    names = {spread: "to", spread.sources[1]: "g", spread.sources[2]: "places"}
    work = add_along(spread, lambda node: names[node])
    assert work is not None
    work = pasted(work)
    places = MAX_POOL.numpy(x.buffer, **pooled.attrs)[1]
    arrays = {"to": np.zeros((6, 36), np.float32), "g": np.array(g.buffer), "places": places}
    Emulator([work]).run(work, arrays)
    expected = np.zeros((6, 36), np.float32)
    for plane, at, cotangent in zip(expected, places.reshape(6, -1), arrays["g"].reshape(6, -1)):
        np.add.at(plane, at, cotangent)
    np.testing.assert_array_equal(arrays["to"], expected)
    other = spread.op(*spread.sources[:2], as_node(places.reshape(spread.sources[2].shape)), **spread.attrs)
    assert add_along(other, lambda node: names[node]) is None


@pytest.mark.parametrize(
    ("batch", "size", "channels", "ours"), [(512, 4, 512, True), (512, 8, 256, False), (256, 7, 512, False)]
)
def test_our_kernels_do_what_takes_one_wave_of_large_tiles(batch: int, size: int, channels: int, ours: bool) -> None:
    x, weight = placeholder((batch, size, size, channels), bfloat16), placeholder((channels, 3, 3, channels), bfloat16)
    ones = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
    found = convolution(CONVOLVE_LAST(x, weight, **ones))
    assert found is not None and outdoes_libraries(found, H200) is ours
    assert not outdoes_libraries(found, RTX_2080)


@pytest.mark.parametrize(("length", "dilation", "tf32", "ours"), [(8193, 1, False, True), (8256, 64, True, False)])
def test_our_kernels_do_lines_in_strict_float32(length: int, dilation: int, tf32: bool, ours: bool) -> None:
    y, weight = placeholder((16, 8192, 128), float32), placeholder((128, 2, 64), float32)
    attrs = {"stride": (1,), "padding": ((0, 0),), "dilation": (dilation,), "groups": 1, "sizes": (length,)}
    found = convolution(CONVOLVE_INPUT_LAST(y, weight, **attrs), tf32)
    assert found is not None and outdoes_libraries(found, H200) is ours


def test_the_depth_of_few_positions_is_shared_by_a_cluster() -> None:
    """Eight blocks take a part of the depth each, the last ones nothing; an epilogue takes what two add up to."""
    node = channels_last(nodes(ONE_IMAGE, bfloat16)[0])
    found = convolution(node)
    assert found is not None
    tile = tiles(found, H200)[0]
    assert tile is not None and tile.joined and outdoes_libraries(found, H200)
    plain = emulated(carried_out(found, "a", "b", "c", H200, replace(tile, split=8)))
    taken = emulated(carried_out(found, "a", "b", "c", H200, replace(tile, split=2), DOUBLED))
    first, second = (np.array(source.buffer) for source in node.sources)
    exact = node.op.numpy(first.astype(float32), second.astype(float32), **node.attrs)
    emulator = Emulator([plain, taken])
    for work, dtype, result in ((plain, bfloat16, reference(node)), (taken, float32, 2 * exact)):
        made = np.full(node.shape, 99, dtype)
        emulator.run(work, {"a": first, "b": second, "c": made}, reverse=work is taken)
        np.testing.assert_array_equal(made, result)
