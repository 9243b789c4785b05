"""Kernels on a GPU: their packed arguments, loading and launching them, alone or as a segment.

A graph segment is launches and library calls with nothing of the host's between them, which one CUDA graph replays.
"""

from __future__ import annotations

import ctypes
import functools
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from ctypes import c_void_p
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np

from wengert.backends.cuda.bindings import check
from wengert.backends.cuda.compile import compiled
from wengert.backends.cuda.stream import Stream
from wengert.backends.protocol import Driver, Replayable, StreamEvent
from wengert.core.errors import OutOfMemoryError
from wengert.kernels.launch import Launch, Number, Struct, TensorMap


class Arguments:
    """The arguments of a kernel, packed as the driver takes them: eight bytes each, and a pointer to every one.

    A tensor map has a block of its own, which `encode` fills whenever the address of its buffer is set, and so has a
    struct. A table (a tuple) is one argument of several places, which are numbered one after the other with all others.
    """

    def __init__(self, values: Sequence[Any], encode: Callable[[TensorMap, int], bytes] | None = None) -> None:
        places = [len(value) if isinstance(value, tuple) else 1 for value in values]
        self.slots = np.zeros(max(sum(places), 1), np.uint64)
        heads = np.cumsum([0, *places[:-1]], dtype=np.uint64)
        self.addresses = self.slots.ctypes.data + 8 * heads
        self.maps: dict[int, tuple[TensorMap, np.ndarray[Any, Any]]] = {}
        self.structs: list[np.ndarray[Any, Any]] = []
        self.encode = encode
        for i, (value, head) in enumerate(zip(values, heads.tolist())):
            if isinstance(value, TensorMap):
                raw = np.zeros(192, np.uint8)
                block = raw[-raw.ctypes.data % 64 :][:128]
                self.maps[head] = value, block
                self.addresses[i] = block.ctypes.data
            elif isinstance(value, Struct):
                self.structs.append(np.frombuffer(value.content, np.uint8))
                self.addresses[i] = self.structs[-1].ctypes.data
            elif not isinstance(value, tuple | Number):
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


class KernelLoader(Stream):
    """A stream with the kernels that are loaded for its GPU."""

    def __init__(self, index: int = 0) -> None:
        super().__init__(index)
        self.functions: dict[tuple[str, str], Any] = {}
        self.allowed: dict[tuple[str, str], int] = {}  # bytes of dynamic shared memory, by function

    def kernels(self, launches: Iterable[Launch]) -> dict[tuple[str, str], Any]:
        """The loaded kernels of some launches, by text and entry; each text is compiled and loaded once."""
        wanted = list(launches)
        missing = [x.source for x in wanted if (x.source, x.entry) not in self.functions]
        code = compiled(missing, self.properties.arch) if missing else {}
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

    def encode(self, described: TensorMap, address: int) -> bytes:
        """A tensor map of the buffer at an address, as the copy engine reads it."""
        cu, m = self.cu, described
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

    def dependent_launch(self, function: Any, shape: Sequence[int], arguments: Arguments) -> DependentLaunch:
        """Launches of a kernel that waits itself for what is before it on the stream, ready to replay."""
        return DependentLaunch(self, function, shape, arguments)

    @functools.cached_property
    def launch_with_attributes(self) -> Callable[..., int]:
        """The driver's `cuLaunchKernelEx`, called with addresses: nothing is converted at every launch."""
        address, _ = check(self.cu.cuGetProcAddress(b"cuLaunchKernelEx", 12000, 0))
        return ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(int(address))


class DependentLaunch:
    """A programmatic dependent launch: the kernel waits itself for what is before it (`wg_follow`), and its blocks are
    resident while that ends. It is replayed, and given other arguments, as a CudaGraph is.
    """

    def __init__(self, driver: KernelLoader, function: Any, shape: Sequence[int], arguments: Arguments) -> None:
        self.driver, cu = driver, driver.cu
        attribute = cu.CUlaunchAttribute()
        attribute.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        self.how = cu.CUlaunchConfig()
        self.how.gridDimX, self.how.gridDimY, self.how.gridDimZ = shape[:3]
        self.how.blockDimX, self.how.blockDimY, self.how.blockDimZ = shape[3:6]
        self.how.sharedMemBytes, self.how.hStream = shape[6], driver.stream
        self.how.attrs, self.how.numAttrs = [attribute], 1
        self.change(None, function, shape, arguments)

    def change(self, node: Any, function: Any, shape: Sequence[int], arguments: Arguments) -> None:
        """Give the kernel other arguments from the next replay on; the program's own may change before that."""
        self.arguments = Arguments([int(address) for address in arguments.slots])
        addresses = (int(self.how.getPtr()), int(function), self.arguments.pointer)
        self.launch = partial(self.driver.launch_with_attributes, *map(c_void_p, addresses), None)

    def replay(self) -> None:
        """Run the kernel."""
        status = self.launch()
        if status:
            check((self.driver.cu.CUresult(status),))


# --- segment --------------------------------------------------------------------------------------------------------


BATCH = 64  # steps that are given to the device at once when they are timed


