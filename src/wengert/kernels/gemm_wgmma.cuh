// Matrix products on Hopper's tensor cores (wgmma, sm_90a): the copy engine brings tiles, warpgroups multiply them.
//
// One block stays on each SM and works through tiles of HIGH x WIDE sums. A producer thread asks the copy engine (TMA) for
// tiles of both operands, 128 bytes deep, into a ring of STAGES buffers, and runs ahead into the next tile while the
// CONSUMERS, warpgroups of 128 threads with HIGH / CONSUMERS rows each, multiply straight from shared memory and hand their
// sums out. Two barriers a buffer say "full" and "empty". A tile lies in lines of 128 bytes, swizzled by the copy engine as
// wgmma expects it; what lies outside the matrix arrives as zeros. 128 x 256 sums of bfloat16 need 48 KB a step for 4.2
// MFLOP: 87 FLOPs a byte of shared memory written.
//
// Before this header the text defines `wg_multiply(float (&sums)[WIDE / 2], a, b, more)`: one wgmma of 64 x WIDE.
#pragma once
#include "mma.cuh"

struct alignas(64) wg_tensor_map { char bytes[128]; };

__device__ __forceinline__ void wg_barrier_make(wg_u32 barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ __forceinline__ void wg_barrier_expect(wg_u32 barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ __forceinline__ void wg_barrier_arrive(wg_u32 barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ __forceinline__ void wg_barrier_wait(wg_u32 barrier, int phase)
{
    asm volatile("{\n.reg .pred done;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@done bra over;\nbra again;\nover:\n}" ::"r"(barrier), "r"(phase) : "memory");
}
__device__ __forceinline__ void wg_bring(wg_u32 to, const wg_tensor_map *map, wg_u32 barrier, int x, int y, int inner, int outer)
{
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to), "l"(map), "r"(barrier), "r"(x), "r"(y), "r"(inner),
                 "r"(outer) : "memory");
}

// Where the tile of an operand begins and how it lies, as wgmma wants to know it: ALONG the depth, groups of 8 lines follow
// each other; across it, blocks of 128 bytes of rows are `lines` lines apart.
template <bool ALONG> __device__ __forceinline__ wg_u64 wg_described(wg_u32 tile, int lines)
{
    wg_u64 apart = ALONG ? 1 : lines * 128 >> 4;
    return (wg_u64)(tile >> 4 & 0x3fff) | apart << 16 | (wg_u64)(1024 >> 4) << 32 | 1ull << 62;
}

template <class T, bool ALONG, int ROWS> struct wg_brought {
    static const int depth = 128 / sizeof(T), bytes = ROWS * 128;
    static const int step = ALONG ? 2 : 32 / sizeof(T) * 128 >> 4;  // from one wgmma's depth to the next, in 16 bytes

    __device__ __forceinline__ static void load(wg_u32 to, const wg_tensor_map *map, wg_u32 barrier, int row, int k, int inner,
                                                int outer)
    {
        if (ALONG) {
            wg_bring(to, map, barrier, k, row, inner, outer);
        } else {
#pragma unroll
            for (int r = 0; r < ROWS; r += depth) wg_bring(to + r * 128, map, barrier, row + r, k, inner, outer);
        }
    }
    __device__ __forceinline__ static wg_u64 described(wg_u32 tile, int row)
    {
        return wg_described<ALONG>(tile + row * 128, depth);
    }
};

// What a block works through: tiles, batches and parts of the depth, numbered.
struct wg_work {
    int high, wide, tiles, batches, inner, depth, share;
    int row, column, z, part, first, last;

    __device__ __forceinline__ void number(int i)
    {
        wg_tile_at(i % tiles, high, wide, 4, row, column);
        z = i / tiles % batches, part = i / tiles / batches;
        first = part * share, last = first + share < depth ? first + share : depth;
    }
};

// `hand(z, part)` gives what takes the sums of a batch.
template <class T, int HIGH, int WIDE, int STAGES, int CONSUMERS, bool A_ALONG, bool B_ALONG, class Hand>
__device__ __forceinline__ void wg_gemm_wgmma(const wg_tensor_map *a, const wg_tensor_map *b, const wg_batch &batch, wg_work work,
                                              int count, const Hand &hand)
{
    typedef wg_brought<T, A_ALONG, HIGH> Left;
    typedef wg_brought<T, B_ALONG, WIDE> Right;
    const int depth = Left::depth, stage = Left::bytes + Right::bytes, blocks = HIGH / CONSUMERS / 64;
    extern __shared__ __align__(1024) char shared[];
    wg_u32 base = wg_shared_address(shared) + 1023 & ~1023, full = base + STAGES * stage, empty = full + STAGES * 8;
    int group = threadIdx.x / 128;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) wg_barrier_make(full + s * 8, 1), wg_barrier_make(empty + s * 8, CONSUMERS * 4);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    int s = 0, phase = 0;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x != 0) return;
        for (int i = blockIdx.x; i < count; i += gridDim.x) {
            work.number(i);
            int inner = work.z % work.inner, outer = work.z / work.inner;
            for (int k = work.first; k < work.last; k += depth) {
                wg_barrier_wait(empty + s * 8, phase ^ 1);
                wg_barrier_expect(full + s * 8, stage);
                Left::load(base + s * stage, a, full + s * 8, work.row * HIGH, k, batch.a_inner ? inner : 0,
                           batch.a_outer ? outer : 0);
                Right::load(base + s * stage + Left::bytes, b, full + s * 8, work.column * WIDE, k, batch.b_inner ? inner : 0,
                            batch.b_outer ? outer : 0);
                if (++s == STAGES) s = 0, phase ^= 1;
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CONSUMERS == 1 ? 256 - 16 : CONSUMERS == 2 ? 232 : 160));
        int own = (group - 1) * (HIGH / CONSUMERS), lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
        for (int i = blockIdx.x; i < count; i += gridDim.x) {
            work.number(i);
            float sums[blocks][WIDE / 2];
            if (work.first >= work.last)
#pragma unroll
                for (int m = 0; m < blocks; m++)
#pragma unroll
                    for (int j = 0; j < WIDE / 2; j++) sums[m][j] = 0;
            int before = -1;
            for (int k = work.first; k < work.last; k += depth) {
                wg_barrier_wait(full + s * 8, phase);
                wg_u32 left = base + s * stage, right = left + Left::bytes;
                asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
                for (int step = 0; step < 4; step++)
#pragma unroll
                    for (int m = 0; m < blocks; m++)
                        wg_multiply(sums[m], Left::described(left, own + m * 64) + step * Left::step,
                                    Right::described(right, 0) + step * Right::step, k > work.first || step > 0);
                asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
                asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
                if (before >= 0 && lane == 0) wg_barrier_arrive(empty + before * 8);
                before = s;
                if (++s == STAGES) s = 0, phase ^= 1;
            }
            asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
            for (int m = 0; m < blocks; m++)
#pragma unroll
                for (int j = 0; j < WIDE / 2; j++) asm volatile("" : "+f"(sums[m][j])::"memory");  // not read before the wait
            if (before >= 0 && lane == 0) wg_barrier_arrive(empty + before * 8);
            auto out = hand(work.z, work.part);
#pragma unroll
            for (int m = 0; m < blocks; m++) {
                int row = work.row * HIGH + own + m * 64 + warp * 16 + lane / 4, column = work.column * WIDE + lane % 4 * 2;
#pragma unroll
                for (int j = 0; j < WIDE / 8; j++)
#pragma unroll
                    for (int half = 0; half < 2; half++)
#pragma unroll
                        for (int c = 0; c < 2; c += out.width)
                            out(row + half * 8, column + j * 8 + c, &sums[m][j * 4 + half * 2 + c]);
            }
        }
    }
}
