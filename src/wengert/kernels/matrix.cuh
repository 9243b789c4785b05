/* Small matrices, each by a team of threads: what the kernels of linear algebra share.

   A matrix lies in shared memory by rows, with an odd number of elements from row to row, so that a column's elements are
   in different banks. A team is a power of two of threads: part of a warp, whose threads wait for one another by a mask,
   or a whole block. Sums and searches over a team take a fixed order, whatever else runs: the same bits every time.

   A kernel that cannot go on (a pivot of zero) notes it in the program's flag: the largest number noted is the one that
   stays, and says which op of the program failed first and how. */

#ifndef WENGERT_MATRIX_CUH
#define WENGERT_MATRIX_CUH

#include "complex.cuh"

/* what a kernel adds to the number of its op: how it failed (core/errors.py has the words) */
#define WG_SINGULAR 1
#define WG_INDEFINITE 2
#define WG_NO_CONVERGENCE 3

WG void wg_fail(int *wg_error, int op, int how) { atomicMax(wg_error, op + how); }

/* --- a team of threads ------------------------------------------------------------------------------------------------ */

template <int TEAM> struct wg_team {
    static constexpr int size = TEAM;
    static constexpr int warps = TEAM / 32;
    static __device__ __forceinline__ int rank() { return threadIdx.x % TEAM; }
    static __device__ __forceinline__ unsigned mask()
    {
        if (TEAM >= 32) return ~0u;
        return ((1u << (TEAM % 32)) - 1) << (threadIdx.x % 32 / TEAM * TEAM);
    }
    /* every thread of the team is here, and sees what the others wrote */
    static __device__ __forceinline__ void sync()
    {
        if (TEAM > 32) __syncthreads();
        else __syncwarp(mask());
    }
};

template <class T> WG T wg_from_lane(unsigned mask, T value, int lanes, int width) { return __shfl_xor_sync(mask, value, lanes, width); }
template <class R> WG wg_complex<R> wg_from_lane(unsigned mask, wg_complex<R> value, int lanes, int width)
{
    return {__shfl_xor_sync(mask, value.x, lanes, width), __shfl_xor_sync(mask, value.y, lanes, width)};
}

/* the sum over WIDTH neighbouring threads of a warp: all of them get it */
template <int WIDTH, class T> WG T wg_sum_over(unsigned mask, T value)
{
#pragma unroll
    for (int lanes = WIDTH / 2; lanes; lanes /= 2) value = value + wg_from_lane(mask, value, lanes, WIDTH);
    return value;
}

/* The largest value over a team and where it was met, of equals the first; `place` is shared and has two numbers. NaN is
   no value: where there is nothing else, the first place is found. */
template <int TEAM, class R> struct wg_largest {
    R value;
    int at;
    __device__ __forceinline__ void meet(R other, int place)
    {
        if (other > value || (other == value && place < at)) value = other, at = place;
    }
    __device__ __forceinline__ void over_warp()
    {
        constexpr int width = TEAM < 32 ? TEAM : 32;
#pragma unroll
        for (int lanes = width / 2; lanes; lanes /= 2) {
            R other = wg_from_lane(wg_team<TEAM>::mask(), value, lanes, width);
            int place = wg_from_lane(wg_team<TEAM>::mask(), at, lanes, width);
            meet(other, place);
        }
    }
};

/* --- between memory and shared memory ---------------------------------------------------------------------------------- */

/* `rows` by `columns` elements, stored by rows, to shared memory with STEP elements from row to row */
template <int TEAM, int STEP, class Read, class T> WG void wg_load_matrix(const Read &read, T *to, int rows, int columns)
{
    for (int k = wg_team<TEAM>::rank(); k < rows * columns; k += TEAM) to[k / columns * STEP + k % columns] = read(k / columns, k % columns);
}
template <int TEAM, class Write> WG void wg_store_matrix(int rows, int columns, const Write &write)
{
    for (int k = wg_team<TEAM>::rank(); k < rows * columns; k += TEAM) write(k / columns, k % columns, k);
}

#endif
