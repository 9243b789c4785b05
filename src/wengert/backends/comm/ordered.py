"""Every collective over one primitive: messages between pairs of ranks. Sums are added in the order of `tree_sum`.

An engine says how bytes get from one rank to another (`transfer`), and nothing else. What is a sum, in which order it
is added and how arrays are cut is here, so that all engines give the same bits.

A large sum is a reduce-scatter and an all-gather, in chunks that stay in the cache: each rank receives its block of
every other rank's array, adds, and sends the sum to all. The exchange of a chunk goes on together with the all-gather
of the chunk before. A small sum is gathered whole by every rank, which adds for itself: one message in place of two.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from wengert.backends.cpu.recycle import recycler
from wengert.core import communication
from wengert.core.communication import Array, current, tree_sum_into
from wengert.core.errors import DistributedError

Message = tuple[int, Array]
"""A rank of the group, and the bytes (contiguous, of any dtype) that go to it or come from it."""

Reduce = Callable[[Array, Sequence[Array]], None]
"""What puts together the parts of all ranks, into an array."""

_SMALL = 1 << 17  # bytes of all ranks together: below, every rank gathers all and adds for itself
_CHUNKS = 2 << 20  # bytes that a rank works on at a time, of all ranks; 1 MB from each of two was the fastest
_LEAST_CHUNK = 1 << 16
_HALVING = 1 << 13  # bytes: blocks up to this are gathered in log2(size) steps, which costs copies and saves messages


class OrderedCommunicator(ABC):
    """One rank's end of a group, over messages. `members` are ranks of the world, `rank` is this one's place there."""

    def __init__(self, name: str, rank: int, members: Sequence[int]) -> None:
        self.name = name
        self.rank = rank
        self.size = len(members)
        self.members = members
        self.ended = ""  # why nothing can be sent any more
        self._calls = 0
        self._messages: dict[tuple[int, int], int] = {}  # how many went from one rank to another, this one among them
        self._scratch = np.empty(0, np.uint8)

    @abstractmethod
    def transfer(self, sends: Sequence[Message], receives: Sequence[Message], tag: int) -> None:
        """Send and receive these messages; returns when all are done. Those of a pair of ranks arrive in order.

        A tag is a number below 2**15, the same at both ends.
        """

    # --- the protocol ---------------------------------------------------------------------------------------------

    def all_reduce(self, x: Array) -> Array:
        """The sum over the ranks, on each of them."""
        return self._watched("all_reduce", x, self._all_reduce)

    def all_reduce_many(self, xs: Sequence[Array]) -> list[Array]:
        """The sums over the ranks of several arrays of one dtype."""
        flat = np.concatenate([x.reshape(-1) for x in xs])
        total = self._watched("all_reduce", flat, self._all_reduce)
        parts = np.split(total, np.cumsum([x.size for x in xs])[:-1])
        return [part.reshape(x.shape) for part, x in zip(parts, xs)]

    def all_reduce_max(self, x: Array) -> Array:
        """The largest over the ranks, on each of them; NaN where one has NaN."""
        return self._watched("all_reduce_max", x, lambda x, tag: self._all_reduce(x, tag, _largest))

    def all_gather(self, x: Array, axis: int) -> Array:
        """The values of all ranks side by side along an axis, in order."""
        return self._watched("all_gather", x, lambda x, tag: _joined(self._gathered(x, tag), axis))

    def reduce_scatter(self, x: Array, axis: int) -> Array:
        """This rank's block, along an axis, of the sum over the ranks."""
        return self._watched("reduce_scatter", x, lambda x, tag: self._reduce_scatter(x, axis, tag))

    def ppermute(self, x: Array, shift: int) -> Array:
        """The value of the rank `shift` places before this one, around the ring."""
        return self._watched("ppermute", x, lambda x, tag: self._ppermute(x, shift, tag))

    def all_to_all(self, x: Array, split: int, join: int) -> Array:
        """A block of every rank, cut along `split` and put side by side along `join`: this rank's, in their order."""
        return self._watched(
            "all_to_all", x, lambda x, tag: _joined(self._exchanged(_cut(x, split, self.size), tag), join)
        )

    def send(self, x: Array, target: int) -> None:
        """Send a value to one rank, which receives it."""
        x = np.ascontiguousarray(x)
        tag = self._message_tag(self.rank, target, x)
        if x.size:
            pair = self.members[self.rank], self.members[target]
            self._under_watch("message", x, lambda x: self.transfer([(target, x)], [], tag), pair)

    def receive(self, shape: tuple[int, ...], dtype: Any, source: int) -> Array:
        """What one rank sends, in the order in which it does."""
        x = recycler.empty(shape, np.dtype(dtype))
        tag = self._message_tag(source, self.rank, x)
        if x.size:
            pair = self.members[source], self.members[self.rank]
            self._under_watch("message", x, lambda x: self.transfer([], [(source, x)], tag), pair)
        return x

    def _message_tag(self, source: int, target: int, x: Array) -> int:
        """The tag of a message that only two ranks know of: it has a number among those from one to the other."""
        number = self._messages[source, target] = self._messages.get((source, target), 0) + 1
        return self._tag(f"{source} to {target} {number}", x)

    def barrier(self) -> None:
        """Returns when all ranks have come here."""
        self._watched("barrier", np.zeros(1, np.uint8), self._gathered)

    def _watched(self, name: str, x: Array, compute: Callable[[Array, int], Array]) -> Array:
        """Compute what all ranks of the group compute together."""
        self._calls += 1
        tag = self._tag(f"{self._calls} {name}", x)
        ranks = () if self.size == current.size else tuple(self.members)
        result: Array = self._under_watch(name, x, lambda x: compute(x, tag), ranks)
        return result

    def _tag(self, key: str, x: Array) -> int:
        """Ranks that are in different collectives wait for each other (until a deadline), and mix up nothing."""
        return zlib.crc32(f"{self.name} {key} {x.nbytes}".encode()) & 0x7FFF

    def _under_watch(self, name: str, x: Array, compute: Callable[[Array], Any], ranks: tuple[int, ...]) -> Any:
        """Compute, and tell the watcher. Where this raises, the rank has not left the collective: the world is over."""
        if self.ended:
            raise DistributedError(f"{name} over {self.name}: {self.ended}", current.location)
        current.collectives += 1
        watcher = communication.watcher
        if watcher is None:
            return compute(x)
        number = current.entered[ranks] = current.entered.get(ranks, 0) + 1  # the stages of a pipeline enter others
        watcher.entering(number, name, x.nbytes, current.location, ranks)
        result = compute(x)
        watcher.left()
        return result

    # --- sums -----------------------------------------------------------------------------------------------------

    def _all_reduce(self, x: Array, tag: int, reduce: Reduce = tree_sum_into) -> Array:
        if x.nbytes * self.size <= _SMALL:
            total = np.empty(x.size, x.dtype)
            reduce(total, list(_rows(self._gathered(x, tag))))
            return total.reshape(x.shape)
        flat = np.ascontiguousarray(x).reshape(-1)
        total = recycler.empty(flat.shape, x.dtype)
        each = -(-flat.size // self.size)
        ends = [min(k * each, flat.size) for k in range(self.size + 1)]
        blocks, totals = ([array[a:b] for a, b in pairwise(ends)] for array in (flat, total))
        self._reduce_blocks(blocks, totals[self.rank], totals, tag, reduce)
        return total.reshape(x.shape)

    def _reduce_scatter(self, x: Array, axis: int, tag: int) -> Array:
        blocks = _cut(x, axis, self.size)
        total = recycler.empty(blocks.shape[1:], x.dtype)
        self._reduce_blocks(list(_rows(blocks)), total.reshape(-1), [], tag, tree_sum_into)
        return total

    def _reduce_blocks(
        self, blocks: Sequence[Array], total: Array, totals: Sequence[Array], tag: int, reduce: Reduce
    ) -> None:
        """Reduce over all ranks what each has for this one; then gather the totals of all ranks, if there are some."""
        own, gathers = blocks[self.rank], bool(totals)
        chunk = max(_LEAST_CHUNK, _CHUNKS // self.size) // total.itemsize
        received = self._received(min(chunk, total.size), total.dtype)
        for start in range(0, blocks[0].size + gathers * chunk, chunk):  # the first block is the longest
            now, before = slice(start, start + chunk), slice(max(start - chunk, 0), start)
            here = total[now]
            parts = [part[: here.size] for part in received]
            sends, receives = self._others([block[now] for block in blocks]), self._others(parts)
            if gathers:
                sends += self._others([total[before]] * self.size)
                receives += self._others([t[before] for t in totals])
            self.transfer(sends, receives, tag)
            parts[self.rank] = own[now]
            reduce(here, parts)

    def _received(self, elements: int, dtype: np.dtype[Any]) -> Array:
        """Memory for a chunk from every rank, kept from call to call: fresh pages cost as much as the message."""
        needed = self.size * elements * dtype.itemsize
        if self._scratch.size < needed:
            self._scratch = np.empty(needed, np.uint8)
        return self._scratch[:needed].view(dtype).reshape(self.size, elements)

    # --- exchanges ------------------------------------------------------------------------------------------------

    def _gathered(self, x: Array, tag: int) -> Array:
        """The values of all ranks, stacked."""
        whole = recycler.empty((self.size, *x.shape), x.dtype)
        if self.size > 2 and 0 < x.nbytes <= _HALVING:
            return self._gathered_by_doubling(x, whole, tag)
        whole[self.rank] = x
        rows = _rows(whole)
        self.transfer(self._others([rows[self.rank]] * self.size), self._others(list(rows)), tag)
        return whole

    def _gathered_by_doubling(self, x: Array, whole: Array, tag: int) -> Array:
        """Bruck's algorithm: after each step a rank has twice as many blocks, those from its own on."""
        have = np.empty_like(whole)
        have[0] = x
        count = 1
        while count < self.size:
            more = min(count, self.size - count)
            towards, source = (self.rank - count) % self.size, (self.rank + count) % self.size
            self.transfer([(towards, have[:more])], [(source, have[count : count + more])], tag)
            count += more
        whole[self.rank :] = have[: self.size - self.rank]
        whole[: self.rank] = have[self.size - self.rank :]
        return whole

    def _exchanged(self, blocks: Array, tag: int) -> Array:
        """From every rank its block for this one, stacked."""
        result = recycler.empty(blocks.shape, blocks.dtype)
        result[self.rank] = blocks[self.rank]
        self.transfer(self._others(list(_rows(blocks))), self._others(list(_rows(result))), tag)
        return result

    def _ppermute(self, x: Array, shift: int, tag: int) -> Array:
        if shift % self.size == 0 or not x.size:
            return x
        x = np.ascontiguousarray(x).reshape(x.shape)
        result = recycler.empty(x.shape, x.dtype)
        towards, source = (self.rank + shift) % self.size, (self.rank - shift) % self.size
        self.transfer([(towards, x)], [(source, result)], tag)
        return result

    def _others(self, blocks: Sequence[Array]) -> list[Message]:
        """The blocks that are not empty of the other ranks, those after this one first: not all turn to rank 0."""
        ranks = [(self.rank + k) % self.size for k in range(1, self.size)]
        return [(k, blocks[k]) for k in ranks if blocks[k].size]


def _largest(out: Array, parts: Sequence[Array]) -> None:
    np.maximum(parts[0], parts[1], out=out)
    for part in parts[2:]:
        np.maximum(out, part, out=out)


def _rows(stacked: Array) -> Array:
    """What is stacked, flat: a view."""
    return stacked.reshape(stacked.shape[0], -1)


def _cut(x: Array, axis: int, count: int) -> Array:
    """The blocks along an axis, stacked and contiguous."""
    apart = x.reshape(*x.shape[:axis], count, x.shape[axis] // count, *x.shape[axis + 1 :])
    return np.ascontiguousarray(np.moveaxis(apart, axis, 0))


def _joined(blocks: Array, axis: int) -> Array:
    """Stacked blocks side by side along an axis."""
    count, *shape = blocks.shape
    shape[axis] *= count
    return np.ascontiguousarray(np.moveaxis(blocks, 0, axis)).reshape(shape)
