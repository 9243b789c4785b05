"""Vendors' libraries called as they are: found by name, opened once, with their status codes as errors.

Numbers are given as 64 bits wide whatever a function declares: on the platforms that CUDA has, an argument takes a
whole register or a whole place on the stack.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from wengert.core.errors import CudaError
from wengert.core.graph import Node
from wengert.kernels.launch import Launch, LaunchList
from wengert.plan.libraries import PartList, SharedLU
from wengert.plan.plan import LibraryCall


class VendorLibrary:
    """A library whose functions begin with a prefix."""

    def __init__(self, name: str, prefix: str) -> None:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        self.functions = ctypes.CDLL(load_nvidia_dynamic_lib(name).abs_path)
        self.prefix = prefix

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; raises what its status says."""
        given = [ctypes.c_int64(int(x)) if isinstance(x, int | np.integer) else x for x in arguments]
        status = self.functions[self.prefix + name](*given)
        if status:
            raise CudaError(f"{self.prefix}{name} returned status {status}")

    def created(self, name: str, *arguments: Any) -> int:
        """What a function that makes something puts at its first argument."""
        made = ctypes.c_void_p()
        self.call(name, ctypes.byref(made), *arguments)
        return made.value or 0


@functools.cache
def opened_library(name: str, prefix: str) -> VendorLibrary | None:
    """A library, or None where it is not installed."""
    try:
        return VendorLibrary(name, prefix)
    except Exception:
        return None


class VendorCall:
    """One call, or a few, of a library within a recipe: a function of a stream and of the operands' addresses."""

    works, workspace = True, 0

    def __init__(self, name: str, run: Callable[[int, Sequence[int]], None]) -> None:
        self.name, self.run = name, run

    def enqueue(self, stream: int, pointers: Sequence[int], workspace: int) -> None:
        """Put it on the stream."""
        self.run(stream, pointers)


class PartsList:
    """The parts of a recipe while it is written."""

    def __init__(self, factors: SharedLU | None = None) -> None:
        self.factors = factors
        self.parts: list[Launch | LibraryCall] = []
        self.workspace: dict[str, int] = {}

    def temporary(self, name: str, size: int) -> str:
        """Bytes of the step's own."""
        self.workspace[name] = max(size, 1)
        return name

    def launch(self, work: LaunchList) -> None:
        """Kernels of ours."""
        self.parts += work.launches

    def call(
        self, name: str, operands: Sequence[str], run: Callable[[int, Sequence[int]], None], captured: bool = True
    ) -> None:
        """A call of the library."""
        self.parts.append(LibraryCall(VendorCall(name, run), tuple(operands), captured))

    def made(self) -> PartList:
        """What it came to."""
        return PartList(tuple(self.parts), self.workspace)


Named = Callable[[Node], str]
Write = Callable[["PartsList", Node, Named, Mapping[int, Node], int], None]


class VendorRecipe:
    """A way of a library's to carry out an op on a GPU of this number."""

    def __init__(self, name: str, write: Write, device: int) -> None:
        self.name, self.write, self.device = name, write, device

    def parts(self, node: Node, named: Named, results: Mapping[int, Node], factors: SharedLU | None = None) -> PartList:
        """The calls, and launches of ours around them."""
        made = PartsList(factors)
        self.write(made, node, named, results, self.device)
        return made.made()
