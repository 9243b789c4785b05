"""Memory does not grow over a long loop (benchmarks/soak.py is the long form)."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import wengert as wg
from wengert.core.graph import Node


def live_nodes() -> int:
    gc.collect()
    return sum(type(thing) is Node for thing in gc.get_objects())


def step(weight: wg.Tensor, looks: bool) -> None:
    loss = wg.sum(wg.square(wg.tanh(weight * 1.5) - 0.5))
    loss.backward()
    with wg.no_grad():
        weight -= 0.1 * weight.grad
    weight.grad = None
    if looks:
        loss.item()


@pytest.mark.parametrize("looks", [False, True])
def test_a_parameter_does_not_keep_its_former_values(looks: bool) -> None:
    weight = wg.tensor(np.ones(3), requires_grad=True)
    for _ in range(3):
        step(weight, looks)
    before = live_nodes()
    for _ in range(50):
        step(weight, looks)
    assert live_nodes() <= before + 5


def test_a_running_statistic_does_not_keep_its_former_values() -> None:
    average = wg.tensor(np.zeros(3))
    before = live_nodes()
    for _ in range(50):
        average.assign(0.9 * average + 0.1)
        average.numpy()
    assert live_nodes() <= before + 5
