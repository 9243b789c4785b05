"""How a rank's process ends when the job does: the main thread is interrupted, exceptions are reported, nothing waits.

Interrupting is a signal to the main thread, whose handler raises there. It is SIGURG, which is ignored by default and
not used by batch systems.
"""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import FrameType, TracebackType
from typing import Any

Handler = Callable[[int, FrameType | None], None]
Told = Callable[[type[BaseException], BaseException], bool]

_LEAVING = 2.0  # seconds that functions registered with atexit have, once the job has failed


def interrupt_with(handler: Handler) -> Any:
    """Have `interrupt` call this in the main thread; returns the previous handler, or None if that is impossible."""
    number = getattr(signal, "SIGURG", None)
    if number is None or threading.current_thread() is not threading.main_thread():
        return None
    before = signal.signal(number, handler)
    return before if before is not None else signal.SIG_DFL


def interrupt(installed: Any) -> None:
    """Wake the main thread, if a handler was installed."""
    if installed is not None:
        with suppress(OSError, ValueError):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGURG)


def restore(installed: Any) -> None:
    """Restore the previous signal handler."""
    if installed is not None and threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGURG, installed)


def on_exception(begins: Callable[[], None], told: Told) -> None:
    """Report an exception that ends this process: call `begins` before it is shown and `told` after it.

    If `told` returns true, the process exits immediately afterwards: the interpreter's own shutdown (such as MPI's
    finalizer) would wait for ranks that are gone. Functions registered with `atexit` still run.
    """
    before = sys.excepthook

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        begins()
        before(kind, error, trace)
        if told(kind, error) and not hasattr(sys, "ps1"):  # at a prompt the process goes on
            leave(1)

    sys.excepthook = hook


def leave(status: int) -> None:
    """Exit this process: run functions registered with `atexit`, but skip the interpreter's own shutdown.

    Its workers are stopped first, because one of those functions would wait for them.
    """
    timer = threading.Timer(_LEAVING, os._exit, (status,))
    timer.daemon = True
    timer.start()
    if "multiprocessing" in sys.modules:
        for worker in sys.modules["multiprocessing"].active_children():
            worker.terminate()
    atexit._run_exitfuncs()
    _flush()
    os._exit(status)


def end_now(text: str) -> None:
    """End this process from a thread other than the main one, which is stuck."""
    sys.stderr.write(f"wengert: {text}\n")
    _flush()
    os._exit(1)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):
            stream.flush()
