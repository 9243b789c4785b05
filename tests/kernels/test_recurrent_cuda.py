"""The kernel of recurrences without a GPU: cells of all kinds, run by the emulator and by the reference."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.kernels.cores import emulated
from tests.kernels.emulator import Emulator, compiler
from wengert.autodiff.scan import SCAN
from wengert.compiler.passes import optimize
from wengert.core import tree
from wengert.core.dtypes import bfloat16, float16, float32, float64
from wengert.core.graph import Graph, Node, now
from wengert.kernels.launch import H200, RTX_2080, Asked, DeviceProperties, LaunchList
from wengert.kernels.recurrent.body import recurrence_of
from wengert.kernels.recurrent.cuda import work
from wengert.ops.core import LITERAL, placeholder
from wengert.ops.op import picks

needs_compiler = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++")

SMALL = replace(H200, sms=8)
TF32 = replace(SMALL, tf32=True)
TURING = replace(RTX_2080, sms=8)


def scans(function: Callable[..., Any], *shapes: tuple[int, ...], dtype: Any = float32) -> list[Node]:
    """The scans of a function after the passes."""
    start = now()
    inputs = [placeholder(shape, dtype) for shape in shapes]
    results = tree.flatten(function(*map(wg.Tensor, inputs)))[0]
    graph = optimize(Graph(inputs, [result.node for result in results], start))[0]
    return [node for node in graph.nodes if node.op is SCAN]


def trained(kind: str, steps: int, batch: int, size: int, dtype: Any = float32, **options: Any) -> list[Node]:
    """The scans of a layer and of its gradient."""
    layer = getattr(wg.nn, kind)(size, size, dtype=dtype, **options)
    wg.synchronize()

    def gradient(x: wg.Tensor) -> Any:
        def loss(x: wg.Tensor) -> wg.Tensor:
            outputs, state = layer(x)
            last = sum((wg.sum(wg.sin(leaf)) for leaf in tree.flatten(state)[0]), wg.tensor(0.0, dtype=dtype))
            return last + wg.sum(outputs * outputs)

        return wg.grad(loss)(x)

    return scans(gradient, (steps, batch, size), dtype=dtype)


def arrays_of(scan: Node) -> list[np.ndarray[Any, Any]]:
    """Random sources; weights shrink with their depth, as a layer's do, or each step would amplify roundings."""
    rng = np.random.default_rng(1)
    found: dict[Node, np.ndarray[Any, Any]] = {}
    for source in scan.sources:  # one may stand there twice
        if source.op is LITERAL:
            found[source] = np.asarray(source.attrs["value"], source.dtype)
        elif source.dtype is wg.bool:
            found[source] = rng.random(source.shape) < 0.7
        else:
            bound = 0.5 / min(np.sqrt(max(source.shape, default=1) / 16), 8) if source.ndim == 2 else 0.5
            found[source] = rng.uniform(-bound, bound, source.shape).astype(source.dtype)
    return [found[source] for source in scan.sources]


def work_for(
    scan: Node, device: DeviceProperties, read: Collection[int] | None = None
) -> tuple[LaunchList, dict[str, np.ndarray[Any, Any]]]:
    """The launches of a scan of which some results are read, or all; and the arrays: random sources, the results."""
    found = [node for k, node in enumerate(picks(scan)) if read is None or k in read]
    results = {node.attrs["index"]: node for node in found}
    names = {node: f"source{k}" for k, node in enumerate(scan.sources)}
    names |= {node: f"result{k}" for k, node in results.items()}
    done = work(scan, names.__getitem__, device, Asked(results))
    assert done is not None, recurrence_of(scan)
    arrays = {names[source]: array for source, array in zip(scan.sources, arrays_of(scan))}
    return done, arrays | {names[node]: np.full(node.shape, 99, node.dtype) for node in found}


def check_results(scan: Node, arrays: Mapping[str, np.ndarray[Any, Any]], tolerance: float) -> None:
    """Compare what a kernel has written with the reference."""
    for k, wanted in enumerate(scan.op.numpy(*arrays_of(scan), **scan.attrs)):
        if f"result{k}" not in arrays:
            continue
        got, exact = (np.asarray(x, np.float64) for x in (arrays[f"result{k}"], wanted))
        error = np.abs(got - exact).max() / (np.abs(exact).max() + 1e-3)
        assert error < tolerance, f"result {k} of {scan.attrs['steps']} steps: {error}"


def check(
    scan: Node, device: DeviceProperties, tolerance: float, reverse: bool = False, read: Collection[int] | None = None
) -> LaunchList:
    """Run a scan by the kernel and by the reference."""
    done, arrays = work_for(scan, device, read)
    done = emulated(done)
    Emulator([done]).run(done, arrays, reverse)
    check_results(scan, arrays, tolerance)
    return done


@needs_compiler
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_layers_forwards_and_backwards(kind: str) -> None:
    found = trained(kind, 4, 5, 16)
    assert len(found) == 2
    for scan in found:
        for reverse in (False, True):
            check(scan, SMALL, 2e-5, reverse)


@needs_compiler
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_results_that_nobody_reads_are_not_written(kind: str) -> None:
    """The last carry alone, the outputs alone, and what only a backward pass reads."""
    for scan in trained(kind, 3, 5, 16):
        for k in range(len(scan.shape)):
            check(scan, SMALL, 2e-5, read=[k])


@needs_compiler
@pytest.mark.parametrize("device", [SMALL, TF32, TURING], ids=["float32", "tf32", "sm_75"])
def test_two_products_follow_each_other_in_a_step(device: DeviceProperties) -> None:
    """A projection: what it reads is made in the same step."""
    for scan in trained("LSTM", 3, 17, 32, proj_size=16):
        check(scan, device, 1e-2 if device.tf32 else 2e-5)


@needs_compiler
@pytest.mark.parametrize("dtype", [bfloat16, float16, float64], ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("device", [SMALL, TURING], ids=["sm_90", "sm_75"])
def test_dtypes(dtype: Any, device: DeviceProperties) -> None:
    for scan in trained("GRU", 3, 16, 16, dtype=dtype):
        check(scan, device, 1e-12 if dtype is float64 else 2e-2)


@needs_compiler
@pytest.mark.parametrize("batch, size", [(1, 8), (2, 5), (3, 33), (40, 24)])
def test_sizes_that_fill_no_tile(batch: int, size: int) -> None:
    for scan in trained("LSTM", 3, batch, size):
        check(scan, SMALL, 2e-5)


@needs_compiler
def test_tensor_cores_round_to_tf32() -> None:
    found = [check(scan, TF32, 5e-3) for kind in ("LSTM", "GRU") for scan in trained(kind, 3, 20, 32)]
    assert any("wg_mma_core" in work.launches[1].source for work in found)


@needs_compiler
def test_weights_stay_in_registers() -> None:
    for dtype, tf32 in ((float32, True), (bfloat16, False)):
        found = [check(scan, replace(SMALL, tf32=tf32), 3e-2) for scan in trained("RNN", 3, 16, 128, dtype=dtype)]
        assert all("256, 128>" in work.launches[1].source for work in found)
