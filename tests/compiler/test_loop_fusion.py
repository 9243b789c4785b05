"""Scans side by side in one loop: where they may be, and where it pays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.runtime.test_compiled_loops import arrays_of, check, forms
from wengert.autodiff.scan import SCAN
from wengert.compiler.passes import optimize

RNG = np.random.default_rng(0)


def tensor(*shape: int) -> wg.Tensor:
    return wg.tensor(RNG.normal(size=shape))


def averages(x: Any) -> Any:
    """A fast and a slow moving average, each with its path, and what is made of both."""
    fast, path = wg.scan(lambda c, x: (c * 0.5 + x, c), x[0] * 0.0, x)
    scaled = wg.exp(fast * 0.01)
    slow, energy = wg.scan(lambda c, x: (c * 0.9 + x, c * c), x[0], x)
    return scaled - slow, path - energy, fast


@pytest.mark.parametrize("width", [3, 1000])
def test_two_scans_are_one(width: int) -> None:
    assert len(check(averages, tensor(20, width))) == 1
    assert len(check(wg.grad(lambda x: sum((part**2).sum() for part in averages(x))), tensor(20, width))) == 2


def test_explain_shows_one_loop(capsys: pytest.CaptureFixture[str]) -> None:
    compiled = wg.compile(averages)
    compiled(tensor(20, 1000))
    text = compiled.explain()
    assert text.count("scan of 20 steps: 1000 lanes") == 1
    assert "loop_fusion" in text
    assert compiled.explain("loop_outputs").count("ops['scan']") == 2
    assert compiled.explain("loop_fusion").count("ops['scan']") == 1


def test_the_pass_is_switched_off_and_needs_fuel(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tensor(20, 1000)
    fused = arrays_of(wg.compile(averages)(x))
    monkeypatch.setattr(wg.config, "passes_off", frozenset({"loop_fusion"}))
    apart = wg.compile(averages)
    for a, b in zip(fused, arrays_of(apart(x)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
    assert len(forms(apart)) == 2


def test_any_number_in_any_order() -> None:
    def run(x: Any, y: Any) -> Any:
        a = wg.scan(lambda c, x: (c * 0.1 + x, None), x[0], x)[0]
        b = wg.scan(lambda c, x: (c * 0.2 + x, None), x[0], x)[0]
        total = a * 2.0
        c, ys = wg.scan(lambda c, y: (wg.tanh(c + y), c), y[0], y)
        d = wg.scan(lambda c, x: (c + x, None), total, x)[0]  # needs the first
        return d, b, c, ys, total

    assert len(check(run, tensor(9, 200), tensor(9, 200))) == 2


def test_equal_bodies() -> None:
    step = lambda c, x: (wg.sin(c) + x, c)
    assert len(check(lambda x, y: (wg.scan(step, x[0], x), wg.scan(step, y[0], x)), tensor(5, 80), tensor(5, 80))) == 1


def test_what_stays_apart() -> None:
    def loops(first: Any, second: Any) -> int:
        return len(check(lambda x, w: (first(x, w), second(x, w)), tensor(6, 80), tensor(80, 80)))

    def moving(**how: Any) -> Any:
        return lambda x, w: wg.scan(lambda c, x: (c * 0.5 + x, c), x[0], x, **how)

    product = lambda x, w: wg.scan(lambda c, x: (wg.tanh(c @ w + x), None), x[0], x)
    longer = lambda x, w: wg.scan(lambda c, _: (wg.sin(c), None), x[0], length=7)
    narrow = lambda x, w: wg.scan(lambda c, x: (c * 0.5 + x, None), x[0, :40], x[:, :40])
    whole = lambda x, w: wg.scan(lambda c, x: (c * 0.5 + x.sum(), None), x[0], x)
    assert loops(moving(), moving(reverse=True)) == 2
    assert loops(moving(), longer) == 2
    assert loops(moving(), narrow) == 2
    assert loops(moving(), product) == 2
    assert loops(product, product) == 1  # the same, merged by cse
    assert loops(moving(), whole) == 2


def test_what_is_computed_again_is_computed_later() -> None:
    def loss(x: Any) -> Any:
        segment = wg.checkpoint(lambda x: wg.scan(lambda c, x: (wg.sin(c) + x, c), x[0], x)[1])
        return (segment(x) ** 2).sum()

    compiled = wg.compile(wg.grad(loss))
    x = tensor(8, 100)
    np.testing.assert_allclose(compiled(x).numpy(), wg.grad(loss)(x).numpy(), rtol=1e-10)
    scans = [node for node in optimize(compiled.graph())[0].nodes if node.op is SCAN]
    assert len(scans) == 3  # the first, the same again, and backwards


def test_parts_of_a_body_that_have_nothing_to_do_with_each_other_share_lanes() -> None:
    run = lambda x, y: wg.scan(lambda c, _: ((wg.sin(c[0]), wg.cos(c[1])), c[1]), (x, y), length=5)
    assert "500 lanes" in check(run, tensor(500), tensor(500))[0]
    assert "500 lanes" in check(run, tensor(500), tensor(3, 500))[0]
    assert "1200 lanes" in check(run, tensor(30, 40), tensor(30, 40))[0]
