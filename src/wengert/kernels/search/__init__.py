"""Insertion points in sorted rows."""

from wengert.kernels.c_ops import CKernel
from wengert.kernels.launch import CudaKernel
from wengert.ops.op import Op
from wengert.ops.sorting import SEARCHSORTED


def c_kernels() -> dict[Op, CKernel]:
    """None: NumPy searches."""
    return {}


def cuda_kernels() -> dict[Op, CudaKernel]:
    """The op that has CUDA C++."""
    from wengert.kernels.launch import simple
    from wengert.kernels.search import cuda

    return {SEARCHSORTED: simple(cuda.searchsorted)}
