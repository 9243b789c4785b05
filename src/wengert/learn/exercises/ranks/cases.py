"""The hidden cases of `ranks`: values of all ranks, stacked, and the right answers by NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from wengert.learn.exercises.exercise import Case, Cases

Array = Any


def _drawn(rng: np.random.Generator, *shape: int) -> Array:
    return rng.uniform(-1.0, 1.0, shape)


def _scattered(x: Array, steps: int) -> Array:
    """What the ranks have after some steps of the reduce-scatter."""
    ranks, chunks = len(x), x.copy()
    for step in range(steps):
        sent = [chunks[r, (r - step) % ranks].copy() for r in range(ranks)]
        for r in range(ranks):
            chunks[r, (r - step - 1) % ranks] += sent[r - 1]
    return chunks


def first_steps(rng: np.random.Generator) -> Iterator[Case]:
    """One step of the reduce-scatter."""
    for ranks in (2, 3):
        x = _drawn(rng, ranks, ranks, 2)
        yield Case((x, ranks, 1), _scattered(x, 1), f"what {ranks} ranks have after one step")


def reduce_scatters(rng: np.random.Generator) -> Iterator[Case]:
    """All steps of the reduce-scatter."""
    for ranks in (2, 3, 4):
        x = _drawn(rng, ranks, ranks, 3)
        yield Case((x, ranks, ranks - 1), _scattered(x, ranks - 1), f"what {ranks} ranks have after the reduce-scatter")


def all_gathers(rng: np.random.Generator) -> Iterator[Case]:
    """The all-gather, from ranks that have a chunk each."""
    for ranks in (2, 4):
        whole, chunks = _drawn(rng, ranks, 2), _drawn(rng, ranks, ranks, 2)
        for r in range(ranks):
            chunks[r, (r + 1) % ranks] = whole[(r + 1) % ranks]
        yield Case(
            (chunks, ranks, ranks - 1), np.stack([whole] * ranks), f"what {ranks} ranks have after the all-gather"
        )


def all_reduces(rng: np.random.Generator) -> Iterator[Case]:
    """Sums over several numbers of ranks."""
    for ranks in (1, 2, 3, 4, 8):
        x = _drawn(rng, ranks, 24)
        yield Case((x, ranks), np.stack([x.sum(0)] * ranks), f"the sum over {ranks} ranks")


def matrices(rng: np.random.Generator) -> Iterator[Case]:
    """The result has the shape of the value."""
    x = _drawn(rng, 4, 6, 2)
    yield Case((x, 4), np.stack([x.sum(0)] * 4), "the sum of matrices")


def message_sizes(rng: np.random.Generator) -> Iterator[Case]:
    """2 (ranks - 1) messages of one chunk each."""
    for ranks in (2, 4):
        chunk = int(rng.integers(2, 9))
        sizes = tuple([chunk] * 2 * (ranks - 1))
        yield Case(
            (_drawn(rng, ranks, ranks * chunk), ranks), sizes, f"the elements of a rank's messages, of {ranks} ranks"
        )


def orders(rng: np.random.Generator) -> Iterator[Case]:
    """The ring adds the values of a chunk in the order of the ranks that it passes: rounding tells which order it was.

    This finds sums that were not made by the ring's messages, whatever was counted on the way.
    """
    ranks = 4
    x = _drawn(rng, ranks, 64) * 10.0 ** rng.integers(0, 12, (ranks, 64))
    chunks = _scattered(x.reshape(ranks, ranks, 16), ranks - 1)
    whole = np.stack([chunks[(c - 1) % ranks, c] for c in range(ranks)]).reshape(64)

    def judge(found: Any) -> str:
        if np.shape(found) != (ranks, 64):
            return f"the result has shape {np.shape(found)}, not {(ranks, 64)}"
        same = int(np.sum(np.asarray(found) == whole))
        return (
            "" if same == ranks * 64 else f"{ranks * 64 - same} of {ranks * 64} sums were not added in the ring's order"
        )

    yield Case((x, ranks), note="values of different sizes, whose sum depends on the order", judge=judge)


def gradients(rng: np.random.Generator) -> Iterator[Case]:
    """all_reduce can be differentiated."""
    for ranks in (2, 3):
        x, w = _drawn(rng, ranks, 6), _drawn(rng, ranks, 6)
        yield Case((x, w, ranks), np.stack([w.sum(0)] * ranks), f"the gradient of {ranks} ranks' values")


def states(rng: np.random.Generator) -> Iterator[Case]:
    """Zeros, in the shape of a rank's block."""
    for ranks in (1, 2, 4):
        zeros = np.zeros((ranks, 8 // ranks, 3))
        yield Case((np.stack([_drawn(rng, 8, 3)] * ranks), ranks), (zeros, zeros), f"mean and square of {ranks} ranks")


def _adam(parameter: Array, gradients: list[Array]) -> Array:
    mean = square = np.zeros(parameter.shape)
    for k, gradient in enumerate(gradients, 1):
        mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
        parameter = parameter - 0.1 * (mean / (1 - 0.9**k)) / (np.sqrt(square / (1 - 0.999**k)) + 1e-8)
    return parameter


def trained(ranks: int, count: int) -> Cases:
    """Sharded steps: Adam with the mean of all gradients."""

    def cases(rng: np.random.Generator) -> Iterator[Case]:
        parameter = _drawn(rng, 8, 3)
        sizes = 10.0 ** rng.integers(-9, 1, (8, 3))  # small ones show whether it is the mean: Adam hides other factors
        found = [_drawn(rng, ranks, 8, 3) * (k + 1) * sizes for k in range(count)]
        expected = np.stack([_adam(parameter, [each.mean(0) for each in found])] * ranks)
        yield Case((np.stack([parameter] * ranks), found, ranks), expected, f"the parameter on {ranks} ranks")

    return cases
