"""Events: points in a stream."""

from __future__ import annotations

from typing import Any

from wengert.backends.cuda.bindings import check


class CudaEvent:
    """A point in a stream: whether everything before it is done, and the time since another point."""

    __slots__ = ("cu", "event")

    def __init__(self, cu: Any, stream: Any) -> None:
        self.cu = cu
        self.event = check(cu.cuEventCreate(0))
        check(cu.cuEventRecord(self.event, stream))

    def is_done(self) -> bool:
        """Whether the device has reached it."""
        status = self.cu.cuEventQuery(self.event)
        if int(status[0]) == int(self.cu.CUresult.CUDA_ERROR_NOT_READY):
            return False
        check(status)
        return True

    def wait(self) -> None:
        """Wait until the device has reached it."""
        check(self.cu.cuEventSynchronize(self.event))

    def since(self, other: CudaEvent) -> float:
        """The seconds from another event to this one, both reached by the device."""
        return float(check(self.cu.cuEventElapsedTime(other.event, self.event))) / 1e3

    def __del__(self) -> None:
        self.cu.cuEventDestroy(self.event)
