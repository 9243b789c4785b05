"""The exercise `cnn`: convolution in one and two dimensions, with its backward operations (homework 2, part 1)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert.learn.exercises.exercise import Case, Check, Exercise, files_in
from wengert.learn.exercises.reference import drawn, value_and_gradients

HERE = Path(__file__).parent
GAPS = {"homework/conv.py": ("conv1d", "conv1d_backward", "conv2d", "conv2d_backward", "Conv2d.forward")}

LINES = [((2, 3, 8), (4, 3, 3), 1), ((1, 2, 9), (3, 2, 4), 2), ((2, 1, 5), (2, 1, 1), 3), ((1, 2, 6), (2, 2, 6), 1)]
"""Shapes of x and w, and strides: also a kernel of one, one of the whole length, and a rest that no kernel reaches."""
IMAGES = [
    ((2, 3, 6, 5), (4, 3, 3, 3), 1, 0),
    ((1, 2, 7, 7), (3, 2, 3, 2), 2, 1),
    ((2, 1, 5, 6), (2, 1, 1, 1), 1, 0),
    ((1, 2, 6, 6), (2, 2, 2, 3), 3, 2),
]


def _line(rng: np.random.Generator, shape: tuple[int, ...], kernel: tuple[int, ...], stride: int) -> Any:
    inputs = drawn(rng, *shape), drawn(rng, *kernel), drawn(rng, kernel[0])
    seed = drawn(rng, shape[0], kernel[0], 1 + (shape[2] - kernel[2]) // stride)
    y, found = value_and_gradients(lambda x, w, b: wg.conv1d(x, w, b, stride=stride), inputs, seed)
    return inputs, seed, y, found


def _image(rng: np.random.Generator, shape: Any, kernel: Any, stride: int, padding: int) -> Any:
    inputs = drawn(rng, *shape), drawn(rng, *kernel), drawn(rng, kernel[0])
    sizes = [1 + (shape[k] + 2 * padding - kernel[k]) // stride for k in (2, 3)]
    seed = drawn(rng, shape[0], kernel[0], *sizes)
    y, found = value_and_gradients(lambda x, w, b: wg.conv2d(x, w, b, stride=stride, padding=padding), inputs, seed)
    return inputs, seed, y, found


def lines(rng: np.random.Generator) -> Iterator[Case]:
    """Outputs of conv1d."""
    for shape, kernel, stride in LINES:
        inputs, _, y, _ = _line(rng, shape, kernel, stride)
        yield Case(("conv1d", *inputs, stride), y, f"x {shape}, w {kernel}, stride {stride}")


def line_rules(rng: np.random.Generator) -> Iterator[Case]:
    """Gradients of conv1d."""
    for shape, kernel, stride in LINES:
        inputs, seed, _, found = _line(rng, shape, kernel, stride)
        yield Case(("conv1d_backward", seed, *inputs, stride), found, f"x {shape}, w {kernel}, stride {stride}")


def images(rng: np.random.Generator) -> Iterator[Case]:
    """Outputs of conv2d."""
    for shape, kernel, stride, padding in IMAGES:
        inputs, _, y, _ = _image(rng, shape, kernel, stride, padding)
        note = f"x {shape}, w {kernel}, stride {stride}, padding {padding}"
        yield Case(("conv2d", *inputs, stride, padding), y, note)


def image_rules(rng: np.random.Generator) -> Iterator[Case]:
    """Gradients of conv2d."""
    for shape, kernel, stride, padding in IMAGES:
        inputs, seed, _, found = _image(rng, shape, kernel, stride, padding)
        note = f"x {shape}, w {kernel}, stride {stride}, padding {padding}"
        yield Case(("conv2d_backward", seed, *inputs, stride, padding), found, note)


def layers(rng: np.random.Generator) -> Iterator[Case]:
    """The layer on the tape: one operation, whose rule and collected gradients are those of x, W and b."""
    for shape, kernel, stride, padding in IMAGES[:2]:
        (x, W, b), seed, y, found = _image(rng, shape, kernel, stride, padding)
        note = "the output, the output on the tape, what its rule gives, where dW and db are, how many operations"
        yield Case((W, b, x, seed, stride, padding), (y, y, found, (1, 2), 1), note)


EXERCISE = Exercise(
    name="cnn",
    title="Convolutions, forward and backward",
    lecture="Lectures 9 to 12: convolutional networks",
    lesson="Jacobians, and products with them",
    minutes=240,
    marks=43,
    question_marks=3,
    allowed_imports=("numpy", "typing", "math", "itertools"),
    files=files_in(HERE / "handout"),
    submission=tuple(GAPS),
    probes=(HERE / "probes.py").read_text(encoding="utf-8"),
    checks=(
        Check("conv1d", "call", lines, 6, "Conv1d"),
        Check("conv1d_backward", "call", line_rules, 10, "Conv1d"),
        Check("conv2d", "call", images, 6, "Conv2d"),
        Check("conv2d_backward", "call", image_rules, 12, "Conv2d"),
        Check("Conv2d on the tape", "layer", layers, 6, "Layer"),
    ),
    questions=(
        "The gradient with respect to x is a convolution too. Of what with what, and with which padding?",
        "With stride 2 some inputs may reach no output. What is their gradient, and why?",
        "How many multiplications does conv2d take? How many does its backward operation take?",
    ),
)
