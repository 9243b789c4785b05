"""Losses: extreme scores, targets that are not there, shapes that would broadcast by mistake, half precision."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import ArgumentError, ComputationError, DTypeError, OutOfRangeError, ShapeError

SCORES = wg.tensor(np.random.default_rng(0).standard_normal((3, 4)))


@pytest.mark.parametrize("function", [wg.cross_entropy, wg.nll_loss])
@pytest.mark.parametrize("wrong", [4, -1])
def test_a_target_that_is_no_class_is_named(function: Any, wrong: int) -> None:
    with pytest.raises(OutOfRangeError, match=f"target {wrong} is not one of the 4 classes, 0 to 3"):
        function(SCORES, wg.tensor([0, wrong, 1]))
    with pytest.raises(ComputationError, match="out of bounds"):
        function(SCORES, wg.tensor([0, wrong, 1]) + 0).numpy()


def test_ignored_targets_may_be_any_number() -> None:
    ignoring = wg.cross_entropy(SCORES, wg.tensor([0, 99, 1]), ignore_index=99)
    left = wg.cross_entropy(wg.stack([SCORES[0], SCORES[2]]), wg.tensor([0, 1]))
    np.testing.assert_allclose(ignoring.numpy(), left.numpy())
    gradient = wg.grad(lambda x: wg.cross_entropy(x, wg.tensor([0, 99, 1]), ignore_index=99))(SCORES)
    assert gradient.tolist()[1] == [0.0] * 4


@pytest.mark.parametrize("function", [wg.cross_entropy, wg.nll_loss])
def test_without_an_ignored_number_every_target_counts(function: Any) -> None:
    targets = wg.tensor([0, 3, 1])
    weight = wg.tensor([1.0, 2.0, 3.0, 4.0])
    for settings in ({}, {"weight": weight}, {"reduction": "sum"}, {"reduction": "none"}):
        found = function(SCORES, targets, ignore_index=None, **settings)
        np.testing.assert_allclose(found.numpy(), function(SCORES, targets, **settings).numpy(), rtol=1e-6)
    with pytest.raises(OutOfRangeError, match=r"target -100 is not one of the 4 classes, 0 to 3\n"):
        function(SCORES, wg.tensor([0, -100, 1]), ignore_index=None)


def test_the_mean_over_no_target_at_all_is_nan() -> None:
    assert math.isnan(wg.cross_entropy(SCORES, wg.tensor([-100, -100, -100])).item())


def test_extreme_scores_stay_finite() -> None:
    x = wg.tensor([[1e10, -1e10]])
    assert wg.cross_entropy(x, wg.tensor([0])).item() == 0.0
    assert wg.cross_entropy(x, wg.tensor([1])).item() == pytest.approx(2e10)
    logits = wg.tensor([1e4, -1e4])
    assert wg.binary_cross_entropy_with_logits(logits, wg.tensor([1.0, 0.0])).item() == 0.0
    assert wg.binary_cross_entropy_with_logits(logits, wg.tensor([0.0, 1.0])).item() == pytest.approx(1e4)


def test_binary_cross_entropy_at_certainty() -> None:
    p, t = wg.tensor([0.0, 1.0, 0.0, 1.0]), wg.tensor([0.0, 1.0, 1.0, 0.0])
    assert wg.binary_cross_entropy(p, t, reduction="none").tolist() == [0.0, 0.0, 100.0, 100.0]
    assert np.isfinite(wg.grad(lambda x: wg.binary_cross_entropy(x, t))(p).numpy()).all()


def test_kl_div_of_a_target_of_zero_is_zero() -> None:
    x, t = wg.log(wg.tensor([0.5, 0.5])), wg.tensor([0.0, 1.0])
    assert wg.kl_div(x, t, reduction="none").tolist()[0] == 0.0
    assert wg.grad(lambda v: wg.kl_div(v, t, reduction="sum"))(x).tolist() == [0.0, -1.0]


def test_a_half_precision_mean_does_not_overflow() -> None:
    x = wg.full(2000, 100.0, dtype=wg.float16)
    loss = wg.l1_loss(x, wg.zeros(2000, dtype=wg.float16))
    assert loss.dtype == wg.float16
    assert loss.item() == 100.0


def test_gaussian_variance_below_the_bound_still_learns() -> None:
    slope = wg.grad(lambda v: wg.gaussian_nll_loss(wg.tensor([1.0]), wg.tensor([0.0]), v, eps=0.5))(wg.tensor([0.1]))
    assert slope.item() == pytest.approx(0.5 * (1 / 0.5 - 1 / 0.25))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: wg.mse_loss(wg.ones((3, 1)), wg.ones(3)), ShapeError, r"\(3, 1\), the target \(3,\); reshape"),
        (lambda: wg.l1_loss(wg.ones(3), wg.ones(4)), ShapeError, r"\(3,\), the target \(4,\)"),
        (lambda: wg.mse_loss(wg.ones(3), wg.ones(3), reduction="avg"), ArgumentError, "not 'avg'"),
        (lambda: wg.cross_entropy(SCORES, wg.tensor([0, 1, 2]), reduction="avg"), ArgumentError, "not 'avg'"),
        (lambda: wg.cross_entropy(SCORES, wg.tensor([[0], [1], [2]])), ShapeError, r"of shape \(3,\), not \(3, 1\)"),
        (lambda: wg.cross_entropy(SCORES, wg.ones(3)), ShapeError, "class indices are integers"),
        (lambda: wg.cross_entropy(SCORES, wg.tensor([True, False, True])), DTypeError, "not bool"),
        (lambda: wg.cross_entropy(SCORES, wg.tensor([0, 1, 2]), wg.ones(3)), ShapeError, "4 classes need"),
        (lambda: wg.cross_entropy(SCORES, wg.tensor([0, 1, 2]), label_smoothing=1.5), ArgumentError, "between 0 and 1"),
        (lambda: wg.cross_entropy(wg.tensor(1.0), wg.tensor(0)), ShapeError, "single number"),
        (lambda: wg.nll_loss(SCORES, wg.ones(3)), DTypeError, "class indices"),
        (lambda: wg.mse_loss(wg.tensor([1, 2]), wg.tensor([1, 2])), DTypeError, "floating-point"),
        (lambda: wg.binary_cross_entropy(wg.ones(3), wg.ones(3), wg.ones(2)), ShapeError, "does not broadcast"),
        (lambda: wg.huber_loss(wg.ones(3), wg.ones(3), delta=0.0), ArgumentError, "delta must be positive"),
        (lambda: wg.smooth_l1_loss(wg.ones(3), wg.ones(3), beta=-1.0), ArgumentError, "beta"),
        (lambda: wg.gaussian_nll_loss(SCORES, SCORES, wg.ones(4)), ShapeError, "a variance of shape"),
        (lambda: wg.cosine_embedding_loss(SCORES, SCORES, wg.ones(4)), ShapeError, "the target"),
    ],
)
def test_what_does_not_fit_is_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
