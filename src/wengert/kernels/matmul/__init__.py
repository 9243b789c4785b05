"""Matrix products: by BLAS or our own tiles in C, and by a ladder of kernels in CUDA."""

from wengert.kernels.c_ops import CKernel
from wengert.kernels.launch import CudaKernel
from wengert.ops.linalg import MATMUL
from wengert.ops.op import Op


def c_kernels() -> dict[Op, CKernel]:
    """The op that has C."""
    from wengert.kernels.matmul import c

    headers = {"product_rows": ("matmul.h",)}
    return {MATMUL: CKernel(c.matmul, headers, c.operands, c.absorbs, c.packs)}


def cuda_kernels() -> dict[Op, CudaKernel]:
    """The op that has CUDA C++."""
    from wengert.kernels.matmul import cuda

    kernel = CudaKernel(
        cuda.work,
        cuda.multiplies,
        operands=cuda.operands,
        tiles=cuda.tiles,
        absorbs=cuda.absorbs,
        sides=cuda.sides,
        outdoes_libraries=cuda.outdoes_libraries,
    )
    return {MATMUL: kernel}
