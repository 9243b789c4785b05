"""Indices of nonzero elements, and counts of integers."""

from wengert.kernels.c_ops import CKernel
from wengert.kernels.launch import CudaKernel
from wengert.ops.counting import BINCOUNT, FLAT_NONZERO
from wengert.ops.op import Op


def c_kernels() -> dict[Op, CKernel]:
    """None: NumPy counts."""
    return {}


def cuda_kernels() -> dict[Op, CudaKernel]:
    """The ops that have CUDA C++."""
    from wengert.kernels.counting import cuda
    from wengert.kernels.launch import simple

    return {FLAT_NONZERO: simple(cuda.flat_nonzero), BINCOUNT: simple(cuda.bincount)}
