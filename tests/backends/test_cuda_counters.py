"""Compiled calls on an emulated GPU that draw random numbers, or read what lies on the host, and are repeats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.kernels.emulator import compiler
from wengert.backends.cuda.memory import download, upload
from wengert.backends.cuda.program import build
from wengert.core.graph import Graph, now
from wengert.ops.core import placeholder, to_device
from wengert.ops.elementwise import where

pytestmark = [
    pytest.mark.counted,
    pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with"),
    pytest.mark.usefixtures("gpu"),
]


def repeats(compiled: wg.Compiled) -> bool:
    """Whether the next call may be a repeat."""
    return compiled._newest("a test").fast_path is not None


class Draws:
    """Numbers drawn on a device, two draws a call, by a generator of its own."""

    def __init__(self, device: str, compiles: bool) -> None:
        self.generator = wg.random.Generator(7)
        self.x = wg.zeros((5,), device=device)
        self.device = device
        self.call = wg.compile(self.drawn) if compiles else self.drawn

    def drawn(self, x: wg.Tensor) -> wg.Tensor:
        first = wg.random.uniform((5,), device=self.device, generator=self.generator)
        second = wg.random.uniform((5,), device=self.device, generator=self.generator)
        return x + first + 2 * second

    def __call__(self) -> list[float]:
        return self.call(self.x).tolist()


BETWEEN: dict[str, Callable[[Draws], object]] = {
    "nothing": lambda d: None,
    "another draw": lambda d: wg.random.uniform((3,), generator=d.generator).tolist(),
    "another seed": lambda d: d.generator.seed(3),
    "the state is looked at": lambda d: d.generator.counter.item(),
    "back to a state": lambda d: d.generator.set_state(wg.random.Generator(9).state()),
}


@pytest.mark.parametrize("between", BETWEEN.values(), ids=BETWEEN)
def test_draws_are_those_of_the_host_whatever_happens_between(between: Callable[[Draws], object]) -> None:
    compiled, dynamic = Draws("cuda", compiles=True), Draws("cpu", compiles=False)
    for k in range(14):
        if k in (6, 10):
            between(compiled), between(dynamic)
        np.testing.assert_allclose(compiled(), dynamic(), rtol=1e-6)
        assert compiled.generator.counter.item() == dynamic.generator.counter.item()
    assert repeats(compiled.call)


def test_a_state_that_is_held_stays_as_it_was() -> None:
    draws = Draws("cuda", compiles=True)
    for _ in range(5):
        draws()
    assert repeats(draws.call)
    state, count = draws.generator.state(), draws.generator.counter.item()
    drawn = [draws() for _ in range(3)]
    assert state["counter"].item() == count
    draws.generator.set_state(state)
    assert [draws() for _ in range(3)] == drawn


def test_a_counter_that_another_thread_replaces_is_no_place_to_count() -> None:
    draws = Draws("cuda", compiles=True)
    for _ in range(5):
        draws()
    repeat = draws.call._newest("a test").fast_path.replay
    draws.generator.seed(3)
    assert not repeat.run([draws.x.node.buffer], [make() for make in repeat.makers])


def test_functions_that_share_a_generator_draw_one_after_the_other() -> None:
    compiled, dynamic = Draws("cuda", compiles=True), Draws("cpu", compiles=False)
    another = wg.compile(lambda x: compiled.drawn(x) * 3)
    for _ in range(12):
        np.testing.assert_allclose(compiled(), dynamic(), rtol=1e-6)
        np.testing.assert_allclose(another(compiled.x).numpy() / 3, dynamic(), rtol=1e-6)
    assert repeats(compiled.call) and repeats(another)


def test_dropout_in_training_is_that_of_the_host() -> None:
    def trained(device: str) -> tuple[list[float], wg.Compiled]:
        wg.manual_seed(5)
        model = wg.nn.Sequential(wg.nn.Linear(6, 8), wg.nn.ReLU(), wg.nn.Dropout(0.5), wg.nn.Linear(8, 1)).to(device)
        optimizer = wg.optim.SGD(model.parameters(), lr=0.1)

        @wg.compile
        def step(x: wg.Tensor) -> wg.Tensor:
            optimizer.zero_grad()
            loss = (model(x) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        x = wg.tensor(np.linspace(-1, 1, 24, dtype=np.float32).reshape(4, 6), device=device)
        return [step(x).item() for _ in range(10)], step

    (found, step), (expected, _) = trained("cuda"), trained("cpu")
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert repeats(step)


@pytest.mark.parametrize("chosen", [np.True_, np.array(True), True])
def test_a_program_takes_numbers_that_are_no_arrays(chosen: Any) -> None:
    since = now()
    condition = placeholder((), wg.bool, "cpu", tracked=False)
    x, counter = placeholder((3,), wg.float32, "cuda:0"), placeholder((), wg.uint64, "cpu", tracked=False)
    outputs = [where(to_device(condition, "cuda:0"), x, x + x), counter + 2]
    program = build(Graph([condition, x, counter], outputs, since), pairs=[(2, 1)])
    array = upload(np.ones(3, np.float32), "cuda:0")
    for given, one, count in ((chosen, 1, np.uint64(5)), (np.False_, 2, np.array(5, np.uint64)), (chosen, 1, 5)):
        for _ in range(2):
            found, counted = program([given, array, count], owned=[2])
            assert download(found).tolist() == [one] * 3
            assert counted == 7
            count = np.uint64(5)
    assert program.replay([1], [0]) is None  # its counter is nowhere


@pytest.mark.parametrize("size", [(), (40,)])
def test_what_others_write_on_the_host_comes_up(size: tuple[int, ...]) -> None:
    rate = wg.ones(size)
    scaled = wg.compile(lambda x: x * rate.to("cuda").sum())
    halve = wg.compile(lambda factor: rate.assign(rate * factor))
    x, half = wg.ones((3,), device="cuda"), wg.tensor(0.5)
    for _ in range(5):
        scaled(x)
        halve(half)
    assert repeats(scaled) and repeats(halve)
    for _ in range(3):
        halve(half)
        assert scaled(x).tolist() == [rate.sum().item()] * 3


def test_memory_of_the_users_own_is_read_at_every_call() -> None:
    own = np.array([1.0, 2.0], np.float32)
    rate = wg.tensor(own, copy=False)
    scaled = wg.compile(lambda x: x * rate.to("cuda"))
    x = wg.ones((2,), device="cuda")
    for _ in range(7):
        own += 1
        assert scaled(x).tolist() == own.tolist()
    assert repeats(scaled)
