"""Rows that pick an element: vectors that do not have it are computed by less text, and give the same bits."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import IdleDriver, install
from tests.kernels.cuda_graphs import Array, CudaGraph
from tests.kernels.emulator import compiler
from wengert.backends.cuda.compile import cubin
from wengert.compiler import align
from wengert.compiler.passes import optimize
from wengert.core.graph import Graph, now
from wengert.kernels.cuda import write
from wengert.kernels.cuda.shapes import Rows
from wengert.kernels.ir.loops import LoopKernel
from wengert.kernels.launch import H200, RTX_2080, DeviceProperties, LaunchList
from wengert.ops.core import placeholder
from wengert.plan import lower

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate CUDA with")

GPU = "cuda:0"
ALIGNED = 576  # elements: 72 vectors of 8, of which a thread of 32 has two or three
BRANCH = re.compile(r"if \(\(uint(?:32|64)_t\)[^{]*\{")


@pytest.fixture(autouse=True)
def as_if_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are treated as those of 50257 elements are; nothing runs on the GPU that values are said to be on."""
    install(monkeypatch, IdleDriver(), GPU)
    monkeypatch.setattr(lower, "ROW_FITS", 0)
    monkeypatch.setattr(align, "WORTH", 0)
    monkeypatch.setattr(align, "SHORTEST", 1)


def in_shared(kernel: LoopKernel, vector: int = 8, device: DeviceProperties = H200) -> LaunchList:
    """The launches of a kernel, in shared memory if it has rows."""
    rows = kernel.inner and kernel.inner[-1].extent == ALIGNED
    return write(kernel, device, Rows(vector, 32, 1, 0, in_shared=True) if rows else None)


def always(condition: str, kernel: LoopKernel) -> LaunchList:
    """The same with a condition in place of the one that asks for the element."""
    work = in_shared(kernel)
    launches = [replace(x, source=BRANCH.sub(f"if ({condition}) {{", x.source)) for x in work.launches]
    return LaunchList(tuple(launches), work.workspace)


def text_of(program: CudaGraph) -> str:
    """All that a program launches."""
    return "\n".join(launch.source for work, _ in program.works.values() for launch in work.launches)


# --- cross-entropy --------------------------------------------------------------------------------------------------


def loss_graph(width: int, count: int) -> Graph:
    """Cross-entropy with its gradient for scores in half precision that a product makes, as in a language model."""
    since = now()
    one, scores = (placeholder((count, n), wg.bfloat16, GPU) for n in (count, width))
    targets = placeholder((count,), wg.int64, GPU)

    def loss(scores: wg.Tensor) -> wg.Tensor:
        return wg.cross_entropy((wg.Tensor(one) @ scores).to(wg.float32), wg.Tensor(targets))

    value, gradient = wg.value_and_grad(loss)(wg.Tensor(scores))
    return optimize(Graph([one, scores, targets], [value.node, gradient.node], since))[0]


def expected_loss(scores: Array, targets: Array) -> tuple[Any, Array]:
    """The loss and its gradient in double precision."""
    wide = scores.astype(np.float64)
    chances = np.exp(wide) / np.exp(wide).sum(1, keepdims=True)
    rows = np.flatnonzero(targets != -100)
    picked = rows, targets[rows]
    gradient = np.where(targets[:, None] != -100, chances, 0)
    gradient[picked] -= 1
    return -np.log(chances[picked]).mean(), gradient / len(rows)


@pytest.mark.parametrize("width", [ALIGNED, ALIGNED - 3, 515], ids=["whole", "padded", "padded by vectors"])
def test_cross_entropy_is_that_of_its_targets_wherever_they_lie(width: int) -> None:
    random = np.random.default_rng(0)
    edges = [0, 1, 7, 8, 255, 256, 257, 504, 511, 512, width - 8, width - 2, width - 1, -100]
    targets = np.array([*edges, *random.integers(0, width, 10)])
    scores = (2 * random.standard_normal((len(targets), width))).astype(wg.bfloat16)
    arrays = [np.eye(len(targets)).astype(wg.bfloat16), scores, targets]
    graph = loss_graph(width, len(targets))
    program = CudaGraph(graph, in_shared)
    assert len(BRANCH.findall(text_of(program))) == 1
    value, gradient = program.run(arrays)
    assert not program.errors.any()
    for got, want in zip((value, gradient), expected_loss(scores, targets)):
        np.testing.assert_allclose(got.astype(np.float64), want, rtol=2e-2, atol=1e-7)
    np.testing.assert_allclose(value, expected_loss(scores, targets)[0], rtol=1e-5)
    general = CudaGraph(graph, lambda kernel: always("true", kernel)).run(arrays)
    assert (value.tobytes(), gradient.tobytes()) == tuple(each.tobytes() for each in general)
    never = CudaGraph(graph, lambda kernel: always("false", kernel)).run(arrays)
    assert value != never[0] and gradient.tobytes() != never[1].tobytes()


