"""PyTorch's linear algebra and Fourier transforms as they are spelled here, and what of a factorisation is unique."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import wengert as wg
from tests.oracle.opinfo.adapters import axes, cast, diagonal


def matrix_norm(x: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, dtype: Any = None) -> Any:
    moved = wg.moveaxis(cast(x, dtype), tuple(dim), (-2, -1))
    found = wg.linalg.matrix_norm(moved, ord=ord, keepdims=keepdim)
    return wg.moveaxis(found, (-2, -1), tuple(dim)) if keepdim else found


def vector_norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    return wg.linalg.vector_norm(cast(x, dtype), ord=ord, axis=axes(dim), keepdims=keepdim)


def norm(x: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    matrix = (isinstance(dim, (list, tuple)) and len(dim) == 2) or (dim is None and ord is not None and x.ndim == 2)
    if ord is None or not matrix:
        return vector_norm(x, 2 if ord is None else ord, dim, keepdim, dtype)
    return matrix_norm(x, ord, (-2, -1) if dim is None else dim, keepdim, dtype)


def solve_triangular(a: Any, b: Any, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    if not left:
        return wg.matrix_transpose(
            solve_triangular(a.mT, wg.matrix_transpose(b), upper=not upper, unitriangular=unitriangular)
        )
    return wg.linalg.triangular_solve(a, b, upper=upper, unit_diagonal=unitriangular)


def triangular_solve(
    b: Any, a: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Any, Any]:
    flipped = upper != transpose
    solved = wg.linalg.triangular_solve(a.mT if transpose else a, b, upper=flipped, unit_diagonal=unitriangular)
    return solved, a


def solve(a: Any, b: Any, *, left: bool = True) -> Any:
    if not left:
        return wg.linalg.solve(a.mT, b.mT).mT
    vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and tuple(b.shape) == tuple(a.shape[:-1]))
    return wg.linalg.solve(a, b[..., None])[..., 0] if vector else wg.linalg.solve(a, b)


def svd(x: Any, some: bool = True, compute_uv: bool = True) -> Any:
    u, s, vh = wg.linalg.svd(x, full_matrices=not some)
    return u, s, wg.conj(vh.mT)


def pinv(x: Any, rcond: Any = None, *, rtol: Any = None) -> Any:
    return wg.linalg.pinv(x, rtol=rcond if rtol is None else rtol)


def transform(function: Callable[..., Any]) -> Callable[..., Any]:
    """A Fourier transform along one axis."""
    return lambda x, n=None, dim=-1, norm=None: function(x, n=n, axis=dim, norm=norm or "backward")


def transforms(function: Callable[..., Any], over: Any = None) -> Callable[..., Any]:
    """A Fourier transform along several axes; with lengths and no axes, along the last ones."""

    def transformed(x: Any, s: Any = None, dim: Any = over, norm: str | None = None) -> Any:
        sizes = (s,) if isinstance(s, int) else s
        along = (dim,) if isinstance(dim, int) else dim
        if sizes is not None and along is None:
            along = tuple(range(-len(sizes), 0))
        return function(x, s=sizes, axes=along, norm=norm or "backward")

    return transformed


SPELLED: dict[str, Callable[..., Any]] = {
    "linalg.matrix_norm": matrix_norm,
    "linalg.vector_norm": vector_norm,
    "linalg.norm": norm,
    "linalg.diagonal": lambda x, *, offset=0, dim1=-2, dim2=-1: diagonal(x, offset, dim1, dim2),
    "linalg.cross": lambda x, y, *, dim=-1: wg.cross(x, y, axis=dim),
    "linalg.vecdot": lambda x, y, *, dim=-1: wg.vecdot(x, y, axis=dim),
    "linalg.solve_triangular": solve_triangular,
    "linalg.solve": solve,
    "linalg.pinv": pinv,
    "linalg.tensorsolve": lambda a, b, dims=None: wg.linalg.tensorsolve(a, b, axes=dims),
    "linalg.vander": lambda x, *, N=None: wg.linalg.vander(x, N, increasing=True),
    "cholesky_solve": lambda b, factor, upper=False: wg.linalg.cholesky_solve(b, factor, upper=upper),
    "cholesky_inverse": lambda factor, upper=False: wg.linalg.cholesky_inverse(factor, upper=upper),
    "matrix_exp": wg.linalg.matrix_exp,
    "linalg.pinv/singular": lambda a, b: wg.linalg.pinv(a @ b.mT),
    "linalg.eigh": lambda x, UPLO="L": wg.linalg.eigh(x),  # of a symmetric matrix both triangles say the same
    "linalg.eigvalsh": lambda x, UPLO="L": wg.linalg.eigvalsh(x),
    "pinverse": pinv,
    "triangular_solve": triangular_solve,
    "cholesky": lambda x, upper=False: wg.linalg.cholesky(x, upper=upper),
    "qr": lambda x, some=True: wg.linalg.qr(x, mode="reduced" if some else "complete"),
    "svd": svd,
    "logdet": lambda x: wg.log(wg.linalg.det(x)),
    **{f"fft.{name}": transform(getattr(wg.fft, name)) for name in ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]},
    **{f"fft.{name}": transforms(getattr(wg.fft, name)) for name in ["fftn", "ifftn", "rfftn", "irfftn"]},
    **{f"fft.{name}2": transforms(getattr(wg.fft, name + "n"), (-2, -1)) for name in ["fft", "ifft", "rfft", "irfft"]},
    "fft.fftshift": lambda x, dim=None: wg.fft.fftshift(x, axes=dim),
    "fft.ifftshift": lambda x, dim=None: wg.fft.ifftshift(x, axes=dim),
}


# --- what is unique of a factorisation ------------------------------------------------------------------------------


def _size(x: Any) -> Any:
    return abs(x)


def _without_ties(found: Any) -> Any:
    """Of integers, which of several equal elements is taken is nobody's promise: the values only."""
    return (found[0],) if "int" in str(found[0].dtype) and isinstance(found, tuple) else found


INVARIANTS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("kthvalue", "topk", "median", "mode"), _without_ties),
    # Singular vectors and eigenvectors are unique up to a factor of size 1 each.
    **dict.fromkeys(("linalg.eig", "linalg.eigh"), lambda found: (found[0], _size(found[1]))),
    "linalg.svd": lambda found: (
        _size(found[0])[..., : found[1].shape[-1]],
        found[1],
        _size(found[2])[..., : found[1].shape[-1], :],
    ),
    "svd": lambda found: (
        _size(found[0])[..., : found[1].shape[-1]],
        found[1],
        _size(found[2])[..., : found[1].shape[-1]],
    ),
    "linalg.qr": lambda found: tuple(_size(factor) for factor in found),
    "qr": lambda found: tuple(_size(factor) for factor in found),
}
