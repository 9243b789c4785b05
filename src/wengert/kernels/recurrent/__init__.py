"""Scans with matrix products by loop-invariant weights: one kernel for all steps.

`body` finds the products and the elementwise work of a scan's body, `shape` divides them among blocks; `steps` and
`elements` write the kernel, `cuda` launches it. A recurrent network is such a scan, forwards and backwards, and so is a
user's own cell.
"""

from wengert.autodiff.scan import SCAN
from wengert.kernels.c_ops import CKernel
from wengert.kernels.launch import CudaKernel
from wengert.ops.op import Op


def c_kernels() -> dict[Op, CKernel]:
    """On the CPU `plan/loops` calls a body step by step."""
    return {}


def cuda_kernels() -> dict[Op, CudaKernel]:
    """The op that has CUDA C++, where its body allows it."""
    from wengert.kernels.recurrent import cuda

    return {SCAN: CudaKernel(cuda.work)}
