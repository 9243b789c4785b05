"""Stopping on a signal: the first Ctrl-C or SIGTERM asks a run to stop after the update under way, a second at once.

Of several ranks each may be asked, at its own moment; they agree after an update, and stop at the same one.
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
    """A run was asked to stop by a signal, and has saved its state.

    >>> import wengert as wg
    >>> issubclass(wg.train.Interrupted, KeyboardInterrupt)
    True
    """

    def __init__(self, message: Any, signal_number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.signal_number = int(signal_number)


class StopRequest:
    """Whether a run was asked to stop, and by which signal."""

    def __init__(self) -> None:
        self.signal_number = 0

    def __bool__(self) -> bool:
        return self.signal_number != 0

    def agreed(self) -> int:
        """The signal by which some rank was asked to stop, or the launcher of all; 0 if none was. All ranks ask."""
        return largest(self.signal_number or asked_to_stop())

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Inside, signals are requests to stop; in the main thread, which is the one that gets them."""
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
