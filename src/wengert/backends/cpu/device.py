"""The host as a device: NumPy arrays, ops by their NumPy references, programs in C."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from wengert.backends import numpy as reference
from wengert.backends.cpu import draws, toolchain
from wengert.backends.cpu.program import CpuProgram
from wengert.backends.cpu.recycle import is_sole_base, recycler
from wengert.backends.protocol import Program
from wengert.core.devices import HOST, Target
from wengert.core.dtypes import HALF, bfloat16
from wengert.core.errors import DTypeError
from wengert.core.graph import Node, Shape
from wengert.ops import random
from wengert.plan.c_codegen import CCodegen
from wengert.plan.plan import MakeCodegen, Plan

Array = np.ndarray[Any, Any]

random.drawer = draws.fill


class HostDevice:
    """The CPU, and the memory of NumPy's arrays."""

    name = HOST
    dlpack_device = (1, 0)

    @property
    def model(self) -> str:
        """The system's name for the processor."""
        return platform.processor() or platform.machine()

    # --- arrays -----------------------------------------------------------------------------------------------------

    def empty(self, shape: Shape, dtype: np.dtype[Any]) -> Array:
        """A new, uninitialised array."""
        return recycler.empty(shape, dtype)

    def upload(self, array: Array) -> Array:
        """The array itself."""
        return array

    def download(self, array: Array) -> Array:
        """The array itself."""
        return array

    def copy_into(self, target: Array, source: Array) -> None:
        """Copy the elements of one array into another of the same shape and dtype."""
        np.copyto(target, source)

    def is_sole(self, array: Array) -> bool:
        """Whether everything that uses an array's memory refers to this very array, by its reference count."""
        return is_sole_base(array)

    def owns_memory(self, array: Array) -> bool:
        """Whether an array is not a view, and `is_sole`."""
        return type(array.base) is not np.ndarray and is_sole_base(array)

    def view(self, node: Node, array: Array) -> Array:
        """A slice or reshape of an array without a copy."""
        found: Array = node.op.run([array], node)
        return found

    def places(self, array: Array) -> Array:
        """The indices of nonzero elements, in memory order."""
        found: Array = np.flatnonzero(array.astype(np.float32) if array.dtype in HALF else array)
        return found

    # --- computing --------------------------------------------------------------------------------------------------

    def can_compile(self) -> bool:
        """Whether there is a C compiler; warns once if there is none."""
        return toolchain.has_compiler()

    def interpret(
        self,
        order: Sequence[Node],
        keep: set[Node],
        failure: Callable[[Exception, Node], Any],
        *,
        tf32: bool,
        check: bool,
    ) -> None:
        """Give each node of `order` its buffer by its reference; nodes not in `keep` are freed after their last use."""
        reference.run(order, keep, failure)

    def target(self, *, tf32: bool = False, budget: int | None = None) -> Target:
        """The CPU as a compilation target."""
        return Target(self.name, budget=budget)

    def codegen(self, tuning: float = 0.0) -> MakeCodegen:
        """The C code generator. There are no candidates to time."""
        return CCodegen

    def build(self, plan: Plan) -> Program:
        """The C program of a plan."""
        return CpuProgram(plan)

    def synchronize(self) -> None:
        """Does nothing: the host's work is done when a call returns."""

    def time(self, work: Callable[[], Any], repeats: int = 1) -> float:
        """The seconds that some work takes, the minimum of several runs."""
        best = float("inf")
        for _ in range(repeats):
            start = perf_counter()
            work()
            best = min(best, perf_counter() - start)
        return best

    # --- exchange ---------------------------------------------------------------------------------------------------

    def to_dlpack(self, array: Array, *, stream: Any = None, **options: Any) -> Any:
        """A DLPack capsule with an array, made by NumPy."""
        if array.dtype is bfloat16:
            raise DTypeError("DLPack through NumPy has no bfloat16; pass t.to(wg.float32)")
        if min(array.strides, default=0) < 0:  # a flipped view: PyTorch would end the process
            array = array.copy()
        if not array.flags.writeable and (options.get("max_version") or (0, 0)) < (1, 0):
            if options.get("copy") is False:
                raise BufferError("DLPack before version 1.0 cannot mark memory as read-only, so a copy is needed")
            array = array.copy()  # zeros, a broadcast value: one element for many
        return array.__dlpack__(stream=stream, **options)

    def borrow(self, x: Any) -> Array:
        """A NumPy array over the memory of another library's array."""
        return np.from_dlpack(x)

    def array_interface(self, array: Array, holder: Any) -> dict[str, Any]:
        """NumPy's array interface of an array."""
        return dict(array.__array_interface__)
