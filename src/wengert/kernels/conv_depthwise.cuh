// Convolutions in groups of few channels, channels last. Where every channel of x has a kernel of its own (depthwise) there
// is nothing to multiply as matrices, and the time is that of the bytes; a group of four does 36 multiply-adds for each
// element that a 3 x 3 convolution makes, which still takes no longer than twice its bytes.
//
// A thread takes CHANNELS neighbouring channels, in accesses of 8 or 16 bytes, and a tile of HIGH x WIDE elements of the
// result. It loads the lines of its input that the tile meets one after the other, each once, and adds what a line gives to
// the sums of all rows it belongs to: 36 loads for 16 elements of a 3 x 3 convolution. Which element of a tile meets which
// line by which tap is known when the kernel is compiled, also against a stride, where tiles are whole multiples of it. The
// tiles of a block are neighbours, so that lines and columns that two of them see come from the L1 cache the second time.
// Taps beyond a few (long kernels, wide gaps) are taken in groups, a group at a time. The weight lies in shared memory, tap
// by tap, filled up with zeros to whole groups.
//
// The gradient with respect to the weight has its sums, one a tap, in registers: walkers go over the tiles of y, a block
// adds up what its walkers have, and a second kernel adds up the blocks, both in a fixed order. Its CHANNELS are neighbours
// of both x and y where groups have one, or else channels of x in the group of one channel of y.
//
// Bytes: input and result once (the weight's gradient: x and y). FLOPs: 2 a tap and element of the result, or of y.
// The text before this header defines `wg_shape`, as for conv.cuh, and how a convolution is cut:
//
//     struct wg_cut { channels, lanes, high, wide, down, across, taps1, taps2 };
//
// lanes x across x down are the threads of a block, taps1 x taps2 the taps of a group.
#pragma once
#include "tile.cuh"

// Which elements of the input a tile of SIZE elements meets along an axis, from where the tile begins there: element i meets
// `at(i, t)` by tap t, if it meets one. BACK: of y as the places of x see it.
template <int SIZE, int TAPS, int STRIDE, int GAP, int LOW, bool BACK> struct wg_reach {
    static constexpr int raw(int i, int t) { return BACK ? i + LOW - t * GAP : i * STRIDE + t * GAP - LOW; }
    static constexpr bool meets(int i, int t) { return !BACK || raw(i, t) % STRIDE == 0; }
    static constexpr int at(int i, int t) { return BACK ? raw(i, t) / STRIDE : raw(i, t); }
    static constexpr int end(bool is_last)
    {
        bool any = false;
        int found = 0;
        for (int i = 0; i < SIZE; i++)
            for (int t = 0; t < TAPS; t++)
                if (meets(i, t) && (!any || (is_last ? at(i, t) > found : at(i, t) < found))) found = at(i, t), any = true;
        return found;
    }
    static constexpr bool met(int place)
    {
        for (int i = 0; i < SIZE; i++)
            for (int t = 0; t < TAPS; t++)
                if (meets(i, t) && at(i, t) == place) return true;
        return false;
    }
    static constexpr int base(int tile) { return BACK ? tile * (SIZE / STRIDE) : tile * SIZE * STRIDE; }
    static constexpr int shift(int taps) { return BACK ? -(taps * GAP / STRIDE) : taps * GAP; }  // of a group's first tap
};

// The sizes of a convolution's input and of what it makes: BACK, of its gradient with respect to x.
template <bool BACK> struct wg_depthwise : wg_shape {
    typedef wg_shape s;
    typedef wg_cut cut;
    static const int in0 = BACK ? s::count0 : s::size0, in1 = BACK ? s::count1 : s::size1, in2 = BACK ? s::count2 : s::size2;
    static const int out0 = BACK ? s::size0 : s::count0, out1 = BACK ? s::size1 : s::count1, out2 = BACK ? s::size2 : s::count2;
    static const int mine = BACK ? s::ins : s::outs, theirs = BACK ? s::outs : s::ins;  // of a group: of the result, the input
    static const int from = s::groups * theirs, made = s::groups * mine;                // channels
    static const int groups1 = (s::kernel1 + cut::taps1 - 1) / cut::taps1, groups2 = (s::kernel2 + cut::taps2 - 1) / cut::taps2;
    static const int filled1 = groups1 * cut::taps1, filled2 = groups2 * cut::taps2, taps = s::kernel0 * filled1 * filled2;
    static const int given = s::kernel0 * s::kernel1 * s::kernel2;
    static const int block = cut::lanes * cut::channels, threads = cut::lanes * cut::across * cut::down;
};

