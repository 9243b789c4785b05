"""Vendors' libraries, called directly: found by name, opened once, with their status codes as errors.

Numbers are passed as 64 bits whatever a function declares: on CUDA's platforms an argument occupies a whole register or
stack slot.
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
    """A library whose functions share a prefix."""

    def __init__(self, name: str, prefix: str) -> None:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        self.functions = ctypes.CDLL(load_nvidia_dynamic_lib(name).abs_path)
        self.prefix = prefix

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; raises on failure."""
        given = [ctypes.c_int64(int(x)) if isinstance(x, int | np.integer) else x for x in arguments]
        status = self.functions[self.prefix + name](*given)
        if status:
            raise CudaError(f"{self.prefix}{name} returned status {status}")

    def created(self, name: str, *arguments: Any) -> int:
        """The object that a function creates through its first argument."""
        made = ctypes.c_void_p()
        self.call(name, ctypes.byref(made), *arguments)
        return made.value or 0


@functools.cache
def opened_library(name: str, prefix: str) -> VendorLibrary | None:
    """A library, or None if it is not installed."""
    try:
        return VendorLibrary(name, prefix)
    except Exception:
        return None


class VendorCall:
    """One or a few library calls within a recipe: a function of a stream and of the operands' addresses."""

    works, workspace = True, 0

    def __init__(self, name: str, run: Callable[[int, Sequence[int]], None]) -> None:
        self.name, self.run = name, run

    def enqueue(self, stream: int, pointers: Sequence[int], workspace: int) -> None:
        """Enqueue it on the stream."""
        self.run(stream, pointers)


class PartsList:
    """The parts of a recipe under construction."""

    def __init__(self, factors: SharedLU | None = None) -> None:
        self.factors = factors
        self.parts: list[Launch | LibraryCall] = []
        self.workspace: dict[str, int] = {}

    def temporary(self, name: str, size: int) -> str:
        """A temporary of the step."""
        self.workspace[name] = max(size, 1)
        return name

    def launch(self, work: LaunchList) -> None:
        """Add launches of our kernels."""
        self.parts += work.launches

    def call(
        self, name: str, operands: Sequence[str], run: Callable[[int, Sequence[int]], None], captured: bool = True
    ) -> None:
        """Add a library call."""
        self.parts.append(LibraryCall(VendorCall(name, run), tuple(operands), captured))

    def made(self) -> PartList:
        """The finished parts."""
        return PartList(tuple(self.parts), self.workspace)


Named = Callable[[Node], str]
Write = Callable[["PartsList", Node, Named, Mapping[int, Node], int], None]


class VendorRecipe:
    """A library's implementation of an op on a given GPU."""

    def __init__(self, name: str, write: Write, device: int) -> None:
        self.name, self.write, self.device = name, write, device

    def parts(self, node: Node, named: Named, results: Mapping[int, Node], factors: SharedLU | None = None) -> PartList:
        """The library calls, and our launches around them."""
        made = PartsList(factors)
        self.write(made, node, named, results, self.device)
        return made.made()
