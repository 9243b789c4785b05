"""The adaptive softmax against torch's, compiled, and what does not fit."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import ArgumentError, OutOfRangeError, ShapeError

X = np.random.default_rng(0).normal(size=(6, 8))
TARGET = np.array([0, 7, 12, 19, 4, 5])


@pytest.mark.parametrize("head_bias", [False, True])
def test_values_and_gradients_are_torchs(head_bias: bool) -> None:
    torch = pytest.importorskip("torch")
    args = (8, 20, [5, 10], 2.0, head_bias)
    theirs = torch.nn.AdaptiveLogSoftmaxWithLoss(*args, dtype=torch.float64)
    ours = wg.nn.AdaptiveLogSoftmaxWithLoss(*args, dtype=wg.float64)
    ours.load_state_dict(theirs.state_dict())
    x, t = wg.tensor(X, requires_grad=True), torch.tensor(X, requires_grad=True)
    found, expected = ours(x, wg.tensor(TARGET)), theirs(t, torch.tensor(TARGET))
    np.testing.assert_allclose(found.output.detach().numpy(), expected.output.detach().numpy(), rtol=1e-12)
    found.loss.backward()
    expected.loss.backward()
    np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), atol=1e-13)
    for (name, p), (_, q) in zip(ours.named_parameters(), theirs.named_parameters()):
        np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), atol=1e-13, err_msg=name)
    logs = theirs.log_prob(t)
    np.testing.assert_allclose(ours.log_prob(x).detach().numpy(), logs.detach().numpy(), rtol=1e-12)
    np.testing.assert_array_equal(ours.predict(x).numpy(), theirs.predict(t).numpy())


def test_compiled_and_of_one_row() -> None:
    model = wg.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10], 2.0, dtype=wg.float64)
    x, target = wg.tensor(X), wg.tensor(TARGET)
    expected = model(x, target).output.detach().numpy()
    np.testing.assert_allclose(wg.compile(model)(x, target).output.detach().numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(model(x[1], target[1]).output.item(), expected[1], rtol=1e-12)


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(ArgumentError, match="cutoffs must increase from 1 to at most 19"):
        wg.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [10, 5])
    with pytest.raises(ArgumentError, match="cluster 1 has no features"):
        wg.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10, 15])
    model = wg.nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5])
    with pytest.raises(OutOfRangeError, match="target 20 is not one of the 20 classes"):
        model(wg.ones((1, 8)), wg.tensor([20]))
    with pytest.raises(ShapeError, match=r"the input must be \(N, 8\) and the target \(N,\)"):
        model(wg.ones((2, 8)), wg.tensor([1]))
