"""The CUDA driver in Python's terms: what this backend asks of a GPU, and nothing more.

A Driver is one GPU with one stream of ours, in whose order everything happens. Memory comes from the driver's
stream-ordered pool; the arena is a range of addresses that is backed by memory as it grows, so it never moves. Kernels
are launched with packed arguments, at once or, while capturing, as nodes of a graph that can be replayed.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from wengert.backends.cuda.compile import compiled
from wengert.errors import CudaError, DeviceError, OutOfMemoryError
from wengert.kernels.launch import Device, Launch, TensorMap

RESERVED = 1 << 38  # addresses for the arena: far more than any GPU has memory

_BY_KERNELS = tuple(
    f"CUDA_ERROR_{name}" for name in ("ILLEGAL_ADDRESS", "MISALIGNED_ADDRESS", "LAUNCH_FAILED", "ILLEGAL_INSTRUCTION")
)
OF_A_KERNEL = (
    ". A kernel did that, maybe long before. Run the program again with wg.config.check = True: that names kernel, op "
    "and line. This process can do nothing more on the GPU"
)
INSTALL = "install Wengert's CUDA parts with: pip install 'wengert[cuda]'"


@functools.cache
def bindings() -> Any:
    """The driver's bindings; raises with what to do where there are none, or no driver, or no GPU."""
    try:
        from cuda.bindings import driver as cu
    except ImportError as error:
        raise DeviceError(f"cuda-bindings is missing ({error}); {INSTALL}") from None
    try:
        status = int(cu.cuInit(0)[0])
    except RuntimeError as error:  # there is no libcuda
        raise DeviceError(f"there is no NVIDIA driver here ({error}); device='cpu' works") from None
    if status == int(cu.CUresult.CUDA_ERROR_NO_DEVICE):
        raise DeviceError("the NVIDIA driver sees no GPU; device='cpu' works")
    if status:
        name = _name(cu, status)
        raise DeviceError(f"the NVIDIA driver does not start ({name}): it may be older than these CUDA libraries")
    return cu


def _name(cu: Any, status: int) -> str:
    found = cu.cuGetErrorName(cu.CUresult(status))[1]
    return found.decode() if isinstance(found, bytes) else str(status)


def check(result: Sequence[Any]) -> Any:
    """What a call of the driver returned, without its status; raises what the status says."""
    status = int(result[0])
    if status:
        cu = bindings()
        if status == int(cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY):
            raise OutOfMemoryError("the GPU has no memory left")
        text = cu.cuGetErrorString(cu.CUresult(status))[1]
        name, text = _name(cu, status), text.decode() if isinstance(text, bytes) else text
        raise CudaError(f"{name}: {text}{OF_A_KERNEL if name in _BY_KERNELS else ''}")
    rest = result[1:]
    return rest[0] if len(rest) == 1 else rest


def count() -> int:
    """How many GPUs there are."""
    return int(check(bindings().cuDeviceGetCount()))


class Arguments:
    """The arguments of a kernel, packed as the driver takes them: eight bytes each, and a pointer to every one.

    A tensor map has a block of its own, which `encode` fills whenever the address of its buffer is set. A table (a
    tuple) is one argument of several places, which are numbered one after the other with all others.
    """

    def __init__(self, values: Sequence[Any], encode: Callable[[TensorMap, int], bytes] | None = None) -> None:
        places = [len(value) if isinstance(value, tuple) else 1 for value in values]
        self.slots = np.zeros(max(sum(places), 1), np.uint64)
        heads = np.cumsum([0, *places[:-1]], dtype=np.uint64)
        self.addresses = self.slots.ctypes.data + 8 * heads
        self.maps: dict[int, tuple[TensorMap, np.ndarray[Any, Any]]] = {}
        self.encode = encode
        for i, (value, head) in enumerate(zip(values, heads.tolist())):
            if isinstance(value, TensorMap):
                raw = np.zeros(192, np.uint8)
                block = raw[-raw.ctypes.data % 64 :][:128]
                self.maps[head] = value, block
                self.addresses[i] = block.ctypes.data
            elif not isinstance(value, tuple):
                self.set(head, value)
        self.pointer = self.addresses.ctypes.data

    def set(self, i: int, value: Any) -> None:
        """Give an argument another value: an address, or a typed number."""
        if i in self.maps:
            assert self.encode is not None
            described, block = self.maps[i]
            block[:] = np.frombuffer(self.encode(described, value), np.uint8)
        elif isinstance(value, np.generic):
            self.slots[i : i + 1].view(np.uint8)[: value.nbytes] = np.frombuffer(value.tobytes(), np.uint8)
        else:
            self.slots[i] = value


