"""Programs with loops and branches whose bodies hold products, reductions and other loops, and what they are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import wengert as wg
from wengert.compiler import cleanup
from wengert.core import tree
from wengert.kernels.loops import cuda as lane_kernels
from wengert.kernels.recurrent import cuda as recurrent_kernels

Array = np.ndarray[Any, Any]
_rng = np.random.default_rng(0)


def _normal(*shape: int, scale: float = 1.0) -> Array:
    return (_rng.normal(size=shape) * scale).astype(np.float32)


W, XS, ODD, W3, ZEROS = _normal(8, 8, scale=0.3), _normal(7, 4, 8), _normal(7, 4, 3), _normal(3, 8), _normal(4, 8) * 0


class LoopProgram(NamedTuple):
    """A function, and arrays to call it with."""

    function: Callable[..., Any]
    arrays: tuple[Array, ...]


def rnn(xs: Any, w: Any, start: Any) -> Any:
    """A recurrent net: a product a step."""

    def step(h: Any, x: Any) -> Any:
        h = wg.tanh(h @ w + x)
        return h, h * 2

    return wg.scan(step, start, xs)


def backwards(xs: Any, w: Any, w3: Any) -> Any:
    """A loop from the last to the first, over rows of 12 bytes that are stacked up again."""

    def step(h: Any, x: Any) -> Any:
        h = wg.tanh(h @ w + wg.softmax(x @ w3))
        return h, (h * 2, x, wg.sum(h))

    return wg.scan(step, wg.zeros((4, 8), device=xs.device), xs, reverse=True)


def swapped(xs: Any, w: Any) -> Any:
    """Carries that a step gives as they were, but one for the other, and stacks up."""

    def step(c: Any, x: Any) -> Any:
        a, b, n, same = c
        return (b, wg.tanh(a @ w) + x, n + 1, same), (a, b, same)

    return wg.scan(step, (xs[0], xs[1], 0, xs[2]), xs)


def halved(x: Any, w: Any) -> Any:
    """As long as one of the elements is large."""

    def step(state: Any) -> Any:
        return wg.tanh(state[0] @ w), state[1] + 1

    return wg.while_loop(lambda state: wg.max(wg.abs(state[0])) > 0.1, step, (x, 0), max_steps=100)


def exchanged(x: Any, w: Any) -> Any:
    """A loop whose carries take each other's place."""
    return wg.while_loop(lambda s: s[2] < 5, lambda s: (s[1], s[0] @ w, s[2] + 1), (x, x + 1, 0))


def branched(x: Any, w: Any) -> Any:
    """A product or none."""
    return wg.cond(wg.sum(x) > 0, lambda x: (x @ w, x), lambda x: (x - 1, wg.softmax(x)), x)


def nested(xs: Any, w: Any) -> Any:
    """A scan of a scan, a branch and a loop."""

    def inner(h: Any, row: Any) -> Any:
        return wg.tanh(h @ w) + row, wg.sum(h)

    def step(h: Any, x: Any) -> Any:
        h, sums = wg.scan(inner, h + x, x)
        h = wg.cond(wg.sum(h) > 0, lambda h: wg.softmax(h @ w), lambda h: h * 2, h)
        h = wg.while_loop(lambda h: wg.sum(h * h) > 3.0, lambda h: h @ w, h)
        return h, sums

    return wg.scan(step, xs[0], xs)


def drawn(xs: Any, w: Any) -> Any:
    """Random numbers in every step, from a generator of its own."""
    generator = wg.random.Generator(3)

    def step(h: Any, x: Any) -> Any:
        return h @ w + x * wg.random.normal((4, 8), device=xs.device, generator=generator), wg.random.uniform(
            (4,), device=xs.device, generator=generator
        )

    first = wg.scan(step, xs[0], xs)
    return first, wg.random.uniform((3,), device=xs.device, generator=generator)


