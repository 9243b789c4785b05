"""Kernels on a GPU: loading and launching them."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Iterable, Sequence
from ctypes import c_void_p
from functools import partial
from typing import Any

from wengert.backends.cuda.bindings import check
from wengert.backends.cuda.calls import Arguments
from wengert.backends.cuda.compile import compiled
from wengert.backends.cuda.stream import Stream
from wengert.kernels.launch import Launch, TensorMap


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
            if launch.shared > self.allowed.get(key, 0):  # statically declared shared memory counts too
                self.allowed[key] = launch.shared
                attribute = self.cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                check(self.cu.cuFuncSetAttribute(self.functions[key], attribute, launch.shared))
        return self.functions

    def encode(self, described: TensorMap, address: int) -> bytes:
        """A tensor map of the buffer at an address, for the copy engine."""
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

    def launch(self, function: Any, shape: Sequence[int], arguments: Arguments, cooperative: bool = False) -> None:
        """Run a kernel; `shape` is grid, block and dynamic shared memory: seven numbers.

        With `cooperative`, blocks wait for one another, so the driver starts them only when all fit on the device.
        """
        if cooperative:
            check(self.cu.cuLaunchCooperativeKernel(function, *shape, self.stream, arguments.pointer))
        else:
            check(self.cu.cuLaunchKernel(function, *shape, self.stream, arguments.pointer, 0))

    def dependent_launch(self, function: Any, shape: Sequence[int], arguments: Arguments) -> DependentLaunch:
        """A programmatic dependent launch of a kernel, ready to replay."""
        return DependentLaunch(self, function, shape, arguments)

    @functools.cached_property
    def launch_with_attributes(self) -> Callable[..., int]:
        """The driver's `cuLaunchKernelEx`, called with addresses, so that no launch converts arguments."""
        address, _ = check(self.cu.cuGetProcAddress(b"cuLaunchKernelEx", 12000, 0))
        return ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)(int(address))


class DependentLaunch:
    """A programmatic dependent launch: its blocks become resident while the previous kernel ends.

    The kernel itself waits for that kernel (`wg_follow`). It is replayed and given other arguments like a CudaGraph.
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
        """Set the kernel's arguments from the next replay on; the program's own may change before that."""
        self.arguments = Arguments([int(address) for address in arguments.slots])
        addresses = (int(self.how.getPtr()), int(function), self.arguments.pointer)
        self.launch = partial(self.driver.launch_with_attributes, *map(c_void_p, addresses), None)

    def replay(self) -> None:
        """Run the kernel."""
        status = self.launch()
        if status:
            check((self.driver.cu.CUresult(status),))
