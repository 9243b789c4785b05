"""The GPU for lessons: right values, counted traffic, and mistakes that a device would not survive are named."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from wengert.learn.emulated_gpu import EmulatedKernel

pytestmark = pytest.mark.skipif("__import__('shutil').which('g++') is None", reason="the emulated GPU needs g++")

REVERSED = """
extern "C" __global__ void reversed(const float *x, float *y, int n)
{
    __shared__ float tile[64];
    int i = threadIdx.x;
    tile[i] = x[i];
    BARRIER
    y[i] = tile[n - 1 - i];
}
"""


def launch(source, *, reverse=False, block=8, n=8):
    x, y = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
    traffic = EmulatedKernel(source, "reversed")(1, block, x, y, n, reverse=reverse)
    return y.tolist(), traffic


@pytest.mark.parametrize("reverse", [False, True])
def test_threads_of_a_block_share_memory_and_wait_for_each_other(reverse):
    y, traffic = launch(REVERSED.replace("BARRIER", "__syncthreads();"), reverse=reverse)
    assert y == [7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.0]
    assert traffic == (8, 32, 8, 32, 8)


def test_a_race_depends_on_the_order_of_threads():
    source = REVERSED.replace("BARRIER", "")
    assert launch(source)[0] != launch(source, reverse=True)[0]


def test_a_barrier_that_not_all_threads_reach():
    source = REVERSED.replace("BARRIER", "if (i < 3) __syncthreads();")
    with pytest.raises(
        wg.errors.WengertError, match=r"3 threads of block \(0, 0\) wait at a barrier that 5 others never"
    ):
        launch(source)


def test_an_access_out_of_bounds():
    source = REVERSED.replace("BARRIER", "__syncthreads();")
    with pytest.raises(wg.errors.WengertError, match=r"thread \(8, 0\) of block \(0, 0\) accesses element 8 of 8"):
        launch(source, block=9)


def test_vectors_are_one_load_of_sixteen_bytes():
    kernel = EmulatedKernel(
        "__global__ void sums(const float4 *x, float *y)\n"
        "{ int i = threadIdx.x; float4 v = x[i]; y[i] += v.x + v.y + v.z + v.w; }",
        "sums",
    )
    x, y = np.arange(8, dtype=np.float32), np.ones(2, np.float32)
    assert kernel(1, 2, x, y) == (4, 40, 2, 8, 0) and y.tolist() == [7.0, 23.0]


def test_a_second_launch_begins_to_count_anew_and_blocks_have_indices():
    kernel = EmulatedKernel(
        "__global__ void where(int *y) { y[blockIdx.y * gridDim.x + blockIdx.x] = 10 * blockIdx.y + blockIdx.x; }",
        "where",
    )
    y = np.zeros(6, np.int32)
    assert kernel((3, 2), 1, y) == kernel((3, 2), 1, y) == (0, 0, 6, 24, 0)
    assert y.tolist() == [0, 1, 2, 10, 11, 12]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("void f() {}", "has no kernel `__global__ void k"),
        ("__global__ void k(half *x) {}", r"has the parameter 'half \*x'"),
        ("__global__ void k(int *x) { y = 1; }", "does not compile: .*y"),
    ],
)
def test_texts_that_are_no_kernel_are_refused(source, message):
    with pytest.raises(wg.errors.WengertError, match=message):
        EmulatedKernel(source, "k")


def test_arguments_are_checked():
    kernel = EmulatedKernel("__global__ void k(int *x, int n) { x[0] = n; }", "k")
    with pytest.raises(wg.errors.ArgumentError, match="2 arguments are needed, 1 were given"):
        kernel(1, 1, np.zeros(1, np.int32))
    with pytest.raises(wg.errors.ArgumentError, match="x is a contiguous NumPy array of int32"):
        kernel(1, 1, np.zeros(1), 3)
