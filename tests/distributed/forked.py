"""Ranks as forked processes, for tests of the control plane alone: no MPI, and no second import of Wengert."""

from __future__ import annotations

import atexit
import os
import random
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.distributed.stopwatch import moment

PATIENCE = 60.0  # seconds that a busy machine may take for anything


class Child:
    """A forked process that runs a function, as a script of its own would: what it raises ends it with status 1."""

    def __init__(self, function: Callable[[], object], output: Path) -> None:
        self.output = output
        self.ended = 0.0
        self.status: int | None = None
        self.pid = os.fork()
        if self.pid == 0:
            _be_a_script(function, output)

    def kill(self, number: int) -> None:
        """Send a signal."""
        if self.status is None:
            os.kill(self.pid, number)

    def poll(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status, self.ended = os.waitstatus_to_exitcode(status), moment()
        return self.status

    def wait(self, seconds: float = PATIENCE) -> int:
        """The exit status of a process that has to end."""
        until = time.monotonic() + seconds
        while self.poll() is None:
            assert time.monotonic() < until, f"a process does not end; it wrote:\n{self.text()}"
            time.sleep(0.005)
        assert self.status is not None
        return self.status

    def text(self) -> str:
        """What it has written so far."""
        return self.output.read_text() if self.output.exists() else ""

    def says(self, word: str) -> None:
        """Wait until it has written a word."""
        until = time.monotonic() + PATIENCE
        while word not in self.text():
            assert self.poll() is None and time.monotonic() < until, f"no {word!r} in:\n{self.text()}"
            time.sleep(0.005)


def _be_a_script(function: Callable[[], object], output: Path) -> None:
    status = 1
    atexit._clear()  # what the parent does at its end, such as removing folders, is not the child's business
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        file = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.stdout = open(1, "w", buffering=1, closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
        sys.excepthook = sys.__excepthook__
        try:
            function()
            status = 0
        except SystemExit as error:
            status = int(error.code or 0)
        except BaseException:
            sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        os._exit(status)


@contextmanager
def family() -> Iterator[Callable[[Callable[[], object]], Child]]:
    """Inside, a function starts children; behind it none is left."""
    children: list[Child] = []
    with tempfile.TemporaryDirectory() as folder:

        def start(function: Callable[[], object]) -> Child:
            children.append(Child(function, Path(folder) / f"{len(children)}.txt"))
            return children[-1]

        try:
            yield start
        finally:
            for child in children:
                with suppress(ProcessLookupError):
                    child.kill(signal.SIGKILL)
            for child in children:
                child.wait()


def free_port() -> int:
    """A port that nobody listens on, below those that the kernel gives to whoever asks for any."""
    while True:
        with (
            suppress(OSError),
            socket.create_server(("127.0.0.1", random.SystemRandom().randrange(20000, 32000))) as own,
        ):
            return int(own.getsockname()[1])
