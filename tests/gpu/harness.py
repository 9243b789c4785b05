"""The least that runs a Work on a GPU: compile with NVRTC, copy arrays there, launch, copy them back, or time it."""

from __future__ import annotations

import functools
import multiprocessing
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import wengert.kernels
from wengert.kernels.launch import Argument, Device, Launch, TensorMap, Work

FOLDER = Path(wengert.kernels.__file__).parent


def checked(result: tuple[Any, ...]) -> Any:
    """What a call of the driver or NVRTC gives, or an error with its name."""
    error, *values = result
    if int(error):
        raise RuntimeError(str(error))
    return values[0] if len(values) == 1 else values


def compiled(source: str, arch: str) -> bytes:
    """A text as a cubin; the compiler's own words in the error where it does not compile."""
    from cuda.bindings import nvrtc

    headers = {path.name: path.read_bytes() for path in (*FOLDER.glob("*.cuh"), *FOLDER.glob("*.h"))}
    names, texts = [name.encode() for name in headers], list(headers.values())
    program = checked(nvrtc.nvrtcCreateProgram(source.encode(), b"kernel.cu", len(headers), texts, names))
    options = [f"--gpu-architecture=sm_{arch}".encode(), b"--std=c++17"]
    (error,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if int(error):
        log = b" " * checked(nvrtc.nvrtcGetProgramLogSize(program))
        nvrtc.nvrtcGetProgramLog(program, log)
        raise RuntimeError(log.decode())
    cubin = b" " * checked(nvrtc.nvrtcGetCUBINSize(program))
    checked(nvrtc.nvrtcGetCUBIN(program, cubin))
    return cubin


def has_gpu() -> bool:
    """Whether there is a driver with a device."""
    try:
        from cuda.bindings import driver

        return int(driver.cuInit(0)[0]) == 0 and checked(driver.cuDeviceGetCount()) > 0
    except (ImportError, RuntimeError):
        return False


@functools.cache
def this_device() -> Device:
    """The figures of the first GPU."""
    from cuda.bindings import driver

    d = driver.CUdevice_attribute
    checked(driver.cuInit(0))
    gpu = checked(driver.cuDeviceGet(0))
    context = checked(driver.cuDevicePrimaryCtxRetain(gpu))
    checked(driver.cuCtxSetCurrent(context))

    def figure(name: str) -> int:
        return int(checked(driver.cuDeviceGetAttribute(getattr(d, f"CU_DEVICE_ATTRIBUTE_{name}"), gpu)))

    major, minor = figure("COMPUTE_CAPABILITY_MAJOR"), figure("COMPUTE_CAPABILITY_MINOR")
    return Device(
        f"{major}{minor}" + ("a" if major == 9 else ""),
        figure("MULTIPROCESSOR_COUNT"),
        figure("MAX_THREADS_PER_MULTIPROCESSOR"),
        figure("MAX_BLOCKS_PER_MULTIPROCESSOR"),
        figure("MAX_REGISTERS_PER_MULTIPROCESSOR"),
        figure("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        figure("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        figure("L2_CACHE_SIZE"),
        4.8e12,
    )


_ready: dict[str, bytes] = {}  # texts that were compiled ahead


def prepare(works: Iterable[Work]) -> None:
    """Compile the texts of works for this device, in as many processes as there are cores."""
    texts = {launch.source for work in works for launch in work.launches} - _ready.keys()
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        _ready.update(zip(texts, pool.map(functools.partial(compiled, arch=this_device().arch), texts)))


@functools.cache
def _function(source: str, entry: str, shared: int) -> Any:
    from cuda.bindings import driver

    cubin = _ready[source] if source in _ready else compiled(source, this_device().arch)
    module = checked(driver.cuModuleLoadData(cubin))
    function = checked(driver.cuModuleGetFunction(module, entry.encode()))
    if shared > 48 << 10:
        most = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        checked(driver.cuFuncSetAttribute(function, most, shared))
    return function


def resources(launch: Launch) -> str:
    """Registers and local memory of a kernel."""
    from cuda.bindings import driver

    function, a = _function(launch.source, launch.entry, launch.shared), driver.CUfunction_attribute
    registers = checked(driver.cuFuncGetAttribute(a.CU_FUNC_ATTRIBUTE_NUM_REGS, function))
    local = checked(driver.cuFuncGetAttribute(a.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function))
    return f"{registers} registers, {local} bytes of local memory"


def submit(launch: Launch, addresses: Mapping[str, int], stream: int = 0) -> None:
    """Put one launch on a stream."""
    from cuda.bindings import driver

    function = _function(launch.source, launch.entry, launch.shared)
    held = [_held(argument, addresses) for argument in launch.arguments]
    pointers = np.array([array.ctypes.data for array in held], np.uint64)
    checked(
        driver.cuLaunchKernel(function, *launch.grid, *launch.block, launch.shared, stream, pointers.ctypes.data, 0)
    )


def _held(argument: Argument, addresses: Mapping[str, int]) -> np.ndarray[Any, Any]:
    """An argument's bytes."""
    if isinstance(argument, TensorMap):
        return _encoded(argument, addresses[argument.buffer])
    return np.array([np.uint64(addresses[argument]) if isinstance(argument, str) else argument])


def _encoded(m: TensorMap, address: int) -> np.ndarray[Any, Any]:
    """A tensor map as the driver encodes it."""
    import ctypes

    from cuda.bindings import driver

    kinds = driver.CUtensorMapDataType
    kind = {
        "float16": kinds.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        "bfloat16": kinds.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        "float32": kinds.CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 if m.tf32 else kinds.CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
    }[m.dtype.name]
    wide, narrow = driver.cuuint64_t, driver.cuuint32_t
    encoded = checked(
        driver.cuTensorMapEncodeTiled(
            kind,
            len(m.sizes),
            address,
            [wide(n) for n in m.sizes],
            [wide(n) for n in m.steps],
            [narrow(n) for n in m.box],
            [narrow(1)] * len(m.sizes),
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    )
    return np.frombuffer(ctypes.string_at(encoded.getPtr(), 128), np.uint8)


def run(work: Work, arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays after the work; they are not changed. Temporaries are filled with garbage first."""
    from cuda.bindings import driver

    this_device()
    addresses, blocks = {}, []
    for name, array in arrays.items():
        addresses[name] = checked(driver.cuMemAlloc(max(array.nbytes, 1)))
        checked(driver.cuMemcpyHtoD(addresses[name], np.ascontiguousarray(array).ctypes.data, array.nbytes))
    for name, size in work.workspace.items():
        addresses[name] = checked(driver.cuMemAlloc(size))
        checked(driver.cuMemsetD8(addresses[name], 0xFF, size))
    blocks = list(addresses.values())
    results = {name: np.empty_like(array) for name, array in arrays.items()}
    try:
        for launch in work.launches:
            submit(launch, {name: int(address) for name, address in addresses.items()})
        checked(driver.cuCtxSynchronize())
        for name, array in results.items():
            checked(driver.cuMemcpyDtoH(array.ctypes.data, addresses[name], array.nbytes))
    finally:
        for block in blocks:
            driver.cuMemFree(block)
    return results


def milliseconds(call: Callable[[], None], repeats: int = 20, rounds: int = 5) -> float:
    """The best over some rounds of the mean time of a call on the default stream, by the device's clock."""
    from cuda.bindings import driver

    begin, end = checked(driver.cuEventCreate(0)), checked(driver.cuEventCreate(0))
    call()
    times = []
    for _ in range(rounds):
        checked(driver.cuEventRecord(begin, 0))
        for _ in range(repeats):
            call()
        checked(driver.cuEventRecord(end, 0))
        checked(driver.cuEventSynchronize(end))
        times.append(checked(driver.cuEventElapsedTime(begin, end)) / repeats)
    return float(min(times))