def counted(xs: Any, w: Any) -> Any:
    """A tensor from outside that steps and branches assign."""
    total = wg.zeros((), device=xs.device)

    def step(h: Any, x: Any) -> Any:
        h = wg.tanh(h @ w + x)
        total.assign_(total + wg.sum(h))
        return wg.cond(wg.sum(h) > 0, lambda h: (total.assign_(total * 2) and h) or h, lambda h: -h, h), None

    return wg.scan(step, xs[0], xs)[0], total * 1


def gradient_of(function: Callable[..., Any], count: int) -> Callable[..., Any]:
    """The gradients of the squares of all that a function gives."""

    def loss(*arguments: Any) -> Any:
        leaves = tree.flatten(function(*arguments))[0]
        return sum((wg.sum(leaf * leaf) for leaf in leaves if leaf.dtype is wg.float32), start=wg.sum(arguments[0]))

    return wg.grad(loss, argnums=tuple(range(count)))


PROGRAMS = {
    "rnn": LoopProgram(rnn, (XS, W, ZEROS)),
    "rnn, gradient": LoopProgram(gradient_of(rnn, 3), (XS, W, ZEROS)),
    "no steps": LoopProgram(lambda xs, w, h: rnn(xs[:0], w, h), (XS, W, ZEROS)),
    "one step": LoopProgram(lambda xs, w, h: rnn(xs[:1], w, h), (XS, W, ZEROS)),
    "backwards": LoopProgram(backwards, (ODD, W, W3)),
    "backwards, gradient": LoopProgram(gradient_of(backwards, 3), (ODD, W, W3)),
    "swapped": LoopProgram(swapped, (XS, W)),
    "swapped, gradient": LoopProgram(gradient_of(swapped, 2), (XS, W)),
    "while": LoopProgram(halved, (XS[0], W)),
    "while that stops at once": LoopProgram(lambda x, w: halved(x * 0, w), (XS[0], W)),
    "while, gradient": LoopProgram(gradient_of(halved, 2), (XS[0], W)),
    "exchanged": LoopProgram(exchanged, (XS[0], W)),
    "true": LoopProgram(branched, (abs(XS[0]), W)),
    "false": LoopProgram(branched, (-abs(XS[0]), W)),
    "true, gradient": LoopProgram(gradient_of(branched, 2), (abs(XS[0]), W)),
    "false, gradient": LoopProgram(gradient_of(branched, 2), (-abs(XS[0]), W)),
    "nested": LoopProgram(nested, (XS, W)),
    "nested, gradient": LoopProgram(gradient_of(nested, 2), (XS[:4], W)),
    "random numbers": LoopProgram(drawn, (XS, W)),
    "over lanes": LoopProgram(lambda xs, w, h: wg.vmap(rnn, in_axes=(1, None, 0))(xs, w, h), (XS, W, ZEROS)),
    "while over lanes": LoopProgram(lambda x, w: wg.vmap(halved, in_axes=(0, None))(x, w), (XS[:3, :1], W)),
}


def results(program: LoopProgram, device: str, calls: int = 3, compiled: bool = True) -> list[Array]:
    """What a program gives on a device: the last of several calls, with arguments in new places."""
    function = wg.compile(program.function) if compiled else program.function
    for _ in range(calls):
        found = function(*[wg.tensor(array, device=device) for array in program.arrays])
    return [leaf.numpy() for leaf in tree.flatten(found)[0]]


def as_plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the body of every loop be a plan: no kernel of lanes, and none of a recurrence."""
    monkeypatch.setattr(cleanup, "is_small", lambda loop: False)
    monkeypatch.setattr(lane_kernels, "form", lambda node: None)
    monkeypatch.setattr(recurrent_kernels, "planned", lambda node, device: None)


def explained(program: LoopProgram, device: str) -> str:
    """What a program's launches are."""
    function = wg.compile(program.function)
    function(*[wg.tensor(array, device=device) for array in program.arrays])
    return str(function.explain())


def agree(found: list[Array], expected: list[Array]) -> None:
    """Raise unless arrays are the same up to rounding."""
    assert len(found) == len(expected)
    for a, b in zip(found, expected):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=2e-4)
