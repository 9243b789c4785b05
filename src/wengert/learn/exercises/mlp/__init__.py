"""The exercise `mlp`: a multi-layer perceptron by hand (homework 1, part 1)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert.learn.exercises.exercise import Case, Check, Exercise, files_in
from wengert.learn.exercises.reference import drawn, positive, value, value_and_gradients

HERE = Path(__file__).parent
GAPS = {
    "homework/mlp.py": (
        *("linear", "linear_backward", "batch_norm", "batch_norm_backward", "sgd_step"),
        *("MLP.forward", "MLP.backward"),
    )
}


def _linear(x: Any, W: Any, b: Any) -> Any:
    return x @ W.T + b


def _batch_norm(x: Any, gamma: Any, beta: Any) -> Any:
    centred = x - x.mean(axis=0)
    return gamma * centred / wg.sqrt((centred * centred).mean(axis=0) + 1e-5) + beta


def linears(rng: np.random.Generator) -> Iterator[Case]:
    """Outputs for batches of several sizes."""
    for batch in (1, 4):
        inputs = drawn(rng, batch, 3), drawn(rng, 2, 3), drawn(rng, 2)
        yield Case(("linear", *inputs), value(_linear, inputs), f"a batch of {batch}")


def linear_rules(rng: np.random.Generator) -> Iterator[Case]:
    """Gradients of x, W and b."""
    for batch in (1, 4):
        inputs, seed = (drawn(rng, batch, 3), drawn(rng, 2, 3), drawn(rng, 2)), drawn(rng, batch, 2)
        expected = value_and_gradients(_linear, inputs, seed)[1]
        yield Case(("linear_backward", seed, *inputs), expected, f"a batch of {batch}")


def norms(rng: np.random.Generator) -> Iterator[Case]:
    """Batch normalization, also of columns whose numbers are all equal."""
    for x, note in ((drawn(rng, 5, 3), "a batch of 5"), (np.ones((4, 2)) * drawn(rng, 2), "equal rows")):
        inputs = x, positive(rng, x.shape[1]), drawn(rng, x.shape[1])
        yield Case(("batch_norm", *inputs), value(_batch_norm, inputs), note)


def norm_rules(rng: np.random.Generator) -> Iterator[Case]:
    """Gradients of x, gamma and beta: mean and variance depend on x."""
    for batch in (2, 6):
        inputs, seed = (drawn(rng, batch, 3), positive(rng, 3), drawn(rng, 3)), drawn(rng, batch, 3)
        expected = value_and_gradients(_batch_norm, inputs, seed)[1]
        yield Case(("batch_norm_backward", seed, *inputs), expected, f"a batch of {batch}")


def descents(rng: np.random.Generator) -> Iterator[Case]:
    """Several steps, with and without momentum."""
    for momentum in (0.0, 0.9):
        parameter, gradients = drawn(rng, 2, 3), [drawn(rng, 2, 3) for _ in range(3)]
        expected, velocity = parameter, np.zeros((2, 3))
        for gradient in gradients:
            velocity = momentum * velocity - 0.1 * gradient
            expected = expected + velocity
        inputs = (parameter, gradients, 0.1, momentum)
        yield Case(inputs, (expected, velocity), f"three steps, momentum {momentum}")


def networks(rng: np.random.Generator) -> Iterator[Case]:
    """One, two and three layers, some of whose activations are exactly 0."""
    for sizes in ((3, 2), (3, 5, 2), (4, 6, 5, 3)):
        weights = [drawn(rng, b, a) for a, b in pairwise(sizes)]
        biases = [drawn(rng, b) for b in sizes[1:]]
        weights[0][0], biases[0][0] = 0.0, 0.0  # the first unit is at the corner of ReLU
        x, seed = drawn(rng, 4, sizes[0]), drawn(rng, 4, sizes[-1])
        count = len(weights)

        def forward(x: Any, *parameters: Any, count: int = count) -> Any:
            for k in range(count):
                x = _linear(x, parameters[k], parameters[count + k])
                x = wg.relu(x) if k < count - 1 else x
            return x

        y, found = value_and_gradients(forward, [x, *weights, *biases], seed)
        expected = y, found[0], found[1 : 1 + count], found[1 + count :]
        yield Case((weights, biases, x, seed), expected, f"sizes {sizes}: output, and gradients of x, W, b")


EXERCISE = Exercise(
    name="mlp",
    title="A multi-layer perceptron by hand",
    lecture="Lectures 3 to 6: back-propagation and optimization",
    lesson="The chain rule and sums over paths",
    minutes=180,
    marks=33,
    question_marks=3,
    allowed_imports=("numpy", "typing", "math"),
    files=files_in(HERE / "handout"),
    submission=tuple(GAPS),
    probes=(HERE / "probes.py").read_text(encoding="utf-8"),
    checks=(
        Check("linear", "call", linears, 3, "Linear"),
        Check("linear_backward", "call", linear_rules, 5, "Linear"),
        Check("batch_norm", "call", norms, 4, "Batch norm"),
        Check("batch_norm_backward", "call", norm_rules, 7, "Batch norm"),
        Check("sgd_step, with and without momentum", "descent", descents, 3, "SGD"),
        Check("MLP: output and all gradients", "network", networks, 8, "MLP"),
    ),
    questions=(
        "Which arrays does `backward` need from `forward`? What does that cost for a deep network?",
        "Why is the sum of batch_norm's gradient with respect to x zero in each column?",
        "A network of two layers starts with all weights equal. What happens in training?",
    ),
)
