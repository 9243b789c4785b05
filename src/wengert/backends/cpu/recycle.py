"""Reused memory for large results.

Fresh memory is mapped page by page on first write, which takes longer than most kernels take to write it.
`recycler.empty` gives arrays. When nothing refers to such an array or a view of it any more, its memory serves the next
array of its size. Unused memory never raises the total above the previous peak in use, and memory that is not requested
again is freed after a while.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np

from wengert.core.forking import new_lock
from wengert.core.graph import Shape
from wengert.core.ownership import ownership

LARGE = 1 << 17  # bytes: from here on the C library maps fresh memory for an array, and unmaps it at its end
HUGE = 1 << 21  # bytes: from here on the system may map so much at once instead of 4 KiB
FORGOTTEN_AFTER = 256  # requests

Array = np.ndarray[Any, Any]


class MappedMemory(mmap.mmap):
    """The memory below one array at a time. Views of that array refer to the array: its base is not an array."""


class _Waiting(NamedTuple):
    memory: MappedMemory
    since: int  # the number of the request before which it came back


class Recycler:
    """Memory in use by arrays, and memory that waits for the next one.

    >>> recycler = Recycler()
    >>> first = recycler.empty((512, 512), np.dtype("float32"))
    >>> place, view = first.ctypes.data, first[1:]
    >>> del first
    >>> recycler.empty((512, 512), np.dtype("float32")).ctypes.data == place  # the view is still there
    False
    >>> del view
    >>> recycler.empty((1024, 256), np.dtype("float32")).ctypes.data == place
    True
    """

    def __init__(self) -> None:
        self.lent = 0  # bytes in use
        self.most = 0  # bytes that were in use at once
        self.kept = 0  # bytes that wait
        self._waiting: list[_Waiting] = []  # those that wait for longest first
        self._returned: deque[MappedMemory] = deque()  # finalizers run at any time, in any thread
        self._requests = 0
        self._is_stale = False  # whether unused memory should be freed
        self._lock = new_lock()

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """An uninitialised array, like `np.empty`."""
        return self.maker(shape, dtype)()

    def maker(self, shape: Shape, dtype: np.dtype[Any]) -> Callable[[], Array]:
        """A function that makes such arrays without computing their size each time."""
        size = math.prod(shape) * dtype.itemsize
        if size < LARGE:
            return partial(np.empty, shape, dtype)
        return partial(self._large, shape, dtype, -(-size // mmap.PAGESIZE) * mmap.PAGESIZE)

    def _large(self, shape: Shape, dtype: np.dtype[Any], size: int) -> Array:
        memory = self._take(size)
        array = np.ndarray(shape, dtype, memory)
        finalize(array, self._returned.append, memory).atexit = False
        return array

    def copy(self, array: Array) -> Array:
        """A copy of an array."""
        copy = self.empty(array.shape, array.dtype)
        copy[...] = array
        return copy

    def clear(self) -> None:
        """Free unused memory; during a request (a garbage collection may call this) it is deferred to the next one."""
        self._is_stale = True
        if self._lock.acquire(blocking=False):
            try:
                self._renew()
            finally:
                self._lock.release()

    def _renew(self) -> None:
        self._is_stale = False
        self._collect()
        self._waiting.clear()
        self.kept = 0
        self.most = self.lent

    def _take(self, size: int) -> MappedMemory:
        with self._lock:
            if self._is_stale:
                self._renew()
            self._collect()
            self._requests += 1
            self.lent += size
            self.most = max(self.most, self.lent)
            latest = next((w for w in reversed(self._waiting) if len(w.memory) == size), None)
            if latest is not None:
                self._waiting.remove(latest)
                self.kept -= size
            self._shrink()
        return _mapped(size) if latest is None else latest.memory

    def _collect(self) -> None:
        """Take back memory that was released."""
        while self._returned:
            memory = self._returned.popleft()
            self._waiting.append(_Waiting(memory, self._requests))
            self.lent -= len(memory)
            self.kept += len(memory)

    def _shrink(self) -> None:
        """Free excess memory, and memory that is no longer requested."""
        while self._waiting and (
            self.lent + self.kept > self.most or self._requests - self._waiting[0].since > FORGOTTEN_AFTER
        ):
            self.kept -= len(self._waiting.pop(0).memory)


def _mapped(size: int) -> MappedMemory:
    memory = MappedMemory(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if size >= HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        memory.madvise(mmap.MADV_HUGEPAGE)
    return memory


recycler = Recycler()
"""What the results of all programs lie on."""


def give_back() -> None:
    """Let the C library return freed memory to the system: it keeps small arrays, up to their peak in use."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None
    if trim is not None:
        trim(0)


def is_sole_base(array: Array) -> bool:
    """Whether everything that uses an array's memory refers to this very array, by its reference count.

    A view of a view refers to the array below both, so that must be this one, or one that only this one refers to.
    """
    base: Any = array.base
    if type(base) is np.ndarray and ownership.others([base]) == [2]:  # this array's, and that of the name
        base = base.base
    return base is None or type(base) is MappedMemory
