"""Random functions where chance leaves no choice: with nothing to spread, or everything dropped or kept.

What they draw otherwise is in `tests/test_random.py` and `tests/test_stateful.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.ops.case import Case, arrays

X, ROW, COLUMN, SCALAR, EMPTY = arrays(11, (2, 3), (3,), (2, 1), (), (0, 3))
IMAGES, SIGNALS, VOLUMES = arrays(12, (2, 3, 4, 4), (2, 3, 5), (2, 3, 2, 2, 2))


def spread_out(value: Any, shape: Any = None) -> Any:
    return value if shape is None else np.broadcast_to(value, shape).copy()


def pinned(name: str, parameter: str, **others: Any) -> list[Case]:
    """A distribution of no width is its location."""
    return [
        Case(name, (shape,), {parameter: value, **others}, numpy=lambda shape, **k: spread_out(k[parameter], shape))
        for shape, value in [(None, X), ((2, 3), ROW), ((2, 3), COLUMN), ((), SCALAR), (None, EMPTY), (None, X[:, ::2])]
    ]


def chosen(logits: Any, tau: float, hard: bool, axis: int) -> Any:
    """A 1 for the largest along an axis: noise is nothing beside scores that are so far apart."""
    return (logits == logits.max(axis, keepdims=True)).astype(np.float64)


def dropped(name: str, *inputs: np.ndarray) -> list[Case]:
    return [
        case
        for x in inputs
        for case in (
            Case(name, (x,), {"p": 1.0}, numpy=lambda x, p: np.zeros_like(x)),
            Case(name, (x,), {"p": 0.0}, numpy=lambda x, p: x),
            Case(name, (x,), {"training": False}, numpy=lambda x, training: x),
        )
    ]


def uniform_cases() -> list[Case]:
    return [
        Case("random.uniform", (None, x, x), numpy=lambda shape, low, high: low, differentiable=False, vmap=False,
             note="low and high must stay equal")
        for x in (X, ROW, SCALAR, EMPTY, X.T)
    ]  # fmt: skip


CASES: list[Case] = [
    *pinned("random.normal", "mean", std=0.0),
    *pinned("random.truncated_normal", "mean", std=0.0),
    *pinned("random.gumbel", "loc", scale=0.0),
    *uniform_cases(),
    *dropped("dropout", X, SCALAR, EMPTY, X.T),
    *dropped("alpha_dropout", X, SCALAR, EMPTY, X.T),
    *dropped("dropout1d", SIGNALS, SIGNALS[0]),
    *dropped("dropout2d", IMAGES, IMAGES[0]),
    *dropped("dropout3d", VOLUMES, VOLUMES[0]),
    *dropped("feature_alpha_dropout", VOLUMES, SIGNALS, X),
    *[
        Case("gumbel_softmax", (x * 1e4, 1.0, hard, axis), numpy=chosen, second_order=False)
        for x, hard, axis in ((X, True, -1), (X, False, 0), (ROW, True, 0), (IMAGES, False, 1), (EMPTY.T, True, 0))
    ],
]
