"""Ctrl-C during a C loop: an exception that a signal handler raises meanwhile is raised when the program returns.

See `loops.h`.
"""

from __future__ import annotations

import ctypes
from typing import Any

_FUNCTIONS = ("PyGILState_Ensure", "PyGILState_Release", "PyErr_CheckSignals", "PyErr_Fetch")
Raised = Any


def connect(library: ctypes.CDLL) -> Raised:
    """Let a library's loops check for signals; returns where it keeps what they raise."""
    python = (ctypes.c_void_p * len(_FUNCTIONS)).in_dll(library, "wg_python")
    python[:] = [ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in _FUNCTIONS]
    return (ctypes.c_void_p * 3).in_dll(library, "wg_raised")


def raise_kept(raised: Raised) -> None:
    """Raise the exception of a signal handler, if there was one."""
    if raised is None or not raised[0]:
        return
    kept = [ctypes.c_void_p(value) for value in raised]
    raised[:] = [None] * len(kept)
    ctypes.pythonapi.PyErr_Restore(*kept)  # which takes the references; the call raises
