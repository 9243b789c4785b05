"""Launches: what is asked of a CUDA device, as values. No driver is needed to make or read them.

Whatever writes CUDA returns a Work: the launches of a fused group or of an op, in order, and the temporaries they
share. The runtime compiles the texts, puts addresses for the names of buffers, and launches. `DeviceProperties` are the
facts of a GPU that a launch's shape follows from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from wengert.core.graph import Node

Extent = tuple[int, int, int]
ERROR_FLAG = "wg_error"  # the buffer in which kernels note an index out of range


@dataclass(frozen=True)
class TensorMap:
    """An argument that tells Hopper's copy engine (TMA) how tiles of a buffer lie; the driver encodes it.

    Axes come fastest first. Tiles arrive in shared memory swizzled in lines of 128 bytes, zeros for what is outside.
    """

    buffer: str
    dtype: np.dtype[Any]
    sizes: tuple[int, ...]  # elements along each axis
    steps: tuple[int, ...]  # bytes from one to the next, of every axis but the first: multiples of 16
    box: tuple[int, ...]  # elements of a tile along each axis
    tf32: bool = False  # round float32 to tf32 on the way


@dataclass(frozen=True)
class Number:
    """An argument that is what a buffer holds, where the host has it and it is of so many bytes; 0 where it is not.

    A kernel that takes both finds no address in the buffer's place then.
    """

    buffer: str
    size: int


@dataclass(frozen=True)
class Struct:
    """An argument that is a struct by value: its bytes."""

    content: bytes


Value = str | np.generic | TensorMap | Number | Struct
Argument = Value | tuple[str, ...]
Named = Callable[[Node], str]  # the name of the buffer that holds a value


@dataclass(frozen=True)
class Launch:
    """One launch of a CUDA kernel, but for the addresses of its buffers."""

    source: str  # CUDA C++, complete; it may include the headers of this folder and cuda_fp16.h, cuda_bf16.h by name
    entry: str  # the `extern "C" __global__` function in it; equal texts are compiled once
    grid: Extent
    block: Extent
    # In order: a buffer's name, a number of the C type it stands for, a tensor map, what a buffer holds, a struct, or a
    # table: the addresses of several buffers, one after the other, as one argument by value.
    arguments: tuple[Argument, ...]
    shared: int = 0  # bytes of dynamic shared memory
    why: str = ""  # how the shape was worked out, for people
    follows: bool = False  # whether it waits itself for the kernel before it, and may be there before that has ended
    opening: int = 0  # where in the source the body begins, if the loop IR's writer made it

    @property
    def buffers(self) -> tuple[str, ...]:
        """The buffers it takes, in order."""
        named = (a.buffer if isinstance(a, TensorMap) else a for a in self.spread)
        return tuple(name for name in named if isinstance(name, str))

    @property
    def spread(self) -> tuple[Value, ...]:
        """The arguments, with what is in tables one by one."""
        found: list[Value] = []
        for argument in self.arguments:
            found += argument if isinstance(argument, tuple) else [argument]
        return tuple(found)

    def following(self) -> Launch | None:
        """As it is, but waiting itself for the kernel before it; None where the text is of another kind."""
        if not self.opening or not all(isinstance(argument, str) for argument in self.arguments):
            return None
        source = f"{self.source[: self.opening]}    wg_follow();\n{self.source[self.opening :]}"
        why = f"{self.why}; its blocks are there when the kernel before it ends"
        return replace(self, source=source, why=why, follows=True)


@dataclass(frozen=True)
class Work:
    """What a group or an op does on the device: launches, in order on one stream."""

    launches: tuple[Launch, ...]
    workspace: Mapping[str, int] = field(default_factory=dict)  # temporaries that the launches share: names and bytes


def in_turn(works: Sequence[Work]) -> Work:
    """Works one after the other; temporaries of one name share their place."""
    workspace: dict[str, int] = {}
    for work in works:
        for name, size in work.workspace.items():
            workspace[name] = max(size, workspace.get(name, 0))
    return Work(tuple(launch for work in works for launch in work.launches), workspace)


@dataclass(frozen=True)
class DeviceProperties:
    """The facts of a GPU that launch shapes follow from, and what its kernels are allowed."""

    arch: str  # what NVRTC compiles for: "75", "90a"
    sms: int
    threads_per_sm: int
    blocks_per_sm: int
    registers_per_sm: int
    shared_per_sm: int  # bytes
    shared_per_block: int  # bytes a block may ask for
    l2: int  # bytes
    bandwidth: float  # bytes a second, to memory
    warp: int = 32
    threads_per_block: int = 1024
    tf32: bool = False  # whether tensor cores may round float32: a setting
    invariant: bool = False  # whether the order of a sum may not depend on how many there are: a setting

    @property
    def threads(self) -> int:
        """How many threads can be resident."""
        return self.sms * self.threads_per_sm

    def blocks_resident(self, threads: int, registers: int, shared: int = 0) -> int:
        """How many blocks of so many threads fit on one SM, by threads, registers a thread and bytes of shared memory.

        >>> H200.blocks_resident(256, 32), H200.blocks_resident(256, 64), H200.blocks_resident(256, 32, 100_000)
        (8, 4, 2)
        """
        warps = -(-threads // self.warp)
        per_warp = -(-registers * self.warp // 256) * 256  # registers are given out 256 at a time
        fits = min(self.blocks_per_sm, self.threads_per_sm // (warps * self.warp))
        fits = min(fits, self.registers_per_sm // (per_warp * warps))
        return min(fits, self.shared_per_sm // (shared + 1024)) if shared else fits


H200 = DeviceProperties("90a", 132, 2048, 32, 65536, 233472, 232448, 60 << 20, 4.8e12)
RTX_2080 = DeviceProperties("75", 46, 1024, 16, 65536, 65536, 65536, 4 << 20, 4.48e11)
