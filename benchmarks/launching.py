"""Launches on a GPU with nothing but the driver: compile texts, run a Work on arrays, time it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from cuda.bindings import driver, nvrtc

from wengert.kernels.launch import Device, Launch, Work

KERNELS = Path(__file__).parents[1] / "src/wengert/kernels"
Array = np.ndarray[Any, Any]


def checked(answer: tuple[Any, ...]) -> Any:
    """What a call of the driver or of NVRTC answered, or its error raised."""
    error, *values = answer
    if int(error) != 0:
        raise RuntimeError(str(error))
    return values[0] if len(values) == 1 else tuple(values)


def cubin(source: str, arch: str) -> bytes:
    """A text compiled by NVRTC."""
    headers = {path.name: path.read_bytes() for path in (*KERNELS.glob("*.cuh"), *KERNELS.glob("*.h"))}
    names, texts = [name.encode() for name in headers], list(headers.values())
    program = checked(nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", len(texts), texts, names))
    options = [f"-arch=sm_{arch}".encode(), b"-std=c++17"]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if int(error) != 0:
        log = bytearray(checked(nvrtc.nvrtcGetProgramLogSize(program)))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(f"{log.decode()}\n{source}")
    code = bytearray(checked(nvrtc.nvrtcGetCUBINSize(program)))
    checked(nvrtc.nvrtcGetCUBIN(program, code))
    checked(nvrtc.nvrtcDestroyProgram(program))
    return bytes(code)


class Harness:
    """Works compiled for the GPU at hand, to run and to time."""

    def __init__(self, works: Iterable[Work], arch: str = "90a") -> None:
        launches = {(x.source, x.entry): x for work in works for x in work.launches}
        sources = list(dict.fromkeys(source for source, _ in launches))
        with ProcessPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
            chunk = max(1, len(sources) // 64)
            codes = dict(zip(sources, pool.map(cubin, sources, [arch] * len(sources), chunksize=chunk)))
        checked(driver.cuInit(0))
        checked(driver.cuCtxSetCurrent(checked(driver.cuDevicePrimaryCtxRetain(checked(driver.cuDeviceGet(0))))))
        self.stream = checked(driver.cuStreamCreate(0))
        self.modules = {source: checked(driver.cuModuleLoadData(code)) for source, code in codes.items()}
        self.functions = {
            (source, entry): checked(driver.cuModuleGetFunction(self.modules[source], entry.encode()))
            for source, entry in launches
        }
        limit = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        for key, launch in launches.items():
            if launch.shared > 48 << 10:
                checked(driver.cuFuncSetAttribute(self.functions[key], limit, launch.shared))

    def registers(self, launch: Launch) -> tuple[int, int]:
        """Registers a thread, and bytes of memory it spills to."""
        function, attribute = self.functions[launch.source, launch.entry], driver.CUfunction_attribute
        names = attribute.CU_FUNC_ATTRIBUTE_NUM_REGS, attribute.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES
        first, second = (checked(driver.cuFuncGetAttribute(name, function)) for name in names)
        return first, second

    def launch(self, launch: Launch, addresses: Mapping[str, int]) -> None:
        """One launch."""
        packed = [np.asarray(_number(argument, addresses)) for argument in launch.arguments]
        pointers = (ctypes.c_void_p * max(1, len(packed)))(*[value.ctypes.data for value in packed])
        function = self.functions[launch.source, launch.entry]
        shape = (*launch.grid, *launch.block, launch.shared)
        checked(driver.cuLaunchKernel(function, *shape, self.stream, ctypes.addressof(pointers), 0))

    def run(self, work: Work, arrays: Mapping[str, Array], reverse: bool = False) -> None:
        """Carry out a work on copies of arrays, and copy them back."""
        sizes = {name: max(array.nbytes, 1) for name, array in arrays.items()} | dict(work.workspace)
        addresses = {name: int(checked(driver.cuMemAlloc(size))) for name, size in sizes.items()}
        for name, array in arrays.items():
            held = np.ascontiguousarray(array)
            checked(driver.cuMemcpyHtoD(addresses[name], held.ctypes.data, held.nbytes))
        for launch in work.launches:
            self.launch(launch, addresses)
        checked(driver.cuStreamSynchronize(self.stream))
        for name, array in arrays.items():
            if array.flags.writeable and array.nbytes:
                back = np.empty(array.shape, array.dtype)
                checked(driver.cuMemcpyDtoH(back.ctypes.data, addresses[name], array.nbytes))
                array[...] = back
        for address in addresses.values():
            checked(driver.cuMemFree(address))

    def seconds(self, work: Work, sets: Sequence[Mapping[str, int]], rounds: int = 5) -> float:
        """The time of a work, the median of some rounds, each a CUDA graph that goes over the sets of buffers often."""
        once = self._timed(self._graph(work, sets, 1), 2)
        repeats = max(1, min(200, int(1.5e-3 / max(once, 1e-6))))
        graph = self._graph(work, sets, repeats)
        times = sorted(self._timed(graph, 1) for _ in range(rounds))
        return times[len(times) // 2] / repeats / len(sets)

    def _graph(self, work: Work, sets: Sequence[Mapping[str, int]], repeats: int) -> Any:
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        checked(driver.cuStreamBeginCapture(self.stream, mode))
        for _ in range(repeats):
            for addresses in sets:
                for launch in work.launches:
                    self.launch(launch, addresses)
        graph = checked(driver.cuStreamEndCapture(self.stream))
        return checked(driver.cuGraphInstantiate(graph, 0))

    def _timed(self, graph: Any, warm: int) -> float:
        first, last = (checked(driver.cuEventCreate(0)) for _ in range(2))
        for _ in range(warm):
            checked(driver.cuGraphLaunch(graph, self.stream))
        checked(driver.cuEventRecord(first, self.stream))
        checked(driver.cuGraphLaunch(graph, self.stream))
        checked(driver.cuEventRecord(last, self.stream))
        checked(driver.cuEventSynchronize(last))
        return float(checked(driver.cuEventElapsedTime(first, last))) * 1e-3


def _number(argument: Any, addresses: Mapping[str, int]) -> Any:
    """An argument as it is passed: an address, a table of them, or the number itself."""
    if isinstance(argument, np.generic):
        return argument
    names = [argument] if isinstance(argument, str) else argument
    return np.array([addresses[name] for name in names], np.uint64)


def this_device() -> Device:
    """The figures of the GPU at hand."""
    checked(driver.cuInit(0))
    gpu = checked(driver.cuDeviceGet(0))

    def figure(name: str) -> int:
        return int(checked(driver.cuDeviceGetAttribute(getattr(driver.CUdevice_attribute, name), gpu)))

    prefix = "CU_DEVICE_ATTRIBUTE_"
    major, minor = (figure(f"{prefix}COMPUTE_CAPABILITY_{part}") for part in ("MAJOR", "MINOR"))
    bus, clock = figure(f"{prefix}GLOBAL_MEMORY_BUS_WIDTH"), figure(f"{prefix}MEMORY_CLOCK_RATE")
    return Device(
        f"{major}{minor}{'a' if major == 9 else ''}",
        figure(f"{prefix}MULTIPROCESSOR_COUNT"),
        figure(f"{prefix}MAX_THREADS_PER_MULTIPROCESSOR"),
        figure(f"{prefix}MAX_BLOCKS_PER_MULTIPROCESSOR"),
        figure(f"{prefix}MAX_REGISTERS_PER_MULTIPROCESSOR"),
        figure(f"{prefix}MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        figure(f"{prefix}MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        figure(f"{prefix}L2_CACHE_SIZE"),
        2 * bus / 8 * clock * 1e3,
    )
