"""A GPU as a device: arrays in its memory, ops by kernels for all sizes, programs as CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.backends import protocol
from wengert.backends.cuda import dlpack, driver, memory
from wengert.backends.cuda.interpret import Settings, run
from wengert.backends.cuda.memory import DeviceArray
from wengert.backends.cuda.places import places
from wengert.backends.cuda.program import CudaProgram, codegen_with, target_of
from wengert.core.communication import drain
from wengert.core.devices import Target, number_on_machine
from wengert.core.graph import Node, Shape
from wengert.kernels.launch import cuda_kernels
from wengert.ops.movement import RESHAPE
from wengert.plan.plan import MakeCodegen, Plan


def open_device(name: str, index: int) -> CudaDevice:
    """A GPU by its number; raises an error that says what is missing."""
    return CudaDevice(name, driver.make(number_on_machine(index)))


class CudaDevice:
    """A GPU. Its driver may be NVIDIA's or, in tests, an emulated one."""

    def __init__(self, name: str, driver: protocol.Driver) -> None:
        self.name, self.driver = name, driver
        cuda_kernels()  # loaded with the device, and not in the first step

    @property
    def model(self) -> str:
        """The vendor's name for the GPU."""
        return self.driver.name

    @property
    def dlpack_device(self) -> tuple[int, int]:
        """The device in DLPack's numbering."""
        return dlpack.DLPACK_CUDA, self.driver.index

    # --- arrays -----------------------------------------------------------------------------------------------------

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> DeviceArray:
        """A new, uninitialised array."""
        return DeviceArray(shape, dtype, self.name)

    def upload(self, array: np.ndarray[Any, Any]) -> DeviceArray:
        """A host array, copied to this GPU."""
        return memory.upload(array, self.name)

    def download(self, array: DeviceArray) -> np.ndarray[Any, Any]:
        """An array of this GPU, copied to the host."""
        return memory.download(array)

    def copy_into(self, target: DeviceArray, source: DeviceArray) -> None:
        """Copy the elements of one array into another of the same shape and dtype."""
        self.driver.copy(target.pointer, source.pointer, source.nbytes)

    def is_sole(self, array: DeviceArray) -> bool:
        """Whether everything that uses an array's memory refers to this very array, by its reference count."""
        return array.is_sole()

    def owns_memory(self, array: DeviceArray) -> bool:
        """Whether an array is not a view."""
        return array.is_sole()

    def view(self, node: Node, array: DeviceArray) -> DeviceArray | None:
        """A reshape, or a slice of whole rows at an aligned address; None for any other slice."""
        if node.op is RESHAPE:
            return array.reshape(node.shape)
        starts, steps = node.attrs["starts"], node.attrs["steps"]
        of_rows = node.ndim > 0 and steps[0] == 1 and node.shape[1:] == array.shape[1:]
        return array.rows(starts[0], starts[0] + node.shape[0]) if of_rows else None

    def places(self, array: DeviceArray) -> DeviceArray | None:
        """The indices of nonzero elements, in memory order."""
        return places(array)

    # --- computing --------------------------------------------------------------------------------------------------

    def can_compile(self) -> bool:
        """Always: NVRTC compiles the kernels, and the device does not open without it."""
        return True

    def interpret(
        self,
        order: Sequence[Node],
        keep: set[Node],
        failure: Callable[[Exception, Node], Any],
        *,
        tf32: bool,
        check: bool,
    ) -> None:
        """Give each node of `order` its buffer, one op at a time; those not in `keep` are freed after the last use."""
        run(order, keep, failure, Settings(self.name, tf32, check))

    def target(self, *, tf32: bool = False, budget: int | None = None) -> Target:
        """The GPU as a compilation target."""
        return target_of(self.name, tf32, budget)

    def codegen(self, tuning: float = 0.0) -> MakeCodegen:
        """The CUDA C++ code generator, with the installed libraries."""
        return codegen_with(tuning)

    def build(self, plan: Plan) -> protocol.Program:
        """The program of a plan: launches over one arena, replayed as CUDA graphs."""
        return CudaProgram(plan)

    def synchronize(self) -> None:
        """Wait until the GPU has finished all enqueued work."""
        drain()
        self.driver.make_current()
        self.driver.synchronize()

    def time(self, work: Callable[[], Any], repeats: int = 1) -> float:
        """The seconds that some work takes by the GPU's own clock, the minimum of several runs."""
        self.driver.make_current()
        return self.driver.time(work, repeats)

    # --- exchange ---------------------------------------------------------------------------------------------------

    def to_dlpack(self, array: DeviceArray, *, stream: Any = None, **options: Any) -> Any:
        """A DLPack capsule with an array, or a copy of it, for a consumer that works on `stream`."""
        return dlpack.to_dlpack(array.copy() if options.get("copy") else array, stream)

    def borrow(self, x: Any) -> DeviceArray:
        """An array over the memory of another library's array on a GPU."""
        return dlpack.from_dlpack(x) if hasattr(x, "__dlpack__") else dlpack.from_interface(x)

    def array_interface(self, array: DeviceArray, holder: Any) -> dict[str, Any]:
        """The CUDA array interface of an array; `holder` keeps the array alive."""
        return dlpack.interface(array, holder)
