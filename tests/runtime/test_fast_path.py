"""Compiled calls on the CPU that find everything where the last one left it: what they skip must not show."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.descent import HOLDS, Descent
from wengert.backends.cpu.blas import blas, single_threaded
from wengert.backends.cpu.replay import HEAD, ITEMS, CpuReplay
from wengert.backends.cpu.toolchain import compiler
from wengert.core.ownership import ownership
from wengert.runtime.static.fast_path import FastPath

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


def repeats(compiled: Any) -> bool:
    """Whether the next call may be a repeat."""
    return compiled._newest("a test").fast_path is not None


@pytest.fixture
def descent() -> Descent:
    """One that repeats."""
    found = Descent("cpu")
    for _ in range(5):
        found()
    assert found.repeats or ownership.copies
    return found


@pytest.fixture
def repeated(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether the programs that were repeated could do it, in order."""
    found: list[bool] = []
    run = CpuReplay.run

    def noted(repeat: CpuReplay, arrays: Any, made: Any) -> bool:
        found.append(run(repeat, arrays, made))
        return found[-1]

    monkeypatch.setattr(CpuReplay, "run", noted)
    return found


def test_calls_are_repeats_but_for_those_that_repeat_the_recording(repeated: list[bool]) -> None:
    scaled = wg.compile(lambda a, b: a * b + a)
    a, b = wg.tensor([1.0, 2.0]), wg.tensor([3.0, 4.0])
    for _ in range(10):
        assert scaled(a, b).tolist() == [4.0, 10.0]
    assert repeated == [True] * 6  # all but calls 1, 2, 4 and 8


def test_the_addresses_in_a_table_are_those_that_numpy_tells() -> None:
    doubled = wg.compile(lambda x: x * 2)
    doubled(wg.ones(1))
    place = doubled._newest("a test").program.library.wg_place
    whole = np.arange(24.0).reshape(4, 6)
    arrays = (whole, whole[1:], whole.T, np.zeros(()), np.zeros((0, 3)), whole.view(np.int64))
    table = np.zeros(2 * len(arrays), np.uintp)
    place(table.ctypes.data, None, id(arrays) + ITEMS, len(arrays), HEAD)
    last_first = np.arange(len(table))[::-1].copy()
    place(table.ctypes.data, last_first.ctypes.data, id(arrays) + ITEMS, len(arrays), HEAD)
    addresses = [array.ctypes.data for array in arrays]
    assert table.tolist() == [*addresses, *reversed(addresses)]


def difference(*args: Any, **named: Any) -> Any:
    """First leaf minus the last, by 2: whatever they are in."""
    leaves = wg.tree.flatten((args, named))[0]
    return (leaves[0] - leaves[-1]) * 2.0


X, Y = wg.tensor([1.0, 2.0]), wg.tensor([4.0, 8.0])
CALLS: dict[str, tuple[tuple[Any, ...], tuple[Any, ...]]] = {
    "a list": (([X, Y],), ([Y, X],)),
    "a list in a tuple in a dictionary": (({"a": (X, [X]), "b": None, "c": Y},), ({"a": (Y, [X]), "b": None, "c": X},)),
    "a dictionary with other keys": (({"a": X, "b": Y},), ({"a": Y, "c": X},)),
    "a list that was a tuple": (((X, Y),), ([Y, X],)),
    "a list where a tensor was": ((X, Y), ([Y, X], X)),
    "a longer list": (([X, Y],), ([Y, Y, X],)),
    "arrays": ((np.array([1.0, 2.0]), np.array([4.0, 8.0])), (np.array([4.0, 8.0]), np.array([1.0, 2.0]))),
    "arrays of another shape": ((np.array([1.0]), np.array([4.0])), (np.array([4.0, 8.0]), np.array([1.0, 2.0]))),
    "arrays of another dtype": ((np.array([1.0]), np.array([4.0])), (np.array([4], "f4"), np.array([1], "f4"))),
    "floats": ((X, 4.0), (X, 8.0)),
    "a float where a tensor was": ((X, Y), (X, 8.0)),
    "an integer where a float was": ((X, 8.0), (X, 8)),
    "the same tensor twice": ((X, Y), (X, X)),
    "a tensor where an array was": ((X, np.array([4.0, 8.0], np.float32)), (X, Y)),
}


