"""Marks in the streams of GPUs, and what is told of them when the devices have come by.

A mark's time is counted from a first one, put into an idle stream while the host's clock was read.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

from wengert.backends.cuda.driver import all_opened

Note = Callable[[float, float], None]


class Marks:
    """Pairs of marks, each with a function that is told when they were, by the host's clock."""

    most = 20_000  # pairs that are kept before they are read

    def __init__(self) -> None:
        self._origins: dict[Any, tuple[Any, float]] = {}  # by driver: the first mark, and when it was
        self._pairs: list[tuple[Any, Any, Any, Note]] = []

    def begin(self) -> None:
        """Put the first marks, where nothing is under way."""
        for driver in all_opened():
            driver.make_current()
            driver.synchronize()
            self._origins[driver] = driver.mark(), perf_counter()

    def add(self, driver: Any, start: Any, stop: Any, note: Note) -> None:
        """Keep a pair until it is read."""
        if driver not in self._origins:  # it was opened just now
            self._origins[driver] = start, perf_counter()
        self._pairs.append((driver, start, stop, note))
        if len(self._pairs) >= self.most:
            self.read()

    def wait(self) -> None:
        """Wait until the devices have come by all marks."""
        for driver in self._origins:
            driver.make_current()
            driver.synchronize()

    def read(self) -> None:
        """Wait, and tell of all pairs."""
        self.wait()
        pairs, self._pairs = self._pairs, []
        for driver, start, stop, note in pairs:
            origin, when = self._origins[driver]
            stop.wait()
            begun = when + start.since(origin)
            note(begun, begun + stop.since(start))
