"""Kernels for small matrices, emulated, against what the factors must be, for shapes, dtypes and hard cases."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.kernels.emulator import Emulator, compiler
from wengert.backends.cuda.compile import cubin
from wengert.core.dtypes import bfloat16, complex64, complex128, float32, float64, real_of
from wengert.core.graph import Node
from wengert.kernels.launch import ERROR_FLAG, FAILING_OP, H200, RTX_2080, LaunchList, has_work, work_of
from wengert.ops.core import placeholder
from wengert.ops.decompose import CHOLESKY, FACTOR_EIGH, FACTOR_QR, FACTOR_SVD
from wengert.ops.linalg import DET, INV, SLOGDET, SOLVE, TRIANGULAR_SOLVE
from wengert.ops.op import picks

emulated = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with")
DTYPES = (float32, float64, complex64, complex128)
OP_NUMBER = 16


def work(node: Node, names: dict[str, Node], wanted: Any = None) -> LaunchList:
    """The launches of a node on buffers by the names of its operands (x0, x1) and results (y0, y1)."""
    several = isinstance(node.dtype, tuple)
    results = dict(enumerate(picks(node))) if several else {0: node}
    results = {k: result for k, result in results.items() if wanted is None or k in wanted}
    called = {source: f"x{k}" for k, source in enumerate(node.sources)}
    called |= {result: f"y{k}" for k, result in results.items()}
    names |= {name: value for value, name in called.items()}
    found = work_of(node, called.__getitem__, H200, results if several else {})
    assert found is not None
    number = lambda given: np.int64(OP_NUMBER) if given == FAILING_OP else given
    launches = [replace(launch, arguments=tuple(map(number, launch.arguments))) for launch in found.launches]
    return LaunchList(tuple(launches), found.workspace)


def run(op: Any, *operands: np.ndarray, wanted: Any = None, **attrs: Any) -> tuple[list[np.ndarray], int]:
    """The results of an op by its kernel, and what it noted in the flag; both ways round."""
    node = op(*[placeholder(x.shape, x.dtype) for x in operands], **attrs)
    names: dict[str, Node] = {}
    launches = work(node, names, wanted)
    found = []
    emulator = Emulator([launches])
    for reverse in (False, True):
        arrays = {f"x{k}": np.array(x) for k, x in enumerate(operands)}
        arrays |= {name: np.zeros(v.shape, v.dtype) for name, v in names.items() if name[0] == "y"}
        arrays[ERROR_FLAG] = np.zeros(1, np.int32)
        emulator.run(launches, arrays, reverse)
        found.append(arrays)
    for name in found[0]:
        np.testing.assert_array_equal(found[0][name], found[1][name])
    results = [found[0][name] for name in sorted(names) if name[0] == "y"]
    return results, int(found[0][ERROR_FLAG][0])


def random(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    """Normal numbers."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype in (complex64, complex128) else x).astype(dtype)


def wide(x: np.ndarray) -> np.ndarray:
    """In double precision."""
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def close(found: np.ndarray, expected: np.ndarray, dtype: Any, factor: float = 1.0) -> None:
    """Equal within some roundings of the largest element."""
    scale = max(np.abs(expected).max(initial=0), 1e-30)
    epsilon = 2.0**-8 if dtype == bfloat16 else np.finfo(real_of(dtype)).eps
    np.testing.assert_allclose(wide(found), expected, rtol=0, atol=200 * factor * epsilon * scale)


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(x, -1, -2))


SQUARES = [(float32, (1,), 1), (float32, (9,), 5), (complex128, (3,), 3), (complex64, (1,), 17)]
SQUARES += [
    pytest.param(dtype, batch, n, marks=pytest.mark.slow)
    for dtype in DTYPES
    for batch, n in (((3,), 2), ((2,), 8), ((5,), 16), ((1,), 32), ((2,), 33))
]
TALL = [(float32, (2, 7, 7)), (complex64, (3, 5, 2)), (float32, (1, 34, 33))]
TALL += [
    pytest.param(dtype, shape, marks=pytest.mark.slow)
    for dtype in DTYPES
    for shape in ((3, 1, 1), (2, 16, 16), (2, 20, 5), (1, 40, 33))
]


@emulated
@pytest.mark.parametrize(("dtype", "batch", "n"), SQUARES)
def test_systems(dtype: Any, batch: tuple[int, ...], n: int) -> None:
    a = random((*batch, n, n), dtype)
    for columns in (1, n) if n < 16 else (3,):
        b = random((*batch, n, columns), dtype, 1)
        (x,), flag = run(SOLVE, a, b)
        assert flag == 0
        condition = np.linalg.cond(wide(a)).max()
        close(x, np.linalg.solve(wide(a), wide(b)), dtype, condition)
    for upper, unit in ((True, False), (False, True)):
        t = a / (4 * n) + np.eye(n).astype(dtype)
        triangle = np.triu(wide(t)) if upper else np.tril(wide(t))
        if unit:
            triangle[..., range(n), range(n)] = 1
        (x,), flag = run(TRIANGULAR_SOLVE, t, b, upper=upper, unit_diagonal=unit)
        assert flag == 0
        close(x, np.linalg.solve(triangle, wide(b)), dtype, 10)


