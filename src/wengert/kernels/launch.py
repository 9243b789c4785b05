"""Launches: requests to a CUDA device, as values, and the kernels of ops that make them. No driver is needed.

Everything that generates CUDA returns a LaunchList: the launches of a fused group or of an op, in order, and their
shared temporaries. The runtime compiles the texts, substitutes addresses for buffer names, and launches.
`DeviceProperties` are the facts about a GPU that launch shapes depend on.

An op that is not a loop has a CudaKernel, which gives its launches and the facts that a program needs. An op that has
none in `registry` and is not a loop expression runs its reference on the host.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from wengert.core.graph import Node
from wengert.kernels.registry import cuda_of_others, of_folders
from wengert.ops.op import Op

if TYPE_CHECKING:
    from wengert.kernels.matmul.product import Epilogue, Tile

Extent = tuple[int, int, int]
ERROR_FLAG = "wg_error"  # the buffer in which kernels note an index out of range, or the op that failed
FAILING_OP = "wg_op"  # no buffer: the number that a kernel notes there if its op fails, plus how it failed
FAILURES = ("", "Singular matrix", "Matrix is not positive definite", "the iteration did not converge")
"""How an op may fail, by what its kernel adds to its number; the words are those of NumPy's errors."""


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
    """An argument that is what a buffer holds, where the host has it and it is of this many bytes; 0 where it is not.

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


EXACT = "#define WG_INVARIANT\n"
"""How a text begins that the compiler may contract nothing in: whether it does depends on what else is in a kernel."""


@dataclass(frozen=True)
class Launch:
    """One launch of a CUDA kernel, without the addresses of its buffers."""

    source: str  # CUDA C++, complete; it may include the headers of this package and cuda_fp16.h, cuda_bf16.h by name
    entry: str  # the `extern "C" __global__` function in it; equal texts are compiled once
    grid: Extent
    block: Extent
    # In order: a buffer's name, a number of the C type it stands for, a tensor map, what a buffer holds, a struct, or a
    # table: the addresses of several buffers, one after another, as one argument by value.
    arguments: tuple[Argument, ...]
    shared: int = 0  # bytes of dynamic shared memory
    why: str = ""  # how the shape was worked out, for people
    follows: bool = False  # whether it waits itself for the kernel before it, and may be there before that has ended
    cooperative: bool = False  # whether its blocks wait for one another, and so are all on the device at the same time
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

    def exact(self) -> Launch:
        """The same, compiled without floating-point contraction unless the text asks for it."""
        opening = self.opening + len(EXACT) if self.opening else 0
        return replace(self, source=EXACT + self.source, opening=opening)

    def following(self) -> Launch | None:
        """The same, but it waits for the previous kernel itself; None if its text does not support that."""
        if not self.opening or not all(isinstance(argument, str) for argument in self.arguments):
            return None
        source = f"{self.source[: self.opening]}    wg_follow();\n{self.source[self.opening :]}"
        why = f"{self.why}; its blocks are there when the kernel before it ends"
        return replace(self, source=source, why=why, follows=True)


@dataclass(frozen=True)
class LaunchList:
    """What a group or op runs on the device: launches, in order on one stream."""

    launches: tuple[Launch, ...]
    workspace: Mapping[str, int] = field(default_factory=dict)  # temporaries that the launches share: names and bytes


def in_turn(lists: Sequence[LaunchList]) -> LaunchList:
    """Launch lists one after another; temporaries of equal name share memory."""
    workspace: dict[str, int] = {}
    for one in lists:
        for name, size in one.workspace.items():
            workspace[name] = max(size, workspace.get(name, 0))
    return LaunchList(tuple(launch for one in lists for launch in one.launches), workspace)


@dataclass(frozen=True)
class DeviceProperties:
    """The facts about a GPU that launch shapes depend on, and the limits of its kernels."""

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
        """How many blocks of this many threads fit on one SM, by threads, registers a thread and bytes of shared
        memory.

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


# --- kernels of ops -------------------------------------------------------------------------------------------------


def _sources(node: Node) -> Sequence[Node]:
    return node.sources


def _never(node: Node, device: DeviceProperties) -> bool:
    return False


class Asked(NamedTuple):
    """What is asked of an op's work: the nodes that pick its results, by number; one of its tiles; what an attention's
    forward leaves for its backward; what is done with the sums of a product.
    """

    results: Mapping[int, Node] = {}
    tile: Tile | None = None
    kept: Sequence[Node] = ()
    epilogue: Epilogue | None = None


def _untiled(node: Node, device: DeviceProperties) -> Sequence[Tile | None]:
    return [None]


