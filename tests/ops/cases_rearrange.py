"""Cases of rolling, repeating, tiling, turning and splitting."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.case import Case, arrays

A, B, C, ONE, EMPTY = arrays(31, (4, 3), (2, 5, 3), (7,), (3, 1), (0, 3))
TURNED = arrays(32, (3, 4))[0].T
EVERY_OTHER = arrays(33, (8, 3))[0][::2]
NUMBER = np.array(1.5)


def _split(x: np.ndarray, sizes: Any, axis: int = 0) -> list[np.ndarray]:
    n = x.shape[axis]
    ends = np.cumsum(sizes)[:-1] if isinstance(sizes, list) else list(range(sizes, n, sizes))
    return np.split(x, ends, axis)


def _roll_torch(x: Any, shift: Any, axis: Any = None) -> Any:
    return x.roll(shift) if axis is None else x.roll(shift, axis)


CASES = [
    *[
        Case("roll", args, kwargs, numpy=np.roll, torch=_roll_torch)
        for args, kwargs in [
            ((C, 2), {}),
            ((A, -1), {"axis": 0}),
            ((A, 4), {}),
            ((B, (1, -2)), {"axis": (0, 1)}),
            ((TURNED, 5), {"axis": -1}),
            ((EMPTY, 1), {"axis": 0}),
            ((ONE, 1), {"axis": 1}),
        ]
    ],
    Case("roll", (NUMBER, 3), numpy=np.roll),
    *[
        Case("repeat", args, kwargs, numpy=np.repeat, vmap=vmap, note="" if vmap else "the counts set the shape")
        for args, kwargs, vmap in [
            ((C, 2), {}, True),
            ((A, 3), {"axis": 1}, True),
            ((B, [1, 0, 2, 1, 1]), {"axis": 1}, True),
            ((TURNED, np.array([2, 0, 1, 1])), {"axis": 0}, False),
            ((EVERY_OTHER, 0), {"axis": 0}, True),
            ((NUMBER, 4), {}, True),
            ((EMPTY, 2), {"axis": 1}, True),
        ]
    ],
    *[
        Case("tile", args, numpy=np.tile, torch=lambda x, times: x.tile(times))
        for args in [
            (C, (2,)),
            (A, (2, 3)),
            (A, (2, 1, 2)),
            (B, (2,)),
            (TURNED, (0, 1)),
            (NUMBER, (2, 2)),
            (EMPTY, (2, 2)),
        ]
    ],
    *[
        Case("rot90", (x,), kwargs, numpy=np.rot90, torch=lambda x, k=1, axes=(0, 1): x.rot90(k, axes))
        for x, kwargs in [
            (A, {}),
            (A, {"k": 2}),
            (TURNED, {"k": 3}),
            (B, {"k": -1, "axes": (2, 1)}),
            (B, {"k": 1, "axes": (0, 2)}),
            (EMPTY, {}),
            (A, {"k": 4}),
        ]
    ],
    *[
        Case("split", args, kwargs, numpy=_split, torch=lambda x, sizes, axis=0: x.split(sizes, axis))
        for args, kwargs in [
            ((C, 3), {}),
            ((A, 2), {"axis": 1}),
            ((B, [1, 0, 4]), {"axis": 1}),
            ((TURNED, 4), {}),
            ((ONE, 5), {"axis": 1}),
            ((EMPTY, 2), {}),
        ]
    ],
    *[
        Case("chunk", args, kwargs, torch=lambda x, chunks, axis=0: x.chunk(chunks, axis))
        for args, kwargs in [
            ((C, 3), {}),
            ((A, 2), {"axis": 1}),
            ((B, 4), {"axis": 1}),
            ((TURNED, 1), {}),
            ((ONE, 2), {"axis": 1}),
        ]
    ],
]
