"""`wengert launch`: start the ranks of a script, label their output, and stop all of them when one is lost.

MPI's mpiexec starts them if there is one; it can also reach other machines. Otherwise they are child processes of the
launcher. In both cases the launcher listens on the control plane and reports which rank died.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path
from types import FrameType
from typing import Any

from wengert.core.cores import available_cores
from wengert.core.errors import ArgumentError
from wengert.distributed import mpiexec as mpi
from wengert.distributed import processes
from wengert.distributed.control_server import RAISING, Server
from wengert.distributed.mpiexec import Mpiexec
from wengert.kernels.threads import chosen_threads

STOPPING = 10.0  # seconds behind a signal that the launcher passed on to end the job
SAVING = 60.0  # where ranks save before they end
CLEARING = 1.0  # seconds that processes have to be gone which were killed
_STEPS = (
    (0.0, signal.SIGTERM, 0),
    (0.2, signal.SIGKILL, signal.SIGTERM),
    (0.6, signal.SIGKILL, signal.SIGKILL),
)
"""The next action after a number of seconds: the signal to ranks, and the one to mpiexec, which must clean up as
well."""

_LOOK = 0.25  # seconds between two looks at what ranks have in shared memory
_COLOURS = (36, 33, 35, 32, 34, 31)


@dataclass(frozen=True)
class Job:
    """A job to start: a number of ranks of a program, on this machine or on some hosts."""

    ranks: int
    program: tuple[str, ...]
    hosts: str = ""
    saves: bool = False  # the program checks for the request, saves, and exits
    grace: float = RAISING  # seconds that ranks have to end by themselves after a loss

    def a_machine(self) -> int:
        """The most ranks on one machine."""
        return max(slots for _, slots in _parsed(self.hosts)) if self.hosts else self.ranks


def job(
    ranks: int | None,
    hosts: str | None,
    is_module: bool,
    script: str,
    arguments: Sequence[str],
    grace: float = RAISING,
) -> Job:
    """Check the options and make a job of them."""
    slots = sum(count for _, count in _parsed(hosts)) if hosts else None
    count = ranks if ranks is not None else slots
    if count is None:
        raise ArgumentError("launch: the number of ranks is missing: pass -n 4, or --hosts a:8,b:8")
    if count < 1 or (slots is not None and count > slots):
        raise ArgumentError(f"launch: {count} ranks{f' on {slots} slots of --hosts' if slots else ''} are not possible")
    if not 0 <= grace < float("inf"):
        raise ArgumentError(f"launch: --grace must be a number of seconds, such as {RAISING}, not {grace}")
    _check_script(script, is_module)
    return Job(count, (*(["-m"] if is_module else []), script, *arguments), hosts or "", grace=grace)


def _check_script(script: str, is_module: bool) -> None:
    """Raise an error if a script does not exist: once, instead of on every rank."""
    if is_module:
        package = script.split(".")[0]
        if PathFinder.find_spec(package, [os.getcwd(), *sys.path]) is None:
            raise ArgumentError(f"launch: there is no module {package} here or among the installed packages")
    elif not Path(script).is_file():
        name = script.removesuffix(".py")
        hint = f"; to start a module use -m {name}" if name.replace(".", "_").isidentifier() else ""
        raise ArgumentError(f"launch: there is no file {script}{hint}")


def _parsed(hosts: str) -> list[tuple[str, int]]:
    """The hosts and how many ranks each may have.

    >>> _parsed("a:8,b")
    [('a', 8), ('b', 1)]
    """
    found = []
    for part in hosts.split(","):
        name, _, count = part.partition(":")
        if not name or not (count or "1").isdecimal():
            raise ArgumentError(
                f"launch: --hosts must be host names with numbers of ranks, such as a:8,b:8, not {hosts!r}"
            )
        found.append((name, int(count or "1")))
    return found


def launch(asked: Job, restarts: int = 0, chosen: str | None = None) -> int:
    """Run a job, restarting it up to `restarts` times if it fails; returns the exit status."""
    found = None if chosen == "none" else mpi.find(chosen)
    if found is not None and chosen is None and importlib.util.find_spec("mpi4py") is None:
        found = None  # without mpi4py no process would answer that mpiexec
    if found is None and asked.hosts:
        raise ArgumentError("launch: --hosts needs mpiexec to reach them: pip install 'wengert[mpi]'")
    if restarts < 0:
        raise ArgumentError(f"launch: --restarts must be at least 0, not {restarts}")
    for attempt in range(restarts + 1):
        if attempt:
            print(f"wengert: starting again, {attempt} of {restarts}", file=sys.stderr, flush=True)
        run = _Run(asked, found)
        status = run.done()
        if status == 0 or run.stopped:
            break
    return status


class _Run:
    """One start of a job."""

    def __init__(self, asked: Job, found: Mpiexec | None) -> None:
        self.stopped: int | None = None  # the signal that the user ended it with
        self._stopped_at = 0.0
        self._found = found
        self._saves = asked.saves
        self._grace = asked.grace
        self._nonce = secrets.token_hex(16)
        self._tags = sys.stdout.isatty()
        self._shared, self._looked_at = processes.SharedMemory(), 0.0
        host = "" if asked.hosts else "127.0.0.1"
        self._server = Server(asked.ranks, self._nonce, host, exit_status=self._exit_status, grace=asked.grace)
        self._running = self._started(asked)  # before any thread: a fork copies only one
        self._server.start()
        self._copied = [processes.Copied(process, self._tagger(k)) for k, process in enumerate(self._running)]

    def done(self) -> int:
        """Wait for the end; the exit status."""
        with _signals_to(self._pass_on):
            try:
                self._wait()
            finally:
                self._end_all()
        if self._server.over.is_set() and self.stopped is None:
            print(f"wengert: {self._server.error()}", file=sys.stderr, flush=True)
        return self._status()

    # --- starting -------------------------------------------------------------------------------------------------

    def _started(self, asked: Job) -> list[subprocess.Popen[bytes]]:
        program = [sys.executable, "-m", "wengert.distributed.begin", *asked.program]
        environment = {**os.environ, "WENGERT_CONTROL": self._server.address, "WENGERT_NONCE": self._nonce}
        if chosen_threads() is None:
            environment["OMP_NUM_THREADS"] = str(max(1, available_cores() // asked.a_machine()))
        for name in ("RANK", "SIZE", "LOCAL_RANK"):
            environment.pop(f"WENGERT_{name}", None)  # of a launch around this one
        if self._found is not None:
            environment |= mpi.environment_of_root(self._found)
            command = self._found.command(asked.ranks, asked.hosts, environment, program, self._tags)
            return [processes.started(command, environment)]
        return [processes.started(program, environment | _place(k, asked.ranks)) for k in range(asked.ranks)]

    def _tagger(self, number: int) -> Callable[[bytes], bytes]:
        """A function that labels a line with its rank, in colour on a terminal."""
        if not self._tags:
            return lambda line: line
        found = self._found
        if found is None:
            return lambda line: _tagged(number, line)
        return lambda line: _tagged(*found.untagged(line))

    # --- waiting --------------------------------------------------------------------------------------------------

    def _wait(self) -> None:
        """Wait until all processes have ended, escalating step by step."""
        end_at: float | None = None
        steps = list(_STEPS)
        while self._is_running():
            self._look_for_ended()
            now = time.monotonic()
            self._look_at_memory(now)
            if end_at is None and self._server.over.is_set():
                end_at = now + self._grace
            if self.stopped is not None:
                last = self._stopped_at + (SAVING if self._saves else STOPPING)
                end_at = min(end_at or last, last)
            while steps and end_at is not None and now >= end_at + steps[0][0]:
                _, to_ranks, to_mpiexec = steps.pop(0)
                processes.signal_job(self._nonce, self._running, to_ranks, to_mpiexec if self._found else to_ranks)
            if not steps:
                return
            time.sleep(0.02)
        self._look_for_ended()

    def _look_at_memory(self, now: float) -> None:
        if now - self._looked_at >= _LOOK:
            self._looked_at, here = now, socket.gethostname()
            self._shared.look(report.pid for report in self._server.reports() if report.host == here)

    def _is_running(self) -> bool:
        """Whether anybody is left. An mpiexec may end before the ranks that it started have raised."""
        if any([process.poll() is None for process in self._running]):
            return True
        return self._server.over.is_set() and self._server.connected() > 0

    def _look_for_ended(self) -> None:
        """A process that failed may not have joined the control plane yet."""
        if self._found is None and not self._server.over.is_set():
            for rank, process in enumerate(self._running):
                if process.poll():
                    self._server.lose(rank, process.returncode)
                    return

    def _exit_status(self, rank: int) -> int | None:
        """The exit status of a rank's process, if it is a child; a process whose connection closed ends in a moment."""
        if self._found is not None:
            return None
        try:
            return self._running[rank].wait(0.3)
        except subprocess.TimeoutExpired:
            return None

    def _pass_on(self, number: int) -> None:
        """Forward a signal to the ranks. The second signal that ends a job ends it immediately."""
        if number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if self.stopped is not None:
                processes.signal_job(self._nonce, self._running, signal.SIGKILL, signal.SIGKILL)
                return
            self.stopped, self._stopped_at = number, time.monotonic()
            if self._saves:  # not by way of mpiexec, which gives ranks no time
                self._server.ask_to_stop(number)
                return
        for process in self._running:
            process.send_signal(number)

    # --- the end ----------------------------------------------------------------------------------------------------

    def _end_all(self) -> None:
        failed = self._server.over.is_set() or any(process.poll() != 0 for process in self._running)
        if failed:
            processes.signal_job(self._nonce, self._running, signal.SIGKILL, signal.SIGKILL)
            processes.wait_for_job(self._nonce, CLEARING)
            self._shared.remove()
        for process, copied in zip(self._running, self._copied):
            process.wait()
            copied.join(1.0)
        if self._found is not None:
            culprit = mpi.culprit(self._copied[0].words())
            if culprit is not None:
                status = -culprit[1] if culprit[1] else None
                self._server.blame(culprit[0], status, self._found.names_the_first)
        self._server.close()

    def _status(self) -> int:
        if self.stopped is not None:
            return 128 + self.stopped
        loss = self._server.loss
        if loss is not None and (loss.signal or loss.status):
            return 128 + loss.signal if loss.signal else loss.status or 1
        found = [_as_shells_say(process.returncode) for process in self._running]
        return next(filter(None, found), 0) or int(self._server.over.is_set())


def _place(rank: int, size: int) -> dict[str, str]:
    return {"WENGERT_RANK": str(rank), "WENGERT_SIZE": str(size), "WENGERT_LOCAL_RANK": str(rank)}


def _as_shells_say(status: int) -> int:
    return 128 - status if status < 0 else status


def _tagged(rank: int | None, line: bytes) -> bytes:
    if rank is None:
        return line
    return f"\x1b[{_COLOURS[rank % len(_COLOURS)]}m{rank}\x1b[0m ".encode() + line


@contextmanager
def _signals_to(handle: Callable[[int], None]) -> Iterator[None]:
    """A context that handles signals, if this is the main thread, the only one that receives them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]

    def handler(number: int, frame: FrameType | None) -> None:
        handle(number)

    before: dict[int, Any] = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
