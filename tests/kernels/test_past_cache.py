"""Values past the cache: accesses of every size, the kernels that make them, and the same bits as without."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.kernels.cuda_graphs import CudaGraph
from tests.kernels.emulator import Emulator, compiler
from wengert.backends.cuda.compile import cubin
from wengert.compiler.passes import optimize
from wengert.graph import Graph, now
from wengert.kernels.cuda import write, write_over
from wengert.kernels.cuda.shapes import Rows
from wengert.kernels.launch import H200, Launch, Work
from wengert.ops.core import placeholder

SIDE = 64
LARGE = 4 * SIDE * SIDE  # bytes of a float32 value
SMALL_CACHE = replace(H200, l2=LARGE // 2)

emulated = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate CUDA with")


def program_of(function: Callable[..., Any], *shapes: tuple[int, ...], device: Any = SMALL_CACHE) -> CudaGraph:
    """A function of float32 values as kernels for a device."""
    since = now()
    inputs = [placeholder(shape, wg.float32) for shape in shapes]
    result = function(*[wg.Tensor(node) for node in inputs])
    outputs = [r.node for r in (result if isinstance(result, tuple) else (result,))]
    return CudaGraph(optimize(Graph(inputs, outputs, since))[0], lambda kernel: write(kernel, device))


def launches_of(program: CudaGraph) -> list[Launch]:
    return [launch for work, _ in program.works.values() for launch in work.launches]


def marks(program: CudaGraph) -> tuple[int, int]:
    """How many different loads and stores of a program are past the cache."""
    text = "".join(launch.source for launch in launches_of(program))
    return len(re.findall(r"wg_load_past<", text)), len(re.findall(r"wg_store_past\(", text))


def softmax(x: Any) -> Any:
    return wg.softmax(x, axis=1)


def layernorm(x: Any, weight: Any) -> Any:
    return wg.layer_norm(x, (SIDE,), weight)


SQUARE = (SIDE, SIDE)


@pytest.mark.parametrize(
    ("function", "shapes", "expected"),
    [
        (softmax, [SQUARE], (1, 1)),
        (layernorm, [SQUARE, (SIDE,)], (1, 1)),
        (lambda x: wg.gelu(x) * wg.sigmoid(x), [SQUARE], (1, 1)),
        (lambda x, y, b: (x * y + b, x - y), [SQUARE, SQUARE, (SIDE,)], (2, 2)),
    ],
    ids=["softmax", "layernorm", "gelu", "two of each"],
)
def test_large_values_are_read_and_written_past_the_cache(function: Any, shapes: Any, expected: Any) -> None:
    program = program_of(function, *shapes)
    assert marks(program) == expected
    assert [launch.why.endswith("past the cache") for launch in launches_of(program)] == [True]


def test_values_below_twice_the_cache_are_not() -> None:
    texts = [
        launches_of(program_of(softmax, SQUARE, device=device))[0].source
        for device in (H200, replace(H200, l2=LARGE // 2 + 1))
    ]
    assert texts[0] == texts[1] and "_past" not in texts[0]


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x: x.sum(axis=1), [SQUARE]),
        (lambda x: wg.broadcast_to(x, SQUARE) * 2.0, [(SIDE,)]),
        (lambda x, y: x + y, [(4, *SQUARE), SQUARE]),
        (lambda x: wg.pad(x, (0, 4)) + 1.0, [(SIDE * SIDE,)]),
        (lambda x: x + wg.flip(x, axis=0), [SQUARE]),
        (lambda x, y: x + wg.flip(y, axis=1), [SQUARE, SQUARE]),
        (lambda x: x.T + 1.0, [SQUARE]),
        (lambda x: x * 2.0, [(SIDE * SIDE + 1,)]),
    ],
    ids=["only read", "only written", "broadcast", "guarded", "read twice", "backwards", "transposed", "single"],
)
def test_a_kernel_marks_all_of_its_large_values_or_none(function: Any, shapes: Any) -> None:
    program = program_of(function, *shapes)
    assert marks(program) == (0, 0)
    assert not any("past the cache" in launch.why for launch in launches_of(program))


@pytest.mark.parametrize(("chunks", "expected"), [(2, True), (0, False)])
def test_rows_that_every_pass_reads_again_are_not(chunks: int, expected: bool) -> None:
    (kernel,) = program_of(lambda x: x - x.mean(axis=1, keepdims=True), SQUARE).kernels
    (launch,) = write(kernel, SMALL_CACHE, Rows(4, 8, 4, chunks)).launches
    assert ("_past" in launch.source) == expected


def test_what_is_written_over_an_operand_is_not() -> None:
    (kernel,) = program_of(lambda x: wg.exp(x) * 2.0, SQUARE).kernels
    (operand,) = [name for name, (_, written) in kernel.buffers.items() if not written]
    (result,) = [name for name, (_, written) in kernel.buffers.items() if written]
    over = write_over(kernel, result, operand, SMALL_CACHE)
    assert over is not None and "_past" not in over[1].launches[0].source


@emulated
def test_the_bits_are_those_of_kernels_without() -> None:
    functions = [(softmax, [SQUARE]), (layernorm, [SQUARE, (SIDE,)]), (lambda x: wg.gelu(x) * x, [SQUARE])]
    pairs = [[program_of(f, *shapes, device=device) for device in (SMALL_CACHE, H200)] for f, shapes in functions]
    emulator = Emulator(work for pair in pairs for program in pair for work, _ in program.works.values())
    for past, plain in pairs:
        assert marks(past) == (1, 1)
        random = np.random.default_rng(0)
        arrays = [random.standard_normal(node.shape).astype(np.float32) for node in past.graph.inputs]
        (found,), (expected,) = (program.run(arrays, emulator) for program in (past, plain))
        np.testing.assert_array_equal(found, expected)


KINDS = {"unsigned char": np.uint8, "unsigned short": np.uint16, "float": np.float32, "long long": np.int64}
ACCESSES = [(kind, n) for kind, dtype in KINDS.items() for n in (2, 4, 8, 16) if n * np.dtype(dtype).itemsize <= 64]


def copying(kind: str, n: int) -> Work:
    """Threads that copy n elements each."""
    text = f"""#include "block.cuh"
extern "C" __global__ void copy(const {kind} *__restrict__ from, {kind} *__restrict__ to)
{{
    const int at = threadIdx.x * {n};
    wg_store_past(&to[at], wg_load_past<{n}>(&from[at]));
}}
"""
    return Work((Launch(text, "copy", (1, 1, 1), (3, 1, 1), ("from", "to")),))


@emulated
def test_accesses_past_the_cache_of_every_size() -> None:
    works = [copying(kind, n) for kind, n in ACCESSES]
    emulator = Emulator(works)
    for (kind, n), work in zip(ACCESSES, works):
        array = np.random.default_rng(0).integers(1, 200, 3 * n).astype(KINDS[kind])
        found = np.zeros_like(array)
        emulator.run(work, {"from": array, "to": found})
        np.testing.assert_array_equal(found, array, err_msg=f"{n} x {kind}")


@pytest.mark.parametrize("arch", ["75", "80", "86", "89", "90a", "100", "120"])
def test_they_compile(arch: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="compiling CUDA needs the cuda extra")
    texts = [copying(kind, n).launches[0].source for kind, n in ACCESSES]
    named = [text.replace(" copy(", f" copy{i}(") for i, text in enumerate(texts)]
    cubin("\n".join(named), arch)
