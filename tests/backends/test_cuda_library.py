"""What a library's calls read and write may move between calls, on an emulated GPU with a library that is none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.test_cuda_program import FakeLibrary
from tests.kernels.emulator import compiler
from wengert.backends.cuda import blas
from wengert.kernels import device_ops

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with"),
    pytest.mark.usefixtures("gpu"),
]

N = 8


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that carries out all matrix products."""
    monkeypatch.setattr(blas, "candidates", lambda s, device: [FakeLibrary((s.m, s.n, s.k))])
    monkeypatch.setattr(device_ops, "is_small", lambda node: False)


class Step:
    """y = x @ w, and w is halved; `expected` is w in NumPy. Whatever moves stays alive, so that addresses differ."""

    def __init__(self) -> None:
        self.expected = np.random.default_rng(0).normal(size=(N, N)).astype(np.float32)
        self.w = wg.tensor(self.expected, device="cuda")
        self.held: list[Any] = []
        self.step = wg.compile(self._step)

    def _step(self, x: wg.Tensor) -> wg.Tensor:
        y = x @ self.w
        self.w.assign(self.w * 0.5)
        return y

    def __call__(self, x: wg.Tensor) -> None:
        """A step, checked."""
        y = self.step(x)
        self.held.append(y)
        np.testing.assert_allclose(y.numpy(), x.numpy() @ self.expected, rtol=1e-5, atol=1e-5)
        self.expected = self.expected * np.float32(0.5)
        np.testing.assert_array_equal(self.w.numpy(), self.expected)

    def move(self) -> None:
        """Give w other memory."""
        self.held.append(self.w.detach())
        self.held[-1].numpy()
        self.expected = self.expected + 1
        self.w.assign(wg.tensor(self.expected, device="cuda"))

    @property
    def program(self) -> Any:
        """What is run."""
        return self.step._newest("a test").program


def data(seed: int) -> wg.Tensor:
    """Random numbers on the GPU."""
    x = wg.tensor(np.random.default_rng(seed).normal(size=(N, N)).astype(np.float32), device="cuda")
    x.numpy()
    return x


@pytest.mark.parametrize("moves", [1, 5])
def test_what_it_reads_and_is_overwritten_may_move(moves: int) -> None:
    step, x = Step(), data(1)
    for _ in range(3):
        step(x)
    for _ in range(moves):
        step.move()
        step(x)
        step(x)
    slots = step.program.slots[step.program.graph.inputs[1]]
    assert (slots in step.program.fixed) is (moves > 2)


def test_arguments_and_results_may_move_at_every_call() -> None:
    step = Step()
    for seed in range(9):
        step(data(seed))
    assert step.program.fixed
    assert step.step._newest("a test").repetition is not None
