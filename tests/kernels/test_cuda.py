"""The CUDA writer of the loop language: emulated kernels equal the references, in shapes worked out and in others."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.compiler.test_compiled_ops import CASES, _reference, record
from tests.kernels.cuda_graphs import CudaGraph, poison
from tests.kernels.emulator import Emulator, compiler
from tests.ops.suite import identifier
from wengert.backends.cuda.compile import cubin
from wengert.compiler.passes import optimize
from wengert.core.graph import Graph, now
from wengert.kernels.cuda import multi_tensor_signature, write, write_multi_tensor
from wengert.kernels.cuda.shapes import Columns, Elements, Rows, Shape, Tiles, transposed, vector_width
from wengert.kernels.cuda.write import launch_shape
from wengert.kernels.ir.loops import Load, LoopKernel
from wengert.kernels.ir.transforms import merge_loops, statements_of
from wengert.kernels.launch import H200, RTX_2080, DeviceProperties, LaunchList
from wengert.ops.core import placeholder

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate CUDA with")

UNIT = 60  # graphs to a library


def emulated_cases(cases: list[Any]) -> None:
    """The results of some of the op suite's cases and of their gradients, by emulated kernels and by the references."""
    wg.synchronize()
    since = now()
    recorded = [(case, record(case)) for case in cases]
    graphs = [(case, Graph(p[0], p[2], since), p[1]) for case, p in recorded if p is not None]
    programs = [(case, graph, arrays, CudaGraph(graph)) for case, graph, arrays in graphs]
    emulator = Emulator(work for *_, program in programs for work, _ in program.works.values())
    for case, graph, arrays, program in programs:
        constants = {n: n.buffer for n in graph.captured()}
        with np.errstate(all="ignore"):
            found = program.run(arrays, emulator)
            expected = _reference(graph, dict(zip(graph.inputs, arrays)), constants)
        for node, got, want in zip(graph.outputs, found, expected):
            assert got.dtype == want.dtype and got.shape == want.shape, identifier(case)
            if want.dtype.kind in "fc":
                np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11, err_msg=f"{identifier(case)}: {node}")
            else:
                np.testing.assert_array_equal(got, want, err_msg=f"{identifier(case)}: {node}")


