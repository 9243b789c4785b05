"""Factorisations of matrices: Cholesky, QR, singular values, eigenvalues. `lu` has the one with pivots, `matrix_norms`
what is read off singular values.

Each factorisation is a primitive whose tangent rule is written with the factors themselves. The factors are not
unique: signs (and the columns of equal singular or eigenvalues) are free. Derivatives are right for functions that do
not depend on that choice; where a rule would divide by the difference of two equal values it takes 0 instead.

Of complex matrices the phases are free as well, as signs are of real ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.core.dtypes import COMPLEX, complex64, complex128, float64, real_of
from wengert.core.errors import ArgumentError
from wengert.core.graph import Node
from wengert.ops.contract import diagonal
from wengert.ops.core import cast
from wengert.ops.creation import eye, tril, triu
from wengert.ops.elementwise import conjugate, equal, imag, real, reciprocal, safe_multiply, where
from wengert.ops.factors import batch_axes
from wengert.ops.linalg import SOLVE, TRIANGULAR_SOLVE, adjoint, as_matrices, over_lanes
from wengert.ops.movement import concat, expand_dims, place, slice_axis
from wengert.ops.op import Op, picks
from wengert.ops.reduce import sum as sum_along


def hermitian(x: Node) -> Node:
    """The symmetric part of matrices (the Hermitian one of complex matrices)."""
    other = adjoint(x)
    return x * 0.5 + other * 0.5


def _over(x: Node) -> Node:
    """One over each element, and 0 where it is 0."""
    zero = equal(x, 0)
    return where(zero, 0, reciprocal(where(zero, 1, x)))


def _columns(x: Node, start: int, stop: int) -> Node:
    return slice_axis(x, x.ndim - 1, start, stop)


def _with_complement(q: Node, dq: Node, basis: Node) -> Node:
    """How a whole orthogonal basis moves when its first columns `q` move by `dq`: the rest stays orthogonal to them."""
    rest = _columns(basis, q.shape[-1], basis.shape[-1])
    return concat([dq, -(q @ (adjoint(dq) @ rest))], axis=-1) if rest.shape[-1] else dq


# --- Cholesky -------------------------------------------------------------------------------------------------------


def _halved_lower(x: Node) -> Node:
    """The lower triangles with half of the diagonal: `L + L.T` of it is a symmetric matrix again."""
    return (tril(x) + tril(x, k=-1)) * 0.5


def _cholesky_jvp(tangents: Sequence[Any], y: Node, x: Node) -> Node:
    half = TRIANGULAR_SOLVE(y, tangents[0], upper=False, unit_diagonal=False)
    inner = TRIANGULAR_SOLVE(y, adjoint(half), upper=False, unit_diagonal=False)
    return y @ _halved_lower(inner)


CHOLESKY = Op(
    "cholesky",
    infer=lambda x: (x.shape, x.dtype),
    numpy=np.linalg.cholesky,
    jvp=_cholesky_jvp,
    complex=True,
    batch=over_lanes,
    factors=batch_axes,
    expensive=True,
    precision="full",
)


def cholesky(x: Any, /, *, upper: bool = False) -> Node:
    """The lower triangular `L` with `L @ L.mT = x`, for symmetric positive definite matrices; `L.mT` with `upper`.

    Of `x` only the symmetric part counts.

    >>> import wengert as wg
    >>> wg.linalg.cholesky(wg.tensor([[4.0, 2.0], [2.0, 5.0]])).tolist()
    [[2.0, 0.0], [1.0, 2.0]]
    """
    lower = CHOLESKY(hermitian(as_matrices(x, "cholesky", square=True)))
    return adjoint(lower) if upper else lower


# --- QR -------------------------------------------------------------------------------------------------------------


class QR(NamedTuple):
    """An orthogonal and an upper triangular factor."""

    Q: Any
    R: Any


def _qr_infer(x: Node, mode: str) -> tuple[Any, Any]:
    batch, (rows, columns) = x.shape[:-2], x.shape[-2:]
    inner = rows if mode == "complete" else min(rows, columns)
    return ((*batch, rows, inner), (*batch, inner, columns)), (x.dtype, x.dtype)


def _with_real_diagonal(x: Node) -> Node:
    if x.dtype not in COMPLEX:
        return x
    return x - safe_multiply(
        cast(eye(x.shape[-1], dtype=real_of(x.dtype), device=x.device), x.dtype), safe_multiply(imag(x), 1j)
    )


def _real_diagonal(x: Node) -> Node:
    """The diagonals of matrices, without the imaginary part that rounding leaves there."""
    return real(diagonal(x)) if x.dtype in COMPLEX else diagonal(x)


def _qr_jvp(tangents: Sequence[Any], y: Node, x: Node) -> list[Node]:
    """For at least as many rows as columns. With dx = dq r + q dr, q.T dq is skew and dr / r upper triangular.

    The diagonal of `r` is real, also of complex matrices: an imaginary part on it belongs to q.
    """
    basis, tall = picks(y)
    n = x.shape[-1]
    q, r = _columns(basis, 0, n), slice_axis(tall, tall.ndim - 2, 0, n)
    scaled = adjoint(TRIANGULAR_SOLVE(adjoint(r), adjoint(tangents[0]), upper=False, unit_diagonal=False))
    inner = adjoint(q) @ scaled
    below = tril(inner, k=-1)
    upper = _with_real_diagonal(inner - below + adjoint(below))
    moved = _with_complement(q, scaled - q @ upper, basis)
    return [moved, place(upper @ r, tall.shape, (0,) * tall.ndim, (1,) * tall.ndim)]


FACTOR_QR = Op(
    "qr",
    infer=_qr_infer,
    numpy=lambda x, mode: tuple(np.linalg.qr(x, mode)),
    jvp=_qr_jvp,
    complex=True,
    batch=over_lanes,
    factors=batch_axes,
    expensive=True,
    precision="full",
)


def qr(x: Any, /, mode: str = "reduced") -> Any:
    """Orthonormal columns `Q` and an upper triangular `R` with `Q @ R = x`.

    `mode` is "reduced" (as many columns as `x` has rows or columns, whichever is less), "complete" (`Q` is square) or
    "r" (`R` alone).
    The derivative needs linearly independent columns (of a wide `x`, the first ones).

    >>> import wengert as wg
    >>> q, r = wg.linalg.qr(wg.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    >>> q.shape, r.shape
    ((3, 2), (2, 2))
    """
    if mode == "r":
        return qr(x).R
    x = as_matrices(x, "qr")
    if mode not in ("reduced", "complete"):
        raise ArgumentError(f'qr: mode is "reduced", "complete" or "r", not {mode!r}')
    rows, columns = x.shape[-2:]
    if rows >= columns:
        return QR(*picks(FACTOR_QR(x, mode=mode)))
    # of a wide matrix the first columns determine Q, and R's others are what Q makes of the rest
    q, r = picks(FACTOR_QR(_columns(x, 0, rows), mode="reduced"))
    back = adjoint(q)
    return QR(q, concat([r, back @ _columns(x, rows, columns)], axis=-1))


# --- singular values ------------------------------------------------------------------------------------------------


class SVD(NamedTuple):
    """Left singular vectors (columns), singular values, right singular vectors (rows)."""

    U: Any
    S: Any
    Vh: Any


def _svd_infer(x: Node, full_matrices: bool) -> tuple[Any, Any]:
    batch, (m, n) = x.shape[:-2], x.shape[-2:]
    k = min(m, n)
    left, right = ((m, m), (n, n)) if full_matrices else ((m, k), (k, n))
    return ((*batch, *left), (*batch, k), (*batch, *right)), (x.dtype, real_of(x.dtype), x.dtype)


def _svd_jvp(tangents: Sequence[Any], y: Node, x: Node) -> list[Node]:
    """With dx = d(u s v.T), u.T du and v.T dv are skew. Their sum and their difference follow from the symmetric and
    the skew part of u.T dx v: so equal singular values lose only what is undetermined.
    """
    dx = tangents[0]
    u_basis, s, vh_basis = picks(y)
    v_basis = adjoint(vh_basis)
    k = s.shape[-1]
    u, v = _columns(u_basis, 0, k), _columns(v_basis, 0, k)
    inner = adjoint(u) @ dx @ v
    row, column = expand_dims(s, axis=-2), expand_dims(s, axis=-1)
    total = _over(row - column) * (inner + adjoint(inner)) * 0.5
    difference = _over(row + column) * (inner - adjoint(inner)) * 0.5
    du, dv = u @ (total + difference), v @ (total - difference)
    if x.shape[-2] > k:
        du = du + (dx @ v - u @ inner) * _over(row)
    if x.shape[-1] > k:
        dv = dv + (adjoint(dx) @ u - v @ adjoint(inner)) * _over(row)
    return [_with_complement(u, du, u_basis), _real_diagonal(inner), adjoint(_with_complement(v, dv, v_basis))]


FACTOR_SVD = Op(
    "svd",
    infer=_svd_infer,
    numpy=lambda x, full_matrices: tuple(np.linalg.svd(x, full_matrices)),
    jvp=_svd_jvp,
    complex=True,
    batch=over_lanes,
    factors=batch_axes,
    expensive=True,
    precision="full",
)


def svd(x: Any, /, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """The singular value decomposition `x = U @ diag(S) @ Vh`, with `S` in descending order.

    With `full_matrices` U and Vh are square, otherwise they have just the vectors that belong to a singular value.
    Without `compute_uv` the result is `S` alone, as from `svdvals`.

    >>> import wengert as wg
    >>> wg.linalg.svd(wg.tensor([[0.0, 2.0], [1.0, 0.0]])).S.tolist()
    [2.0, 1.0]
    """
    if not compute_uv:
        return svdvals(x)
    return SVD(*picks(FACTOR_SVD(as_matrices(x, "svd"), full_matrices=bool(full_matrices))))


def svdvals(x: Any, /) -> Node:
    """The singular values of matrices, in descending order.

    >>> import wengert as wg
    >>> print(wg.linalg.svdvals(wg.tensor([[3.0, 0.0], [0.0, 4.0]])).numpy().round(4))
    [4. 3.]
    """
    return picks(FACTOR_SVD(as_matrices(x, "svdvals"), full_matrices=False))[1]


# --- eigenvalues ----------------------------------------------------------------------------------------------------


class Eigh(NamedTuple):
    """Eigenvalues in ascending order and their eigenvectors, as columns."""

    eigenvalues: Any
    eigenvectors: Any


def _eigh_jvp(tangents: Sequence[Any], y: Node, x: Node) -> list[Node]:
    values, vectors = picks(y)
    inner = adjoint(vectors) @ tangents[0] @ vectors
    gaps = expand_dims(values, axis=-2) - expand_dims(values, axis=-1)
    return [_real_diagonal(inner), vectors @ (_over(gaps) * inner)]


FACTOR_EIGH = Op(
    "eigh",
    infer=lambda x: ((x.shape[:-1], x.shape), (real_of(x.dtype), x.dtype)),
    numpy=lambda x: tuple(np.linalg.eigh(x)),
    jvp=_eigh_jvp,
    complex=True,
    batch=over_lanes,
    factors=batch_axes,
    expensive=True,
    precision="full",
)


def _of_triangle(x: Any, name: str, triangle: str | None) -> Node:
    """The symmetric matrices that are meant: by their symmetric part, or by one triangle."""
    x = as_matrices(x, name, square=True)
    if triangle is None:
        return hermitian(x)
    if triangle not in ("L", "U", "l", "u"):
        raise ArgumentError(f'{name}: UPLO is "L" (the lower triangle), "U" (the upper one) or None, not {triangle!r}')
    strict = tril(x, k=-1) if triangle in ("L", "l") else triu(x, k=1)
    return hermitian(tril(triu(x)) + strict * 2)


def eigh(x: Any, /, UPLO: str | None = None) -> Eigh:
    """The eigenvalues, in ascending order, and the eigenvectors (columns) of symmetric matrices.

    Of `x` only the symmetric part counts; with `UPLO` "L" or "U" only the lower or the upper triangle, as in NumPy.

    >>> import wengert as wg
    >>> wg.linalg.eigh(wg.tensor([[3.0, 0.0], [0.0, 1.0]])).eigenvalues.tolist()
    [1.0, 3.0]
    """
    return Eigh(*picks(FACTOR_EIGH(_of_triangle(x, "eigh", UPLO))))


def eigvalsh(x: Any, /, UPLO: str | None = None) -> Node:
    """The eigenvalues of symmetric matrices, in ascending order; `UPLO` is as in `eigh`.

    >>> import wengert as wg
    >>> wg.linalg.eigvalsh(wg.tensor([[2.0, 0.0], [0.0, 1.0]])).tolist()
    [1.0, 2.0]
    """
    return picks(FACTOR_EIGH(_of_triangle(x, "eigvalsh", UPLO)))[0]


class Eig(NamedTuple):
    """Eigenvalues in no particular order and their eigenvectors, as columns of length 1. Both are complex."""

    eigenvalues: Any
    eigenvectors: Any


def _eig_numpy(x: Any) -> tuple[Any, Any]:
    """Real matrices are factorised as such: their eigenvalues come in pairs then, to the last bit."""
    values, vectors = np.linalg.eig(x if x.imag.any() else x.real)
    return np.asarray(values, x.dtype), np.asarray(vectors, x.dtype)


def _eig_jvp(tangents: Sequence[Any], y: Node, x: Node) -> list[Node]:
    """Boeddeker et al. (2017): eigenvectors of length 1 move at right angles to themselves, up to a phase."""
    values, vectors = picks(y)
    inner = SOLVE(vectors, tangents[0] @ vectors)
    gaps = expand_dims(values, axis=-2) - expand_dims(values, axis=-1)
    moved = vectors @ (_over(gaps) * inner)
    along = real(sum_along(conjugate(vectors) * moved, axis=-2, keepdims=True))
    return [diagonal(inner), moved - vectors * cast(along, vectors.dtype)]


FACTOR_EIG = Op(
    "eig",
    infer=lambda x: ((x.shape[:-1], x.shape), (x.dtype, x.dtype)),
    numpy=_eig_numpy,
    jvp=_eig_jvp,
    complex=True,
    batch=over_lanes,
    factors=batch_axes,
    expensive=True,
    precision="full",
)


def _as_complex_matrices(x: Any, name: str) -> Node:
    x = as_matrices(x, name, square=True)
    return x if x.dtype in COMPLEX else cast(x, complex128 if x.dtype is float64 else complex64)


def eig(x: Any, /) -> Eig:
    """The eigenvalues and the eigenvectors (columns) of square matrices, complex also where `x` is real.

    The derivative is that of functions that do not depend on the phases of the eigenvectors. It needs eigenvalues that
    differ; for symmetric matrices `eigh` is faster and more exact.

    >>> import wengert as wg
    >>> wg.linalg.eig(wg.tensor([[0.0, 1.0], [-1.0, 0.0]])).eigenvalues.tolist()
    [1j, -1j]
    """
    return Eig(*picks(FACTOR_EIG(_as_complex_matrices(x, "eig"))))


def eigvals(x: Any, /) -> Node:
    """The eigenvalues of square matrices, complex also where `x` is real.

    >>> import wengert as wg
    >>> wg.linalg.eigvals(wg.tensor([[2.0, 0.0], [1.0, 3.0]])).tolist()
    [(3+0j), (2+0j)]
    """
    return picks(FACTOR_EIG(_as_complex_matrices(x, "eigvals")))[0]
