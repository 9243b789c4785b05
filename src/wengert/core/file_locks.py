"""Locks on files, held by a process while it lives: the kernel releases them, however the process ends.

Where such locks are not supported (not POSIX, or on some file systems), every lock succeeds.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from wengert.core.errors import ArgumentError
from wengert.core.forking import in_child

try:
    import fcntl
except ImportError:  # not POSIX
    fcntl = None  # type: ignore[assignment]

_HELD_BY_ANOTHER = (errno.EWOULDBLOCK, errno.EACCES)


def try_lock(descriptor: int) -> bool:
    """Try to lock an open file for this process; returns whether it succeeded."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in _HELD_BY_ANOTHER
    return True


@contextmanager
def locked_new_file(path: Path) -> Iterator[tuple[Path, BinaryIO]]:
    """A temporary file beside a path, locked while it is written and removed unless it was moved away."""
    temporary, file = _opened(path)
    try:
        with file:
            yield temporary, file
    finally:
        temporary.unlink(missing_ok=True)


def _opened(path: Path) -> tuple[Path, BinaryIO]:
    while True:
        temporary = path.with_name(f".{path.name}.{os.urandom(4).hex()}.tmp")
        file = temporary.open("xb")
        if try_lock(file.fileno()) and temporary.exists():
            return temporary, file
        file.close()  # a process that clears up took it for an abandoned one before it was locked


@contextmanager
def waiting_lock(path: Path, patience: float) -> Iterator[bool]:
    """A context that holds the lock of this name, after waiting for another process up to a limit; yields whether it
    waited.

    The file is removed with the lock. If it is removed while a process waits, or a process waits too long, both
    continue: the lock only saves work.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    until, waited = time.monotonic() + patience, False
    try:
        while not try_lock(descriptor) and time.monotonic() < until:
            waited = True
            time.sleep(0.02)
        yield waited
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def remove_if_abandoned(temporary: Path) -> None:
    """Remove a temporary file unless a process is writing it."""
    try:
        descriptor = os.open(temporary, os.O_RDONLY)
    except OSError:
        return  # it was moved to its place, or is not ours to touch
    try:
        if try_lock(descriptor):
            temporary.unlink(missing_ok=True)
    finally:
        os.close(descriptor)


class FolderLock:
    """The lock on a folder, held inside a `with`: a file in it that is locked and names the process.

    >>> import tempfile
    >>> with FolderLock(Path(tempfile.mkdtemp())):
    ...     pass
    """

    NAME = "run.lock"

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._descriptor = -1

    def __enter__(self) -> FolderLock:
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder / self.NAME, os.O_RDWR | os.O_CREAT, 0o666)
        if not try_lock(descriptor):
            holder = os.read(descriptor, 32).decode(errors="replace").strip()
            os.close(descriptor)
            raise ArgumentError(
                f"another run is using {str(self.folder)!r}, in process {holder or 'unknown'}: wait for it to end, or "
                "choose another folder"
            )
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._descriptor = descriptor
        _held.add(self)
        return self

    def __exit__(self, *_: object) -> None:
        _held.discard(self)
        if fcntl is not None and self._descriptor >= 0:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # also where a child just forked has it open still
        self.close()

    def close(self) -> None:
        """Close the file, without letting go of a lock that another process holds by a copy of it."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


_held: set[FolderLock] = set()


def _let_go_in_child() -> None:
    """Close a child's copies of locked files: with one of them open, the lock would outlive its process."""
    for lock in _held:
        lock.close()
    _held.clear()


in_child(_let_go_in_child)
