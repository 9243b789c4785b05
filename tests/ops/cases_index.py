"""Cases of gather and scatter, of masks, and of what depends on data."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.case import Case, arrays

A, B, C = arrays(1, (4, 3), (2, 3, 4), (5,))
ONE, EMPTY = arrays(2, (3, 1), (0, 3))
SRC, WIDE = arrays(3, (4, 3), (6, 5))
TURNED = arrays(4, (3, 4))[0].T  # not contiguous
EVERY_OTHER = arrays(5, (8, 3))[0][::2]

ROWS = np.array([3, 0, 0, -1])
PLACES = np.array([[0, 2], [1, 1], [2, 0], [0, 0]])  # along axis 1 of four rows
ORDER = np.array([[1, 2, 0], [0, 1, 2], [2, 0, 1], [1, 0, 2]])
DOWN = np.array([[3, 0, 1], [1, 2, 0]])  # along axis 0 of three columns
NONE = np.zeros((0,), np.int64)
MASK = np.array([[True, False, True], [False, False, True], [True, True, True], [False, True, False]])


def _written(add: bool) -> Any:
    """torch's scatter and scatter_add by a loop over all indices."""

    def reference(x: np.ndarray, axis: int, index: np.ndarray, src: Any) -> np.ndarray:
        result = x.copy()
        for place in np.ndindex(index.shape):
            target = list(place)
            target[axis] = index[place]
            value = src[place] if isinstance(src, np.ndarray) else src
            result[tuple(target)] = result[tuple(target)] + value if add else value
        return result

    return reference


def _gathered(x: np.ndarray, axis: int, index: np.ndarray) -> np.ndarray:
    result = np.empty(index.shape, x.dtype)
    for place in np.ndindex(index.shape):
        source = list(place)
        source[axis] = index[place]
        result[place] = x[tuple(source)]
    return result


def _put_along(x: np.ndarray, indices: np.ndarray, values: Any, axis: int = -1) -> np.ndarray:
    result = x.copy()
    np.put_along_axis(result, indices, values, axis)
    return result


def _index_add(x: np.ndarray, axis: int, index: np.ndarray, source: np.ndarray, alpha: float = 1) -> np.ndarray:
    result = x.copy()
    for i, target in enumerate(index):
        np.moveaxis(result, axis, 0)[target] += alpha * np.moveaxis(source, axis, 0)[i]
    return result


def _index_put(x: np.ndarray, indices: Any, values: Any, accumulate: bool = False) -> np.ndarray:
    result = x.copy()
    if accumulate:
        np.add.at(result, indices, values)
    else:
        result[indices] = values
    return result


def _along_torch(x: Any, indices: Any, axis: int = -1) -> Any:
    import torch

    return torch.take_along_dim(x, indices % x.shape[axis], axis)


def _one_hot_torch(x: Any, num_classes: int) -> Any:
    import torch

    return torch.nn.functional.one_hot(x, num_classes)


def _take(*args: Any, **kwargs: Any) -> Case:
    return Case("take", args, kwargs, numpy=np.take)


