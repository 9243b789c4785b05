"""Sorting along an axis: the elements, their indices, or the indices of the first of them."""

from wengert.kernels.c_ops import CKernel
from wengert.kernels.launch import CudaKernel
from wengert.ops.op import Op
from wengert.ops.sorting import ARGSORT, SORT, TOPK


def c_kernels() -> dict[Op, CKernel]:
    """None: NumPy sorts."""
    return {}


def cuda_kernels() -> dict[Op, CudaKernel]:
    """The ops that have CUDA C++."""
    from wengert.kernels.launch import simple
    from wengert.kernels.sort import cuda, select

    return {ARGSORT: simple(cuda.sort), SORT: simple(cuda.sort), TOPK: simple(select.topk)}
