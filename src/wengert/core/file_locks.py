"""Locks on files, held by a process while it lives: the kernel lets go of them, however the process ends.

Where there are no such locks (not POSIX, or a file system without them) every lock is given.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

try:
    import fcntl
except ImportError:  # not POSIX
    fcntl = None  # type: ignore[assignment]

_HELD_BY_ANOTHER = (errno.EWOULDBLOCK, errno.EACCES)


def try_lock(descriptor: int) -> bool:
    """Lock an open file for this process alone; whether it is, and not another's."""
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
