"""Large matrices by cuSOLVER and cuBLAS, and transforms by cuFFT, on an emulated GPU with libraries of NumPy's."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import wengert as wg
from tests.backends.emulated import EMULATED
from tests.kernels.emulator import compiler
from wengert.backends.cuda import fft, interpret, solver, solver_calls, vendor
from wengert.core.errors import ComputationError
from wengert.kernels.linalg import cuda as small

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with"),
    pytest.mark.usefixtures("gpu"),
]

CACHED = (
    *(solver_calls.handle_of, solver_calls.parameters_of, solver_calls.blas_handle),
    *(solver._jacobi, fft._plan),
)
KINDS = {0: np.float32, 1: np.float64, 4: np.complex64, 5: np.complex128}
LETTERS = {"S": 0, "D": 1, "C": 4, "Z": 5}


def memory(address: Any, dtype: Any, *shape: int) -> np.ndarray:
    """What lies at an address, by columns."""
    count = int(np.prod(shape, dtype=int))
    held = (ctypes.c_char * (count * np.dtype(dtype).itemsize)).from_address(address.value)
    return np.frombuffer(held, dtype).reshape(shape, order="F")


def numbers(arguments: Sequence[Any]) -> list[Any]:
    return [x.value if isinstance(x, ctypes.c_int64) else x for x in arguments]


class FakeVendor:
    """cuSOLVER, cuBLAS and cuFFT by NumPy and SciPy."""

    version = 0

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.plans: dict[int, Any] = {}

    def created(self, name: str, *arguments: Any) -> int:
        return 1

    def call(self, name: str, *arguments: Any) -> None:
        if name.endswith("_bufferSize"):
            for x in arguments:
                if hasattr(x, "_obj"):
                    x._obj.value = 64
            return
        self.calls.append(name)
        if name not in ("SetStream", "SetStream_v2", "SetAutoAllocation", "SetWorkArea"):
            letter, rest = (name[0], name[1:]) if name[1:] in ("gesvdj", "orgqr", "ungqr", "trsm_v2") else ("", name)
            kind = KINDS[LETTERS[letter]] if letter else None
            getattr(self, rest)(kind, *arguments) if kind is not None else getattr(self, rest)(*arguments)

    # --- cuSOLVER -------------------------------------------------------------------------------------------------

    def Xgetrf(self, handle, parameters, m, n, kind, a, step, pivots, compute, *rest):  # type: ignore[no-untyped-def]
        lu, p = scipy.linalg.lu_factor(memory(a, KINDS[kind], n, n), check_finite=False)
        memory(a, KINDS[kind], n, n)[...] = lu
        memory(pivots, np.int64, n)[...] = p + 1
        zero = np.flatnonzero(np.diagonal(lu) == 0)
        memory(rest[4], np.int32, 1)[...] = zero[0] + 1 if len(zero) else 0

    def Xgetrs(self, handle, parameters, how, n, columns, kind, a, step, pivots, other, b, ldb, info):  # type: ignore[no-untyped-def]
        right = memory(b, KINDS[kind], n, columns)
        if (np.diagonal(memory(a, KINDS[kind], n, n)) == 0).any():
            return
        lu = memory(a, KINDS[kind], n, n), memory(pivots, np.int64, n) - 1
        right[...] = scipy.linalg.lu_solve(lu, right, trans=how)

    def Xpotrf(self, handle, parameters, uplo, n, kind, a, step, compute, *rest):  # type: ignore[no-untyped-def]
        assert uplo == 0
        x = memory(a, KINDS[kind], n, n)
        whole = np.tril(x) + np.tril(x, -1).conj().T
        try:
            x[...] = np.linalg.cholesky(whole) + np.triu(x, 1)
        except np.linalg.LinAlgError:
            memory(rest[4], np.int32, 1)[...] = 1
        else:
            memory(rest[4], np.int32, 1)[...] = 0

    def Xgeqrf(self, handle, parameters, m, n, kind, a, step, tau_kind, tau, compute, *rest):  # type: ignore[no-untyped-def]
        x = memory(a, KINDS[kind], m, n)
        (factors, taus), _ = scipy.linalg.qr(x, mode="raw")
        x[...] = factors
        memory(tau, KINDS[kind], min(m, n))[...] = taus
        memory(rest[4], np.int32, 1)[...] = 0

    def orgqr(self, kind, handle, m, n, k, a, step, tau, work, length, info):  # type: ignore[no-untyped-def]
        x = memory(a, kind, m, n)
        name = "ungqr" if np.dtype(kind).kind == "c" else "orgqr"
        (function,) = scipy.linalg.get_lapack_funcs((name,), (x,))
        x[...] = function(np.array(x, order="F")[:, :n], memory(tau, kind, k))[0]

    ungqr = orgqr

    def Xsyevd(self, handle, parameters, job, uplo, n, kind, a, step, real, w, compute, *rest):  # type: ignore[no-untyped-def]
        assert uplo == 1
        x = memory(a, KINDS[kind], n, n)
        values, vectors = np.linalg.eigh(x, UPLO="U")
        memory(w, KINDS[real], n)[...] = values
        x[...] = vectors
        memory(rest[4], np.int32, 1)[...] = 0

    def gesvdj(self, kind, handle, job, economic, m, n, a, lda, s, u, ldu, v, ldv, work, length, info, jacobi):  # type: ignore[no-untyped-def]
        first, values, second = np.linalg.svd(memory(a, kind, m, n), full_matrices=not economic)
        memory(s, np.dtype(kind).type(0).real.dtype, min(m, n))[...] = values
        memory(u, kind, *first.shape)[...] = first
        memory(v, kind, *second.T.shape)[...] = second.conj().T
        memory(info, np.int32, 1)[...] = 0

    # --- cuBLAS ---------------------------------------------------------------------------------------------------

    def trsm_v2(self, kind, handle, side, uplo, trans, diagonal, m, n, alpha, a, lda, b, ldb):  # type: ignore[no-untyped-def]
        assert (side, trans) == (1, 0)
        x, triangle = memory(b, kind, m, n), memory(a, kind, n, n)
        given = {"lower": uplo == 1, "unit_diagonal": bool(diagonal), "check_finite": False}  # of the transpose
        if diagonal or (np.diagonal(triangle) != 0).all():
            x[...] = scipy.linalg.solve_triangular(triangle.T, x.T, **given).T

    # --- cuFFT ----------------------------------------------------------------------------------------------------

    def Create(self, number):  # type: ignore[no-untyped-def]
        number._obj.value = len(self.plans) + 1
        self.plans[len(self.plans) + 1] = None

    def XtMakePlanMany(self, number, rank, sizes, ie, step, given, source, oe, ostep, made, result, batch, size, kind):  # type: ignore[no-untyped-def]
        self.plans[number.value] = list(sizes), step, given, source, made, result, batch
        size._obj.value = 128

    def XtExec(self, number, source, target, direction):  # type: ignore[no-untyped-def]
        sizes, step, given, from_kind, made, to_kind, batch = self.plans[number.value]
        half = [*sizes[:-1], sizes[-1] // 2 + 1]
        is_real, to_real = from_kind < 4, to_kind < 4

        def view(address: Any, kind: int, shape: Sequence[int], apart: int) -> np.ndarray:
            item = np.dtype(KINDS[kind]).itemsize
            steps = [item * step * int(np.prod(shape[k + 1 :])) for k in range(len(shape))]
            reach = apart * item * (batch - 1) + sum((n - 1) * s for n, s in zip(shape, steps)) + item
            held = (ctypes.c_char * reach).from_address(address.value)
            return np.ndarray((batch, *shape), KINDS[kind], held, strides=(apart * item, *steps))

        x = view(source, from_kind, half if to_real else sizes, given)
        y = view(target, to_kind, half if is_real else sizes, made)
        axes = tuple(range(1, len(sizes) + 1))
        if is_real:
            y[...] = np.fft.rfftn(x, axes=axes)
        elif to_real:
            y[...] = np.fft.irfftn(x, sizes, axes=axes, norm="forward")
            x[...] = np.nan  # as the library may
        elif direction < 0:
            y[...] = np.fft.fftn(x.copy(), axes=axes)
        else:
            y[...] = np.fft.ifftn(x.copy(), axes=axes, norm="forward")


@pytest.fixture(autouse=True)
def libraries(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeVendor]:
    """Libraries that are there, and matrices that are all large."""
    fake = FakeVendor()
    for module in (solver, solver_calls, fft):
        for name in ("library", "blas") if module is not fft else ("library",):
            monkeypatch.setattr(module, name, lambda: fake)
    for cached in CACHED:
        cached.cache_clear()
    monkeypatch.setattr(small, "LARGEST", 0)
    monkeypatch.setattr(interpret, "_carriers", type(interpret._carriers)())

    def enqueue(self: Any, stream: int, pointers: Sequence[int], workspace: int) -> None:
        then = list(pointers)
        if EMULATED.captured is not None:
            EMULATED.captured.append(lambda: self.run(stream, then))
        else:
            self.run(stream, then)

    monkeypatch.setattr(vendor.VendorCall, "enqueue", enqueue)
    yield fake
    for cached in CACHED:
        cached.cache_clear()


def random(shape: tuple[int, ...], dtype: Any, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if np.dtype(dtype).kind == "c" else x).astype(dtype)


def compare(function: Callable[..., Any], *arrays: np.ndarray, rtol: float = 1e-3) -> None:
    """On the GPU dynamically and compiled, replayed from a graph, and on the host."""
    expected = wg.tree.flatten(function(*map(wg.tensor, arrays)))[0]
    compiled = wg.compile(function)
    for way in (function, compiled, compiled, compiled):
        found = wg.tree.flatten(way(*[wg.tensor(a, device="cuda") for a in arrays]))[0]
        for one, other in zip(found, expected):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=rtol, atol=rtol)
    assert "ops on the host:" not in compiled.explain()


def adjoint(x: Any) -> Any:
    return wg.conj(x).mT if x.dtype in (wg.complex64, wg.complex128) else x.mT


DTYPES = (np.float32, np.complex128)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (2,)])
def test_systems(dtype: Any, batch: tuple[int, ...]) -> None:
    def all_ways(a: Any, b: Any) -> Any:
        regular = a + 4 * wg.eye(5, dtype=a.dtype, device=a.device)
        triangular = [wg.linalg.triangular_solve(regular, b, upper=upper) for upper in (True, False)]
        unit = wg.linalg.triangular_solve(a / 4, b, upper=True, unit_diagonal=True)
        solved = wg.linalg.solve(a, b), wg.linalg.solve(a, b[..., :1]), wg.linalg.inv(a)
        return *triangular, unit, *solved, wg.linalg.det(a), *wg.linalg.slogdet(a)

    compare(all_ways, random((*batch, 5, 5), dtype), random((*batch, 5, 3), dtype, 1))


def test_matrices_serve_several_right_sides() -> None:
    a, b = random((3, 1, 5, 5), np.float32), random((2, 5, 2), np.float32)
    compare(wg.linalg.solve, a, b)
    compare(wg.linalg.triangular_solve, a + 4 * np.eye(5, dtype=np.float32), b)


@pytest.mark.parametrize(("dtype", "times"), [(np.float32, 1), (np.complex128, 2)])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_a_gradient_solves_with_the_factors_of_its_system(
    libraries: FakeVendor, dtype: Any, times: int, batch: tuple[int, ...]
) -> None:
    a, b = random((*batch, 5, 5), dtype), random((*batch, 5, 2), dtype, 1)
    gradient = wg.grad(lambda a, b: (wg.abs(wg.linalg.solve(a, b)) ** 2).sum(), (0, 1))
    compare(gradient, a, b, rtol=1e-2)
    compare(lambda a, b: (wg.linalg.solve(a, b), wg.linalg.solve(a, 2 * b), wg.linalg.solve(a.mT, b)), a, b, rtol=1e-2)
    libraries.calls.clear()
    wg.compile(gradient)(*[wg.tensor(x, device="cuda") for x in (a, b)])
    assert libraries.calls.count("Xgetrf") == times * (batch or (1,))[0]


def by_singular_vectors(a: Any, full: bool) -> Any:
    u, s, vh = wg.linalg.svd(a, full_matrices=full)
    k = s.shape[-1]
    return (u[..., :k] * s[..., None, :]) @ vh[..., :k, :], s, u @ adjoint(u), vh @ adjoint(vh)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (2,)])
def test_factorisations(dtype: Any, batch: tuple[int, ...]) -> None:
    a = random((*batch, 5, 5), dtype)

    def of_positive(a: Any) -> Any:
        values, vectors = wg.linalg.eigh(a)
        again = (vectors * values[..., None, :]) @ adjoint(vectors)
        return wg.linalg.cholesky(a), again, wg.linalg.eigvalsh(a)

    def of_any(a: Any) -> Any:
        qr = *wg.linalg.qr(a), *wg.linalg.qr(a, mode="complete"), wg.linalg.qr(a * 2).R
        return *qr, *by_singular_vectors(a, True), *by_singular_vectors(a, False), wg.linalg.svdvals(a * 2)

    compare(of_positive, a @ np.swapaxes(a, -1, -2).conj() + np.eye(5).astype(dtype))
    compare(of_any, random((*batch, 6, 3), dtype))
    compare(lambda a: by_singular_vectors(a, True), random((*batch, 3, 6), dtype))


def test_what_waits_for_the_device_is_between_graphs(libraries: FakeVendor) -> None:
    compiled = wg.compile(lambda a: wg.linalg.eigh(a * 2).eigenvalues + 1)
    a = wg.tensor(np.eye(5, dtype=np.float32), device="cuda")
    for _ in range(4):
        np.testing.assert_allclose(compiled(a).numpy(), [3] * 5)
    pieces = compiled._newest("a test").program.pieces
    assert [piece.is_capturable for piece in pieces] == [True, False, True]
    assert [piece.graph is not None for piece in pieces] == [True, False, True]


def test_failures_name_their_line() -> None:
    bad = np.array([[1.0, 2.0], [2.0, 4.0]], np.float32)
    for function, words in (
        (wg.linalg.inv, "inv failed: Singular matrix"),
        (lambda a: wg.linalg.solve(a, a), "solve failed: Singular matrix"),
        (lambda a: wg.linalg.cholesky(a - 5), "cholesky failed: Matrix is not positive definite"),
        (lambda a: wg.linalg.triangular_solve(a * 0, a), "triangular_solve failed: Singular matrix"),
    ):
        for way in (function, wg.compile(function)):
            with pytest.raises(ComputationError, match=words):
                way(wg.tensor(bad, device="cuda")).numpy()


@pytest.mark.parametrize("norm", ["backward", "ortho", "forward"])
def test_transforms_of_other_sizes_orders_and_norms(norm: str) -> None:
    def all_ways(z: Any, x: Any) -> Any:
        f = wg.fft
        several = f.fft(z, norm=norm), f.ifft(z, n=7, axis=1, norm=norm), f.rfft(x, n=5, axis=0, norm=norm)
        real = f.irfft(z, n=4, norm=norm), f.rfftn(wg.real(z), axes=(2, 0)), f.irfftn(z, axes=(2, 1))
        return *several, *real, f.fft(x), f.irfft(x), f.hfft(z), f.ihfft(x)

    compare(all_ways, random((4, 6, 5), np.complex64), random((4, 6), np.float32))


def test_gradients_of_transforms() -> None:
    power = lambda x: (wg.abs(wg.fft.rfft(x)) ** 2).sum() + (wg.fft.irfft(x + 0j * x) ** 2).sum()
    compare(wg.grad(power), random((4, 6), np.float32))


def test_what_is_read_off_singular_values() -> None:
    a = random((2, 5, 3), np.float32)
    compare(wg.linalg.pinv, a)
    compare(wg.grad(lambda a: wg.linalg.det(a).sum()), random((2, 4, 4), np.float32), rtol=1e-2)
    compare(lambda a: wg.linalg.inv(a.to(wg.bfloat16)).to(wg.float32), np.eye(5, dtype=np.float32) * 2)


def test_transforms() -> None:
    def all_ways(x: Any, z: Any) -> Any:
        f = wg.fft
        real = f.rfft(x), f.rfftn(wg.real(z)), f.irfft(z, norm="forward"), f.irfftn(z, norm="forward")
        return *real, f.fft(z), f.fft(z, axis=1), f.fftn(z, axes=(0, 2)), f.ifftn(z, norm="forward")

    compare(all_ways, random((3, 8), np.float32), random((4, 6, 5), np.complex64))
