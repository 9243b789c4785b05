"""Linear algebra on the GPU, small matrices by our kernels, large ones by the libraries: values, gradients, errors."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.backends.cuda import solver_calls
from wengert.core.errors import ComputationError

SMALL, LARGE = (20, 16, 16), (2, 100, 100)
DTYPES = (np.float32, np.float64, np.complex64, np.complex128)
TOLERANCE = {np.float32: 2e-3, np.complex64: 2e-3, np.float64: 1e-9, np.complex128: 1e-9}


def random(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def adjoint(x: np.ndarray) -> np.ndarray:
    return np.conj(np.swapaxes(x, -1, -2))


def positive(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    a = random(shape, dtype)
    return (a @ adjoint(a) / shape[-1] + np.eye(shape[-1])).astype(dtype)


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def with_small_determinants(matrices: np.ndarray) -> np.ndarray:
    """Multiples of matrices whose determinants are of size 1: those of large ones overflow float32."""
    logarithms = np.linalg.slogdet(wide(matrices))[1]
    return (matrices * np.exp(-logarithms / matrices.shape[-1])[..., None, None]).astype(matrices.dtype)


def there(array: np.ndarray) -> Any:
    return wg.tensor(array, device="cuda")


def compare(function: Callable[..., Any], *arrays: np.ndarray) -> None:
    """On the GPU op by op, compiled and replayed, against the host in double precision; nothing leaves the device."""
    tolerance = TOLERANCE[arrays[0].dtype.type]
    expected = wg.tree.flatten(function(*(wg.tensor(wide(a)) for a in arrays)))[0]
    compiled = wg.compile(function)
    for way in (function, compiled, compiled, compiled):
        found = wg.tree.flatten(way(*map(there, arrays)))[0]
        for one, other in zip(found, expected):
            want = other.numpy()
            scale = max(np.abs(want).max(initial=0), 1)
            np.testing.assert_allclose(one.numpy(), want, rtol=0, atol=tolerance * scale)
    assert "ops on the host:" not in str(compiled.explain())


@pytest.fixture(params=[SMALL, LARGE], ids=["small", "large"])
def shape(request: pytest.FixtureRequest) -> tuple[int, ...]:
    if request.param == LARGE and solver_calls.library() is None:
        pytest.skip("large matrices need cuSOLVER")
    found: tuple[int, ...] = request.param
    return found


@pytest.mark.parametrize("dtype", DTYPES)
def test_systems(shape: tuple[int, ...], dtype: Any) -> None:
    a, b = positive(shape, dtype), random((*shape[:-1], 3), dtype, 1)
    compare(wg.linalg.solve, a, b)
    compare(wg.linalg.solve, a, b[..., :1])
    compare(wg.linalg.inv, a)
    compare(lambda a: tuple(wg.linalg.slogdet(a)), a)
    compare(wg.linalg.det, with_small_determinants(a))
    for upper in (True, False):
        compare(partial(wg.linalg.triangular_solve, upper=upper), a, b)


@pytest.mark.parametrize("dtype", DTYPES)
def test_factorisations(shape: tuple[int, ...], dtype: Any) -> None:
    a, p = random(shape, dtype), positive(shape, dtype)
    n = shape[-1]
    hermitian = ((a + adjoint(a)) / 2).astype(dtype)
    compare(wg.linalg.cholesky, p)
    for given in (a, a[..., : n // 2]):
        compare(lambda a: tuple(wg.linalg.qr(a)), np.ascontiguousarray(given))
        compare(lambda a: wg.linalg.qr(a, mode="complete").R, np.ascontiguousarray(given))

    def by_eigenvectors(a: Any) -> Any:
        values, vectors = wg.linalg.eigh(a)
        return values, (vectors * values[..., None, :]) @ wg.conj(vectors).mT, vectors @ wg.conj(vectors).mT

    compare(by_eigenvectors, hermitian)
    for given in (a, a[..., : n // 2], a[..., : n // 2, :]):
        for full in (False, True):

            def by_singular_vectors(a: Any, full: bool = full) -> Any:
                u, s, vh = wg.linalg.svd(a, full_matrices=full)
                k = s.shape[-1]
                again = (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]
                return s, again, wg.conj(u).mT @ u, vh @ wg.conj(vh).mT

            compare(by_singular_vectors, np.ascontiguousarray(given))
    compare(wg.linalg.pinv, np.ascontiguousarray(a[..., : n // 2]))


@pytest.mark.parametrize("dtype", (np.float64, np.complex128))
def test_gradients(shape: tuple[int, ...], dtype: Any) -> None:
    a, p, b = random(shape, dtype), positive(shape, dtype), random((*shape[:-1], 2), dtype, 1)
    size = lambda x: (wg.abs(x) ** 2).sum()
    compare(wg.grad(lambda a, b: size(wg.linalg.solve(a, b)), (0, 1)), p, b)
    compare(wg.grad(lambda a: size(wg.linalg.inv(a))), p)
    compare(wg.grad(lambda a: wg.linalg.slogdet(a).logabsdet.sum()), p)
    compare(wg.grad(lambda a: wg.real(wg.linalg.det(a)).sum()), p)
    compare(wg.grad(lambda a: size(wg.linalg.cholesky(a))), p)
    compare(wg.grad(lambda a: size(wg.linalg.qr(a).R[..., :2])), a)
    compare(wg.grad(lambda a: size(wg.linalg.eigh(a).eigenvalues)), p)
    compare(wg.grad(lambda a: (wg.linalg.svd(a, full_matrices=False).S ** 3).sum()), a)


def test_hard_cases(shape: tuple[int, ...]) -> None:
    n = shape[-1]
    q = np.linalg.qr(random(shape, np.float64))[0]
    values = np.where(np.arange(n) < n // 2, 1.0, 0.0)
    a = (q * values) @ adjoint(q)
    compare(lambda a: wg.linalg.eigh(a).eigenvalues, a)
    compare(lambda a: tuple(wg.linalg.svd(a))[1], a)
    compare(lambda a: (lambda u: wg.conj(u).mT @ u)(wg.linalg.svd(a).U), a)


def test_failures_name_their_line(shape: tuple[int, ...]) -> None:
    n = shape[-1]
    zero, negative = np.zeros((n, n), np.float32), -np.eye(n, dtype=np.float32)
    for function, bad, words in (
        (wg.linalg.inv, zero, "inv failed: Singular matrix"),
        (lambda a: wg.linalg.solve(a, a), zero, "solve failed: Singular matrix"),
        (lambda a: wg.linalg.triangular_solve(a, a), zero, "triangular_solve failed: Singular matrix"),
        (wg.linalg.cholesky, negative, "cholesky failed: Matrix is not positive definite"),
    ):
        compiled = wg.compile(function)
        good = there(np.eye(n, dtype=np.float32))
        for _ in range(3):
            compiled(good).numpy()
        for way in (function, compiled):
            with pytest.raises(ComputationError, match=words):
                way(there(bad)).numpy()
            way(good).numpy()


def test_the_same_bits_every_time(shape: tuple[int, ...]) -> None:
    a = there(random(shape, np.float32))
    for function in (wg.linalg.inv, lambda a: tuple(wg.linalg.svd(a)), lambda a: tuple(wg.linalg.eigh(a))):
        compiled = wg.compile(function)
        first = [x.numpy() for x in wg.tree.flatten(compiled(a))[0]]
        for _ in range(4):
            for one, other in zip(first, wg.tree.flatten(compiled(a))[0]):
                np.testing.assert_array_equal(one, other.numpy())
