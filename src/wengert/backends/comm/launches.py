"""Launches: collectives enqueued on a GPU's stream that are not done yet, watched by a separate thread.

A replay costs the host a few microseconds; whether the other ranks arrive shows much later. So a launch only records an
event, and the thread polls these events. A launch that is still pending is reported to the control plane as a
collective that this rank is in, and its deadline starts. Code that is about to block in the driver polls first
(`drain`), because a blocked driver call would keep out other threads and signals. Code that starts a collective of host
arrays does the same: a rank is in one collective at a time, and after `drain` none is pending.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any, NamedTuple

from wengert.core.code import Location
from wengert.core.communication import PointInTime, Watcher, current
from wengert.core.errors import DistributedError
from wengert.core.forking import in_child, new_rlock

LOOK = 0.05  # seconds between two looks
_SPIN, _PAUSE = 2e-4, 5e-5  # seconds that `drain` polls without a pause, and the pause between polls after that


class _Launch(NamedTuple):
    number: int
    name: str
    bytes: int
    location: Location
    until: PointInTime


class Launches:
    """The pending launches of this rank, oldest first."""

    def __init__(self, watcher: Watcher) -> None:
        self._watcher = watcher
        self._under_way: deque[_Launch] = deque()
        self._thread: threading.Thread | None = None
        self._driver: Any = None
        self._telling = new_rlock()
        self._told: _Launch | None = None  # the one that the control plane was told this rank is in
        _all.append(self)

    def add(self, driver: Any, name: str, count: int, size: int, location: Location) -> None:
        """Record that this many collectives, of this many bytes per rank, were enqueued on a driver's stream."""
        current.collectives += count
        number = current.entered[()] = current.entered.get((), 0) + 1
        self._under_way.append(_Launch(number, name, size, location, driver.event()))
        if self._thread is None:
            self._driver = driver
            self._thread = threading.Thread(target=self._look, name="wengert launches", daemon=True)
            self._thread.start()

    def drain(self) -> None:
        """Return when all launches are done; a signal or the control plane can interrupt this."""
        try:
            last = self._under_way[-1]
        except IndexError:
            return
        self._driver.make_current()  # for whichever thread waits
        late = time.perf_counter() + _SPIN
        while not last.until.is_done():
            if time.perf_counter() > late:
                time.sleep(_PAUSE)
        self._tell()

    def forget(self) -> None:
        """In a forked child: drop the parent's launches."""
        self._under_way.clear()
        self._thread = self._told = None

    def _look(self) -> None:
        self._driver.make_current()
        try:
            while self._thread is threading.current_thread():
                time.sleep(LOOK)
                self._tell()
        except DistributedError:  # this raises in the main thread too
            return

    def _tell(self) -> None:
        """Tell the control plane this rank's progress and the collective it is in."""
        with self._telling:
            done = self._taken()
            if done is not None and done is not self._told:  # others may wait for a rank that came this far
                self._enter(done)
            if done is not None:
                self._watcher.left()
                self._told = None
            if self._under_way and self._under_way[0] is not self._told:
                self._told = self._under_way[0]
                self._enter(self._told)

    def _taken(self) -> _Launch | None:
        """Remove the launches that are done; returns the last of them."""
        last = None
        while self._under_way and self._under_way[0].until.is_done():
            last = self._under_way.popleft()
        return last

    def _enter(self, launch: _Launch) -> None:
        self._watcher.entering(launch.number, launch.name, launch.bytes, launch.location, ())


_all: list[Launches] = []


def _in_child() -> None:
    for launches in _all:
        launches.forget()


in_child(_in_child)
