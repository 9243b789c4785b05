"""Loops and branches whose bodies are written out element by element: one C function or CUDA kernel each.

`compiler/loop_lanes` finds the axes along which a body does the same work for every index, `limits` decides what can be
written out, and `elements` writes a body as straight-line code over its elements. Around it, `write` puts a C loop
(with blocks of lanes inside the steps, or only scalars), `slots` a loop over lanes that end separately, and `cuda` a
kernel with one thread per lane. A body that is too large, or has an op that is not elementwise arithmetic, is planned
like a program: see `plan/loops.py`.
"""

from wengert.kernels.c_ops import CKernel
from wengert.kernels.launch import CudaKernel
from wengert.ops.op import Op


def c_kernels() -> dict[Op, CKernel]:
    """None: the code generator calls `write` for loops."""
    return {}


def cuda_kernels() -> dict[Op, CudaKernel]:
    """The loops and branches that have CUDA C++."""
    from wengert.autodiff.cond import COND, WHILE
    from wengert.autodiff.scan import SCAN
    from wengert.autodiff.while_gradient import WHILE_GRADIENT
    from wengert.kernels.loops import cuda

    return dict.fromkeys((SCAN, WHILE, COND, WHILE_GRADIENT), CudaKernel(cuda.work, cuda.has_work, cuda.operands))