@pytest.mark.parametrize(("args", "others"), CALLS.values(), ids=CALLS)
def test_calls_with_other_arguments_are_not_taken_for_repeats(args: Any, others: Any, repeated: list[bool]) -> None:
    compiled = wg.compile(difference)
    for given in (args, args, args, args, args, others, others, args):
        found, expected = compiled(*given), difference(*given)
        assert found.dtype == expected.dtype and found.tolist() == expected.tolist()
    assert repeated


def test_names_of_arguments_count() -> None:
    compiled = wg.compile(lambda x, y=None, z=None: (x - y if z is None else x * z) + 0.0)
    for _ in range(5):
        assert compiled(X, z=Y).tolist() == [4.0, 16.0]
    assert repeats(compiled)
    assert compiled(X, Y).tolist() == [-3.0, -6.0]


CPU_HOLDS: dict[str, Callable[[Descent], Any]] = HOLDS | {
    "its array": lambda d: d.w.detach().numpy(),
    "a part of its array": lambda d: d.w.detach().numpy()[1:],
    "the array of a gradient": lambda d: d.w.grad.numpy(),
    "its memory, by DLPack": lambda d: np.from_dlpack(d.w.detach()),
}


def read(thing: Any) -> Any:
    return thing.detach().numpy() if isinstance(thing, wg.Tensor) else thing


@pytest.mark.parametrize("hold", CPU_HOLDS.values(), ids=CPU_HOLDS)
def test_what_somebody_holds_is_not_overwritten(hold: Callable[[Descent], Any], descent: Descent) -> None:
    before = read(hold(descent)).copy()
    held = hold(descent)
    descent()
    descent()
    assert (read(held) == before).all()
    del held
    for _ in range(3):
        descent()
    assert descent.repeats or ownership.copies


@pytest.mark.parametrize("hold", CPU_HOLDS.values(), ids=CPU_HOLDS)
def test_what_somebody_holds_of_a_step_that_returns_nothing_is_not_overwritten(
    hold: Callable[[Descent], Any],
) -> None:
    descent = Descent("cpu")

    @wg.compile
    def step(x: wg.Tensor) -> None:
        descent.step(x)

    x = wg.tensor([0.25, 0.25, 0.25])
    for _ in range(5):
        step(x)
    assert repeats(step) or ownership.copies
    held = hold(descent)
    before = read(held).copy()
    step(x)
    assert (read(held) == before).all()


