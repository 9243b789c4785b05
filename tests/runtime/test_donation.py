"""Donation: a slot's memory is written over when nobody else can see it, and never otherwise."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from wengert.backends.cpu.toolchain import compiler

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


@pytest.mark.counted
def test_a_parameter_is_updated_in_place():
    w, m, step = stepper()
    x = wg.tensor(np.arange(100.0))
    step(x)
    step(x)
    places = address(w), address(m)
    for _ in range(15):  # some of these calls repeat the recording
        step(x)
        assert (address(w), address(m)) == places


def embedder():
    """A table whose gradient adds rows at indices that the forward pass has checked."""
    table = wg.tensor(np.ones((50, 4)), requires_grad=True)

    @wg.compile
    def step(index):
        table.grad = None
        (wg.take(table, index, axis=0) ** 2).sum().backward()
        with wg.no_grad():
            table.assign(table - 0.1 * table.grad)

    return table, step


@pytest.mark.counted
def test_an_embedding_is_updated_in_place():
    table, step = embedder()
    index = wg.tensor(np.array([3, 7, 3]))
    step(index)
    step(index)
    place = address(table)
    step(index)
    assert address(table) == place
    assert table.detach().numpy()[0, 0] == 1 and table.detach().numpy()[3, 0] < table.detach().numpy()[7, 0] < 1


def test_an_embedding_is_as_it_was_after_an_index_out_of_range():
    table, step = embedder()
    for _ in range(3):
        step(wg.tensor(np.array([3, 7, 3])))
    before, gradient = table.detach().numpy().copy(), table.grad.detach().numpy().copy()
    with pytest.raises(wg.errors.WengertError):
        step(wg.tensor(np.array([3, 7, 50])))
    np.testing.assert_array_equal(table.detach().numpy(), before)
    np.testing.assert_array_equal(table.grad.detach().numpy(), gradient)


@pytest.mark.counted
def test_a_gradient_takes_the_place_of_the_one_before():
    table, step = embedder()
    places = set()
    for _ in range(8):
        step(wg.tensor(np.array([3, 7, 3])))
        places.add(address(table.grad))
    assert len(places) == 1


@pytest.mark.counted
def test_a_gradient_that_is_added_to_is_added_to_in_place():
    w = wg.tensor(np.ones(100), requires_grad=True)

    @wg.compile
    def step():
        (w**2).sum().backward()

    places = []
    for _ in range(8):
        step()
        places.append(address(w.grad))
    assert len(set(places[2:])) == 1
    np.testing.assert_array_equal(w.grad.numpy(), 16 * np.ones(100))


@pytest.mark.parametrize("hold", [lambda g: g, lambda g: g.numpy(), lambda g: g.numpy()[1:], lambda g: g.detach()])
def test_a_gradient_that_somebody_holds_is_not_overwritten(hold):
    table, step = embedder()
    step(wg.tensor(np.array([3, 7, 3])))
    step(wg.tensor(np.array([3, 7, 3])))
    held = hold(table.grad)
    before = np.array(held if isinstance(held, np.ndarray) else held.numpy())
    step(wg.tensor(np.array([1, 2, 3])))
    step(wg.tensor(np.array([1, 2, 3])))
    np.testing.assert_array_equal(held if isinstance(held, np.ndarray) else held.numpy(), before)


def test_updates_in_place_give_the_references_numbers():
    results = []
    for tier in ("interpret", "auto"):
        wg.config.tier = tier
        w, m, step = stepper()
        for k in range(8):
            step(wg.tensor(np.arange(100.0) * k))
        results.append((w.detach().numpy().copy(), m.detach().numpy().copy()))
    wg.config.tier = "auto"
    for found, expected in zip(results[1], results[0]):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "hold", [lambda w: w.detach().numpy(), lambda w: w.detach().numpy()[3:7], lambda w: w.detach(), lambda w: w * 2.0]
)
def test_what_somebody_holds_is_not_overwritten(hold):
    w, _, step = stepper()
    x = wg.tensor(np.arange(100.0))
    for _ in range(4):
        step(x)
    held = hold(w)
    before = np.array(hold(w) if isinstance(held, np.ndarray) else hold(w).detach().numpy())
    step(x)
    step(x)
    np.testing.assert_array_equal(held if isinstance(held, np.ndarray) else held.detach().numpy(), before)


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
