"""A Work on a GPU, by the runtime's own driver: arrays go up, the launches run, the arrays come down again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from wengert.backends.cuda.bindings import check
from wengert.backends.cuda.calls import Arguments
from wengert.backends.cuda.driver import CudaDriver
from wengert.backends.cuda.memory import opened
from wengert.kernels.launch import DeviceProperties, Launch, LaunchList, TensorMap

Array = np.ndarray[Any, Any]


class Item(NamedTuple):
    """A work with its buffers: what is in those it reads, how large the others are."""

    name: str
    work: LaunchList
    given: dict[str, Array]
    empty: dict[str, int]


def gpu() -> CudaDriver:
    """The first GPU, this thread's calls going to it."""
    found = opened("cuda:0")
    assert isinstance(found, CudaDriver)
    return found


def this_device() -> DeviceProperties:
    """The properties of the first GPU."""
    return gpu().properties


def prepare(lists: Iterable[LaunchList]) -> None:
    """Compile and load the kernels of lists, side by side."""
    gpu().kernels(launch for work in lists for launch in work.launches)


def submit(launch: Launch, addresses: Mapping[str, int], stream: Any = None) -> None:
    """Put one launch on a stream, or on the driver's own."""
    driver = gpu()
    function = driver.kernels([launch])[launch.source, launch.entry]
    names = [a.buffer if isinstance(a, TensorMap) else a for a in launch.spread]
    arguments = Arguments([0 if isinstance(a, str) else a for a in launch.arguments], driver.encode)
    for i, name in enumerate(names):
        if isinstance(name, str):
            arguments.set(i, addresses[name])
    shape = (*launch.grid, *launch.block, launch.shared)
    on = driver.stream if stream is None else stream
    if launch.cooperative:
        check(driver.cu.cuLaunchCooperativeKernel(function, *shape, on, arguments.pointer))
    else:
        check(driver.cu.cuLaunchKernel(function, *shape, on, arguments.pointer, 0))


@contextmanager
def placed(arrays: Mapping[str, Array], sizes: Mapping[str, int]) -> Iterator[dict[str, int]]:
    """Addresses of arrays that were copied to the device, and of so many bytes that nobody has written.

    Each has an allocation of its own size, so that a tool that watches memory sees every access beyond its end.
    """
    driver = gpu()
    wanted = {**{name: array.nbytes for name, array in arrays.items()}, **sizes}
    addresses = {name: int(check(driver.cu.cuMemAlloc(max(size, 1)))) for name, size in wanted.items()}
    try:
        for name, array in arrays.items():
            if array.nbytes:
                driver.upload(addresses[name], np.ascontiguousarray(array))
        yield addresses
        driver.synchronize()
    finally:
        for address in addresses.values():
            check(driver.cu.cuMemFree(address))


def run(work: LaunchList, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """The arrays after the work; they are not changed. Temporaries are filled with garbage first."""
    driver = gpu()
    results = {name: np.empty_like(array) for name, array in arrays.items()}
    with placed(arrays, work.workspace) as addresses:
        for name, size in work.workspace.items():
            check(driver.cu.cuMemsetD8Async(addresses[name], 0xFF, size, driver.stream))
        for launch in work.launches:
            submit(launch, addresses)
        for name, array in results.items():
            if array.nbytes:
                driver.download(array, addresses[name])
    return results
