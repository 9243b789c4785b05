"""Cases of linear algebra: systems, inverses, determinants, factorisations, norms.

Factors are free in their signs, so svd, eigh and qr are differentiated through what does not depend on them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg
from tests.ops.case import Case, arrays

try:
    import torch
except ImportError:  # then nothing is compared with it
    torch = None  # type: ignore[assignment]


def oracle(name: str) -> Callable[..., Any] | None:
    """torch's function of the same name."""
    return getattr(torch.linalg, name) if torch is not None else None


def invertible(seed: int, *shape: int) -> np.ndarray:
    """Square matrices with singular values well away from 0 and from each other."""
    (a,) = arrays(seed, shape, low=-1, high=1)
    return a + np.diag(np.arange(2.0, 2.0 + shape[-1]))


def positive(seed: int, *shape: int) -> np.ndarray:
    """Symmetric positive definite matrices with distinct eigenvalues."""
    (a,) = arrays(seed, shape, low=-1, high=1)
    return a @ a.swapaxes(-1, -2) / shape[-1] + np.diag(np.arange(1.0, 1.0 + shape[-1]))


def transposed(x: np.ndarray) -> np.ndarray:
    """The same values, laid out the other way: not contiguous."""
    return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)


SQUARE = [
    invertible(1, 3, 3),
    invertible(2, 2, 4, 4),
    invertible(3, 1, 1),
    invertible(4, 2, 1, 2, 2),
    transposed(invertible(5, 3, 3)),
    invertible(6, 4, 3, 3)[::2],
    np.zeros((0, 3, 3)),
    np.zeros((2, 0, 0)),
]
POSITIVE = [
    positive(11, 3, 3),
    positive(12, 2, 4, 4),
    positive(13, 1, 1),
    positive(14, 4, 1, 2, 2)[::2],
    transposed(positive(15, 3, 3)),
    np.zeros((0, 2, 2)),
    np.zeros((0, 0)),
]
TALL = [arrays(21, (4, 3))[0], arrays(22, (2, 5, 2))[0], arrays(23, (3, 1))[0], np.zeros((0, 3, 2))]
WIDE = [arrays(24, (3, 4))[0], arrays(25, (2, 2, 5))[0], arrays(26, (1, 3))[0], transposed(arrays(27, (2, 4))[0])]
ANY_SHAPE = [invertible(28, 3, 3), *TALL, *WIDE]

CASES: list[Case] = []

for name in ("inv", "det"):
    reference = getattr(np.linalg, name)
    CASES += [Case(f"linalg.{name}", (x,), numpy=reference, torch=oracle(name)) for x in SQUARE]

CASES += [
    Case(
        "linalg.slogdet", (x,), numpy=lambda x: tuple(np.linalg.slogdet(x)), torch=lambda x: tuple(oracle("slogdet")(x))
    )
    for x in (*SQUARE, np.array([[0.0, 2.0], [3.0, 1.0]]))
]
CASES += [
    Case("linalg.matrix_power", (x, n), numpy=np.linalg.matrix_power, torch=oracle("matrix_power"))
    for x, n in zip((*SQUARE, *SQUARE[:3]), (2, 3, 5, -1, -2, 1, 2, 3, 0, 7, 0))
]

# --- systems --------------------------------------------------------------------------------------------------------


