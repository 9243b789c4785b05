// Matrix products, the first two rungs of the ladder; they take any dtype.
#pragma once
#include "tile.cuh"

// One thread makes one sum and reads 2 * depth numbers for it from memory: a FLOP for every number read.
template <class A, class B, class Out>
__device__ __forceinline__ void wg_gemm_naive(const A &a, const B &b, const Out &out, int row, int column, int first, int last)
{
    typedef typename wg_total<typename A::T>::type S;
    row += threadIdx.y, column += threadIdx.x;
    if (row >= a.rows || column >= b.rows) return;
    S sum = 0;
    for (int k = first; k < last; k++) {
        int count;
        S x = (S)wg_wide(*a.template at<1>(a.row(row), a.spot(k, k), count));
        sum += x * (S)wg_wide(*b.template at<1>(b.row(column), b.spot(k, k), count));
    }
    out(row, column, &sum);
}

// A block of SIDE x SIDE threads reads two tiles of SIDE x SIDE into shared memory and uses each number SIDE times.
template <int SIDE, class A, class B, class Out>
__device__ __forceinline__ void wg_gemm_tiled(const A &a, const B &b, const Out &out, int row, int column, int first, int last)
{
    typedef typename wg_total<typename A::T>::type S;
    __shared__ S left[SIDE][SIDE + 1], right[SIDE][SIDE + 1];  // one more, so that columns lie in different banks
    int x = threadIdx.x, y = threadIdx.y;
    S sum = 0;
    for (int start = first; start < last; start += SIDE) {
        int count, r = A::along ? y : x, k = A::along ? x : y;  // neighbouring threads read neighbouring elements
        const typename A::T *from = a.template at<1>(a.row(row + r), a.spot(start + k, start), count);
        left[r][k] = count ? (S)wg_wide(*from) : (S)0;
        r = B::along ? y : x, k = B::along ? x : y;
        const typename B::T *other = b.template at<1>(b.row(column + r), b.spot(start + k, start), count);
        right[r][k] = count ? (S)wg_wide(*other) : (S)0;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < SIDE; i++) sum += left[y][i] * right[x][i];
        __syncthreads();
    }
    out(row + y, column + x, &sum);
}
