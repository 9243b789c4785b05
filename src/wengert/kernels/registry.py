"""Which ops have kernels written by hand: what a folder of kernels says of each of its ops.

A folder (`kernels/matmul`, ...) has two functions in its `__init__`, `c_kernels()` and `cuda_kernels()`, which give a
CKernel or a CudaKernel for each of its ops. They are called when the first op is looked up, so a program for the CPU
imports nothing that is for a GPU. An op from elsewhere, such as a user's own, is entered by `register`.

An op without a kernel here that is no expression in a loop either is computed by its NumPy reference on the host.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from wengert.core.graph import Node
from wengert.kernels.c_call import CCall
from wengert.ops.op import Op

if TYPE_CHECKING:
    from wengert.kernels.launch import DeviceProperties, Named, Work
    from wengert.kernels.matmul.product import Epilogue, Tile

FOLDERS = ("attention", "convolution", "copy", "gather_scatter", "matmul", "pool", "scan")


def _sources(node: Node) -> Sequence[Node]:
    return node.sources


def _never(*_: Any) -> bool:
    return False


# --- C --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CKernel:
    """An op in C.

    call(node, pointer) -> the statement, or None for what the C cannot do (dtypes, strides), which the reference then
    does; a node with several results passes those as a third argument. `headers`: by the name of each function that
    statements call, the headers that it is in, in order.
    """

    call: Callable[..., CCall | None]
    headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    operands: Callable[[Node], Sequence[Node]] = _sources  # what it reads from memory
    absorbs: Callable[[Node], bool] = _never  # whether it takes in an elementwise epilogue, as `epilogue=` of `call`


# --- CUDA -----------------------------------------------------------------------------------------------------------


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
    """An op on a GPU: work(node, named, device, asked) -> its launches, or None where the host computes it."""

    work: Callable[[Node, Named, DeviceProperties, Asked], Work | None]
    has_work: Callable[[Node], bool] | None = None  # whether `work` gives launches; it is tried where this is None
    operands: Callable[[Node], Sequence[Node]] = _sources  # what it reads from memory
    tiles: Callable[[Node, DeviceProperties], Sequence[Tile | None]] = _untiled  # candidates, best expected first
    absorbs: Callable[[Node, DeviceProperties], bool] = _never  # whether it is the best and takes in an epilogue
    sides: Callable[[Node], tuple[int, int]] | None = None  # the rows and columns of the sums an epilogue takes
    outdoes_libraries: Callable[[Node, DeviceProperties], bool] = _never  # whether it is faster than theirs


def simple(rule: Callable[[Node, Named, DeviceProperties], Work | None]) -> CudaKernel:
    """The kernel of an op with one result and one way to carry it out."""
    return CudaKernel(lambda node, named, device, asked: rule(node, named, device))


# --- looking them up ------------------------------------------------------------------------------------------------

_c_of_others: dict[Op, CKernel] = {}
_cuda_of_others: dict[Op, CudaKernel] = {}


def register(op: Op, *, c: CKernel | None = None, cuda: CudaKernel | None = None) -> None:
    """Enter the kernels of an op that no folder has; they come before a folder's."""
    if c is not None:
        _c_of_others[op] = c
    if cuda is not None:
        _cuda_of_others[op] = cuda


def c_kernel(op: Op) -> CKernel | None:
    """The C of an op."""
    return _c_of_others.get(op) or c_kernels().get(op)


def cuda_kernel(op: Op) -> CudaKernel | None:
    """The CUDA C++ of an op."""
    return _cuda_of_others.get(op) or cuda_kernels().get(op)


def c_headers() -> dict[str, tuple[str, ...]]:
    """By function of a hand-written kernel, the headers that it is in."""
    kernels = (*c_kernels().values(), *_c_of_others.values())
    return {name: files for kernel in kernels for name, files in kernel.headers.items()}


@functools.cache
def c_kernels() -> dict[Op, CKernel]:
    """The ops of the folders that have C."""
    return _of_folders("c_kernels")


@functools.cache
def cuda_kernels() -> dict[Op, CudaKernel]:
    """The ops of the folders that have CUDA C++."""
    return _of_folders("cuda_kernels")


def _of_folders(which: str) -> dict[Op, Any]:
    found: dict[Op, Any] = {}
    for folder in FOLDERS:
        found |= getattr(import_module(f"wengert.kernels.{folder}"), which)()
    return found
