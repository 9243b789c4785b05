"""Processes of a job: started so that they end with the launcher, found by the job's nonce, and reliably ended.

The launcher removes what they leave in shared memory when they are killed (`SharedMemory`).
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_TRACKER = b"multiprocessing.resource_tracker"
"""In the command line of the process that removes a dead process's semaphores, once all who had them are gone."""


def _ends_with_parent() -> Callable[[], None] | None:
    """Runs first in a new process: asks the kernel (Linux) for a SIGTERM when its parent dies."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl  # found before the fork: little may be done behind it
    return lambda: prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def started(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a process in a session of its own, so that Ctrl-C reaches only the launcher, which passes it on once."""
    return subprocess.Popen(
        command,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=_ends_with_parent(),
    )


def of_job(nonce: str) -> list[int]:
    """All processes on this machine whose environment has the job's nonce: ranks, and processes they started."""
    return with_variable("WENGERT_NONCE", nonce)


def with_variable(name: str, value: str) -> list[int]:
    """The other processes that were started with this value of an environment variable (Linux only; otherwise none)."""
    mark = f"{name}={value}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
    return [pid for pid in found if pid != os.getpid()]


def signal_job(nonce: str, started: Sequence[subprocess.Popen[bytes]], to_others: int, to_started: int) -> None:
    """Send one signal to a job's processes that we started, and one to its other processes; 0 sends none."""
    for process in started:
        process.send_signal(to_started)  # which does nothing to one that has ended
    own = {process.pid for process in started}
    for pid in of_job(nonce):
        if pid not in own and not _is_tracker(pid):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, to_others)


def _is_tracker(pid: int) -> bool:
    with suppress(OSError):
        return _TRACKER in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def wait_for_job(nonce: str, seconds: float) -> None:
    """Wait until all processes of a killed job are gone; those still cleaning up after a while are killed too."""
    until = time.monotonic() + seconds
    while (left := of_job(nonce)) and time.monotonic() < until:
        time.sleep(0.01)
    for pid in left:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


class SharedMemory:
    """The shared memory files of a job's processes, from MPI or Python, which a kill leaves behind."""

    FOLDER = Path("/dev/shm")
    NAMES = ("mpich_shm_", "vader_segment.", "sm_segment.", "sem.mp-")
    """How the names begin that MPICH, Open MPI and Python's multiprocessing give; no other file is ever removed."""

    def __init__(self) -> None:
        self._found: set[int] = set()  # inodes: a semaphore is mapped under another name than it gets

    def look(self, pids: Iterable[int]) -> None:
        """Record the files that the processes have while they run."""
        for pid in pids:
            with suppress(OSError):
                for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                    *_, inode, path = line.split(maxsplit=5) if "/" in line else ("0", "")
                    if path.startswith(f"{self.FOLDER}/"):
                        self._found.add(int(inode))

    def remove(self) -> None:
        """Remove the files that are left."""
        for name in self.NAMES if self._found else ():
            for path in self.FOLDER.glob(f"{name}*"):
                with suppress(OSError):
                    if path.stat().st_ino in self._found:
                        path.unlink()


class Copied:
    """Copies a process's output to ours, line by line, with a thread for each stream."""

    def __init__(self, process: subprocess.Popen[bytes], line: Callable[[bytes], bytes]) -> None:
        self._line = line
        self._last: list[bytes] = []
        self._threads = []
        for source, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
            thread = threading.Thread(target=self._copy, args=(source, target), daemon=True)
            thread.start()
            self._threads.append(thread)

    def words(self) -> str:
        """The last lines."""
        return b"".join(self._last[-50:]).decode(errors="replace")

    def join(self, seconds: float) -> None:
        """Wait until the streams end; a process that left the job may keep one open."""
        for thread in self._threads:
            thread.join(seconds)

    def _copy(self, source: Iterable[bytes], target: object) -> None:
        for line in source:
            self._last = [*self._last[-49:], line]
            _write(target, self._line(line))


def _write(target: object, line: bytes) -> None:
    """Write bytes to a stream; to a text stream (in a notebook or a test), as text."""
    with suppress(OSError, ValueError):  # it has no reader any more
        raw = getattr(target, "buffer", None)
        if raw is not None:
            raw.write(line)
        else:
            target.write(line.decode(errors="replace"))  # type: ignore[attr-defined]
        target.flush()  # type: ignore[attr-defined]
