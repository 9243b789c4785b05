"""Communication: the interface between collectives and the engines that run them, and this process's engine.

A `Communicator` is one rank's end of a group. It takes and returns host arrays; all ranks of the group make the same
calls in the same order. Sums are added in one fixed order, `tree_sum`, whichever engine runs them, so every engine and
a simulation in one process give the same bits.

Until a world is started there is one rank: `communicator` returns `Alone` for groups of one, and raises otherwise.
While a world runs, a `watcher` may be set: engines report to it when this rank enters and leaves a collective.

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
        """The maximum over the ranks, on each of them; NaN where one has NaN."""
        ...

    def all_gather(self, x: Array, axis: int, out: Array | None = None) -> Array:
        """The values of all ranks concatenated along an axis, in order; in `out`, if given."""
        ...

    def reduce_scatter(self, x: Array, axis: int, out: Array | None = None) -> Array:
        """This rank's block, along an axis, of the sum over the ranks; in `out`, if that is given."""
        ...

    def ppermute(self, x: Array, shift: int) -> Array:
        """The value of the rank `shift` positions before this one, around the ring."""
        ...

    def all_to_all(self, x: Array, split: int, join: int) -> Array:
        """This rank's block from every rank, split along `split` and concatenated along `join` in rank order."""
        ...

    def send(self, x: Array, target: int) -> None:
        """Send a value to one rank."""
        ...

    def receive(self, shape: tuple[int, ...], dtype: Any, source: int) -> Array:
        """Receive the next value that a rank has sent."""
        ...


class DeviceCommunicator(Protocol):
    """One rank's end of a group, for values on its GPU: every call is enqueued on a stream, and done when the stream
    reaches it.

    Values are contiguous, and given by their addresses. Blocks are those along the first axis.
    """

    rank: int
    size: int

    def all_reduce(
        self, sources: Sequence[int], results: Sequence[int], counts: Sequence[int], dtype: Any, stream: int
    ) -> None:
        """The sums over the ranks of several values of the given lengths, in the engine's order; they may be in place.
        For two ranks there is only one order. The sum of booleans is their logical or.
        """
        ...

    def all_reduce_max(self, source: int, result: int, count: int, dtype: Any, stream: int) -> None:
        """The maximum over the ranks; for integers only, which have no NaN."""
        ...

    def all_gather(self, source: int, result: int, size: int, stream: int) -> None:
        """The bytes of all ranks, concatenated."""
        ...

    def reduce_scatter(self, source: int, result: int, count: int, dtype: Any, stream: int) -> None:
        """This rank's block of the sum over the ranks, in the engine's order."""
        ...

    def ppermute(self, source: int, result: int, size: int, shift: int, stream: int) -> None:
        """The bytes of the rank `shift` positions before this one."""
        ...

    def all_to_all(self, source: int, result: int, size: int, stream: int) -> None:
        """The blocks from every rank for this one, concatenated."""
        ...


class PointInTime(Protocol):
    """A point of a stream: an event of the driver."""

    def is_done(self) -> bool:
        """Whether the device has reached it."""
        ...


class DeviceEngine(Protocol):
    """The engine that runs collectives on GPU values."""

    def find(self, group: Group) -> DeviceCommunicator:
        """This rank's end of a group."""
        ...

    def launched(self, driver: Any, name: str, count: int, size: int, location: Location) -> None:
        """Note that collectives, of this many bytes per rank, were put on the stream of a GPU's driver."""
        ...

    def drain(self) -> None:
        """Wait until everything launched is done."""
        ...


def tree_sum(parts: Sequence[Any], add: Callable[[Any, Any], Any] = np.add) -> Any:
    """The sum of some parts in a balanced tree: the sums of the first and the second half, each added likewise, are
    added.

    Neighbouring parts that form a subtree may be added anywhere without changing the bits of the result.

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
    """The current world: its number of ranks, this process's rank, and how to find a group's communicator."""

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
    """Wait until collectives on a GPU are done; before that, a wait in the driver could not be interrupted."""
    if current.on_device is not None:
        current.on_device.drain()


class Watcher(Protocol):
    """Receives reports about this rank's progress, so that other ranks know why they wait."""

    def entering(self, number: int, name: str, bytes: int, location: Location, ranks: Sequence[int]) -> None:
        """This rank enters a collective: its number among those of these ranks, name, bytes, line, ranks (none for
        all). For a message the ranks are its sender and its receiver, in this order.
        """
        ...

    def left(self) -> None:
        """The collective is done."""
        ...

    def during(self, state: str) -> AbstractContextManager[None]:
        """A context in which this rank does something of unknown length: "compiling", "loading data", "saving"."""
        ...

    def step(self) -> None:
        """The next step begins: a call of a program that all ranks run together."""
        ...

    def saved(self, checkpoint: str) -> None:
        """A checkpoint is complete; this text is shown if a rank is lost."""
        ...

    def agree(self, key: str, digest: str, describe: Callable[[], Sequence[str]]) -> None:
        """Return when all ranks have the same digest; otherwise raise an error with the difference between their
        `describe()` texts."""
        ...


watcher: Watcher | None = None
"""Set by `wg.distributed.start` where there is a control plane."""


def during(state: str) -> AbstractContextManager[None]:
    """A context that reports what this rank does: other ranks wait for it without counting the seconds."""
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
        raise ArgumentError(f"collectives over {group} on a GPU are not supported: this world has no NCCL")
    return current.on_device.find(group)


def _check(group: Group) -> None:
    """Raise an error where there is no such group in this world."""
    if group.mesh.size != current.size or current.find is None:
        raise ArgumentError(
            f"a collective over {group} needs {group.mesh.size} ranks, but there {_are(current.size)}. Start them with "
            f"`wengert launch -n {group.mesh.size}` and wg.distributed.start(), or use wg.distributed.simulate"
        )


def _are(count: int) -> str:
    return "is 1" if count == 1 else f"are {count}"


def group_rank(group: Group) -> int:
    """The number of this rank within its group."""
    return 0 if group.size == 1 else communicator(group).rank
