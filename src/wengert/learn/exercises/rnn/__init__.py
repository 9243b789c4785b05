"""The exercise `rnn`: recurrent cells and back-propagation through time (homework 3, part 1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert.learn.exercises.exercise import Case, Cases, Check, Exercise, files_in
from wengert.learn.exercises.reference import drawn, value_and_gradients
from wengert.nn.cells import gru_step, rnn_step

HERE = Path(__file__).parent
GAPS = {
    "homework/recurrent.py": (
        *("rnn_cell", "rnn_cell_backward", "rnn", "rnn_backward", "gru_cell", "gru_cell_backward"),
    )
}


def _rnn_cell(x: Any, h: Any, W_ih: Any, W_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    return rnn_step("tanh", W_hh.T, b_hh)(h, x @ W_ih.T + b_ih)


def _gru_cell(x: Any, h: Any, W_ih: Any, W_hh: Any, b_ih: Any, b_hh: Any) -> Any:
    return gru_step(W_hh.T, b_hh)(h, x @ W_ih.T + b_ih)


def _rnn(xs: Any, h: Any, *weights: Any) -> Any:
    states = []
    for t in range(xs.shape[0]):
        h = _rnn_cell(xs[t], h, *weights)
        states.append(h)
    return wg.stack(states)


def _inputs(rng: np.random.Generator, gates: int, batch: int, width: int, hidden: int, time: int = 0) -> Any:
    x = drawn(rng, *([time] if time else []), batch, width)
    rows = gates * hidden
    weights = drawn(rng, rows, width), drawn(rng, rows, hidden), drawn(rng, rows), drawn(rng, rows)
    return x, drawn(rng, batch, hidden), *(0.5 * weight for weight in weights)


SIZES = [(1, 3, 2), (4, 2, 3), (2, 1, 1)]


def cells(name: str, function: Callable[..., Any], gates: int, is_backward: bool) -> Cases:
    """A cell, or its gradients, for several sizes; the first state may be all zeros."""

    def cases(rng: np.random.Generator) -> Iterator[Case]:
        for k, (batch, width, hidden) in enumerate(SIZES):
            inputs = _inputs(rng, gates, batch, width, hidden)
            if k == 1:
                inputs = inputs[0], np.zeros((batch, hidden)), *inputs[2:]
            seed = drawn(rng, batch, hidden)
            y, found = value_and_gradients(function, inputs, seed)
            note = f"a batch of {batch}, {width} inputs, {hidden} hidden{', from zeros' if k == 1 else ''}"
            yield Case(
                (f"{name}_backward", seed, *inputs) if is_backward else (name, *inputs),
                found if is_backward else y,
                note,
            )

    return cases


def over_time(is_backward: bool) -> Cases:
    """An RNN over several numbers of steps; some states have no gradient of their own."""

    def cases(rng: np.random.Generator) -> Iterator[Case]:
        for time in (1, 2, 5):
            inputs, seed = _inputs(rng, 1, 2, 3, 2, time), drawn(rng, time, 2, 2)
            if time == 5:
                seed[:-1] = 0.0
            y, found = value_and_gradients(_rnn, inputs, seed)
            note = f"{time} steps{', with a gradient at the last one only' if time == 5 else ''}"
            yield Case(
                ("rnn_backward", seed, *inputs) if is_backward else ("rnn", *inputs), found if is_backward else y, note
            )

    return cases


EXERCISE = Exercise(
    name="rnn",
    title="Recurrent cells, and back-propagation through time",
    lecture="Lectures 13 to 15: recurrent networks",
    lesson="The tape",
    minutes=240,
    marks=43,
    question_marks=3,
    allowed_imports=("numpy", "typing", "math"),
    files=files_in(HERE / "handout"),
    submission=tuple(GAPS),
    probes=(HERE / "probes.py").read_text(encoding="utf-8"),
    checks=(
        Check("rnn_cell", "call", cells("rnn_cell", _rnn_cell, 1, False), 4, "RNN"),
        Check("rnn_cell_backward", "call", cells("rnn_cell", _rnn_cell, 1, True), 7, "RNN"),
        Check("rnn over time", "call", over_time(False), 4, "Through time"),
        Check("rnn_backward through time", "call", over_time(True), 9, "Through time"),
        Check("gru_cell", "call", cells("gru_cell", _gru_cell, 3, False), 6, "GRU"),
        Check("gru_cell_backward", "call", cells("gru_cell", _gru_cell, 3, True), 10, "GRU"),
    ),
    questions=(
        "Which of the states must be kept for back-propagation through time? Could some be computed again?",
        "The gradient of the first state is a product of Jacobians. When does it vanish, when does it explode?",
        "Which path through the GRU lets a gradient pass unchanged?",
    ),
)
