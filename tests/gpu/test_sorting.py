"""Sorting, selecting, running sums and counting on a GPU: large sizes, and the same bits every time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.gpu.harness import gpu, placed, prepare, submit, this_device
from tests.kernels.test_sorting_cuda import DTYPES, assert_same, elements
from wengert.backends.cuda.bindings import check
from wengert.core.dtypes import HALF, bool_, float32, float64, int8, int32, int64
from wengert.core.graph import Node
from wengert.kernels.launch import LaunchList, work_of
from wengert.ops.core import data
from wengert.ops.counting import BINCOUNT, FLAT_NONZERO
from wengert.ops.running import CUMARGMAX, CUMPROD, CUMSUM, LOGCUMSUMEXP
from wengert.ops.sorting import ARGSORT, SEARCHSORTED, SORT, TOPK

RNG = np.random.default_rng(0)
LARGE = (1 << 22) + 12345
RUNS = 20


def work(node: Node) -> LaunchList:
    """The launches of a node, whose operands are x0, x1, ... and whose result is y."""
    names = {source: f"x{k}" for k, source in enumerate(node.sources)}
    found = work_of(node, lambda value: "y" if value is node else names[value], this_device(), {})
    assert found is not None
    return found


def results(node: Node, runs: int = 1) -> list[np.ndarray]:
    """The result of a node, computed so many times from the same memory; temporaries hold garbage in the beginning."""
    launches, driver = work(node), gpu()
    prepare([launches])
    given = {f"x{k}": np.asarray(source.buffer) for k, source in enumerate(node.sources)}
    empty = {"y": node.size * node.dtype.itemsize, **launches.workspace}
    found = []
    with placed(given, empty) as addresses:
        for _ in range(runs):
            for name, size in empty.items():
                if size:
                    check(driver.cu.cuMemsetD8Async(addresses[name], 0xFF, size, driver.stream))
            for launch in launches.launches:
                submit(launch, addresses)
            found.append(np.empty(node.shape, node.dtype))
            driver.download(found[-1], addresses["y"])
    return found


def reference(node: Node) -> np.ndarray:
    return node.op.run([source.buffer for source in node.sources], node)


def both_ways(op: Any, x: np.ndarray, **attrs: Any) -> list[Node]:
    return [op(data(x), axis=x.ndim - 1, descending=descending, **attrs) for descending in (False, True)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_long_rows_are_sorted(dtype: Any) -> None:
    for shape in ((LARGE,), (3, 100_003), (70, 8193)):
        x = elements(dtype, *shape)
        for op in (ARGSORT, SORT):
            for node in both_ways(op, x):
                assert_same(results(node)[0], reference(node), f"{op.name} {dtype} {shape}")


@pytest.mark.parametrize("size", [1, 2, 31, 64, 65, 127, 128, 129, 256, 257, 512, 1000, 1024, 2048, 2049, 4096, 8192])
def test_rows_that_fit_a_block_are_sorted(size: int) -> None:
    for dtype in (float32, int64, int8):
        x = elements(dtype, 300, size)
        for op in (ARGSORT, SORT):
            for node in both_ways(op, x):
                assert_same(results(node)[0], reference(node), f"{op.name} {dtype} {size}")


def test_other_axes_are_sorted() -> None:
    for shape, axis in (((1000, 33), 0), ((3, 20_000, 5), 1), ((20, 70, 90), 1)):
        node = ARGSORT(data(elements(float32, *shape)), axis=axis, descending=False)
        np.testing.assert_array_equal(results(node)[0], reference(node))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_first_of_rows(dtype: Any) -> None:
    for shape, k in (((LARGE,), 100), ((5, 100_001), 1000), ((40, 1000), 7), ((20_000,), 20_000), ((100_000,), 16_384)):
        for node in both_ways(TOPK, elements(dtype, *shape), k=k):
            np.testing.assert_array_equal(results(node)[0], reference(node), err_msg=f"{dtype} {shape} {k}")


def test_the_first_of_equal_elements() -> None:
    for node in both_ways(TOPK, np.zeros(LARGE, np.float32), k=100):
        np.testing.assert_array_equal(results(node)[0], np.arange(100))


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d is not bool_], ids=str)
def test_running_sums(dtype: Any) -> None:
    for shape, axis in (((LARGE,), 0), ((3, 500_001), 1), ((5000, 300), 1), ((20_000, 7), 0), ((200, 50, 40), 1)):
        x = elements(dtype, *shape) if np.dtype(dtype).kind in "iu" else RNG.normal(size=shape).astype(dtype)
        if dtype in HALF:
            x = (x.astype(np.float32) * 0.01).astype(dtype)
        for backwards in (False, True):
            node = CUMSUM(data(x), axis=axis, backwards=backwards)
            expected = reference(CUMSUM(data(x.astype(np.float64)), axis=axis, backwards=backwards))
            if node.dtype.kind in "iu":
                np.testing.assert_array_equal(results(node)[0], reference(node))
                continue
            tolerance = {2: 1e-2, 4: 1e-5, 8: 1e-12}[node.dtype.itemsize]
            scale = max(1.0, np.abs(expected).max())
            np.testing.assert_allclose(results(node)[0].astype(np.float64), expected, tolerance, tolerance * scale)


def test_running_products_and_extremes() -> None:
    x = RNG.normal(size=(4, 300_000)).astype(np.float32)
    near = RNG.choice([-1, 1, 0.999, 1.001], (4, 300_000)).astype(np.float32)
    exact = np.cumprod(near.astype(np.float64), axis=1)
    np.testing.assert_allclose(results(CUMPROD(data(near), axis=1))[0], exact, 1e-2)
    log = np.logaddexp.accumulate(x.astype(np.float64), axis=1)
    np.testing.assert_allclose(results(LOGCUMSUMEXP(data(x), axis=1))[0], log, 1e-5, 1e-5)
    with_nan = elements(float32, 4, 300_000)
    for operand in (x, with_nan, np.round(x)):
        node = CUMARGMAX(data(operand), axis=1)
        np.testing.assert_array_equal(results(node)[0], reference(node))


def test_searching_and_counting() -> None:
    for dtype in (float32, float64, int32):
        row, values = np.sort(elements(dtype, 100_000)), elements(dtype, 300, 700)
        for side in ("left", "right"):
            node = SEARCHSORTED(data(row), data(values), side=side)
            np.testing.assert_array_equal(results(node)[0], reference(node))
    for dtype in (bool_, int8, float32, int64):
        x = np.where(RNG.random(LARGE) < 0.1, elements(dtype, LARGE), np.zeros((), dtype)).astype(dtype)
        node = FLAT_NONZERO(data(x), size=int(np.count_nonzero(x)))
        np.testing.assert_array_equal(results(node)[0], np.flatnonzero(x))
        for some in (x, x[:-3], x * dtype.type(0)):
            there = wg.tensor(some, device="cuda")
            np.testing.assert_array_equal(wg.nonzero(there)[0].numpy(), np.flatnonzero(some))
            np.testing.assert_array_equal(there[there != 0].numpy(), some[some != 0])
    few = RNG.integers(0, 5000, 1 << 21)
    found = wg.unique(wg.tensor(few, device="cuda"), return_index=True, return_inverse=True, return_counts=True)
    expected = np.unique(few, return_index=True, return_inverse=True, return_counts=True)
    for one, other in zip(found, expected):
        np.testing.assert_array_equal(one.numpy(), other)
    for size in (1, 10, 1000, 8192, 8193, 1_000_000):
        node = BINCOUNT(data(RNG.integers(0, size, LARGE)), size=size)
        np.testing.assert_array_equal(results(node)[0], reference(node))


CASES: dict[str, Callable[[], Node]] = {
    "argsort": lambda: ARGSORT(data(elements(float32, LARGE)), axis=0, descending=False),
    "sort": lambda: SORT(data(elements(int64, LARGE)), axis=0, descending=True),
    "topk": lambda: TOPK(data(elements(float32, LARGE)), k=300, axis=0, descending=True),
    "cumsum": lambda: CUMSUM(data(RNG.normal(size=4 * LARGE).astype(np.float32)), axis=0, backwards=False),
    "cumsum of float64": lambda: CUMSUM(data(RNG.normal(size=LARGE)), axis=0, backwards=True),
    "cumsum of rows": lambda: CUMSUM(data(RNG.normal(size=(7, 600_000)).astype(np.float32)), axis=1, backwards=False),
    "logcumsumexp": lambda: LOGCUMSUMEXP(data(RNG.normal(size=LARGE).astype(np.float32)), axis=0),
    "bincount": lambda: BINCOUNT(data(RNG.integers(0, 1000, LARGE)), size=1000),
}


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_every_time(name: str) -> None:
    first, *others = results(CASES[name](), RUNS)
    assert all(other.tobytes() == first.tobytes() for other in others)


def test_nothing_is_read_back_but_sizes() -> None:
    """Functions of data-dependent shape, from values on the device."""
    x = wg.tensor(np.where(RNG.random(1000) < 0.5, RNG.normal(size=1000), 0).astype(np.float32), device="cuda")
    expected = np.nonzero(x.numpy())[0]
    before = wg.cuda.transfers()["downloaded"]
    found = wg.nonzero(x)[0]
    values = x[x > 0]
    wg.synchronize()
    assert wg.cuda.transfers()["downloaded"] - before <= 32
    np.testing.assert_array_equal(found.numpy(), expected)
    np.testing.assert_array_equal(values.numpy(), x.numpy()[x.numpy() > 0])
