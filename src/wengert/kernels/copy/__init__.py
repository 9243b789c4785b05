"""Values that are copied, joined, or partly replaced."""

from wengert.kernels.c_ops import CKernel
from wengert.kernels.launch import CudaKernel
from wengert.ops.addressing import PUT_SLICE
from wengert.ops.movement import CONCAT
from wengert.ops.op import Op


def c_kernels() -> dict[Op, CKernel]:
    """The ops that have C."""
    from wengert.kernels.copy import c

    return {CONCAT: CKernel(c.concat), PUT_SLICE: CKernel(c.put_slice)}


def cuda_kernels() -> dict[Op, CudaKernel]:
    """The ops that have CUDA C++."""
    from wengert.autodiff.cond import STOPPED
    from wengert.kernels.copy import cuda
    from wengert.kernels.copy.stopped import stopped
    from wengert.kernels.launch import simple

    return {CONCAT: simple(cuda.concat), PUT_SLICE: simple(cuda.put_slice), STOPPED: CudaKernel(stopped)}