@pytest.mark.counted
def test_slots_are_looked_at_only_after_something_happened(descent: Descent, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[bool] = []
    look = FastPath._keeps_slots
    monkeypatch.setattr(FastPath, "_keeps_slots", lambda path: looks.append(look(path)) or looks[-1])
    x = wg.tensor(np.full(3, 0.25, np.float32))
    for _ in range(4):
        descent.step(x)
    looks.clear()
    descent.step(x).item()
    descent.step(x)
    assert looks == []
    descent.w.detach().numpy()
    descent.step(x)
    assert looks == [True]


def test_a_slot_that_was_assigned_is_read_afresh(descent: Descent) -> None:
    with wg.no_grad():
        descent.w.assign(wg.tensor([5.0, 6.0, 7.0]))
    descent.expected = np.array([5, 6, 7], np.float32)
    descent.rate.assign(wg.tensor(0.25))
    for _ in range(3):
        descent(rate=0.25)


def test_results_that_are_held_have_memory_each(descent: Descent) -> None:
    held = [descent(scale) for scale in (0.5, 0.125, 0.25)]
    assert len({loss.item() for loss in held}) == 3


def test_arguments_may_be_arrays_in_any_order(repeated: list[bool]) -> None:
    doubled = wg.compile(lambda x: x * 2.0)
    whole = np.arange(12.0).reshape(3, 4)
    for _ in range(4):
        doubled(whole)
    for part in (whole, whole.reshape(4, 3).T, whole[::-1]):
        assert (doubled(part).numpy() == part * 2).all()
    assert repeated == [True] * 4


def test_a_slot_in_another_order_is_copied_at_every_call() -> None:
    array = np.arange(12.0).reshape(3, 4).T
    slot = wg.from_dlpack(array)
    total = wg.compile(lambda x: (slot * x).sum())
    x = wg.tensor(2.0, dtype=wg.float64)
    for _ in range(5):
        assert total(x).item() == 132.0
    assert not repeats(total)


@pytest.mark.counted
def test_a_counter_is_written_where_it_is() -> None:
    counter = wg.tensor(0.0)
    count = wg.compile(lambda x: counter.assign(counter + x))
    x = wg.tensor(1.0)
    places = set()
    for _ in range(10):
        count(x)
        places.add(counter.node.buffer.ctypes.data)
    assert counter.item() == 10.0 and len(places) == 1 and repeats(count)


def test_an_index_out_of_range_raises_and_leaves_everything_as_it_was(repeated: list[bool]) -> None:
    table, seen = wg.tensor(np.arange(4.0)), wg.tensor(0.0, dtype=wg.float64)

    @wg.compile
    def looked_up(index: wg.Tensor) -> wg.Tensor:
        seen.assign(seen + 1.0)
        return wg.take(table, index, axis=0)

    for _ in range(5):
        looked_up(wg.tensor([0, 3]))
    with pytest.raises(wg.errors.WengertError):
        looked_up(wg.tensor([0, 9]))
    assert (ownership.copies or not repeated[-1]) and seen.item() == 5.0
    assert looked_up(wg.tensor([1, 2])).tolist() == [1.0, 2.0] and seen.item() == 6.0


def test_a_call_that_checks_for_nans_leaves_nothing_to_repeat() -> None:
    slot = wg.tensor([1.0, 2.0])
    scaled = wg.compile(lambda x: x * slot)
    x = wg.tensor([1.0, 1.0])
    for _ in range(5):
        scaled(x)
    slot.assign(wg.tensor([3.0, 4.0]))
    with wg.debug_nans():
        scaled(x)
    assert not repeats(scaled)
    assert scaled(x).tolist() == [3.0, 4.0]


def test_references_are_repeated_between_what_is_c() -> None:
    count = wg.tensor(0.0)

    @wg.compile
    def inverse(x: wg.Tensor) -> wg.Tensor:
        count.assign(count + 1)
        return wg.linalg.inv(x * 0.5) * 2.0 + 1.0

    for k in (1, 2, 4, 8, 16):
        assert inverse(wg.tensor([[2.0 * k]])).tolist() == [[2.0 / k + 1.0]]
    assert repeats(inverse) or ownership.copies
    with pytest.raises(wg.errors.WengertError, match="inv"):
        inverse(wg.tensor([[0.0]]))
    assert count.item() == 5  # what fails leaves everything as it was
    assert inverse(wg.tensor([[4.0]])).tolist() == [[2.0]] and count.item() == 6


@pytest.mark.skipif(blas() is None, reason="NumPy's BLAS was not found")
def test_blas_has_its_threads_back_when_the_last_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = [4]
    found = blas()
    assert found is not None
    counted = found._replace(threads=lambda: counts[-1], set_threads=counts.append)
    monkeypatch.setattr("wengert.backends.cpu.blas.blas", lambda: counted)
    inside, done = threading.Event(), threading.Event()

    def stay() -> None:
        with single_threaded:
            inside.set()
            done.wait(10)

    other = threading.Thread(target=stay)
    with single_threaded:
        other.start()
        inside.wait(10)
    assert counts == [4, 1]
    done.set()
    other.join()
    assert counts == [4, 1, 4]
