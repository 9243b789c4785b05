"""Attention and its backward: one pass over blocks of scores, which are never stored whole."""

from wengert.kernels.c_ops import CKernel
from wengert.kernels.launch import CudaKernel
from wengert.ops.attention import ATTENTION, ATTENTION_BACKWARD
from wengert.ops.op import Op


def c_kernels() -> dict[Op, CKernel]:
    """The ops that have C."""
    from wengert.kernels.attention import c

    headers = dict.fromkeys(("attention_forward", "attention_backward"), ("matmul.h", "tree_product.h", "attention.h"))
    return {ATTENTION: CKernel(c.attention, headers), ATTENTION_BACKWARD: CKernel(c.attention_backward, headers)}


def cuda_kernels() -> dict[Op, CudaKernel]:
    """The ops that have CUDA C++."""
    from wengert.kernels.attention import cuda, form

    def kernel(work: cuda.NodeLaunches) -> CudaKernel:
        return CudaKernel(work, cuda.has_work, form.operands, outdoes_libraries=cuda.outdoes_libraries)

    return {ATTENTION: kernel(cuda.forward_work), ATTENTION_BACKWARD: kernel(cuda.backward_work)}
