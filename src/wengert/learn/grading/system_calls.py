"""Takes system calls away from a process and from all that it starts, by a seccomp filter.

Limits of memory do not count what these calls get (System V shared memory, files in memory, file systems in a user
namespace), and no exercise needs a socket, a debugger or a key ring. `refuse` installs the filter: a call on the list
fails with EPERM. It needs the standard library only: it runs in an interpreter that has nothing else.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

PR_SET_SECCOMP, FILTER = 22, 2
# The codes of the filter's instructions: load a word, compare, compare bits, return.
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, ERROR = 0x7FFF0000, 0x00050000
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # where the kernel puts them
NAMESPACES = 0x7E020000  # the flags of `clone` that make namespaces
X32 = 0x40000000  # numbers from here on are those of another interface of x86-64

# The machine's name in the kernel's audit, and its numbers of the calls.
MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE = {"x86_64": 56, "aarch64": 220}
CLONE3 = 435  # its flags lie in memory, where a filter cannot look: the C library then uses `clone`
REFUSED = {
    "socket": (41, 198),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "pidfd_getfd": (438, 438),
    "shmget": (29, 194),
    "semget": (64, 190),
    "msgget": (68, 186),
    "mq_open": (240, 180),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
}
# Calls that act on the process with the number that is their first argument: this one (or 0) may be meant.
OWN_ONLY = {
    "kill": (62, 129),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_open": (434, 434),
    "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122),
}


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def refuse() -> None:
    """Refuse the calls from now on. The process must have given up new privileges (PR_SET_NO_NEW_PRIVS)."""
    if platform.machine() not in MACHINES:
        raise OSError(errno.ENOSYS, f"the numbers of system calls on {platform.machine()} are not known")
    text = _filter(platform.machine(), os.getpid())
    library = ctypes.CDLL(None, use_errno=True)
    program = _Program(len(text) // 8, text)
    if library.prctl(PR_SET_SECCOMP, ctypes.c_ulong(FILTER), ctypes.byref(program), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


def _filter(machine: str, own: int) -> bytes:
    """The filter's instructions: a code, how many to skip if true and if false, and a number."""
    column = [*MACHINES].index(machine)
    refused, absent = ERROR | errno.EPERM, ERROR | errno.ENOSYS
    lines = [
        *[(LOAD, 0, 0, ARCHITECTURE), (EQUAL, 1, 0, MACHINES[machine]), (RETURN, 0, 0, refused)],
        *[(LOAD, 0, 0, NUMBER), (AT_LEAST, 0, 1, X32), (RETURN, 0, 0, refused)],
        *[(EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, absent)],
    ]
    for numbers in REFUSED.values():
        lines += [(EQUAL, 0, 1, numbers[column]), (RETURN, 0, 0, refused)]
    for numbers in OWN_ONLY.values():
        lines += [(EQUAL, 0, 5, numbers[column]), (LOAD, 0, 0, FIRST_ARGUMENT), (EQUAL, 2, 0, 0), (EQUAL, 1, 0, own)]
        lines += [(RETURN, 0, 0, refused), (RETURN, 0, 0, ALLOW)]
    lines += [(EQUAL, 0, 3, CLONE[machine]), (LOAD, 0, 0, FIRST_ARGUMENT), (ANY_BIT, 0, 1, NAMESPACES)]
    lines += [(RETURN, 0, 0, refused), (RETURN, 0, 0, ALLOW)]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)
