"""Communication: what a collective asks of the engine that carries it out, and which engine serves this process.

A `Communicator` is one rank's end of a group. It takes and gives host arrays; all ranks of the group make the same
calls in the same order. Sums are added in one fixed order, `tree_sum`, whichever engine carries them out, so that
every engine and a simulation in one process give the same bits.

Until a world is started there is one rank: `communicator` gives `Alone` for groups of one, and raises for others.
While a world runs, `watcher` may look on: engines tell it when this rank enters and leaves a collective.

Values on a GPU may stay there: a `DeviceEngine` puts collectives on the GPU's stream, as calls beside kernels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np

from wengert.core.code import Location
from wengert.core.errors import ArgumentError
from wengert.core.mesh import Group, Mesh

Array = np.ndarray[Any, Any]


class Communicator(Protocol):
    """One rank's end of a group."""

    rank: int
    size: int

    def all_reduce(self, x: Array, out: Array | None = None) -> Array:
        """The sum over the ranks, on each of them; in `out`, if that is given."""
        ...

    def all_reduce_many(self, xs: Sequence[Array], out: Sequence[Array] | None = None) -> list[Array]:
        """The sums over the ranks of several arrays of one dtype; in `out`, if that is given."""
        ...

    def all_reduce_max(self, x: Array) -> Array:
        """The largest over the ranks, on each of them; NaN where one has NaN."""
        ...

    def all_gather(self, x: Array, axis: int, out: Array | None = None) -> Array:
        """The values of all ranks side by side along an axis, in order; in `out`, if that is given."""
        ...

    def reduce_scatter(self, x: Array, axis: int, out: Array | None = None) -> Array:
        """This rank's block, along an axis, of the sum over the ranks; in `out`, if that is given."""
        ...

    def ppermute(self, x: Array, shift: int) -> Array:
        """The value of the rank `shift` places before this one, around the ring."""
        ...

    def all_to_all(self, x: Array, split: int, join: int) -> Array:
        """A block of every rank, cut along `split` and put side by side along `join`: this rank's, in their order."""
        ...

    def send(self, x: Array, target: int) -> None:
        """Send a value to one rank, which receives it."""
        ...

    def receive(self, shape: tuple[int, ...], dtype: Any, source: int) -> Array:
        """What one rank sends, in the order in which it does."""
        ...


class DeviceCommunicator(Protocol):
    """One rank's end of a group, for values on its GPU: every call goes on a stream, and is done when that gets there.

    Values are contiguous, and given by their addresses. Blocks are those along the first axis.
    """

    rank: int
    size: int

    def all_reduce(
        self, sources: Sequence[int], results: Sequence[int], counts: Sequence[int], dtype: Any, stream: int
    ) -> None:
        """The sums over the ranks of several values of so many elements, in the engine's order; they may lie on them.

        Of two ranks there is one order. Of booleans the sum is whether one is true.
        """
        ...

    def all_reduce_max(self, source: int, result: int, count: int, dtype: Any, stream: int) -> None:
        """The largest over the ranks; of integers alone, which have no NaN."""
        ...

    def all_gather(self, source: int, result: int, size: int, stream: int) -> None:
        """The bytes of all ranks, so many of each, one behind the other."""
        ...

    def reduce_scatter(self, source: int, result: int, count: int, dtype: Any, stream: int) -> None:
        """This rank's block, of so many elements, of the sum over the ranks, in the engine's order."""
        ...

    def ppermute(self, source: int, result: int, size: int, shift: int, stream: int) -> None:
        """The bytes of the rank `shift` places before this one."""
        ...

    def all_to_all(self, source: int, result: int, size: int, stream: int) -> None:
        """From every rank its block for this one, of so many bytes, one behind the other."""
        ...


class PointInTime(Protocol):
    """A point of a stream: an event of the driver."""

    def is_done(self) -> bool:
        """Whether the device has reached it."""
        ...


class DeviceEngine(Protocol):
    """What carries out collectives of values on a GPU."""

    def find(self, group: Group) -> DeviceCommunicator:
        """This rank's end of a group."""
        ...

    def launched(self, driver: Any, name: str, count: int, size: int, location: Location) -> None:
        """So many collectives, of so many bytes a rank, were put on the stream of a GPU's driver."""
        ...

    def drain(self) -> None:
        """Return when all that was launched is done."""
        ...


def tree_sum(parts: Sequence[Any], add: Callable[[Any, Any], Any] = np.add) -> Any:
    """The sum of some parts in a balanced tree: the first half and the second half, each added so, then both.

    Neighbouring parts that are a subtree may be added anywhere, and the whole has the same bits.

    >>> tree_sum(["a", "b", "c", "d"], lambda x, y: f"({x}+{y})")
    '((a+b)+(c+d))'
    """
    if len(parts) == 1:
        return parts[0]
    half = (len(parts) + 1) // 2
    return add(tree_sum(parts[:half], add), tree_sum(parts[half:], add))


