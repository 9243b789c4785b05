"""Times of events in GPU streams, by the host's clock.

They are relative to a first event, recorded in an idle stream while the host's clock was read.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

from wengert.backends.cuda.memory import opened
from wengert.backends.protocol import Driver, StreamEvent
from wengert.core import devices

Note = Callable[[float, float], None]


class EventTimes:
    """Pairs of events, each with a function that is called with their times by the host's clock."""

    most = 20_000  # pairs that are kept before they are read

    def __init__(self) -> None:
        self._origins: dict[Driver, tuple[StreamEvent, float]] = {}  # by driver: the first event, and when it was
        self._pairs: list[tuple[Driver, StreamEvent, StreamEvent, Note]] = []

    def begin(self) -> None:
        """Put the first events, where nothing is under way."""
        for driver in map(opened, devices.in_use()):
            driver.synchronize()
            self._origins[driver] = driver.event(), perf_counter()

    def add(self, driver: Driver, start: StreamEvent, stop: StreamEvent, note: Note) -> None:
        """Keep a pair until it is read."""
        if driver not in self._origins:  # it was opened just now
            self._origins[driver] = start, perf_counter()
        self._pairs.append((driver, start, stop, note))
        if len(self._pairs) >= self.most:
            self.read()

    def wait(self) -> None:
        """Wait until the devices have reached all events."""
        for driver in self._origins:
            driver.make_current()
            driver.synchronize()

    def read(self) -> None:
        """Wait, and report all pairs."""
        self.wait()
        pairs, self._pairs = self._pairs, []
        for driver, start, stop, note in pairs:
            origin, when = self._origins[driver]
            stop.wait()
            begun = when + start.since(origin)
            note(begun, begun + stop.since(start))
