"""Hand-written kernels equal their references. The cases of an op are the outputs of one program: one compilation."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import wengert  # noqa: F401  every op registers itself
from wengert.backends.cpu.program import build
from wengert.backends.cpu.toolchain import compiler
from wengert.core.errors import ComputationError
from wengert.core.graph import Graph, Node, now
from wengert.kernels.matmul import c as matmul_c
from wengert.ops import elementwise as e
from wengert.ops.addressing import ADD_ALONG, GATHER, PUT_ALONG, PUT_SLICE, SCATTER, SCATTER_ADD, TAKE_ALONG, zeros
from wengert.ops.attention import ATTENTION, ATTENTION_BACKWARD
from wengert.ops.convolve import CONVOLVE, CONVOLVE_INPUT, CONVOLVE_WEIGHT
from wengert.ops.core import placeholder
from wengert.ops.linalg import MATMUL
from wengert.ops.movement import permute_dims
from wengert.ops.op import pick, picks
from wengert.ops.running import CUMSUM
from wengert.ops.window import MAX_POOL, SUM_POOL

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
FLOATS = [np.float32, np.float64]


def random(seed: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape)


class Cases:
    """Nodes over inputs of their own, computed by C and by reference."""

    def __init__(self) -> None:
        self.since = now()
        self.inputs: list[Node] = []
        self.arrays: list[Any] = []
        self.outputs: list[Node] = []
        self.labels: list[str] = []

    def input(self, array: Any) -> Node:
        self.inputs.append(placeholder(array.shape, array.dtype))
        self.arrays.append(array)
        return self.inputs[-1]

    def add(self, label: str, *nodes: Node) -> None:
        self.outputs += nodes
        self.labels += [label] * len(nodes)

    def check(self, ops: set[str], scale: float = 1.0) -> Any:
        """All outputs agree with the references, and no node of `ops` was left to its reference; the program."""
        graph = Graph(self.inputs, self.outputs, self.since)
        program = build(graph)
        left = {step.host_op.op.name for step in program.steps if step.host_op is not None}
        assert not left & ops
        values: dict[Node, Any] = dict(zip(self.inputs, self.arrays))
        for node in graph.nodes:
            values[node] = node.op.run([values.get(s, s.buffer) for s in node.sources], node)
        for label, node, got in zip(self.labels, self.outputs, program(self.arrays)):
            expected = values[node]
            assert got.shape == expected.shape and got.dtype == expected.dtype, label
            if node.dtype.kind == "f":
                rounding = scale * (2e-6 if node.dtype == np.float32 else 1e-14)
                largest = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)
                np.testing.assert_allclose(got, expected, rtol=rounding, atol=rounding * largest, err_msg=label)
            else:
                np.testing.assert_array_equal(got, expected, err_msg=label)
        return program


# --- matrix products ------------------------------------------------------------------------------------------------


def _products(dtype: Any, shapes: Any) -> Cases:
    """Products of all transposes, each alone and with an epilogue."""
    cases = Cases()
    for i, (m, n, k) in enumerate(shapes):
        for a_transposed, b_transposed in itertools.product((False, True), repeat=2):
            a = cases.input(random(i, *((k, m) if a_transposed else (m, k))).astype(dtype))
            b = cases.input(random(i + 50, *((n, k) if b_transposed else (k, n))).astype(dtype))
            label = f"({m}, {k}) by ({k}, {n}), transposed: {a_transposed}, {b_transposed}"
            product = MATMUL(
                permute_dims(a, (1, 0)) if a_transposed else a, permute_dims(b, (1, 0)) if b_transposed else b
            )
            cases.add(label, product)
            cases.add(f"{label}, with an epilogue", e.maximum(e.multiply(product, product), product))
    return cases


@pytest.mark.parametrize("dtype", FLOATS)
def test_matrix_products(dtype: Any) -> None:
    """In tiles: whole ones, cut rows and columns, more steps than are summed in registers; by BLAS what is thin."""
    shapes = [(128, 96, 256), (100, 300, 77), (33, 65, 1100), (250, 161, 51), (32, 32, 2000), (90, 8000, 3)]
    cases = _products(dtype, [*shapes, (31, 700, 100), (700, 31, 100), (400, 1, 90), (5, 6, 7), (40, 40, 0)])
    program = cases.check({"matmul"}, scale=4)
    assert program.source.count("wg_product_rows_f") == 4 * len(shapes)


def test_matrix_products_have_the_same_bits_whatever_the_blocks(monkeypatch: Any) -> None:
    cases = _products(np.float32, [(100, 300, 600)])
    graph = Graph(cases.inputs, cases.outputs, cases.since)
    once = build(graph)(cases.arrays)
    monkeypatch.setattr(matmul_c, "BLOCK_ROWS", 50)
    for one, other in zip(once, build(graph)(cases.arrays)):
        np.testing.assert_array_equal(one, other)


# --- convolution ----------------------------------------------------------------------------------------------------

# batch, ins, outs, groups, sizes, kernel, stride, padding, dilation
_CONVOLUTIONS = [
    *(
        (3, 5, 7, 1, (9, 11), (3, 2), stride, padding, dilation)
        for stride, padding, dilation in itertools.product(((1, 1), (2, 3)), (0, 1, 4), ((1, 1), (2, 3)))
    ),
    (1, 1, 1, 1, (1, 1), (1, 1), (1, 1), 0, (1, 1)),
    (2, 3, 64, 1, (32, 32), (3, 3), (1, 1), 1, (1, 1)),
    (13, 16, 40, 1, (4, 4), (3, 3), (1, 1), 1, (1, 1)),
    (17, 9, 33, 1, (7, 7), (3, 3), (2, 2), 1, (1, 1)),
    (2, 20, 20, 1, (5, 50), (1, 1), (2, 2), 0, (1, 1)),
    (2, 70, 30, 1, (6, 6), (5, 5), (1, 1), 2, (1, 1)),
    (1, 3, 5, 1, (70, 70), (3, 3), (1, 1), 1, (1, 1)),  # rows of one image are a piece of their own
    (2, 12, 16, 2, (8, 9), (3, 3), (2, 1), 1, (1, 1)),
    (2, 6, 6, 6, (8, 9), (3, 3), (1, 1), 1, (1, 1)),
    (2, 6, 12, 6, (8, 9), (3, 3), (2, 2), 2, (2, 1)),
    (2, 12, 4, 2, (6, 6), (2, 2), (1, 1), 0, (1, 1)),
    (4, 1, 32, 1, (28, 28), (3, 3), (1, 1), 1, (1, 1)),
    (3, 4, 6, 1, (20,), (5,), (3,), 2, (2,)),
    (2, 8, 8, 4, (20,), (3,), (1,), 1, (1,)),
    (2, 3, 9, 1, (5, 6, 7), (3, 2, 3), (1, 2, 1), 1, (1, 1, 2)),
    (2, 4, 4, 4, (4, 4, 4), (2, 2, 2), (2, 1, 2), 1, (1, 1, 1)),
    (0, 3, 5, 1, (8, 8), (3, 3), (1, 1), 1, (1, 1)),
    (70, 16, 24, 1, (4, 4), (3, 3), (1, 1), 1, (1, 1)),  # from here on: tiles of 2 x 2 outputs
    (18, 64, 66, 1, (8, 9), (3, 3), (1, 1), 1, (1, 1)),
    (11, 65, 70, 1, (12, 11), (3, 3), (1, 1), 0, (1, 1)),
    (3, 16, 17, 1, (10, 68), (3, 3), (1, 1), 2, (1, 1)),
    (1, 16, 20, 1, (33, 34), (3, 3), (1, 1), 1, (1, 1)),
    (2, 21, 27, 3, (9, 11), (3, 2), (1, 2), ((1, 0), (2, 1)), (2, 1)),
    (3, 5, 9, 1, (4, 5, 6), (1, 1, 1), (1, 1, 1), 0, (1, 1, 1)),  # axes without a kernel are merged
    (2, 6, 8, 1, (5, 4, 6), (3, 1, 1), (1, 1, 1), ((2, 1), (0, 0), (0, 0)), (2, 1, 1)),
    (2, 6, 8, 1, (9, 7), (3, 1), (2, 1), ((1, 0), (0, 0)), (1, 1)),
    (2, 34, 38, 2, (24, 23), (3, 3), (1, 1), ((1, 0), (2, 1)), (1, 1)),
    (2, 16, 17, 1, (5, 12, 11), (3, 3, 3), (1, 1, 1), ((1, 0), (1, 1), (0, 2)), (1, 1, 1)),
    (2, 16, 16, 1, (4, 16, 16), (1, 3, 3), (1, 1, 1), ((1, 0), (1, 1), (1, 1)), (2, 1, 1)),
    (2, 17, 16, 1, (33, 34), (3, 3), (1, 1), ((2, 3), (3, 0)), (2, 3)),
    (1, 32, 32, 2, (6, 22, 21), (2, 3, 3), (1, 1, 1), 2, (1, 2, 2)),
    (2, 3, 5, 1, (3, 3), (2, 2), (5, 4), 0, (1, 1)),  # most of the input is never read
]


def _convolutions(dtype: Any, wanted: list[Any]) -> Cases:
    """The three of each."""
    cases = Cases()
    for i, (batch, ins, outs, groups, sizes, kernel, stride, padding, dilation) in enumerate(wanted):
        pairs = ((padding, padding),) * len(sizes) if isinstance(padding, int) else padding
        form = {"stride": stride, "padding": pairs, "dilation": dilation, "groups": groups}
        x = cases.input(random(i, batch, ins, *sizes).astype(dtype))
        weight = cases.input(random(i + 100, outs, ins // groups, *kernel).astype(dtype))
        image = CONVOLVE(x, weight, **form)
        y = cases.input(random(i + 200, *image.shape).astype(dtype))
        by_input = CONVOLVE_INPUT(y, weight, sizes=sizes, **form)
        by_weight = CONVOLVE_WEIGHT(x, y, kernel=kernel, **form)
        cases.add(f"convolution {i}: {wanted[i]}", image, by_input, by_weight)
    return cases


@pytest.mark.parametrize("dtype", FLOATS)
def test_convolutions(dtype: Any) -> None:
    cases = _convolutions(dtype, _CONVOLUTIONS)
    program = cases.check({"convolve", "convolve_input", "convolve_weight"}, scale=4)
    assert program.source.count("wg_winograd_f") == 2 * 8 and program.source.count("wg_winograd_apart_f") == 2 * 2
    assert program.source.count("wg_winograd_weight_gradient_f") == 2


# of groups of few channels, which are made without a matrix product
_IN_PLANES = [
    *(
        (2, 5, 5, 5, (10, 17), (3, 2), stride, padding, dilation)
        for stride, padding, dilation in itertools.product(((1, 2), (3, 1)), (0, ((2, 0), (1, 3))), ((1, 1), (2, 3)))
    ),
    (3, 3, 3, 3, (7, 7), (3, 3), (1, 1), 1, (1, 1)),
    (2, 4, 10, 2, (9, 14), (3, 3), (2, 2), 1, (1, 1)),  # several channels to a group, of either side
    (2, 12, 4, 4, (9, 14), (3, 3), (2, 2), 1, (1, 1)),
    (1, 2, 2, 2, (20, 33), (7, 7), (1, 1), 3, (1, 1)),
    (1, 2, 2, 2, (150, 120), (3, 3), (1, 1), 1, (1, 1)),  # bands of lines
    (1, 2, 2, 2, (150, 121), (3, 3), (2, 2), 1, (1, 1)),
    (1, 2, 2, 2, (19000,), (3,), (1,), 64, (64,)),  # bands of columns
    (1, 2, 4, 2, (19001,), (5,), (2,), 2, (1,)),
    (2, 3, 3, 3, (40,), (16,), (8,), 4, (1,)),
    (2, 3, 3, 3, (11, 12), (2, 3), (5, 4), 0, (1, 1)),  # strides larger than the kernel
    (2, 3, 3, 3, (11, 12), (3, 3), (1, 2), ((-1, 2), (3, -2)), (1, 1)),  # padding that crops
    (1, 4, 4, 2, (5, 6, 7), (3, 2, 3), (2, 1, 2), 1, (1, 2, 1)),
    (0, 4, 4, 4, (5, 6), (3, 3), (1, 1), 1, (1, 1)),
]


@pytest.mark.parametrize("dtype", FLOATS)
def test_convolutions_in_groups_of_few_channels(dtype: Any) -> None:
    program = _convolutions(dtype, _IN_PLANES).check({"convolve", "convolve_input", "convolve_weight"}, scale=4)
    assert program.source.count("_direct_f") == 3 * (len(_IN_PLANES) - 1)


def test_an_infinite_element_meets_no_zeros_between_rows() -> None:
    """The gradient with respect to a depthwise weight: what a tap does not meet must not make it not a number."""
    x, y = random(0, 1, 2, 9, 9).astype(np.float32), np.abs(random(1, 1, 2, 9, 9)).astype(np.float32)
    x[0, 0, 0, 0] = x[0, 1, 8, 8] = np.inf
    cases = Cases()
    form = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 2}
    cases.add("infinite", CONVOLVE_WEIGHT(cases.input(x), cases.input(y), kernel=(3, 3), **form))
    program = cases.check({"convolve_weight"}, scale=4)
    assert not np.isnan(program(cases.arrays)[0]).any()


# --- pooling --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
def test_pooling(dtype: Any) -> None:
    cases = Cases()
    for i, (shape, kernel, stride, padding, dilation) in enumerate(
        [
            ((2, 3, 8, 9), (2, 2), (2, 2), 0, (1, 1)),
            ((2, 3, 8, 9), (3, 2), (1, 3), 1, (1, 1)),
            ((2, 8, 9), (2, 3), (2, 1), 1, (3, 2)),
            ((4, 700), (3,), (1,), 1, (1,)),
            ((4, 700), (3,), (2,), 0, (1,)),
            ((2, 4, 5, 6), (2, 2, 2), (1, 2, 3), 1, (1, 1, 1)),
            ((1, 1, 1), (1, 1), (1, 1), 0, (1, 1)),
            ((0, 3, 3), (2, 2), (1, 1), 0, (1, 1)),
        ]
    ):
        array = random(i, *shape).astype(dtype)
        array[array < -1.5] = -np.inf
        array[..., : shape[-1] // 3] = np.round(array[..., : shape[-1] // 3])  # ties: the first wins
        if i == 1:
            array[0, 0, 3, 3] = np.nan
        x = cases.input(array)
        pooled = MAX_POOL(
            x, kernel=kernel, stride=stride, padding=((padding, padding),) * len(kernel), dilation=dilation
        )
        cases.add(f"max_pool {i}", pick(pooled, 0), pick(pooled, 1), pick(pooled, 1))
        finite = cases.input(random(i, *shape).astype(dtype))
        cases.add(f"sum_pool {i}", SUM_POOL(finite, kernel=kernel, stride=stride))
    only = MAX_POOL(x, kernel=(1, 1), stride=(1, 1), padding=((0, 0),) * 2, dilation=(1, 1))
    cases.add("only the places", pick(only, 1))
    cases.check({"max_pool", "sum_pool", "pick"})


# --- addressing -----------------------------------------------------------------------------------------------------


def _integers(seed: int, low: int, high: int, *shape: int, dtype: Any = np.int64) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


# shape, axis, and the shapes of the indices
_GATHERS: list[tuple[tuple[int, ...], int, list[tuple[int, ...]]]] = [
    ((5, 7), 0, [(4,)]),
    ((5, 7), 1, [(2, 3)]),
    ((300, 130), 0, [(200,)]),
    ((3, 5, 7, 2), 1, [(4, 1), (6,)]),
    ((3, 5, 4), 0, [(), (2,), (3, 1)]),
    ((5,), 0, [(0,)]),
    ((4, 1), 1, [(9,)]),
    ((4, 0), 0, [(3,)]),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
def test_gather_and_scatter(dtype: Any) -> None:
    cases = Cases()
    for i, (shape, axis, sizes) in enumerate(_GATHERS):
        x = cases.input((10 * random(i, *shape)).astype(dtype))
        kinds = itertools.cycle((np.int64, np.int32))
        indices = [
            cases.input(_integers(i, -shape[axis + k], shape[axis + k], *size, dtype=next(kinds)))
            for k, size in enumerate(sizes)
        ]
        taken = GATHER(x, *indices, axis=axis)
        values = cases.input((10 * random(i + 50, *taken.shape)).astype(dtype))
        cases.add(
            f"gather {i}",
            taken,
            SCATTER(x, values, *indices, axis=axis),
            SCATTER_ADD(x, values, *indices, axis=axis),
            SCATTER_ADD(zeros(x.shape, x), values, *indices, axis=axis),
        )
    cases.check({"gather", "scatter", "scatter_add"})


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_along_an_axis(dtype: Any) -> None:
    cases = Cases()
    for i, (shape, axis, count) in enumerate([((5, 7), 1, 3), ((5, 7), 0, 6), ((3, 4, 5), 1, 9), ((4,), 0, 0)]):
        x = cases.input((10 * random(i, *shape)).astype(dtype))
        named = (*shape[:axis], count, *shape[axis + 1 :])
        index = cases.input(_integers(i, -shape[axis], shape[axis], *named, dtype=(np.int64, np.int32)[i % 2]))
        values = cases.input((10 * random(i + 50, *named)).astype(dtype))
        cases.add(
            f"along {i}",
            TAKE_ALONG(x, index, axis=axis),
            PUT_ALONG(x, values, index, axis=axis),
            ADD_ALONG(x, values, index, axis=axis),
            ADD_ALONG(zeros(x.shape, x), values, index, axis=axis),
            CUMSUM(x, axis=axis, backwards=False),
            CUMSUM(x, axis=axis, backwards=True),
        )
        inside = cases.input(random(i + 90, *[(n + 1) // 2 for n in shape]).astype(dtype))
        cases.add(f"put_slice {i}", PUT_SLICE(x, inside, starts=(0,) * len(shape), steps=(2,) * len(shape)))
    cases.check({"take_along", "put_along", "add_along", "cumsum", "put_slice"})


@pytest.mark.parametrize("wrong", [5, -6, 1 << 40])
def test_an_index_out_of_range_raises_as_the_reference_does(wrong: int) -> None:
    since = now()
    x, index = placeholder((5, 3), np.dtype(np.float32)), placeholder((2,), np.dtype(np.int64))
    program = build(Graph([x, index], [GATHER(x, index, axis=0)], since))
    array = random(0, 5, 3).astype(np.float32)
    with pytest.raises(ComputationError, match=r"gather failed: index -?[0-9]+ is out of bounds"):
        program([array, np.array([1, wrong])])
    np.testing.assert_array_equal(program([array, np.array([1, -5])])[0], array[[1, 0]])  # the next call works


# --- attention ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("causal", [False, True])
def test_attention(dtype: Any, causal: bool) -> None:
    cases = Cases()
    masks = {"none": None, "boolean": (2, 1, 150, 170), "row": (170,), "added": (3, 150, 170), "column": (150, 1)}
    for i, (kind, mask_shape) in enumerate(masks.items()):
        query = cases.input(random(i, 2, 3, 150, 20).astype(dtype))
        key = cases.input(random(i + 10, *((2, 1) if i % 2 else (3,)), 170, 20).astype(dtype))  # heads that share a key
        value = cases.input(random(i + 20, 1, 170, 9).astype(dtype))
        sources = [query, key, value]
        if mask_shape is not None:
            noise = random(i + 30, *mask_shape).reshape((1,) * max(0, 2 - len(mask_shape)) + mask_shape)
            mask = noise.astype(dtype) if kind == "added" else noise > -0.5
            mask[..., 3:4, :] = -np.inf if kind == "added" else False  # a query that may look nowhere
            sources.append(cases.input(mask))
        y = ATTENTION(*sources, causal=causal, scale=0.3)
        g = cases.input(random(i + 40, *y.shape).astype(dtype))
        cases.add(f"attention, mask: {kind}", y, *picks(ATTENTION_BACKWARD(g, *sources, causal=causal, scale=0.3)))
    long = [cases.input(random(i + 60, *s).astype(dtype)) for i, s in enumerate(((5, 7), (4500, 7), (4500, 3), (5, 3)))]
    cases.add("long", ATTENTION(*long[:3], causal=False, scale=1.0))
    cases.add("long backward", *picks(ATTENTION_BACKWARD(long[3], *long[:3], causal=False, scale=1.0)))
    small = [cases.input(random(i + 70, 1, 1).astype(dtype)) for i in range(3)]
    cases.add("one of each", ATTENTION(*small, causal=causal, scale=2.0))
    cases.check({"attention", "attention_backward", "pick"}, scale=8)
