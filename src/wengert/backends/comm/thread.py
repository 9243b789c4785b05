"""The communication thread: it runs collectives while the main thread computes.

There is only one, so that collectives keep their order. A signal or the news of a lost rank can interrupt waiting for
it, unlike a blocking call.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from wengert.core.forking import in_child

_LOOK = 0.05  # seconds after which a waiting thread looks whether something was raised


class Pending:
    """A call that the thread will make; `result` waits for it."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._call = call
        self._done = threading.Event()
        self._value: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        """Make the call."""
        try:
            self._value = self._call()
        except BaseException as error:
            self._error = error
        self._done.set()

    def result(self) -> Any:
        """The call's result; raises what it raised."""
        while not self._done.wait(_LOOK):
            pass
        if self._error is not None:
            raise self._error
        return self._value


_calls: queue.SimpleQueue[Pending] | None = None


def begin(call: Callable[[], Any]) -> Pending:
    """Queue a call in the thread, after those queued before."""
    global _calls
    if _calls is None:
        _calls = queue.SimpleQueue()
        threading.Thread(target=_serve, args=(_calls,), name="wengert communication", daemon=True).start()
    pending = Pending(call)
    _calls.put(pending)
    return pending


def _serve(calls: queue.SimpleQueue[Pending]) -> None:
    while True:
        calls.get().run()


def _forget() -> None:
    global _calls
    _calls = None  # the thread is the parent's


in_child(_forget)
