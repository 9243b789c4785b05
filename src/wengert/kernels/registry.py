"""The registry of hand-written kernels: those in the folders here, and those that others register.

A folder (`kernels/matmul`, ...) has two functions in its `__init__`, `c_kernels()` and `cuda_kernels()`, which return a
CKernel or a CudaKernel for each of its ops. They are called when the first op is looked up, so a program for the CPU
imports no GPU code. An op from elsewhere, such as a user's own, is entered by `register`.

Several folders may have CUDA kernels for one op; they are tried in the order of FOLDERS. An op without a kernel that is
not a loop expression runs its NumPy reference on the host.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wengert.ops.op import Op

if TYPE_CHECKING:
    from wengert.kernels.c_ops import CKernel
    from wengert.kernels.launch import CudaKernel

FOLDERS = (
    "attention",
    "convolution",
    "copy",
    "counting",
    "fixed_order",
    "gather_scatter",
    "linalg",
    "loops",
    "matmul",
    "pool",
    "recurrent",
    "scan",
    "search",
    "sort",
    "window",
)

c_of_others: dict[Op, CKernel] = {}
cuda_of_others: dict[Op, CudaKernel] = {}


def register(op: Op, *, c: CKernel | None = None, cuda: CudaKernel | None = None) -> None:
    """Enter the kernels of an op that no folder has; they come before a folder's."""
    if c is not None:
        c_of_others[op] = c
    if cuda is not None:
        cuda_of_others[op] = cuda


def of_folders(which: str) -> dict[Op, list[Any]]:
    """The results of each folder's function of this name, by op, in the order of the folders."""
    found: dict[Op, list[Any]] = {}
    for folder in FOLDERS:
        for op, kernel in getattr(import_module(f"wengert.kernels.{folder}"), which)().items():
            found.setdefault(op, []).append(kernel)
    return found
