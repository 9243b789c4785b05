"""Normalisation: running statistics, half precision, special points, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import ArgumentError, DTypeError, ShapeError


def _random(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape)


@pytest.mark.parametrize("name", ["batch_norm", "instance_norm"])
def test_running_statistics_move_as_in_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    option = {"training": True} if name == "batch_norm" else {"use_input_stats": True}
    ours, theirs = ([make(np.zeros(3)), make(np.ones(3))] for make in (wg.tensor, torch.tensor))
    for step in range(3):
        x = _random(4, 3, 5) + step
        y = getattr(wg, name)(wg.tensor(x), *ours, momentum=0.3, **option)
        z = getattr(torch.nn.functional, name)(torch.tensor(x), *theirs, momentum=0.3, **option)
        np.testing.assert_allclose(y.numpy(), z.numpy(), rtol=1e-9, atol=1e-9)
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9)


def test_running_statistics_are_not_part_of_the_gradient() -> None:
    x = wg.tensor(_random(4, 3), requires_grad=True)
    mean, var = wg.zeros(3, dtype=wg.float64), wg.ones(3, dtype=wg.float64)
    y = wg.batch_norm(x, mean, var, training=True)
    assert not mean.requires_grad
    assert not var.requires_grad
    (y * y * y).sum().backward()
    np.testing.assert_allclose(mean.detach().numpy(), 0.1 * x.detach().numpy().mean(0))
    assert x.grad is not None


def test_evaluation_leaves_running_statistics_alone() -> None:
    mean, var = wg.zeros(3), wg.ones(3)
    wg.batch_norm(wg.tensor(_random(4, 3)), mean, var).numpy()
    assert mean.tolist() == [0.0] * 3
    assert var.tolist() == [1.0] * 3


def test_half_precision_statistics_do_not_overflow() -> None:
    x = wg.tensor(np.array([[1000.0, -1000.0]]), wg.float16)
    for y in (wg.layer_norm(x, 2), wg.rms_norm(x, 2), wg.normalize(x) * 2**0.5):
        assert y.dtype == wg.float16
        np.testing.assert_allclose(y.numpy().astype(np.float32), [[1.0, -1.0]], rtol=2e-3)


def test_parameters_in_float32_go_with_half_precision_values() -> None:
    x = wg.tensor(_random(2, 4), wg.bfloat16)
    assert wg.layer_norm(x, 4, wg.ones(4), wg.zeros(4)).dtype == wg.bfloat16
    assert wg.batch_norm(x, wg.zeros(4), wg.ones(4), wg.ones(4), training=True).dtype == wg.bfloat16


def test_a_vector_of_zeros_has_a_finite_gradient() -> None:
    zero = wg.zeros((1, 3))
    assert wg.normalize(zero).tolist() == [[0.0, 0.0, 0.0]]
    assert np.isfinite(wg.grad(lambda v: wg.normalize(v).sum())(zero).numpy()).all()
    assert np.isfinite(wg.grad(lambda v: wg.cosine_similarity(v, wg.ones((1, 3))).sum())(zero).numpy()).all()
    assert np.isfinite(wg.grad(lambda v: (wg.layer_norm(v, 3) ** 2).sum())(zero).numpy()).all()


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda x: wg.layer_norm(x, (3, 5)), ShapeError, r"does not end in normalized_shape \(3, 5\)"),
        (lambda x: wg.layer_norm(x, 4, wg.ones(3)), ShapeError, r"the weight has shape \(3,\)"),
        (lambda x: wg.layer_norm(x, 4, bias=wg.ones(3)), ShapeError, r"the bias has shape \(3,\)"),
        (lambda x: wg.group_norm(x, 2), ArgumentError, "3 channels do not divide"),
        (lambda x: wg.batch_norm(x, wg.zeros(4), wg.ones(4)), ShapeError, "3 channels need"),
        (lambda x: wg.batch_norm(x, None, None), ArgumentError, "needs running_mean"),
        (lambda x: wg.batch_norm(x[:1, :, 0], None, None, training=True), ShapeError, "one value has no variance"),
        (lambda x: wg.batch_norm(x, np.zeros(3), np.ones(3), training=True), DTypeError, "is a Tensor"),
        (lambda x: wg.layer_norm(x.to(wg.int64), 4), DTypeError, "floating-point"),
        (lambda x: wg.local_response_norm(x, 0), ArgumentError, "at least 1"),
    ],
)
def test_what_does_not_fit_is_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(wg.tensor(_random(2, 3, 4)))
