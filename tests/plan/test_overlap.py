"""Collectives in two steps: started early, waited for late, with the same results."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import wengert as wg
from wengert import distributed as dist
from wengert.core import communication
from wengert.core.communication import current
from wengert.core.mesh import Mesh
from wengert.plan.plan import Start, Wait
from wengert.runtime.program import plan_of


class Doubling:
    """An engine of two ranks that hold the same, which notes the threads that its collectives run in."""

    rank, size = 0, 2

    def __init__(self):
        self.threads = []

    def all_reduce(self, x, out=None):
        self.threads.append(threading.current_thread().name)
        return np.add(x, x, out=out)

    def all_reduce_many(self, xs, out=None):
        return [self.all_reduce(x, o) for x, o in zip(xs, out or [None] * len(xs))]


@pytest.fixture
def engine(monkeypatch):
    found = Doubling()
    monkeypatch.setattr(current, "size", 2)
    monkeypatch.setattr(current, "find", lambda group: found)
    monkeypatch.setattr(current, "overlaps", True)
    monkeypatch.setattr(communication, "watcher", None)
    monkeypatch.setattr(wg.config, "tier", "auto")
    return found


GROUP = Mesh(ranks=2).whole


def two_sums(x, y):
    first = dist.all_reduce(wg.exp(x), GROUP)
    meanwhile = wg.tanh(y @ y)
    second = dist.all_reduce(meanwhile, GROUP)
    return first.sum() + (meanwhile * 2).sum(), second


def test_results_are_those_without_overlap(engine):
    rng = np.random.default_rng(0)
    x, y = wg.tensor(rng.normal(size=(8, 8))), wg.tensor(rng.normal(size=(8, 8)))
    compiled = wg.compile(two_sums)
    found = [value.numpy() for value in compiled(x, y)]
    assert set(engine.threads) == {"wengert communication"}
    current.overlaps = False
    for value, wanted in zip(found, wg.compile(two_sums)(x, y)):
        np.testing.assert_array_equal(value, wanted.numpy())
    assert engine.threads[-1] == "MainThread"
    assert "start all_reduce" in compiled.explain("hoist")


def test_a_collective_starts_with_its_operand_and_ends_with_its_reader(engine):
    compiled = wg.compile(two_sums)
    compiled(wg.ones((8, 8)), wg.ones((8, 8)))
    parts = [step.parts[0] if step.parts else None for step in compiled._latest[1].program.steps]
    starts = [i for i, part in enumerate(parts) if isinstance(part, Start)]
    waits = [i for i, part in enumerate(parts) if isinstance(part, Wait)]
    assert len(starts) == len(waits) == 2 and waits[0] - starts[0] > 1


def test_without_fuel_nothing_goes_on_meanwhile(engine):
    compiled = wg.compile(two_sums)
    compiled(wg.ones((8, 8)), wg.ones((8, 8)))
    plan = plan_of(compiled._latest[1].graph, off={"hoist"})
    assert not any(isinstance(part, Start) for step in plan.steps for part in step.parts)


def test_an_error_in_the_thread_is_raised_where_it_is_waited_for(engine, monkeypatch):
    def fail(x, out=None):
        raise RuntimeError("the rank is gone")

    monkeypatch.setattr(engine, "all_reduce", fail)
    with pytest.raises(wg.errors.ComputationError, match="the rank is gone"):
        wg.compile(two_sums)(wg.ones((8, 8)), wg.ones((8, 8)))


def test_checked_and_profiled_programs_start_and_wait_too(engine, monkeypatch):
    monkeypatch.setattr(wg.config, "check", True)
    x = wg.ones((8, 8))
    wanted = [value.numpy() for value in wg.compile(two_sums)(x, x)]
    monkeypatch.setattr(wg.config, "check", False)
    compiled = wg.compile(two_sums)
    with wg.profile():
        found = [value.numpy() for value in compiled(x, x)]
    np.testing.assert_array_equal(found[1], wanted[1])
