"""The exercise `attention`: scaled dot-product attention and its gradients (homework 4, part 1)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert.learn.exercises.exercise import Case, Cases, Check, Exercise, files_in
from wengert.learn.exercises.reference import drawn, value_and_gradients

HERE = Path(__file__).parent
GAPS = {"homework/attention.py": ("softmax", "softmax_backward", "scores", "attention", "attention_backward")}

SHAPES = [((), 3, 4, 2, 3, False), ((2,), 4, 4, 3, 2, True), ((2, 3), 2, 5, 4, 4, False), ((1, 2), 5, 5, 2, 3, True)]
"""Leading dimensions, queries, keys, d, e, and whether it is causal."""


def _rows(rng: np.random.Generator) -> Iterator[tuple[Any, str]]:
    yield drawn(rng, 3, 4), "drawn scores"
    yield drawn(rng, 2, 1, 5) * 1e4, "scores whose exponentials overflow"
    yield np.full((2, 3), rng.normal()), "equal scores"
    yield drawn(rng, 4, 1), "a single score in each row"


def softmaxes(rng: np.random.Generator) -> Iterator[Case]:
    """Softmax, also of large scores and with -inf."""
    for x, note in _rows(rng):
        yield Case(("softmax", x), value_and_gradients(lambda x: wg.softmax(x, axis=-1), [x], 1.0)[0], note)
    hidden = np.where(np.arange(4) > np.arange(4)[:, None], -np.inf, drawn(rng, 4, 4))
    powers = np.exp(hidden)
    yield Case(("softmax", hidden), powers / powers.sum(axis=-1, keepdims=True), "some scores are -inf")


def softmax_rules(rng: np.random.Generator) -> Iterator[Case]:
    """The gradient of softmax."""
    for x, note in _rows(rng):
        seed = drawn(rng, *x.shape)
        _, (found,) = value_and_gradients(lambda x: wg.softmax(x, axis=-1), [x], seed)
        yield Case(("softmax_backward", seed, x), found, note)


def _inputs(rng: np.random.Generator, lead: tuple[int, ...], queries: int, keys: int, d: int, e: int) -> Any:
    return drawn(rng, *lead, queries, d), drawn(rng, *lead, keys, d), drawn(rng, *lead, keys, e)


def score_cases(rng: np.random.Generator) -> Iterator[Case]:
    """Scores, causal or not."""
    for lead, queries, keys, d, e, is_causal in SHAPES:
        q, k, _ = _inputs(rng, lead, queries, keys, d, e)
        expected = np.einsum("...qd,...kd->...qk", q, k) / d**0.5
        if is_causal:
            expected[..., np.arange(keys) > np.arange(queries)[:, None]] = -np.inf
        yield Case(("scores", q, k, is_causal), expected, f"q {q.shape}, k {k.shape}, causal: {is_causal}")


def attentions(is_backward: bool) -> Cases:
    """Attention, or its gradients."""

    def cases(rng: np.random.Generator) -> Iterator[Case]:
        for lead, queries, keys, d, e, is_causal in SHAPES:
            inputs, seed = _inputs(rng, lead, queries, keys, d, e), drawn(rng, *lead, queries, e)
            y, found = value_and_gradients(
                lambda q, k, v, c=is_causal: wg.scaled_dot_product_attention(q, k, v, is_causal=c), inputs, seed
            )
            note = f"q {inputs[0].shape}, k {inputs[1].shape}, v {inputs[2].shape}, causal: {is_causal}"
            if is_backward:
                yield Case(("attention_backward", seed, *inputs, is_causal), found, note)
            else:
                yield Case(("attention", *inputs, is_causal), y, note)

    return cases


EXERCISE = Exercise(
    name="attention",
    title="Scaled dot-product attention",
    lecture="Lectures 18 and 19: attention and transformers",
    lesson="Broadcasting and its adjoint",
    minutes=150,
    marks=33,
    question_marks=3,
    allowed_imports=("numpy", "typing", "math"),
    files=files_in(HERE / "handout"),
    submission=tuple(GAPS),
    probes=(HERE / "probes.py").read_text(encoding="utf-8"),
    checks=(
        Check("softmax", "call", softmaxes, 4, "Softmax"),
        Check("softmax_backward", "call", softmax_rules, 6, "Softmax"),
        Check("scores, causal or not", "call", score_cases, 4, "Attention"),
        Check("attention", "call", attentions(False), 6, "Attention"),
        Check("attention_backward", "call", attentions(True), 10, "Attention"),
    ),
    questions=(
        "Why are the scores divided by the square root of d? What happens to the gradient without it?",
        "How much memory does the table of scores take for a sequence of n tokens? Can it be avoided?",
        "What is the Jacobian of softmax? Why does its product with a vector need no matrix?",
    ),
)
