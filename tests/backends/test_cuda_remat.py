"""Values that loops of a backward pass write again in passing, on an emulated GPU: the same bits in less memory."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.kernels.emulator import compiler
from wengert.backends.cuda import program
from wengert.compiler import remat, stored

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with"),
    pytest.mark.usefixtures("gpu"),
]
LAYERS, TOKENS, WIDTH = 3, 64, 32


def step_of_blocks(
    monkeypatch: pytest.MonkeyPatch, share: int, budget: int | None = None
) -> tuple[list[np.ndarray], Any]:
    """The gradients of a loss after blocks of a norm and two products, and the program that made them."""
    monkeypatch.setattr(wg.config, "memory_budget", budget)
    monkeypatch.setattr(program, "APART", -1)  # small programs share places, too
    monkeypatch.setattr(remat, "PLENTY", 0)
    monkeypatch.setattr(remat, "SMALL", 0)
    monkeypatch.setattr(stored, "LARGE", 0)
    monkeypatch.setattr(remat, "SHARE", share)
    rng = np.random.default_rng(0)
    draw = lambda *sizes: wg.tensor((rng.normal(size=sizes) / 4).astype(np.float32), device="cuda")
    x, head, targets = draw(TOKENS, WIDTH), draw(WIDTH, 1000), wg.tensor(rng.integers(0, 1000, TOKENS), device="cuda")
    weights = [(draw(WIDTH, 4 * WIDTH), draw(4 * WIDTH), draw(4 * WIDTH, WIDTH)) for _ in range(LAYERS)]

    def loss(head: Any, *flat: Any) -> Any:
        hidden = x
        for k in range(LAYERS):
            up, bias, down = (weight.to(wg.bfloat16) for weight in flat[3 * k : 3 * k + 3])
            normal = wg.layer_norm(hidden, (WIDTH,)).to(wg.bfloat16)
            hidden = hidden + (wg.gelu(normal @ up + bias, approximate="tanh") @ down).to(wg.float32)
        return wg.cross_entropy((hidden.to(wg.bfloat16) @ head.to(wg.bfloat16)).to(wg.float32), targets)

    flat = [weight for layer in weights for weight in layer]
    step = wg.compile(wg.grad(loss, argnums=tuple(range(1 + len(flat)))))
    found = [gradient.numpy() for gradient in step(head, *flat)]
    return found, step._newest("a test").program


@pytest.mark.parametrize(("share", "budget"), [(3, None), (1 << 40, 1)])
def test_what_is_written_in_passing_is_the_same_to_the_bit(
    monkeypatch: pytest.MonkeyPatch, share: int, budget: int | None
) -> None:
    expected, kept = step_of_blocks(monkeypatch, 1 << 40)
    found, again = step_of_blocks(monkeypatch, share, budget)
    assert all(a.tobytes() == b.tobytes() for a, b in zip(found, expected))
    gelus, norms = 2 * LAYERS * TOKENS * 4 * WIDTH, 2 * (LAYERS - 1) * TOKENS * WIDTH
    assert again.arena_size <= kept.arena_size - gelus - norms
    assert len(again.steps) == len(kept.steps) + (budget is not None)  # the norm of an input is a loop by itself


def test_a_loop_computes_what_it_needs_twice_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _, again = step_of_blocks(monkeypatch, 3)
    loops = [text for text in again.sources if "weigh_f32(wg_quick_sigmoid" in text]  # with gelu's slope
    both = [text for text in loops if "* wg_quick_sigmoid" in text.replace("weigh_f32(wg_quick_sigmoid", "")]
    assert both
    for text in both:
        arguments = re.findall(r"wg_quick_sigmoid_f32\((v\d+) ", text)
        assert len({*arguments}) == 1, "gelu and its slope are of one value"
