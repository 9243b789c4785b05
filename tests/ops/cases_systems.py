"""Cases of LU, least squares, eigenvalues of any matrix, the matrix exponential and what is built of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

import wengert as wg
from tests.ops.case import Case, arrays
from tests.ops.cases_linalg import ANY_SHAPE, POSITIVE, SQUARE, SYSTEMS, TALL, WIDE, invertible, oracle, positive

CASES: list[Case] = []


def _cut(x: np.ndarray) -> list[np.ndarray]:
    return list(x.reshape(-1, *x.shape[-2:]))


# --- LU -------------------------------------------------------------------------------------------------------------


def lu_reference(x: np.ndarray) -> tuple[np.ndarray, ...]:
    parts = [scipy.linalg.lu(one) for one in _cut(x)]
    return tuple(np.stack(part).reshape(*x.shape[:-2], *part[0].shape) for part in zip(*parts))


def factors_reference(x: np.ndarray) -> tuple[np.ndarray, ...]:
    parts = [scipy.linalg.lu_factor(one) for one in _cut(x)]
    return tuple(np.stack(part).reshape(*x.shape[:-2], *part[0].shape) for part in zip(*parts))


FILLED = [x for x in ANY_SHAPE if x.size]
for x in FILLED:
    CASES += [Case("linalg.lu", (x,), numpy=lu_reference), Case("linalg.lu_factor", (x,), numpy=factors_reference)]
    CASES += [Case("linalg.lu_factor_ex", (x,), numpy=lambda x: (*factors_reference(x), np.zeros(x.shape[:-2], int)))]
CASES += [Case("linalg.lu", (np.zeros((2, 0, 3)),)), Case("linalg.lu_factor", (np.zeros((0, 3, 2)),))]


def lu_solved(a: np.ndarray, pivots: np.ndarray, b: np.ndarray, trans: int = 0) -> np.ndarray:
    return scipy.linalg.lu_solve((a, pivots), b, trans)


for seed, trans in enumerate((0, 1, 2)):
    packed, pivots = scipy.linalg.lu_factor(invertible(101 + seed, 3, 3)[::-1])
    for b in (arrays(110 + seed, (3, 2))[0], arrays(120 + seed, (3,))[0]):
        expected = scipy.linalg.lu_solve((packed, pivots), b, trans)
        CASES.append(
            Case("linalg.lu_solve", ((packed, pivots), b), {"trans": trans}, numpy=lambda *_, e=expected, trans: e)
        )
BATCH = np.stack([scipy.linalg.lu_factor(one)[0] for one in invertible(130, 2, 3, 3)])
CASES.append(Case("linalg.lu_solve", ((BATCH, np.array([[0, 1, 2], [1, 2, 2]])), arrays(131, (2, 3, 2))[0])))

# --- Cholesky -------------------------------------------------------------------------------------------------------

FACTORS = [np.linalg.cholesky(positive(140 + i, *shape)) for i, shape in enumerate(((3, 3), (2, 3, 3), (1, 1)))]
for factor in FACTORS:
    for upper in (False, True):
        given = factor.swapaxes(-1, -2) if upper else factor
        b = arrays(150, (factor.shape[-1], 2))[0]
        whole = factor @ factor.swapaxes(-1, -2)
        solved = np.linalg.solve(whole, np.broadcast_to(b, (*whole.shape[:-2], *b.shape)))
        CASES.append(Case("linalg.cholesky_solve", (b, given), {"upper": upper}, numpy=lambda *_, e=solved, upper: e))
        inverse = np.linalg.inv(whole)
        CASES.append(
            Case(
                "linalg.cholesky_inverse",
                (given,),
                {"upper": upper},
                numpy=lambda *_, e=inverse, upper: e,
            )
        )
CASES.append(Case("linalg.cholesky_solve", (arrays(151, (3,))[0], FACTORS[0])))
for x in POSITIVE[:5]:
    CASES.append(Case("linalg.cholesky_ex", (x,), numpy=lambda x: (np.linalg.cholesky(x), np.zeros(x.shape[:-2], int))))
for x in SQUARE[:5]:
    CASES.append(Case("linalg.inv_ex", (x,), numpy=lambda x: (np.linalg.inv(x), np.zeros(x.shape[:-2], int))))
for a, b in SYSTEMS[:5]:
    CASES.append(Case("linalg.solve_ex", (a, b)))

# --- the other side, the other triangle -----------------------------------------------------------------------------

FROM_RIGHT = [(invertible(160, 3, 3), arrays(161, (2, 3))[0]), (invertible(162, 2, 2), arrays(163, (2,))[0])]
for a, b in FROM_RIGHT:
    CASES.append(Case("linalg.solve", (a, b), {"left": False}, numpy=lambda a, b, left: b @ np.linalg.inv(a)))
    for upper, unit in ((False, False), (True, False), (True, True)):
        options = {"upper": upper, "left": False, "unitriangular": unit}
        CASES.append(
            Case("linalg.solve_triangular", (a, b), options, torch=None if b.ndim < 2 else oracle("solve_triangular"))
        )
for triangle in ("L", "U"):
    x = invertible(170, 2, 3, 3)
    CASES += [
        Case("linalg.eigvalsh", (x,), {"UPLO": triangle}, numpy=lambda x, UPLO: np.linalg.eigvalsh(x, UPLO)),
        Case(
            "linalg.eigh",
            (x,),
            {"UPLO": triangle},
            invariant=lambda found: found.eigenvalues,
        ),
    ]
for x in (TALL[0], WIDE[0]):
    CASES += [
        Case("linalg.svd", (x,), {"compute_uv": False}, numpy=np.linalg.svd),
        Case("linalg.qr", (x,), {"mode": "r"}, numpy=np.linalg.qr, invariant=lambda r: r.mT @ r),
    ]

# --- eigenvalues ----------------------------------------------------------------------------------------------------

GENERAL = [invertible(180 + i, *shape) for i, shape in enumerate(((3, 3), (2, 3, 3), (1, 1), (4, 4)))]
TURNING = np.array([[0.5, 2.0, 0.1], [-2.0, 0.4, 0.3], [0.2, 0.1, 1.5]])


def parts(found: Any) -> Any:
    """What does not depend on phases: eigenvalues, and the projections onto eigenvectors, weighted by sizes."""
    values, vectors = found
    lengths = wg.real(wg.conj(vectors) * vectors)
    return wg.real(values), wg.imag(values), lengths


NARROW = "where eigenvalues meet in a narrower dtype their order is another"
for x in (*GENERAL, TURNING):
    CASES += [
        Case(
            "linalg.eig",
            (x,),
            numpy=lambda x: tuple(map(_as_complex, np.linalg.eig(x))),
            invariant=parts,
            half=False,
            vmap=x is not TURNING,
            note=NARROW,
        ),
        Case(
            "linalg.eigvals",
            (x,),
            numpy=lambda x: _as_complex(np.linalg.eigvals(x)),
            invariant=lambda v: (wg.real(v), wg.imag(v)),
            half=False,
            note=NARROW,
        ),
    ]


def _as_complex(x: np.ndarray) -> np.ndarray:
    return x.astype(np.complex128)


# --- least squares, rank, condition, norms --------------------------------------------------------------------------


def lstsq_reference(a: np.ndarray, b: np.ndarray, rcond: Any = None) -> tuple[Any, ...]:
    solution, residuals, rank, sizes = np.linalg.lstsq(a, b, rcond)
    return solution, residuals.reshape(-1) if a.shape[0] > a.shape[1] else np.zeros(0), rank, sizes


def moving(found: Any) -> Any:
    return found.solution, found.residuals, found.singular_values


CASES += [
    Case("linalg.lstsq", (arrays(190, (4, 3))[0], arrays(191, (4, 2))[0]), numpy=lstsq_reference, invariant=moving),
    Case("linalg.lstsq", (arrays(192, (4, 2))[0], arrays(193, (4,))[0]), numpy=lstsq_reference, invariant=moving),
    Case("linalg.lstsq", (arrays(194, (2, 4))[0], arrays(195, (2, 1))[0]), invariant=moving),
    Case("linalg.lstsq", (invertible(196, 3, 3), arrays(197, (3, 2))[0]), {"rcond": 1e-9}, invariant=moving),
    Case("linalg.lstsq", (arrays(198, (2, 4, 2))[0], arrays(199, (4, 1))[0]), invariant=moving),
]
for p in (None, 1, -1, 2, -2, np.inf, -np.inf, "fro", "nuc"):
    for x in (invertible(200, 3, 3), invertible(201, 2, 2, 2)):
        CASES.append(Case("linalg.cond", (x,), {"p": p}, numpy=np.linalg.cond))
CASES.append(Case("linalg.cond", (TALL[0],), numpy=np.linalg.cond))
CASES += [
    Case("linalg.matrix_rank", (TALL[0],), {"tol": 0.1}, numpy=np.linalg.matrix_rank, differentiable=False),
    Case(
        "linalg.matrix_rank", (TALL[0],), {"atol": 0.1, "rtol": 0.2}, torch=oracle("matrix_rank"), differentiable=False
    ),
    Case("linalg.matrix_rank", (POSITIVE[0],), {"hermitian": True}, torch=oracle("matrix_rank"), differentiable=False),
    Case("linalg.pinv", (POSITIVE[0],), {"hermitian": True}, torch=oracle("pinv")),
    Case("linalg.pinv", (TALL[0],), {"atol": 0.01}, torch=oracle("pinv")),
]
for ord in ("fro", "nuc", 2, 1):
    for keep in (False, True):
        CASES.append(
            Case(
                "linalg.matrix_norm",
                (arrays(210, (2, 3, 4))[0],),
                {"ord": ord, "axis": (2, 0), "keepdims": keep},
                numpy=lambda x, ord, axis, keepdims: np.linalg.norm(x, ord, axis, keepdims),
            )
        )

# --- functions of matrices ------------------------------------------------------------------------------------------

for x in (*(x * 0.5 for x in SQUARE), SQUARE[0] * 5):
    CASES.append(
        Case(
            "linalg.matrix_exp",
            (x,),
            numpy=lambda x: scipy.linalg.expm(x) if x.size else x,
            half=np.abs(x).max(initial=0) < 4,
        )
    )
for x in SQUARE[:6]:
    CASES.append(Case("linalg.logdet", (x,), numpy=lambda x: np.log(np.linalg.det(x))))
for shape, right, axes in (
    ((4, 4), (4,), None),
    ((2, 3, 6), (2, 3), None),
    ((6, 2, 3), (2, 3), (0,)),
    ((2, 2, 4), (4,), (0, 1)),
    ((1, 1), (1,), None),
):
    a = arrays(220, shape)[0]
    CASES.append(
        Case(
            "linalg.tensorsolve",
            (a, arrays(221, right)[0]),
            {"axes": axes},
            numpy=np.linalg.tensorsolve,
            half=False,
            note="badly conditioned",
        )
    )
for shape, ind in (((4, 4), 1), ((2, 3, 6), 2), ((6, 2, 3), 1), ((1, 1), 1), ((2, 2, 4), 2)):
    CASES.append(
        Case(
            "linalg.tensorinv",
            (arrays(222, shape)[0],),
            {"ind": ind},
            numpy=np.linalg.tensorinv,
            half=False,
            note="badly conditioned",
        )
    )
V, MANY = arrays(230, (4,), (2, 3))
for n in (None, 3, 0, 6):
    CASES.append(Case("linalg.vander", (V, n), numpy=np.vander))
    CASES.append(Case("linalg.vander", (MANY, n), {"increasing": True}))
for m, n, k in ((4, 3, 3), (3, 3, 2), (4, 1, 1)):
    vectors, scales = arrays(240, (m, n), (k,))
    CASES.append(Case("linalg.householder_product", (vectors, scales), torch=oracle("householder_product"), half=False))
CASES.append(Case("linalg.householder_product", arrays(241, (2, 4, 3), (2, 3)), torch=oracle("householder_product")))
CASES.append(Case("linalg.householder_product", arrays(242, (2, 2), (0,)), torch=oracle("householder_product")))
