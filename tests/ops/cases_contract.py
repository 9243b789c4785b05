"""Cases of matrix products and contractions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.case import Case, arrays

try:
    import torch
except ImportError:  # then nothing is compared with it
    torch = None  # type: ignore[assignment]


def pairs(seed: int, *shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> list[tuple[np.ndarray, ...]]:
    """A pair of arrays for each pair of shapes."""
    return [arrays(seed + i, a, b) for i, (a, b) in enumerate(shapes)]


(MATRIX, BATCH) = arrays(1, (3, 4), (2, 3, 3))
STRIDED = arrays(2, (8, 6))[0][::2, ::2].T  # 3 by 4, neither axis contiguous
INTEGERS = np.arange(12).reshape(3, 4)

CASES: list[Case] = []

# --- matmul ---------------------------------------------------------------------------------------------------------

MATMUL = pairs(
    10,
    ((3, 4), (4, 2)),
    ((4,), (4,)),
    ((4,), (4, 2)),
    ((3, 4), (4,)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 4, 3)),
    ((2, 1, 3, 4), (5, 4, 2)),
    ((3, 4), (2, 4, 1)),
    ((1, 1), (1, 1)),
    ((3, 0), (0, 2)),
    ((0, 3), (3, 2)),
    ((0, 2, 3), (0, 3, 2)),
    ((0,), (0,)),
)
CASES += [Case("matmul", pair, numpy=np.matmul, torch=torch and torch.matmul) for pair in MATMUL]
CASES += [
    Case("matmul", (STRIDED, STRIDED.T), numpy=np.matmul),
    Case("matmul", (INTEGERS, INTEGERS.T), numpy=np.matmul),
    Case("matmul", (INTEGERS.astype(np.int8), MATRIX.T), numpy=np.matmul, note="integers meet floats", half=False),
]

# --- diagonals ------------------------------------------------------------------------------------------------------


def diagonal_reference(x: np.ndarray, offset: int = 0) -> np.ndarray:
    return np.diagonal(x, offset, -2, -1)


DIAGONALS = [
    (MATRIX, {}),
    (MATRIX, {"offset": 2}),
    (MATRIX, {"offset": -1}),
    (MATRIX, {"offset": -5}),
    (MATRIX, {"offset": 4}),
    (BATCH, {"offset": 1}),
    (STRIDED, {"offset": -2}),
    (np.zeros((0, 3)), {}),
    (np.zeros((0, 2, 2)), {}),
    (np.array([[2.0]]), {}),
    (INTEGERS, {"offset": 1}),
]
CASES += [Case("diagonal", (x,), options, numpy=diagonal_reference) for x, options in DIAGONALS]
CASES += [
    Case("trace", (x,), options, numpy=lambda x, offset=0: diagonal_reference(x, offset).sum(-1))
    for x, options in DIAGONALS
]
CASES += [Case("trace", (MATRIX.astype(np.float32),), {"dtype": np.dtype("float64")}, numpy=np.trace, half=False)]

CASES += [
    Case("matrix_transpose", (x,), numpy=np.matrix_transpose, torch=torch and torch.adjoint)
    for x in (MATRIX, BATCH, STRIDED, np.zeros((2, 0, 3)), np.ones((1, 1)))
]

# --- products of vectors --------------------------------------------------------------------------------------------


def vecdot_reference(a: np.ndarray, b: np.ndarray, axis: int = -1) -> np.ndarray:
    return (np.moveaxis(a, axis, -1) * np.moveaxis(b, axis, -1)).sum(-1)


CASES += [
    Case("vecdot", pair, options, numpy=vecdot_reference)
    for pair, options in zip(
        [
            *pairs(
                30,
                ((4,), (4,)),
                ((3, 4), (4,)),
                ((3, 4), (3, 4)),
                ((2, 1, 4), (3, 4)),
                ((0, 4), (4,)),
                ((2, 0), (2, 0)),
            ),
            (STRIDED, MATRIX),
            (INTEGERS, INTEGERS),
        ],
        [{}, {}, {"axis": 0}, {}, {}, {}, {"axis": -2}, {}],
    )
]
CASES += [
    Case("outer", pair, numpy=np.outer, torch=torch and torch.outer)
    for pair in (*pairs(40, ((3,), (4,)), ((1,), (2,)), ((0,), (3,)), ((2,), (0,))), (STRIDED[0], MATRIX[1]))
]
CASES += [Case("outer", (INTEGERS[0], MATRIX[0]), numpy=np.outer)]
CASES += [
    Case("cross", pair, options, numpy=np.cross)
    for pair, options in zip(
        pairs(
            50,
            ((3,), (3,)),
            ((4, 3), (3,)),
            ((2, 1, 3), (4, 3)),
            ((3, 2), (3, 2)),
            ((0, 3), (3,)),
            ((2, 3, 4), (2, 3, 4)),
        ),
        [{}, {}, {}, {"axis": 0}, {}, {"axis": 1}],
    )
]
CASES += [Case("cross", (STRIDED, MATRIX), {"axis": 0}, numpy=np.cross)]
CASES += [
    Case("kron", pair, numpy=np.kron)
    for pair in (
        *pairs(60, ((2, 3), (3, 2)), ((3,), (2,)), ((2,), (2, 3)), ((2, 1, 2), (3, 1)), ((), (2, 2)), ((0, 2), (2, 2))),
        (STRIDED, MATRIX[:2, :1]),
    )
]

# --- tensordot and einsum -------------------------------------------------------------------------------------------

TENSORDOT: list[tuple[Any, Any, Any]] = [
    ((2, 3, 4), (3, 4, 5), 2),
    ((3, 4), (4, 2), 1),
    ((2, 3), (4,), 0),
    ((2, 3, 4), (4, 3, 5), ((1, 2), (1, 0))),
    ((2, 3), (2, 3), ((0, 1), (0, 1))),
    ((2, 3, 4), (5, 3), (1, 1)),
    ((3, 0), (0, 2), 1),
    ((1, 3), (3, 1), ((-1,), (-2,))),
    ((), (), 0),
]
CASES += [
    Case("tensordot", arrays(70 + i, a, b), {"axes": axes}, numpy=np.tensordot)
    for i, (a, b, axes) in enumerate(TENSORDOT)
]
CASES += [Case("tensordot", (STRIDED, MATRIX), numpy=np.tensordot)]

EINSUM: list[tuple[str, tuple[tuple[int, ...], ...]]] = [
    ("ij,jk->ik", ((2, 3), (3, 4))),
    ("ij,jk", ((2, 3), (3, 4))),
    ("ij->ji", ((2, 3),)),
    ("ij", ((2, 3),)),
    ("ba", ((2, 3),)),
    ("ij->", ((2, 3),)),
    ("ij->j", ((2, 3),)),
    ("ii", ((3, 3),)),
    ("ii->i", ((3, 3),)),
    ("iij->j", ((2, 2, 3),)),
    ("iji->ij", ((2, 3, 2),)),
    ("iii->i", ((3, 3, 3),)),
    ("iijj->ij", ((2, 2, 3, 3),)),
    ("i,i->", ((4,), (4,))),
    ("i,i->i", ((4,), (4,))),
    ("i,j->ij", ((2,), (3,))),
    ("i,j->ji", ((2,), (3,))),
    ("i,j->", ((2,), (3,))),
    ("ij,ij->ij", ((2, 3), (2, 3))),
    ("ij,ij->", ((2, 3), (2, 3))),
    ("ij,ji->", ((2, 3), (3, 2))),
    ("ij,ji->i", ((2, 3), (3, 2))),
    ("bij,bjk->bik", ((2, 3, 4), (2, 4, 2))),
    ("bij,jk->bik", ((2, 3, 4), (4, 2))),
    ("bhqd,bhkd->bhqk", ((2, 2, 3, 4), (2, 2, 5, 4))),
    ("abc,cd,de->abe", ((2, 3, 2), (2, 4), (4, 3))),
    ("ij,jk,kl", ((2, 3), (3, 4), (4, 2))),
    ("i,ij,j->", ((3,), (3, 4), (4,))),
    ("ij,ik,il->jkl", ((2, 3), (2, 2), (2, 4))),
    ("ab,bc,cd,da->", ((2, 3), (3, 2), (2, 4), (4, 2))),
    ("...ij,...jk->...ik", ((2, 3, 4), (2, 4, 2))),
    ("...ij,...jk->...ik", ((5, 2, 3, 4), (2, 4, 2))),
    ("...ij,...jk", ((2, 3, 4), (4, 2))),
    ("...ij,...jk->...ik", ((2, 1, 3, 4), (3, 4, 2))),
    ("...i->...", ((2, 3, 4),)),
    ("i...->...", ((2, 3, 4),)),
    ("i...i->...i", ((2, 3, 2),)),
    ("...ii->...i", ((2, 3, 3),)),
    ("...,...", ((2, 3), (3,))),
    ("...,i->i...", ((2,), (3,))),
    ("a...b,b...c->a...c", ((2, 3, 4), (4, 3, 2))),
    ("...", ((2, 3),)),
    (",", ((), ())),
    (",i->i", ((), (3,))),
    ("->", ((),)),
    ("ij,jk->ik", ((2, 1), (3, 4))),
    ("ij,ij->ij", ((1, 3), (2, 1))),
    ("ij,jk->ik", ((0, 3), (3, 2))),
    ("ij,jk->ik", ((2, 0), (0, 3))),
    (" i j , j k -> k i ", ((2, 3), (3, 4))),
    ("Ab,bC->CA", ((2, 3), (3, 2))),
    ("BA", ((2, 3),)),
]


def einsum_reference(subscripts: str, *xs: np.ndarray) -> np.ndarray:
    return np.einsum(subscripts, *xs, optimize=False)


CASES += [
    Case("einsum", (text, *arrays(100 + i, *shapes)), numpy=einsum_reference) for i, (text, shapes) in enumerate(EINSUM)
]
CASES += [
    Case("einsum", ("ij,kj->ik", STRIDED, MATRIX), numpy=einsum_reference),
    Case("einsum", ("ij,kj->ik", INTEGERS, INTEGERS), numpy=einsum_reference),
    Case("einsum", ("ij,ij->i", INTEGERS, MATRIX), numpy=einsum_reference),
]

# --- linear ---------------------------------------------------------------------------------------------------------

LINEAR = [
    ((5, 3), (4, 3), (4,)),
    ((3,), (4, 3), (4,)),
    ((2, 5, 3), (4, 3), (4,)),
    ((5, 3), (4, 3)),
    ((1, 1), (1, 1), (1,)),
    ((0, 3), (4, 3), (4,)),
    ((5, 0), (4, 0), (4,)),
]


def linear_reference(x: np.ndarray, weight: np.ndarray, bias: Any = 0.0) -> np.ndarray:
    return np.einsum("...i,oi->...o", x, weight) + bias


def linear_torch(x: Any, weight: Any, bias: Any = None) -> Any:
    return torch.nn.functional.linear(x, weight, bias)


CASES += [
    Case("linear", given, numpy=linear_reference, torch=linear_torch)
    for given in [*(arrays(300 + i, *shapes) for i, shapes in enumerate(LINEAR)), (STRIDED, MATRIX)]
]

# --- chains ---------------------------------------------------------------------------------------------------------

CHAINS = [
    ((2, 3), (3, 4), (4, 2)),
    ((3,), (3, 4), (4, 2)),
    ((2, 3), (3, 4), (4,)),
    ((3,), (3, 4), (4,)),
    ((5, 1), (1, 5), (5, 2), (2, 3)),
    ((2, 3), (3, 2)),
    ((2, 0), (0, 3), (3, 1)),
]
CASES += [
    Case("linalg.multi_dot", (list(arrays(200 + i, *chain)),), numpy=np.linalg.multi_dot)
    for i, chain in enumerate(CHAINS)
]
