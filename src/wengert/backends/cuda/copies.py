"""Copies to a GPU that go on beside its work: from pinned memory of the host, on a stream of their own.

In: host arrays. Out: arrays on the device, which whatever comes next on its stream waits for; nobody else does. An
array that does not lie in pinned memory is put there first, in one of a few blocks that are used in turn.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections import deque
from typing import Any, NamedTuple
from weakref import finalize

import numpy as np

from wengert.backends.cuda.driver import opened
from wengert.backends.cuda.memory import Block, DeviceArray, transfers
from wengert.graph import Shape
from wengert.reference import watch

Array = np.ndarray[Any, Any]
UNDER_WAY = 8  # copies at most; one more waits for the oldest

_ranges: dict[int, int] = {}  # the pinned memory there is: where it begins and ends


def pinned(shape: Shape, dtype: np.dtype[Any], device: str) -> Array:
    """An array in pinned memory, with anything in it."""
    driver = opened(device)
    driver.make_current()
    size = max(math.prod(shape), 1) * dtype.itemsize
    address = driver.pinned(size)
    memory = (ctypes.c_ubyte * size).from_address(address)
    _ranges[address] = address + size
    finalize(memory, _let_go, driver, address).atexit = False
    return np.frombuffer(memoryview(memory), np.uint8)[:size].view(dtype)[: math.prod(shape)].reshape(shape)


def _let_go(driver: Any, address: int) -> None:
    del _ranges[address]
    driver.free_pinned(address)


def is_pinned(array: Array) -> bool:
    """Whether an array lies in pinned memory, one element after the other."""
    begin = array.ctypes.data
    return array.flags.c_contiguous and any(a <= begin and begin + array.nbytes <= b for a, b in _ranges.items())


def upload_aside(array: Array, device: str) -> DeviceArray:
    """An array on the device, which whatever comes next there waits for.

    What lies in pinned memory must not be changed before that; anything else may be, as soon as this returns.
    """
    driver = opened(device)
    driver.make_current()
    lane = _lanes.setdefault(device, Lane(device))
    block = Block(array.nbytes, device, aside=True)
    with lane.lock:
        source = array if is_pinned(array) else lane.staged(array)
        start, stop = driver.upload_aside(block.pointer, source.ctypes.data, array.nbytes)
        lane.under_way.append(Copy(source, source is not array, stop))
    transfers.uploads += 1
    transfers.uploaded += array.nbytes
    if watch.observer is not None:
        watch.observer.copied(driver, array.nbytes, start, stop)
    return DeviceArray(array.shape, array.dtype, device, block)


class Copy(NamedTuple):
    """A copy under way: what it reads, whether that is a block of ours, and when it ends."""

    source: Array
    is_block: bool
    stop: Any


class Lane:
    """The copies to a GPU: those under way, and pinned blocks for the next."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.lock = threading.Lock()
        self.under_way: deque[Copy] = deque()
        self.blocks: list[Array] = []

    def staged(self, array: Array) -> Array:
        """The array in a pinned block."""
        self._settle()
        fitting = [i for i, block in enumerate(self.blocks) if array.nbytes <= block.nbytes <= 4 * array.nbytes]
        if fitting:
            block = self.blocks.pop(fitting[0])
        else:
            block = pinned((1 << max(array.nbytes - 1, 0).bit_length(),), np.dtype(np.uint8), self.device)
        block[: array.nbytes].view(array.dtype).reshape(array.shape)[...] = array
        return block

    def _settle(self) -> None:
        """Take back the blocks that have been read."""
        waiting = self.under_way
        while waiting and (len(waiting) >= UNDER_WAY or waiting[0].stop.is_past()):
            copy = waiting.popleft()
            copy.stop.wait()
            if copy.is_block:
                self.blocks = [copy.source, *self.blocks[: UNDER_WAY - 1]]


_lanes: dict[str, Lane] = {}