def tree_sum_into(out: Array, parts: Sequence[Array]) -> None:
    """The sum of two or more arrays in the order of `tree_sum`, written to an array."""
    half = (len(parts) + 1) // 2
    np.add(tree_sum(parts[:half]), tree_sum(parts[half:]), out=out)


class Alone:
    """The only rank of a group of one: every collective is the value itself."""

    rank = 0
    size = 1

    def __init__(self) -> None:
        self._sent: list[Array] = []

    def all_reduce(self, x: Array, out: Array | None = None) -> Array:
        """The value."""
        return x if out is None else _copied(x, out)

    def all_reduce_max(self, x: Array) -> Array:
        """The value."""
        return x

    def all_reduce_many(self, xs: Sequence[Array], out: Sequence[Array] | None = None) -> list[Array]:
        """The values."""
        return list(xs) if out is None else [_copied(x, o) for x, o in zip(xs, out)]

    def all_gather(self, x: Array, axis: int, out: Array | None = None) -> Array:
        """The value."""
        return x if out is None else _copied(x, out)

    reduce_scatter = all_gather

    def ppermute(self, x: Array, shift: int) -> Array:
        """The value."""
        return x

    def all_to_all(self, x: Array, split: int, join: int) -> Array:
        """The value."""
        return x

    def send(self, x: Array, target: int) -> None:
        """Keep a value for `receive`."""
        self._sent.append(x.copy())

    def receive(self, shape: tuple[int, ...], dtype: Any, source: int) -> Array:
        """The first value that was sent."""
        return self._sent.pop(0)


def _copied(x: Array, out: Array) -> Array:
    out[...] = x
    return out


ALONE = Alone()


class Current:
    """The world that this process is in: how many ranks, which one, and who finds the communicator of a group."""

    def __init__(self) -> None:
        self.rank = 0
        self.size = 1
        self.find: Callable[[Group], Communicator] | None = None
        self.on_device: DeviceEngine | None = None  # what carries out collectives of values on a GPU, if anything does
        self.overlaps = False  # whether there is a core to spare for a thread that communicates
        self.collectives = 0  # how many this process has entered
        self.entered: dict[tuple[int, ...], int] = {}  # how many of each group of ranks; () for all of them
        self.location: Location = None  # of the collective that is computed, the user's line

    def group(self) -> Group:
        """All ranks, as one axis."""
        return Mesh(ranks=self.size).whole


current = Current()


def drain() -> None:
    """Return when collectives on a GPU are done: until then a wait in the driver could not be interrupted."""
    if current.on_device is not None:
        current.on_device.drain()


class Watcher(Protocol):
    """Who is told where this rank is, so that others need not guess why they wait."""

    def entering(self, number: int, name: str, bytes: int, location: Location, ranks: Sequence[int]) -> None:
        """This rank enters a collective: its number among those of these ranks, name, bytes given, line, ranks (none
        for all). Of a message the ranks are who sends it and who receives it, in this order.
        """
        ...

    def left(self) -> None:
        """The collective is done."""
        ...

    def during(self, state: str) -> AbstractContextManager[None]:
        """Inside, this rank does something that takes as long as it takes: "compiling", "loading data", "saving"."""
        ...

    def step(self) -> None:
        """The next step begins: a call of a program that all ranks run together."""
        ...

    def saved(self, checkpoint: str) -> None:
        """A checkpoint is complete; this is said of it where a rank is lost."""
        ...

    def agree(self, key: str, digest: str, describe: Callable[[], Sequence[str]]) -> None:
        """Return when all ranks have the same digest; raise otherwise, with what differs of what `describe` gives."""
        ...


watcher: Watcher | None = None
"""Set by `wg.distributed.start` where there is a control plane."""


def during(state: str) -> AbstractContextManager[None]:
    """Say what this rank does inside, if anybody listens: others wait for it without counting the seconds."""
    return nullcontext() if watcher is None else watcher.during(state)


def communicator(group: Group) -> Communicator:
    """This rank's end of a group."""
    if group.size == 1:
        return ALONE
    _check(group)
    assert current.find is not None
    return current.find(group)


def device_communicator(group: Group) -> DeviceCommunicator:
    """This rank's end of a group, for values on its GPU."""
    _check(group)
    if current.on_device is None:
        raise ArgumentError(f"nothing carries out collectives over {group} on a GPU: this world has no NCCL")
    return current.on_device.find(group)


def _check(group: Group) -> None:
    """Raise where there is no such group in this world."""
    if group.mesh.size != current.size or current.find is None:
        raise ArgumentError(
            f"a collective over {group} needs {group.mesh.size} ranks, and there {_are(current.size)}. Start them with "
            f"`wengert launch -n {group.mesh.size}` and wg.distributed.start(), or use wg.distributed.simulate"
        )


def _are(count: int) -> str:
    return "is 1" if count == 1 else f"are {count}"


def group_rank(group: Group) -> int:
    """The number of this rank within its group."""
    return 0 if group.size == 1 else communicator(group).rank
