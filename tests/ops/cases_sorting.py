"""Cases of sorting and of what follows from an order."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.case import Case, arrays

A, B, C, ONE, EMPTY = arrays(11, (4, 3), (2, 5, 3), (7,), (3, 1), (0, 3))
TURNED = arrays(12, (3, 4))[0].T
EVERY_OTHER = arrays(13, (8, 3))[0][::2]
TIES = np.array([[2, 1, 2, 1], [0, 0, 0, 0]])


def _argsort(x: np.ndarray, axis: int = -1, descending: bool = False) -> np.ndarray:
    """Sorting pairs of (element, position) in Python; equal elements keep their order."""
    rows = np.moveaxis(x, axis, -1)
    result = np.empty(rows.shape, np.int64)
    for place in np.ndindex(rows.shape[:-1]):
        result[place] = sorted(range(rows.shape[-1]), key=lambda i: rows[place][i] * (-1 if descending else 1))
    return np.moveaxis(result, -1, axis)


def _sort(x: np.ndarray, axis: int = -1, descending: bool = False) -> np.ndarray:
    return np.take_along_axis(x, _argsort(x, axis, descending), axis)


def _sort_torch(x: Any, axis: int = -1, descending: bool = False) -> Any:
    return x.sort(dim=axis, descending=descending, stable=True).values


def _argsort_torch(x: Any, axis: int = -1, descending: bool = False) -> Any:
    return x.argsort(dim=axis, descending=descending, stable=True)


def _topk_torch(x: Any, k: int, axis: int = -1, largest: bool = True) -> Any:
    return tuple(x.topk(k, axis, largest))


def _kthvalue(x: np.ndarray, k: int, axis: int = -1, keepdims: bool = False) -> Any:
    index = np.take(_argsort(x, axis), [k - 1], axis)
    value = np.take_along_axis(x, index, axis)
    return (value, index) if keepdims else (value.squeeze(axis), index.squeeze(axis))


def _kthvalue_torch(x: Any, k: int, axis: int = -1, keepdims: bool = False) -> Any:
    return tuple(x.kthvalue(k, axis, keepdims))


def _quantile_torch(x: Any, q: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return x.quantile(q, axis, keepdims)


def _searchsorted_torch(x1: Any, x2: Any, side: str = "left") -> Any:
    import torch

    return torch.searchsorted(x1, x2, side=side)


ORDERED = [
    ((A,), {}),
    ((A,), {"axis": 0}),
    ((B,), {"axis": 1, "descending": True}),
    ((TURNED,), {"axis": 1}),
    ((EVERY_OTHER,), {"axis": 0, "descending": True}),
    ((ONE,), {}),
    ((EMPTY,), {"axis": 0}),
    ((TIES,), {}),
    ((TIES,), {"descending": True}),
]
EDGES = np.sort(C)
MANY_EDGES = np.sort(B, axis=-1)

CASES = [
    *[Case("sort", args, kwargs, numpy=_sort, torch=_sort_torch) for args, kwargs in ORDERED],
    *[
        Case("argsort", args, kwargs, numpy=_argsort, torch=_argsort_torch, differentiable=False)
        for args, kwargs in ORDERED
    ],
    *[
        Case("topk", args, kwargs, torch=_topk_torch)
        for args, kwargs in [
            ((C, 3), {}),
            ((A, 2), {"axis": 0}),
            ((B, 1), {"axis": 1, "largest": False}),
            ((TURNED, 3), {}),
            ((C, 0), {}),
            ((ONE, 1), {"axis": -1}),
        ]
    ],
    *[
        Case("kthvalue", args, kwargs, numpy=_kthvalue, torch=_kthvalue_torch)
        for args, kwargs in [
            ((C, 3), {}),
            ((A, 1), {"axis": 0}),
            ((B, 5), {"axis": 1, "keepdims": True}),
            ((TURNED, 2), {}),
            ((ONE, 1), {}),
        ]
    ],
    *[
        Case("median", args, kwargs, numpy=np.median)
        for args, kwargs in [
            ((C,), {}),
            ((A,), {}),
            ((A,), {"axis": 0}),
            ((B,), {"axis": (0, 2)}),
            ((TURNED,), {"axis": 1, "keepdims": True}),
            ((np.array(1.5),), {}),
            ((ONE,), {"axis": 1}),
            ((np.array([1, 2, 3, 4]),), {}),
        ]
    ],
    *[
        Case("quantile", args, kwargs, numpy=np.quantile, torch=torch)
        for args, kwargs, torch in [
            ((C, 0.3), {}, _quantile_torch),
            ((A, 0.0), {"axis": 0}, _quantile_torch),
            ((A, 1.0), {"axis": 1, "keepdims": True}, _quantile_torch),
            ((B, np.array([0.1, 0.52, 0.87])), {"axis": 1}, _quantile_torch),
            ((B, np.array([[0.1], [0.65]])), {"axis": (0, -1)}, None),
            ((TURNED, 0.77), {}, _quantile_torch),
            ((np.array(2.5), 0.4), {}, None),
            ((ONE, 0.4), {"axis": 1}, _quantile_torch),
        ]
    ],
    *[
        Case(
            "searchsorted",
            args,
            kwargs,
            numpy=np.searchsorted if args[0].ndim == 1 else None,
            torch=_searchsorted_torch if "sorter" not in kwargs else None,
            differentiable=False,
        )
        for args, kwargs in [
            ((EDGES, A), {}),
            ((np.array([1, 2, 2, 3]), np.array([2, 0, 9])), {"side": "right"}),
            ((np.array([1, 2, 2, 3]), np.array([2, 0, 9])), {"side": "left"}),
            ((EDGES, np.array(0.5)), {}),
            ((MANY_EDGES, arrays(14, (2, 5, 2))[0]), {"side": "right"}),
            ((EDGES, EMPTY), {}),
            ((EDGES[:0], A), {}),
            ((C, A), {"sorter": np.argsort(C)}),
        ]
    ],
]
