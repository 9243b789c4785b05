"""Collectives over messages: every method, dtype and shape, against NumPy, to the bit."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.distributed.in_threads import ThreadCommunicator, on_ranks
from wengert.backends.comm import ordered
from wengert.backends.comm.mpi import Patience
from wengert.core import communication
from wengert.core.communication import tree_sum
from wengert.core.dtypes import ALL, COMPLEX
from wengert.core.errors import DistributedError

SIZES = (2, 3, 4, 5, 8)
SHAPES = ((), (0,), (1,), (7,), (3, 0, 2), (24, 3), (2, 60, 4))


@pytest.fixture(params=["as it is", "all in chunks"])
def chunks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Small arrays as they are, and as large ones: exchanged in chunks of a few elements."""
    if request.param == "all in chunks":
        monkeypatch.setattr(ordered, "_SMALL", -1)
        monkeypatch.setattr(ordered, "_CHUNKS", 0)
        monkeypatch.setattr(ordered, "_LEAST_CHUNK", 32)
        monkeypatch.setattr(ordered, "_HALVING", -1)


def values(size: int, shape: tuple[int, ...], dtype: Any = np.float32) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(3)
    made = rng.normal(size=(size, *shape)) * 50
    if dtype in COMPLEX:
        made = made + 1j * rng.normal(size=made.shape)
    elif np.dtype(dtype).kind in "iu":
        made = made.astype(np.int64)  # negative ones wrap around
    return [np.asarray(x > 0 if dtype == np.bool_ else x.astype(dtype)) for x in made]


def same(found: Any, wanted: Any) -> None:
    assert type(found) is np.ndarray
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    assert found.tobytes() == np.ascontiguousarray(wanted).tobytes()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_are_added_in_a_tree(chunks: None, size: int, shape: tuple[int, ...]) -> None:
    given = values(size, shape)
    wanted = np.asarray(tree_sum(given))
    for found in on_ranks(size, lambda c: c.all_reduce(given[c.rank])):
        same(found, wanted)


@pytest.mark.parametrize("dtype", ALL, ids=str)
def test_sums_of_every_dtype(chunks: None, dtype: Any) -> None:
    given = values(4, (24, 3), dtype)
    wanted = tree_sum(given)
    assert wanted.dtype == dtype  # each addition rounds
    for found in on_ranks(4, lambda c: c.all_reduce(given[c.rank])):
        same(found, wanted)
    for k, found in enumerate(on_ranks(4, lambda c: c.reduce_scatter(given[c.rank], 0))):
        same(found, wanted[6 * k : 6 * k + 6])


def test_a_sum_larger_than_a_chunk_with_a_rest() -> None:
    given = values(3, (1_000_003,))
    for found in on_ranks(3, lambda c: c.all_reduce(given[c.rank])):
        same(found, tree_sum(given))


@pytest.mark.parametrize("dtype", [d for d in ALL if d not in COMPLEX], ids=str)
def test_the_largest(chunks: None, dtype: Any) -> None:
    given = values(4, (5, 3), dtype)
    for found in on_ranks(4, lambda c: c.all_reduce_max(given[c.rank])):
        same(found, np.sort(np.stack(given), axis=0)[-1])


@pytest.mark.filterwarnings("ignore:invalid value")  # which are ignored wherever references run
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_the_largest_is_nan_where_one_is(chunks: None, dtype: Any) -> None:
    given = [np.array([1.0, np.nan, 3.0, -0.0], dtype), np.array([np.nan, 2.0, 1.0, -1.0], dtype)]
    for found in on_ranks(2, lambda c: c.all_reduce_max(given[c.rank])):
        assert np.isnan(found.astype(np.float32)).tolist() == [True, True, False, False] and found[2] == 3


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", [s for s in SHAPES if s], ids=str)
def test_all_gather(chunks: None, size: int, shape: tuple[int, ...]) -> None:
    given = values(size, shape)
    for axis in range(len(shape)):
        wanted = np.concatenate(given, axis)
        for found in on_ranks(size, lambda c, axis=axis: c.all_gather(given[c.rank], axis)):
            same(found, wanted)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_reduce_scatter(chunks: None, size: int, axis: int) -> None:
    shape = tuple(3 * size if k == axis else 4 for k in range(3))
    given = values(size, shape)
    blocks = np.split(tree_sum(given), size, axis)
    for k, found in enumerate(on_ranks(size, lambda c: c.reduce_scatter(given[c.rank], axis))):
        same(found, blocks[k])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shift", [1, -1, 2, 0, 5, 7])
