// Matrix products on Hopper's tensor cores (wgmma, sm_90a): the copy engine brings tiles, warpgroups multiply them.
//
// One block stays on each SM and works through tiles of HIGH x WIDE sums. A producer asks the copy engine (TMA) for tiles of
// both operands, 128 bytes deep, into a ring of STAGES buffers, and runs ahead into the next tile while the CONSUMERS,
// warpgroups of 128 threads with HIGH / CONSUMERS rows each, multiply straight from shared memory and hand their sums out.
// Two barriers a buffer say "full" and "empty". Operands that the copy engine cannot read, the unfolded images of a
// convolution, are copied by the producer's threads instead. A tile lies in lines of 128 bytes, swizzled by the copy engine as
// wgmma expects it; what lies outside the matrix arrives as zeros. 128 x 256 sums of bfloat16 need 48 KB a step for 4.2
// MFLOP: 87 FLOPs a byte of shared memory written.
//
// Before this header the text defines `wg_multiply(float (&sums)[WIDE / 2], a, b, more)`: one wgmma of 64 x WIDE.
#pragma once
#include "gemm_mma.cuh"
#include "wgmma.cuh"

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

// --- who brings the tiles -------------------------------------------------------------------------------------------

// The copy engine, asked by one thread.
template <class T, int HIGH, int WIDE, bool A_ALONG, bool B_ALONG> struct wg_by_engine {
    typedef T Number;
    static const bool a_along = A_ALONG, b_along = B_ALONG, copied = false;
    typedef wg_brought<T, A_ALONG, HIGH> Left;
    typedef wg_brought<T, B_ALONG, WIDE> Right;
    const wg_tensor_map *a, *b;
    wg_batch batch;

    struct Tile {
        const wg_by_engine &from;
        int row, column, inner, outer;

        __device__ __forceinline__ Tile(const wg_by_engine &from, const wg_work &work)
            : from(from), row(work.row * HIGH), column(work.column * WIDE), inner(work.z % work.inner), outer(work.z / work.inner)
        {
        }
        __device__ __forceinline__ void bring(wg_u32 to, wg_u32 full, int k) const
        {
            if (threadIdx.x) return;
            const wg_batch &batch = from.batch;
            wg_barrier_expect(full, Left::bytes + Right::bytes);
            Left::load(to, from.a, full, row, k, batch.a_inner ? inner : 0, batch.a_outer ? outer : 0);
            Right::load(to + Left::bytes, from.b, full, column, k, batch.b_inner ? inner : 0, batch.b_outer ? outer : 0);
        }
    };
};

// A tile that threads copy, chunk by chunk, where the copy engine would put it.
template <class Operand, int ROWS> struct wg_swizzled {
    typedef typename Operand::T T;
    static const int chunk = 16 / sizeof(T), depth = 128 / sizeof(T), lines = Operand::along ? ROWS : depth;
    static const int per_line = Operand::along ? 8 : ROWS / chunk, bytes = ROWS * 128;

    __device__ __forceinline__ static wg_u32 offset(int line, int c)
    {
        return (Operand::along ? 0 : c / 8 * (depth * 128)) + line * 128 + (c % 8 ^ line & 7) * 16;
    }
};

// The threads of the producer's warpgroup.
template <class A, class B, int HIGH, int WIDE> struct wg_by_threads {
    typedef typename A::T Number;
    static const bool a_along = A::along, b_along = B::along, copied = true;
    typedef wg_swizzled<A, HIGH> Left;
    typedef wg_swizzled<B, WIDE> Right;
    A a;
    B b;

    struct Tile {
        wg_loader<A, Left, 128> left;
        wg_loader<B, Right, 128> right;

        __device__ __forceinline__ Tile(const wg_by_threads &from, const wg_work &work)
            : left(from.a, work.row * HIGH), right(from.b, work.column * WIDE)
        {
        }
        __device__ __forceinline__ void bring(wg_u32 to, wg_u32 full, int k) const
        {
            left.load(to, k, 0, 1);
            right.load(to + Left::bytes, k, 0, 1);
            asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(full) : "memory");
        }
    };
};

// --- sums from registers to the epilogue ----------------------------------------------------------------------------

