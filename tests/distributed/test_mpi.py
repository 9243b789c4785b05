"""Real ranks, over MPI: the same bits as `simulate`, whatever is done with a collective."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.distributed import cases, in_threads, ranks
from wengert import distributed as dist

pytestmark = ranks.needs_mpi
RANKS = (2, 4)


@functools.cache
def found_by(size: int) -> list[dict[str, Any]]:
    """What each rank computed, from one launch."""
    return ranks.on_ranks(size, "tests.distributed.programs:everything")


@functools.cache
def simulated(size: int) -> dict[Any, np.ndarray[Any, Any]]:
    """The same for all ranks, in this process."""
    wanted = {}
    xs = wg.tensor(cases.given(size))
    for group in cases.groups(size):
        for way in cases.WAYS:
            for name in cases.names(way):
                function = functools.partial(cases.WAYS[way], cases.COLLECTIVES[name], group)
                wanted[name, way, str(group)] = dist.simulate(function, group.mesh)(xs).numpy()
    return wanted


@pytest.mark.parametrize("mode", ["dynamic", "compiled"])
@pytest.mark.parametrize("size", RANKS)
def test_every_collective_as_simulated(size: int, mode: str) -> None:
    """Value, gradient, tangent, second order and vmap, over all ranks and over the axes of a square, to the bit."""
    for key, wanted in simulated(size).items():
        for rank in range(size):
            found = found_by(size)[rank][mode][key]
            assert found.shape == wanted[rank].shape and found.dtype == wanted.dtype, (key, rank)
            assert (found == wanted[rank]).all(), (key, rank)


@pytest.mark.parametrize("size", RANKS)
def test_every_dtype_to_the_bit(size: int) -> None:
    """As the same code gives over queues, where it was compared with NumPy."""
    for key, given in cases.typed(size).items():
        for rank, wanted in enumerate(
            in_threads.on_ranks(size, lambda c, given=given: cases.on_communicator(c, given[c.rank]))
        ):
            for name, value in wanted.items():
                assert found_by(size)[rank]["dtypes"][name, key] == value, (name, key, rank)


@pytest.mark.parametrize("mode", ["dynamic", "compiled"])
@pytest.mark.parametrize("size", RANKS)
def test_networks_by_hand(size: int, mode: str) -> None:
    """Tensor parallel and ZeRO-3, against one process: gradients, and the gradient of their squares."""
    whole = [wg.tensor(w) for w in cases.weights()]
    found = [result[f"{mode} networks"] for result in found_by(size)]
    for order, transform in cases.ORDERS.items():
        for i, wanted in enumerate(transform(cases.alone)(*whole)):
            tensor = [result["tensor", order, i] for result in found]
            zero3 = [result["zero3", order, i] for result in found]
            if i == 0:  # which all ranks have
                assert all((part == tensor[0]).all() for part in tensor)
            joined = tensor[0] if i == 0 else np.concatenate(tensor, 2 - i)
            for got in (joined, np.concatenate(zero3, 0)):
                assert np.abs(got - wanted.numpy()).max() <= 1e-13 * np.abs(wanted.numpy()).max(), (order, i)


def test_mistakes_are_said_clearly_and_a_watcher_is_told() -> None:
    for rank, said in enumerate(ranks.on_ranks(2, "tests.distributed.programs:mistakes")):
        assert f"ArgumentError: start: this process is already rank {rank} of 2" in said["second"]
        assert "mesh: 2 ranks cannot be arranged as data=3" in said["mesh"]
        assert f"DistributedError: this process was forked from rank {rank} and is not a rank itself" in said["forked"]
        assert said["still"] == said["again"] == [2.0, 2.0] and said["alone"] == [1.0, 1.0]
        assert "DistributedError: all_reduce over" in said["ended"] and "world.end()" in said["ended"]
        assert "needs 2 ranks, but there is 1" in said["recorded"]
        assert "world.end()" in said["barrier"]
        entered, done = said["watched"]
        assert done == len(entered) == 2
        (first, name, size, line), (second, other, bytes, backward) = entered
        assert (name, size, other, bytes, second) == ("all_reduce", 24, "reduce_scatter", 48, first + 1)
        assert line.startswith("programs.py:") and backward.startswith("backward of all_gather at programs.py:")


def test_news_interrupts_a_wait() -> None:
    done = ranks.launch(2, ranks.command("tests.distributed.programs:interrupted"))
    assert done.status != 0
    assert "interrupted, then: DistributedError: all_reduce over" in done.output, done.output
    assert "an earlier collective failed" in done.output


def test_an_error_on_one_rank_ends_all() -> None:
    done = ranks.launch(2, ranks.command("tests.distributed.programs:fails"))
    assert done.status != 0 and "this rank has had enough" in done.output
