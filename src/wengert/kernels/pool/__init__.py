"""Pools: the maximum or sum of each window, and the index of the maximum."""

from wengert.kernels.c_ops import CKernel
from wengert.kernels.launch import CudaKernel
from wengert.ops.op import Op


def c_kernels() -> dict[Op, CKernel]:
    """The ops that have C."""
    from wengert.kernels.pool import c
    from wengert.ops.window import MAX_POOL, SUM_POOL

    headers = dict.fromkeys(("max_pool", "sum_pool"), ("pool.h",))
    return {MAX_POOL: CKernel(c.max_pool, headers), SUM_POOL: CKernel(c.sum_pool, headers)}


def cuda_kernels() -> dict[Op, CudaKernel]:
    """The ops that have CUDA C++."""
    from wengert.kernels.pool import cuda
    from wengert.ops.channels_last import MAX_POOL_BACK_LAST, MAX_POOL_LAST, SUM_POOL_LAST
    from wengert.ops.window import MAX_POOL, SUM_POOL

    largest = CudaKernel(cuda.max_pool_work, cuda.has_windows)
    total = CudaKernel(cuda.sum_pool_work, cuda.has_windows)
    back = CudaKernel(cuda.max_pool_back_work, cuda.has_windows)
    return {MAX_POOL: largest, MAX_POOL_LAST: largest, SUM_POOL: total, SUM_POOL_LAST: total, MAX_POOL_BACK_LAST: back}
