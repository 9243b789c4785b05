"""Which groups need which, directly or not: one row of bits a group, kept right while groups are merged.

A merge changes few rows: what needs both groups has all that either needs already. Finding those that need just one is
a comparison of two columns, so thousands of merges among thousands of groups stay quick.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

Bits = np.ndarray[Any, np.dtype[np.uint64]]


class Needs:
    """The groups, by number, that each group needs."""

    def __init__(self, count: int) -> None:
        self.rows: Bits = np.zeros((count, -(-count // 64)), np.uint64, order="F")  # a merge reads two columns of all

    def __call__(self, group: int, other: int) -> bool:
        """Whether a group needs another."""
        return bool(int(self.rows[group, other >> 6]) >> (other & 63) & 1)

    def add(self, group: int, producers: Iterable[int]) -> None:
        """A group reads what these make, each of which was added before it."""
        row = self.rows[group]
        for producer in producers:
            row |= self.rows[producer]
            self._set(row, producer)

    def join(self, first: int, second: int) -> None:
        """What needed the first group now needs the second, which needs what both did."""
        one = self._column(first) ^ self._column(second)
        one[[first, second]] = False
        needs = self.rows[first] | self.rows[second]
        self._clear(needs, first)
        self._clear(needs, second)
        self.rows[second] = needs
        affected = np.flatnonzero(one)
        if affected.size:
            bits = needs.copy()
            self._set(bits, first)
            self._set(bits, second)
            self.rows[affected] |= bits

    def _column(self, group: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return np.asarray((self.rows[:, group >> 6] & np.uint64(1 << (group & 63))) != 0)

    @staticmethod
    def _set(row: Bits, group: int) -> None:
        row[group >> 6] |= np.uint64(1 << (group & 63))

    @staticmethod
    def _clear(row: Bits, group: int) -> None:
        row[group >> 6] &= ~np.uint64(1 << (group & 63))
