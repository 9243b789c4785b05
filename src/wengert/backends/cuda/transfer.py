"""Copies between the host and a GPU, and on the GPU; and the flag by which kernels report an index out of range."""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.backends.cuda.allocator import Allocator
from wengert.backends.cuda.bindings import check
from wengert.backends.cuda.event import CudaEvent


class Transfer(Allocator):
    """A GPU's memory with the copies to, from and within it."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.flag = 0

    def upload(self, pointer: int, array: np.ndarray[Any, Any]) -> None:
        """Copy a host array to the device. It may be changed as soon as this returns."""
        with self.lock:
            address = array.ctypes.data
            check(self.cu.cuMemcpyHtoDAsync(pointer, address, array.nbytes, self.stream))
            if self._is_pinned(address):  # the driver stages any other memory before it returns
                self.synchronize()

    def _is_pinned(self, address: int) -> bool:
        """Whether the device can read this host memory directly."""
        attribute = self.cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
        error, found = self.cu.cuPointerGetAttributes(1, [attribute], address)  # 0 for what CUDA does not know
        return not int(error) and bool(found[0])

    def upload_beside(self, pointer: int, source: int, size: int) -> tuple[CudaEvent, CudaEvent]:
        """Copy page-locked memory to the device on the side stream; later work on the main stream waits.

        Returns the events at the copy's start and end.
        """
        stream, _ = self.side_stream
        start = CudaEvent(self.cu, stream)
        check(self.cu.cuMemcpyHtoDAsync(pointer, source, size, stream))
        stop = CudaEvent(self.cu, stream)
        with self.lock:
            check(self.cu.cuStreamWaitEvent(self.stream, stop.event, 0))
        return start, stop

    def download(self, array: np.ndarray[Any, Any], pointer: int) -> None:
        """Fill a host array from the device, and wait for it."""
        with self.lock:
            check(self.cu.cuMemcpyDtoHAsync(array.ctypes.data, pointer, array.nbytes, self.stream))
            self.synchronize()

    def download_later(self, address: int, pointer: int, size: int) -> None:
        """Copy from the device to page-locked memory of the host when the stream reaches it."""
        with self.lock:
            check(self.cu.cuMemcpyDtoHAsync(address, pointer, size, self.stream))

    def copy(self, to: int, source: int, size: int) -> None:
        """Copy bytes on the device."""
        with self.lock:
            check(self.cu.cuMemcpyDtoDAsync(to, source, size, self.stream))

    def clear(self, pointer: int, size: int) -> None:
        """Set bytes to zero."""
        with self.lock:
            check(self.cu.cuMemsetD8Async(pointer, 0, size, self.stream))

    def error_flag(self) -> int:
        """The address of the number that kernels set when an index is out of range or they cannot continue."""
        with self.lock:
            if not self.flag:
                self.flag = self.allocate(4)
                self.clear(self.flag, 4)
            return self.flag

    def took_error(self) -> int:
        """The flag since the last call: 0 for nothing, 1 for an index out of range, or the number of a failed op.

        Waits for all kernels.
        """
        if not self.flag:
            return 0
        found = np.zeros(1, np.int32)
        self.download(found, self.flag)
        if found[0]:
            self.clear(self.flag, 4)
        return int(found[0])
