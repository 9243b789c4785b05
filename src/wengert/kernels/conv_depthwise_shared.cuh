// Depthwise convolutions, channels last, through shared memory: from sm_80 on, where channels fill accesses of 16 bytes.
//
// conv_depthwise.cuh reads each element of a 3 x 3 window's lines two or three times, if from the L1 cache, and what its
// registers can wait for is too little to keep memory busy. Here a block copies all that its tiles of the result meet into
// shared memory at once (cp.async, zeros for what is outside), so that tens of kilobytes are on their way for each SM, and
// computes as the other kernel does, without a condition. Other blocks of the SM copy meanwhile. The gradient with respect
// to the weight goes over tiles of y in turns, the next of which is being copied while one is added up.
//
// Bytes: input and result once, but for the lines and columns between blocks, which come from the L2 cache: 1.3 times the
// input for tiles of 16 x 16 and 3 x 3 taps. FLOPs: 2 a tap and element.
#pragma once
#include "conv_depthwise.cuh"
#include "mma.cuh"

// What a block meets of its input: `lines` x `places` places, the first of them `first` from where its tiles begin.
template <bool BACK> struct wg_window {
    typedef wg_shape s;
    typedef wg_cut cut;
    typedef wg_reach<cut::high * cut::down, s::kernel1, s::stride1, s::gap1, s::low1, BACK> rows;
    typedef wg_reach<cut::wide * cut::across, s::kernel2, s::stride2, s::gap2, s::low2, BACK> columns;
    static constexpr int first1 = rows::end(false), first2 = columns::end(false);
    static constexpr int lines = rows::end(true) - first1 + 1, places = columns::end(true) - first2 + 1;
    static const int block = cut::lanes * cut::channels;
};

// Copies LINES x PLACES places of BLOCK channels, zeros for what is outside; `from` is their image and plane.
template <int LINES, int PLACES, int BLOCK, int THREADS, class T>
__device__ __forceinline__ void wg_copy_window(wg_u32 to, const T *from, int row, int column, int rows, int columns, int channels, int channel)
{
    const int chunk = 16 / (int)sizeof(T), chunks = BLOCK / chunk, all = LINES * PLACES * chunks;
#pragma unroll 4
    for (int e = threadIdx.x; e < all; e += THREADS) {
        int c = e % chunks * chunk, at2 = column + e / chunks % PLACES, at1 = row + e / (chunks * PLACES);
        bool there = (unsigned)at1 < (unsigned)rows && (unsigned)at2 < (unsigned)columns && channel + c < channels;
        const T *place = from + ((long long)at1 * columns + at2) * channels + channel + c;
        wg_copy_async_if(to + e * 16, there ? place : from, there);
    }
}

// N neighbours out of shared memory.
template <int N, class T, class S> __device__ __forceinline__ void wg_spread_out(S (&to)[N], const T *from)
{
    wg_pack<T, N> got = wg_pack<T, N>::load(from);
#pragma unroll
    for (int v = 0; v < N; v++) to[v] = wg_wide(got.of[v]);
}
template <int N> __device__ __forceinline__ void wg_spread_out(float (&to)[N], const wg_bf16 *from)
{
    wg_pack<wg_u32, N / 2> got = wg_pack<wg_u32, N / 2>::load((const wg_u32 *)from);
#pragma unroll
    for (int v = 0; v < N; v += 2) to[v] = __uint_as_float(got.of[v / 2] << 16), to[v + 1] = __uint_as_float(got.of[v / 2] & 0xffff0000u);
}

