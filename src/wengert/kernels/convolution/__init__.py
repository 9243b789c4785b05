"""Convolutions and their two cotangents: direct, as matrix products, or by Winograd tiles."""

from wengert.kernels.c_ops import CKernel
from wengert.kernels.launch import CudaKernel
from wengert.ops.op import Op


def c_kernels() -> dict[Op, CKernel]:
    """The ops that have C."""
    from wengert.kernels.convolution.c import HEADERS, convolve
    from wengert.ops.convolve import CONVOLVE, CONVOLVE_INPUT, CONVOLVE_WEIGHT

    return dict.fromkeys((CONVOLVE, CONVOLVE_INPUT, CONVOLVE_WEIGHT), CKernel(convolve, HEADERS))


def cuda_kernels() -> dict[Op, CudaKernel]:
    """The ops that have CUDA C++."""
    from wengert.kernels.convolution import nodes
    from wengert.kernels.convolution.form import CONVOLUTIONS

    kernel = CudaKernel(
        nodes.work,
        nodes.has_work,
        tiles=nodes.tiles,
        absorbs=nodes.absorbs,
        sides=nodes.sides,
        outdoes_libraries=nodes.outdoes_libraries,
    )
    return dict.fromkeys(CONVOLUTIONS, kernel)
