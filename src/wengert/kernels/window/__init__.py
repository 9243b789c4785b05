"""Windows of a value side by side, and their sum back into place."""

from wengert.kernels.c_ops import CKernel
from wengert.kernels.launch import CudaKernel
from wengert.ops.op import Op
from wengert.ops.window import FOLD, UNFOLD


def c_kernels() -> dict[Op, CKernel]:
    """None: NumPy copies them."""
    return {}


def cuda_kernels() -> dict[Op, CudaKernel]:
    """The ops that have CUDA C++."""
    from wengert.kernels.launch import simple
    from wengert.kernels.window import cuda

    return {UNFOLD: simple(cuda.unfold), FOLD: simple(cuda.fold)}
