"""Values in GPU memory: arrays that hold a reference to their block, and blocks that free themselves.

All arrays are contiguous. All copies to and from the device happen here and are counted: `transfers` has the number in
each direction.
"""

from __future__ import annotations

import gc
import math
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from wengert.backends import protocol
from wengert.backends.cuda.failures import failed
from wengert.core import devices
from wengert.core.code import describe, here
from wengert.core.communication import drain
from wengert.core.devices import keepers
from wengert.core.errors import OutOfMemoryError, OutOfRangeError
from wengert.core.graph import Shape
from wengert.core.ownership import ownership

if TYPE_CHECKING:
    from wengert.backends.cuda.device import CudaDevice

_LARGE = 1 << 30  # bytes: from here on it is worth a look whether there is so much at all
ALIGNMENT = 16  # bytes: what the widest load of a kernel asks for


@dataclass
class Transfers:
    """The number of copies between host and device, and their bytes."""

    uploads: int = 0
    downloads: int = 0
    uploaded: int = 0
    downloaded: int = 0


@dataclass
class Usage:
    """The bytes that arrays hold now, and their peak."""

    live: int = 0
    peak: int = 0


transfers = Transfers()
unchecked: dict[str, dict[str, None]] = {}
"""By device: the ops with indices, and their lines, that ran since somebody last looked whether all were in range."""

usage: dict[str, Usage] = {}
_lock = threading.RLock()  # of `usage`: garbage may be collected, and blocks be freed, while it is held


def opened(device: str) -> protocol.Driver:
    """The driver of a device by name, started on first use; makes it current for this thread."""
    driver = cast("CudaDevice", devices.of(device)).driver
    driver.make_current()
    return driver


class MemoryBlock:
    """A range of GPU memory, freed when nothing refers to it any more."""

    __slots__ = ("__weakref__", "device", "driver", "location", "pointer", "size")

    def __init__(self, size: int, device: str, beside: bool = False) -> None:
        self.size, self.device, self.location = max(size, 1), device, here()
        self.pointer = 0
        self.driver = opened(device)
        self.pointer = afforded(self.driver.allocate_beside if beside else self.driver.allocate, self.size, device)
        with _lock:
            used = usage.setdefault(device, Usage())
            used.live += self.size
            used.peak = max(used.peak, used.live)

    def __del__(self) -> None:
        if self.pointer and not sys.is_finalizing():
            with _lock:
                usage[self.device].live -= self.size
            self.driver.free(self.pointer)


def afforded(ask: Callable[[int], int], size: int, device: str) -> int:
    """The address of this many bytes; if memory is short, retries after collecting garbage and caches."""
    driver = opened(device)
    if size > _LARGE and size > driver.memory_info()[1]:  # the driver would look for it for seconds
        raise OutOfMemoryError(shortage(size, device))
    try:
        return ask(size)
    except OutOfMemoryError:
        for keeper in list(keepers):
            keeper.let_go()
        gc.collect()
        driver.trim()
    try:
        return ask(size)
    except OutOfMemoryError:
        raise OutOfMemoryError(shortage(size, device)) from None


def shortage(size: int, device: str) -> str:
    """The out-of-memory message: the request, the memory in use, and the lines that hold most of it."""
    driver = opened(device)
    free, total = driver.memory_info()
    live = usage.setdefault(device, Usage()).live
    lines = "".join(f"\n  {_readable(held):>8} at {line}" for line, held in holders(device, 5))
    return (
        f"{device} cannot allocate {_readable(size)}: of {_readable(total)}, {_readable(free)} are free, tensors hold "
        f"{_readable(live)} and programs {_readable(driver.arena_size)}. Delete tensors, use smaller batches, or "
        f"wg.checkpoint{'. Most of it was allocated by these lines:' + lines if lines else ''}"
    )


