"""Stopping on a signal: the first Ctrl-C or SIGTERM asks a run to stop after the current update, a second one stops it
at once.

With several ranks, each may be asked at a different moment; they agree after an update, and stop at the same one.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from wengert.train.ranks import asked_to_stop, largest


class Interrupted(KeyboardInterrupt):
    """Raised when a signal asked a run to stop, after it has saved its state.

    >>> import wengert as wg
    >>> issubclass(wg.train.Interrupted, KeyboardInterrupt)
    True
    """

    def __init__(self, message: Any, signal_number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.signal_number = int(signal_number)


class StopRequest:
    """Tracks whether a signal asked the run to stop, and which."""

    def __init__(self) -> None:
        self.signal_number = 0

    def __bool__(self) -> bool:
        return self.signal_number != 0

    def agreed(self) -> int:
        """The signal that asked any rank, or the launcher, to stop; 0 if none did. All ranks must call it."""
        return largest(self.signal_number or asked_to_stop())

    @contextmanager
    def listening(self) -> Iterator[None]:
        """A context in which signals are requests to stop; only in the main thread, which receives signals."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self._ask) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self:
            raise Interrupted("stopped at once", number)
        self.signal_number = number
