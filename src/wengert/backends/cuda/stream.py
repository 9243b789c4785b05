"""The stream of a GPU: its context, ordering, events, and waiting for other streams."""

from __future__ import annotations

import ctypes
import functools
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from wengert.backends.cuda.bindings import bindings, check, count
from wengert.backends.cuda.event import CudaEvent
from wengert.backends.cuda.properties import name_of, properties_of
from wengert.core.errors import DeviceError


class _Current(threading.local):
    """The GPU that a thread's calls go to."""

    driver: Any = None


current = _Current()


class Stream:
    """A GPU's primary context with one stream, which orders all work; a lock serialises threads."""

    def __init__(self, index: int = 0) -> None:
        cu = self.cu = bindings()
        there = count()
        if not 0 <= index < there:
            raise DeviceError(f"there is no device 'cuda:{index}': this machine has {there} GPUs, starting at 'cuda:0'")
        self.index = index
        self.lock = threading.RLock()
        self.device = check(cu.cuDeviceGet(index))
        self.context = check(cu.cuDevicePrimaryCtxRetain(self.device))
        self.make_current()
        self.stream = check(cu.cuStreamCreate(int(cu.CUstream_flags.CU_STREAM_NON_BLOCKING)))
        self.properties = properties_of(cu, self.device)
        self.is_capturing = False
        self.postponed: deque[Callable[[], Any]] = deque()  # actions postponed until no capture is active
        self._gates = itertools.count(1)

    @property
    def name(self) -> str:
        """The vendor's name for the GPU."""
        return name_of(self.cu, self.device)

    def make_current(self) -> None:
        """Direct this thread's calls to this GPU."""
        if current.driver is not self:
            check(self.cu.cuCtxSetCurrent(self.context))
            current.driver = self

    def synchronize(self) -> None:
        """Wait until everything on the stream is done."""
        with self.lock:
            check(self.cu.cuStreamSynchronize(self.stream))

    # --- actions that must not be captured --------------------------------------------------------------------------

    def when_not_capturing(self, action: Callable[[], Any]) -> None:
        """Run something now, or later if another thread has the stream or a capture is active.

        Objects may be finalized at any time and in any thread, and must not wait.
        """
        self.postponed.append(action)
        if self.lock.acquire(blocking=False):
            try:
                self.flush()
            finally:
                self.lock.release()

    def flush(self) -> None:
        """Run what was postponed, in any thread."""
        if not self.postponed or self.is_capturing:
            return
        is_ours = current.driver is self
        if not is_ours:
            check(self.cu.cuCtxPushCurrent(self.context))
        try:
            while self.postponed:
                self.postponed.popleft()()
        finally:
            if not is_ours:
                check(self.cu.cuCtxPopCurrent())

    # --- events and other streams -----------------------------------------------------------------------------------

    def event(self) -> CudaEvent:
        """An event at the current point of the stream."""
        with self.lock:
            return CudaEvent(self.cu, self.stream)

    def time(self, work: Callable[[], Any], repeats: int = 1) -> float:
        """The seconds that the device takes for some work, the minimum of several runs."""
        best = float("inf")
        for _ in range(repeats):
            start = self.event()
            work()
            end = self.event()
            end.wait()
            best = min(best, end.since(start))
        return best

    def be_waited_for(self, stream: int) -> None:
        """Make later work on another stream wait for ours."""
        self._order(self.stream, self.cu.CUstream(stream))

    def wait_for(self, stream: int) -> None:
        """Make later work on our stream wait for another."""
        self._order(self.cu.CUstream(stream), self.stream)

    def _order(self, first: Any, then: Any) -> None:
        with self.lock:
            event = check(self.cu.cuEventCreate(int(self.cu.CUevent_flags.CU_EVENT_DISABLE_TIMING)))
            check(self.cu.cuEventRecord(event, first))
            check(self.cu.cuStreamWaitEvent(then, event, 0))
            check(self.cu.cuEventDestroy(event))

    @contextmanager
    def batched_submission(self) -> Iterator[None]:
        """A context whose work starts only when all of it is enqueued.

        The time between two events is then device time alone. For at most a few hundred launches of loaded kernels.
        """
        address, number = self._gate, next(self._gates)
        at_least = self.cu.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ
        with self.lock:  # a thread that waited for the stream meanwhile would wait for ever
            check(self.cu.cuStreamWaitValue32(self.stream, address, number, int(at_least)))
            try:
                yield
            finally:
                ctypes.c_uint32.from_address(address).value = number

    @functools.cached_property
    def _gate(self) -> int:
        """The address of a number that streams wait for, initially 0."""
        address = self.pinned(4)
        ctypes.c_uint32.from_address(address).value = 0
        return address

    # --- page-locked memory of the host -----------------------------------------------------------------------------

    def pinned(self, size: int) -> int:
        """The address of new page-locked host memory, which the device can read directly."""
        return int(check(self.cu.cuMemHostAlloc(size, self.cu.CU_MEMHOSTALLOC_PORTABLE)))

    def free_pinned(self, address: int) -> None:
        """Free page-locked memory."""
        check(self.cu.cuMemFreeHost(address))
