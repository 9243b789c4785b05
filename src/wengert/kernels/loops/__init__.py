"""Loops and branches whose bodies are written out element by element: one C function or CUDA kernel each.

`compiler/loop_lanes` finds the axes along which a body computes the same for every index, `limits` says what can be
written, `elements` writes a body as straight-line code over its elements. Around it `write` puts a loop of C, with
blocks of lanes inside the steps or nothing but scalars, `slots` one over lanes that end by themselves, and `cuda` a
kernel in which a thread has a lane. A body that is too large, or has an op that is no arithmetic of elements, is
planned as a program is: see `plan/loops.py`.
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