class Driver:
    """One GPU."""

    def __init__(self, index: int = 0) -> None:
        cu = self.cu = bindings()
        there = count()
        if not 0 <= index < there:
            raise DeviceError(f"there is no device 'cuda:{index}' here; there are {there} GPUs, from 'cuda:0'")
        self.index = index
        self.device = check(cu.cuDeviceGet(index))
        self.context = check(cu.cuDevicePrimaryCtxRetain(self.device))
        self.make_current()
        self.stream = check(cu.cuStreamCreate(int(cu.CUstream_flags.CU_STREAM_NON_BLOCKING)))
        self.figures = self._figures()
        self.pool = self._kept(check(cu.cuDeviceGetDefaultMemPool(self.device)))
        self.arena_start = 0
        self.arena_size = 0
        self.flag = 0
        self.functions: dict[tuple[str, str], Any] = {}
        self._gates = itertools.count(1)
        self.postponed: list[Callable[[], Any]] | None = None  # while capturing: what is to be done afterwards

    def make_current(self) -> None:
        """Have this thread's calls go to this GPU."""
        if getattr(_current, "driver", None) is not self:
            check(self.cu.cuCtxSetCurrent(self.context))
            _current.driver = self

    def _figures(self) -> Device:
        def ask(name: str) -> int:
            attribute = getattr(self.cu.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
            return int(check(self.cu.cuDeviceGetAttribute(attribute, self.device)))

        major, minor = ask("COMPUTE_CAPABILITY_MAJOR"), ask("COMPUTE_CAPABILITY_MINOR")
        return Device(
            arch=f"{major}{minor}" + ("a" if major >= 9 else ""),
            sms=ask("MULTIPROCESSOR_COUNT"),
            threads_per_sm=ask("MAX_THREADS_PER_MULTIPROCESSOR"),
            blocks_per_sm=ask("MAX_BLOCKS_PER_MULTIPROCESSOR"),
            registers_per_sm=ask("MAX_REGISTERS_PER_MULTIPROCESSOR"),
            shared_per_sm=ask("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
            shared_per_block=ask("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            l2=ask("L2_CACHE_SIZE"),
            bandwidth=2e3 * ask("MEMORY_CLOCK_RATE") * ask("GLOBAL_MEMORY_BUS_WIDTH") / 8,
        )

    @property
    def name(self) -> str:
        """What the GPU is called."""
        found = check(self.cu.cuDeviceGetName(128, self.device))
        return bytes(found).split(b"\0")[0].decode()

    # --- memory ---------------------------------------------------------------------------------------------------

    def _kept(self, pool: Any) -> Any:
        """A pool that keeps freed memory for the next allocation instead of returning it at every synchronisation."""
        threshold = self.cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD
        check(self.cu.cuMemPoolSetAttribute(pool, threshold, self.cu.cuuint64_t(1 << 62)))
        return pool

    def allocate(self, size: int) -> int:
        """The address of new memory, ours from this point of the stream on."""
        return int(check(self.cu.cuMemAllocAsync(size, self.stream)))

    def free(self, pointer: int) -> None:
        """Give memory back from this point of the stream on; not as a part of a graph that is being captured."""
        self.when_not_capturing(lambda: check(self.cu.cuMemFreeAsync(pointer, self.stream)))

    def when_not_capturing(self, action: Callable[[], Any]) -> None:
        """Do something now, or after the capture that goes on: objects may end at any time."""
        if self.postponed is None:
            action()
        else:
            self.postponed.append(action)

    def trim(self) -> None:
        """Return the memory that the pools hold and nobody uses."""
        self.synchronize()
        for pool in self._pools():
            check(self.cu.cuMemPoolTrimTo(pool, 0))

    def reserved(self) -> int:
        """The bytes that the pools hold, used or not."""
        attribute = self.cu.CUmemPool_attribute.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT
        return sum(int(check(self.cu.cuMemPoolGetAttribute(pool, attribute))) for pool in self._pools())

    def _pools(self) -> list[Any]:
        return [self.pool, self.aside[1]] if "aside" in vars(self) else [self.pool]

    def memory_info(self) -> tuple[int, int]:
        """The bytes that are free on the GPU, and all there are."""
        free, total = check(self.cu.cuMemGetInfo())
        return int(free), int(total)

    def arena(self, size: int) -> int:
        """The address of the arena, backed by at least so many bytes."""
        cu = self.cu
        if not self.arena_start:
            self.arena_start = int(check(cu.cuMemAddressReserve(RESERVED, 0, 0, 0)))
        if size > self.arena_size:
            place = cu.CUmemAllocationProp()
            place.type = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
            place.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
            place.location.id = self.index
            unit = int(
                check(
                    cu.cuMemGetAllocationGranularity(
                        place, cu.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_RECOMMENDED
                    )
                )
            )
            more = -(-(size - self.arena_size) // unit) * unit
            handle = check(cu.cuMemCreate(more, place, 0))
            start = self.arena_start + self.arena_size
            check(cu.cuMemMap(start, more, 0, handle, 0))
            access = cu.CUmemAccessDesc()
            access.location = place.location
            access.flags = cu.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
            check(cu.cuMemSetAccess(start, more, [access], 1))
            self.arena_size += more
        return self.arena_start

    def error_flag(self) -> int:
        """The address of the number that kernels set when they meet an index out of range."""
        if not self.flag:
            self.flag = self.allocate(4)
            self.clear(self.flag, 4)
        return self.flag

    def took_error(self) -> bool:
        """Whether a kernel has met an index out of range since the last time of asking; waits for all kernels."""
        if not self.flag:
            return False
        found = np.zeros(1, np.int32)
        self.download(found, self.flag)
        if found[0]:
            self.clear(self.flag, 4)
        return bool(found[0])

    def upload(self, pointer: int, array: np.ndarray[Any, Any]) -> None:
        """Copy an array to the device. It may be changed as soon as this returns."""
        check(self.cu.cuMemcpyHtoDAsync(pointer, array.ctypes.data, array.nbytes, self.stream))

    def download(self, array: np.ndarray[Any, Any], pointer: int) -> None:
        """Fill an array from the device, and wait for it."""
        check(self.cu.cuMemcpyDtoHAsync(array.ctypes.data, pointer, array.nbytes, self.stream))
        self.synchronize()

    def download_later(self, address: int, pointer: int, size: int) -> None:
        """Copy from the device to pinned memory of the host when the stream comes to it."""
        check(self.cu.cuMemcpyDtoHAsync(address, pointer, size, self.stream))

    def copy(self, to: int, source: int, size: int) -> None:
        """Copy bytes on the device."""
        check(self.cu.cuMemcpyDtoDAsync(to, source, size, self.stream))

    def clear(self, pointer: int, size: int) -> None:
        """Set bytes to zero."""
        check(self.cu.cuMemsetD8Async(pointer, 0, size, self.stream))

    def synchronize(self) -> None:
        """Wait until all is done."""
        check(self.cu.cuStreamSynchronize(self.stream))

    def mark(self) -> Mark:
        """This point of the stream."""
        return Mark(self.cu, self.stream)

    def be_waited_for(self, stream: int) -> None:
        """Have what comes on another stream wait for what is on ours."""
        self._order(self.stream, self.cu.CUstream(stream))

    def wait_for(self, stream: int) -> None:
        """Have what comes on our stream wait for what is on another."""
        self._order(self.cu.CUstream(stream), self.stream)

    def _order(self, first: Any, then: Any) -> None:
        event = check(self.cu.cuEventCreate(int(self.cu.CUevent_flags.CU_EVENT_DISABLE_TIMING)))
        check(self.cu.cuEventRecord(event, first))
        check(self.cu.cuStreamWaitEvent(then, event, 0))
        check(self.cu.cuEventDestroy(event))

    def index_of(self, pointer: int) -> int:
        """The number of the GPU in whose memory an address is."""
        attribute = self.cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
        return int(check(self.cu.cuPointerGetAttribute(attribute, pointer)))

    @contextmanager
    def gathered(self) -> Iterator[None]:
        """Inside, what is put on the stream does not begin before all of it is there: marks are then not apart by the
        host's time. A few hundred launches at most, of kernels that are loaded.
        """
        address, number = self._gate, next(self._gates)
        at_least = self.cu.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ
        check(self.cu.cuStreamWaitValue32(self.stream, address, number, int(at_least)))
        try:
            yield
        finally:
            ctypes.c_uint32.from_address(address).value = number

    @functools.cached_property
    def _gate(self) -> int:
        """The address of a number that streams wait for, which begins at 0."""
        address = self.pinned(4)
        ctypes.c_uint32.from_address(address).value = 0
        return address

    # --- copies aside ---------------------------------------------------------------------------------------------

    @functools.cached_property
    def aside(self) -> tuple[Any, Any]:
        """A stream for copies that go on beside the work, and the pool of the memory they fill.

        Memory that the work let go of would have the copies wait for the work.
        """
        cu = self.cu
        place = cu.CUmemPoolProps()
        place.allocType = cu.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        place.location.type = cu.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        place.location.id = self.index
        stream = check(cu.cuStreamCreate(int(cu.CUstream_flags.CU_STREAM_NON_BLOCKING)))
        return stream, self._kept(check(cu.cuMemPoolCreate(place)))

    def allocate_aside(self, size: int) -> int:
        """The address of new memory for a copy aside; `free` gives it back."""
        stream, pool = self.aside
        return int(check(self.cu.cuMemAllocFromPoolAsync(size, pool, stream)))

    def upload_aside(self, pointer: int, source: int, size: int) -> tuple[Mark, Mark]:
        """Copy pinned memory of the host to the device beside the work; what comes on the stream after this waits.

        Gives the copy's beginning and its end.
        """
        stream, _ = self.aside
        start = Mark(self.cu, stream)
        check(self.cu.cuMemcpyHtoDAsync(pointer, source, size, stream))
        stop = Mark(self.cu, stream)
        check(self.cu.cuStreamWaitEvent(self.stream, stop.event, 0))
        return start, stop

    def pinned(self, size: int) -> int:
        """The address of new memory of the host that stays where it is, so that the device can read it itself."""
        return int(check(self.cu.cuMemHostAlloc(size, self.cu.CU_MEMHOSTALLOC_PORTABLE)))

    def free_pinned(self, address: int) -> None:
        """Give pinned memory back."""
        check(self.cu.cuMemFreeHost(address))

    # --- kernels --------------------------------------------------------------------------------------------------

    def kernels(self, launches: Iterable[Launch]) -> dict[tuple[str, str], Any]:
        """The kernels of some launches, by text and entry; each text is compiled and loaded once."""
        wanted = list(launches)
        missing = [x.source for x in wanted if (x.source, x.entry) not in self.functions]
        code = compiled(missing, self.figures.arch) if missing else {}
        modules = {source: check(self.cu.cuModuleLoadData(cubin)) for source, cubin in code.items()}
        for launch in wanted:
            key = launch.source, launch.entry
            if key not in self.functions:
                self.functions[key] = self._function(modules[launch.source], launch.entry, launch.shared)
        return self.functions

    def _function(self, module: Any, entry: str, shared: int) -> Any:
        """A kernel of a module, allowed so much dynamic shared memory."""
        function = check(self.cu.cuModuleGetFunction(module, entry.encode()))
        if shared > 48 << 10:
            attribute = self.cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            check(self.cu.cuFuncSetAttribute(function, attribute, shared))
        return function

    def encode(self, m: TensorMap, address: int) -> bytes:
        """A tensor map of the buffer at an address, as the copy engine reads it."""
        cu = self.cu
        kinds = cu.CUtensorMapDataType
        kind = {
            "float16": kinds.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
            "bfloat16": kinds.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
            "float32": kinds.CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 if m.tf32 else kinds.CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        }[m.dtype.name]
        encoded = check(
            cu.cuTensorMapEncodeTiled(
                kind,
                len(m.sizes),
                address,
                [cu.cuuint64_t(n) for n in m.sizes],
                [cu.cuuint64_t(n) for n in m.steps],
                [cu.cuuint32_t(n) for n in m.box],
                [cu.cuuint32_t(1)] * len(m.sizes),
                cu.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
                cu.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
                cu.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                cu.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        )
        return ctypes.string_at(encoded.getPtr(), 128)

    def launch(self, function: Any, shape: Sequence[int], arguments: Arguments) -> None:
        """Run a kernel; `shape` is grid, block and dynamic shared memory: seven numbers."""
        check(self.cu.cuLaunchKernel(function, *shape, self.stream, arguments.pointer, 0))

    # --- graphs ---------------------------------------------------------------------------------------------------

    @contextmanager
    def capturing(self) -> Iterator[Recording]:
        """Inside, what is put on the stream does not run: it is recorded as a graph, ready to replay afterwards."""
        mode = self.cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
        check(self.cu.cuStreamBeginCapture(self.stream, mode))
        postponed: list[Callable[[], Any]] = []
        self.postponed = postponed
        recording = Recording(self)
        try:
            yield recording
        except BaseException:
            self.cu.cuStreamEndCapture(self.stream)
            raise
        else:
            recording.finish(check(self.cu.cuStreamEndCapture(self.stream)))
        finally:
            self.postponed = None
            for action in postponed:
                action()

    def time(self, work: Callable[[], None], repeats: int = 1) -> float:
        """The seconds that the device takes for some work, the shortest of several times."""
        best = float("inf")
        for _ in range(repeats):
            start = self.mark()
            work()
            end = self.mark()
            end.wait()
            best = min(best, end.since(start))
        return best


class Mark:
    """A point of a stream: whether all before it is done, and how long after another point that was."""

    __slots__ = ("cu", "event")

    def __init__(self, cu: Any, stream: Any) -> None:
        self.cu = cu
        self.event = check(cu.cuEventCreate(0))
        check(cu.cuEventRecord(self.event, stream))

    def is_past(self) -> bool:
        """Whether the device has come to it."""
        status = self.cu.cuEventQuery(self.event)
        if int(status[0]) == int(self.cu.CUresult.CUDA_ERROR_NOT_READY):
            return False
        check(status)
        return True

    def wait(self) -> None:
        """Wait until the device has come to it."""
        check(self.cu.cuEventSynchronize(self.event))

    def since(self, other: Mark) -> float:
        """The seconds from another point to this one; the device has come to both."""
        return float(check(self.cu.cuEventElapsedTime(other.event, self.event))) / 1e3

    def __del__(self) -> None:
        self.cu.cuEventDestroy(self.event)


class Recording:
    """A graph of launches that can be replayed, and given other arguments."""

    def __init__(self, driver: Driver) -> None:
        self.driver, self.cu = driver, driver.cu
        self.graph: Any = None
        self.executable: Any = None

    def nodes(self) -> list[Any]:
        """The nodes that what is captured next would wait for: those of what was captured last."""
        return list(check(self.cu.cuStreamGetCaptureInfo(self.driver.stream))[3])

    def after(self, nodes: Sequence[Any]) -> None:
        """Have what is captured next wait for these nodes, and no others."""
        flag = int(self.cu.CUstreamUpdateCaptureDependencies_flags.CU_STREAM_SET_CAPTURE_DEPENDENCIES)
        check(self.cu.cuStreamUpdateCaptureDependencies(self.driver.stream, list(nodes), None, len(nodes), flag))

    def finish(self, graph: Any) -> None:
        """Make the captured graph ready to replay."""
        self.graph = graph
        self.executable = check(self.cu.cuGraphInstantiate(graph, 0))

    def change(self, node: Any, function: Any, shape: Sequence[int], arguments: Arguments) -> None:
        """Give a kernel of the graph other arguments from the next replay on."""
        parameters = self.cu.CUDA_KERNEL_NODE_PARAMS()
        parameters.func = function
        parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ = shape[:3]
        parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ = shape[3:6]
        parameters.sharedMemBytes = shape[6]
        parameters.kernelParams = arguments.pointer
        check(self.cu.cuGraphExecKernelNodeSetParams(self.executable, node, parameters))

    def replay(self) -> None:
        """Run the graph."""
        status = self.cu.cuGraphLaunch(self.executable, self.driver.stream)
        if status[0]:
            check(status)

    def __del__(self) -> None:
        cu, executable, graph = self.cu, self.executable, self.graph
        if executable is not None:
            self.driver.when_not_capturing(lambda: (cu.cuGraphExecDestroy(executable), cu.cuGraphDestroy(graph)))


_current = threading.local()  # the driver that a thread's calls go to
_open: dict[str, Any] = {}


def opened(device: str) -> Any:
    """The driver of a device by its name, started on first use."""
    driver = _open.get(device)
    if driver is None:
        driver = _open[device] = make(int(device.partition(":")[2] or 0))
    return driver


def all_opened() -> list[Any]:
    """The drivers of all devices in use."""
    return list(_open.values())


def opened_names() -> list[str]:
    """The names of all devices in use."""
    return list(_open)


def make(index: int) -> Any:
    """A driver of this GPU. Tests put another in its place."""
    return Driver(index)
