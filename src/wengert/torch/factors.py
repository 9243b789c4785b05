"""Factorisations and systems by the names that they have in `torch` itself, with the older signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wengert.core.graph import Node
from wengert.ops import decompose, lu, matrix_functions
from wengert.ops import linalg as la
from wengert.ops.core import cast
from wengert.ops.creation import eye, iota, tril, triu, zeros
from wengert.ops.elementwise import equal
from wengert.ops.movement import concat, expand_dims, matrix_transpose, reshape, slice_axis, take_slice
from wengert.ops.reduce import mean, norm
from wengert.torch import return_types
from wengert.torch.arguments import over_nodes
from wengert.torch.linalg import (
    det,
    householder_product,
    inv,
    matrices,
    nothing,
    pinv,
    pivoted,
    slogdet,
    square,
    with_pivots,
)
from wengert.torch.registry import functions, methods


def _older(name: str, function: Callable[..., Any], method: bool = True) -> None:
    functions[name] = function
    if method:
        methods[name] = function


@over_nodes("full")
def _cholesky(input: Node, upper: bool = False) -> Node:
    """The triangular factor of symmetric positive definite matrices."""
    return decompose.cholesky(square("cholesky", input), upper=upper)


@over_nodes("full")
def _cholesky_solve(B: Node, L: Node, upper: bool = False) -> Node:
    """The solution of a system by the Cholesky factor of its matrix."""
    if len(B.shape) < 2 or len(L.shape) < 2:
        raise RuntimeError("b should have at least 2 dimensions, and u too")
    return lu.cholesky_solve(B, L, upper=upper)


@over_nodes("full")
def _cholesky_inverse(L: Node, upper: bool = False) -> Node:
    """The inverse of a matrix by its Cholesky factor."""
    return lu.cholesky_inverse(L, upper=upper)


@over_nodes("full")
def _qr(input: Node, some: bool = True) -> Any:
    """Orthonormal columns and an upper triangular factor."""
    return return_types.qr(*decompose.qr(input, mode="reduced" if some else "complete"))


@over_nodes("full")
def _svd(input: Node, some: bool = True, compute_uv: bool = True) -> Any:
    """The singular value decomposition `input = U @ diag(S) @ V.mH`."""
    u, s, vh = decompose.svd(matrices("svd", input), full_matrices=not some)
    if not compute_uv:
        u, vh = (moved * 0 for moved in (u, vh))
    return return_types.svd(u, s, la.adjoint(vh))


@over_nodes("full")
def _triangular_solve(
    b: Node, A: Node, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> Any:
    """The `x` with `A @ x = b` for a triangular `A`, and `A`."""
    matrix = matrix_transpose(A) if transpose else A
    found = la.triangular_solve(matrix, b, upper=upper != transpose, unit_diagonal=unitriangular)
    return return_types.triangular_solve(found, A)


@over_nodes("full")
def _lu_solve(b: Node, LU_data: Node, LU_pivots: Node) -> Node:
    """Solve a system given the factors of its matrix."""
    return lu.lu_solve((LU_data, LU_pivots - 1), b)


@over_nodes("full")
def _lu(A: Node, pivot: bool = True, get_infos: bool = False) -> Any:
    """The LU factorisation, packed, its pivots, and with `get_infos` which pivot is the first zero."""
    packed, pivots, info = lu.lu_factor_ex(with_pivots("lu", A, pivot))
    return (packed, pivoted(pivots), info) if get_infos else (packed, pivoted(pivots))


@over_nodes("full")
def _lu_unpack(LU_data: Node, LU_pivots: Node, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """The factors P, L and U of a packed factorisation."""
    m, n = LU_data.shape[-2:]
    k = min(m, n)
    lead = (0,) * (len(LU_data.shape) - 2)
    batch, ones = LU_data.shape[:-2], (1,) * len(LU_data.shape)
    p = lower = upper = nothing(LU_data)
    if unpack_data:
        lower = tril(take_slice(LU_data, (*lead, 0, 0), ones, (*batch, m, k)), k=-1) + eye(m, k, dtype=LU_data.dtype)
        upper = triu(take_slice(LU_data, (*lead, 0, 0), ones, (*batch, k, n)))
    if unpack_pivots:
        order = lu.PIVOTS_TO_ORDER(LU_pivots - 1, rows=m)
        p = cast(equal(reshape(iota(m), (m, 1)), expand_dims(order, axis=-2)), LU_data.dtype)
    return return_types.lu_unpack(p, lower, upper)


_older("cholesky", _cholesky)
_older("cholesky_solve", _cholesky_solve)
_older("cholesky_inverse", _cholesky_inverse)
_older("qr", _qr)
_older("svd", _svd)
_older("triangular_solve", _triangular_solve)
_older("lu_solve", _lu_solve)
_older("lu", _lu)
_older("lu_unpack", _lu_unpack, method=False)
_older("det", det)
_older("slogdet", slogdet)
_older("inverse", inv)
_older("pinverse", pinv)
_older("orgqr", householder_product)


@over_nodes("full")
def _ormqr(input: Node, tau: Node, other: Node, left: bool = True, transpose: bool = False) -> Node:
    """`other` times the square orthogonal matrix that Householder reflections make."""
    m, n = input.shape[-2:]
    if m != other.shape[-2 if left else -1]:
        raise RuntimeError(f"torch.ormqr: other.shape[{-2 if left else -1}] must be equal to input.shape[-2]")
    batch = input.shape[:-2]
    wide = concat([input, zeros((*batch, m, m - n), dtype=input.dtype)], axis=-1) if m > n else input
    scales = concat([tau, zeros((*batch, m - tau.shape[-1]), dtype=tau.dtype)], axis=-1)
    square = take_slice(wide, (0,) * len(wide.shape), (1,) * len(wide.shape), (*batch, m, m))
    q = matrix_functions.householder_product(square, scales)
    q = la.adjoint(q) if transpose else q
    return la.matmul(q, other) if left else la.matmul(other, q)


@over_nodes("full")
def _svd_lowrank(A: Node, q: int | None = 6, niter: int = 2, M: Any = None) -> Any:
    """The `q` largest singular values and their vectors; exact ones, where PyTorch draws random vectors."""
    x = A if M is None else A - M
    count = min(q or 6, *x.shape[-2:])
    u, s, vh = decompose.svd(x, full_matrices=False)
    v = la.adjoint(vh)
    last = len(u.shape) - 1
    return slice_axis(u, last, 0, count), slice_axis(s, last - 1, 0, count), slice_axis(v, last, 0, count)


@over_nodes("full")
def _pca_lowrank(A: Node, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """The `q` largest principal components: of the columns less their means, with `center`."""
    x = A - mean(A, axis=-2, keepdims=True) if center else A
    count = min(6, *A.shape[-2:]) if q is None else q
    u, s, vh = decompose.svd(x, full_matrices=False)
    v = la.adjoint(vh)
    last = len(u.shape) - 1
    return slice_axis(u, last, 0, count), slice_axis(s, last - 1, 0, count), slice_axis(v, last, 0, count)


_older("ormqr", _ormqr)
_older("svd_lowrank", _svd_lowrank, method=False)
_older("pca_lowrank", _pca_lowrank, method=False)


@over_nodes("full")
def _vander(x: Node, N: int | None = None, increasing: bool = False) -> Node:
    """Powers of the elements of a vector, a row each, from the largest down unless `increasing`."""
    if len(x.shape) != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    return matrix_functions.vander(x, N, increasing=increasing)


@over_nodes("full")
def _norm_except_dim(v: Node, pow: int = 2, dim: int = 0) -> Node:
    """The norm of each part along an axis, with the other axes kept at size 1; of all, if it is -1."""
    axes = tuple(i for i in range(len(v.shape)) if i != dim) if dim != -1 else None
    return norm(v, ord=float(pow), axis=axes, keepdims=dim != -1)


_older("vander", _vander, method=False)
_older("norm_except_dim", _norm_except_dim, method=False)