def _readable(size: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


class DeviceArray:
    """An array on a GPU: a block, or a range of one, with shape and dtype. A view refers to its memory's owner."""

    __slots__ = ("__weakref__", "block", "dtype", "owner", "pointer", "shape")

    def __init__(self, shape: Shape, dtype: np.dtype[Any], device: str) -> None:
        self.shape, self.dtype = shape, dtype
        self.owner: Any = None
        self.block = MemoryBlock(math.prod(shape) * dtype.itemsize, device)
        self.pointer: int = self.block.pointer  # where it begins

    @staticmethod
    def over(shape: Shape, dtype: np.dtype[Any], block: Any, pointer: int, owner: Any) -> DeviceArray:
        """An array at an address in another owner's block."""
        array = DeviceArray.__new__(DeviceArray)
        array.shape, array.dtype, array.block, array.pointer, array.owner = shape, dtype, block, pointer, owner
        return array

    @property
    def device(self) -> str:
        """Its GPU."""
        return str(self.block.device)

    @property
    def size(self) -> int:
        """How many elements it has."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """How many bytes it takes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def reshape(self, shape: Shape) -> DeviceArray:
        """The same memory with another shape."""
        return DeviceArray.over(shape, self.dtype, self.block, self.pointer, self.owner or self)

    def is_sole(self) -> bool:
        """Whether everything that uses this memory refers to this very array.

        An owner that only this view (and the caller) refers to is dropped: the view then becomes the owner.
        """
        if type(self.owner) is DeviceArray and ownership.others([self.owner]) == [1]:
            self.owner = None
        return self.owner is None

    def rows(self, start: int, stop: int) -> DeviceArray | None:
        """Some rows, in the same memory; None if their alignment does not suit kernels."""
        pointer = self.pointer + start * (self.nbytes // max(self.shape[0], 1))
        if pointer % ALIGNMENT:
            return None
        return DeviceArray.over((stop - start, *self.shape[1:]), self.dtype, self.block, pointer, self.owner or self)

    def copy(self) -> DeviceArray:
        """A copy in its own memory."""
        twin = DeviceArray(self.shape, self.dtype, self.device)
        opened(self.device).copy(twin.pointer, self.pointer, self.nbytes)
        return twin

    def __repr__(self) -> str:
        return f"<array of shape {self.shape}, {self.dtype}, on {self.device}>"


def upload(array: np.ndarray[Any, Any], device: str) -> DeviceArray:
    """A host array, copied to the device."""
    array = np.asarray(array, order="C")
    made = DeviceArray(array.shape, array.dtype, device)
    upload_into(made.pointer, array, device)
    return made


def upload_into(pointer: int, array: np.ndarray[Any, Any], device: str) -> None:
    """Copy a contiguous host array to this address."""
    if array.nbytes:
        opened(device).upload(pointer, array)
    transfers.uploads += 1
    transfers.uploaded += array.nbytes


def download(array: DeviceArray) -> np.ndarray[Any, Any]:
    """A device array, copied to the host."""
    made = np.empty(array.shape, array.dtype)
    driver = opened(array.device)
    drain()
    if made.nbytes:
        driver.download(made, array.pointer)
    check_indices(array.device)
    transfers.downloads += 1
    transfers.downloaded += made.nbytes
    return made


def check_indices(device: str) -> None:
    """Raise an error if an index was out of range or an op failed since the last check.

    Waits for the device in that case.
    """
    checks = unchecked.pop(device, None)
    drain()
    noted = opened(device).took_error() if checks else 0
    if noted > 1:
        raise failed(noted)
    if checks and noted:
        what = "an index (a class, an integer's exponent, a quantile)"
        raise OutOfRangeError(f"{what} was out of range on {device}, in one of these: {', '.join(checks)}")


def holders(device: str, top: int = 10) -> list[tuple[str, int]]:
    """The user's lines that hold most memory, with their bytes."""
    by_line: dict[str, int] = {}
    for thing in gc.get_objects():
        if type(thing) is MemoryBlock and thing.device == device and thing.pointer:
            line = describe(thing.location) if thing.location else "?"
            by_line[line] = by_line.get(line, 0) + thing.size
    return sorted(by_line.items(), key=lambda item: -item[1])[:top]
