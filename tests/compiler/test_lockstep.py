"""Loops over lanes that are stepped all at once: where no kernel lets a lane end by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.runtime.adaptive import oscillator, starts
from tests.runtime.test_compiled_loops import agree, interpreted
from wengert.compiler import cleanup


def compared(function: Any, *args: Any, tolerance: float = 1e-9) -> None:
    found = wg.compile(function)(*args)
    with interpreted():
        agree(found, function(*args), tolerance)


def halved(x: Any, by: Any) -> Any:
    return wg.while_loop(lambda x: x > 1.0, lambda x: x * by, x)


def arguments(count: int) -> list[wg.Tensor]:
    rng = np.random.default_rng(0)
    return [wg.tensor(rng.uniform(0.5, 20, count)), wg.tensor(rng.uniform(0.3, 0.9, count))]


@pytest.mark.parametrize("how", ["large", "inline is off", "without fuel"])
def test_loops_over_lanes_and_their_gradients(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "large":
        monkeypatch.setattr(cleanup, "NODES", 0)
    if how == "inline is off":
        monkeypatch.setattr(wg.config, "passes_off", frozenset({"inline"}))
    if how == "without fuel":
        monkeypatch.setattr(wg.config, "fuel", 0)
    batch = wg.vmap(halved)
    compared(batch, *arguments(7))
    compared(wg.grad(lambda *a: batch(*a).sum(), (0, 1)), *arguments(7))
    compared(lambda x, by: wg.scan(lambda x, _: (batch(x, by) * 3.0, x), x, length=3), *arguments(7))
    compared(
        wg.grad(lambda *a: sum((end**2).sum() for end in wg.vmap(oscillator)(*a))), *map(wg.tensor, starts(5, 2.0))
    )


def test_a_lane_that_has_ended_looks_up_nothing() -> None:
    """Its last step led out of the table, which is why it ended."""
    table = wg.tensor(np.arange(4.0))

    def walk(i: Any, stride: Any) -> Any:
        return wg.while_loop(lambda s: s[0] < 4, lambda s: (s[0] + stride, s[1] + table[s[0]]), (i, table[0]))[1]

    i, stride = np.arange(40) % 5, np.arange(40) % 3 + 1
    expected = [sum(range(a, 4, b)) for a, b in zip(i, stride)]
    for how in (wg.compile(wg.vmap(walk)), wg.vmap(walk)):
        assert how(wg.tensor(i), wg.tensor(stride)).tolist() == expected
        with pytest.raises(wg.errors.ComputationError):
            how(wg.tensor(i - 6), wg.tensor(stride)).tolist()
