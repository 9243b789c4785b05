"""Cases of running sums, products and extremes, and of differences."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.case import Case, arrays

A, B, C, ONE, EMPTY = arrays(21, (4, 3), (2, 5, 3), (7,), (3, 1), (0, 3))
TURNED = arrays(22, (3, 4))[0].T
EVERY_OTHER = arrays(23, (8, 3))[0][::2]
ZEROS = np.array([1.5, 0.0, -0.7, 2.0, 0.0, 3.0])
INTEGERS = np.array([[1, 2, 3], [4, 5, 6]], np.int16)

ALONG: list[tuple[Any, dict[str, Any]]] = [
    (A, {"axis": 0}),
    (B, {"axis": 1}),
    (TURNED, {"axis": 1}),
    (EVERY_OTHER, {"axis": -1}),
    (ONE, {"axis": 1}),
    (EMPTY, {"axis": 0}),
    (EMPTY, {"axis": 1}),
    (ZEROS, {"axis": 0}),
    (INTEGERS, {"axis": 1}),
]
WITH_INITIAL = [(C, {}), (B, {"axis": 1, "include_initial": True}), (EMPTY, {"axis": 0, "include_initial": True})]
FLAT = [(A, {}), (np.array(2.0), {})]
TYPED = [(INTEGERS, {"axis": 0, "dtype": np.dtype("float64")})]


def _torch(name: str) -> Any:
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        return None

    def reference(x: Any, axis: int = -1) -> Any:
        import torch

        result = getattr(torch, name)(x, axis)
        return tuple(result) if isinstance(result, tuple) else result

    return reference


def _log_running_sum(x: np.ndarray, axis: int = -1) -> np.ndarray:
    return np.log(np.cumsum(np.exp(x), axis))


def _extreme(compare: Any) -> Any:
    """The running extreme by a loop; of equal elements the last."""

    def reference(x: np.ndarray, axis: int = -1) -> Any:
        rows = np.moveaxis(x, axis, -1)
        values, indices = rows.copy(), np.zeros(rows.shape, np.int64)
        for place in np.ndindex(rows.shape):
            before = (*place[:-1], place[-1] - 1)
            if place[-1] and not compare(rows[place], values[before]):
                values[place], indices[place] = values[before], indices[before]
            else:
                indices[place] = place[-1]
        return np.moveaxis(values, -1, axis), np.moveaxis(indices, -1, axis)

    return reference


def _diff_torch(x: Any, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    import torch

    beside = [None if value is None else torch.as_tensor(value) for value in (prepend, append)]
    return x.diff(n, axis, *beside)


CASES = [
    *[Case("cumulative_sum", (x,), k, numpy=np.cumulative_sum) for x, k in ALONG + WITH_INITIAL + TYPED],
    *[Case("cumulative_prod", (x,), k, numpy=np.cumulative_prod) for x, k in ALONG + WITH_INITIAL + TYPED],
    *[Case("cumsum", (x,), k, numpy=np.cumsum, torch=_torch("cumsum")) for x, k in ALONG],
    *[Case("cumprod", (x,), k, numpy=np.cumprod, torch=_torch("cumprod")) for x, k in ALONG],
    *[Case("cumsum", (x,), k, numpy=np.cumsum) for x, k in FLAT + TYPED],
    *[Case("cumprod", (x,), k, numpy=np.cumprod) for x, k in FLAT + TYPED],
    *[
        Case("logcumsumexp", (x,), k, numpy=_log_running_sum, torch=_torch("logcumsumexp"))
        for x, k in [*ALONG[:-1], (C, {})]
    ],
    Case(
        "logcumsumexp", (B,), {"axis": 0}, numpy=_log_running_sum, differentiable=False, note="the untracked primitive"
    ),
    *[
        Case(name, (x,), k, numpy=_extreme(compare), torch=_torch(name), differentiable=x is not ZEROS)
        for name, compare in [("cummax", np.greater_equal), ("cummin", np.less_equal)]
        for x, k in [*ALONG, (C, {})]
    ],
    *[
        Case("diff", args, kwargs, numpy=np.diff, torch=_diff_torch if torch else None)
        for args, kwargs, torch in [
            ((C,), {}, True),
            ((A,), {"axis": 0}, True),
            ((B,), {"axis": 1, "n": 3}, True),
            ((TURNED,), {"n": 0}, True),
            ((ONE,), {}, True),
            ((EMPTY,), {"axis": 0}, False),
            ((A,), {"axis": 1, "prepend": EVERY_OTHER, "append": A[:, :1]}, True),
            ((C,), {"append": 0.5}, False),
            ((np.array([True, True, False]),), {}, True),
        ]
    ],
]
