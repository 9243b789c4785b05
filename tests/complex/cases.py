"""Calls with complex operands: one or more for every public function that takes them and has a derivative.

A case is a name, a function of tensors, and its operands as arrays in float64 and complex128. What a factorisation
leaves free (the phases of vectors) is taken out by the function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import wengert as wg

Array = np.ndarray[Any, Any]


class Case(NamedTuple):
    """A function of tensors and the arrays that it is called with."""

    name: str
    function: Callable[..., Any]
    operands: tuple[Array, ...]


_random = np.random.default_rng(20)


def real(*shape: int) -> Array:
    """Random real numbers."""
    return np.asarray(_random.standard_normal(shape))


def complex_(*shape: int) -> Array:
    """Random complex numbers."""
    return real(*shape) + 1j * real(*shape)


Z, W, V = complex_(3, 2), complex_(3, 2) + 2, complex_(4)
SQUARE, BATCH = complex_(3, 3) + 2 * np.eye(3), complex_(2, 3, 3) + np.eye(3)
POSITIVE = BATCH @ np.conj(BATCH).swapaxes(-1, -2) + np.eye(3)

_FUNCTIONS = "exp expm1 log log1p log2 log10 sqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh"
UNARY = [*_FUNCTIONS.split(), "square", "reciprocal", "negative", "positive"]
UNARY += ["abs", "sign", "real", "imag", "conj", "angle"]


def _elementwise() -> Iterator[Case]:
    for name in UNARY:
        yield Case(name, getattr(wg, name), (Z,))
    for name in ("add", "subtract", "multiply", "divide", "pow"):
        yield Case(name, getattr(wg, name), (Z, W))
        yield Case(f"{name} of real and complex", getattr(wg, name), (np.abs(real(2)) + 0.3, W))
    for exponent in (3, 2.5, -1.5, 0, 1 - 2j):
        yield Case(f"to the power {exponent}", lambda x, n=exponent: x**n, (Z,))
    yield Case("a number to the power", lambda x: wg.pow(2.0, x), (Z,))
    yield Case("where", lambda x, y: wg.where(wg.tensor([True, False]), x, y), (Z, W))
    yield Case("where of real and complex", lambda x, y: wg.where(wg.tensor([True, False]), x, y), (real(3, 2), W))
    for weight in (0.3, 0.8j):
        yield Case(f"lerp by {weight}", lambda x, y, w=weight: wg.lerp(x, y, w), (Z, W))
    yield Case("lerp", wg.lerp, (Z, W, complex_(2) * 0.4))
    yield Case("astype", lambda x: x.astype(wg.complex128) * (1 + 2j), (real(3),))
    yield Case("real, complex, real", lambda x: wg.abs(wg.exp(1j * x) + x) * wg.real(x * x), (real(3),))


def _reductions() -> Iterator[Case]:
    for name in ["sum", "mean", "prod", "cumulative_sum", "cumulative_prod", "var", "std", "logsumexp"]:
        function = getattr(wg, name)
        yield Case(name, function, (V,))
        yield Case(f"{name} along an axis", lambda x, f=function: f(x, axis=0), (Z,))
    yield Case("prod with zeros", wg.prod, (np.array([0, 1 + 1j, 0, 2]),))
    yield Case("var with a correction", lambda x: wg.var(x, axis=1, correction=1, keepdims=True), (complex_(2, 4),))
    for order in (2, 1, 3, float("inf")):
        yield Case(f"norm {order}", lambda x, n=order: wg.norm(x, ord=n), (Z,))


def _movement() -> Iterator[Case]:
    rows, twice = wg.tensor(np.array([0, 2, 0])), wg.tensor(np.array([0, 0]))
    functions: dict[str, Callable[..., Any]] = {
        "slice": lambda x: x[1:, 0],
        "negative step": lambda x: x[::-1, 1:],
        "gather": lambda x: x[rows],
        "take_along_axis": lambda x: wg.take_along_axis(x, wg.tensor(np.array([[0], [1], [1]])), axis=1),
        "mask": lambda x: x[wg.tensor(np.array([True, False, True]))],
        "pad": lambda x: wg.pad(x, (1, 2), value=1.0),
        "pad by mirroring": lambda x: wg.pad(x, (1, 1), mode="reflect"),
        "roll": lambda x: wg.roll(x, 1),
        "flip": wg.flip,
        "tile": lambda x: wg.tile(x, (2, 2)),
        "repeat": lambda x: wg.repeat(x, 2),
        "broadcast_to": lambda x: wg.broadcast_to(x, (2, 3, 2)),
        "permute_dims": lambda x: wg.permute_dims(x, (1, 0)),
        "reshape": lambda x: wg.reshape(x, (2, 3)),
        "tril": wg.tril,
        "unfold": lambda x: wg.unfold(x[None, None], 2),
        "fold": lambda x: wg.fold(wg.reshape(wg.concat([x, x]), (1, 4, 3)), (2, 4), 2),
        "diff": wg.diff,
        "stack": lambda x: wg.stack([x, 2 * x]),
        "masked_fill": lambda x: wg.masked_fill(x, wg.tensor([True, False]), 0.5),
    }
    for name, function in functions.items():
        yield Case(name, function, (Z,))
    yield Case("concat of real and complex", lambda x, y: wg.concat([x, y]), (Z, real(1, 2)))
    yield Case("index_add", lambda x, y: wg.index_add(x, 0, twice, y), (Z, complex_(2, 2)))
    yield Case("index_put", lambda x, y: wg.index_put(x, (twice,), y), (Z, complex_(2, 2)))
    yield Case("scatter_add", lambda x, y: wg.scatter_add(x, 0, rows, y), (V, complex_(3)))
    yield Case("put_along_axis", lambda x, y: wg.put_along_axis(x, wg.tensor(np.array([1])), y), (V, complex_(1)))


def _products() -> Iterator[Case]:
    yield Case("matmul", wg.matmul, (SQUARE, BATCH))
    yield Case("matmul with a vector", wg.matmul, (SQUARE, complex_(3)))
    yield Case("matmul of real and complex", wg.matmul, (real(3, 3), BATCH))
    yield Case("one matrix for many", wg.matmul, (BATCH, SQUARE))
    yield Case("einsum", lambda x, y: wg.einsum("ij,kj->ik", x, y), (Z, W))
    yield Case("einsum of three", lambda x, y, z: wg.einsum("ij,kj,k->i", x, y, z), (Z, W, complex_(3)))
    yield Case("einsum of a diagonal", lambda x: wg.einsum("bii->b", x), (BATCH,))
    yield Case("linear", wg.linear, (complex_(2, 3), complex_(4, 3), complex_(4)))
    yield Case("linear with a real weight", wg.linear, (complex_(2, 3), real(4, 3)))
    yield Case("tensordot", lambda x, y: wg.tensordot(x, y, axes=1), (complex_(2, 3), W))
    for name, shapes in {"vecdot": (4, 4), "outer": (4, 3), "cross": (3, 3), "kron": (4, 2)}.items():
        yield Case(name, getattr(wg, name), tuple(map(complex_, shapes)))
    yield Case("trace", wg.trace, (SQUARE,))
    yield Case("diagonal", wg.diagonal, (SQUARE,))


def _qr_complete(x: wg.Tensor) -> Any:
    q, r = wg.linalg.qr(x, mode="complete")
    return q @ wg.conj(q).mT, r


def _eigh(x: wg.Tensor) -> Any:
    values, vectors = wg.linalg.eigh(x)
    return values, (vectors * wg.tensor([1.0, 2.0, 3.0])) @ wg.conj(vectors).mT


def _svd(x: wg.Tensor) -> Any:
    u, s, vh = wg.linalg.svd(x, full_matrices=False)
    weights = wg.tensor(np.arange(1.0, s.shape[-1] + 1))
    return s, (u * weights) @ vh, (u * weights) @ wg.conj(u).mT


def _svd_complement(x: wg.Tensor) -> Any:
    u, s, _ = wg.linalg.svd(x)
    rest = u[:, s.shape[0] :]
    return s, rest @ wg.conj(rest).mT


def _linalg() -> Iterator[Case]:
    linalg = wg.linalg
    yield Case("solve", linalg.solve, (SQUARE, complex_(3, 2)))
    yield Case("solve with a real side", linalg.solve, (SQUARE, real(3)))
    yield Case("triangular_solve", linalg.triangular_solve, (SQUARE, complex_(3, 2)))
    unit = lambda a, b: linalg.triangular_solve(a, b, upper=True, unit_diagonal=True)
    yield Case("triangular_solve, upper, ones", unit, (SQUARE, complex_(3, 2)))
    for name in ("inv", "det"):
        yield Case(name, getattr(linalg, name), (BATCH,))
    yield Case("slogdet", lambda x: tuple(linalg.slogdet(x)), (BATCH,))
    yield Case("matrix_power", lambda x: linalg.matrix_power(x, 3), (SQUARE,))
    yield Case("cholesky", linalg.cholesky, (POSITIVE,))
    yield Case("cholesky, upper", lambda x: linalg.cholesky(x, upper=True), (POSITIVE,))
    for name, shape in {"tall": (4, 3), "square": (3, 3), "wide": (2, 4)}.items():
        yield Case(f"qr, {name}", lambda x: tuple(linalg.qr(x)), (complex_(*shape),))
        yield Case(f"svd, {name}", _svd, (complex_(*shape),))
        yield Case(f"pinv, {name}", linalg.pinv, (complex_(*shape),))
    yield Case("qr, complete", _qr_complete, (complex_(4, 2),))
    yield Case("svd of a batch", _svd, (BATCH,))
    yield Case("svd, full", _svd_complement, (complex_(4, 2),))
    yield Case("svdvals", linalg.svdvals, (complex_(3, 4),))
    yield Case("eigh", _eigh, (POSITIVE,))
    yield Case("eigvalsh", linalg.eigvalsh, (SQUARE,))
    for order in ("fro", "nuc", 2, -2, 1, -1, float("inf")):
        yield Case(f"matrix_norm {order}", lambda x, n=order: linalg.matrix_norm(x, ord=n), (complex_(3, 2),))


def _bodies() -> Iterator[Case]:
    step = lambda carry, x: (carry * x + wg.conj(carry), wg.abs(carry))
    yield Case("scan", lambda start, xs: wg.scan(step, start, xs), (complex_(), complex_(3)))
    choose = lambda x: wg.cond(wg.tensor(True), lambda t: t * wg.conj(t), lambda t: t, x)
    yield Case("cond", choose, (Z,))
    yield Case("checkpoint", wg.checkpoint(lambda x: wg.exp(x) * wg.conj(x)), (Z,))


NORMS = ("backward", "ortho", "forward")


def _transforms() -> Iterator[Case]:
    """The Fourier transforms: complex and real operands, every norm, cut and padded sizes, even and odd ones."""
    for norm in NORMS:
        for n in (None, 1, 3, 6, 7):
            for name in ("fft", "ifft", "hfft", "irfft"):
                yield _transform(name, complex_(5, 2), n=n, axis=0, norm=norm)
            for name in ("fft", "ifft", "rfft", "ihfft", "irfft", "hfft"):
                yield _transform(name, real(2, 5), n=n, norm=norm)
        for sizes in (None, (3, 5), (4, 2)):
            for name in ("fft2", "ifft2", "irfft2", "fftn", "ifftn", "irfftn"):
                yield _transform(name, complex_(3, 4), s=sizes, axes=(0, 1), norm=norm)
            for name in ("rfft2", "rfftn", "fft2", "irfftn"):
                yield _transform(name, real(3, 4), s=sizes, axes=(1, 0), norm=norm)
    for name in ("fftn", "ifftn", "irfftn"):
        yield _transform(name, complex_(2, 3, 2))
    yield _transform("rfftn", real(2, 3, 2))
    for name in ("fftshift", "ifftshift"):
        yield _transform(name, complex_(3, 4))


def _transform(name: str, x: Array, **options: Any) -> Case:
    given = ", ".join(f"{key}={value}" for key, value in options.items())
    return Case(f"{name}({x.dtype.kind}{x.shape}, {given})", lambda x: getattr(wg.fft, name)(x, **options), (x,))


RULES = [*_elementwise(), *_reductions(), *_movement(), *_products(), *_linalg(), *_bodies()]
TRANSFORMS = list(_transforms())
