// Small matrix products, where time goes by latency: many small tiles, the depth shared out among a block's warps.
//
// A block makes HIGH x WIDE sums. It brings in DEPTH columns of its two panels at once, all loads in flight together, and
// then warp w multiplies every WARPS-th depth from w on; the warps' sums are added up in order.
#pragma once
#include "tile.cuh"

// A thread's share of a panel: read into registers, then stored depth by depth.
template <class S, class Operand, int ROWS, int DEPTH, int THREADS> struct wg_share {
    static const int passes = (ROWS * DEPTH + THREADS - 1) / THREADS;
    S held[passes];

    __device__ __forceinline__ static int depth_of(int e) { return Operand::along ? e % DEPTH : e / ROWS; }
    __device__ __forceinline__ static int row_of(int e) { return Operand::along ? e / DEPTH : e % ROWS; }
    __device__ __forceinline__ void read(const Operand &operand, int row, int first, int last)
    {
#pragma unroll
        for (int i = 0; i < passes; i++) {
            int e = threadIdx.x + i * THREADS, k = first + depth_of(e), count;
            const typename Operand::T *from = operand.template at<1>(operand.row(row + row_of(e)), operand.spot(k), count);
            held[i] = count && k < last ? (S)wg_wide(*from) : (S)0;
        }
    }
    __device__ __forceinline__ void store(S (*panel)[ROWS + 4]) const
    {
#pragma unroll
        for (int i = 0; i < passes; i++) {
            int e = threadIdx.x + i * THREADS;
            if (ROWS * DEPTH % THREADS == 0 || e < ROWS * DEPTH) panel[depth_of(e)][row_of(e)] = held[i];
        }
    }
};

template <int HIGH, int WIDE, int DEPTH, int WARPS, class A, class B, class Out>
__device__ __forceinline__ void wg_gemm_small(const A &a, const B &b, const Out &out, int row, int column, int first, int last)
{
    typedef typename wg_sum<typename A::T>::type S;
    const int threads = WARPS * 32, rows = HIGH / 8, columns = WIDE / 4;  // of a lane; lanes stand 8 x 4
    extern __shared__ __align__(128) char shared[];
    S(*left)[HIGH + 4] = (S(*)[HIGH + 4]) shared;
    S(*right)[WIDE + 4] = (S(*)[WIDE + 4])(left + DEPTH);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, high = lane / 4 * rows, wide = lane % 4 * columns;
    S sums[rows][columns] = {};
    for (int start = first; start < last; start += DEPTH) {
        wg_share<S, A, HIGH, DEPTH, threads> from_a;
        wg_share<S, B, WIDE, DEPTH, threads> from_b;
        from_a.read(a, row, start, last), from_b.read(b, column, start, last);
        if (start > first) __syncthreads();
        from_a.store(left), from_b.store(right);
        __syncthreads();
        int depth = last - start < DEPTH ? last - start : DEPTH;
#pragma unroll 4
        for (int k = warp; k < depth; k += WARPS) {
            wg_vector<S, rows> x = *(wg_vector<S, rows> *)&left[k][high];
            wg_vector<S, columns> y = *(wg_vector<S, columns> *)&right[k][wide];
#pragma unroll
            for (int i = 0; i < rows; i++)
#pragma unroll
                for (int j = 0; j < columns; j++) sums[i][j] += x.of[i] * y.of[j];
        }
    }
    __syncthreads();
    S(*parts)[HIGH][WIDE] = (S(*)[HIGH][WIDE]) shared;
#pragma unroll
    for (int i = 0; i < rows; i++)
#pragma unroll
        for (int j = 0; j < columns; j++) parts[warp][high + i][wide + j] = sums[i][j];
    __syncthreads();
    for (int e = threadIdx.x; e < HIGH * WIDE; e += threads) {
        S sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) sum += parts[w][e / WIDE][e % WIDE];
        out(row + e / WIDE, column + e % WIDE, &sum);
    }
}
