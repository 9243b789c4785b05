"""Reductions by an index: ties, NaN, integers, and what is said about arguments that do not fit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import ArgumentError, OutOfRangeError, ShapeError

INDEX = np.array([0, 0, 1, 0, 1])


@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_values_that_tie_share_the_derivative(reduce: str) -> None:
    sign = 1.0 if reduce == "amax" else -1.0
    src = wg.tensor(sign * np.array([2.0, 2.0, 1.0, 0.0, 1.0]))
    x = wg.tensor(sign * np.array([2.0, 0.0, 7.0]))
    f = lambda x, src: (wg.scatter_reduce(x, 0, wg.tensor(INDEX), src, reduce) * wg.tensor([3.0, 2.0, 5.0])).sum()
    by_x, by_src = wg.grad(f, argnums=(0, 1))(x, src)
    np.testing.assert_allclose(by_x.numpy(), [1.0, 0.0, 5.0])
    np.testing.assert_allclose(by_src.numpy(), [1.0, 1.0, 1.0, 0.0, 1.0])


@pytest.mark.parametrize("reduce", ["amax", "amin", "prod", "sum", "mean"])
def test_nan_goes_through(reduce: str) -> None:
    src = wg.tensor([1.0, math.nan, 2.0, 3.0, math.inf])
    found = wg.scatter_reduce(wg.ones(3), 0, wg.tensor(INDEX), src, reduce).numpy()
    assert np.isnan(found[0]) and not np.isnan(found[1:]).any() and found[2] == 1


def test_integers_stay_integers() -> None:
    src = wg.tensor([5, -3, 4, 1, 1])
    for reduce, expected in (("amax", [5, 4]), ("amin", [-3, 0]), ("prod", [0, 0]), ("mean", [0, 1]), ("sum", [3, 5])):
        found = wg.scatter_reduce(wg.tensor([0, 0]), 0, wg.tensor(INDEX), src, reduce)
        assert found.dtype == wg.int64 and found.tolist() == expected


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda i, s: wg.scatter_reduce(wg.ones(2), 0, i, s, "max"), ArgumentError, 'reduce must be "sum", "prod"'),
        (
            lambda i, s: wg.scatter_reduce(wg.ones((2, 2)), 0, i, s, "sum"),
            ShapeError,
            "they must have the same number of axes",
        ),
        (lambda i, s: wg.scatter_reduce(wg.ones(2), 0, i, s[:3], "sum"), ShapeError, "not a value for each index"),
        (lambda i, s: wg.scatter_reduce(wg.ones(1), 0, i, s, "sum"), OutOfRangeError, "index 1 is out of range"),
        (lambda i, s: wg.index_reduce(wg.ones((2, 2)), 0, i, s, "prod"), ShapeError, r"5 indices need \(5, 2\)"),
        (lambda i, s: wg.masked_scatter(s, wg.tensor([True] * 5), s[:2]), ShapeError, "5 true elements"),
    ],
)
def test_what_does_not_fit_is_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(wg.tensor(INDEX), wg.ones(5))


def test_a_grid_may_hold_nan() -> None:
    image, grid = wg.ones((1, 1, 3, 3)), wg.tensor([[[[math.nan, 0.0], [0.0, 0.0], [math.inf, 5.0]]]])
    assert wg.grid_sample(image, grid, align_corners=True).flatten().tolist() == [0.0, 1.0, 0.0]
