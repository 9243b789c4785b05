"""Every collective over one primitive: messages between pairs of ranks. Sums are added in the order of `tree_sum`.

An engine only transfers bytes from one rank to another (`transfer`). Summation, its order, and the slicing of arrays
are implemented here, so that all engines give the same bits.

A large sum is a reduce-scatter and an all-gather, in chunks that fit the cache: each rank receives its block of every
other rank's array, adds, and sends the total to all. The exchange of one chunk overlaps with the all-gather of the
previous chunk. For a small sum, every rank gathers all arrays and adds them itself: one message instead of two.
"""

from __future__ import annotations

import zlib
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np

from wengert.backends.cpu.recycle import recycler
from wengert.core import communication
from wengert.core.communication import Array, current, tree_sum_into
from wengert.core.errors import DistributedError

Message = tuple[int, Array]
"""A rank of the group, and the bytes (contiguous, of any dtype) that go to it or come from it."""

Result = TypeVar("Result")

Reduce = Callable[[Array, Sequence[Array]], None]
"""What puts together the parts of all ranks, into an array."""

_SMALL = 1 << 17  # bytes of all ranks together: below, every rank gathers all and adds for itself
_CHUNKS = 2 << 20  # bytes that a rank works on at a time, of all ranks; 1 MB from each of two was the fastest
_LEAST_CHUNK = 1 << 16
_PACKED = 1 << 15  # bytes; smaller arrays are joined, which costs a copy and saves messages
_HALVING = 1 << 13  # bytes: blocks up to this are gathered in log2(size) steps, which costs copies and saves messages


