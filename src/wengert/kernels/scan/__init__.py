"""Running sums along an axis."""

from wengert.kernels.c_ops import CKernel
from wengert.kernels.launch import CudaKernel
from wengert.ops.op import Op
from wengert.ops.running import CUMSUM


def c_kernels() -> dict[Op, CKernel]:
    """The op that has C."""
    from wengert.kernels.scan import c

    return {CUMSUM: CKernel(c.cumsum, {"cumsum": ("gather.h",)})}


def cuda_kernels() -> dict[Op, CudaKernel]:
    """The op that has CUDA C++."""
    from wengert.kernels.launch import simple
    from wengert.kernels.scan import cuda

    return {CUMSUM: simple(cuda.cumsum)}