// Where a window's tap lies along an axis (BACK: which position has a place as its tap), or -1.
template <bool BACK> __device__ __forceinline__ int wg_met(int i, int tap, int size, int stride, int gap, int low)
{
    int at = BACK ? i + low - tap * gap : i * stride + tap * gap - low;
    if (BACK && (at < 0 || at % stride)) return -1;
    at = BACK ? at / stride : at;
    return at >= 0 && at < size ? at : -1;
}

// CHANNELS neighbours, or zeros.
template <int CHANNELS, class T, class S> __device__ __forceinline__ void wg_widened(S *to, const T *from, bool in)
{
    wg_pack<T, CHANNELS> got = {};
    if (in) got = wg_pack<T, CHANNELS>::load(from);
#pragma unroll
    for (int v = 0; v < CHANNELS; v++) to[v] = wg_wide(got.of[v]);
}

template <bool BACK, class T, class R>
__device__ __forceinline__ void wg_convolve_depthwise(const T *from, const T *weight, R *to, int images)
{
    typedef wg_depthwise<BACK> s;
    typedef typename wg_total<T>::type S;
    typedef wg_cut cut;
    const int N = cut::channels, own = s::theirs;
    typedef wg_reach<cut::high, cut::taps1, s::stride1, s::gap1, s::low1, BACK> rows;
    typedef wg_reach<cut::wide, cut::taps2, s::stride2, s::gap2, s::low2, BACK> columns;
    constexpr int first1 = rows::end(false), last1 = rows::end(true), first2 = columns::end(false), last2 = columns::end(true);
    __align__(16) __shared__ S held[own][s::taps][s::block];

    const int chunks = (s::made + s::block - 1) / s::block;
    const int high = (s::out1 + cut::high * cut::down - 1) / (cut::high * cut::down);
    const int wide = (s::out2 + cut::wide * cut::across - 1) / (cut::wide * cut::across);
    int lane = threadIdx.x % cut::lanes, across = threadIdx.x / cut::lanes % cut::across, down = threadIdx.x / (cut::lanes * cut::across);
    int block = blockIdx.x, start = block % chunks * s::block;
    block /= chunks;
    int tile2 = block % wide * cut::across + across;
    block /= wide;
    int tile1 = block % high * cut::down + down;
    block /= high;
    int at0 = block % s::out0, image = block / s::out0, channel = start + lane * N;

    for (int e = threadIdx.x; e < s::block * own * s::taps; e += s::threads) {
        int j = e % own, t = e / own % s::taps, r = e / (own * s::taps), made = start + r;
        int t2 = t % s::filled2, t1 = t / s::filled2 % s::filled1, t0 = t / (s::filled2 * s::filled1);
        int o = BACK ? made / s::mine * own + j : made, c = BACK ? made % s::mine : j;
        bool in = made < s::made && t1 < s::kernel1 && t2 < s::kernel2;
        long long at = ((long long)o * s::given + (t0 * s::kernel1 + t1) * s::kernel2 + t2) * s::ins + c;
        held[j][t][r] = in ? (S)wg_wide(weight[at]) : S(0);
    }
    __syncthreads();
    if (channel >= s::made || tile1 * cut::high >= s::out1 || tile2 * cut::wide >= s::out2 || image >= images) return;

    S sums[cut::high][cut::wide][N] = {};
#pragma unroll 1
    for (int g = 0; g < s::kernel0 * s::groups1 * s::groups2 * own; g++) {
        int j = g % own, g2 = g / own % s::groups2, g1 = g / (own * s::groups2) % s::groups1, t0 = g / (own * s::groups2 * s::groups1);
        int plane = wg_met<BACK>(at0, t0, s::in0, s::stride0, s::gap0, s::low0);
        if (plane < 0) continue;
        int row0 = rows::base(tile1) + rows::shift(g1 * cut::taps1), column0 = columns::base(tile2) + columns::shift(g2 * cut::taps2);
        const S(*mine)[s::block] = held[j] + (t0 * s::filled1 + g1 * cut::taps1) * s::filled2 + g2 * cut::taps2;
        const T *corner = from + ((((long long)image * s::in0 + plane) * s::in1 + row0) * s::in2 + column0) * s::from;
        corner += channel / s::mine * own + j;
#pragma unroll
        for (int r = first1; r <= last1; r++) {
            if (!rows::met(r)) continue;
            bool in = (unsigned)(row0 + r) < s::in1;
            S line[last2 - first2 + 1][N];
#pragma unroll
            for (int c = first2; c <= last2; c++) {
                if (!columns::met(c)) continue;
                const T *place = corner + ((long long)r * s::in2 + c) * s::from;
                bool here = in && (unsigned)(column0 + c) < s::in2;
                if (s::mine == 1 && own == 1)
                    wg_widened<N>(line[c - first2], place, here);
                else
#pragma unroll
                    for (int v = 0; v < N; v++) {
                        int further = s::mine % N ? ((channel + v) / s::mine - channel / s::mine) * own : 0;
                        line[c - first2][v] = s::mine % N || v == 0 ? (here ? (S)wg_wide(place[further]) : S(0)) : line[c - first2][0];
                    }
            }
#pragma unroll
            for (int i = 0; i < cut::high; i++)
#pragma unroll
                for (int t1 = 0; t1 < cut::taps1; t1++) {
                    if (!rows::meets(i, t1) || rows::at(i, t1) != r) continue;
#pragma unroll
                    for (int t2 = 0; t2 < cut::taps2; t2++) {
                        wg_pack<S, N> w = wg_pack<S, N>::load(mine[t1 * s::filled2 + t2] + lane * N);
#pragma unroll
                        for (int k = 0; k < cut::wide; k++)
                            if (columns::meets(k, t2))
#pragma unroll
                                for (int v = 0; v < N; v++) sums[i][k][v] += line[columns::at(k, t2) - first2][v] * w.of[v];
                    }
                }
        }
    }
#pragma unroll
    for (int i = 0; i < cut::high; i++)
#pragma unroll
        for (int k = 0; k < cut::wide; k++) {
            int at1 = tile1 * cut::high + i, at2 = tile2 * cut::wide + k;
            if (at1 >= s::out1 || at2 >= s::out2) continue;
            wg_pack<R, N> packed;
#pragma unroll
            for (int v = 0; v < N; v++) packed.of[v] = wg_narrow<R>::of(sums[i][k][v]);
            packed.store(to + ((((long long)image * s::out0 + at0) * s::out1 + at1) * s::out2 + at2) * s::made + channel);
        }
}