class OrderedCommunicator(ABC):
    """One rank's end of a group, over messages. `members` are ranks of the world, `rank` is this one's index there."""

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
        """Send and receive these messages; returns when all are done. Messages between two ranks arrive in order.

        A tag is a number below 2**15, the same at both ends.
        """

    # --- the protocol ---------------------------------------------------------------------------------------------

    def all_reduce(self, x: Array, out: Array | None = None) -> Array:
        """The sum over the ranks, on each of them; in `out`, if that is given."""
        return self.all_reduce_many([x], None if out is None else [out])[0]

    def all_reduce_many(self, xs: Sequence[Array], out: Sequence[Array] | None = None) -> list[Array]:
        """The sums over the ranks of several arrays of one dtype; in `out`, if that is given."""
        return self._watched("all_reduce", _bytes(xs), lambda tag: self._all_reduce(xs, out, tag))

    def all_reduce_max(self, x: Array) -> Array:
        """The maximum over the ranks, on each of them; NaN if one rank has NaN."""
        return self._watched("all_reduce_max", x.nbytes, lambda tag: self._all_reduce([x], None, tag, _largest))[0]

    def all_gather(self, x: Array, axis: int, out: Array | None = None) -> Array:
        """The values of all ranks joined along an axis, in rank order; in `out`, if that is given."""
        return self._watched("all_gather", x.nbytes, lambda tag: self._all_gather(x, axis, out, tag))

    def reduce_scatter(self, x: Array, axis: int, out: Array | None = None) -> Array:
        """This rank's block, along an axis, of the sum over the ranks; in `out`, if that is given."""
        return self._watched("reduce_scatter", x.nbytes, lambda tag: self._reduce_scatter(x, axis, out, tag))

    def ppermute(self, x: Array, shift: int) -> Array:
        """The value of the rank `shift` positions before this one, around the ring."""
        return self._watched("ppermute", x.nbytes, lambda tag: self._ppermute(x, shift, tag))

    def all_to_all(self, x: Array, split: int, join: int) -> Array:
        """Blocks from every rank, split along `split` and joined along `join` in rank order."""
        return self._watched(
            "all_to_all", x.nbytes, lambda tag: _side_by_side(self._exchanged(_cut(x, split, self.size), tag), join)
        )

    def send(self, x: Array, target: int) -> None:
        """Send a value to one rank, which receives it."""
        x = np.ascontiguousarray(x)
        tag = self._message_tag(self.rank, target, x)
        if x.size:
            pair = self.members[self.rank], self.members[target]
            self._under_watch("message", x.nbytes, lambda: self.transfer([(target, x)], [], tag), pair)

    def receive(self, shape: tuple[int, ...], dtype: Any, source: int) -> Array:
        """The next value that one rank sends to this one."""
        x = recycler.empty(shape, np.dtype(dtype))
        tag = self._message_tag(source, self.rank, x)
        if x.size:
            pair = self.members[source], self.members[self.rank]
            self._under_watch("message", x.nbytes, lambda: self.transfer([], [(source, x)], tag), pair)
        return x

    def _message_tag(self, source: int, target: int, x: Array) -> int:
        """The tag of a point-to-point message: its sequence number between the two ranks."""
        number = self._messages[source, target] = self._messages.get((source, target), 0) + 1
        return self._tag(f"{source} to {target} {number}", x.nbytes)

    def barrier(self) -> None:
        """Returns when all ranks have called it."""
        self._watched("barrier", 1, lambda tag: self._gathered(np.zeros(1, np.uint8), tag))

    def _watched(self, name: str, size: int, compute: Callable[[int], Result]) -> Result:
        """Run, with a tag, an operation that all ranks of the group share, of this many bytes per rank."""
        self._calls += 1
        tag = self._tag(f"{self._calls} {name}", size)
        ranks = () if self.size == current.size else tuple(self.members)
        return self._under_watch(name, size, lambda: compute(tag), ranks)

    def _tag(self, key: str, size: int) -> int:
        """Ranks in different collectives then wait for each other (until a deadline) instead of mixing their data."""
        return zlib.crc32(f"{self.name} {key} {size}".encode()) & 0x7FFF

    def _under_watch(self, name: str, size: int, compute: Callable[[], Result], ranks: tuple[int, ...]) -> Result:
        """Run under the watcher. If this raises, the rank has not left the collective, and the world ends."""
        if self.ended:
            raise DistributedError(f"{name} over {self.name}: {self.ended}", current.location)
        communication.drain()  # ranks carry out one collective after the other, wherever values lie
        current.collectives += 1
        watcher = communication.watcher
        if watcher is None:
            return compute()
        number = current.entered[ranks] = current.entered.get(ranks, 0) + 1  # the stages of a pipeline enter others
        watcher.entering(number, name, size, current.location, ranks)
        result = compute()
        watcher.left()
        return result

    # --- sums -----------------------------------------------------------------------------------------------------

    def _all_reduce(
        self, xs: Sequence[Array], out: Sequence[Array] | None, tag: int, reduce: Reduce = tree_sum_into
    ) -> list[Array]:
        """Reduce arrays: small ones joined, large ones in place."""
        totals = [recycler.empty(x.shape, x.dtype) for x in xs] if out is None else list(out)
        size = _bytes(xs)
        is_small = size * self.size <= _SMALL
        packed = [k for k, x in enumerate(xs) if len(xs) > 1 and (is_small or x.nbytes < _PACKED)]
        rest = [k for k in range(len(xs)) if k not in set(packed)]
        sources = [np.ascontiguousarray(xs[k]).reshape(-1) for k in rest]
        sums = [totals[k].reshape(-1) for k in rest]
        if packed:
            sources.append(np.concatenate([xs[k].reshape(-1) for k in packed]))
            sums.append(np.empty_like(sources[-1]))
        if is_small:
            reduce(sums[0], list(_rows(self._gathered(sources[0], tag))))
        else:
            whole, total = JoinedArrays(sources), JoinedArrays(sums)
            each = -(-whole.size // self.size)
            ends = [min(k * each, whole.size) for k in range(self.size + 1)]
            blocks, totals_of = ([JoinedArrays(arrays[a:b]) for a, b in pairwise(ends)] for arrays in (whole, total))
            self._reduce_blocks(blocks, totals_of[self.rank], totals_of, tag, reduce)
        if packed:
            for k, part in zip(packed, np.split(sums[-1], np.cumsum([xs[k].size for k in packed])[:-1])):
                totals[k][...] = part.reshape(xs[k].shape)
        return totals

    def _reduce_scatter(self, x: Array, axis: int, out: Array | None, tag: int) -> Array:
        blocks = _cut(x, axis, self.size)
        total = recycler.empty(blocks.shape[1:], x.dtype) if out is None else out
        rows = [JoinedArrays([row]) for row in _rows(blocks)]
        self._reduce_blocks(rows, JoinedArrays([total.reshape(-1)]), [], tag, tree_sum_into)
        return total

    def _reduce_blocks(
        self,
        blocks: Sequence[JoinedArrays],
        total: JoinedArrays,
        totals: Sequence[JoinedArrays],
        tag: int,
        reduce: Reduce,
    ) -> None:
        """Reduce this rank's block over all ranks; then gather the totals of all ranks, if requested.

        Totals may share memory with the blocks: whatever is overwritten has been sent.
        """
        own, gathers = blocks[self.rank], bool(totals)
        chunk = max(_LEAST_CHUNK, _CHUNKS // self.size) // own.dtype.itemsize
        received = self._received(min(chunk, total.size), own.dtype)
        for start in range(0, blocks[0].size + gathers * chunk, chunk):  # the first block is the longest
            now, before = slice(start, start + chunk), slice(max(start - chunk, 0), start)
            here = total[now]
            ends = np.cumsum([part.size for part in here]).tolist()
            parts = [[row[end - part.size : end] for end, part in zip(ends, here)] for row in received]
            sends, receives = self._others([block[now] for block in blocks]), self._others(parts)
            if gathers:
                sends += self._others([total[before]] * self.size)
                receives += self._others([t[before] for t in totals])
            self.transfer(sends, receives, tag)
            parts[self.rank] = own[now]
            for k, part in enumerate(here):
                reduce(part, [of_rank[k] for of_rank in parts])

    def _received(self, elements: int, dtype: np.dtype[Any]) -> Array:
        """Memory for a chunk from every rank, reused between calls: fresh pages cost as much as the message."""
        needed = self.size * elements * dtype.itemsize
        if self._scratch.size < needed:
            self._scratch = np.empty(needed, np.uint8)
        return self._scratch[:needed].view(dtype).reshape(self.size, elements)

    # --- exchanges ------------------------------------------------------------------------------------------------

    def _all_gather(self, x: Array, axis: int, out: Array | None, tag: int) -> Array:
        if out is None:
            return _side_by_side(self._gathered(x, tag), axis)
        if axis == 0:
            self._gathered(x, tag, out.reshape(self.size, *x.shape))
            return out
        apart = out.reshape(*x.shape[:axis], self.size, *x.shape[axis:])
        np.copyto(apart, np.moveaxis(self._gathered(x, tag), 0, axis))
        return out

    def _gathered(self, x: Array, tag: int, whole: Array | None = None) -> Array:
        """The values of all ranks, stacked."""
        whole = recycler.empty((self.size, *x.shape), x.dtype) if whole is None else whole
        if self.size > 2 and 0 < x.nbytes <= _HALVING:
            return self._gathered_by_doubling(x, whole, tag)
        whole[self.rank] = x
        rows = _apart(whole)
        self.transfer(self._others([rows[self.rank]] * self.size), self._others(rows), tag)
        return whole

    def _gathered_by_doubling(self, x: Array, whole: Array, tag: int) -> Array:
        """Bruck's algorithm: every step doubles the number of blocks that a rank has, starting from its own."""
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
        """The block that each rank has for this one, stacked."""
        result = recycler.empty(blocks.shape, blocks.dtype)
        result[self.rank] = blocks[self.rank]
        self.transfer(self._others(_apart(blocks)), self._others(_apart(result)), tag)
        return result

    def _ppermute(self, x: Array, shift: int, tag: int) -> Array:
        if shift % self.size == 0 or not x.size:
            return x
        x = np.ascontiguousarray(x).reshape(x.shape)
        result = recycler.empty(x.shape, x.dtype)
        towards, source = (self.rank + shift) % self.size, (self.rank - shift) % self.size
        self.transfer([(towards, x)], [(source, result)], tag)
        return result

    def _others(self, blocks: Sequence[Sequence[Array]]) -> list[Message]:
        """The nonempty pieces of other ranks' blocks, starting after this rank, so that not all begin with rank 0."""
        ranks = [(self.rank + k) % self.size for k in range(1, self.size)]
        return [(k, piece) for k in ranks for piece in blocks[k] if piece.size]


class JoinedArrays:
    """Flat arrays treated as one concatenated array: a slice of it is a list of views.

    >>> [piece.tolist() for piece in JoinedArrays([np.arange(3), np.arange(10, 14)])[2:5]]
    [[2], [10, 11]]
    """

    def __init__(self, arrays: Sequence[Array]) -> None:
        self.arrays = arrays
        self.dtype: np.dtype[Any] = arrays[0].dtype if arrays else np.dtype(np.uint8)
        self.ends = np.cumsum([array.size for array in arrays]).tolist()
        self.size: int = self.ends[-1] if arrays else 0

    def __getitem__(self, part: slice) -> list[Array]:
        start, stop = part.start, min(part.stop, self.size)
        found, k = [], bisect_right(self.ends, start)
        while start < stop:
            begin, end = self.ends[k] - self.arrays[k].size, min(self.ends[k], stop)
            found.append(self.arrays[k][start - begin : end - begin])
            start, k = end, k + 1
        return found


def _bytes(arrays: Sequence[Array]) -> int:
    return sum(array.nbytes for array in arrays)


def _largest(out: Array, parts: Sequence[Array]) -> None:
    np.maximum(parts[0], parts[1], out=out)
    for part in parts[2:]:
        np.maximum(out, part, out=out)


def _rows(stacked: Array) -> Array:
    """A stack, flattened: a view."""
    return stacked.reshape(stacked.shape[0], -1)


def _apart(stacked: Array) -> list[list[Array]]:
    """The stacked blocks, each flattened to one piece."""
    return [[row] for row in _rows(stacked)]


def _cut(x: Array, axis: int, count: int) -> Array:
    """The blocks along an axis, stacked and contiguous."""
    apart = x.reshape(*x.shape[:axis], count, x.shape[axis] // count, *x.shape[axis + 1 :])
    return np.ascontiguousarray(np.moveaxis(apart, axis, 0))


def _side_by_side(blocks: Array, axis: int) -> Array:
    """Stacked blocks, joined along an axis."""
    count, *shape = blocks.shape
    shape[axis] *= count
    return np.ascontiguousarray(np.moveaxis(blocks, 0, axis)).reshape(shape)
