"""Tensors for results: made of arrays, and given again when nobody has any part of them, never before."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import wengert as wg
from wengert.core.graph import NO_ATTRS, RELEASED, Node, now
from wengert.core.ownership import ownership
from wengert.ops.core import DATA
from wengert.runtime.static.fast_path import KEPT, ResultPool
from wengert.tensor import tensors_like

F32 = np.dtype("float32")


def test_tensors_like_others_are_as_complete() -> None:
    there, array = wg.tensor([1.0, 2.0]), np.zeros(2, np.float32)
    node = there.node
    made = tensors_like(node)(array)
    for thing, twin in ((there, made), (node, made.node)):
        assert all(hasattr(twin, name) for name in type(thing).__slots__)
    assert made.node.owner() is made and made.node.buffer is array and made.node.serial > node.serial
    assert (made + 1).tolist() == [1.0, 1.0]


class Taken(NamedTuple):
    """Results as the fast path takes them."""

    tensors: tuple[wg.Tensor, ...]
    arrays: tuple[Any, ...]
    drawn: int  # serial numbers


def take(results: ResultPool) -> Taken:
    return Taken(*results.take())


@pytest.fixture
def results() -> ResultPool:
    """Two results of two zeros each that are given again."""
    wrap = tensors_like(Node(DATA, (), NO_ATTRS, (2,), F32, "cpu", False, None))
    return ResultPool([wrap, wrap], [lambda: np.zeros(2, F32)] * 2, True)


@pytest.mark.counted
def test_what_nobody_has_is_given_again(results: ResultPool) -> None:
    first = [id(tensor) for tensor in take(results).tensors]
    given = take(results)
    assert [id(tensor) for tensor in given.tensors] == first
    assert [tensor.node.buffer for tensor in given.tensors] == [*given.arrays]


@pytest.mark.counted
def test_those_that_are_held_until_the_next_alternate_with_others(results: ResultPool) -> None:
    seen, last = set(), None
    for _ in range(6):
        last = [*take(results).tensors]
        seen.add(id(last[0]))
    assert len(seen) == KEPT == 2


PARTS: dict[str, Callable[[wg.Tensor], Any]] = {
    "the tensor": lambda t: t,
    "its node": lambda t: t.node,
    "its array": lambda t: t.node.buffer,
    "a view of its array": lambda t: t.numpy(),
    "an expression": lambda t: t + 1,
    "a weak reference": weakref.ref,
    "a weak reference that is called back": lambda t: weakref.ref(t, lambda _: None),
    "a weak dictionary": lambda t: weakref.WeakKeyDictionary({t: "a note"}),
}


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_what_somebody_has_a_part_of_is_not_given_again(
    results: ResultPool, part: Callable[[wg.Tensor], Any], place: int
) -> None:
    held, serials = [], set()
    for _ in range(5):
        tensor = take(results).tensors[place]
        held.append(part(tensor))
        serials.add(tensor.node.serial)
        del tensor
    assert len(serials) == 5
    tensor = take(results).tensors[place]
    for thing in held:
        if isinstance(thing, wg.Tensor):
            assert thing is not tensor
        elif isinstance(thing, np.ndarray):
            assert not np.may_share_memory(tensor.node.buffer, thing)
        elif isinstance(thing, weakref.ref):
            assert thing() is not tensor
        elif isinstance(thing, weakref.WeakKeyDictionary):
            assert tensor not in thing
        else:
            assert thing is not tensor.node


CHANGES: dict[str, Callable[[wg.Tensor], Any]] = {
    "given another value": lambda t: t.assign(wg.ones(2)),
    "added to": lambda t: t.__iadd__(1),
    "tracked": lambda t: t.requires_grad_(),
    "given a gradient": lambda t: setattr(t, "grad", wg.ones(2)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_was_changed_does_not_come_back(results: ResultPool, change: Callable[[wg.Tensor], Any]) -> None:
    for _ in range(4):
        given = take(results)
        for tensor, array in zip(given.tensors, given.arrays):
            node = tensor.node
            assert node.op is DATA and node.buffer is array and node.owner() is tensor
            assert tensor.grad is None and not tensor.requires_grad
        change(given.tensors[1])
        del given, tensor, node, array


@pytest.mark.counted
def test_the_memory_of_what_was_let_go_serves_when_the_rest_is_kept() -> None:
    """Somebody collects losses; the other result's arrays come back to who makes them."""
    free: list[np.ndarray] = []

    def make() -> np.ndarray:
        place = ownership.unused(free)
        if place is not None:
            return free[place]
        free.append(np.zeros(2, F32))
        return free[-1]

    wrap = tensors_like(Node(DATA, (), NO_ATTRS, (2,), F32, "cpu", False, None))
    results = ResultPool([wrap, wrap], [lambda: np.zeros(2, F32), make], True)
    losses = [take(results).tensors[0] for _ in range(12)]
    assert len(free) <= KEPT and len({id(loss.node.buffer) for loss in losses}) == 12


@pytest.mark.counted
def test_numbers_are_drawn_for_what_is_new_and_what_is_tracked() -> None:
    wraps = [tensors_like(Node(DATA, RELEASED, NO_ATTRS, (), F32, "cpu", tracked, None)) for tracked in (True, False)]
    results = ResultPool(wraps, [lambda: np.zeros((), F32)] * 2, True)
    before = now()
    serials = [tensor.node.serial for tensor in take(results).tensors]
    assert serials == [before + 1, before + 2] and now() == before + 3
    given = take(results)
    assert given.drawn == 1
    assert [tensor.node.serial for tensor in given.tensors] == [before + 4, before + 2] and now() == before + 5
    assert all(tensor.node.sources is RELEASED for tensor in given.tensors)


@pytest.mark.counted
def test_nothing_is_kept_where_that_is_not_wanted_or_memory_is_short(results: ResultPool) -> None:
    gone = weakref.ref(take(results).arrays[0])
    assert gone() is not None
    results.let_go()
    assert gone() is None
    loose = ResultPool(results._wraps, results._makers, False)
    gone = weakref.ref(take(loose).arrays[0])
    assert gone() is None
