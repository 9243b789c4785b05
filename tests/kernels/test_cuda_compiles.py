"""Every CUDA kernel that is not of a fused group compiles with NVRTC for the devices it is meant for."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.compiler.loop_graphs import loop_graph
from tests.kernels.test_attention_cuda import CASES, node_of
from tests.kernels.test_gemm import product
from tests.kernels.test_prebuilt import FAMILIES
from tests.kernels.test_recurrent_cuda import trained, work_for
from tests.runtime.adaptive import oscillator
from wengert.backends.cuda.compile import cubin
from wengert.compiler.passes import optimize
from wengert.core.dtypes import bfloat16, float16, float32, float64, int32, uint16
from wengert.core.graph import Graph
from wengert.kernels import prebuilt
from wengert.kernels.attention import cuda as attention_cuda
from wengert.kernels.convolution import cuda as convolution_cuda
from wengert.kernels.convolution.cuda import ConvolutionForm, Form
from wengert.kernels.launch import H200, RTX_2080, DeviceProperties, LaunchList, has_work, work_of
from wengert.kernels.matmul.cuda import candidates, write
from wengert.kernels.pool.cuda import PoolWindows, max_pool, max_pool_back, sum_pool
from wengert.ops import registry
from wengert.ops.convolve import CONVOLVE
from wengert.ops.core import placeholder
from wengert.ops.op import picks
from wengert.plan.lowering import picks as picks_of

pytest.importorskip("cuda.bindings.nvrtc", reason="compiling CUDA needs the cuda extra")

STEM = Form(8, 1, 3, 64, (1, 32, 32), (1, 7, 7), (1, 16, 16), (1, 2, 2), (0, 3, 3), (1, 1, 1))
FOLDED = Form(8, 1, 12, 64, (1, 112, 112), (1, 4, 4), (1, 112, 112), (1, 1, 1), (0, 2, 2), (1, 1, 1))
SQUARE = Form(8, 1, 64, 64, (1, 56, 56), (1, 3, 3), (1, 56, 56), (1, 1, 1), (0, 1, 1), (1, 1, 1))
DEPTHWISE = Form(8, 6, 1, 1, (1, 9, 9), (1, 3, 3), (1, 9, 9), (1, 1, 1), (0, 1, 1), (1, 1, 1))
SEVERAL = replace(DEPTHWISE, ins=2, outs=3, stride=(1, 2, 1), count=(1, 5, 9))


def every_work(device: DeviceProperties) -> Iterator[LaunchList]:
    """A work of every kernel, over dtypes and transposes; only the first tile of a rung."""
    for dtype, tf32 in (
        (float32, False),
        (float32, True),
        (bfloat16, False),
        (float16, False),
        (float64, False),
        (int32, False),
    ):
        for transposed in ((False, False), (False, True), (True, False)):
            p = product((256, 256, 4096), transposed, dtype, tf32=tf32)
            rungs = {(tile.rung, tile.split > 1): tile for tile in reversed(candidates(p, device))}
            yield from (write(p, tile, device) for tile in rungs.values())
    for form, name in itertools.product((DEPTHWISE, SEVERAL), ("convolve", "convolve_input", "convolve_weight")):
        for dtype in (float32, bfloat16, float16, float64):
            c = ConvolutionForm(registry[name], form, dtype, dtype, last=True)
            yield convolution_cuda.candidates(c, "a", "b", "c", device)[0]
    for form in (STEM, DEPTHWISE):
        for name in ("convolve", "convolve_input", "convolve_weight"):
            for dtype in (float32, bfloat16):
                yield convolution_cuda.candidates(
                    ConvolutionForm(registry[name], form, dtype, dtype), "a", "b", "c", device
                )[0]
    for form, name in itertools.product((FOLDED, SQUARE), ("convolve", "convolve_input", "convolve_weight")):
        yield convolution_cuda.candidates(
            ConvolutionForm(registry[name], form, float32, float32, last=True, tf32=True), "a", "b", "c", device
        )[0]
    one_image = ConvolutionForm(CONVOLVE, replace(SQUARE, batch=1), float16, float16, last=True)
    yield convolution_cuda.candidates(one_image, "a", "b", "c", device)[0]
    for dtype in (float32, bfloat16, float16):
        for case in (*CASES, (((2, 64, 128),) * 3, None, {"causal": True, "scale": 0.1})):
            yield from _attention(case, dtype, device)
    for node in (node for family in FAMILIES for node in family()):
        found = prebuilt.work(node, device)
        assert found is not None
        yield found
    windows = PoolWindows(4, (8, 8), (4, 4), (3, 3), (2, 2), (1, 1), inner=8)
    for kind in (float32, bfloat16, int32):
        yield max_pool(windows, kind, uint16, "x", "values", "places")
    yield max_pool_back(windows, np.dtype(float32), uint16, "g", "places", "to")
    yield sum_pool(windows, np.dtype(float32), "x", "to")
    for dtype, tf32 in ((float32, False), (float32, True), (bfloat16, False), (float16, False), (float64, False)):
        for scan in trained("LSTM", 4, 32, 64, dtype=dtype, proj_size=32):
            yield work_for(scan, replace(device, tf32=tf32))[0]
    for seed in range(24):
        yield from _of_loops(loop_graph(seed).graph, device)
    for dtype, count in ((float32, 1_000_000), (float64, 1000)):
        yield from _of_loops(_adaptive(dtype, count), device)


def _adaptive(dtype: Any, count: int) -> Graph:
    """Trajectories with adaptive steps, and their gradient."""
    inputs = [placeholder((count,), dtype) for _ in range(3)]
    loss = lambda *args: sum((end * end).sum() for end in wg.vmap(oscillator)(*args))
    found = wg.tree.flatten(wg.value_and_grad(loss, (0, 1, 2))(*map(wg.Tensor, inputs)))[0]
    return Graph(inputs, [one.node for one in found])


def _of_loops(recorded: Graph, device: DeviceProperties) -> Iterator[LaunchList]:
    """The loops and branches of a graph that are one kernel."""
    graph, _ = optimize(recorded)
    chosen = picks_of(graph)
    for node in graph.nodes:
        if node.op.kind == "function" and has_work(node):
            found = work_of(node, lambda one: f"n{one.serial}", device, chosen.get(node, {}))
            assert found is not None
            yield found


def _attention(case: Any, dtype: Any, device: DeviceProperties) -> Iterator[LaunchList]:
    y, back = node_of(case, dtype)
    forward = attention_cuda.forward(y, lambda node: "n", device)
    backward = attention_cuda.backward(back, lambda node: "n", device, dict(enumerate(picks(back))))
    assert forward is not None and backward is not None
    yield from (forward, backward)


def sources(device: DeviceProperties) -> list[str]:
    return list(dict.fromkeys(launch.source for work in every_work(device) for launch in work.launches))


@pytest.mark.parametrize("device", [RTX_2080, H200], ids=lambda device: device.arch)
def test_some_kernels_compile(device: DeviceProperties) -> None:
    """One text in fifteen; the test below takes them all."""
    for source in sources(device)[::15]:
        cubin(source, device.arch)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["75", "80", "86", "89", "90a", "100", "120"])
def test_every_kernel_compiles(arch: str) -> None:
    for source in sources(replace(H200, arch=arch)):
        cubin(source, arch)
