// Windows over planes: the largest element of each with its place, its derivative, and the sum of each.
//
// A value is (planes, sizes, inner): `inner` is 1 where the windows slide over the last axes, and the number of channels where
// those come last. A thread makes one element; neighbouring threads have neighbouring ones. Bytes: the input is read once from
// memory (windows that overlap meet in the cache), results are written once. The text before this header defines `wg_windows`:
// size, count, kernel, stride, gap (dilation) and low along three axes.
#pragma once
#include "tile.cuh"

struct wg_spot {
    typedef wg_windows w;
    int inner, at0, at1, at2;
    long long plane;

    __device__ __forceinline__ static wg_spot of(long long e, int inner, int n0, int n1, int n2)
    {
        long long rest = e / inner, line = rest / n2, slab = line / n1;
        return {(int)(e % inner), (int)(slab % n0), (int)(line % n1), (int)(rest % n2), slab / n0};
    }
};

// The place of a window's first element inside the plane along an axis.
__device__ __forceinline__ int wg_first_place(int position, int size, int stride, int gap, int low)
{
    int at = position * stride - low;
    if (at < 0) at = (at % gap + gap) % gap;
    return at < size ? at : size - 1;
}

// What is not a number counts as larger, as in the reference; where nothing is larger than the lowest, the first place is told.
template <class T, class Place>
__device__ __forceinline__ void wg_max_pool(const T *x, T *values, Place *places, int inner, long long count, T lowest)
{
    typedef wg_windows w;
    long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= count) return;
    wg_spot at = wg_spot::of(e, inner, w::count0, w::count1, w::count2);
    const T *plane = x + at.plane * (w::size0 * w::size1 * w::size2) * inner + at.inner;
    T best = lowest;
    int place = (wg_first_place(at.at0, w::size0, w::stride0, w::gap0, w::low0) * w::size1 +
                 wg_first_place(at.at1, w::size1, w::stride1, w::gap1, w::low1)) * w::size2 +
                wg_first_place(at.at2, w::size2, w::stride2, w::gap2, w::low2);
#pragma unroll
    for (int a = 0; a < w::kernel0; a++)
#pragma unroll
        for (int b = 0; b < w::kernel1; b++)
#pragma unroll
            for (int c = 0; c < w::kernel2; c++) {
                int z = at.at0 * w::stride0 + a * w::gap0 - w::low0, v = at.at1 * w::stride1 + b * w::gap1 - w::low1;
                int u = at.at2 * w::stride2 + c * w::gap2 - w::low2;
                if ((unsigned)z >= w::size0 || (unsigned)v >= w::size1 || (unsigned)u >= w::size2) continue;
                int here = (z * w::size1 + v) * w::size2 + u;
                T value = plane[(long long)here * inner];
                if (wg_wide(value) > wg_wide(best) || wg_wide(value) != wg_wide(value)) best = value, place = here;
            }
    if (values) values[e] = best;
    if (places) places[e] = place;
}

// What each element's cotangent is: the sum of those of the windows that it is the largest of, in the windows' order.
template <class T, class Place>
__device__ __forceinline__ void wg_max_pool_back(const T *g, const Place *places, T *to, int inner, long long count)
{
    typedef wg_windows w;
    typedef typename wg_total<T>::type S;
    long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= count) return;
    wg_spot at = wg_spot::of(e, inner, w::size0, w::size1, w::size2);
    int own = (at.at0 * w::size1 + at.at1) * w::size2 + at.at2;
    long long first = at.plane * (w::count0 * w::count1 * w::count2);
    S sum = 0;
    // windows from the first whose last tap reaches the element to the last whose first one does
    int low0 = at.at0 + w::low0 - (w::kernel0 - 1) * w::gap0, low1 = at.at1 + w::low1 - (w::kernel1 - 1) * w::gap1;
    int low2 = at.at2 + w::low2 - (w::kernel2 - 1) * w::gap2;
    int from0 = low0 > 0 ? (low0 + w::stride0 - 1) / w::stride0 : 0, to0 = (at.at0 + w::low0) / w::stride0;
    int from1 = low1 > 0 ? (low1 + w::stride1 - 1) / w::stride1 : 0, to1 = (at.at1 + w::low1) / w::stride1;
    int from2 = low2 > 0 ? (low2 + w::stride2 - 1) / w::stride2 : 0, to2 = (at.at2 + w::low2) / w::stride2;
    for (int a = from0; a <= to0 && a < w::count0; a++)
        for (int b = from1; b <= to1 && b < w::count1; b++)
            for (int c = from2; c <= to2 && c < w::count2; c++) {
                long long window = (first + (a * w::count1 + b) * w::count2 + c) * inner + at.inner;
                if (places[window] == own) sum += wg_wide(g[window]);
            }
    to[e] = wg_narrow<T>::of(sum);
}

template <class T> __device__ __forceinline__ void wg_sum_pool(const T *x, T *to, int inner, long long count)
{
    typedef wg_windows w;
    typedef typename wg_total<T>::type S;
    long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= count) return;
    wg_spot at = wg_spot::of(e, inner, w::count0, w::count1, w::count2);
    const T *plane = x + at.plane * (w::size0 * w::size1 * w::size2) * inner + at.inner;
    S sum = 0;
    for (int a = 0; a < w::kernel0; a++)
        for (int b = 0; b < w::kernel1; b++)
            for (int c = 0; c < w::kernel2; c++) {
                int z = at.at0 * w::stride0 + a, v = at.at1 * w::stride1 + b, u = at.at2 * w::stride2 + c;
                sum += wg_wide(plane[(long long)((z * w::size1 + v) * w::size2 + u) * inner]);
            }
    to[e] = wg_narrow<T>::of(sum);
}