template <bool BACK, class T, class R>
__device__ __forceinline__ void wg_convolve_depthwise_shared(const T *from, const T *weight, R *to, int images)
{
    typedef wg_depthwise<BACK> s;
    typedef wg_window<BACK> window;
    typedef typename wg_total<T>::type S;
    typedef wg_cut cut;
    const int N = cut::channels;
    typedef wg_reach<cut::high, s::kernel1, s::stride1, s::gap1, s::low1, BACK> rows;
    typedef wg_reach<cut::wide, s::kernel2, s::stride2, s::gap2, s::low2, BACK> columns;
    constexpr int first1 = rows::end(false), last1 = rows::end(true), first2 = columns::end(false), last2 = columns::end(true);
    __align__(16) __shared__ S held[s::given][s::block];
    extern __shared__ __align__(128) unsigned char copied[];

    const int chunks = (s::made + s::block - 1) / s::block;
    const int high = (s::out1 + cut::high * cut::down - 1) / (cut::high * cut::down);
    const int wide = (s::out2 + cut::wide * cut::across - 1) / (cut::wide * cut::across);
    int lane = threadIdx.x % cut::lanes, across = threadIdx.x / cut::lanes % cut::across, down = threadIdx.x / (cut::lanes * cut::across);
    int block = blockIdx.x, start = block % chunks * s::block;
    block /= chunks;
    int tile2 = block % wide;
    block /= wide;
    int tile1 = block % high;
    block /= high;
    int at0 = block % s::out0, image = block / s::out0, channel = start + lane * N;
    int row = window::rows::base(tile1) + window::first1, column = window::columns::base(tile2) + window::first2;
    int plane = -1;

    // The places that the first tap along axis 0 meets are on their way while the weight is laid out.
    auto copy = [&](int t0) {
        plane = wg_met<BACK>(at0, t0, s::in0, s::stride0, s::gap0, s::low0);
        if (plane < 0) return;
        const T *corner = from + ((long long)image * s::in0 + plane) * ((long long)s::in1 * s::in2) * s::from;
        wg_copy_window<window::lines, window::places, s::block, s::threads>(
            wg_shared_address(copied), corner, row, column, s::in1, s::in2, s::from, start);
    };
    copy(0);
    wg_commit();
    for (int e = threadIdx.x; e < s::block * s::given; e += s::threads) {
        int made = start + e / s::given;
        held[e % s::given][e / s::given] = made < s::made ? (S)wg_wide(weight[(long long)made * s::given + e % s::given]) : S(0);
    }
    S sums[cut::high][cut::wide][N] = {};
#pragma unroll 1
    for (int t0 = 0; t0 < s::kernel0; t0++) {
        wg_wait<0>();
        __syncthreads();
        if (plane >= 0) {
            const T *corner = (const T *)copied + ((down * rows::base(1) + first1 - window::first1) * window::places +
                                                   across * columns::base(1) + first2 - window::first2) * s::block + lane * N;
#pragma unroll
            for (int r = first1; r <= last1; r++) {
                if (!rows::met(r)) continue;
                S line[last2 - first2 + 1][N];
#pragma unroll
                for (int c = first2; c <= last2; c++)
                    if (columns::met(c)) wg_spread_out(line[c - first2], corner + ((r - first1) * window::places + c - first2) * s::block);
#pragma unroll
                for (int i = 0; i < cut::high; i++)
#pragma unroll
                    for (int t1 = 0; t1 < s::kernel1; t1++) {
                        if (!rows::meets(i, t1) || rows::at(i, t1) != r) continue;
#pragma unroll
                        for (int t2 = 0; t2 < s::kernel2; t2++) {
                            wg_pack<S, N> w = wg_pack<S, N>::load(held[(t0 * s::kernel1 + t1) * s::kernel2 + t2] + lane * N);
#pragma unroll
                            for (int k = 0; k < cut::wide; k++)
                                if (columns::meets(k, t2))
#pragma unroll
                                    for (int v = 0; v < N; v++) sums[i][k][v] += line[columns::at(k, t2) - first2][v] * w.of[v];
                        }
                    }
            }
        }
        if (t0 + 1 < s::kernel0) {
            __syncthreads();
            copy(t0 + 1);
            wg_commit();
        }
    }
    if (channel >= s::made) return;
#pragma unroll
    for (int i = 0; i < cut::high; i++)
#pragma unroll
        for (int k = 0; k < cut::wide; k++) {
            int at1 = (tile1 * cut::down + down) * cut::high + i, at2 = (tile2 * cut::across + across) * cut::wide + k;
            if (at1 >= s::out1 || at2 >= s::out2) continue;
            wg_pack<R, N> packed;
#pragma unroll
            for (int v = 0; v < N; v++) packed.of[v] = wg_narrow<R>::of(sums[i][k][v]);
            packed.store(to + ((((long long)image * s::out0 + at0) * s::out1 + at1) * s::out2 + at2) * s::made + channel);
        }
}

