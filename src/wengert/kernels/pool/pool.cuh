// Windows over planes: the largest element of each with its place, its derivative, and the sum of each.
//
// A value is (planes, sizes, inner): `inner` is 1 where the windows slide over the last axes, and the number of channels where
// those come last. A thread makes `vector` neighbours of them, read and written together; of the derivative it makes those of a
// block as large as the stride, which share their windows. Bytes: the input is read once from memory (windows that overlap meet
// in the cache), results are written once. The text before this header defines `wg_windows`: size, count, kernel, stride, gap
// (dilation), low and block along three axes, inner and vector; and `wg_index`, in which threads are numbered.
#pragma once
#include "tile.cuh"

struct wg_spot {
    int inner, at0, at1, at2;
    wg_index plane;

    // What a thread makes: n0 x n1 x n2 places a plane.
    __device__ __forceinline__ static wg_spot of(wg_index thread, int n0, int n1, int n2)
    {
        const int vectors = wg_windows::inner / wg_windows::vector;
        wg_index rest = thread / vectors, line = rest / n2, slab = line / n1;
        return {(int)(thread % vectors) * wg_windows::vector, (int)(slab % n0), (int)(line % n1), (int)(rest % n2), slab / n0};
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
__device__ __forceinline__ void wg_max_pool(const T *x, T *values, Place *places, wg_index count, T lowest)
{
    typedef wg_windows w;
    wg_index thread = (wg_index)blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= count) return;
    wg_spot at = wg_spot::of(thread, w::count0, w::count1, w::count2);
    const T *plane = x + (long long)at.plane * (w::size0 * w::size1 * w::size2) * w::inner + at.inner;
    int first = (wg_first_place(at.at0, w::size0, w::stride0, w::gap0, w::low0) * w::size1 +
                 wg_first_place(at.at1, w::size1, w::stride1, w::gap1, w::low1)) * w::size2 +
                wg_first_place(at.at2, w::size2, w::stride2, w::gap2, w::low2);
    wg_pack<T, w::vector> best;
    wg_pack<Place, w::vector> place;
#pragma unroll
    for (int j = 0; j < w::vector; j++) best.of[j] = lowest, place.of[j] = first;
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
                auto got = wg_pack<T, w::vector>::load(plane + (long long)here * w::inner);
#pragma unroll
                for (int j = 0; j < w::vector; j++) {
                    auto value = wg_wide(got.of[j]);
                    if (value > wg_wide(best.of[j]) || value != value) best.of[j] = got.of[j], place.of[j] = here;
                }
            }
    if (values) best.store(values + (long long)thread * w::vector);
    if (places) place.store(places + (long long)thread * w::vector);
}

// The windows along an axis that reach a block: from the first whose last tap does to the last whose first one does.
__device__ __forceinline__ int wg_from(int at, int kernel, int stride, int gap, int low)
{
    int reach = at + low - (kernel - 1) * gap;
    return reach > 0 ? (reach + stride - 1) / stride : 0;
}

__device__ __forceinline__ int wg_to(int last, int stride, int low, int count)
{
    int to = (last + low) / stride;
    return to < count ? to : count - 1;
}

// What each element's cotangent is: the sum of those of the windows that it is the largest of, in the windows' order.
template <class T, class Place>
__device__ __forceinline__ void wg_max_pool_back(const T *g, const Place *places, T *to, wg_index count)
{
    typedef wg_windows w;
    typedef typename wg_total<T>::type S;
    const int n0 = (w::size0 + w::block0 - 1) / w::block0, n1 = (w::size1 + w::block1 - 1) / w::block1;
    const int n2 = (w::size2 + w::block2 - 1) / w::block2, elements = w::block0 * w::block1 * w::block2;
    wg_index thread = (wg_index)blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= count) return;
    wg_spot at = wg_spot::of(thread, n0, n1, n2);
    int z = at.at0 * w::block0, v = at.at1 * w::block1, u = at.at2 * w::block2;
    long long first = (long long)at.plane * (w::count0 * w::count1 * w::count2);
    S sum[elements][w::vector] = {};
    int to0 = wg_to(z + w::block0 - 1, w::stride0, w::low0, w::count0);
    int to1 = wg_to(v + w::block1 - 1, w::stride1, w::low1, w::count1);
    int to2 = wg_to(u + w::block2 - 1, w::stride2, w::low2, w::count2);
    for (int a = wg_from(z, w::kernel0, w::stride0, w::gap0, w::low0); a <= to0; a++)
        for (int b = wg_from(v, w::kernel1, w::stride1, w::gap1, w::low1); b <= to1; b++)
            for (int c = wg_from(u, w::kernel2, w::stride2, w::gap2, w::low2); c <= to2; c++) {
                long long window = (first + (a * w::count1 + b) * w::count2 + c) * w::inner + at.inner;
                auto chosen = wg_pack<Place, w::vector>::load(places + window);
                auto got = wg_pack<T, w::vector>::load(g + window);
#pragma unroll
                for (int k = 0; k < elements; k++) {
                    int own = ((z + k / (w::block1 * w::block2)) * w::size1 + v + k / w::block2 % w::block1) * w::size2 + u +
                              k % w::block2;
#pragma unroll
                    for (int j = 0; j < w::vector; j++)
                        if (chosen.of[j] == own) sum[k][j] += wg_wide(got.of[j]);
                }
            }
    T *plane = to + (long long)at.plane * (w::size0 * w::size1 * w::size2) * w::inner + at.inner;
#pragma unroll
    for (int k = 0; k < elements; k++) {
        int line = z + k / (w::block1 * w::block2), row = v + k / w::block2 % w::block1, column = u + k % w::block2;
        if (line >= w::size0 || row >= w::size1 || column >= w::size2) continue;
        wg_pack<T, w::vector> made;
#pragma unroll
        for (int j = 0; j < w::vector; j++) made.of[j] = wg_narrow<T>::of(sum[k][j]);
        made.store(plane + (long long)((line * w::size1 + row) * w::size2 + column) * w::inner);
    }
}

template <class T> __device__ __forceinline__ void wg_sum_pool(const T *x, T *to, wg_index count)
{
    typedef wg_windows w;
    typedef typename wg_total<T>::type S;
    wg_index thread = (wg_index)blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= count) return;
    wg_spot at = wg_spot::of(thread, w::count0, w::count1, w::count2);
    const T *plane = x + (long long)at.plane * (w::size0 * w::size1 * w::size2) * w::inner + at.inner;
    S sum[w::vector] = {};
    for (int a = 0; a < w::kernel0; a++)
        for (int b = 0; b < w::kernel1; b++)
            for (int c = 0; c < w::kernel2; c++) {
                int z = at.at0 * w::stride0 + a, v = at.at1 * w::stride1 + b, u = at.at2 * w::stride2 + c;
                long long here = (z * w::size1 + v) * w::size2 + u;
                auto got = wg_pack<T, w::vector>::load(plane + here * w::inner);
#pragma unroll
                for (int j = 0; j < w::vector; j++) sum[j] += wg_wide(got.of[j]);
            }
    wg_pack<T, w::vector> made;
#pragma unroll
    for (int j = 0; j < w::vector; j++) made.of[j] = wg_narrow<T>::of(sum[j]);
    made.store(to + (long long)thread * w::vector);
}
