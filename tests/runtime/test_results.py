"""Tensors for results: made of arrays, and given again when nobody has any part of them, never before."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.graph import NO_ATTRS, RELEASED, now
from wengert.ops.core import DATA
from wengert.runtime.results import KEPT, Result, tensors_like

F32 = np.dtype("float32")


def test_tensors_like_others_are_as_complete() -> None:
    there, array = wg.tensor([1.0, 2.0]), np.zeros(2, np.float32)
    node = there.node
    made = tensors_like(DATA, (), node.attrs, (2,), node.dtype, "cpu", False, None)(array)
    for thing, twin in ((there, made), (node, made.node)):
        assert all(hasattr(twin, name) for name in type(thing).__slots__)
    assert made.node.owner() is made and made.node.buffer is array and made.node.serial > node.serial
    assert (made + 1).tolist() == [1.0, 1.0]


@pytest.fixture
def result() -> Result:
    """Results of two zeros that are given again."""
    return Result(tensors_like(DATA, (), NO_ATTRS, (2,), F32, "cpu", False, None), lambda: np.zeros(2, F32), True)


def test_what_nobody_has_is_given_again(result: Result) -> None:
    first = result.take()
    where, serial = id(first[0]), first[1].serial
    del first
    tensor, node, array, _ = result.take()
    assert id(tensor) == where and tensor.node is node and node.buffer is array
    assert node.serial > serial


def test_one_that_is_held_until_the_next_alternates_with_another(result: Result) -> None:
    seen, last = set(), None
    for _ in range(6):
        last = result.take()[0]
        seen.add(id(last))
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


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_what_somebody_has_a_part_of_is_not_given_again(result: Result, part: Callable[[wg.Tensor], Any]) -> None:
    held, nodes = [], set()
    for _ in range(4):
        tensor, node, _, _ = result.take()
        held.append(part(tensor))
        nodes.add(node.serial)
        del tensor, node
    tensor = result.take()[0]
    tensors = [x for x in held if isinstance(x, wg.Tensor)]
    assert all(tensor is not x and tensor.node is not x.node for x in tensors)
    weak = [x for x in held if isinstance(x, weakref.ref)]
    assert all(x() is not tensor for x in weak)
    assert not any(tensor in x for x in held if isinstance(x, weakref.WeakKeyDictionary))
    assert len(nodes) == 4
    arrays = [x for x in held if isinstance(x, np.ndarray)]
    assert not any(np.may_share_memory(tensor.node.buffer, x) for x in arrays)


CHANGES: dict[str, Callable[[wg.Tensor], Any]] = {
    "given another value": lambda t: t.assign(wg.ones(2)),
    "added to": lambda t: t.__iadd__(1),
    "tracked": lambda t: t.requires_grad_(),
    "given a gradient": lambda t: setattr(t, "grad", wg.ones(2)),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_was_changed_comes_back_as_it_was(result: Result, change: Callable[[wg.Tensor], Any]) -> None:
    for _ in range(3):
        tensor, node, array, _ = result.take()
        assert tensor.node is node and node.op is DATA and node.buffer is array and node.owner() is tensor
        assert tensor.grad is None and not tensor.requires_grad
        change(tensor)
        del tensor, node, array


def test_one_number_is_drawn_for_each() -> None:
    made = tensors_like(DATA, RELEASED, NO_ATTRS, (), F32, "cpu", True, None)
    result = Result(made, lambda: np.zeros((), F32), True)
    held = None
    for _ in range(5):
        before = now()
        held = result.take()
        assert now() == before + 2 and held[1].sources is RELEASED and held[1].tracked


def test_nothing_is_kept_where_that_is_not_wanted_or_memory_is_short(result: Result) -> None:
    gone = weakref.ref(result.take()[2])
    assert gone() is not None
    result.let_go()
    assert gone() is None
    loose = Result(result.wrap, result.make, False)
    gone = weakref.ref(loose.take()[2])
    assert gone() is None
