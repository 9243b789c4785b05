"""Values that loops of a backward pass write again in passing, on an emulated GPU: the same bits in less memory."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.kernels.emulator import compiler
from wengert.compiler import memory as compiler_memory
from wengert.compiler import remat
from wengert.plan import memory
from wengert.runtime import program
from wengert.runtime.program import plan_of

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with"),
    pytest.mark.usefixtures("gpu"),
]
LAYERS, TOKENS, WIDTH = 3, 64, 32


def save(monkeypatch: pytest.MonkeyPatch, share: int, budget: int | None = None) -> None:
    """Save memory as in large programs, one of so many parts."""
    monkeypatch.setattr(program, "plan_of", partial(plan_of, budget=budget))
    monkeypatch.setattr(memory, "APART", -1)  # small programs share places, too
    monkeypatch.setattr(remat, "PLENTY", 0)
    monkeypatch.setattr(remat, "SMALL", 0)
    monkeypatch.setattr(compiler_memory, "LARGE", 0)
    monkeypatch.setattr(remat, "SHARE", share)


def step_of_blocks(
    monkeypatch: pytest.MonkeyPatch, share: int, budget: int | None = None
) -> tuple[list[np.ndarray], Any]:
    """The gradients of a loss after blocks of a norm and two products, and the program that made them."""
    save(monkeypatch, share, budget)
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
    assert again.plan.arena.size <= kept.plan.arena.size - gelus - norms
    assert len(again.steps) == len(kept.steps) + (budget is not None)  # the norm of an input is a loop by itself


def test_a_loop_computes_what_it_needs_twice_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _, again = step_of_blocks(monkeypatch, 3)
    loops = [text for text in again.sources if "safe_multiply_f32(wg_quick_sigmoid" in text]  # with gelu's slope
    both = [text for text in loops if "* wg_quick_sigmoid" in text.replace("safe_multiply_f32(wg_quick_sigmoid", "")]
    assert both
    for text in both:
        arguments = re.findall(r"wg_quick_sigmoid_f32\((v\d+) ", text)
        assert len({*arguments}) == 1, "gelu and its slope are of one value"


ACTIVATIONS: list[Any] = [
    lambda x: wg.gelu(x, approximate="tanh"),
    wg.gelu,
    wg.relu,
    wg.tanh,
    lambda x: x * wg.sigmoid(x),
    lambda x: wg.maximum(x, x * 0.1),
    lambda x: wg.exp(-x * x),
]


def random_step(seed: int, device: str) -> tuple[list[np.ndarray], Any]:
    """The loss and the gradients of a random network, and the program that made them."""
    rng = np.random.default_rng(seed)
    tokens, width, layers = int(rng.choice([12, 33])), int(rng.choice([16, 24])), int(rng.integers(2, 5))
    low = rng.choice([wg.float32, wg.bfloat16])
    draw = lambda *sizes: wg.tensor((rng.normal(size=sizes) / 4).astype(np.float32), device=device)
    targets = wg.tensor(rng.integers(0, 300, tokens), device=device)
    plan, weights = [], [draw(width, 300), draw(tokens, width)]
    for _ in range(layers):
        plan.append((rng.random(5) < (0.6, 0.7, 0.3, 0.7, 0.2), ACTIVATIONS[rng.integers(len(ACTIVATIONS))]))
        inner = int(rng.choice([1, 2, 4])) * width
        weights += [draw(width, inner), draw(inner), draw(inner, width)]

    def loss(head: Any, hidden: Any, *flat: Any) -> Any:
        for k, ((has_norm, has_bias, is_squared, is_added, is_transposed), activation) in enumerate(plan):
            up, bias, down = (weight.to(low) for weight in flat[3 * k : 3 * k + 3])
            y = (wg.layer_norm(hidden, (width,)) if has_norm else hidden).to(low) @ up
            y = activation(y + bias if has_bias else y)
            z = ((y * y if is_squared else y) @ down).to(wg.float32)
            z = (z.T * 2).T if is_transposed else z
            hidden = hidden + z if is_added else z
        return wg.cross_entropy((hidden.to(low) @ head.to(low)).to(wg.float32), targets)

    step = wg.compile(wg.value_and_grad(loss, argnums=tuple(range(len(weights)))))
    value, gradients = step(*weights)
    return [value.numpy(), *(gradient.numpy() for gradient in gradients)], step._newest("a test").program


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_random_networks_are_the_same_in_less_memory(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    save(monkeypatch, 1 << 40)
    kept, expected = random_step(seed, "cuda"), random_step(seed, "cpu")[0]
    save(monkeypatch, 2 + seed % 3)
    found = random_step(seed, "cuda")
    assert found[1].plan.arena.size <= kept[1].plan.arena.size
    for one, other, reference in zip(found[0], kept[0], expected):
        size = np.abs(reference).max() + 1e-9
        assert np.abs(one - other).max() <= 1e-2 * size  # of what a loop computes again bfloat16 is not rounded
        assert np.abs(one - reference).max() <= 6e-2 * size
