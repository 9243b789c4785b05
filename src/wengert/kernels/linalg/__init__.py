"""Factorisations of many small matrices, and solving with them: one team of threads per matrix."""

from wengert.kernels.c_ops import CKernel
from wengert.kernels.launch import CudaKernel
from wengert.ops.op import Op


def c_kernels() -> dict[Op, CKernel]:
    """None: NumPy's references call LAPACK."""
    return {}


def cuda_kernels() -> dict[Op, CudaKernel]:
    """The ops that have CUDA C++."""
    from wengert.kernels.linalg.cuda import kernels

    return kernels()
