"""The CUDA driver in Python's terms: what this backend asks of a GPU, and nothing more.

A Driver is one GPU with one stream of ours, in whose order everything happens. Threads take turns: who holds its lock
has the stream, and the arena, for itself. Memory comes from the driver's stream-ordered pool; the arena is a range of
addresses that is backed by memory as it grows, so it never moves. Kernels are launched with packed arguments, at once
or, while capturing, as nodes of a graph that can be replayed.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from wengert.backends.cuda.bindings import bindings, check, count
from wengert.backends.cuda.compile import compiled
from wengert.backends.cuda.memset_kernels import filled_by_kernels
from wengert.backends.cuda.stream import Arguments, Following, Mark, Recording
from wengert.core.errors import DeviceError
from wengert.kernels.launch import Device, Launch, TensorMap

RESERVED = 1 << 38  # addresses for the arena: far more than any GPU has memory


class Driver:
    """One GPU."""

    def __init__(self, index: int = 0) -> None:
        cu = self.cu = bindings()
        there = count()
        if not 0 <= index < there:
            raise DeviceError(f"there is no device 'cuda:{index}' here; there are {there} GPUs, from 'cuda:0'")
        self.index = index
        self.lock = threading.RLock()
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
        self.allowed: dict[tuple[str, str], int] = {}  # bytes of dynamic shared memory, by function
        self._gates = itertools.count(1)
        self.is_capturing = False
        self.postponed: deque[Callable[[], Any]] = deque()  # what is to be done when nobody captures

    def make_current(self) -> None:
        """Have this thread's calls go to this GPU."""
        if current.driver is not self:
            check(self.cu.cuCtxSetCurrent(self.context))
            current.driver = self

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
        with self.lock:
            self._settle()
            return int(check(self.cu.cuMemAllocAsync(size, self.stream)))

    def free(self, pointer: int) -> None:
        """Give memory back from this point of the stream on; not as a part of a graph that is being captured."""
        self.when_not_capturing(lambda: check(self.cu.cuMemFreeAsync(pointer, self.stream)))

    def when_not_capturing(self, action: Callable[[], Any]) -> None:
        """Do something now, or later if another thread has the stream or a capture goes on: objects may end at any time
        and in any thread, and must not wait.
        """
        self.postponed.append(action)
        if self.lock.acquire(blocking=False):
            try:
                self._settle()
            finally:
                self.lock.release()

    def _settle(self) -> None:
        """Do what was postponed, in a thread that may be anybody's."""
        if not self.postponed or self.is_capturing:
            return
        is_ours = current.driver is self
        if not is_ours:
            check(self.cu.cuCtxPushCurrent(self.context))
        try:
            while self.postponed:
                self.postponed.popleft()()
        finally:
            if not is_ours:
                check(self.cu.cuCtxPopCurrent())

    def trim(self) -> None:
        """Return the memory that the pools hold and nobody uses."""
        with self.lock:
            self._settle()
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
        with self.lock:
            if not self.arena_start:
                self.arena_start = int(check(self.cu.cuMemAddressReserve(RESERVED, 0, 0, 0)))
            if size > self.arena_size:
                self._grow_arena(size)
            return self.arena_start

    def _grow_arena(self, size: int) -> None:
        cu = self.cu
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

    def error_flag(self) -> int:
        """The address of the number that kernels set when they meet an index out of range."""
        with self.lock:
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
        with self.lock:
            address = array.ctypes.data
            check(self.cu.cuMemcpyHtoDAsync(pointer, address, array.nbytes, self.stream))
            if self._is_pinned(address):  # what is not is put aside before it is copied
                self.synchronize()

    def _is_pinned(self, address: int) -> bool:
        """Whether the device reads this memory of the host by itself."""
        attribute = self.cu.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE
        error, found = self.cu.cuPointerGetAttributes(1, [attribute], address)  # of what CUDA does not know: 0
        return not int(error) and bool(found[0])

    def download(self, array: np.ndarray[Any, Any], pointer: int) -> None:
        """Fill an array from the device, and wait for it."""
        with self.lock:
            check(self.cu.cuMemcpyDtoHAsync(array.ctypes.data, pointer, array.nbytes, self.stream))
            self.synchronize()

    def download_later(self, address: int, pointer: int, size: int) -> None:
        """Copy from the device to pinned memory of the host when the stream comes to it."""
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

    def synchronize(self) -> None:
        """Wait until all is done."""
        with self.lock:
            check(self.cu.cuStreamSynchronize(self.stream))

    def mark(self) -> Mark:
        """This point of the stream."""
        with self.lock:
            return Mark(self.cu, self.stream)

    def be_waited_for(self, stream: int) -> None:
        """Have what comes on another stream wait for what is on ours."""
        self._order(self.stream, self.cu.CUstream(stream))

    def wait_for(self, stream: int) -> None:
        """Have what comes on our stream wait for what is on another."""
        self._order(self.cu.CUstream(stream), self.stream)

    def _order(self, first: Any, then: Any) -> None:
        with self.lock:
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
        with self.lock:  # who waited for the stream meanwhile would wait for ever
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
        with self.lock:
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
                self.functions[key] = check(self.cu.cuModuleGetFunction(modules[launch.source], launch.entry.encode()))
            if launch.shared > self.allowed.get(key, 0):  # what a text declares by itself counts, too
                self.allowed[key] = launch.shared
                attribute = self.cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                check(self.cu.cuFuncSetAttribute(self.functions[key], attribute, launch.shared))
        return self.functions

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

    def following(self, function: Any, shape: Sequence[int], arguments: Arguments) -> Following:
        """Launches of a kernel that waits itself for what is before it on the stream, ready to replay."""
        return Following(self, function, shape, arguments)

    @functools.cached_property
    def launch_with_attributes(self) -> Callable[..., int]:
        """The driver's `cuLaunchKernelEx`, called with addresses: nothing is converted at every launch."""
        address, _ = check(self.cu.cuGetProcAddress(b"cuLaunchKernelEx", 12000, 0))
        return ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(int(address))

    # --- graphs ---------------------------------------------------------------------------------------------------

    @contextmanager
    def capturing(self) -> Iterator[Recording]:
        """Inside, what is put on the stream does not run: it is recorded as a graph, ready to replay afterwards."""
        with self.lock:
            mode = self.cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
            check(self.cu.cuStreamBeginCapture(self.stream, mode))
            self.is_capturing = True
            recording = Recording(self)
            try:
                yield recording
            except BaseException:
                self.cu.cuStreamEndCapture(self.stream)
                raise
            else:
                graph = check(self.cu.cuStreamEndCapture(self.stream))
                recording.finish(filled_by_kernels(self, graph, recording.own))
            finally:
                self.is_capturing = False
                self._settle()

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


class _Current(threading.local):
    """Where a thread's calls go."""

    driver: Driver | None = None


current = _Current()
_open: dict[str, Any] = {}
_opening = threading.Lock()


def opened(device: str) -> Any:
    """The driver of a device by its name, started on first use; this thread's calls go to it."""
    driver = _open.get(device)
    if driver is None:
        with _opening:
            driver = _open.get(device)
            if driver is None:
                driver = _open[device] = make(int(device.partition(":")[2] or 0))
    driver.make_current()
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