@emulated
@pytest.mark.parametrize(("dtype", "batch", "n"), SQUARES)
def test_inverse_and_determinant(dtype: Any, batch: tuple[int, ...], n: int) -> None:
    a = random((*batch, n, n), dtype)
    condition = np.linalg.cond(wide(a)).max()
    (x,), _ = run(INV, a)
    close(x, np.linalg.inv(wide(a)), dtype, condition)
    (d,), _ = run(DET, a)
    np.testing.assert_allclose(
        wide(d), np.linalg.det(wide(a)), rtol=1e-3 if a.dtype.itemsize == 8 or dtype is float32 else 1e-9
    )
    (sign, logarithm), _ = run(SLOGDET, a)
    expected = np.linalg.slogdet(wide(a))
    np.testing.assert_allclose(wide(sign), expected[0], atol=1e-3)
    np.testing.assert_allclose(logarithm, expected[1], rtol=1e-3, atol=1e-3)
    (alone,), _ = run(SLOGDET, a, wanted=(1,))
    np.testing.assert_array_equal(alone, logarithm)


@emulated
@pytest.mark.parametrize(("dtype", "batch", "n"), SQUARES)
def test_cholesky(dtype: Any, batch: tuple[int, ...], n: int) -> None:
    a = random((*batch, n, n), dtype)
    a = (a @ adjoint(a) + n * np.eye(n)).astype(dtype)
    (x,), flag = run(CHOLESKY, a)
    assert flag == 0
    assert not np.triu(x, 1).any()
    close(x, np.linalg.cholesky(wide(a)), dtype)


@emulated
@pytest.mark.parametrize(("dtype", "shape"), [*TALL, (float32, (0, 3, 2))])
def test_qr(dtype: Any, shape: tuple[int, ...]) -> None:
    a = random(shape, dtype)
    for mode in ("reduced", "complete"):
        (q, r), _ = run(FACTOR_QR, a, mode=mode)
        expected = np.linalg.qr(wide(a), mode)
        close(q, expected[0], dtype)
        close(r, expected[1], dtype)
        (alone,), _ = run(FACTOR_QR, a, mode=mode, wanted=(1,))
        np.testing.assert_array_equal(alone, r)


def check_eigh(a: np.ndarray, dtype: Any) -> None:
    (values, vectors), flag = run(FACTOR_EIGH, a)
    assert flag == 0
    close(values, np.linalg.eigvalsh(wide(a)), dtype)
    assert (np.diff(values, axis=-1) >= 0).all()
    n = a.shape[-1]
    close(adjoint(wide(vectors)) @ wide(vectors), np.broadcast_to(np.eye(n), a.shape), dtype)
    close(wide(vectors) * values[..., None, :] @ adjoint(wide(vectors)), wide(a), dtype)


def symmetric(n: int, dtype: Any, batch: tuple[int, ...] = (1,)) -> np.ndarray:
    a = random((*batch, n, n), dtype)
    return ((a + adjoint(a)) / 2).astype(dtype)


@emulated
@pytest.mark.parametrize(("dtype", "batch", "n"), SQUARES)
def test_eigh(dtype: Any, batch: tuple[int, ...], n: int) -> None:
    a = symmetric(n, dtype, batch)
    check_eigh(a, dtype)
    (alone,), _ = run(FACTOR_EIGH, a, wanted=(0,))
    close(alone, np.linalg.eigvalsh(wide(a)), dtype)


@emulated
@pytest.mark.parametrize("dtype", (float32, complex128), ids=str)
def test_eigh_of_hard_cases(dtype: Any) -> None:
    q = np.linalg.qr(wide(random((6, 6), dtype)))[0]
    for values in ([1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0], [1, 1, 2, 2, 2, -3], [1, 1e-12, 0, 1e-20, 5, 5]):
        check_eigh(((q * np.array(values)) @ adjoint(q))[None].astype(dtype), dtype)
    for scale in (1e-30, 1e30):
        check_eigh((symmetric(5, dtype) * scale).astype(dtype), dtype)


def check_svd(a: np.ndarray, dtype: Any, full: bool) -> None:
    (u, s, vh), flag = run(FACTOR_SVD, a, full_matrices=full)
    assert flag == 0
    expected = np.linalg.svd(wide(a), full_matrices=full)
    assert u.shape == expected[0].shape and vh.shape == expected[2].shape
    close(s, expected[1], dtype)
    assert (np.diff(s, axis=-1) <= 0).all() and (s >= 0).all()
    k = s.shape[-1]
    for basis in (adjoint(wide(u)) @ wide(u), wide(vh) @ adjoint(wide(vh))):
        close(basis, np.broadcast_to(np.eye(basis.shape[-1]), basis.shape), dtype)
    close((wide(u)[..., :k] * s[..., None, :]) @ wide(vh)[..., :k, :], wide(a), dtype)


