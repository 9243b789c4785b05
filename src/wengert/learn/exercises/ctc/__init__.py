"""The exercise `ctc`: the loss for labels without alignment, and its gradient (homework 3, part 1)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert.learn.exercises.exercise import Case, Cases, Check, Exercise, files_in
from wengert.learn.exercises.reference import value_and_gradients

HERE = Path(__file__).parent
GAPS = {
    "homework/ctc.py": (
        *("extended", "forward_scores", "backward_scores", "ctc_loss", "ctc_loss_backward", "greedy_decode"),
    )
}


def _log_probs(rng: np.random.Generator, frames: int, classes: int) -> Any:
    x = rng.normal(size=(frames, classes))
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def _drawn(rng: np.random.Generator) -> Iterator[tuple[Any, list[int], int, str]]:
    """Log-probabilities, labels, the blank, and what is special about them."""
    a, b, c = (int(k) for k in rng.permutation([1, 2, 3]))
    yield _log_probs(rng, 6, 4), [a, b], 0, "two labels"
    yield _log_probs(rng, 6, 4), [a, a, b], 0, "a label twice: a blank must lie between"
    yield _log_probs(rng, 5, 4), [a, b, a, c, b], 0, "as many frames as labels"
    yield _log_probs(rng, 3, 4), [c], 0, "one label"
    yield _log_probs(rng, 5, 4), [0, a if a != 3 else b], 3, "the blank is class 3"


def extensions(rng: np.random.Generator) -> Iterator[Case]:
    """Labels with blanks."""
    for _, labels, blank, note in _drawn(rng):
        found = [blank] + [symbol for label in labels for symbol in (label, blank)]
        yield Case(("extended", labels, blank), tuple(found), note)


def _alpha(log_probs: Any, labels: list[int], blank: int) -> Any:
    """forward_scores, from probabilities: the cases are short, so that nothing underflows."""
    symbols = [blank] + [symbol for label in labels for symbol in (label, blank)]
    probs, count = np.exp(log_probs), len(symbols)
    moves = np.eye(count) + np.eye(count, k=1)
    for s in range(2, count):
        moves[s - 2, s] = float(symbols[s] != blank and symbols[s] != symbols[s - 2])
    alpha = [np.where(np.arange(count) < 2, probs[0, symbols], 0.0)]
    for row in probs[1:]:
        alpha.append((alpha[-1] @ moves) * row[symbols])
    return np.stack(alpha)


def _beta(log_probs: Any, labels: list[int], blank: int) -> Any:
    """backward_scores: those of the reversed problem, without a frame's own probability."""
    symbols = [blank] + [symbol for label in labels for symbol in (label, blank)]
    own = np.exp(log_probs)[:, symbols]
    return _alpha(log_probs[::-1], labels[::-1], blank)[::-1, ::-1] / own


def scores(name: str) -> Cases:
    """Tables of log-probabilities."""

    def cases(rng: np.random.Generator) -> Iterator[Case]:
        for log_probs, labels, blank, note in _drawn(rng):
            with np.errstate(divide="ignore"):
                expected = np.log((_alpha if name == "forward_scores" else _beta)(log_probs, labels, blank))
            yield Case((name, log_probs, labels, blank), expected, note)

    return cases


def _loss(labels: list[int], blank: int, frames: int) -> Any:
    targets = wg.tensor([labels])
    return lambda x: wg.ctc_loss(x.reshape(frames, 1, -1), targets, (frames,), (len(labels),), blank, "sum")


def losses(rng: np.random.Generator) -> Iterator[Case]:
    """The loss, also where probabilities themselves would underflow."""
    for log_probs, labels, blank, note in _drawn(rng):
        expected, _ = value_and_gradients(_loss(labels, blank, len(log_probs)), [log_probs], 1.0)
        yield Case(("ctc_loss", log_probs, labels, blank), expected, note)
    long = _log_probs(rng, 400, 4) - 2.0
    expected, _ = value_and_gradients(_loss([1, 2, 3], 0, 400), [long], 1.0)
    yield Case(("ctc_loss", long, [1, 2, 3], 0), expected, "400 frames: products of probabilities underflow")


def gradients(rng: np.random.Generator) -> Iterator[Case]:
    """The gradient with respect to the log-probabilities."""
    for log_probs, labels, blank, note in _drawn(rng):
        seed = float(rng.uniform(0.5, 2.0))
        _, (expected,) = value_and_gradients(_loss(labels, blank, len(log_probs)), [log_probs], seed)
        yield Case(("ctc_loss_backward", seed, log_probs, labels, blank), expected, note)


def decodings(rng: np.random.Generator) -> Iterator[Case]:
    """The best class of each frame, without repetitions and blanks."""
    for note, path in (
        ("repeated classes", [1, 1, 0, 1, 2, 2, 0]),
        ("no blank at all", [int(k) for k in rng.integers(1, 4, 6)]),
        ("blanks only", [0, 0, 0]),
        ("any classes", [int(k) for k in rng.integers(0, 4, 9)]),
    ):
        table = rng.uniform(-3, -2, (len(path), 4))
        table[np.arange(len(path)), path] = -0.5
        kept = [k for t, k in enumerate(path) if k != 0 and (t == 0 or path[t - 1] != k)]
        yield Case(("greedy_decode", table, 0), tuple(kept), note)


EXERCISE = Exercise(
    name="ctc",
    title="Labels without an alignment: CTC",
    lecture="Lectures 16 and 17: connectionist temporal classification",
    lesson="The chain rule and sums over paths",
    minutes=180,
    marks=33,
    question_marks=3,
    allowed_imports=("numpy", "typing", "math"),
    files=files_in(HERE / "handout"),
    submission=tuple(GAPS),
    probes=(HERE / "probes.py").read_text(encoding="utf-8"),
    checks=(
        Check("extended", "call", extensions, 2, "Forward"),
        Check("forward_scores", "call", scores("forward_scores"), 7, "Forward"),
        Check("backward_scores", "call", scores("backward_scores"), 7, "Backward"),
        Check("ctc_loss", "call", losses, 4, "Loss"),
        Check("ctc_loss_backward", "call", gradients, 7, "Loss"),
        Check("greedy_decode", "call", decodings, 3, "Decoding"),
    ),
    questions=(
        "How many alignments of two labels with six frames are there? How many additions does `forward_scores` take?",
        "Why must a blank lie between two equal labels?",
        "What do the entries of a row of the gradient add up to, and why?",
    ),
)
