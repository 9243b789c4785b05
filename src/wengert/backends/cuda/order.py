"""Which steps of a program wait for which: those that touch the same memory, one of them writing.

In: for each step the places that it reads and writes. Out: for each the steps before it that it must wait for, without
those that these wait for themselves. What does not wait for one another may run side by side.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple


class Place(NamedTuple):
    """Bytes from `start` to `end` of some memory: the arena, or an array of its own."""

    memory: int
    start: int
    end: int


class _Access(NamedTuple):
    place: Place
    step: int
    writes: bool


class _Memories:
    """Who touched which place last."""

    def __init__(self) -> None:
        self.accesses: dict[int, list[_Access]] = {}

    def touch(self, place: Place, step: int, writes: bool) -> set[int]:
        """The steps that an access must wait for, which it is noted after."""
        before = self.accesses.get(place.memory, [])
        waits, kept = set(), []
        for access in before:
            _, start, end = access.place
            if start < place.end and place.start < end:
                if (writes or access.writes) and access.step != step:
                    waits.add(access.step)
                if writes and place.start <= start and end <= place.end:
                    continue  # whoever comes waits for this step, and so for that one
            kept.append(access)
        self.accesses[place.memory] = [*kept, _Access(place, step, writes)]
        return waits


def waits(steps: Iterable[tuple[Iterable[Place], Iterable[Place]]]) -> list[list[int]]:
    """For each step, given as what it reads and writes, the steps it waits for.

    >>> a, b, c, d = (Place(i, 0, 4) for i in range(4))
    >>> waits([([a], [b]), ([a], [c]), ([b, c], [d]), ([d], [a])])
    [[], [], [0, 1], [2]]
    """
    memories = _Memories()
    ancestors: list[int] = []  # as bits
    found = []
    for step, (reads, writes) in enumerate(steps):
        before: set[int] = set()
        for places, is_write in ((reads, False), (writes, True)):
            for place in places:
                before |= memories.touch(place, step, is_write)
        bits, direct = 0, []
        for other in sorted(before, reverse=True):
            if not bits >> other & 1:
                direct.append(other)
                bits |= ancestors[other] | 1 << other
        ancestors.append(bits)
        found.append(direct[::-1])
    return found
