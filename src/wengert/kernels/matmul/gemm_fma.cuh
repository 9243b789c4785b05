// Matrix products in float32 by the ordinary arithmetic units: tiles in registers, vector loads, two buffers.
//
// A block makes HIGH x WIDE sums, a warp TALL x BROAD, a lane TALL / 8 x BROAD / 4 of them, in quads of 4 x 4. Per step of
// depth a lane reads TALL / 8 + BROAD / 4 numbers from shared memory in loads of 16 bytes and does the product of the two:
// with 8 x 8, four loads for 64 multiply-adds. Global memory is read into registers while the tile before is multiplied.
// Tiles lie depth by depth; the row index is XORed with 8 * (k / 4 % 4), so that chunks that were contiguous along the depth
// are stored without bank conflicts. Numbers of 16 bits are widened on their way into shared memory.
#pragma once
#include "tile.cuh"

template <class Operand, int ROWS, int DEPTH, int THREADS> struct wg_stager {
    typedef typename Operand::T T;
    static const int chunk = 4, lines = Operand::along ? ROWS : DEPTH;
    static const int per_line = (Operand::along ? DEPTH : ROWS) / chunk, step = THREADS / per_line, passes = lines / step;
    static_assert(THREADS % per_line == 0 && lines % step == 0, "chunks divide among the threads");
    const Operand &operand;
    int line, column;
    typename Operand::Row rows[Operand::along && !Operand::even ? passes : 1];
    float4 held[passes];

    __device__ __forceinline__ wg_stager(const Operand &operand, int first) : operand(operand)
    {
        line = threadIdx.x / per_line, column = threadIdx.x % per_line;
        if (Operand::along)
#pragma unroll
            for (int i = 0; i < (Operand::even ? 1 : passes); i++) rows[i] = operand.row(first + line + i * step);
        else
            rows[0] = operand.row(first + column * chunk);
    }

    __device__ __forceinline__ typename Operand::Row row_of(int i) const
    {
        if constexpr (Operand::along && Operand::even) return operand.below(rows[0], i * step);
        else return rows[Operand::along ? i : 0];
    }
    __device__ __forceinline__ void read(int depth, bool there = true)
    {
        typename Operand::Spot spot;
        if (Operand::along) spot = operand.spot(depth + column * chunk, depth);
#pragma unroll
        for (int i = 0; i < passes; i++) {
            int count;
            if (!Operand::along) spot = operand.spot(depth + line + i * step, depth);
            const T *from = operand.template at<chunk>(row_of(i), spot, count);
            wg_pack<T, chunk> got = {};
            if (!Operand::free && count == chunk && there)
                got = wg_pack<T, chunk>::load(from);
            else if (!Operand::whole)
#pragma unroll
                for (int j = 0; j < chunk; j++)
                    if (j < count) got.of[j] = from[j];
            held[i] = make_float4(wg_wide(got.of[0]), wg_wide(got.of[1]), wg_wide(got.of[2]), wg_wide(got.of[3]));
        }
    }

    __device__ __forceinline__ void store(float (*tile)[ROWS]) const
    {
#pragma unroll
        for (int i = 0; i < passes; i++) {
            int at = line + i * step;
            if (Operand::along) {
                int k = column * chunk, r = at ^ (column & 3) << 3;
                tile[k][r] = held[i].x, tile[k + 1][r] = held[i].y, tile[k + 2][r] = held[i].z, tile[k + 3][r] = held[i].w;
            } else {
                *(float4 *)&tile[at][column * chunk ^ (at >> 2 & 3) << 3] = held[i];
            }
        }
    }
};

template <int HIGH, int WIDE, int DEPTH, int TALL, int BROAD, class A, class B, class Out>
__device__ __forceinline__ void wg_gemm_fma(const A &a, const B &b, const Out &out, int row, int column, int first, int last)
{
    const int threads = HIGH / TALL * (WIDE / BROAD) * 32, across = WIDE / BROAD, rows = TALL / 8, columns = BROAD / 4;
    __align__(16) __shared__ float left[2][DEPTH][HIGH], right[2][DEPTH][WIDE];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int high = warp / across * TALL + lane / 4 * 4, wide = warp % across * BROAD + lane % 4 * 4;
    wg_stager<A, HIGH, DEPTH, threads> from_a(a, row);
    wg_stager<B, WIDE, DEPTH, threads> from_b(b, column);
    float sums[rows][columns] = {};

    from_a.read(first), from_b.read(first);
    from_a.store(left[0]), from_b.store(right[0]);
    int here = 0;
    for (int start = first; start < last; start += DEPTH) {
        // The next tile's loads, then the barrier that this one is stored behind: the compiler moves no load across it,
        // where it had put them after most of the arithmetic.
        bool more = start + DEPTH < last;
        if (more || (A::whole && B::whole)) from_a.read(start + DEPTH, more), from_b.read(start + DEPTH, more);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < DEPTH; k++) {
            const int turn = (k >> 2 & 3) << 3;
            float x[rows], y[columns];
#pragma unroll
            for (int i = 0; i < rows; i += 4) *(float4 *)&x[i] = *(float4 *)&left[here][k][(high + i * 8) ^ turn];
#pragma unroll
            for (int j = 0; j < columns; j += 4) *(float4 *)&y[j] = *(float4 *)&right[here][k][(wide + j * 4) ^ turn];
#pragma unroll
            for (int i = 0; i < rows; i++)
#pragma unroll
                for (int j = 0; j < columns; j++) sums[i][j] = fmaf(x[i], y[j], sums[i][j]);
        }
        here ^= 1;
        if (more) from_a.store(left[here]), from_b.store(right[here]);
    }
#pragma unroll
    for (int i = 0; i < rows; i++)
#pragma unroll
        for (int j = 0; j < columns; j += Out::width)
            out(row + high + i / 4 * 32 + i % 4, column + wide + j / 4 * 16 + j % 4, &sums[i][j]);
}
