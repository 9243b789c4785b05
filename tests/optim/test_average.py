"""The exponential moving average against a NumPy loop; applied, restored, saved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.optim.problem import SHAPES, assert_same, descend, values, wengert_parameters


@pytest.mark.parametrize("decay", [0.0, 0.9, 0.999, 1.0])
def test_against_a_loop(decay: float) -> None:
    params = wengert_parameters(values(SHAPES))
    optimizer = wg.optim.SGD(params, lr=0.01)
    average = wg.optim.ExponentialMovingAverage(params, decay)
    expected = [p.detach().numpy().copy() for p in params]

    def update() -> None:
        average.update()
        for i, p in enumerate(params):
            expected[i] = decay * expected[i] + (1 - decay) * p.detach().numpy()

    descend(wg, params, optimizer, 30, update)
    assert_same(average.averages, expected, rtol=1e-12, atol=1e-12)
    before = [p.detach().numpy() for p in params]
    with average.apply():
        assert_same(params, expected, rtol=1e-12, atol=1e-12)
    assert_same(params, before, rtol=0, atol=0)
    assert all(p.is_leaf and p.requires_grad for p in params)


def test_applied_and_restored_by_hand() -> None:
    w = wg.tensor([1.0], requires_grad=True)
    average = wg.optim.ExponentialMovingAverage([("w", w)], 0.5)
    w.assign([3.0] * np.ones(1, np.float32))
    average.update()
    average.apply()
    assert w.tolist() == [2.0]
    with pytest.raises(wg.errors.AssignmentError, match=r"call restore\(\) first"):
        average.apply()
    average.restore()
    assert w.tolist() == [3.0]
    with pytest.raises(wg.errors.AssignmentError, match=r"call apply\(\) first"):
        average.restore()


def test_restored_after_an_error() -> None:
    w = wg.tensor([1.0], requires_grad=True)
    average = wg.optim.ExponentialMovingAverage([w])
    w.assign(np.array([3.0]))
    with pytest.raises(KeyError), average.apply():
        raise KeyError
    assert w.tolist() == [3.0]


def test_an_update_looks_at_no_value() -> None:
    w = wg.tensor([0.0], requires_grad=True)
    average = wg.optim.ExponentialMovingAverage([w], 0.5)

    def step(carry: wg.Tensor, value: wg.Tensor) -> tuple[wg.Tensor, wg.Tensor]:
        with wg.no_grad():
            w.assign(value)
        average.update()
        return carry, value

    wg.scan(step, wg.tensor(0.0), wg.tensor([[1.0], [2.0], [4.0]]))
    assert average.averages[0].tolist() == [0.125 + 0.5 + 2.0]


def test_a_module(tmp_path: Any) -> None:
    class Model:
        def __init__(self) -> None:
            self.weight = wg.tensor([1.0], requires_grad=True)

        def parameters(self) -> list[wg.Tensor]:
            return [self.weight]

    model = Model()
    average = wg.optim.ExponentialMovingAverage(model, 0.5)
    model.weight.assign(np.array([2.0]))
    average.update()
    wg.save(tmp_path / "average", average.state_dict())
    again = wg.optim.ExponentialMovingAverage(Model())
    again.load_state_dict(wg.load(tmp_path / "average"))
    assert again.decay == 0.5
    assert again.averages[0].tolist() == [1.5]
    with pytest.raises(wg.errors.ShapeError, match="averages of shapes"):
        wg.optim.ExponentialMovingAverage([wg.zeros((2,))]).load_state_dict(average.state_dict())


def test_halves_are_averaged_in_float32() -> None:
    w = wg.ones((1,), dtype=wg.float16, requires_grad=True)
    average = wg.optim.ExponentialMovingAverage([w], 0.9999)
    w.assign(w.detach() * 2)
    average.update()
    assert average.averages[0].item() == pytest.approx(1.0001, abs=1e-7)


def test_errors() -> None:
    with pytest.raises(wg.errors.ArgumentError, match=r"not 1\.5"):
        wg.optim.ExponentialMovingAverage([wg.zeros((2,))], 1.5)
    with pytest.raises(wg.errors.ArgumentError, match="no parameters"):
        wg.optim.ExponentialMovingAverage([])