def test_ops_as_cuda_equal_their_references() -> None:
    emulated_cases(CASES[:: max(1, len(CASES) // UNIT)])


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(CASES), UNIT))
def test_every_op_as_cuda_equals_its_reference(start: int) -> None:
    emulated_cases(CASES[start : start + UNIT])


# --- shapes ---------------------------------------------------------------------------------------------------------


def shapes_of(kernel: LoopKernel) -> list[Shape]:
    """Launch shapes of every kind that can carry a kernel out, small and odd ones among them."""
    kernel = merge_loops(kernel)
    chosen, _ = launch_shape(kernel, H200)
    statements = list(statements_of(kernel))
    if isinstance(chosen, Elements | Tiles):
        widths = {1, vector_width(statements, kernel.outer[-1] if kernel.outer else None)}
        plain = [Elements(width, steps, threads) for width in widths for steps, threads in ((1, 32), (3, 64))]
        is_transposed = kernel.outer and transposed(kernel)[1]
        return [*plain, *([Tiles(1, 4), Tiles(1, 16)] if is_transposed else [])]
    length = math.prod(loop.extent for loop in kernel.inner)
    found: list[Shape] = []
    width = vector_width(statements, kernel.inner[-1] if kernel.inner else None)
    for k, (lanes, rows) in enumerate(((1, 32), (4, 16), (32, 3), (64, 2), (256, 1))):
        vector = (width, 1)[k % 2]
        found.append(Rows(vector, lanes, rows, max(1, -(-length // vector // lanes))))
    found += [Rows(width, 32, 3, 0), Rows(1, 64, 1, 0)]
    if not kernel.scratch:
        found += [Rows(width, 32, 1, 0, 3), Rows(1, 128, 1, 0, 2)]
        found += [Rows(width, 32, 1, 0, in_shared=True), Rows(1, 64, 1, 0, in_shared=True)]
    if kernel.outer and not kernel.scratch:
        width = vector_width(statements, kernel.outer[-1])
        found += [Columns(width, 3, 5), Columns(1, 32, 1), Columns(width, 4, 8, 3), Columns(1, 1, 40, 2)]
    return found


def _standardized(x: wg.Tensor, axis: Any) -> wg.Tensor:
    centred = x - x.mean(axis=axis, keepdims=True)
    return centred / wg.sqrt((centred * centred).mean(axis=axis, keepdims=True) + 1e-5)


def _with_slope(function: Any, x: wg.Tensor) -> tuple[wg.Tensor, wg.Tensor]:
    return function(x), wg.grad(lambda x: (function(x) * wg.sin(x)).sum())(x)


def _with_sum(x: Any, y: Any, function: Any) -> Any:
    """A sum that is stored, and what several passes make of it."""
    total = x * y + wg.sin(y)
    return total, function(total)


KERNELS = {
    "chain": (lambda x, y: (wg.gelu(x * y[0]) * wg.sigmoid(x), x + y), ((9, 20), (9, 20))),
    "transpose": (lambda x, y: x.T + y, ((33, 40), (40, 33))),
    "pieces": (lambda x, y: wg.concat([x[:, ::2], wg.flip(y, axis=1)[:, 1:7]], axis=1) * 2.0, ((9, 20), (9, 20))),
    "padded": (lambda x, y: wg.pad(x, (1, 2, 3, 0)) + 1.0, ((9, 20), (1,))),
    "softmax": (lambda x, y: wg.softmax(x + y, axis=-1), ((10, 72), (72,))),
    "softmax of a part": (lambda x, y: wg.softmax(wg.where(wg.arange(72) < 50, x, -9.0), axis=-1), ((10, 72), (1,))),
    "layernorm": (lambda x, y: _standardized(x, -1) * y, ((10, 72), (72,))),
    "read back": (lambda x, y: _with_sum(x, y, lambda s: _standardized(s, 0)), ((35, 24), (35, 24))),
    "batchnorm": (lambda x, y: _standardized(x, (0, 1)) * y, ((5, 7, 24), (24,))),
    "batchnorm backward": (lambda x, y: _with_slope(lambda x: _standardized(x, (0, 1)) * y, x), ((5, 7, 24), (24,))),
    "batchnorm nchw": (lambda x, y: _standardized(x, (0, 2)), ((5, 7, 24), (1,))),
    "totals": (lambda x, y: (x.sum(axis=0), wg.prod(x, axis=0), wg.max(x, axis=0), wg.min(x, axis=0)), ((31, 8), (1,))),
    "logic": (lambda x, y: (wg.all(x > -2.0, axis=1), wg.any(x > 2.0, axis=1)), ((31, 12), (1,))),
    "places": (lambda x, y: (wg.argmax(x, axis=1), wg.argmin(x, axis=1)), ((7, 36), (1,))),
    "places of columns": (lambda x, y: wg.argmax(x, axis=0), ((36, 7), (1,))),
    "everything": (lambda x, y: (x * y).sum(), ((40, 24), (40, 24))),
    "entropy": (lambda x, y: wg.cross_entropy(x, wg.arange(9)), ((9, 20), (1,))),
}


def graph_of(name: str, dtype: Any) -> Graph:
    """One of KERNELS as a graph."""
    function, shapes = KERNELS[name]
    since = now()
    inputs = [placeholder(shape, dtype) for shape in shapes]
    result = function(*[wg.Tensor(node) for node in inputs])
    outputs = [r.node for r in (result if isinstance(result, tuple) else (result,))]
    return optimize(Graph(inputs, outputs, since))[0]


@pytest.mark.parametrize("name", KERNELS)
def test_launch_shapes_give_the_same_numbers(name: str) -> None:
    dtypes = [wg.float32, wg.bfloat16] if name in ("chain", "transpose", "softmax", "batchnorm") else [wg.float32]
    programs, works = [], []
    for dtype in dtypes:
        graph = graph_of(name, dtype)
        random = np.random.default_rng(0)
        arrays = [random.standard_normal(node.shape).astype(dtype) for node in graph.inputs]
        arrays[0].reshape(-1)[5] = arrays[0].reshape(-1)[4]  # a tie
        expected = _reference(graph, dict(zip(graph.inputs, arrays)), {n: n.buffer for n in graph.captured()})
        count = max(len(shapes_of(kernel)) for kernel in CudaGraph(graph).kernels)
        for choice in range(-1, count):
            program = CudaGraph(graph, lambda kernel, choice=choice: _written(kernel, choice))
            programs.append((choice, graph, arrays, expected, program))
            works += [work for work, _ in program.works.values()]
    emulator = Emulator(works)
    for choice, graph, arrays, expected, program in programs:
        found = program.run(arrays, emulator, reverse=choice % 2 == 1)
        for node, got, want in zip(graph.outputs, found, expected):
            tolerance = 2e-5 if node.dtype == np.float32 else 2e-2
            label = f"{name} {node.dtype} {[shapes_of(k)[choice % len(shapes_of(k))] for k in program.kernels]}"
            if want.dtype.kind in "bi":
                np.testing.assert_array_equal(got, want, err_msg=label)
            else:
                got, want = got.astype(np.float64), want.astype(np.float64)
                np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance, err_msg=label)


HELD_ROWS = {
    (65536, 1024): (32, 8),
    (65536, 1600): (64, 7),
    (65536, 2048): (128, 4),
    (8192, 8192): (512, 4),
    (512, 8192): (256, 8),
    (4096, 16384): (512, 8),
}


@pytest.mark.parametrize("sizes", HELD_ROWS, ids=str)
@pytest.mark.parametrize("dtype", [wg.float32, wg.bfloat16], ids=str)
def test_rows_that_are_held_leave_room_for_two_blocks(sizes: tuple[int, int], dtype: Any) -> None:
    since = now()
    x, weight = placeholder(sizes, dtype), placeholder(sizes[1:], dtype)
    result = wg.layer_norm(wg.Tensor(x), sizes[1:], wg.Tensor(weight))
    (kernel,) = CudaGraph(optimize(Graph([x, weight], [result.node], since))[0]).kernels
    shape, _ = launch_shape(merge_loops(kernel), H200)
    assert isinstance(shape, Rows)
    if dtype is wg.float32:
        assert (shape.lanes, shape.chunks) == HELD_ROWS[sizes]
    (launch,) = write(kernel, H200).launches
    bounds = re.search(r"__launch_bounds__\(\d+, (\d+)\)", launch.source)
    assert bounds is not None and int(bounds[1]) > 1


@pytest.mark.parametrize(
    ("function", "dtype", "expected"),
    [
        (lambda x: x * 2.0, wg.float32, Elements(4, 1, 128)),
        (wg.exp, wg.float32, Elements(4, 1, 128)),
        (lambda x: wg.gelu(x) * wg.sigmoid(x), wg.float32, Elements(8, 1, 128)),
        (wg.gelu, wg.float32, Elements(4, 2, 128)),
        (wg.gelu, wg.bfloat16, Elements(8, 2, 128)),
    ],
    ids=["copy", "exp", "gelu chain", "gelu", "gelu in half precision"],
)
def test_elements_of_much_arithmetic_are_computed_more_at_once(function: Any, dtype: Any, expected: Elements) -> None:
    since = now()
    x = placeholder((8192, 8192), dtype)
    (kernel,) = CudaGraph(optimize(Graph([x], [function(wg.Tensor(x)).node], since))[0]).kernels
    assert launch_shape(merge_loops(kernel), H200)[0] == expected


def _written(kernel: LoopKernel, choice: int) -> Any:
    """A kernel in one of its shapes; -1: the one that is worked out."""
    shapes = shapes_of(kernel)
    return write(kernel, H200, shapes[choice % len(shapes)] if choice >= 0 else None)


# --- exponentials of half precision ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "quick"), [(wg.float32, False), (wg.bfloat16, True), (wg.float16, True)], ids=str)
def test_exponentials_of_half_precision_are_quick(dtype: Any, quick: bool) -> None:
    x, y = placeholder((8, 64), dtype), placeholder((8, 64), wg.float32)
    wide = wg.Tensor(x).to(wg.float32)
    results = [wg.exp(wide - 1.0) + wide, wg.sigmoid(wide * wg.Tensor(y)), wg.exp(wg.Tensor(y))]
    (work, *others), _ = zip(*CudaGraph(Graph([x, y], [result.node for result in results])).works.values())
    text = "".join(launch.source for one in (work, *others) for launch in one.launches)
    assert ("wg_quick_exp_f32(" in text, "wg_quick_sigmoid_f32(" in text) == (quick, quick)
    assert "wg_exp_f32(" in text  # of float32 in any case


# --- many kernels as one --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [wg.float32, wg.bfloat16], ids=str)
def test_updates_of_many_parameters_are_one_launch(dtype: Any) -> None:
    since = now()
    sizes = [(3, 5), (1000,), (2, 3, 4, 5), (1,), (4, 1024)]
    rate = placeholder((), wg.float32)
    pairs = [(placeholder(shape, dtype), placeholder(shape, wg.float32)) for shape in sizes]
    results = [p - rate * g * g for p, g in pairs]
    graph = Graph([rate, *[node for pair in pairs for node in pair]], results, since)
    program = CudaGraph(graph)
    kinds = [multi_tensor_signature(kernel) for kernel in program.kernels]
    together = [k for k, kind in enumerate(kinds) if kind == kinds[0]]
    assert len(together) == len(sizes) - 1  # that of one element has no loop
    work = write_multi_tensor([program.kernels[k] for k in together], H200)
    assert len(work.launches) == 1
    random = np.random.default_rng(0)
    values = {node: np.asarray(random.standard_normal(node.shape).astype(node.dtype)) for node in graph.inputs}
    works = list(program.works.values())
    nodes = {name: node for k in together for name, node in works[k][1].items()}
    arrays = {name: values[node] if node in values else poison(node) for name, node in nodes.items()}
    Emulator([work]).run(work, arrays)
    expected = dict(zip(results, _reference(graph, values, {})))
    for name, node in nodes.items():
        if node in expected:
            got, want = (np.asarray(a, np.float32) for a in (arrays[name], expected[node]))
            np.testing.assert_allclose(got, want, rtol=1e-6, err_msg=str(node))


def test_counters_are_one_launch() -> None:
    counts = [placeholder((), wg.int64) for _ in range(3)]
    program = CudaGraph(Graph(counts, [count + 1 for count in counts]))
    work = write_multi_tensor(program.kernels, H200)
    assert len(work.launches) == 1
    nodes = {name: node for _, names in program.works.values() for name, node in names.items()}
    arrays = {name: np.array(counts.index(node) if node in counts else -1) for name, node in nodes.items()}
    Emulator([work]).run(work, arrays)
    assert sorted(int(arrays[name]) for name, node in nodes.items() if node not in counts) == [1, 2, 3]


def test_kernels_of_different_texts_are_not_one_launch() -> None:
    x = placeholder((5,), wg.float32)
    kernels = [CudaGraph(Graph([x], [result])).kernels[0] for result in (x + 1.0, x * 2.0)]
    with pytest.raises(ValueError, match="different texts"):
        write_multi_tensor(kernels, H200)


# --- compiling ------------------------------------------------------------------------------------------------------


def unit(works: Iterable[LaunchList]) -> str:
    """All texts of some works as one."""
    texts = dict.fromkeys(launch.source for work in works for launch in work.launches)
    return '#include "block.cuh"\n' + "".join(text.replace('#include "block.cuh"\n', "") for text in texts)


@pytest.mark.parametrize("device", [RTX_2080, H200], ids=lambda device: f"sm_{device.arch}")
def test_kernels_compile(device: DeviceProperties) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="compiling CUDA needs the cuda extra")
    first = device is H200  # each kernel in one of the dtypes for one device, in the other for the other
    kinds = [(name, (wg.float32, wg.bfloat16)[(first + i) % 2]) for i, name in enumerate(KERNELS) if name != "entropy"]
    programs = [CudaGraph(graph_of(*kind), lambda kernel: write(kernel, device)) for kind in kinds]
    x = [placeholder((n,), wg.bfloat16) for n in (100, 7)]
    many = write_multi_tensor(CudaGraph(Graph(x, [x[0] * 2.0, x[1] * 2.0])).kernels, device)
    cubin(unit([many, *(work for program in programs for work, _ in program.works.values())]), device.arch)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["75", "80", "86", "89", "90a", "100", "120"])
def test_kernels_of_every_op_compile(arch: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="compiling CUDA needs the cuda extra")
    wg.synchronize()
    since = now()
    works: list[LaunchList] = []
    for case in CASES:
        parts = record(case)
        if parts is not None:
            works += [work for work, _ in CudaGraph(Graph(parts[0], parts[2], since)).works.values()]
    cubin(unit(works), arch)


# --- exactness ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", [0.0, 100.0, 1e4])
def test_variances_in_one_pass_are_as_exact_as_in_two(mean: float) -> None:
    since = now()
    x = placeholder((500, 24), wg.float32)
    graph = Graph([x], [_standardized(wg.Tensor(x), 0).node], since)
    array = np.random.default_rng(0).standard_normal((500, 24)).astype(np.float32) + np.float32(mean)
    wide = array.astype(np.float64)
    exact = (wide - wide.mean(0)) / np.sqrt(wide.var(0) + 1e-5)
    two_passes = np.abs(_reference(graph, {x: array}, {n: n.buffer for n in graph.captured()})[0] - exact).max()
    for shape in (Columns(4, 6, 16), Columns(4, 6, 4, 7), Rows(1, 64, 1, 0)):
        program = CudaGraph(graph, lambda kernel, shape=shape: write(kernel, H200, shape))
        assert len(program.works) == 1
        one_pass = np.abs(program.run([array])[0] - exact).max()
        assert one_pass < 2 * two_passes + 1e-6


def test_passes_over_columns_have_several_loads_on_their_way() -> None:
    x = placeholder((1 << 19, 64), wg.bfloat16)
    graph = Graph([x], [_standardized(wg.Tensor(x).astype(wg.float32), 0).astype(wg.bfloat16).node])
    [(work, _)] = CudaGraph(graph).works.values()
    assert [launch.grid[0] for launch in work.launches] == [H200.sms] * 2
    for launch in work.launches:  # a block to an SM may have all of its registers
        assert f"__launch_bounds__({launch.block[0]}, 1)" in launch.source
    sequences = [re.findall(r"#pragma unroll 8\n +for \((.*)\)", launch.source) for launch in work.launches]
    assert sequences == [
        ["int at = first + down; at < last; at += 64"],
        ["int step = first + down; step < last; step += 64"],
    ]


@pytest.mark.parametrize("value", [0.0, 1.0, -3.0, 1e30, 1e-30, np.inf, np.nan])
def test_quotients_by_a_number_of_a_row_are_divisions(value: float) -> None:
    since = now()
    x = placeholder((3, 64), wg.float32)
    graph = Graph([x], [(wg.Tensor(x) / wg.max(wg.Tensor(x), axis=1, keepdims=True)).node], since)
    array = np.random.default_rng(0).standard_normal((3, 64)).astype(np.float32)
    array[0, 7], array[1], array[2, 0] = value, np.minimum(array[1], 0) * np.float32(1e-3), np.inf
    with np.errstate(all="ignore"):
        want = array / array.max(1, keepdims=True)
    got = CudaGraph(graph).run([array])[0]
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    np.testing.assert_array_almost_equal_nulp(got[finite], want[finite], nulp=1)


def test_erfc_is_exact_to_a_few_ulp() -> None:
    since = now()
    x = placeholder((40_000,), wg.float32)
    graph = Graph([x], [wg.erfc(wg.Tensor(x)).node], since)
    array = np.linspace(-11, 11, 40_000, dtype=np.float32)
    array[:6] = np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40
    got = CudaGraph(graph).run([array])[0]
    exact = np.array([math.erfc(each) for each in array])
    ulp = np.spacing(np.abs(exact[1:]).astype(np.float32))
    assert np.isnan(got[0])
    assert np.max(np.abs(got[1:] - exact[1:]) / ulp) < 6


def test_kernels_that_differ_in_names_alone_are_written_once() -> None:
    first, second = (CudaGraph(graph_of("softmax", wg.float32)).kernels[0] for _ in range(2))
    works = [write(kernel, H200) for kernel in (first, second)]
    assert list(first.buffers) != list(second.buffers)
    assert works[0].launches[0].source is works[1].launches[0].source
    for kernel, work in zip((first, second), works):
        assert set(work.launches[0].buffers) == set(kernel.buffers)


def test_what_has_no_elements_is_not_read_before_the_loop_over_them() -> None:
    since = now()
    empty, column = placeholder((0, 4), wg.float32), placeholder((4,), wg.float32)
    graph = Graph([empty, column], [(wg.Tensor(empty) + wg.Tensor(column)).sum(axis=0).node], since)
    (kernel,) = CudaGraph(graph).kernels
    read = {s.buffer for stage in kernel.stages for s in stage.before if isinstance(s, Load)}
    assert read == {f"n{column.serial}"}