CASES = [
    _take(C, np.array([4, 0, 0])),
    _take(A, ROWS, axis=0),
    _take(A, np.array([[1, 2], [0, 0]]), axis=1),
    _take(B, np.array(1), axis=-1),
    _take(A, np.array([11, 5, 0])),
    _take(TURNED, NONE, axis=1),
    _take(EMPTY, np.array([2, 1]), axis=1),
    Case(
        "take",
        (EVERY_OTHER, np.array([2, 2, 1])),
        {"axis": 0},
        torch=lambda x, i, axis: x.index_select(axis, i),
    ),
    *[
        Case(
            "index_select",
            (x, axis, index),
            numpy=lambda x, axis, index: np.take(x, index, axis),
            torch=lambda x, axis, index: x.index_select(axis, index),
        )
        for x, axis, index in [
            (A, 0, np.array([3, 0, 0])),
            (B, -1, np.array([1, 1, 2, 0])),
            (TURNED, 1, np.array([2])),
            (ONE, 1, np.array([0, 0])),
            (A, 0, NONE),
            (EMPTY, 1, np.array([1, 0])),
        ]
    ],
    *[
        Case("take_along_axis", (x, index), kwargs, numpy=np.take_along_axis, torch=_along_torch)
        for x, index, kwargs in [
            (A, PLACES, {"axis": 1}),
            (A, DOWN, {"axis": 0}),
            (TURNED, ORDER, {}),
            (EVERY_OTHER, PLACES - 3, {"axis": -1}),
            (C, np.array([4, 4, 0, 1]), {"axis": 0}),
            (ONE, np.zeros((3, 4), np.int64), {"axis": 1}),
        ]
    ],
    Case("take_along_axis", (A, np.array([[1], [0]]).T), {"axis": 1}, numpy=np.take_along_axis),
    Case("take_along_axis", (ONE, np.array([[2, 0, 1]])), {"axis": 0}, numpy=np.take_along_axis),
    Case("take_along_axis", (EMPTY, np.zeros((0, 2), np.int64)), {"axis": 1}, numpy=np.take_along_axis),
    *[
        Case("put_along_axis", args, kwargs, numpy=_put_along)
        for args, kwargs in [
            ((A, PLACES[:, :1], SRC[:, :1]), {"axis": 1}),
            ((A, PLACES, SRC[:, :2]), {"axis": 1}),  # the second of two values in one place stays
            ((TURNED, DOWN, SRC[:2]), {"axis": 0}),
            ((C, np.array([3, 1]), np.array(2.5)), {}),
            ((EVERY_OTHER, ORDER, SRC), {}),
            ((EMPTY, np.zeros((0, 2), np.int64), EMPTY[:, :2]), {}),
        ]
    ],
    *[
        Case("gather", args, numpy=_gathered, torch=lambda x, axis, index: x.gather(axis, index))
        for args in [
            (A, 1, PLACES),
            (A, 0, DOWN),
            (A, 1, PLACES[:2]),  # the index may be shorter along the other axes
            (B, -1, np.array([[[3, 0]], [[1, 1]]])),
            (TURNED, 0, DOWN[:, :2]),
            (C, 0, np.array([4, 0, 4])),
            (ONE, 1, np.zeros((3, 2), np.int64)),
            (EMPTY, 1, np.zeros((0, 2), np.int64)),
        ]
    ],
    *[
        Case("scatter", args, numpy=_written(add=False), torch=lambda x, axis, index, src: x.scatter(axis, index, src))
        for args in [
            (A, 1, ORDER, SRC),
            (A, 0, np.array([[3, 0, 1], [1, 2, 0]]), SRC),
            (A, 1, PLACES[:2, :1], WIDE),
            (B, 1, np.array([[[2, 0]]]), WIDE[None, :1]),
            (TURNED, 1, ORDER[:, :2], 0.5),
            (EVERY_OTHER, 0, NONE.reshape(0, 3), SRC),
            (C, 0, np.array([4, 1]), C[::-1]),
        ]
    ],
    Case("scatter", (C, 0, np.array([2, 0, 2]), C[:3] + 1), numpy=_written(add=False)),
    *[
        Case(
            "scatter_add",
            args,
            numpy=_written(add=True),
            torch=lambda x, axis, index, src: x.scatter_add(axis, index, src),
        )
        for args in [
            (A, 1, PLACES, SRC),
            (A, 0, np.array([[3, 3, 3], [3, 2, 3]]), SRC),
            (A, 1, PLACES[:2, :1], WIDE),
            (C, 0, np.array([4, 4, 4, 0, 0, 1]), WIDE[:, 0]),
            (TURNED, -1, ORDER, SRC),
            (EMPTY, 1, np.zeros((0, 2), np.int64), EMPTY),
        ]
    ],
    *[
        Case(
            "index_add",
            args,
            kwargs,
            numpy=_index_add,
            torch=lambda x, axis, index, source, alpha=1: x.index_add(axis, index, source, alpha=alpha),
        )
        for args, kwargs in [
            ((A, 0, np.array([3, 0, 0, 3]), SRC), {}),
            ((A, 1, np.array([2, 2, 0]), SRC), {"alpha": -2.0}),
            ((TURNED, 0, np.array([1]), SRC[:1]), {}),
            ((B, -1, np.array([3, 3]), B[..., :2]), {}),
            ((C, 0, NONE, C[:0]), {}),
            ((EMPTY, 1, np.array([0]), EMPTY[:, :1]), {}),
        ]
    ],
    *[
        Case("index_put", args, {"accumulate": accumulate}, numpy=_index_put, torch=torch)
        for accumulate in (False, True)
        for args, torch in [
            ((A, (np.array([3, 1]),), SRC[:2]), lambda x, *args, **kwargs: x.index_put(*args, **kwargs)),
            ((B, (np.array([[1], [0]]), np.array([2, 0])), np.array(1.5)), None),
            ((TURNED, (ROWS, np.array([0, 1, 1, 0])), SRC[:, 0]), None),  # one place twice
            ((EVERY_OTHER, (np.array(2),), C[:3]), None),
            ((C, (NONE,), C[:0]), None),
        ]
    ],
    *[
        Case(
            "masked_fill",
            args,
            numpy=lambda x, mask, value: np.where(mask, value, x),
            torch=lambda x, mask, value: x.masked_fill(mask, value),
            differentiable=args[2] != -np.inf,  # infinities have no differences
        )
        for args in [
            (A, MASK, 1.5),
            (A, MASK[0], -float("inf")),
            (TURNED, MASK[:, :1], 0.0),
            (np.array(2.0), np.array(True), 3.0),
            (EMPTY, np.zeros((1, 3), bool), 1.0),
            (B, np.array([[True], [False], [True]]), np.array(0.25)),
        ]
    ],
    *[
        Case("one_hot", args, numpy=lambda x, n: np.eye(n, dtype=np.int64)[x], torch=_one_hot_torch)
        for args in [
            (np.array([0, 2, 1]), 3),
            (np.array(1), 2),
            (np.array([[4, 0], [0, 0]]), 5),
            (np.array([0]), 1),
            (np.array([[1], [3]]).T, 4),
        ]
    ],
    Case("one_hot", (NONE, 3), numpy=lambda x, n: np.zeros((0, n))),
]

