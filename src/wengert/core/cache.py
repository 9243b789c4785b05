"""The cache on disk: C libraries, machine code for GPUs, cuDNN's plans and tuning results, all stored the same way.

Entries are executed, so the folder must belong to the user. It is created with mode 0700, and refused if anybody else
could have put a file into it or replaced it by another folder. An entry ends with a checksum of its name and content,
which is verified at every use; a damaged entry counts as absent and is built again. Entries are written to a temporary
file and renamed: since nobody but the user can write here, and we never write into a file that has its name, the bytes
that were verified are those that are loaded a moment later.

If the folder cannot be used, entries go to a private temporary folder for the life of the process. `WENGERT_CACHE`
names another folder, `WENGERT_CACHE_MB` and `WENGERT_CACHE_DAYS` say how much is kept, and for how long without use.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import stat
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from wengert.core.errors import ArgumentError, CacheError
from wengert.core.file_locks import waiting_lock

KINDS = {
    ".so": "C libraries",
    ".cubin": "GPU machine code",
    ".plan": "cuDNN plans",
    ".json": "tuning results",
    ".check": "certificates",
}
TEMPORARY = "tmp"  # what the names of unfinished files and folders begin with
DAY = 86_400  # seconds; an older unfinished entry was left by a process that died
HINT = "Set WENGERT_CACHE to a folder that you alone can write to"

# --- settings -------------------------------------------------------------------------------------------------------


def setting(name: str, default: int, what: str) -> int:
    """An integer setting from an environment variable."""
    given = os.environ.get(name) or str(default)
    if not given.isdecimal():
        raise ArgumentError(f"{name} is {what}, such as {default}, not {given!r}")
    return int(given)


def most_bytes() -> int:
    """The limit on the bytes of entries: `WENGERT_CACHE_MB`, or 2 GB."""
    return setting("WENGERT_CACHE_MB", 2000, "the size of the cache in megabytes") * 1_000_000


def most_days() -> int:
    """The number of days that an unused entry is kept: `WENGERT_CACHE_DAYS`, or 90."""
    return setting("WENGERT_CACHE_DAYS", 90, "the number of days that entries are kept without use")


def user_folder() -> Path:
    """The system's folder for files that can be recreated: `wengert` in the user's cache."""
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "wengert"
    except RuntimeError as error:  # a user without a home
        raise CacheError(f"there is no home folder to store compiled programs in ({error})") from None


def folder() -> Path:
    """The folder of the cache, by a path without symbolic links, so that the folder that is checked is the one used."""
    chosen = os.environ.get("WENGERT_CACHE")
    return Path(os.path.realpath(Path(chosen) / "wengert" if chosen else user_folder()))


# --- whose a folder is ----------------------------------------------------------------------------------------------


def make_private(path: Path) -> None:
    """Create a folder and its missing parents for the user alone, whatever the umask."""
    missing = [one for one in (path, *path.parents) if not one.exists()]
    for one in reversed(missing):
        with suppress(FileExistsError):  # another process was faster
            os.mkdir(one, 0o700)
            os.chmod(one, 0o700)  # the umask may have taken bits away


def refusal(path: Path) -> str | None:
    """Why a folder is refused, with what to do; None if only the user and root can change it. The path has no links."""
    if not hasattr(os, "getuid"):  # a system without owners and modes
        return None
    status = os.stat(path)
    if not stat.S_ISDIR(status.st_mode):
        return f"{path} is not a folder"
    if status.st_uid not in (os.getuid(), 0):
        return f"{path} belongs to {_user(status.st_uid)} (to take it over: chown -R {os.getuid()} {path})"
    if status.st_mode & 0o022:
        return f"{path} can be written to by others (to close it: chmod 700 {path})"
    return next(filter(None, map(_exposure, path.parents)), None)


def _exposure(parent: Path) -> str | None:
    """Why others could replace a subfolder of this folder."""
    status = os.stat(parent)
    if status.st_uid not in (os.getuid(), 0, _outside()):
        return f"{parent} belongs to {_user(status.st_uid)}, who could replace the cache in it"
    others = status.st_mode & 0o002 or (status.st_mode & 0o020 and not _is_private(status.st_gid))
    if others and not status.st_mode & stat.S_ISVTX:  # in a sticky folder only owners rename and remove
        return f"{parent} lets others replace the cache in it (to close it: chmod go-w {parent})"
    return None


def _is_trusted(status: os.stat_result) -> bool:
    """Whether this is a plain file that only we or root may have written."""
    if not stat.S_ISREG(status.st_mode):
        return False
    return not hasattr(os, "getuid") or (status.st_uid in (os.getuid(), 0) and not status.st_mode & 0o022)


def _is_private(group: int) -> bool:
    """Whether a group has the name of the user and no other members: many systems give each user such a group."""
    import grp
    import pwd

    with suppress(KeyError):
        found, name = grp.getgrgid(group), pwd.getpwuid(os.getuid()).pw_name
        return found.gr_name == name and set(found.gr_mem) <= {name}
    return False


def _user(number: int) -> str:
    import pwd

    with suppress(KeyError):
        return f"user {pwd.getpwuid(number).pw_name}"
    return f"user {number}"


@functools.cache
def _outside() -> int:
    """The owner that a container shows for system folders outside it; root if that is a user in here."""
    with suppress(OSError, ValueError):
        number = int(Path("/proc/sys/kernel/overflowuid").read_text())
        known = [tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
        if not any(first <= number < first + count for first, _, count in known):
            return number
    return 0


# --- where entries are ----------------------------------------------------------------------------------------------

_unusable: dict[Path, str] = {}
"""Folders that could not be written to, and why; they are still read."""
_private: dict[int, Path] = {}
"""The temporary folder of a process: a child of a fork has its own."""
_lock = threading.Lock()


def _readable() -> Iterator[Path]:
    """The folders to search, the one that this process writes to first."""
    if os.getpid() in _private:
        yield _private[os.getpid()]
    with suppress(OSError):
        main = folder()
        if refusal(main) is None:
            yield main


def _main_folder() -> Path:
    """The cache folder, created if missing; raises if it is refused."""
    main = folder()
    make_private(main)
    why = refusal(main)
    if why is not None:
        raise CacheError(why)
    return main


def _private_folder() -> Path:
    """A folder that only this process uses, and that is removed when it ends."""
    with _lock:
        found = _private.get(os.getpid())
        if found is None or not found.is_dir():
            found = _private[os.getpid()] = _temporary_folder()
        return found


def _temporary_folder() -> Path:
    from multiprocessing.util import Finalize  # done at the end of worker processes too, only by the one that made it

    made = Path(os.path.realpath(tempfile.mkdtemp(prefix="wengert-")))  # with mode 0700, as it promises
    Finalize(None, shutil.rmtree, (made,), {"ignore_errors": True}, exitpriority=0)
    why = refusal(made)
    if why is not None:
        raise CacheError(why)
    return made


def _written(put: Callable[[Path], Path]) -> Path:
    """Write an entry into the cache folder, or else into a private one; raises if neither works."""
    reason, is_new = "", False
    try:
        main = folder()
        if main not in _unusable:
            try:
                return put(_main_folder())
            except OSError as error:
                _unusable[main], is_new = _reason(error, str(main)), True
        reason = _unusable[main]
    except CacheError as error:  # there is no home
        reason, is_new = _reason(error, ""), True
    try:
        target = put(_private_folder())
    except OSError as error:
        second = _reason(error, "a temporary folder")
        raise CacheError(f"compiled programs cannot be stored anywhere: {reason}; {second}. {HINT}") from None
    if is_new:
        say(f"{reason}. Compiled programs are stored in {target.parent} until this process ends. {HINT}")
    return target


def _reason(error: OSError, place: str) -> str:
    return error.message if isinstance(error, CacheError) else f"{place}: {error.strerror or error}"


@functools.cache
def say(text: str) -> None:
    """Warn once in a process."""
    warnings.warn(text, RuntimeWarning, stacklevel=3)


PATIENCE = 300.0
"""Seconds to wait for another process that builds the same entry."""

# --- entries --------------------------------------------------------------------------------------------------------


def _checksum(name: str, content: bytes) -> bytes:
    """The last line of an entry. It includes the name, so that a copied entry is not mistaken for another."""
    digest = hashlib.sha256(name.encode() + b"\0")  # 12 us for a library of 20 KB; blake2b takes twice as long
    digest.update(content)
    return b"\nsha256 " + digest.hexdigest().encode() + b"\n"


_LENGTH = len(_checksum("", b""))
_READING = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # a pipe is not waited for


def _verified(path: Path) -> bytes | None:
    """The content of an entry, marked as used; None if it is missing, damaged, or not ours."""
    try:
        with open(path, "rb", opener=lambda name, _: os.open(name, _READING)) as file:
            stored = file.read() if _is_trusted(os.fstat(file.fileno())) else b""
    except OSError:
        return None
    content = stored[:-_LENGTH]
    if stored[-_LENGTH:] != _checksum(path.name, content):
        return None
    with suppress(OSError):  # of a cache that one may only read
        os.utime(path)
    return content


def read(name: str) -> bytes | None:
    """The content of an entry; None if it is absent or damaged."""
    return read_all([name]).get(name)


def read_all(names: Iterable[str]) -> dict[str, bytes]:
    """The contents of all entries that are intact. The folders are checked once, which takes 0.1 ms."""
    places = list(_readable())
    found = ((name, _verified(place / name)) for name in names for place in reversed(places))
    return {name: content for name, content in found if content is not None}


def find(name: str) -> Path | None:
    """The file of an intact entry; it begins with the entry's content."""
    return next((place / name for place in _readable() if _verified(place / name) is not None), None)