// Sums into (parts, taps, channels); blockIdx.y is the tap along axis 0.
template <class T, class S>
__device__ __forceinline__ void wg_convolve_weight_depthwise_shared(const T *x, const T *y, S *to, int images, int parts)
{
    typedef wg_depthwise<false> s;
    typedef wg_window<false> window;
    typedef wg_cut cut;
    const int N = cut::channels, walkers = cut::across * cut::down, tall = cut::high * cut::down, broad = cut::wide * cut::across;
    typedef wg_reach<cut::high, s::kernel1, s::stride1, s::gap1, s::low1, false> rows;
    typedef wg_reach<cut::wide, s::kernel2, s::stride2, s::gap2, s::low2, false> columns;
    constexpr int first1 = rows::end(false), last1 = rows::end(true), first2 = columns::end(false), last2 = columns::end(true);
    const int of_x = window::lines * window::places * s::block, turn = of_x + tall * broad * s::block;  // elements
    __align__(16) __shared__ S held[walkers][s::block];
    extern __shared__ __align__(128) unsigned char copied[];

    const int chunks = (s::made + s::block - 1) / s::block;
    const int high = (s::count1 + tall - 1) / tall, wide = (s::count2 + broad - 1) / broad;
    int lane = threadIdx.x % cut::lanes, walker = threadIdx.x / cut::lanes, across = walker % cut::across, down = walker / cut::across;
    int start = blockIdx.x % chunks * s::block, part = blockIdx.x / chunks, t0 = blockIdx.y;
    int tiles = images * s::count0 * high * wide;

    auto copy = [&](int tile, int stage) {
        if (tile < tiles) {
            int tile2 = tile % wide, tile1 = tile / wide % high, at0 = tile / (wide * high) % s::count0, image = tile / (wide * high * s::count0);
            int plane = wg_met<false>(at0, t0, s::size0, s::stride0, s::gap0, s::low0);
            wg_u32 at = wg_shared_address(copied) + stage * (turn * (int)sizeof(T));
            const T *of_plane = x + ((long long)image * s::size0 + (plane < 0 ? 0 : plane)) * ((long long)s::size1 * s::size2) * s::from;
            wg_copy_window<window::lines, window::places, s::block, s::threads>(
                at, of_plane, window::rows::base(tile1) + window::first1, window::columns::base(tile2) + window::first2,
                plane < 0 ? 0 : s::size1, s::size2, s::from, start);
            const T *of_y = y + ((long long)image * s::count0 + at0) * ((long long)s::count1 * s::count2) * s::made;
            wg_copy_window<tall, broad, s::block, s::threads>(
                at + of_x * (int)sizeof(T), of_y, tile1 * tall, tile2 * broad, s::count1, s::count2, s::made, start);
        }
        wg_commit();
    };
    S sums[s::kernel1][s::kernel2][N] = {};
    copy(part, 0);
    int stage = 0;
#pragma unroll 1
    for (int tile = part; tile < tiles; tile += parts, stage ^= 1) {
        copy(tile + parts, stage ^ 1);
        wg_wait<1>();
        __syncthreads();
        const T *base = (const T *)copied + stage * turn + lane * N;
        const T *of_y = base + of_x + (down * cut::high * broad + across * cut::wide) * s::block;
        const T *corner = base + ((down * rows::base(1) + first1 - window::first1) * window::places +
                                  across * columns::base(1) + first2 - window::first2) * s::block;
        S given[cut::high][cut::wide][N];
#pragma unroll
        for (int i = 0; i < cut::high; i++)
#pragma unroll
            for (int k = 0; k < cut::wide; k++) wg_spread_out(given[i][k], of_y + (i * broad + k) * s::block);
#pragma unroll
        for (int r = first1; r <= last1; r++) {
            if (!rows::met(r)) continue;
            S line[last2 - first2 + 1][N];
#pragma unroll
            for (int c = first2; c <= last2; c++)
                if (columns::met(c)) wg_spread_out(line[c - first2], corner + ((r - first1) * window::places + c - first2) * s::block);
#pragma unroll
            for (int i = 0; i < cut::high; i++)
#pragma unroll
                for (int t1 = 0; t1 < s::kernel1; t1++) {
                    if (rows::at(i, t1) != r) continue;
#pragma unroll
                    for (int t2 = 0; t2 < s::kernel2; t2++)
#pragma unroll
                        for (int k = 0; k < cut::wide; k++)
#pragma unroll
                            for (int v = 0; v < N; v++) sums[t1][t2][v] += line[columns::at(k, t2) - first2][v] * given[i][k][v];
                }
        }
        __syncthreads();
    }
    wg_wait<0>();
#pragma unroll
    for (int t1 = 0; t1 < s::kernel1; t1++)
#pragma unroll
        for (int t2 = 0; t2 < s::kernel2; t2++) {
#pragma unroll
            for (int v = 0; v < N; v++) held[walker][lane * N + v] = sums[t1][t2][v];
            __syncthreads();
#pragma unroll 1
            for (int e = threadIdx.x; e < s::block; e += s::threads) {
                S sum = 0;
#pragma unroll 4
                for (int w = 0; w < walkers; w++) sum += held[w][e];
                int tap = (t0 * s::kernel1 + t1) * s::kernel2 + t2;
                if (start + e < s::made) to[((long long)part * s::given + tap) * s::made + start + e] = sum;
            }
            __syncthreads();
        }
}
