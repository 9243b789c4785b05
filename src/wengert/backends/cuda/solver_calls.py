"""Calls of cuSOLVER and cuBLAS: their handles on a stream, and routines of the 64-bit interface over a batch.

Each matrix of a batch is one call. The status of each factorisation stays on the device, where a kernel of ours checks
it.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from wengert.backends.cuda.vendor import PartsList, VendorLibrary, opened_library
from wengert.kernels.linalg.around import checked


def library() -> VendorLibrary | None:
    """cuSOLVER, or None if it or cuBLAS is not installed."""
    return opened_library("cusolver", "cusolverDn") if blas() is not None else None


def blas() -> VendorLibrary | None:
    """cuBLAS, or None if it is not installed."""
    return opened_library("cublas", "cublas")


def there(found: VendorLibrary | None) -> VendorLibrary:
    assert found is not None
    return found


@functools.cache
def handle_of(device: int) -> int:
    return there(library()).created("Create")


@functools.cache
def parameters_of(device: int) -> int:
    return there(library()).created("CreateParams")


@functools.cache
def blas_handle(device: int) -> int:
    return there(blas()).created("Create_v2")


def on_stream(stream: int, device: int) -> tuple[VendorLibrary, int, int]:
    """cuSOLVER, its handle set to a stream, and its parameters."""
    handle = handle_of(device)
    there(library()).call("SetStream", ctypes.c_void_p(handle), ctypes.c_void_p(stream))
    return there(library()), handle, parameters_of(device)


def c_pointers(*addresses: int) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(address) for address in addresses]


class Routine:
    """A routine of the 64-bit interface: its name and arguments, with buffers in argument order.

    `arguments` are numbers, and names of buffers in place of their addresses.
    """

    def __init__(self, name: str, arguments: Sequence[int | str], device: int, last: Sequence[Any] = ()) -> None:
        self.name, self.arguments, self.device, self.last = name, arguments, device, last
        self.buffers = [x for x in arguments if isinstance(x, str)]
        on_device, on_host = ctypes.c_size_t(), ctypes.c_size_t()
        given = [ctypes.c_void_p(0) if isinstance(x, str) else x for x in arguments]
        handles = c_pointers(handle_of(device), parameters_of(device))
        there(library()).call(f"{name}_bufferSize", *handles, *given, ctypes.byref(on_device), ctypes.byref(on_host))
        self.workspace = on_device.value
        self.on_host = ctypes.create_string_buffer(max(on_host.value, 1))

    def run(self, stream: int, addresses: Mapping[str, int], workspace: int, info: int) -> None:
        """Enqueue it on a stream."""
        solver, handle, parameters = on_stream(stream, self.device)
        given = [ctypes.c_void_p(addresses[x]) if isinstance(x, str) else x for x in self.arguments]
        host = ctypes.cast(self.on_host, ctypes.c_void_p), len(self.on_host)
        work = ctypes.c_void_p(workspace), self.workspace
        solver.call(self.name, *c_pointers(handle, parameters), *given, *work, *host, ctypes.c_void_p(info), *self.last)


def for_each(
    made: PartsList,
    routine: Routine,
    buffers: Mapping[str, tuple[str, int]],
    count: int,
    failure: str,
    dtype: np.dtype[Any],
    captured: bool = True,
) -> None:
    """A routine for each matrix of a batch, in turn; `buffers` are the step's, with the bytes between matrices."""
    info = made.temporary("info", 4 * count)
    work = made.temporary("work", routine.workspace)

    def run(stream: int, pointers: Sequence[int]) -> None:
        *places, workspace, flags = pointers
        for k in range(count):
            at = {name: place + k * step for (name, (_, step)), place in zip(buffers.items(), places)}
            routine.run(stream, at, workspace, flags + 4 * k)

    operands = [*(name for name, _ in buffers.values()), work, info]
    made.call(f"cuSOLVER {routine.name}", operands, run, captured)
    if failure:
        made.launch(checked(info, count, failure, dtype))