def is_damaged(name: str) -> bool:
    """Whether an entry of this name exists but cannot be used."""
    return read(name) is None and any(os.path.lexists(place / name) for place in _readable())


def keep(name: str, content: bytes) -> bytes:
    """Store an entry in the cache, if possible; returns the content."""
    try:
        _written(lambda place: _put(place, name, content))
    except CacheError as error:
        say(f"{error.message}. GPU code is compiled again by every process")
    return content


def build(name: str, make: Callable[[Path], bytes]) -> Path:
    """Build a new entry; returns its file. `make` returns the content, and may work in the folder passed to it.

    If several processes build one entry at the same time, as ranks do, the others wait for the first.
    """

    def put(place: Path) -> Path:
        with waiting_lock(place / f"{TEMPORARY}{name}.lock", PATIENCE) as waited:
            if waited and _verified(place / name) is not None:
                return place / name
            return _made(place)

    def _made(place: Path) -> Path:
        with tempfile.TemporaryDirectory(prefix=TEMPORARY, dir=place, ignore_cleanup_errors=True) as workspace:
            return _put(place, name, make(Path(workspace)))

    return _written(put)


def _put(place: Path, name: str, content: bytes) -> Path:
    """Write an entry so that after a crash, even of the machine, all of it is there or nothing."""
    target = place / name
    handle, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=place)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content + _checksum(name, content))
            file.flush()
            os.fchmod(handle, 0o600)  # the umask may have taken bits away
            os.fsync(handle)
        if target.is_dir():  # which nothing can be renamed to
            remove(target)
        os.replace(temporary, target)
    except BaseException:
        remove(Path(temporary))
        raise
    _sync(place)
    return target