// By way of shared memory, 16 rows and 32 columns of a warp at a time, so that neighbouring lanes have neighbouring columns.
template <int WIDE, class Out>
__device__ __forceinline__ void wg_hand_over(const float (&sums)[WIDE / 2], float *room, const Out &out, int row, int column)
{
    const int pitch = 40, lanes = 32 / Out::width;
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int j = 0; j < WIDE / 32; j++) {
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float *to = room + (lane >> 2) * pitch + i * 8 + (lane & 3) * 2;
            *(float2 *)to = make_float2(sums[j * 16 + i * 4], sums[j * 16 + i * 4 + 1]);
            *(float2 *)(to + 8 * pitch) = make_float2(sums[j * 16 + i * 4 + 2], sums[j * 16 + i * 4 + 3]);
        }
        __syncwarp();
#pragma unroll
        for (int e = lane; e < 16 * lanes; e += 32)
            wg_give(out, row + e / lanes, column + j * 32 + e % lanes * Out::width, room + e / lanes * pitch + e % lanes * Out::width);
    }
}

// `hand(z, part)` gives what takes the sums of a batch.
template <int HIGH, int WIDE, int STAGES, int CONSUMERS, class Bring, class Hand>
__device__ __forceinline__ void wg_gemm_wgmma(const Bring &from, wg_work work, int count, const Hand &hand)
{
    typedef typename Bring::Number T;
    typedef wg_brought<T, Bring::a_along, HIGH> Left;
    typedef wg_brought<T, Bring::b_along, WIDE> Right;
    const int depth = Left::depth, stage = Left::bytes + Right::bytes, blocks = HIGH / CONSUMERS / 64;
    extern __shared__ __align__(1024) char shared[];
    wg_u32 start = wg_shared_address(shared), base = start + 1023 & ~1023, full = base + STAGES * stage, empty = full + STAGES * 8;
    int group = threadIdx.x / 128;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; s++) {
            wg_barrier_make(full + s * 8, Bring::copied ? 128 : 1);
            wg_barrier_make(empty + s * 8, CONSUMERS * 4);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();

    int s = 0, phase = 0;
    if (group == 0) {
        if (!Bring::copied) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (!Bring::copied && threadIdx.x != 0) return;
        for (int i = blockIdx.x; i < count; i += gridDim.x) {
            work.number(i);
            typename Bring::Tile tile(from, work);
            for (int k = work.first; k < work.last; k += depth) {
                wg_barrier_wait(empty + s * 8, phase ^ 1);
                tile.bring(base + s * stage, full + s * 8, k);
                if (++s == STAGES) s = 0, phase ^= 1;
            }
        }
    } else {
        if (!Bring::copied) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(CONSUMERS == 1 ? 240 : 232));
        int own = (group - 1) * (HIGH / CONSUMERS), lane = threadIdx.x & 31, warp = threadIdx.x >> 5 & 3;
        float *room = (float *)(shared + (empty + STAGES * 8 - start)) + (group * 4 - 4 + warp) * (16 * 40);
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
                if (Bring::copied) wg_show_tensor_cores();
                wg_u32 left = base + s * stage, right = left + Left::bytes;
                wg_products_begin();
#pragma unroll
                for (int step = 0; step < 4; step++)
#pragma unroll
                    for (int m = 0; m < blocks; m++)
                        wg_multiply(sums[m], Left::described(left, own + m * 64) + step * Left::step,
                                    Right::described(right, 0) + step * Right::step, k > work.first || step > 0);
                wg_products_commit();
                wg_products_wait<1>();
                if (before >= 0 && lane == 0) wg_barrier_arrive(empty + before * 8);
                before = s;
                if (++s == STAGES) s = 0, phase ^= 1;
            }
            wg_products_wait<0>();
#pragma unroll
            for (int m = 0; m < blocks; m++) wg_products_settled(sums[m]);
            if (before >= 0 && lane == 0) wg_barrier_arrive(empty + before * 8);
            auto out = hand(work.z, work.part);
#pragma unroll
            for (int m = 0; m < blocks; m++)
                wg_hand_over<WIDE>(sums[m], room, out, work.row * HIGH + own + m * 64 + warp * 16, work.column * WIDE);
        }
    }
}
