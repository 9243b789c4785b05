/* How often each of the numbers from 0 to size - 1 occurs.

   Few numbers (SHARED): a block counts in shared memory, in as many copies as fit, which neighbouring lanes take in turn,
   so that lanes with equal numbers seldom wait for one another; then adds what it has to the result. Many: lanes add to
   the result, in the L2. Counts are integers, so the order in which they are added does not matter.
   Bytes: one read of the numbers. */

#ifndef WENGERT_HISTOGRAM_CUH
#define WENGERT_HISTOGRAM_CUH

#include "block.cuh"

typedef long long wg_long;
static constexpr int WG_SHARED_BINS = 8192;

template <class T, bool SHARED> WG void wg_count_numbers(const T *x, unsigned long long *y, wg_long n, wg_long size, int copies) {
    constexpr int N = 16 / sizeof(T), AT_ONCE = sizeof(T) > 4 ? 4 : 2;
    __shared__ unsigned bins[SHARED ? WG_SHARED_BINS : 1];
    if (SHARED) {
        for (int i = threadIdx.x; i < (int)size * copies; i += blockDim.x) bins[i] = 0;
        __syncthreads();
    }
    const int copy = threadIdx.x % copies;
    const wg_long step = (wg_long)gridDim.x * blockDim.x, count = (n + N - 1) / N;
    for (wg_long i = blockIdx.x * (wg_long)blockDim.x + threadIdx.x; i < count; i += AT_ONCE * step) {
        wg_vector<T, N> got[AT_ONCE];
#pragma unroll
        for (int a = 0; a < AT_ONCE; a++) {
            const wg_long at = (i + a * step) * N;
            if (at + N <= n) got[a] = wg_load<N>(x + at);
            else
                for (int e = 0; e < N; e++)
                    if (at + e < n) got[a].at[e] = x[at + e];
        }
#pragma unroll
        for (int a = 0; a < AT_ONCE; a++)
#pragma unroll
            for (int e = 0; e < N; e++) {
                if ((i + a * step) * N + e >= n) continue;
                const T value = got[a].at[e];
                if (value < 0 || (uint64_t)value >= (uint64_t)size) continue;
                if (SHARED) atomicAdd(&bins[(int)value * copies + copy], 1u);
                else atomicAdd(y + value, 1ull);
            }
    }
    if (!SHARED) return;
    __syncthreads();
    for (int i = threadIdx.x; i < size; i += blockDim.x) {
        unsigned sum = 0;
        for (int c = 0; c < copies; c++) sum += bins[i * copies + c];
        if (sum) atomicAdd(y + i, (unsigned long long)sum);
    }
}

#endif
