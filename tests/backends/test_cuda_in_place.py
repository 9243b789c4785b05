"""Programs whose kernels write over operands where most memory is needed, on an emulated GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import EmulatedDriver
from tests.gpu import test_in_place
from tests.kernels.emulator import compiler
from tests.plan.stages import with_stage
from wengert.plan import memory
from wengert.runtime.debug.explain import bytes_text

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with"),
    pytest.mark.usefixtures("gpu"),
]


@pytest.fixture(autouse=True)
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small programs share places, too."""
    monkeypatch.setattr(memory, "APART", -1)


def loss_step(check: bool = False) -> tuple[list[np.ndarray], Any]:
    """A step of a classifier of many classes in half precision: what it gives, and the compiled function."""
    rng = np.random.default_rng(0)
    draw = lambda *sizes: wg.tensor(rng.normal(size=sizes).astype(np.float32), device="cuda")
    x, weight, y = draw(40, 8), draw(8, 1000), wg.tensor(rng.integers(0, 1000, 40), device="cuda")

    @wg.compile
    def step(x: Any, weight: Any) -> Any:
        scores = lambda x, weight: (x @ weight).to(wg.bfloat16)
        loss = lambda x, weight: wg.cross_entropy(scores(x, weight).to(wg.float32), y)
        return wg.value_and_grad(loss, argnums=(0, 1))(x, weight)

    before, wg.config.check = wg.config.check, check
    try:
        value, gradients = [step(x, weight) for _ in range(3)][-1]
    finally:
        wg.config.check = before
    return [each.numpy() for each in (value, *gradients)], step


def program_of(compiled: Any) -> Any:
    found = compiled._newest("a test").program
    return getattr(found, "program", found)


@pytest.mark.parametrize("check", [False, True])
def test_the_gradient_of_a_loss_lies_over_the_scores(monkeypatch: pytest.MonkeyPatch, check: bool) -> None:
    found, step = loss_step(check)
    there = program_of(step)
    [(gradient, scores)] = there.plan.aliases.items()
    assert gradient.size == scores.size == 40_000
    assert there.plan.arena.offsets[gradient] == there.plan.arena.offsets[scores]
    assert f"arena {bytes_text(there.plan.arena.size)}" in step.explain("memory")
    with_stage(monkeypatch, "in_place", test_in_place.nowhere)
    expected, apart = loss_step()
    assert there.plan.arena.size <= program_of(apart).plan.arena.size - 2 * 40_000
    assert all(a.tobytes() == b.tobytes() for a, b in zip(found, expected))


@pytest.mark.parametrize("seed", [0, *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 20)]])
def test_random_chains_in_place_give_the_same_bits(
    monkeypatch: pytest.MonkeyPatch, gpu: EmulatedDriver, seed: int
) -> None:
    gpu.arena_array[:] = 0xFF
    test_in_place.test_over_operands_the_bits_are_the_same(monkeypatch, seed, side=40)
