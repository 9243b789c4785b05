"""Donation: a slot's memory is written over when nobody else can see it, and never otherwise."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from wengert.backends.toolchain import compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


def stepper():
    w, m = wg.tensor(np.ones(100), requires_grad=True), wg.tensor(np.zeros(100))

    @wg.compile
    def step(x):
        loss = ((w - x) ** 2).sum()
        loss.backward()
        with wg.no_grad():
            m.assign(m * 0.9 + w.grad)
            w.assign(w - 0.1 * m)
        w.grad = None
        return loss

    return w, m, step


def address(tensor: wg.Tensor) -> int:
    return tensor.node.buffer.ctypes.data


def test_a_parameter_is_updated_in_place():
    w, m, step = stepper()
    x = wg.tensor(np.arange(100.0))
    for _ in range(4):
        step(x)
    places = address(w), address(m)
    step(x)
    assert (address(w), address(m)) == places


def test_updates_in_place_give_the_references_numbers():
    results = []
    for tier in ("interpret", "auto"):
        wg.config.tier = tier
        w, m, step = stepper()
        for k in range(8):
            step(wg.tensor(np.arange(100.0) * k))
        results.append((w.numpy().copy(), m.numpy().copy()))
    wg.config.tier = "auto"
    for found, expected in zip(results[1], results[0]):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "hold", [lambda w: w.numpy(), lambda w: w.numpy()[3:7], lambda w: w.detach(), lambda w: w * 2.0]
)
def test_what_somebody_holds_is_not_overwritten(hold):
    w, _, step = stepper()
    x = wg.tensor(np.arange(100.0))
    for _ in range(4):
        step(x)
    held = hold(w)
    before = np.array(hold(w) if isinstance(held, np.ndarray) else hold(w).numpy())
    step(x)
    step(x)
    np.testing.assert_array_equal(held if isinstance(held, np.ndarray) else held.numpy(), before)


def test_a_call_that_fails_changes_no_slot():
    w = wg.tensor(np.ones(4))
    bad = wg.tensor(np.array([0, 9]))

    @wg.compile
    def step(index):
        w.assign(w * 2.0)
        return wg.take(w, index, axis=0)

    for _ in range(3):
        step(wg.tensor(np.array([0, 1])))
    assert w.tolist() == [8.0] * 4
    with pytest.raises(wg.errors.WengertError):
        step(bad)
    assert w.tolist() == [8.0] * 4