def solve_with_vectors(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What the standard says: a right side of one axis is a vector."""
    return np.linalg.solve(a, b[:, None])[..., 0] if b.ndim == 1 else np.linalg.solve(a, b)


SYSTEMS = [
    (invertible(31, 3, 3), arrays(32, (3,))[0]),
    (invertible(33, 3, 3), arrays(34, (3, 2))[0]),
    (invertible(35, 2, 3, 3), arrays(36, (3,))[0]),
    (invertible(37, 2, 1, 3, 3), arrays(38, (4, 3, 2))[0]),
    (invertible(39, 3, 3), arrays(40, (2, 3, 1))[0]),
    (transposed(invertible(41, 2, 2)), arrays(42, (4, 3))[0][::2]),
    (invertible(43, 1, 1), arrays(44, (1, 3))[0]),
    (np.zeros((0, 2, 2)), np.zeros((0, 2, 3))),
    (invertible(45, 2, 2), np.zeros((2, 0))),
]
CASES += [Case("linalg.solve", (a, b), numpy=solve_with_vectors) for a, b in SYSTEMS]


def triangular_reference(a: np.ndarray, b: np.ndarray, upper: bool = False, unit_diagonal: bool = False) -> np.ndarray:
    """By substitution, a row at a time."""
    n, columns = a.shape[-1], b[:, None] if b.ndim == 1 else b
    batch = np.broadcast_shapes(a.shape[:-2], columns.shape[:-2])
    x = np.zeros((*batch, *columns.shape[-2:]))
    for i in reversed(range(n)) if upper else range(n):
        known = slice(i + 1, n) if upper else slice(0, i)
        rest = columns[..., i, :] - np.einsum("...j,...jk->...k", a[..., i, known], x[..., known, :])
        x[..., i, :] = rest if unit_diagonal else rest / a[..., i, i, None]
    return x[..., 0] if b.ndim == 1 else x


CASES += [
    Case("linalg.triangular_solve", (a, b), options, numpy=triangular_reference)
    for (a, b), options in zip(
        (*SYSTEMS[:8], SYSTEMS[0], SYSTEMS[3]),
        (
            {},
            {"upper": True},
            {"unit_diagonal": True},
            {"upper": True, "unit_diagonal": True},
            {"upper": False},
            {"upper": True},
            {},
            {},
            {"upper": True, "unit_diagonal": True},
            {"unit_diagonal": True},
        ),
    )
]

# --- factorisations -------------------------------------------------------------------------------------------------

CASES += [
    Case("linalg.cholesky", (x,), {"upper": upper}, numpy=np.linalg.cholesky, torch=oracle("cholesky"))
    for x in POSITIVE
    for upper in (False, True)
]
CASES += [
    Case(
        "linalg.cholesky",
        (invertible(50, 3, 3),),
        note="only the symmetric part counts",
        numpy=lambda x: np.linalg.cholesky((x + x.T) / 2),
    )
]


def projector(q: wg.Tensor) -> wg.Tensor:
    """What the columns span: the same whatever their signs."""
    return q @ q.mT


def qr_invariant(result: Any) -> Any:
    signs = wg.sign(wg.diagonal(result.R))
    n, columns, device = signs.shape[-1], result.Q.shape[-1], result.Q.device
    first = wg.einsum("...ij,jk->...ik", result.Q, wg.tensor(np.eye(columns, n), device=device))
    rest = wg.einsum("...ij,jk->...ik", result.Q, wg.tensor(np.eye(columns, k=-n), device=device))
    return first * signs.reshape((*signs.shape[:-1], 1, n)), result.Q @ result.R, projector(rest)


CASES += [
    Case("linalg.qr", (x,), {"mode": mode}, numpy=lambda x, mode: tuple(np.linalg.qr(x, mode)), invariant=qr_invariant)
    for x in (*ANY_SHAPE, np.zeros((2, 0)))
    for mode in ("reduced", "complete")
]


def svd_invariant(result: Any) -> Any:
    k, device = result.S.shape[-1], result.S.device
    u = wg.einsum("...ij,jk->...ik", result.U, wg.tensor(np.eye(result.U.shape[-1], k), device=device))
    v = wg.einsum("ij,...jk->...ik", wg.tensor(np.eye(k, result.Vh.shape[-2]), device=device), result.Vh)
    weights = wg.tensor(np.arange(1.0, k + 1), device=device)
    return (
        (u * result.S.reshape((*result.S.shape[:-1], 1, k))) @ v,
        result.S,
        (u * weights) @ v,
        projector(u * weights),
        (v.mT * weights) @ v,
    )


CASES += [
    Case(
        "linalg.svd",
        (x,),
        {"full_matrices": full},
        numpy=lambda x, full_matrices: tuple(np.linalg.svd(x, full_matrices)),
        invariant=svd_invariant,
    )
    for x in (*ANY_SHAPE, np.zeros((0, 0)))
    for full in (False, True)
]
CASES += [
    Case("linalg.svdvals", (x,), numpy=lambda x: np.linalg.svd(x, compute_uv=False), torch=oracle("svdvals"))
    for x in ANY_SHAPE
]


def eigh_invariant(result: Any) -> Any:
    weights = np.arange(1.0, result.eigenvalues.shape[-1] + 1)
    return result.eigenvalues, projector(result.eigenvectors * wg.tensor(weights, device=result.eigenvalues.device))


CASES += [
    Case(
        "linalg.eigh",
        (x,),
        numpy=lambda x: tuple(np.linalg.eigh(x)),
        invariant=eigh_invariant,
    )
    for x in POSITIVE
]
CASES += [Case("linalg.eigvalsh", (x,), numpy=np.linalg.eigvalsh, torch=oracle("eigvalsh")) for x in POSITIVE]

# --- pseudo-inverse and rank ----------------------------------------------------------------------------------------

DEFICIENT = arrays(61, (4, 2))[0] @ arrays(62, (2, 3))[0]
VARIED = "the rank is two only exactly: rounding or moving the values changes it"
CASES += [Case("linalg.pinv", (x,), numpy=np.linalg.pinv, torch=oracle("pinv")) for x in ANY_SHAPE]
CASES += [
    Case("linalg.pinv", (DEFICIENT,), numpy=np.linalg.pinv, differentiable=False, vmap=False, half=False, note=VARIED),
    Case(
        "linalg.pinv",
        (invertible(63, 2, 3, 3),),
        {"rtol": np.array([0.01, 0.02])},
        numpy=lambda x, rtol: np.linalg.pinv(x, rtol=rtol),
    ),
    Case("linalg.pinv", (np.zeros((3, 0)),), numpy=np.linalg.pinv),
]
CASES += [
    Case("linalg.matrix_rank", (x,), numpy=np.linalg.matrix_rank, torch=oracle("matrix_rank"), differentiable=False)
    for x in (*ANY_SHAPE, np.zeros((2, 3, 3)), np.zeros((0, 0)))
]
CASES += [
    Case(
        "linalg.matrix_rank",
        (invertible(64, 2, 3, 3),),
        {"rtol": np.array([0.5, 0.7])},
        numpy=lambda x, rtol: np.linalg.matrix_rank(x, rtol=rtol),
        differentiable=False,
        vmap=False,
        half=False,
        note="at a step",
    ),
    Case(
        "linalg.matrix_rank",
        (DEFICIENT,),
        differentiable=False,
        numpy=np.linalg.matrix_rank,
        vmap=False,
        half=False,
        note=VARIED,
    ),
]

# --- norms ----------------------------------------------------------------------------------------------------------

ORDERS = ("fro", "nuc", 1, -1, 2, -2, math.inf, -math.inf)


def matrix_norm_reference(x: np.ndarray, ord: Any = "fro", keepdims: bool = False) -> np.ndarray:
    return np.linalg.norm(x, ord, (-2, -1), keepdims)


CASES += [
    Case("linalg.matrix_norm", (x,), {"ord": ord}, numpy=matrix_norm_reference)
    for x in (ANY_SHAPE[0], TALL[1], WIDE[2], transposed(TALL[0]))
    for ord in ORDERS
]
CASES += [
    Case(
        "linalg.matrix_norm", (TALL[1],), {"keepdims": True}, numpy=matrix_norm_reference, torch=oracle("matrix_norm")
    ),
    Case("linalg.matrix_norm", (np.zeros((0, 2, 3)),), {"ord": 2, "keepdims": True}, numpy=matrix_norm_reference),
    Case("linalg.matrix_norm", (np.zeros((2, 0)),), numpy=matrix_norm_reference),
]


def vector_norm_reference(x: np.ndarray, axis: Any = None, keepdims: bool = False, ord: float = 2) -> np.ndarray:
    return np.linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=ord)


AWAY_FROM_ZERO = arrays(71, (3, 4), low=0.5)[0] * np.where(arrays(72, (3, 4))[0] > 0, 1, -1)
CASES += [
    Case("linalg.vector_norm", (AWAY_FROM_ZERO,), {"axis": axis, "ord": ord}, numpy=vector_norm_reference)
    for axis, ord in ((None, 2), (0, 1), (1, math.inf), (-1, -math.inf), ((0, 1), 3), (1, 0), (0, 0.5), (1, -2))
]
CASES += [
    Case("linalg.vector_norm", (AWAY_FROM_ZERO,), {"axis": 0, "keepdims": True}, numpy=vector_norm_reference),
    Case("linalg.vector_norm", (np.array(-3.0),), numpy=vector_norm_reference),
    Case("linalg.vector_norm", (np.zeros((0, 3)),), {"axis": 0}, numpy=vector_norm_reference),
    Case("linalg.vector_norm", (AWAY_FROM_ZERO.T[::2],), {"axis": 0}, numpy=vector_norm_reference),
]
