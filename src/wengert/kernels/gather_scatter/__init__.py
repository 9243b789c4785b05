"""Indexed elements: read, replaced, added to."""

from wengert.kernels.c_ops import CKernel
from wengert.kernels.launch import CudaKernel
from wengert.ops.addressing import ADD_ALONG, GATHER, PUT_ALONG, SCATTER, SCATTER_ADD, TAKE_ALONG
from wengert.ops.op import Op


def c_kernels() -> dict[Op, CKernel]:
    """The ops that have C."""
    from wengert.kernels.gather_scatter import c

    functions = ("gather_rows", "scatter_rows", "scatter_add", "take_along", "put_along", "add_along")
    headers = dict.fromkeys(functions, ("gather.h",))
    return {
        GATHER: CKernel(c.gather, headers),
        **dict.fromkeys((SCATTER, SCATTER_ADD), CKernel(c.scatter, headers, c.reads_of(c.scatter))),
        TAKE_ALONG: CKernel(c.along, headers),
        **dict.fromkeys((PUT_ALONG, ADD_ALONG), CKernel(c.along, headers, c.reads_of(c.along))),
    }


def cuda_kernels() -> dict[Op, CudaKernel]:
    """The ops that have CUDA C++."""
    from wengert.kernels.gather_scatter import cuda
    from wengert.kernels.launch import simple

    def into_zeros(rule: cuda.Rule) -> CudaKernel:
        return CudaKernel(lambda node, named, device, asked: rule(node, named, device), operands=cuda.reads_of(rule))

    return {
        GATHER: simple(cuda.gather),
        **dict.fromkeys((SCATTER, SCATTER_ADD), into_zeros(cuda.scatter)),
        TAKE_ALONG: simple(cuda.along),
        PUT_ALONG: into_zeros(cuda.along),
        ADD_ALONG: into_zeros(cuda.add_along),
    }
