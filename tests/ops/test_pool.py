"""Pooling, padding, resizing: ties, NaN, integers, and what is said about arguments that do not fit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import ArgumentError, DTypeError, ShapeError


def test_a_tie_gives_the_derivative_to_the_first() -> None:
    x = wg.tensor([[[1.0, 2.0], [2.0, 2.0]]])
    assert wg.grad(lambda v: wg.max_pool2d(v, 2).sum())(x).tolist() == [[[0.0, 1.0], [0.0, 0.0]]]


def test_max_pool_hands_nan_on_and_survives_infinity() -> None:
    x = wg.tensor([[1.0, math.nan, -math.inf, -math.inf, math.inf, 0.0]])
    values, places = wg.max_pool1d(x, 2, return_indices=True)
    np.testing.assert_array_equal(values.numpy(), [[math.nan, -math.inf, math.inf]])
    assert places.tolist() == [[1, 2, 4]]


def test_padding_never_wins() -> None:
    x = wg.tensor([[-5.0, -6.0, -7.0]])
    values, places = wg.max_pool1d(x, 3, 2, 1, return_indices=True)
    assert values.tolist() == [[-5.0, -6.0]]
    assert places.tolist() == [[0, 1]]


def test_max_pool_of_integers() -> None:
    y = wg.max_pool1d(wg.tensor([[-3, -4, -1]]), 2, padding=1)
    assert y.dtype == wg.int64
    assert y.tolist() == [[-3, -1]]


@pytest.mark.parametrize(
    ("function", "options", "error", "message"),
    [
        (wg.max_pool2d, {"kernel_size": 6}, ShapeError, "does not fit"),
        (wg.max_pool2d, {"kernel_size": 2, "padding": 2}, ArgumentError, "more than half"),
        (wg.max_pool2d, {"kernel_size": (2, 2, 2)}, ArgumentError, "or 2 of them"),
        (wg.avg_pool2d, {"kernel_size": 2, "divisor_override": 0}, ArgumentError, "cannot be 0"),
        (wg.adaptive_avg_pool2d, {"output_size": 0}, ArgumentError, "at least 1"),
        (wg.max_pool1d, {"kernel_size": 2}, ShapeError, r"\(N, C, L\)"),
        (wg.unfold, {"kernel_size": 7}, ShapeError, "does not fit"),
        (wg.fold, {"output_size": 4, "kernel_size": 2}, ShapeError, "fold: the input is"),
        (wg.interpolate, {}, ArgumentError, "either size or scale_factor"),
        (wg.interpolate, {"size": 3, "scale_factor": 2}, ArgumentError, "either size or scale_factor"),
        (wg.interpolate, {"size": 3, "mode": "cubic"}, ArgumentError, "mode must be"),
        (wg.interpolate, {"size": 3, "mode": "linear"}, ShapeError, "1 spatial axes"),
        (wg.interpolate, {"size": 3, "align_corners": True}, ArgumentError, "requires a linear mode"),
        (wg.interpolate, {"scale_factor": 0.1}, ShapeError, "leaves nothing"),
        (wg.pixel_shuffle, {"upscale_factor": 2}, ShapeError, "do not divide"),
        (wg.pixel_unshuffle, {"downscale_factor": 2}, ShapeError, "do not divide"),
        (wg.pad, {"pad": (1,)}, ArgumentError, "two for each axis"),
        (wg.pad, {"pad": (1,) * 10}, ArgumentError, "two for each axis"),
        (wg.pad, {"pad": (1.5, 2)}, DTypeError, "integers"),
        (wg.pad, {"pad": (-3, -3)}, ShapeError, "crops more"),
        (wg.pad, {"pad": (5, 0), "mode": "reflect"}, ShapeError, "at most 4"),
        (wg.pad, {"pad": (6, 0), "mode": "circular"}, ShapeError, "more than once"),
        (wg.pad, {"pad": (1, 0), "mode": "edge"}, ArgumentError, "mode must be"),
    ],
)
def test_what_does_not_fit_is_named(
    function: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        function(wg.ones((1, 3, 5, 5)), **options)


def test_padding_with_infinity_leaves_the_inside_alone() -> None:
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    y = wg.pad(x, (1, 0), value=-math.inf)
    assert y.tolist() == [-math.inf, 1.0, 2.0]
    assert wg.grad(lambda v: wg.exp(wg.pad(v, (1, 0), value=-math.inf)).sum())(wg.zeros(2)).tolist() == [1.0, 1.0]


def test_pad_keeps_integers_and_booleans() -> None:
    assert wg.pad(wg.tensor([1, 2]), (1, 1), value=7).tolist() == [7, 1, 2, 7]
    assert wg.pad(wg.tensor([True]), (1, 1), value=True).tolist() == [True, True, True]
    assert wg.pad(wg.tensor([True]), (0, 1)).tolist() == [True, False]


def test_max_pool_in_float32_against_torch() -> None:
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal((3, 4, 17, 15)).astype(np.float32).round(1)  # with ties
    tx, wx = torch.tensor(x, requires_grad=True), wg.tensor(x, requires_grad=True)
    want, got = torch.nn.functional.max_pool2d(tx, 3, 2, 1), wg.max_pool2d(wx, 3, 2, 1)
    want.sum().backward()
    got.sum().backward()
    np.testing.assert_array_equal(got.numpy(), want.detach().numpy())
    np.testing.assert_array_equal(wx.grad.numpy(), tx.grad.numpy())
