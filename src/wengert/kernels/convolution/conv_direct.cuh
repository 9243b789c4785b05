// Convolutions as they are written down, channels first: for groups of few channels, where a matrix product would multiply
// mostly zeros, and for float64. A thread makes one element; the sum over positions is shared by a block, in a fixed order.
// The text before this header defines `wg_shape`, as for conv.cuh.
#pragma once
#include "tile.cuh"

template <class T> struct wg_direct {
    typedef typename wg_total<T>::type S;
    typedef wg_shape s;
    static const int places = s::size0 * s::size1 * s::size2, positions = s::count0 * s::count1 * s::count2;
    static const int taps = s::kernel0 * s::kernel1 * s::kernel2, taps12 = s::kernel1 * s::kernel2;
    static const int count12 = s::count1 * s::count2, size12 = s::size1 * s::size2;
};

// Where a window's tap lies along an axis, or -1.
__device__ __forceinline__ int wg_along(int position, int tap, int size, int stride, int gap, int low)
{
    int at = position * stride + tap * gap - low;
    return at >= 0 && at < size ? at : -1;
}
// Which position has a place as its tap, or -1.
__device__ __forceinline__ int wg_back(int place, int tap, int count, int stride, int gap, int low)
{
    int at = place + low - tap * gap;
    return at >= 0 && at % stride == 0 && at / stride < count ? at / stride : -1;
}

template <class T, class R> __device__ __forceinline__ void wg_convolve_direct(const T *x, const T *weight, R *to, int images)
{
    typedef wg_direct<T> d;
    typedef wg_shape s;
    long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    int p = e % d::positions, o = e / d::positions % (s::outs * s::groups), n = e / d::positions / (s::outs * s::groups);
    if (n >= images) return;
    const T *image = x + ((long long)n * s::groups + o / s::outs) * s::ins * d::places;
    const T *own = weight + (long long)o * s::ins * d::taps;
    typename d::S sum = 0;
    for (int t = 0; t < d::taps; t++) {
        int at0 = wg_along(p / d::count12, t / d::taps12, s::size0, s::stride0, s::gap0, s::low0);
        int at1 = wg_along(p / s::count2 % s::count1, t / s::kernel2 % s::kernel1, s::size1, s::stride1, s::gap1, s::low1);
        int at2 = wg_along(p % s::count2, t % s::kernel2, s::size2, s::stride2, s::gap2, s::low2);
        if (at0 < 0 || at1 < 0 || at2 < 0) continue;
        int place = at0 * d::size12 + at1 * s::size2 + at2;
        for (int c = 0; c < s::ins; c++) sum += wg_wide(image[(long long)c * d::places + place]) * wg_wide(own[c * d::taps + t]);
    }
    to[e] = wg_narrow<R>::of(sum);
}

template <class T, class R> __device__ __forceinline__ void wg_convolve_input_direct(const T *y, const T *weight, R *to, int images)
{
    typedef wg_direct<T> d;
    typedef wg_shape s;
    long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    int p = e % d::places, c = e / d::places % (s::ins * s::groups), n = e / d::places / (s::ins * s::groups), group = c / s::ins;
    if (n >= images) return;
    const T *image = y + ((long long)n * s::groups + group) * s::outs * d::positions;
    const T *own = weight + ((long long)group * s::outs * s::ins + c % s::ins) * d::taps;
    typename d::S sum = 0;
    for (int t = 0; t < d::taps; t++) {
        int at0 = wg_back(p / d::size12, t / d::taps12, s::count0, s::stride0, s::gap0, s::low0);
        int at1 = wg_back(p / s::size2 % s::size1, t / s::kernel2 % s::kernel1, s::count1, s::stride1, s::gap1, s::low1);
        int at2 = wg_back(p % s::size2, t % s::kernel2, s::count2, s::stride2, s::gap2, s::low2);
        if (at0 < 0 || at1 < 0 || at2 < 0) continue;
        int place = at0 * d::count12 + at1 * s::count2 + at2;
        for (int o = 0; o < s::outs; o++)
            sum += wg_wide(image[(long long)o * d::positions + place]) * wg_wide(own[(long long)o * s::ins * d::taps + t]);
    }
    to[e] = wg_narrow<R>::of(sum);
}

// A block an element of the weight.
template <class T, class R> __device__ __forceinline__ void wg_convolve_weight_direct(const T *x, const T *y, R *to, int images)
{
    typedef wg_direct<T> d;
    typedef wg_shape s;
    int t = blockIdx.x % d::taps, c = blockIdx.x / d::taps % s::ins, o = blockIdx.x / d::taps / s::ins;
    typename d::S sum = 0;
    for (long long e = threadIdx.x; e < (long long)images * d::positions; e += 256) {
        int n = e / d::positions, p = e % d::positions;
        int at0 = wg_along(p / d::count12, t / d::taps12, s::size0, s::stride0, s::gap0, s::low0);
        int at1 = wg_along(p / s::count2 % s::count1, t / s::kernel2 % s::kernel1, s::size1, s::stride1, s::gap1, s::low1);
        int at2 = wg_along(p % s::count2, t % s::kernel2, s::size2, s::stride2, s::gap2, s::low2);
        if (at0 < 0 || at1 < 0 || at2 < 0) continue;
        long long plane = ((long long)n * s::groups + o / s::outs) * s::ins + c;
        sum += wg_wide(x[plane * d::places + at0 * d::size12 + at1 * s::size2 + at2]) *
               wg_wide(y[((long long)n * s::groups * s::outs + o) * d::positions + p]);
    }
    __shared__ typename d::S sums[256];
    sums[threadIdx.x] = sum;
    for (int apart = 128; apart > 0; apart /= 2) {
        __syncthreads();
        if (threadIdx.x < apart) sums[threadIdx.x] += sums[threadIdx.x + apart];
    }
    if (threadIdx.x == 0) to[blockIdx.x] = wg_narrow<R>::of(sums[0]);
}
