"""All ranks of a mesh as threads of one process, each running a program of its own: for graphs that differ by rank.

Sends are rendezvous: a rank goes on when the other one has received. Ranks that wait for each other in a circle raise
at once, in all threads.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from wengert.core import communication
from wengert.core.communication import Current, current, tree_sum
from wengert.core.mesh import Group, Mesh


class Deadlock(Exception):
    """All ranks wait."""


class Wires:
    """What goes on between the ranks."""

    def __init__(self, mesh: Mesh) -> None:
        self.mesh = mesh
        self.running = mesh.size
        self.changed = threading.Condition()
        self.waiting: dict[int, Callable[[], bool]] = {}
        self.boxes: dict[tuple[int, int], deque[Any]] = defaultdict(deque)
        self.meetings: dict[tuple[Any, int], dict[int, Any]] = defaultdict(dict)
        self.counts: dict[tuple[int, Group], int] = defaultdict(int)
        self.log: dict[int, list[str]] = defaultdict(list)
        self.stuck = ""

    def wait(self, rank: int, what: str, ready: Callable[[], bool]) -> None:
        """Wait, with the lock held, until something is ready."""
        self.log[rank].append(what)
        self.waiting[rank] = ready
        self.changed.notify_all()
        self.check()
        while not ready():
            if self.stuck:
                raise Deadlock(self.stuck)
            self.changed.wait(60)
        del self.waiting[rank]

    def check(self) -> None:
        if len(self.waiting) == self.running and self.running and not any(ready() for ready in self.waiting.values()):
            self.stuck = f"all wait: { {rank: log[-1] for rank, log in self.log.items()} }"
            self.changed.notify_all()

    def left(self) -> None:
        with self.changed:
            self.running -= 1
            self.check()


def _into(result, out):
    if out is None:
        return result
    out[...] = result
    return out


class Ends:
    """One rank's end of a group."""

    def __init__(self, wires: Wires, group: Group, world_rank: int) -> None:
        self.wires, self.group, self.me = wires, group, world_rank
        self.members = group.members(world_rank)
        self.rank, self.size = group.rank_of(world_rank), group.size

    def _met(self, name: str, x: Any) -> list[Any]:
        wires, number = self.wires, self.wires.counts[self.me, self.group]
        wires.counts[self.me, self.group] += 1
        meeting = wires.meetings[(self.members, number)]
        with wires.changed:
            meeting[self.rank] = (name, np.array(x))
            wires.wait(self.me, f"{name} over {self.group}", lambda: len(meeting) == self.size)
        assert {other for other, _ in meeting.values()} == {name}
        return [meeting[k][1] for k in range(self.size)]

    def all_reduce(self, x, out=None):
        return _into(tree_sum(self._met("all_reduce", x)), out)

    def all_reduce_many(self, xs, out=None):
        return [self.all_reduce(x, out and out[k]) for k, x in enumerate(xs)]

    def all_reduce_max(self, x):
        return tree_sum(self._met("all_reduce_max", x), np.maximum)

    def all_gather(self, x, axis, out=None):
        return _into(np.concatenate(self._met("all_gather", x), axis), out)

    def reduce_scatter(self, x, axis, out=None):
        return _into(np.split(tree_sum(self._met("reduce_scatter", x)), self.size, axis)[self.rank], out)

    def ppermute(self, x, shift):
        return self._met("ppermute", x)[(self.rank - shift) % self.size]

    def all_to_all(self, x, split, join):
        parts = [np.split(part, self.size, split)[self.rank] for part in self._met("all_to_all", x)]
        return np.concatenate(parts, join)

    def send(self, x, target):
        wires, box = self.wires, self.wires.boxes[self.me, self.members[target]]
        with wires.changed:
            letter = [np.array(x)]
            box.append(letter)
            wires.wait(self.me, f"send {x.shape} to {self.members[target]}", lambda: not letter)

    def receive(self, shape, dtype, source):
        wires, box = self.wires, self.wires.boxes[self.members[source], self.me]
        with wires.changed:
            wires.wait(self.me, f"receive {shape} from {self.members[source]}", lambda: bool(box))
            x = box.popleft().pop()
            wires.changed.notify_all()
        assert (x.shape, x.dtype) == (shape, dtype), f"{x.shape} {x.dtype} came in place of {shape} {dtype}"
        return x


_thread = threading.local()


class _ThreadsCurrent(Current):
    rank = property(lambda self: _thread.rank, lambda self, rank: setattr(_thread, "rank", rank))


@contextmanager
def _threads(mesh: Mesh) -> Iterator[Wires]:
    wires = Wires(mesh)
    before = current.__class__, current.rank, current.size, current.find
    del current.rank
    current.__class__ = _ThreadsCurrent
    current.rank = 0
    current.size = mesh.size
    current.find = lambda group: Ends(wires, group, current.rank)
    try:
        yield wires
    finally:
        current.__class__ = before[0]
        current.rank, current.size, current.find = before[1:]


def run_ranks(mesh: Mesh, run: Callable[[int], Any]) -> tuple[list[Any], dict[int, list[str]]]:
    """What each rank's function gives, all running at once, and the communications of each rank in order."""
    assert communication.current is current
    results: list[Any] = [None] * mesh.size
    errors: list[BaseException] = []

    def work(rank: int, wires: Wires) -> None:
        _thread.rank = rank
        try:
            results[rank] = run(rank)
        except BaseException as error:
            errors.append(error)
            with wires.changed:
                wires.stuck = wires.stuck or f"rank {rank} failed: {error!r}"
                wires.changed.notify_all()
        finally:
            wires.left()

    with _threads(mesh) as wires:
        threads = [threading.Thread(target=work, args=(rank, wires), daemon=True) for rank in range(mesh.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
    first = next((error for error in errors if not isinstance(error, Deadlock)), errors[0] if errors else None)
    if first is not None:
        raise first
    return results, wires.log
