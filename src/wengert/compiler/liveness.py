"""Memory: where in one arena each intermediate value lies, and when.

In: for each step the values it reads and writes, with their sizes. Out: an offset for each. Values whose lives overlap
get places that do not; the largest are placed first, each into the smallest gap that holds it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, TypeVar

import numpy as np

ALIGNMENT = 64  # bytes: a cache line, and the widest vector there is

Value = TypeVar("Value", bound=Hashable)
Numbers = np.ndarray[Any, np.dtype[np.int64]]


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


def live(alive: Mapping[Value, Life], sizes: Mapping[Value, int]) -> list[int]:
    """The bytes that are needed at every step."""
    changes = [0] * (max([life.last for life in alive.values()], default=-1) + 2)
    for value, life in alive.items():
        changes[life.first] += sizes[value]
        changes[life.last + 1] -= sizes[value]
    return list(accumulate(changes))[:-1]


def best_fit(alive: Mapping[Value, Life], sizes: Mapping[Value, int]) -> tuple[dict[Value, int], int]:
    """An offset for each value, and the size of the arena."""
    offsets: dict[Value, int] = {}
    placed = np.zeros((4, len(alive)), np.int64)  # of the values so far: first and last step, start and end in memory
    for count, value in enumerate(sorted(alive, key=lambda v: (-sizes[v], alive[v].first))):
        life, size = alive[value], _rounded(sizes[value])
        firsts, lasts, starts, ends = placed[:, :count]
        beside = (firsts <= life.last) & (life.first <= lasts)
        offset = offsets[value] = _best_gap(starts[beside], ends[beside], size)
        placed[:, count] = life.first, life.last, offset, offset + size
    return offsets, int(placed[3].max(initial=0))


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _best_gap(starts: Numbers, ends: Numbers, size: int) -> int:
    """The start of the smallest gap between taken stretches that is large enough, or the end of them."""
    if not starts.size:
        return 0
    order = np.argsort(starts, kind="stable")
    reached = np.maximum.accumulate(ends[order])
    openings = np.concatenate([[0], reached[:-1]])
    gaps = starts[order] - openings
    fits = np.flatnonzero(gaps >= size)
    return int(openings[fits[gaps[fits].argmin()]]) if fits.size else int(reached[-1])