class KernelCall:
    """One launch of a program, with its arguments packed."""

    __slots__ = ("arguments", "function", "graph_node", "launch", "shape", "step")

    def __init__(self, function: Any, launch: Launch, encode: Any, step: int) -> None:
        self.function, self.launch, self.step = function, launch, step
        self.shape = (*launch.grid, *launch.block, launch.shared)
        self.arguments = Arguments([0 if isinstance(a, str) else a for a in launch.arguments], encode)
        self.graph_node: Any = None

    def enqueue(self, driver: Driver) -> None:
        """Put it on the stream."""
        driver.launch(self.function, self.shape, self.arguments)


class BoundLibraryCall:
    """One call of a library. What it captures keeps its addresses for good."""

    __slots__ = ("candidate", "own", "pointers", "step", "workspace")

    def __init__(self, candidate: Any, count: int, workspace: int, step: int, own: int = 0) -> None:
        self.candidate, self.workspace, self.step = candidate, workspace, step
        self.own = own  # bytes of the workspace, if nothing else of the program ever uses its place
        self.pointers = [0] * count

    def enqueue(self, driver: Driver) -> None:
        """Put it on the stream."""
        self.candidate.enqueue(int(driver.stream), self.pointers, self.workspace)


class GraphSegment:
    """Launches with nothing of the host's between them: what one CUDA graph replays.

    They belong to steps. In the graph a step waits only for those whose memory it needs, so that others run beside it;
    one that needs no other's waits for the first. (Of a small step's 15 kernels three had nothing to wait for: with one
    beginning instead the graph takes 43 us instead of 46, and launching it 4.4 us of the host's time instead of 6.7.)
    """

    def __init__(self, driver: Driver, describe: Callable[[int], str]) -> None:
        self.driver, self.describe = driver, describe  # what the step of a number computes, for people
        self.calls: list[KernelCall | BoundLibraryCall] = []
        self.is_capturable = True
        self.waits: dict[int, Sequence[int]] = {}  # by step: the steps it waits for
        self.runs = 0
        self.graph: Replayable | None = None
        self.changed: set[KernelCall] = set()

    def add(self, call: KernelCall | BoundLibraryCall, waits: Sequence[int]) -> None:
        """Put a call at the end; `waits` are the steps that its step waits for."""
        self.calls.append(call)
        self.waits[call.step] = waits

    def run(self, captures: bool) -> None:
        """Launch everything: one by one the first time, as a graph later."""
        if captures and self.graph is not None and not self.changed:
            self.graph.replay()
            return
        self.runs += 1
        if captures and self.runs > 1 and self.is_capturable:
            self._renew()
        if self.graph is None:
            for call in self.calls:
                call.enqueue(self.driver)
        else:
            self.graph.replay()
        self.changed.clear()

    def _renew(self) -> None:
        """Have something to replay with the current arguments: a graph, or a dependent launch of the only kernel.
        Nothing where a call cannot be captured, which is said once.
        """
        if self.graph is not None:
            for call in self.changed:
                self.graph.change(call.graph_node, call.function, call.shape, call.arguments)
            return
        first: Any = self.calls[0] if self.calls else None
        if isinstance(first, KernelCall) and first.launch.follows:
            self.graph = self.driver.dependent_launch(first.function, first.shape, first.arguments)
            return
        trying: Any = None
        ends: dict[int, list[Any]] = {}  # by step: the nodes of the graph that it ends with
        try:
            with self.driver.capturing() as graph:
                for trying in self.calls:
                    if trying.step not in ends:
                        before = [node for step in self.waits[trying.step] for node in ends.get(step, ())]
                        graph.after(before or next(iter(ends.values()), []))
                    if isinstance(trying, BoundLibraryCall) and trying.own:
                        graph.owns(trying.workspace, trying.own)
                    trying.enqueue(self.driver)
                    ends[trying.step] = graph.nodes()
                    if isinstance(trying, KernelCall):
                        (trying.graph_node,) = ends[trying.step]
            self.graph = graph
        except OutOfMemoryError:
            raise
        except Exception as error:
            self.is_capturable = False
            warnings.warn(
                f"{name_of(trying)}, which computes {self.describe(trying.step)}, cannot be captured in a CUDA graph "
                f"({error}): what is around it is launched one by one",
                RuntimeWarning,
                stacklevel=2,
            )

    def run_timed(self) -> list[tuple[int, StreamEvent, StreamEvent]]:
        """Launch everything one by one; the program's steps by number, with events at their beginning and end."""
        self.runs += 1
        steps = [(step, list(calls)) for step, calls in groupby(self.calls, lambda call: call.step)]
        found = []
        for first in range(0, len(steps), BATCH):
            # not in the first run: loading a kernel may wait for the device
            with self.driver.batched_submission() if self.runs > 1 else nullcontext():
                for step, calls in steps[first : first + BATCH]:
                    start = self.driver.event()
                    for call in calls:
                        call.enqueue(self.driver)
                    found.append((step, start, self.driver.event()))
        return found


def name_of(call: KernelCall | BoundLibraryCall) -> str:
    """The kernel that a call launches, or the library it calls."""
    return call.launch.entry if isinstance(call, KernelCall) else str(call.candidate.name)
