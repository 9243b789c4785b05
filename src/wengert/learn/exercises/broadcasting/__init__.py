"""The exercise `broadcasting`: the adjoint of broadcasting, and backward operations that rest on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert.learn.exercises.exercise import Case, Cases, Check, Exercise, files_in
from wengert.learn.exercises.reference import drawn, gradients

HERE = Path(__file__).parent
GAPS = {
    "homework/broadcasting.py": (
        *("sum_to", "add_backward", "mul_backward", "div_backward", "where_backward", "maximum_backward"),
        "mean_backward",
    )
}

Shape = tuple[int, ...]
PAIRS: list[tuple[Shape, Shape]] = [
    *(((3, 4), (3, 4)), ((3, 4), (4,)), ((4,), (3, 4)), ((3, 1), (1, 4)), ((3, 1), (4,))),
    *(((), (2, 3)), ((2, 3), ()), ((1, 1), (2, 3)), ((2, 1, 3), (4, 1)), ((1,), (1, 1)), ((0, 3), (3,))),
]


def sums(rng: np.random.Generator) -> Iterator[Case]:
    """Shapes that are broadcast to others."""
    targets: list[tuple[Shape, Shape]] = [
        *(((3,), (4, 3)), ((1, 3), (4, 3)), ((4, 1), (4, 3)), ((4, 3), (4, 3)), ((1, 1), (4, 3)), ((), (4, 3))),
        *(((2, 1, 3), (5, 2, 4, 3)), ((1,), (2, 3, 1)), ((1, 3), (2, 1, 3)), ((3,), (0, 3))),
    ]
    for shape, target in targets:
        seed = drawn(rng, *target)
        (expected,) = gradients(lambda x, t=target: wg.broadcast_to(x, t), [drawn(rng, *shape)], seed)
        yield Case(("sum_to", seed, shape), expected, f"from {target} to {shape}")


def pairs(name: str, function: Callable[..., Any], ties: bool = False) -> Cases:
    """A backward operation of two operands, for all pairs of shapes."""

    def cases(rng: np.random.Generator) -> Iterator[Case]:
        for first, second in PAIRS:
            a, b = drawn(rng, *first), drawn(rng, *second)
            if ties:
                a, b = np.sign(a), np.sign(b)
            seed = drawn(rng, *np.broadcast_shapes(first, second))
            yield Case((name, seed, a, b), gradients(function, [a, b], seed), f"shapes {first} and {second}")

    return cases


def wheres(rng: np.random.Generator) -> Iterator[Case]:
    """Three operands, each broadcast."""
    for condition, first, second in (
        ((3, 4), (3, 4), (3, 4)),
        ((3, 1), (4,), (1, 4)),
        ((4,), (), (2, 1, 1)),
        ((), (2, 3), (3,)),
    ):
        chosen = rng.uniform(size=condition) < 0.5
        a, b = drawn(rng, *first), drawn(rng, *second)
        seed = drawn(rng, *np.broadcast_shapes(condition, first, second))
        expected = gradients(lambda a, b, c=chosen: wg.where(wg.tensor(c), a, b), [a, b], seed)
        yield Case(("where_backward", seed, chosen, a, b), expected, f"shapes {condition}, {first}, {second}")


def means(rng: np.random.Generator) -> Iterator[Case]:
    """Means over an axis, over the last one, and over all."""
    for shape in ((4,), (3, 4), (2, 3, 4)):
        for axis in (None, *range(-1, len(shape))):
            for keepdims in (False, True):
                x = drawn(rng, *shape)
                seed = drawn(rng, *np.mean(x, axis=axis, keepdims=keepdims).shape)
                function = lambda x, a=axis, k=keepdims: wg.mean(x, axis=a, keepdims=k)  # noqa: E731
                (expected,) = gradients(function, [x], seed)
                yield Case(
                    ("mean_backward", seed, x, axis, keepdims), expected, f"{shape}, axis {axis}, keepdims {keepdims}"
                )


EXERCISE = Exercise(
    name="broadcasting",
    title="Broadcasting and its adjoint",
    lecture="Homework 1: broadcasting in backward operations",
    lesson="Broadcasting and its adjoint",
    minutes=40,
    marks=12,
    allowed_imports=("numpy", "typing", "math"),
    files=files_in(HERE / "handout"),
    submission=tuple(GAPS),
    probes=(HERE / "probes.py").read_text(encoding="utf-8"),
    checks=(
        Check("sum_to", "call", sums, 3),
        Check("add_backward", "call", pairs("add_backward", lambda a, b: a + b), 1),
        Check("mul_backward", "call", pairs("mul_backward", lambda a, b: a * b), 1),
        Check("div_backward", "call", pairs("div_backward", lambda a, b: a / b), 2),
        Check("where_backward", "call", wheres, 2),
        Check(
            "maximum_backward, where equal operands share", "call", pairs("maximum_backward", wg.maximum, ties=True), 2
        ),
        Check("mean_backward", "call", means, 2),
    ),
    questions=(
        "What is the adjoint of padding an array with zeros? Of taking every second element?",
        "Which mistakes in `sum_to` stay unnoticed as long as the batch has one row?",
    ),
)