// Sums into (parts, taps, channels of x in a group, channels of y); blockIdx.y is a group of taps, and where groups have
// several channels of x which of them.
template <class T, class S>
__device__ __forceinline__ void wg_convolve_weight_depthwise(const T *x, const T *y, S *to, int images, int parts)
{
    typedef wg_depthwise<false> s;
    typedef wg_cut cut;
    const bool alone = s::ins == 1;
    const int N = cut::channels, walkers = cut::across, outs = alone ? N : 1, ins = alone ? 1 : N;  // channels of a thread
    typedef wg_reach<cut::high, cut::taps1, s::stride1, s::gap1, s::low1, false> rows;
    typedef wg_reach<cut::wide, cut::taps2, s::stride2, s::gap2, s::low2, false> columns;
    constexpr int first1 = rows::end(false), last1 = rows::end(true), first2 = columns::end(false), last2 = columns::end(true);
    const int span = cut::lanes * outs;
    __align__(16) __shared__ S held[walkers][cut::lanes * N];

    const int chunks = (s::made + span - 1) / span;
    const int high = (s::out1 + cut::high - 1) / cut::high, wide = (s::out2 + cut::wide - 1) / cut::wide;
    int lane = threadIdx.x % cut::lanes, walker = threadIdx.x / cut::lanes, group = blockIdx.y;
    int start = blockIdx.x % chunks * span, part = blockIdx.x / chunks, channel = start + lane * outs;
    int g2 = group % s::groups2;
    group /= s::groups2;
    int g1 = group % s::groups1;
    group /= s::groups1;
    int t0 = group % s::kernel0, j = group / s::kernel0 * ins;
    int tiles = images * s::count0 * high * wide;

    S sums[cut::taps1][cut::taps2][N] = {};
    for (int tile = part * walkers + walker; tile < tiles && channel < s::made; tile += parts * walkers) {
        int tile2 = tile % wide, tile1 = tile / wide % high, at0 = tile / (wide * high) % s::count0, image = tile / (wide * high * s::count0);
        int plane = wg_met<false>(at0, t0, s::size0, s::stride0, s::gap0, s::low0);
        if (plane < 0) continue;
        S given[cut::high][cut::wide][outs];
        const T *first = y + ((((long long)image * s::count0 + at0) * s::count1 + tile1 * cut::high) * s::count2 + tile2 * cut::wide) * s::made + channel;
#pragma unroll
        for (int i = 0; i < cut::high; i++)
#pragma unroll
            for (int k = 0; k < cut::wide; k++) {
                bool here = tile1 * cut::high + i < s::count1 && tile2 * cut::wide + k < s::count2;
                wg_widened<outs>(given[i][k], first + (i * s::count2 + k) * s::made, here);
            }
        int row0 = rows::base(tile1) + rows::shift(g1 * cut::taps1), column0 = columns::base(tile2) + columns::shift(g2 * cut::taps2);
        const T *corner = x + ((((long long)image * s::size0 + plane) * s::size1 + row0) * s::size2 + column0) * s::from;
        corner += channel / s::mine * s::ins + j;
#pragma unroll
        for (int r = first1; r <= last1; r++) {
            if (!rows::met(r)) continue;
            bool in = (unsigned)(row0 + r) < s::size1;
            S line[last2 - first2 + 1][N];
#pragma unroll
            for (int c = first2; c <= last2; c++) {
                if (!columns::met(c)) continue;
                const T *place = corner + ((long long)r * s::size2 + c) * s::from;
                bool here = in && (unsigned)(column0 + c) < s::size2;
                if (!alone || s::mine == 1)
                    wg_widened<N>(line[c - first2], place, here);
                else
#pragma unroll
                    for (int v = 0; v < N; v++)
                        line[c - first2][v] = here ? (S)wg_wide(place[(channel + v) / s::mine - channel / s::mine]) : S(0);
            }
#pragma unroll
            for (int i = 0; i < cut::high; i++)
#pragma unroll
                for (int t1 = 0; t1 < cut::taps1; t1++) {
                    if (rows::at(i, t1) != r) continue;
#pragma unroll
                    for (int t2 = 0; t2 < cut::taps2; t2++)
#pragma unroll
                        for (int k = 0; k < cut::wide; k++)
#pragma unroll
                            for (int v = 0; v < N; v++) sums[t1][t2][v] += line[columns::at(k, t2) - first2][v] * given[i][k][alone ? v : 0];
                }
        }
    }
    // What the walkers have, a tap at a time.
#pragma unroll
    for (int t1 = 0; t1 < cut::taps1; t1++)
#pragma unroll
        for (int t2 = 0; t2 < cut::taps2; t2++) {
#pragma unroll
            for (int v = 0; v < N; v++) held[walker][lane * N + v] = sums[t1][t2][v];
            __syncthreads();
            int tap1 = g1 * cut::taps1 + t1, tap2 = g2 * cut::taps2 + t2;
#pragma unroll 1
            for (int e = threadIdx.x; e < cut::lanes * N; e += cut::lanes * walkers) {
                S sum = 0;
#pragma unroll 4
                for (int w = 0; w < walkers; w++) sum += held[w][e];
                int o = start + e / ins, c = j + e % ins;
                if (o < s::made && tap1 < s::kernel1 && tap2 < s::kernel2) {
                    int tap = (t0 * s::kernel1 + tap1) * s::kernel2 + tap2;
                    to[(((long long)part * s::given + tap) * s::ins + c) * s::made + o] = sum;
                }
            }
            __syncthreads();
        }
}

// The parts of (taps and channels of x, channels of y) added up in order, into (channels of y, the rest): 32 neighbours by 8
// runs of parts.
template <class S, class R> __device__ __forceinline__ void wg_add_up_taps(const S *parts, R *to, int rest, int channels, int count)
{
    __shared__ S held[8][32];
    int e = blockIdx.x * 32 + threadIdx.x, all = rest * channels, share = (count + 7) / 8, first = threadIdx.y * share;
    int last = first + share < count ? first + share : count;
    S sum = 0;
    if (e < all)
#pragma unroll 8
        for (int i = first; i < last; i++) sum += parts[(long long)i * all + e];
    held[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y || e >= all) return;
    for (int i = 1; i < 8; i++) sum += held[i][threadIdx.x];
    to[(long long)(e % channels) * rest + e / channels] = wg_narrow<R>::of(sum);
}
