"""Memory: where in one arena each intermediate value lies, and when.

In: for each step the values it reads and writes, with their sizes. Out: an offset for each. Values whose lives overlap
get places that do not; the largest are placed first, each into the smallest gap that holds it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

ALIGNMENT = 64  # bytes: a cache line, and the widest vector there is

Value = TypeVar("Value", bound=Hashable)


class Life(NamedTuple):
    """The steps from which to which a value is needed."""

    first: int
    last: int


def lives(steps: Sequence[tuple[Sequence[Value], Sequence[Value]]]) -> dict[Value, Life]:
    """When each value is needed, from (reads, writes) of every step."""
    found: dict[Value, Life] = {}
    for number, (reads, writes) in enumerate(steps):
        for value in (*reads, *writes):
            found[value] = Life(found[value].first if value in found else number, number)
    return found


def place(alive: Mapping[Value, Life], sizes: Mapping[Value, int]) -> tuple[dict[Value, int], int]:
    """An offset for each value, and the size of the arena."""
    offsets: dict[Value, int] = {}
    total = 0
    for value in sorted(alive, key=lambda v: (-sizes[v], alive[v].first)):
        life = alive[value]
        taken = sorted(
            (offset, offset + _rounded(sizes[other]))
            for other, offset in offsets.items()
            if alive[other].first <= life.last and life.first <= alive[other].last
        )
        offsets[value] = _best_gap(taken, _rounded(sizes[value]))
        total = max(total, offsets[value] + _rounded(sizes[value]))
    return offsets, total


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _best_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """The start of the smallest gap between taken stretches that is large enough, or the end of them."""
    best, width, end = -1, -1, 0
    for start, stop in taken:
        gap = start - end
        if gap >= size and (best < 0 or gap < width):
            best, width = end, gap
        end = max(end, stop)
    return best if best >= 0 else end
