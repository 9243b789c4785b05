"""Which steps of a program wait for which: those that touch the same memory, one of them writing.

In: for each step the places that it reads and writes. Out: for each the steps before it that it must wait for, without
those that these wait for themselves. What does not wait for one another may run side by side; steps that fill the
device are put one behind the other all the same, since two of them would only take turns.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from wengert.compiler.fuel import spend
from wengert.plan.plan import Plan


class Place(NamedTuple):
    """Bytes from `start` to `end` of some memory: the arena, or an array of its own."""

    memory: int
    start: int
    end: int


class _Touched:
    """A place that was read or written: the step that wrote it, those that read it since, and whom a reader waits for:
    the one that wrote it, and others that wrote over a part of it.
    """

    __slots__ = ("readers", "writer", "writers")

    def __init__(self, writer: int | None, writers: set[int]) -> None:
        self.writer, self.writers, self.readers = writer, writers, list[int]()


class _Memories:
    """Who touched which place last. To read again what is known takes no search, and most accesses do that."""

    def __init__(self) -> None:
        self.touched: dict[int, dict[Place, _Touched]] = {}

    def read(self, place: Place, step: int) -> set[int]:
        """The steps that a reader must wait for."""
        known = self.touched.setdefault(place.memory, {})
        if place not in known:
            writers = {x.writer for _, x in _overlapping(known, place) if x.writer is not None}
            known[place] = _Touched(None, writers)
        known[place].readers.append(step)
        return known[place].writers

    def write(self, place: Place, step: int) -> set[int]:
        """The steps that a writer must wait for; whoever comes later waits for this one, and so for those."""
        known = self.touched.setdefault(place.memory, {})
        found: set[int] = set()
        for other, touched in _overlapping(known, place):
            found.update(touched.readers)
            if touched.writer is not None:
                found.add(touched.writer)
            if place.start <= other.start and other.end <= place.end:
                del known[other]
            else:
                touched.writers.add(step)
        known[place] = _Touched(step, {step})
        return found


def _overlapping(known: dict[Place, _Touched], place: Place) -> list[tuple[Place, _Touched]]:
    _, start, end = place
    return [(other, touched) for other, touched in known.items() if other[1] < end and start < other[2]]


def waits_of(steps: Iterable[tuple[Iterable[Place], Iterable[Place]]], filling: Container[int] = ()) -> list[list[int]]:
    """For each step, given as what it reads and writes, the steps it waits for; `filling` are those that fill a device.

    >>> a, b, c, d = (Place(i, 0, 4) for i in range(4))
    >>> waits_of([([a], [b]), ([a], [c]), ([b, c], [d]), ([d], [a])])
    [[], [], [0, 1], [2]]
    >>> waits_of([([a], [b]), ([a], [c]), ([a], [d])], filling={0, 2})
    [[], [], [0]]
    """
    memories = _Memories()
    last_filling: int | None = None
    ancestors: list[int] = []  # as bits
    found = []
    for step, (reads, writes) in enumerate(steps):
        before: set[int] = set()
        for place in reads:
            before |= memories.read(place, step)
        for place in writes:
            before |= memories.write(place, step)
        if step in filling:
            before.update(() if last_filling is None else (last_filling,))
            last_filling = step
        before.discard(step)
        bits, direct = 0, []
        for other in sorted(before, reverse=True):
            if not bits >> other & 1:
                direct.append(other)
                bits |= ancestors[other] | 1 << other
        ancestors.append(bits)
        found.append(direct[::-1])
    return found


# --- the stage ------------------------------------------------------------------------------------------------------

FILLING = 32 << 10  # bytes for each SM: a step that moves so many leaves nothing of the device to others


def waits(plan: Plan) -> Plan:
    """The plan with what each of its steps waits for, on a GPU. Without fuel each waits for the one before it."""
    if plan.target.properties is None:
        return plan
    if not spend(None, lambda: "steps that need nothing of each other run side by side"):
        return replace(plan, waits=tuple((k - 1,) if k else () for k in range(len(plan.steps))))
    filling = {k for k, step in enumerate(plan.steps) if step.moved_bytes >= FILLING * plan.target.properties.sms}
    return replace(plan, waits=tuple(map(tuple, waits_of(touched(plan), filling))))


def touched(plan: Plan) -> Iterator[tuple[list[Place], list[Place]]]:
    """The places that each step reads and writes; temporaries are written."""
    for number, step in enumerate(plan.steps):
        temporaries = [] if step.does_nothing else [(number, name) for name in step.workspace]
        reads = [] if step.does_nothing else step.reads
        writes = [] if step.does_nothing else step.writes
        yield _places(plan, reads), _places(plan, [*writes, *temporaries])


def _places(plan: Plan, values: Iterable[Any]) -> list[Place]:
    found = (plan.place(value) for value in values)
    return [Place(*place) for place in found if place is not None]
