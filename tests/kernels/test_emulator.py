"""The emulator of CUDA: threads, barriers, shuffles, shared memory; and what it must notice."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.emulator import EmulationError, compiler, run
from wengert.kernels.launch import Launch, LaunchList

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate CUDA with")


def work(body: str, parameters: str, *arguments: Any, **shape: Any) -> LaunchList:
    """One launch of a kernel with this body."""
    source = f'extern "C" __global__ void __launch_bounds__(1024) kernel({parameters}) {{\n{body}\n}}\n'
    return LaunchList((Launch(source, "kernel", arguments=arguments, **shape),))


def test_every_thread_of_every_block_runs() -> None:
    text = "int i = (blockIdx.y * gridDim.x + blockIdx.x) * blockDim.x * blockDim.y + threadIdx.y * blockDim.x;"
    text += "out[i + threadIdx.x] = add + threadIdx.x + 100 * threadIdx.y + 10000 * blockIdx.x + 1000000 * blockIdx.y;"
    out = np.zeros((3, 2, 5, 4), np.int32)
    run(work(text, "int *out, int add", "out", np.int32(7), grid=(2, 3, 1), block=(4, 5, 1)), {"out": out})
    y, x, b, a = np.meshgrid(*map(np.arange, out.shape), indexing="ij")
    np.testing.assert_array_equal(out, 7 + a + 100 * b + 10000 * x + 1000000 * y)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("threads", [32, 64, 1024])
def test_a_block_sums_by_shuffles_and_shared_memory(threads: int, reverse: bool) -> None:
    text = """
    __shared__ float parts[32];
    extern __shared__ float copy[];
    copy[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
    __syncthreads();
    float total = copy[(threadIdx.x + 17) % blockDim.x];
    for (int by = 16; by; by >>= 1) total += __shfl_xor_sync(0xffffffffu, total, by);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < blockDim.x / 32; i++) total += parts[i];
        out[blockIdx.x] = total;
    }"""
    x = np.random.default_rng(0).integers(0, 100, (3, threads)).astype(np.float32)
    out = np.full(3, np.nan, np.float32)
    shape = {"grid": (3, 1, 1), "block": (threads, 1, 1), "shared": 4 * threads}
    run(work(text, "const float *x, float *out", "x", "out", **shape), {"x": x, "out": out}, reverse)
    np.testing.assert_array_equal(out, x.sum(1))


def test_shuffles_and_votes_are_cudas() -> None:
    text = """int i = threadIdx.x;
    out[i] = __shfl_sync(~0u, i, 35); out[32 + i] = __shfl_up_sync(~0u, i, 3);
    out[64 + i] = __shfl_down_sync(~0u, i, 3);
    out[96 + i] = __shfl_xor_sync(~0u, i, 5, 8); out[128 + i] = __shfl_sync(~0u, i, 1, 4);
    out[160 + i] = __ballot_sync(~0u, i % 3 == 0);
    if (i < 8) out[192 + i] = __shfl_down_sync(0xffu, i, 1, 8);"""
    out = np.zeros(200, np.int32)
    run(work(text, "int *out", "out", grid=(1, 1, 1), block=(32, 1, 1)), {"out": out})
    i = np.arange(32)
    expected = [0 * i + 3, np.where(i >= 3, i - 3, i), np.where(i < 29, i + 3, i), i ^ 5, i // 4 * 4 + 1]
    np.testing.assert_array_equal(out[:160].reshape(5, 32), expected)
    assert set(out[160:192].tolist()) == {sum(1 << k for k in range(0, 32, 3))}
    assert out[192:].tolist() == [1, 2, 3, 4, 5, 6, 7, 7]


def test_integers_are_counted_atomically() -> None:
    out = np.zeros(3, np.int32)
    text = "atomicAdd(&out[0], 2); atomicMax(&out[1], (int)threadIdx.x); atomicCAS(&out[2], 0, 5);"
    run(work(text, "int *out", "out", grid=(4, 1, 1), block=(8, 1, 1)), {"out": out})
    assert out.tolist() == [64, 7, 5]


def test_launches_share_a_workspace() -> None:
    first = work("space[threadIdx.x] = threadIdx.x;", "float *space", "space", grid=(1, 1, 1), block=(4, 1, 1))
    second = work(
        "out[threadIdx.x] = space[3 - threadIdx.x];",
        "float *space, float *out",
        "space",
        "out",
        grid=(1, 1, 1),
        block=(4, 1, 1),
    )
    out = np.zeros(4, np.float32)
    run(LaunchList((*first.launches, *second.launches), {"space": 16}), {"out": out})
    assert out.tolist() == [3, 2, 1, 0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("if (threadIdx.x < 3) __syncwarp(0xf); ", "lane that has ended"),
        ("__syncwarp();", "lane that does not exist"),
        ("if (threadIdx.x) __syncthreads(); else __syncwarp(0x3);", "wait for one another"),
        ("out[4 + threadIdx.x] = 1;", "beside the buffer out"),
        ("out[(int)threadIdx.x - 4] = 1;", "beside the buffer out"),
        ("out[0] = nothing;", "could not compile"),
    ],
)
def test_what_a_device_would_not_survive_is_noticed(text: str, message: str) -> None:
    out = np.zeros(4, np.float32)
    with pytest.raises(EmulationError, match=message):
        run(work(text, "float *out", "out", grid=(1, 1, 1), block=(4, 1, 1)), {"out": out})


def test_a_race_shows_when_threads_run_the_other_way_round() -> None:
    text = "__shared__ float last; last = threadIdx.x; __syncthreads(); out[threadIdx.x] = last;"
    results = []
    for reverse in (False, True):
        out = np.zeros(4, np.float32)
        run(work(text, "float *out", "out", grid=(1, 1, 1), block=(4, 1, 1)), {"out": out}, reverse)
        results.append(out.tolist())
    assert results[0] != results[1]


def test_memory_that_nobody_wrote_is_poison() -> None:
    out = np.zeros(2, np.float32)
    text = "__shared__ float none[4]; extern __shared__ float more[]; out[0] = none[1]; out[1] = more[1];"
    run(work(text, "float *out", "out", grid=(1, 1, 1), block=(1, 1, 1), shared=16), {"out": out})
    assert np.isnan(out).all()