@emulated
@pytest.mark.parametrize(("dtype", "shape"), [*TALL, (complex128, (2, 2, 5)), (float32, (1, 6, 40))])
def test_svd(dtype: Any, shape: tuple[int, ...]) -> None:
    a = random(shape, dtype)
    for full in (False, True):
        check_svd(a, dtype, full)
    (alone,), _ = run(FACTOR_SVD, a, full_matrices=False, wanted=(1,))
    close(alone, np.linalg.svd(wide(a), compute_uv=False), dtype)


@emulated
@pytest.mark.parametrize("dtype", (float32, complex128), ids=str)
def test_svd_of_hard_cases(dtype: Any) -> None:
    q = np.linalg.qr(wide(random((6, 6), dtype)))[0]
    for values in ([1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0], [1, 0, 0, 2, 2, 0], [1, 1e-12, 0, 1e-20, 5, 5]):
        check_svd(((q * np.array(values)) @ adjoint(q))[None].astype(dtype), dtype, True)
    check_svd(np.ones((1, 5, 3), dtype), dtype, True)
    for scale in (1e-30, 1e30):
        check_svd((random((1, 4, 3), dtype) * scale).astype(dtype), dtype, True)


@emulated
def test_matrices_serve_several_right_sides() -> None:
    a, b = random((3, 1, 4, 4), float64), random((2, 4, 2), float64)
    (x,), _ = run(SOLVE, a, b)
    np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-9)
    a, b = random((4, 4), float64), random((2, 3, 4, 40), float64)
    (x,), _ = run(SOLVE, a, b)
    np.testing.assert_allclose(x, np.linalg.solve(a, b), rtol=1e-9)


@emulated
def test_half_precision_is_computed_in_float32() -> None:
    a = random((2, 4, 4), float32).astype(bfloat16)
    (x,), _ = run(INV, a)
    np.testing.assert_array_equal(x.astype(float32), np.linalg.inv(a.astype(float32)).astype(bfloat16).astype(float32))


@emulated
def test_failures_are_noted() -> None:
    singular = np.array([[[1.0, 2.0], [2.0, 4.0]], [[1.0, 0.0], [0.0, 1.0]]])
    assert run(INV, singular)[1] == OP_NUMBER + 1
    assert run(SOLVE, singular, singular)[1] == OP_NUMBER + 1
    assert run(TRIANGULAR_SOLVE, np.zeros((2, 2)), singular, upper=True, unit_diagonal=False)[1] == OP_NUMBER + 1
    assert run(CHOLESKY, singular[::-1] * np.array([[1.0, 3], [3, 1]]))[1] == OP_NUMBER + 2
    assert run(CHOLESKY, np.full((2, 2), np.nan))[1] == OP_NUMBER + 2
    assert run(FACTOR_SVD, np.full((2, 2), np.nan), full_matrices=False)[1] == OP_NUMBER + 3
    assert run(DET, singular)[1] == 0
    np.testing.assert_array_equal(run(DET, singular)[0][0], [0, 1])
    (sign, logarithm), _ = run(SLOGDET, singular)
    np.testing.assert_array_equal(sign, [0, 1])
    np.testing.assert_array_equal(logarithm, [-math.inf, 0])


@emulated
def test_matrices_without_elements() -> None:
    none = np.zeros((2, 0, 0))
    np.testing.assert_array_equal(run(DET, none)[0][0], [1, 1])
    (sign, logarithm), _ = run(SLOGDET, none)
    assert (sign == 1).all() and not logarithm.any()
    assert run(INV, none)[0][0].shape == (2, 0, 0)
    (u, _, vh), _ = run(FACTOR_SVD, np.zeros((2, 3, 0)), full_matrices=True)
    np.testing.assert_array_equal(u, np.broadcast_to(np.eye(3), (2, 3, 3)))
    assert vh.shape == (2, 0, 0)


def test_large_matrices_are_left_to_others() -> None:
    for n, expected in ((64, True), (65, False)):
        assert has_work(INV(placeholder((n, n), float32))) is expected
    assert not has_work(FACTOR_SVD(placeholder((64, 64), complex128), full_matrices=False))


def every_kernel() -> list[LaunchList]:
    """A work of every op, in the dtypes and sizes that have code of their own."""
    found = []
    for dtype in DTYPES:
        for n in (5, 16, 40 if dtype is float32 else 33):
            a = placeholder((3, n, n), dtype)
            nodes = [
                SOLVE(a, a),
                INV(a),
                DET(a),
                SLOGDET(a),
                CHOLESKY(a),
                FACTOR_QR(a, mode="complete"),
                FACTOR_EIGH(a),
            ]
            nodes += [TRIANGULAR_SOLVE(a, a, upper=True, unit_diagonal=False), FACTOR_SVD(a, full_matrices=True)]
            found += [work(node, {}) for node in nodes]
    return found


@pytest.mark.parametrize("device", [RTX_2080, H200], ids=lambda device: device.arch)
def test_some_compile(device: Any) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="compiling CUDA needs the cuda extra")
    for made in every_kernel()[::13]:
        cubin(made.launches[0].source, device.arch)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["75", "80", "86", "89", "90a", "100", "120"])
def test_all_compile(arch: str) -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="compiling CUDA needs the cuda extra")
    for made in every_kernel():
        cubin(made.launches[0].source, arch)
