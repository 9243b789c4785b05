"""Ownership: counts are trusted where they mean something; elsewhere what would be overwritten is copied."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any
from weakref import ref

import numpy as np
import pytest

import wengert as wg
from tests.descent import HOLDS, Descent
from wengert.backends.cpu.toolchain import compiler
from wengert.core import ownership as module
from wengert.core.ownership import UNKNOWN, VARIABLE, Ownership, ownership

needs_compiler = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


class Thing:
    """Something to refer to."""


@pytest.mark.counted
def test_counts_mean_something_here() -> None:
    if sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)():
        assert Ownership().reason is None
    thing = Thing()
    holders: list[Any] = [Thing(), Thing()]
    assert ownership.others([thing, *holders]) == [1, 1, 1]
    assert ownership.others(holders) == [0, 0] and ownership.total(holders) == 0
    more = [*holders, holders[1]]
    assert ownership.others(holders) == [1, 2] and ownership.total(holders) == 3
    more.clear()
    assert ownership.unused(holders) == 0
    first = holders[0]
    assert ownership.unused(holders) == 1
    second = holders[1]
    assert ownership.unused(holders) is None
    del first, second


@pytest.mark.counted
def test_a_counter_that_is_always_one_too_high_is_understood() -> None:
    """What a count is of an object that only a list refers to is learned, and not written anywhere."""
    shifted = Ownership(lambda thing: sys.getrefcount(thing) + 1)
    assert shifted.reason is None
    things = [Thing()]
    assert shifted.others(things) == [0]
    again = [*things]
    assert shifted.others(things) == [1] and again == things


LIARS: dict[str, Callable[[], Callable[[Any], int] | None]] = {
    "none": lambda: None,
    "always the same": lambda: lambda thing: 2,
    "at random": lambda: lambda thing: random.randrange(2, 6),
    "one too few where there are many": lambda: lambda thing: sys.getrefcount(thing) - (sys.getrefcount(thing) > 5),
    "every second one too high": lambda: _every_second,
    "no more than two": lambda: lambda thing: min(sys.getrefcount(thing), 3),
    "not those of arrays": lambda: lambda thing: 2 if type(thing) is np.ndarray else sys.getrefcount(thing),
    "twice as many": lambda: lambda thing: 2 * sys.getrefcount(thing),
}
_calls = iter(range(10**9))


def _every_second(thing: Any) -> int:
    return sys.getrefcount(thing) + next(_calls) % 2


@pytest.mark.parametrize("liar", LIARS.values(), ids=LIARS)
def test_a_counter_that_lies_is_not_believed(liar: Callable[[], Callable[[Any], int] | None]) -> None:
    found = Ownership(liar())
    assert found.copies and found.reason
    things = [Thing(), Thing()]
    assert found.others(things) == [UNKNOWN, UNKNOWN] and found.total(things) == 2 * UNKNOWN
    assert found.unused(things) is None and found.total([]) == 0


def test_an_interpreter_without_its_lock_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert "lock" in str(Ownership().reason)


def test_the_environment_forces_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "copy")
    assert module.of_this_process().copies
    monkeypatch.setenv(VARIABLE, "sometimes")
    with pytest.raises(ValueError, match="may be 'copy'"):
        module.of_this_process()


@pytest.fixture
def copying(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody can tell who refers to what."""
    monkeypatch.setattr(ownership, "reason", "a test says so")
    yield


def trained(steps: int) -> list[bytes]:
    """The bits of a small network's parameters and its losses, trained by a compiled step with momentum."""
    rng = np.random.default_rng(0)
    weights = [wg.tensor(rng.normal(size=shape), requires_grad=True) for shape in ((8, 16), (16, 3))]
    momenta = [wg.tensor(np.zeros(w.shape)) for w in weights]

    @wg.compile
    def step(x: wg.Tensor) -> wg.Tensor:
        loss = ((wg.tanh(x @ weights[0]) @ weights[1]) ** 2).sum()
        loss.backward()
        with wg.no_grad():
            for w, m in zip(weights, momenta):
                m.assign(m * 0.9 + w.grad)
                w.assign(w - 0.001 * m)
                w.grad = None
        return loss

    losses = [step(wg.tensor(rng.normal(size=(4, 8)))).numpy().tobytes() for _ in range(steps)]
    return [*losses, *(w.detach().numpy().tobytes() for w in (*weights, *momenta))]


@needs_compiler
def test_training_gives_the_same_bits_with_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    before = trained(12)
    assert before == trained(12)
    monkeypatch.setattr(ownership, "reason", "a test says so")
    assert trained(12) == before


@needs_compiler
@pytest.mark.usefixtures("copying")
def test_with_copies_no_parameter_is_overwritten() -> None:
    descent = Descent("cpu")
    descent()
    for _ in range(10):
        before = ref(descent.w.node.buffer)
        descent()
        assert before() is not descent.w.node.buffer and not descent.repeats


@needs_compiler
@pytest.mark.usefixtures("copying")
@pytest.mark.parametrize("hold", HOLDS.values(), ids=HOLDS)
def test_with_copies_what_somebody_holds_stays(hold: Callable[[Descent], wg.Tensor]) -> None:
    descent = Descent("cpu")
    for _ in range(4):
        descent()
    held = hold(descent)
    before = held.detach().numpy().copy()
    for _ in range(4):
        descent()
    assert (held.detach().numpy() == before).all()


@needs_compiler
@pytest.mark.usefixtures("copying")
def test_with_copies_what_overwrites_nothing_takes_the_fast_path() -> None:
    weight = wg.tensor([1.0, 2.0])
    scaled = wg.compile(lambda x: x * weight)
    for _ in range(5):
        assert scaled(wg.tensor([3.0, 4.0])).tolist() == [3.0, 8.0]
    assert scaled._newest("a test").fast_path is not None
    weight.assign(wg.tensor([0.0, 1.0]))
    assert scaled(wg.tensor([3.0, 4.0])).tolist() == [0.0, 4.0]


@pytest.mark.usefixtures("copying")
def test_with_copies_the_interpreter_writes_over_nothing() -> None:
    x = wg.tensor(np.ones(1 << 15))
    y = wg.exp(wg.exp(x) * 2.0) + 1.0
    assert y.numpy()[0] == np.exp(np.exp(1.0) * 2.0) + 1.0 and x.numpy()[0] == 1.0


PROGRAM = """
from weakref import ref
import numpy as np, wengert as wg
from wengert.core.ownership import ownership
assert ownership.copies, ownership.reason
w = wg.tensor(np.ones(8), requires_grad=True)
@wg.compile
def step(x):
    loss = ((w - x) ** 2).sum()
    loss.backward()
    with wg.no_grad():
        w.assign(w - 0.25 * w.grad)
    w.grad = None
    return loss
for _ in range(6):
    w.tolist()
    before = ref(w.node.buffer)
    loss = step(wg.tensor(np.zeros(8)))
    assert before() is not w.node.buffer
print(w.detach().numpy()[0], loss.item())
"""


def test_a_process_that_is_asked_to_copy_does() -> None:
    environment = {**os.environ, VARIABLE: "copy"}
    found = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == [str(0.5**6), str(8 * 0.25**5)]
