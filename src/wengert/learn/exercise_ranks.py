"""The checks of the exercise `ranks`: run this file, or pytest on it.

All ranks run in one process, by `wengert.distributed.simulate`: values are stacked along a first axis, a row a rank.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg
from wengert.distributed import simulate

from .ranks import ring, sharded
from .running import run_checks


def drawn(*shape: int) -> Any:
    """Numbers between -1 and 1, the same ones every time."""
    return np.random.default_rng(sum(shape)).uniform(-1.0, 1.0, shape)


def on_all(function: Callable[..., Any], ranks: int, *values: Any) -> Any:
    """What a function gives on every rank, from values of every rank."""
    return simulate(function, ranks)(*[wg.tensor(value) for value in values])


def close(found: Any, expected: Any, what: str) -> None:
    """Complain unless two arrays agree."""
    found = found.numpy()
    assert np.shape(found) == np.shape(expected), f"{what} has shape {np.shape(found)}, not {np.shape(expected)}"
    assert np.allclose(found, expected, rtol=1e-9, atol=1e-12), f"{what} is\n{found}\nand should be\n{expected}"


# --- ring.py --------------------------------------------------------------------------------------------------------


def test_first_step() -> None:
    """the first step of the reduce-scatter: rank r has chunk r - 1 of two ranks"""
    x = drawn(3, 3, 2)
    found = on_all(lambda chunks: ring.reduce_scatter_step(chunks, 0, 3), 3, x)
    expected = x.copy()
    for r in range(3):
        expected[r, r - 1] += x[r - 1, r - 1]
    close(found, expected, "what the ranks have")


def test_reduce_scatter() -> None:
    """after the reduce-scatter rank r has the sum of chunk r + 1"""
    for ranks in (2, 3, 4):
        x = chunks = drawn(ranks, ranks, 3)
        for step in range(ranks - 1):
            chunks = on_all(lambda c, s=step, n=ranks: ring.reduce_scatter_step(c, s, n), ranks, chunks).numpy()
        own = np.stack([chunks[r, (r + 1) % ranks] for r in range(ranks)])
        close(wg.tensor(own), np.stack([x[:, (r + 1) % ranks].sum(0) for r in range(ranks)]), "the sums")


def test_all_gather() -> None:
    """the all-gather brings every chunk to all ranks"""
    ranks = 4
    whole = drawn(ranks, 2)
    chunks = np.full((ranks, ranks, 2), np.nan)
    for r in range(ranks):
        chunks[r, (r + 1) % ranks] = whole[(r + 1) % ranks]
    for step in range(ranks - 1):
        chunks = on_all(lambda c, s=step: ring.all_gather_step(c, s, ranks), ranks, chunks).numpy()
    close(wg.tensor(chunks), np.stack([whole] * ranks), "what the ranks have")


def test_all_reduce() -> None:
    """all_reduce sums over 1, 2, 3, 4 and 8 ranks"""
    for ranks in (1, 2, 3, 4, 8):
        x = drawn(ranks, 24)
        found = on_all(lambda x, n=ranks: ring.all_reduce(x, n), ranks, x)
        close(found, np.stack([x.sum(0)] * ranks), f"the sum over {ranks} ranks")


def test_shapes() -> None:
    """all_reduce of a matrix is a matrix"""
    x = drawn(4, 6, 2)
    close(on_all(lambda x: ring.all_reduce(x, 4), 4, x), np.stack([x.sum(0)] * 4), "the sum")


def test_messages() -> None:
    """a rank sends 2 (ranks - 1) messages, each of one chunk"""
    sent: list[int] = []
    kept = ring.send_to_next

    def counting(x: Any) -> Any:
        sent.append(x.size)
        return kept(x)

    ring.send_to_next = counting
    try:
        on_all(lambda x: ring.all_reduce(x, 4), 4, drawn(4, 40))
    finally:
        ring.send_to_next = kept
    assert sent == [10] * 6, f"on 4 ranks, of 40 elements, messages of {sent} elements; 6 of 10 suffice"


def test_gradient() -> None:
    """your all_reduce can be differentiated: messages go back the other way"""
    x, w = drawn(3, 6), drawn(3, 6)

    def loss(x: Any) -> Any:
        return (simulate(lambda x, w: w * ring.all_reduce(x, 3), 3)(x, wg.tensor(w))).sum()

    close(wg.grad(loss)(wg.tensor(x)), np.stack([w.sum(0)] * 3), "the gradient of the ranks' values")


# --- sharded.py -----------------------------------------------------------------------------------------------------


def test_state() -> None:
    """a rank's state is that of its block: a part as large as there are ranks"""
    for ranks in (1, 2, 4):
        state = on_all(lambda p: sharded.new_state(p), ranks, np.stack([drawn(8, 3)] * ranks))
        for name, value in (("mean", state.mean), ("square", state.square)):
            close(value, np.zeros((ranks, 8 // ranks, 3)), f"state.{name} of {ranks} ranks")


def trained(ranks: int, steps: int) -> tuple[Any, Any]:
    """The parameter of all ranks after some sharded steps, and what Adam gives with the mean of all gradients."""
    parameter = drawn(8, 3)
    gradients = [drawn(ranks, 8, 3) * (k + 1) for k in range(steps)]
    whole, state = wg.tensor(parameter), sharded.AdamState(wg.zeros((8, 3)), wg.zeros((8, 3)), wg.tensor(0.0))
    for gradient in gradients:
        whole, state = sharded.adam(whole, wg.tensor(gradient.mean(0)), state)

    def run(parameter: Any, *gradients: Any) -> Any:
        state = sharded.new_state(parameter)
        for gradient in gradients:
            parameter, state = sharded.sharded_step(parameter, gradient, state, ranks)
        return parameter

    return on_all(run, ranks, np.stack([parameter] * ranks), *gradients), whole.numpy()


def test_one_step() -> None:
    """one sharded step is one step of Adam with the mean of all gradients"""
    found, expected = trained(ranks=2, steps=1)
    close(found, np.stack([expected] * 2), "the parameter on the two ranks")


def test_several_steps() -> None:
    """so are five, on 4 ranks: the state goes on"""
    found, expected = trained(ranks=4, steps=5)
    close(found, np.stack([expected] * 4), "the parameter on the four ranks")


if __name__ == "__main__":
    sys.exit(run_checks(globals()))