def test_elements_that_are_not_picked_add_nothing() -> None:
    text = text_of(CudaGraph(loss_graph(ALIGNED, 16), in_shared))
    branch = BRANCH.search(text)
    assert branch is not None
    picked, rest = text[branch.end() :].split("else {")
    assert len(re.findall(r"\(v\d+ == v\d+\)", picked)) == 2 and "wg_sum()" in picked
    rest = rest[: rest.index("wg_store(")]
    assert "==" not in rest and "wg_sum()" not in rest
    assert re.search(r"\(v\d+ \+ v\d+\);", rest)  # 0 + x, which is not x for -0


@pytest.mark.parametrize("target", [ALIGNED, -1, 1 << 32, (1 << 32) + 5, -(1 << 63)])
def test_targets_out_of_range_are_found(target: int) -> None:
    program = CudaGraph(loss_graph(ALIGNED, 16), in_shared)
    scores = np.ones((16, ALIGNED), wg.bfloat16)
    program.run([np.eye(16).astype(wg.bfloat16), scores, np.array([*range(15), target])])
    assert program.errors.any()


@pytest.mark.parametrize("device", [RTX_2080, H200], ids=lambda device: f"sm_{device.arch}")
def test_kernels_that_pick_compile(device: DeviceProperties) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="compiling CUDA needs the cuda extra")
    program = CudaGraph(loss_graph(ALIGNED, 16), lambda kernel: in_shared(kernel, device=device))
    (text,) = [x.source for work, _ in program.works.values() for x in work.launches if BRANCH.search(x.source)]
    cubin(text, device.arch)


# --- other rows -----------------------------------------------------------------------------------------------------


def rows_graph(function: Callable[..., wg.Tensor], dtype: Any, count: int = 8) -> Graph:
    """Something of a row's scores less their maximum, the scores and a number of the row."""
    since = now()
    scores, numbers = placeholder((count, ALIGNED), wg.bfloat16), placeholder((count, 1), dtype)
    wide = wg.Tensor(scores).to(wg.float32)
    result = function(wide - wg.max(wide, axis=1, keepdims=True), wide, wg.Tensor(numbers))
    return optimize(Graph([scores, numbers], [result.node], since))[0]


def chosen(dtype: Any) -> Callable[..., wg.Tensor]:
    """The difference at a place, and the scores at all others."""
    return lambda below, scores, number: wg.where(wg.arange(ALIGNED, dtype=dtype) == number, below, scores)


NEAR = [0, 7, 8, ALIGNED - 1, ALIGNED]


@pytest.mark.parametrize(
    ("dtype", "numbers"),
    [
        (wg.int32, [*NEAR, -1, -(1 << 31), (1 << 31) - 1]),
        (wg.uint32, [*NEAR, (1 << 31) + 7, (1 << 32) - 1]),
        (wg.int64, [*NEAR, -1, 1 << 32, (1 << 32) + 5, -(1 << 32) + 5, -(1 << 63), (1 << 63) - 1]),
        (wg.uint64, [*NEAR, (1 << 32) + 5, (1 << 64) - 1]),
    ],
    ids=lambda value: str(value) if value in (wg.int32, wg.uint32, wg.int64, wg.uint64) else "",
)
def test_numbers_far_from_all_places_pick_nothing(dtype: Any, numbers: list[int]) -> None:
    program = CudaGraph(rows_graph(chosen(dtype), dtype, len(numbers)), in_shared)
    assert f"(uint{8 * np.dtype(dtype).itemsize}_t)" in "".join(BRANCH.findall(text_of(program)))
    scores = np.random.default_rng(0).standard_normal((len(numbers), ALIGNED)).astype(wg.bfloat16)
    (got,) = program.run([scores, np.array(numbers, dtype)[:, None]])
    wide = scores.astype(np.float32)
    at = np.array([[place == number for place in range(ALIGNED)] for number in numbers])
    np.testing.assert_array_equal(got, np.where(at, wide - wide.max(1, keepdims=True), wide))


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (lambda below, scores, number: below * number, wg.float32),
        (lambda below, scores, number: wg.where(scores == number, below, scores), wg.float32),
        (chosen(wg.int16), wg.int16),
        (chosen(wg.float32), wg.float32),
    ],
    ids=["no comparison", "of an element", "of a place that may wrap", "of a place that may be rounded"],
)
def test_rows_that_pick_nothing_have_one_text(function: Any, dtype: Any) -> None:
    text = text_of(CudaGraph(rows_graph(function, dtype), in_shared))
    assert "char shared[]" in text and "else {" not in text


def test_elements_one_at_a_time_are_compared_one_at_a_time() -> None:
    text = text_of(CudaGraph(rows_graph(chosen(wg.int64), wg.int64), lambda kernel: in_shared(kernel, vector=1)))
    assert "char shared[]" in text and "else {" not in text