@pytest.mark.parametrize("shape", [(), (3,), (0, 2)], ids=str)
def test_ppermute(size: int, shift: int, shape: tuple[int, ...]) -> None:
    given = values(size, shape)
    for k, found in enumerate(on_ranks(size, lambda c: c.ppermute(given[c.rank], shift))):
        same(found, given[(k - shift) % size])


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("split", "join"), [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_all_to_all(size: int, split: int, join: int) -> None:
    given = values(size, (2 * size, 3 * size))
    for k, found in enumerate(on_ranks(size, lambda c: c.all_to_all(given[c.rank], split, join))):
        same(found, np.concatenate([np.split(x, size, split)[k] for x in given], join))


def test_arrays_that_are_not_contiguous(chunks: None) -> None:
    given = [x.T[::-1, ::2] for x in values(4, (8, 12))]
    assert not given[0].flags.c_contiguous

    def run(c: ThreadCommunicator) -> list[Any]:
        x = given[c.rank]
        x.flags.writeable = False
        return [c.all_reduce(x), c.all_gather(x, 1), c.reduce_scatter(x, 0), c.ppermute(x, 1), c.all_to_all(x, 0, 1)]

    for k, found in enumerate(on_ranks(4, run)):
        total = tree_sum(given)
        exchanged = np.concatenate([np.split(x, 4, 0)[k] for x in given], 1)
        for one, wanted in zip(
            found, [total, np.concatenate(given, 1), np.split(total, 4, 0)[k], given[k - 1], exchanged]
        ):
            same(one, wanted)


MIXED = [(3,), (), (40_000,), (0, 2), (2, 9_000), (5, 5), (70_001,)]  # small ones are put side by side, others not


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize("in_place", [False, True])
def test_many_sums_where_they_lie(size: int, in_place: bool) -> None:
    given = list(zip(*[values(size, shape) for shape in MIXED]))
    wanted = [tree_sum([xs[k] for xs in given]) for k in range(len(MIXED))]

    def run(c: ThreadCommunicator) -> Any:
        xs = [x.copy() for x in given[c.rank]]
        out = xs if in_place else [np.full_like(x, np.nan) for x in xs]
        found = c.all_reduce_many(xs, out)
        assert all(a is b for a, b in zip(found, out))
        assert in_place or all((a == b).all() for a, b in zip(xs, given[c.rank]))
        return [*found, *c.all_reduce_many(given[c.rank])]

    for found in on_ranks(size, run):
        for one, sum_of in zip(found, wanted + wanted):
            same(one, sum_of)


def test_large_sums_are_sent_from_where_they_lie() -> None:
    given = values(2, (1_000_000,))

    def run(c: ThreadCommunicator) -> Any:
        xs, out = [given[c.rank], -given[c.rank]], [np.empty_like(given[0]) for _ in range(2)]
        sent: list[Any] = []
        transfer = c.transfer
        c.transfer = lambda sends, *rest: (sent.extend(sends), transfer(sends, *rest))  # type: ignore[method-assign]
        c.all_reduce_many(xs, out)
        return sum(not any(np.may_share_memory(x, y) for y in (*xs, *out)) for _, x in sent), out[1]

    for copied, found in on_ranks(2, run):
        assert not copied
        same(found, -given[0] - given[1])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_blocks_where_they_belong(axis: int) -> None:
    given = values(3, (3, 6, 9))
    whole, blocks = np.concatenate(given, axis), np.split(tree_sum(given), 3, axis)

    def run(c: ThreadCommunicator) -> Any:
        out = np.empty_like(whole), np.empty_like(blocks[0])
        found = c.all_gather(given[c.rank], axis, out[0]), c.reduce_scatter(given[c.rank], axis, out[1])
        assert found[0] is out[0] and found[1] is out[1]
        return out

    for k, (gathered, block) in enumerate(on_ranks(3, run)):
        same(gathered, whole)
        same(block, blocks[k])


def test_results_are_not_in_memory_that_is_used_again() -> None:
    given = values(2, (300_000,))

    def run(c: ThreadCommunicator) -> Any:
        first = c.all_reduce(given[c.rank])
        c.all_reduce(np.zeros_like(first))
        return first

    for found in on_ranks(2, run):
        same(found, given[0] + given[1])


class _Notes:
    def __init__(self) -> None:
        self.lines: list[Any] = []

    def entering(self, number: int, name: str, bytes: int, location: Any, ranks: Any) -> None:
        self.lines.append((name, bytes, *ranks))

    def left(self) -> None:
        self.lines.append("left")


def test_a_watcher_sees_every_collective(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = _Notes()
    monkeypatch.setattr(communication, "watcher", notes)
    before = communication.current.collectives
    alone = ThreadCommunicator(None, 0, 1)  # type: ignore[arg-type]  # nobody to send to
    x = np.zeros((2, 2), np.float32)
    alone.all_gather(x, 0)
    alone.ppermute(x, 1)
    alone.barrier()
    assert notes.lines == [("all_gather", 16), "left", ("ppermute", 16), "left", ("barrier", 1), "left"]
    assert communication.current.collectives == before + 3


def test_nothing_is_sent_after_the_end() -> None:
    alone = ThreadCommunicator(None, 0, 1)  # type: ignore[arg-type]
    alone.ended = "the world was ended"
    with pytest.raises(DistributedError, match="all_reduce over threads: the world was ended"):
        alone.all_reduce(np.zeros(3))


def test_who_waits_spins_only_where_that_helps() -> None:
    patience = Patience()
    for _ in range(100):  # waits that end in time, and some that do not
        for outlasted in (True, True, False):
            spin = patience.spin()
            assert spin == Patience.LONGEST
            patience.waited(spin, outlasted)
    for _ in range(Patience.IN_A_ROW):
        patience.waited(patience.spin(), outlasted=True)
    for _ in range(Patience.WHILE):
        assert patience.spin() == 0
        patience.waited(0.0, outlasted=True)
    assert patience.spin() == Patience.LONGEST  # tried again
    patience.has_core = False
    assert patience.spin() == 0


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_messages_arrive_in_order_between_two_ranks(shape: tuple[int, ...]) -> None:
    """The other ranks are in none of them, and collectives of all go on beside them."""
    given = values(4, shape)

    def work(c: ThreadCommunicator) -> Any:
        if c.rank == 1:
            c.send(given[1], 3)
            c.send(given[2].T, 3)
        found = [c.receive(shape, np.float32, 1), c.receive(shape[::-1], np.float32, 1)] if c.rank == 3 else []
        return found, c.all_reduce(given[c.rank])

    (_, first), *_, ((plain, turned), last) = on_ranks(4, work)
    same(plain, given[1])
    same(turned, given[2].T)
    same(first, last)
