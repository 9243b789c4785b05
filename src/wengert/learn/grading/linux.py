"""The system calls that the jail is built of, through ctypes: namespaces, mounts, Landlock, and a few of prctl.

Each function does one thing and raises OSError where the kernel refuses. It needs the standard library only: it runs in
an interpreter that has nothing else.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Iterable

CLONE_NEWNS, CLONE_NEWUSER, CLONE_NEWPID = 0x00020000, 0x10000000, 0x20000000
CLONE_NEWNET, CLONE_NEWIPC = 0x40000000, 0x08000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
MNT_DETACH = 2
PR_SET_KEEPCAPS, PR_CAP_AMBIENT, CAP_DAC_READ_SEARCH = 8, 47, 2
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38

LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446  # the numbers are the same on all machines
PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
READ_FILE, READ_DIR, EXECUTE = 1 << 2, 1 << 3, 1 << 0
FILE_RIGHTS = EXECUTE | 1 << 1 | READ_FILE | 1 << 14 | 1 << 15  # what can be allowed for a file that is no folder
RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 5: (1 << 16) - 1}  # by the version that brought them


def _call(name: str, *arguments: object) -> int:
    library = ctypes.CDLL(None, use_errno=True)
    result = int(getattr(library, name)(*arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    """Give this process namespaces of its own."""
    _call("unshare", flags)


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """Mount a file system, or a folder at a second place."""
    _call("mount", source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), options.encode())


def bind_read_only(source: str, target: str) -> None:
    """Show a file or folder at a second place, where it cannot be written."""
    mount(source, target, flags=MS_BIND | MS_REC)
    mount("", target, flags=MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | _locked_flags(target))


def _locked_flags(path: str) -> int:
    """The flags of a mount that a user namespace may not take away, in mount's numbers."""
    flags = os.statvfs(path).f_flag
    return sum(number for held, number in ((4, MS_NODEV), (8, 8), (1024, 1024), (4096, 1 << 21)) if flags & held)


def pivot_root(folder: str) -> None:
    """Make a folder this process's root, and let go of the old one."""
    number = PIVOT_ROOT[platform.machine()]
    os.chdir(folder)
    _call("syscall", ctypes.c_long(number), b".", b".")
    _call("umount2", b".", MNT_DETACH)
    os.chdir("/")


def prctl(option: int, value: int) -> None:
    """Set one of this process's attributes."""
    _call("prctl", option, ctypes.c_ulong(value), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))


def set_user_who_reads(user: int) -> None:
    """Become another user, and keep of root's privileges the one to read what permissions alone would forbid."""
    prctl(PR_SET_KEEPCAPS, 1)
    os.setuid(user)
    header, held = struct.pack("<Ii", 0x20080522, 0), 1 << CAP_DAC_READ_SEARCH
    _call("capset", header, struct.pack("<6I", held, held, held, 0, 0, 0))
    _call("prctl", PR_CAP_AMBIENT, ctypes.c_ulong(2), ctypes.c_ulong(CAP_DAC_READ_SEARCH), *[ctypes.c_ulong(0)] * 2)


def landlock(readable: Iterable[str], listable: Iterable[str], writable: Iterable[str]) -> None:
    """Take this process's access to all files but these, for good; also to TCP, and to processes outside of it."""
    version = _call("syscall", ctypes.c_long(LANDLOCK_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint(1))
    everything = RIGHTS[max(known for known in RIGHTS if known <= version)]
    attributes = struct.pack("<Q", everything)
    if version >= 4:
        attributes += struct.pack("<Q", 3)  # bind and connect
    if version >= 6:
        attributes += struct.pack("<Q", 3)  # abstract sockets and signals
    rules = _call(
        "syscall", ctypes.c_long(LANDLOCK_CREATE), attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0)
    )
    rights_of = ((readable, READ_FILE | READ_DIR | EXECUTE), (listable, READ_DIR), (writable, everything))
    for paths, rights in rights_of:
        for path in paths:
            _allow(rules, path, rights & everything)
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    _call("syscall", ctypes.c_long(LANDLOCK_RESTRICT), ctypes.c_int(rules), ctypes.c_uint(0))
    os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    """Allow access to what lies below a path; a path that does not exist needs no rule."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if not os.path.isdir(path):
            rights &= FILE_RIGHTS
        attributes = struct.pack("<Qi", rights, place)
        _call(
            "syscall", ctypes.c_long(LANDLOCK_ADD), ctypes.c_int(rules), ctypes.c_int(1), attributes, ctypes.c_uint(0)
        )
    finally:
        os.close(place)
