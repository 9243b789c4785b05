// The tensor cores' instructions of sm_90a, one function each. A warpgroup starts products of tiles in shared memory and goes
// on; it waits for groups of them later. `wg_multiply`, which starts one, is written by gemm_text.py.
#pragma once
#include "tile.cuh"

__device__ __forceinline__ void wg_products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wg_products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING> __device__ __forceinline__ void wg_products_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
// Sums that were waited for, which the compiler may not read before.
template <int N> __device__ __forceinline__ void wg_products_settled(float (&sums)[N])
{
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(sums[i])::"memory");
}
// What threads of this block wrote to shared memory can be read by the tensor cores after the next barrier.
__device__ __forceinline__ void wg_show_tensor_cores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Where the tile of an operand begins and how it lies, as wgmma wants to know it: ALONG the depth, groups of 8 lines follow
// each other; across it, blocks of 128 bytes of rows are `lines` lines apart.
template <bool ALONG> __device__ __forceinline__ wg_u64 wg_described(wg_u32 tile, int lines)
{
    wg_u64 apart = ALONG ? 1 : lines * 128 >> 4;
    return (wg_u64)(tile >> 4 & 0x3fff) | apart << 16 | (wg_u64)(1024 >> 4) << 32 | 1ull << 62;
}
