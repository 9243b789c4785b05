"""Recycled memory: a large result's memory is used again when nobody can see it any more, and never before."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.backends.cpu.recycle import FORGOTTEN_AFTER, LARGE, Recycler, recycler
from wengert.backends.cpu.toolchain import compiler

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
SIDE = 256  # a result of this shape is large
FLOAT = np.dtype("float32")


def compiled() -> Callable[[float], wg.Tensor]:
    ones = wg.ones((SIDE, SIDE))
    return wg.compile(lambda x: ones * x)


def dynamic() -> Callable[[float], wg.Tensor]:
    ones = wg.ones((SIDE, SIDE))
    return lambda x: ones * x


def address(tensor: wg.Tensor) -> int:
    return tensor.numpy().ctypes.data


def test_results_of_this_size_are_recycled():
    assert SIDE * SIDE * FLOAT.itemsize >= LARGE
    f = compiled()
    places = {address(f(float(k))) for k in range(20)}
    assert len(places) <= 2


HOLDS: dict[str, Callable[[wg.Tensor], Any]] = {
    "the tensor": lambda t: t,
    "its array": lambda t: t.numpy(),
    "a view": lambda t: t.numpy()[3:5, ::2],
    "a view of a view": lambda t: t.numpy().T[1:].reshape(-1, 2)[1:],
    "a memoryview": lambda t: memoryview(t.numpy()[2:]),
    "another's array by DLPack": lambda t: np.from_dlpack(t),
    "a slot": lambda t: wg.tensor(np.zeros((SIDE, SIDE), np.float32)).assign(t),
    "a value to come": lambda t: t[1:] + 0.0,
}


@pytest.mark.parametrize("make", [compiled, dynamic])
@pytest.mark.parametrize("hold", HOLDS.values(), ids=HOLDS)
def test_what_somebody_holds_is_never_overwritten(make: Callable[..., Any], hold: Callable[..., Any]):
    tier, wg.config.tier = wg.config.tier, "compile"
    f, held = make(), []
    for k in range(40):
        result = f(float(k))
        held.append((float(k), hold(result)))
        del result
        del held[:-7]  # some come back while others are still held
    for expected, thing in held:
        array = thing.numpy() if isinstance(thing, wg.Tensor) else np.asarray(thing)
        np.testing.assert_array_equal(array, np.full_like(array, expected))
    wg.config.tier = tier


def test_what_waits_is_let_go_after_the_request_in_which_the_garbage_collector_asked_for_it(monkeypatch):
    own = Recycler()
    shape, dtype = (LARGE,), np.dtype("uint8")
    held = [own.empty(shape, dtype) for _ in range(2)]
    del held[0]
    own.empty(shape, dtype)
    collect = own._collect
    with monkeypatch.context() as patch:
        patch.setattr(own, "_collect", lambda: (collect(), own.clear()) if not own._is_stale else collect())
        held.append(own.empty(shape, dtype))
    del held[:]
    held.append(own.empty(shape, dtype))
    assert (own.lent, own.kept) == (LARGE, 0)


@pytest.mark.counted
def test_a_slot_on_recycled_memory_is_still_updated_in_place():
    w = wg.tensor(np.ones((SIDE, SIDE), np.float32))
    replace = wg.compile(lambda: w.assign(wg.full((SIDE, SIDE), 2.0)))
    replace()

    @wg.compile
    def step():
        w.assign(w * 1.5)

    for _ in range(4):
        step()  # recorded again at the second and the fourth call
    place = address(w)
    step()
    assert address(w) == place
    held = w.detach().numpy()
    before = held.copy()
    step()
    np.testing.assert_array_equal(held, before)


def test_memory_in_use_stays_flat():
    recycler.clear()
    gc.collect()
    f, before = compiled(), recycler.lent
    for k in range(200):
        f(float(k)).numpy()[::2].copy()
    recycler.clear()
    assert recycler.lent - before <= 2 * SIDE * SIDE * FLOAT.itemsize


def test_what_waits_is_never_more_than_was_in_use_at_once():
    own = Recycler()
    most = 0
    for k in range(200):
        rows = LARGE * (1 + k * 7 % 5)
        held = [own.empty((rows,), np.dtype("uint8")) for _ in range(1 + k % 3)]
        most = max(most, sum(array.nbytes for array in held))
        assert own.lent + own.kept <= most
        del held


def test_what_nobody_asks_for_is_let_go():
    own = Recycler()
    del [own.empty((LARGE * 8,), np.dtype("uint8"))][0]
    for _ in range(FORGOTTEN_AFTER + 2):
        own.empty((LARGE,), np.dtype("uint8"))
    assert own.kept <= LARGE


def test_nothing_waits_when_a_program_is_gone():
    f = compiled()
    f(1.0), f(2.0)
    del f
    gc.collect()
    assert recycler.kept == 0


def test_small_results_are_ordinary_arrays():
    assert Recycler().empty((3, 5), FLOAT).flags.owndata


def test_a_slot_that_repeats_a_number_is_copied_once():
    """`zeros` gives an array without memory of its own. What replaces it is written over one copy, in our memory."""
    state, more = wg.zeros((4096, 1024)), np.ones((4096, 1024), np.float32)
    wg.synchronize()
    add = wg.compile(lambda x: state.assign(state + x))
    tracemalloc.start()
    try:
        add(more)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert state.numpy()[3, 5] == 1
    assert peak < more.nbytes // 2  # mapped memory is not traced, a copy by NumPy would be
