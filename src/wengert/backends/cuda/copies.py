"""Asynchronous copies between host and GPU through pinned memory.

Uploads: host arrays become arrays on the device, on a separate stream beside the work; later work on the device's
stream waits for them. An array outside pinned memory is first copied into one of a few pinned blocks that are used in
turn. Downloads: values are copied when the device's stream reaches the copy, and waited for when they are read, while
later work continues.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections import deque
from functools import partial
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np

from wengert.backends.cuda.memory import DeviceArray, MemoryBlock, check_indices, opened, transfers, upload
from wengert.backends.protocol import Driver, StreamEvent
from wengert.core.evaluation import watch
from wengert.core.graph import Shape

Array = np.ndarray[Any, Any]
UNDER_WAY = 8  # copies to a device at most; one more waits for the oldest
KEPT = 32  # blocks that wait for their next use
FLAG = 16  # bytes in front of a download: the device's note of an index out of range

_ranges: dict[int, int] = {}  # the pinned memory there is: where it begins and ends


def pinned(shape: Shape, dtype: np.dtype[Any], device: str) -> Array:
    """An uninitialised array in pinned memory."""
    driver = opened(device)
    driver.make_current()
    size = max(math.prod(shape), 1) * dtype.itemsize
    address = driver.pinned(size)
    memory = (ctypes.c_ubyte * size).from_address(address)
    _ranges[address] = address + size
    finalize(memory, _let_go, driver, address).atexit = False
    return np.frombuffer(memoryview(memory), np.uint8)[:size].view(dtype)[: math.prod(shape)].reshape(shape)


def _let_go(driver: Driver, address: int) -> None:
    del _ranges[address]
    driver.when_not_capturing(partial(driver.free_pinned, address))


def is_pinned(array: Array) -> bool:
    """Whether an array is contiguous in pinned memory."""
    begin, ranges = array.ctypes.data, list(_ranges.items())
    return array.flags.c_contiguous and any(a <= begin and begin + array.nbytes <= b for a, b in ranges)


def upload_beside(array: Array, device: str) -> DeviceArray:
    """An array on the device, which later work there waits for.

    Pinned memory must not be changed before the copy is done; other memory may be, as soon as this returns.
    """
    if not array.nbytes:
        return upload(array, device)
    driver = opened(device)
    driver.make_current()
    lane = _lanes.setdefault(device, Lane(device))
    block = MemoryBlock(array.nbytes, device, beside=True)
    with lane.lock:
        source = array if is_pinned(array) else lane.staged(array)
        start, stop = driver.upload_beside(block.pointer, source.ctypes.data, array.nbytes)
        lane.under_way.append(Copy(source, source is not array, stop))
    transfers.uploads += 1
    transfers.uploaded += array.nbytes
    if watch.observer is not None:
        watch.observer.copied(driver, array.nbytes, start, stop)
    return DeviceArray.over(array.shape, array.dtype, block, block.pointer, None)


class Download:
    """The elements of an array on a GPU, being copied to the host."""

    def __init__(self, array: DeviceArray) -> None:
        self.device, self.shape, self.dtype, self.size = array.device, array.shape, array.dtype, array.nbytes
        driver = opened(self.device)
        driver.make_current()
        self._lane = _lanes.setdefault(self.device, Lane(self.device))
        with self._lane.lock:
            self._block = self._lane.block(self.size + FLAG)
        address = self._block.ctypes.data
        self._block[:FLAG] = 0
        if driver.flag:  # whether an index was out of range in what came before
            driver.download_later(address, driver.flag, 4)
        if self.size:
            driver.download_later(address + FLAG, array.pointer, self.size)
        self._stop = driver.event()
        self._found: Array | None = None
        transfers.downloads += 1
        transfers.downloaded += self.size

    def numpy(self) -> Array:
        """The elements, as soon as the copy is done."""
        if self._found is None:
            self._stop.wait()
            if self._block[:FLAG].any():
                check_indices(self.device)
            found = self._block[FLAG : FLAG + self.size].copy().view(self.dtype).reshape(self.shape)
            found.flags.writeable = False
            self._found = found
            with self._lane.lock:
                self._lane.give_back(self._block)
            del self._block
        return self._found

    def item(self) -> Any:
        """The single element, as a Python number."""
        return self.numpy().item()

    def __float__(self) -> float:
        return float(self.numpy())


class Copy(NamedTuple):
    """A copy in flight: its source, whether that is a block of ours, and its end."""

    source: Array
    is_block: bool
    stop: StreamEvent


class Lane:
    """The copies to a GPU in flight, and pinned blocks for further ones in either direction."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.lock = threading.Lock()
        self.under_way: deque[Copy] = deque()
        self.blocks: list[Array] = []

    def staged(self, array: Array) -> Array:
        """The array, copied to a pinned block."""
        block = self.block(array.nbytes)
        block[: array.nbytes].view(array.dtype).reshape(array.shape)[...] = array
        return block

    def block(self, size: int) -> Array:
        """A pinned block of at least this many bytes."""
        self._collect()
        fitting = [i for i, block in enumerate(self.blocks) if size <= block.nbytes <= 4 * size]
        if fitting:
            return self.blocks.pop(fitting[0])
        return pinned((1 << max(size - 1, 0).bit_length(),), np.dtype(np.uint8), self.device)

    def give_back(self, block: Array) -> None:
        """Keep a block for the next copy; if there are many, only the latest."""
        self.blocks = [block, *self.blocks[: KEPT - 1]]

    def _collect(self) -> None:
        """Take back the blocks whose copies are done."""
        waiting = self.under_way
        while waiting and (len(waiting) >= UNDER_WAY or waiting[0].stop.is_done()):
            copy = waiting.popleft()
            copy.stop.wait()
            if copy.is_block:
                self.give_back(copy.source)


_lanes: dict[str, Lane] = {}
