"""The exercise `checkpoints`: a backward pass that keeps a few values and computes the others again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert.learn.exercises.exercise import Case, Cases, Check, Exercise, files_in
from wengert.learn.exercises.reference import drawn, gradients

HERE = Path(__file__).parent
GAPS = {"homework/checkpoints.py": ("gradient", "checkpointed_gradient", "peak", "best_every")}


def _case(rng: np.random.Generator, layers: int, every: int, is_counted: bool) -> Case:
    scales, x, g = rng.uniform(0.5, 1.2, layers), drawn(rng, 3), drawn(rng, 3)

    def network(x: Any) -> Any:
        for scale in scales:
            x = wg.tanh(float(scale) * x)
        return x

    (expected,) = gradients(network, [x], g)
    answer: dict[str, Any] = {"the gradient": expected}
    calls, most = (2 * layers, every + -(-layers // every)) if every else (layers, layers + 1)
    if is_counted:
        answer |= {"calls of forward that are too many": 0, "arrays alive at once that are too many": 0}
    note = f"{layers} layers, " + (f"checkpoints every {every}" if every else "without checkpoints")
    limits = f"; at most {calls} calls of forward and {most} arrays" if is_counted else ""
    return Case((scales, x, g, every, (calls, most) if is_counted else None), answer, note + limits)


def plain(rng: np.random.Generator) -> Iterator[Case]:
    """Without checkpoints."""
    for layers in (1, 2, 7):
        yield _case(rng, layers, 0, is_counted=True)


def checkpointed(is_counted: bool) -> Cases:
    """With checkpoints, also where segments have different lengths, or there is one."""

    def cases(rng: np.random.Generator) -> Iterator[Case]:
        for layers, every in ((16, 4), (16, 1), (16, 16), (10, 3), (7, 5), (5, 9), (1, 1), (30, 5)):
            yield _case(rng, layers, every, is_counted)

    return cases


def _simulated(sizes: list[int], every: int) -> int:
    """The most bytes alive, by going through the backward pass: what is alive while each segment is worked on."""
    most = 0
    for start in range(0, len(sizes), every):
        alive = {k for k in range(0, start + 1, every)} | set(range(start, min(start + every, len(sizes))))
        most = max(most, sum(sizes[k] for k in alive))
    return most


def peaks(rng: np.random.Generator) -> Iterator[Case]:
    """Peaks of layers of equal and of different sizes."""
    for sizes in _sizes(rng):
        for every in (1, 2, 3, len(sizes)):
            yield Case(("peak", sizes, every), _simulated(sizes, every), f"sizes {sizes}, every {every}")


def best(rng: np.random.Generator) -> Iterator[Case]:
    """The best distance."""
    for sizes in (*_sizes(rng), [1] * 36, [1] * 100):
        peaks = [_simulated(sizes, every) for every in range(1, len(sizes) + 1)]
        yield Case(("best_every", sizes), 1 + int(np.argmin(peaks)), f"{len(sizes)} layers, sizes {sizes[:8]} ...")


def _sizes(rng: np.random.Generator) -> list[list[int]]:
    falling = sorted(rng.integers(1, 50, 14).tolist(), reverse=True)
    return [[1] * 9, [4] * 16, rng.integers(1, 20, 11).tolist(), falling, [5]]


EXERCISE = Exercise(
    name="checkpoints",
    title="Checkpointing",
    lecture="Recitation 3: activation checkpointing",
    lesson="Memory: checkpointing and mixed precision",
    minutes=45,
    marks=12,
    allowed_imports=("numpy", "typing", "math"),
    files=files_in(HERE / "handout"),
    submission=tuple(GAPS),
    probes=(HERE / "probes.py").read_text(encoding="utf-8"),
    checks=(
        Check("gradient: each forward once", "gradient", plain, 2),
        Check("checkpointed_gradient: the right gradient", "gradient", checkpointed(False), 3),
        Check("checkpointed_gradient: few arrays alive, each forward at most twice", "gradient", checkpointed(True), 4),
        Check("peak", "call", peaks, 2),
        Check("best_every", "call", best, 1),
    ),
    questions=(
        "How much more time does checkpointing take, if a backward pass costs as much as two forward passes?",
        "Checkpoint the segments themselves, and so on. How do the peak and the time grow with the layers then?",
    ),
)
