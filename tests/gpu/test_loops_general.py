"""Loops and branches whose bodies hold products, reductions, library calls and other loops, on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.loop_programs import PROGRAMS, agree, as_plans, results
from wengert.plan import device_scans

LENGTHS = {"unrolled": (1024, 64), "repeated": (0, 8)}


@pytest.mark.parametrize("form", ["plans", "kernels"])
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loop_on_the_gpu_is_the_loop_on_the_host(
    name: str, length: str, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if form == "plans":
        as_plans(monkeypatch)
    unrolled, trip = LENGTHS[length]
    monkeypatch.setattr(device_scans, "UNROLLED", unrolled)
    monkeypatch.setattr(device_scans, "TRIP", trip)
    program = PROGRAMS[name]
    agree(results(program, "cuda", calls=4), results(program, "cpu", 1, compiled=False))
    agree(results(program, "cuda", 1, compiled=False), results(program, "cpu", 1, compiled=False))


def test_large_bodies_with_libraries() -> None:
    """Products that libraries carry out, in a graph that repeats them: the same bits at every call."""
    rng = np.random.default_rng(0)
    arrays = [(rng.normal(size=s) * 0.05).astype(np.float32) for s in ((600, 64, 512), (512, 512), (512, 512))]

    def loss(xs: Any, a: Any, b: Any) -> Any:
        step = lambda h, x: (wg.tanh(wg.gelu(h @ a) @ b + x), None)
        return wg.sum(wg.scan(step, wg.zeros((64, 512), device=xs.device), xs)[0] ** 2)

    function = wg.compile(wg.grad(loss, argnums=(1, 2)))
    on_gpu = [[x.numpy() for x in function(*[wg.tensor(a, device="cuda") for a in arrays])] for _ in range(4)]
    for other in on_gpu[1:]:
        for a, b in zip(on_gpu[0], other):
            np.testing.assert_array_equal(a, b)
    agree(on_gpu[-1], [x.numpy() for x in wg.compile(wg.grad(loss, argnums=(1, 2)))(*map(wg.tensor, arrays))])
