"""The kernels for running sums, products and extremes, run by the emulator, against the references."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.kernels.emulator import Emulator, compiler
from tests.kernels.test_addressing_cuda import reference, worked
from tests.kernels.test_sorting_cuda import DTYPES, elements
from wengert.core.dtypes import HALF, bool_, complex64, complex128, float16, float32, float64, int8, int32, int64
from wengert.core.graph import Node
from wengert.kernels.launch import H200, DeviceProperties, LaunchList
from wengert.kernels.scan import cuda as running_cuda
from wengert.ops.core import data
from wengert.ops.running import CUMARGMAX, CUMARGMIN, CUMPROD, CUMSUM, LOGCUMSUMEXP

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with")

RNG = np.random.default_rng(0)
FEW_BLOCKS = replace(H200, sms=1)  # more rows than warps, and lines of several parts


def factors(dtype: Any, *shape: int) -> np.ndarray:
    """Numbers whose products and sums stay small."""
    if np.dtype(dtype).kind in "iu":
        return elements(dtype, *shape)
    if np.dtype(dtype).kind == "c":
        return np.exp(1j * RNG.normal(size=shape)).astype(dtype)
    return RNG.choice([-1.0, 1.0, 1.01, 0.99], shape).astype(dtype)


def ops(dtype: Any, *shape: int, axis: int = -1) -> Iterator[Node]:
    axis %= len(shape)
    x = data(factors(dtype, *shape))
    yield CUMSUM(x, axis=axis, backwards=False)
    yield CUMSUM(x, axis=axis, backwards=True)
    yield CUMPROD(x, axis=axis)
    if np.dtype(dtype).kind != "c":
        yield CUMARGMAX(data(elements(dtype, *shape)), axis=axis)
        yield CUMARGMIN(data(elements(dtype, *shape)), axis=axis)
    if np.dtype(dtype).kind not in "biuc":
        yield LOGCUMSUMEXP(data((5 * RNG.normal(size=shape)).astype(dtype)), axis=axis)


def check(nodes: list[Node], device: DeviceProperties = H200) -> None:
    """Carry out nodes, compare them with their references, and both ways round with one another, bit by bit."""
    works = [worked(node, partial(running_cuda.running, device=device)) for node in nodes]
    emulator = Emulator([work for work, _ in works])
    for node, (work, arrays) in zip(nodes, works):
        found = []
        for reverse in (False, True):
            emulator.run(work, arrays, reverse)
            found.append(arrays[f"b{node.serial}"].copy())
        about = f"{node.op.name} {node.sources[0].dtype} {node.shape} {node.attrs}"
        assert found[0].tobytes() == found[1].tobytes(), about
        expected, got = reference(node), found[0]
        if node.dtype.kind in "iub":
            np.testing.assert_array_equal(got, expected, err_msg=about)
            continue
        if node.dtype in HALF:
            got, expected = got.astype(np.float64), expected.astype(np.float64)
        tolerance = {2: 1e-2, 4: 1e-5, 8: 1e-5}.get(node.dtype.itemsize, 1e-9) if node.dtype != float64 else 1e-9
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * 100, err_msg=about)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d is not bool_] + [complex64, complex128], ids=str)
def test_every_dtype(dtype: Any) -> None:
    check([*ops(dtype, 3, 700), *ops(dtype, 5, 7), *ops(dtype, 6, 3, axis=0), *ops(dtype, 130)])


@pytest.mark.parametrize("shape", [(1,), (16,), (17,), (127,), (128,), (129,), (3, 512), (2, 513), (1, 1025)], ids=str)
def test_rows_of_all_lengths(shape: tuple[int, ...]) -> None:
    check([*ops(float32, *shape), *ops(float64, *shape), *ops(int8, *shape)])


@pytest.mark.parametrize("shape", [(2, 8192), (8193,), (2, 17001)], ids=str)
def test_rows_of_several_tiles(shape: tuple[int, ...]) -> None:
    check([*ops(float32, *shape), *ops(int64, *shape)])


def test_more_tiles_than_a_group_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running_cuda.Running, "chunks", 1)
    monkeypatch.setattr(running_cuda, "THREADS", 32)
    check([*ops(float32, 2, 128 * 259 + 5), *ops(float64, 128 * 257)][::2])


def test_axes_before_the_last() -> None:
    check([*ops(float32, 300, 3, axis=0), *ops(int32, 2, 200, 5, axis=1), *ops(float16, 70, 4, axis=0)], FEW_BLOCKS)


def test_more_rows_than_warps() -> None:
    check([*ops(float32, 700, 40)], FEW_BLOCKS)


def test_nothing_is_launched_for_nothing() -> None:
    for node in ops(float64, 0, 3, axis=0):
        assert worked(node, partial(running_cuda.running, device=H200))[0] == LaunchList(())
