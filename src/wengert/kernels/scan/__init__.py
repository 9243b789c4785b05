"""Running sums, products and extremes along an axis."""

from wengert.kernels.c_ops import CKernel
from wengert.kernels.launch import CudaKernel
from wengert.ops.op import Op
from wengert.ops.running import CUMARGMAX, CUMARGMIN, CUMPROD, CUMSUM, LOGCUMSUMEXP


def c_kernels() -> dict[Op, CKernel]:
    """The ops that have C."""
    from wengert.kernels.scan import c

    return dict.fromkeys((CUMSUM, CUMPROD), CKernel(c.running, dict.fromkeys(("cumsum", "cumprod"), ("running.h",))))


def cuda_kernels() -> dict[Op, CudaKernel]:
    """The ops that have CUDA C++."""
    from wengert.kernels.launch import simple
    from wengert.kernels.scan import cuda

    return dict.fromkeys((CUMSUM, CUMPROD, LOGCUMSUMEXP, CUMARGMAX, CUMARGMIN), simple(cuda.running))
