"""Fourier transforms on the GPU by cuFFT: values, sizes, axes and norms, gradients, and replay from a graph."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.gpu.test_linalg import compare, random
from wengert.backends.cuda import fft

pytestmark = pytest.mark.skipif(fft.library() is None, reason="transforms need cuFFT")

NORMS = ("backward", "ortho", "forward")


@pytest.mark.parametrize("dtype", (np.complex64, np.complex128))
@pytest.mark.parametrize("norm", NORMS)
def test_complex_transforms(dtype: Any, norm: str) -> None:
    z = random((4, 6, 10), dtype)
    for function in (wg.fft.fft, wg.fft.ifft):
        for axis in range(3):
            compare(partial(function, axis=axis, norm=norm), z)
        compare(partial(function, n=7, axis=1, norm=norm), z)
        compare(partial(function, n=13, norm=norm), z)
    for function in (wg.fft.fftn, wg.fft.ifftn):
        for axes in (None, (0, 1), (1, 2), (2, 0), (0,)):
            compare(partial(function, axes=axes, norm=norm), z)
    compare(lambda z: wg.fft.fft(z, axis=1), random((100, 6, 3), dtype))


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
@pytest.mark.parametrize("norm", NORMS)
def test_real_transforms(dtype: Any, norm: str) -> None:
    x, z = random((4, 6, 10), dtype), random((4, 6, 6), np.result_type(dtype, np.complex64))
    for axis in range(3):
        compare(partial(wg.fft.rfft, axis=axis, norm=norm), x)
        compare(partial(wg.fft.irfft, axis=axis, norm=norm), z)
    compare(lambda z: wg.fft.irfft(z, n=9, norm=norm), z)
    compare(lambda z: wg.fft.hfft(z, norm=norm), z)
    compare(lambda x: wg.fft.ihfft(x, norm=norm), x)
    for axes in (None, (1, 2), (2, 0)):
        compare(partial(wg.fft.rfftn, axes=axes, norm=norm), x)
        compare(partial(wg.fft.irfftn, axes=axes, norm=norm), z)
    compare(lambda x: wg.fft.fft(x, norm=norm), x)


@pytest.mark.parametrize("size", (1, 2, 3, 7, 16, 97, 100, 1000, 1021, 4096, 6000, 65536))
def test_sizes(size: int) -> None:
    compare(wg.fft.fft, random((3, size), np.complex128))
    compare(lambda x: wg.fft.irfft(wg.fft.rfft(x), n=size), random((3, size), np.float64))


def test_gradients() -> None:
    x, z = random((3, 10), np.float64), random((3, 10), np.complex128)
    power = lambda x: (wg.abs(x) ** 3).sum()
    compare(wg.grad(lambda x: power(wg.fft.rfft(x))), x)
    compare(wg.grad(lambda x: power(wg.fft.rfft(x, n=7, norm="ortho"))), x)
    compare(wg.grad(lambda x: power(wg.fft.rfftn(x))), x)
    compare(wg.grad(lambda z: power(wg.fft.irfft(z))), z)
    compare(wg.grad(lambda z: power(wg.fft.fft(z, axis=0))), z)


def test_what_a_real_inverse_reads_stays_as_it_is() -> None:
    def both(z: Any) -> Any:
        doubled = z * 2
        return wg.fft.irfft(doubled, norm="forward"), doubled

    compare(both, random((5, 501), np.complex128))
    z = wg.tensor(random((5, 1022), np.complex128), device="cuda")
    before = z.numpy().copy()
    wg.fft.irfft(z).numpy()
    np.testing.assert_array_equal(z.numpy(), before)


def test_transforms_are_captured() -> None:
    compiled = wg.compile(lambda x: wg.abs(wg.fft.rfft(x * 2)).sum())
    x = wg.tensor(random((64, 4096), np.float32), device="cuda")
    for _ in range(4):
        compiled(x).numpy()
    pieces = compiled._newest("a test").program.pieces
    assert [piece.graph is not None for piece in pieces] == [True]