# --- shapes that depend on data: no lanes, a vmapped function has no values to look at -------------------------------

REPEATED = np.array([[3, 1, 3], [0, 1, 3]])
_DATA = "the shape of the result depends on data"


def _nonzero_torch(x: Any) -> Any:
    return x.nonzero(as_tuple=True)


CASES += [
    *[
        Case("nonzero", (x,), numpy=np.nonzero, torch=_nonzero_torch, differentiable=False, vmap=False, note=_DATA)
        for x in (REPEATED, MASK, np.array([0.0, 2.5, 0.0]), np.zeros((2, 0)), REPEATED.T, np.ones(1))
    ],
    *[
        Case(
            "masked_select",
            args,
            numpy=lambda x, mask: np.broadcast_to(x, np.broadcast_shapes(x.shape, mask.shape))[
                np.broadcast_to(mask, np.broadcast_shapes(x.shape, mask.shape))
            ],
            torch=lambda x, mask: x.masked_select(mask),
            vmap=False,
            note=_DATA,
        )
        for args in [
            (A, MASK),
            (TURNED, MASK),
            (A, MASK[1]),
            (C[:3], MASK),
            (A, ~(MASK | True)),
            (np.array(1.5), np.array(True)),
            (EMPTY, np.ones((0, 1), bool)),
        ]
    ],
    *[
        Case(name, (x,), numpy=getattr(np, name), vmap=False, note=_DATA)
        for name in ("unique_all", "unique_counts", "unique_inverse", "unique_values")
        for x in (A, REPEATED, TURNED, np.array(3.5), np.zeros((0,)), np.array([2, 2, 2]))
    ],
    *[
        Case("unique", args, kwargs, numpy=np.unique, vmap=False, note=_DATA)
        for args, kwargs in [
            ((A,), {}),
            ((REPEATED,), {"return_counts": True}),
            ((TURNED,), {"return_inverse": True}),
            ((np.array([[1, 2], [0, 2], [1, 2]]),), {"axis": 0}),
            ((REPEATED,), {"return_index": True, "return_inverse": True, "return_counts": True}),
            ((np.array([], np.float64),), {}),
            ((B,), {"axis": -1, "return_index": True}),
        ]
    ],
]
