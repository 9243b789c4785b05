"""Background processes that compute like the other ranks of a machine, competing for bandwidth and cores."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress


@contextmanager
def beside(count: int, work: Callable[[], object]) -> Iterator[None]:
    """A context in which forked processes repeat the same work. Each has one thread, which a fork keeps."""
    parent, others = os.getpid(), []
    try:
        for _ in range(count):
            others.append(os.fork())
            if others[-1] == 0:
                _until_alone(parent, work)
        yield
    finally:
        for other in others:
            with suppress(ProcessLookupError):
                os.kill(other, signal.SIGKILL)
            os.waitpid(other, 0)


def _until_alone(parent: int, work: Callable[[], object]) -> None:
    """Work until the parent is gone; never returns."""
    try:
        while os.getppid() == parent:
            work()
    finally:
        os._exit(0)