@dataclass(frozen=True)
class CudaKernel:
    """An op on a GPU: work(node, named, device, asked) -> its launches, or None if the host computes it."""

    work: Callable[[Node, Named, DeviceProperties, Asked], LaunchList | None]
    has_work: Callable[[Node], bool] | None = None  # whether `work` gives launches; it is tried where this is None
    operands: Callable[[Node], Sequence[Node]] = _sources  # its operands in memory
    tiles: Callable[[Node, DeviceProperties], Sequence[Tile | None]] = _untiled  # candidates, best expected first
    absorbs: Callable[[Node, DeviceProperties], bool] = _never  # whether it is the best and takes in an epilogue
    sides: Callable[[Node], tuple[int, int]] | None = None  # the rows and columns of the sums an epilogue takes
    outdoes_libraries: Callable[[Node, DeviceProperties], bool] = _never  # whether it is faster than theirs


def simple(rule: Callable[[Node, Named, DeviceProperties], LaunchList | None]) -> CudaKernel:
    """The kernel of an op with one result and one implementation."""
    return CudaKernel(lambda node, named, device, asked: rule(node, named, device))


@functools.cache
def cuda_kernels() -> dict[Op, CudaKernel]:
    """The ops of the folders that have CUDA C++."""
    return {op: _in_turn(kernels) for op, kernels in of_folders("cuda_kernels").items()}


def _in_turn(kernels: Sequence[CudaKernel]) -> CudaKernel:
    """One kernel of several for an op, of which each is asked until one gives launches. Each one says what it cannot do
    before it names a buffer; it reads all sources and has no tiles.
    """
    if len(kernels) == 1:
        return kernels[0]

    def work(node: Node, named: Named, device: DeviceProperties, asked: Asked) -> LaunchList | None:
        found = (kernel.work(node, named, device, asked) for kernel in kernels)
        return next((one for one in found if one is not None), None)

    return CudaKernel(work)


def cuda_kernel(op: Op) -> CudaKernel | None:
    """The CUDA C++ of an op."""
    return cuda_of_others.get(op) or cuda_kernels().get(op)


def work_of(
    node: Node,
    named: Named,
    device: DeviceProperties,
    results: Mapping[int, Node],
    tile: Tile | None = None,
    kept: Sequence[Node] = (),
) -> LaunchList | None:
    """The launches of an op that is not a loop, or None if the host computes it.

    `results` are the picks of a node with several results, by number; `tile` is one of `tiles_of`; `kept` is what an
    attention's forward stores for its backward.
    """
    if is_trivial(node):
        return _trivial(node, named, device)
    kernel = cuda_kernel(node.op)
    return None if kernel is None else kernel.work(node, named, device, Asked(results, tile, kept))


def is_trivial(node: Node) -> bool:
    """Whether an op has no elements, or sums no products: the result is zeros, whatever the op."""
    if isinstance(node.dtype, tuple):
        return False
    return 0 in node.shape or (bool(node.op.multilinear) and any(0 in source.shape for source in node.sources))


def _trivial(node: Node, named: Named, device: DeviceProperties) -> LaunchList:
    from wengert.kernels.copy.cuda import cleared

    return cleared([node], named, device)


def has_work(node: Node, device: DeviceProperties = H200) -> bool:
    """Whether an op can run on a GPU."""
    if is_trivial(node):
        return True
    kernel = cuda_kernel(node.op)
    if kernel is None or kernel.has_work is None:
        return work_of(node, lambda _: "", device, {}) is not None
    return kernel.has_work(node)


def operands_of(node: Node) -> Sequence[Node]:
    """The operands that an opaque op reads from memory."""
    kernel = cuda_kernel(node.op)
    return node.sources if kernel is None else kernel.operands(node)


def tiles_of(node: Node, device: DeviceProperties) -> Sequence[Tile | None]:
    """The tiles by which our kernels support an op, in order of expected time; None stands for one without tiles."""
    kernel = cuda_kernel(node.op)
    return [None] if kernel is None or is_trivial(node) else kernel.tiles(node, device)


def absorbs(node: Node, device: DeviceProperties) -> bool:
    """Whether our kernels are the fastest for an op, and take an epilogue."""
    kernel = cuda_kernel(node.op)
    return kernel is not None and not is_trivial(node) and kernel.absorbs(node, device)


def outdoes_libraries(node: Node, device: DeviceProperties) -> bool:
    """Whether our kernels are faster than the libraries' for an op."""
    kernel = cuda_kernel(node.op)
    return kernel is not None and not is_trivial(node) and kernel.outdoes_libraries(node, device)


def sides_of(node: Node) -> tuple[int, int]:
    """The rows and columns of the sums that an op makes whose kernels take an epilogue."""
    kernel = cuda_kernel(node.op)
    assert kernel is not None and kernel.sides is not None
    return kernel.sides(node)


def sums_of(
    node: Node, named: Named, device: DeviceProperties, epilogue: Epilogue | None, tile: Tile | None
) -> LaunchList:
    """The launches of an op whose sums an epilogue may take."""
    kernel = cuda_kernel(node.op)
    found = None if kernel is None else kernel.work(node, named, device, Asked(tile=tile, epilogue=epilogue))
    assert found is not None
    return found