def _sync(place: Path) -> None:
    """Flush a folder's names to disk; some file systems do not support this."""
    with suppress(OSError):
        handle = os.open(place, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def remove(path: Path) -> None:
    """Remove a file or folder, as far as possible."""
    try:
        path.unlink(missing_ok=True)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)


# --- limits ---------------------------------------------------------------------------------------------------------


class Entry(NamedTuple):
    """A file of the cache."""

    used: float  # when it was used last, in seconds since the epoch
    size: int
    path: Path

    @property
    def kind(self) -> str | None:
        """The kind of its content; None if it is unfinished."""
        return None if self.path.name.startswith(TEMPORARY) else KINDS[self.path.suffix]


def entries(place: Path) -> list[Entry]:
    """The entries in a folder of the cache, least recently used first. Other files are left out."""
    found = []
    with os.scandir(place) as files:
        for file in files:
            if file.name.startswith(TEMPORARY) or os.path.splitext(file.name)[1] in KINDS:
                with suppress(OSError):  # another process removed it
                    status = file.stat(follow_symlinks=False)
                    found.append(Entry(status.st_mtime, status.st_size, Path(file.path)))
    return sorted(found)


def trim(keep: str) -> None:
    """Remove entries older than the limit, then the least recently used until the rest is within the limit, except
    `keep`.

    Several processes may do so at once; one that has a library open keeps its pages.
    """
    now, oldest, most = time.time(), time.time() - most_days() * DAY, most_bytes()
    for place in _readable():
        with suppress(OSError):
            found = entries(place)
            left = sum(entry.size for entry in found)
            for entry in found:
                unfinished = entry.kind is None
                if entry.path.name == keep or (unfinished and entry.used > now - DAY):
                    continue
                if unfinished or entry.used < oldest or left > most:
                    remove(entry.path)
                    left -= entry.size


def clear(older_than: float = 0.0) -> list[Entry]:
    """Remove the entries that were not used for this many days; returns them."""
    main = folder()
    if not main.exists():
        return []
    why = refusal(main)
    if why is not None:
        raise CacheError(f"{why}. {HINT}")
    now = time.time()
    found = [entry for entry in entries(main) if entry.kind or entry.used < now - DAY]  # not entries under construction
    gone = [entry for entry in found if entry.used <= now - older_than * DAY]
    for entry in gone:
        remove(entry.path)
    if kept := [entry.path for entry in gone if os.path.lexists(entry.path)]:
        raise CacheError(f"{len(kept)} of {len(gone)} entries could not be removed, such as {kept[0]}")
    return gone
