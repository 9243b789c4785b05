"""What a program that is spread over ranks shows of its collectives."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from tests.distributed.lockstep import check
from wengert.core import communication
from wengert.core.communication import ALONE
from wengert.core.mesh import Mesh
from wengert.core.placement import Placement
from wengert.runtime.debug.collectives import records, text


def test_records_are_in_order_with_bytes_and_lines():
    mesh = Mesh(data=4)
    w = wg.tensor(np.ones((8, 8)), requires_grad=True)

    def step(x):
        loss = (x @ w).square().mean()
        loss.backward()
        return loss, w.grad

    found = check(step, [wg.tensor(np.ones((4, 8)))], mesh)
    shown = records(found)
    assert [record.number for record in shown] == list(range(len(shown)))
    assert {(record.axis, record.ranks) for record in shown} == {("data", 4)}
    assert sum(record.bytes for record in shown) == 8 * (64 + 1)  # a gradient and a loss
    assert all(record.sent == record.bytes * 2 * 3 // 4 for record in shown)
    assert all("test_collectives_shown.py" in record.line for record in shown)
    assert text(found).startswith("Mesh(data=4): ") and "in which each rank sends 780 B\n" in text(found)
    assert "no split value is gathered" in text(found)


def test_what_is_gathered_is_told_with_the_reason_and_the_line():
    mesh = Mesh(tensor=2)
    x = wg.tensor(np.arange(8.0), requires_grad=True)
    found = check(lambda y: wg.sort(x) + y, [wg.tensor(np.ones(8))], mesh, lambda shape: Placement(mesh, {"tensor": 0}))
    assert [one.moved for one in found.gathered] == [32]
    shown = text(found, 8)
    assert "its operand 0 of shape (8,) is cut along axis 0 over Mesh(tensor=2)['tensor']" in shown
    assert "it cannot be cut along any axis of that operand; test_collectives_shown.py" in shown
    assert "all_gather" in shown and "1 value is computed from gathered ones, for which a rank sends 32 B" in shown


class OneOfTwo(type(ALONE)):
    """A rank whose neighbour has the same: enough to see what a program shows."""

    size = 2

    def all_reduce_many(self, xs, out=None):
        return [np.multiply(x, 2, out=o) for x, o in zip(xs, out or [None] * len(xs))]


@pytest.fixture
def world_of_two(monkeypatch):
    monkeypatch.setattr(communication.current, "size", 2)
    monkeypatch.setattr(communication.current, "find", lambda group: OneOfTwo())


def test_compiled_functions_show_their_collectives(world_of_two, capsys):
    w = wg.tensor(np.ones((8, 8)), requires_grad=True)

    @wg.compile(mesh=Mesh(data=2))
    def step(x):
        return (x @ w).square().mean()

    step(wg.tensor(np.ones((4, 8))))
    (record,) = step.collectives()
    assert (record.op, record.axis, record.bytes) == ("all_reduce", "data", 8)
    assert "Mesh(data=2): 1 collective a step" in step.explain()
    assert "all_reduce" in step.explain("collectives") and ".mean()" in step.explain("collectives")
    partition = step.explain("partition")
    assert partition.startswith("# Mesh(data=2)") and "ops['all_reduce']" in partition


def test_functions_without_a_mesh_have_none():
    double = wg.compile(lambda x: x * 2)
    double(wg.tensor([1.0]))
    assert double.collectives() == []
    with pytest.raises(wg.errors.ArgumentError, match="not distributed over ranks"):
        double.explain("collectives")
