// Attention on tensor cores, forward and backward: float16 and bfloat16. The walks of attention.cuh, with tiles of 16 x 8 sums
// in the registers of warps.
//
// A warp owns `tall` rows and meets all columns of a tile, so a row of scores lies in four lanes and its softmax needs two
// shuffles. Scores leave the tensor cores as sums and go back as the left operand of the next product without leaving their
// registers. Walking over the other side, blocks load the next tile by cp.async while they compute on this one. Powers are the
// hardware's ex2.
//
// Backward by keys computes scores transposed (keys x queries), so the cotangents of keys and values need no transposes
// either. Heads are filled up with zeros to E and V, 32, 64 or 128 features.
//
// `Cores` says how tiles lie in shared memory and are multiplied (attention_mma.cuh, attention_wgmma.cuh):
//
//     Own(tile, high)                     a warp's rows of the block's own tile, from `high` on
//     products(sums, own, other)          sums = those times all rows of another tile
//     weigh(sums, weights, other)         sums += weights, rounded, times a tile's rows
//     wait<PENDING>(sums)                 sums can be read: all but the last PENDING of those have ended
//     together                            rows of the warps that have to call them together
//
// Measured on an H200, bfloat16, causal, milliseconds forward, by keys and by queries:
//
//     batch 16, 12 heads, T 1024, E 64    mma 0.112, 0.197, 0.138    wgmma 0.082, 0.130, 0.091 (314, 396, 424 TFLOP/s)
//     batch 4, 16 heads, T 4096, E 128    mma 0.839, 1.622, 1.291    wgmma 0.637, 0.926, 0.714 (432, 594, 578 TFLOP/s)
#pragma once
#include "attention.cuh"
#include "gemm_mma.cuh"

// Two neighbouring tiles of 16 x 8 sums are, rounded, one left fragment of 16 x 16.
template <class T>
__device__ __forceinline__ void wg_left_fragment(wg_u32 (&a)[4], const float (&left)[4], const float (&right)[4])
{
    a[0] = wg_pair<T>(left[0], left[1]), a[1] = wg_pair<T>(left[2], left[3]);
    a[2] = wg_pair<T>(right[0], right[1]), a[3] = wg_pair<T>(right[2], right[3]);
}

// Where tiles begin in shared memory.
template <class Cores> __device__ __forceinline__ wg_u32 wg_aligned(const char *shared)
{
    return wg_shared_address(shared) + Cores::alignment - 1 & ~(Cores::alignment - 1);
}

// The first of the rows that a warp's are multiplied together with, of ROWS.
template <class Cores, int ROWS> __device__ __forceinline__ int wg_group_of(int high)
{
    return ROWS == Cores::together ? 0 : high / Cores::together * Cores::together;
}

// Rows `first` to `first + ROWS - 1` of a matrix into a tile; what is beyond its end is zero. `FREE`: see wg_matrix.
template <class Tile, int THREADS, bool FREE, class T>
__device__ __forceinline__ void wg_bring(wg_u32 tile, const T *from, long long step, int first, int rows, int columns)
{
    wg_matrix<T, true, FREE> matrix = {from, step, rows, columns};
    wg_loader<wg_matrix<T, true, FREE>, Tile, THREADS> loader(matrix, first);
    if (columns == Tile::per_line * Tile::chunk) loader.load_whole(tile, 0, 0, 1);
    else loader.load(tile, 0, 0, 1);
}

__device__ __forceinline__ float wg_quad_sum(float x)
{
    x += __shfl_xor_sync(0xffffffff, x, 1);
    return x + __shfl_xor_sync(0xffffffff, x, 2);
}
__device__ __forceinline__ float wg_quad_top(float x)
{
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffff, x, 2));
}

// Whether some query of a tile may not look at some key of another.
template <class Shape> __device__ __forceinline__ bool wg_is_cut(int query, int key, int keys)
{
    return Shape::mask_kind || Shape::scaled_early || key + keys > Shape::keys || (Shape::causal && key + keys - 1 > query);
}

// One walk's state for a warp's rows: element (i, half) is row i * 16 + half * 8 + lane / 4.
template <int TALL> struct wg_softmax {
    float top[TALL / 16][2], total[TALL / 16][2];
};

// Scores as powers below their row's largest; what was summed before shrinks to match, if a larger one has come.
template <int TALL, int KEYS, int V>
__device__ __forceinline__ void wg_soften(float (&scores)[TALL / 16][KEYS / 8][4], float (&sums)[TALL / 16][V / 8][4],
                                          wg_softmax<TALL> &state, float unit)
{
    float shrink[TALL / 16][2];
    bool larger = false;
#pragma unroll
    for (int i = 0; i < TALL / 16; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float largest = state.top[i][half], before = largest;
#pragma unroll
            for (int j = 0; j < KEYS / 8; j++)
                largest = fmaxf(largest, fmaxf(scores[i][j][2 * half], scores[i][j][2 * half + 1]));
            largest = wg_quad_top(largest);
            float base = wg_base(largest) * unit, total = 0;
            shrink[i][half] = largest == before ? 1 : wg_fast_power(fmaf(before, unit, -base));
            state.top[i][half] = largest, larger |= largest != before;
#pragma unroll
            for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
                for (int e = 2 * half; e < 2 * half + 2; e++) {
                    scores[i][j][e] = wg_fast_power(fmaf(scores[i][j][e], unit, -base));
                    total += scores[i][j][e];
                }
            state.total[i][half] = fmaf(state.total[i][half], shrink[i][half], total);
        }
    if (__any_sync(0xffffffff, larger))
#pragma unroll
        for (int i = 0; i < TALL / 16; i++)
#pragma unroll
            for (int j = 0; j < V / 8; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) sums[i][j][e] *= shrink[i][e / 2];
}

// The forward pass; KEEPS: it leaves each query's logarithm too, infinity for those beyond the last.
template <class Shape, class Cores, int E, int V, int WARPS, int KEYS, bool KEEPS, class T, class Mask>
__device__ __forceinline__ void wg_attention_cores(const T *query, const T *key, const T *value, const Mask *mask, T *y,
                                                   float *logarithms, char *shared)
{
    const int TALL = Cores::tall, queries = TALL * WARPS, threads = WARPS * 32, stage = KEYS * (E + V) * 2;
    const bool free = Shape::free;
    int head = blockIdx.x, first = (gridDim.y - 1 - blockIdx.y) * queries;  // the longest walks begin first
    int lane = threadIdx.x & 31, warp = threadIdx.x / 32, high = warp * TALL, row = first + high + (lane >> 2);
    int group = first + wg_group_of<Cores, queries>(high);
    wg_u32 own = wg_aligned<Cores>(shared), ring = own + queries * E * 2;
    const float unit = Shape::unit;
    key += Shape::key_at(head), value += Shape::value_at(head), mask += Shape::mask_at(head);
    int last = Shape::causal && first + queries < Shape::keys ? first + queries : Shape::keys;

    typedef typename Cores::template Tile<KEYS, E> Keys;
    typedef typename Cores::template Tile<KEYS, V> Values;
    auto bring = [&](int start, int slot) {
        wg_bring<Keys, threads, free>(ring + slot * stage, key, Shape::key_row, start, Shape::keys, Shape::features);
        wg_bring<Values, threads, free>(ring + slot * stage + KEYS * E * 2, value, Shape::value_row, start, Shape::keys,
                                        Shape::values);
    };
    wg_bring<typename Cores::template Tile<queries, E>, threads, free>(own, query + Shape::query_at(head), Shape::query_row,
                                                                       first, Shape::queries, Shape::features);
    bring(0, 0);
    wg_commit();
    typename Cores::template Own<queries, E> rows(own, high);
    float sums[TALL / 16][V / 8][4] = {};
    wg_softmax<TALL> state;
#pragma unroll
    for (int i = 0; i < TALL / 16 * 2; i++) state.top[i / 2][i % 2] = -WG_INFINITY, state.total[i / 2][i % 2] = 0;

    for (int start = 0, slot = 0; start < last; start += KEYS, slot ^= 1) {
        wg_wait<0>();
        Cores::arrived();
        __syncthreads();  // this tile is there, and nobody reads the one before any more
        auto bring_next = [&]() {
            if (start + KEYS < last) bring(start + KEYS, slot ^ 1);
            wg_commit();
        };
        if (Shape::causal && start >= group + Cores::together) {  // above the diagonal
            bring_next();
            continue;
        }
        float scores[TALL / 16][KEYS / 8][4];
        Cores::template products<KEYS, E>(scores, rows, ring + slot * stage);
        bring_next();
        Cores::template wait<0>(scores);
        if (wg_is_cut<Shape>(first + high, start, KEYS))
#pragma unroll
            for (int i = 0; i < TALL / 16; i++)
#pragma unroll
                for (int j = 0; j < KEYS / 8; j++)
#pragma unroll
                    for (int e = 0; e < 4; e++)
                        scores[i][j][e] = wg_score<Shape>(scores[i][j][e], mask, row + i * 16 + e / 2 * 8,
                                                          start + j * 8 + (lane & 3) * 2 + e % 2);
        wg_soften<TALL, KEYS, V>(scores, sums, state, unit);
        Cores::template weigh<KEYS, V>(sums, scores, ring + slot * stage + KEYS * E * 2);
        Cores::template wait<0>(sums);
    }
#pragma unroll
    for (int i = 0; i < TALL / 16; i++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float whole = wg_quad_sum(state.total[i][half]), by = whole == 0 ? 0 : 1 / whole;
            int r = row + i * 16 + half * 8;
#pragma unroll
            for (int j = 0; j < V / 8; j++) sums[i][j][2 * half] *= by, sums[i][j][2 * half + 1] *= by;
            if (KEEPS && (lane & 3) == 0)
                logarithms[(long long)head * Shape::pitch + r] =
                    whole == 0 || r >= Shape::queries ? WG_INFINITY
                                                      : wg_base(state.top[i][half]) * unit + wg_logarithm(whole);
        }
    __syncthreads();
    wg_plain<T, Shape::values % 8 ? 1 : 8> out = {y + Shape::y_at(head), Shape::y_row, Shape::queries, Shape::values};
    wg_hand_out<TALL, V>(sums, (float *)shared + warp * 16 * (V + 8), out, first + high, 0);
}

// A query's share, which all its scores' cotangents lack: what the four lanes that have its row find of y times g.
template <class Shape, class T> __device__ __forceinline__ float wg_share_of(const T *y, const T *g, int row)
{
    const int wide = Shape::free || Shape::values % 8 ? 1 : 8;
    float share = 0;
    y += row * (long long)Shape::y_row, g += row * (long long)Shape::g_row;
    if (row < Shape::queries)
#pragma unroll
        for (int column = (threadIdx.x & 3) * wide; column < Shape::values; column += 4 * wide) {
            wg_pack<T, wide> a = *(const wg_pack<T, wide> *)(y + column), b = *(const wg_pack<T, wide> *)(g + column);
#pragma unroll
            for (int e = 0; e < wide; e++) share += wg_wide(a.of[e]) * wg_wide(b.of[e]);
        }
    return wg_quad_sum(share);
}

// The totals of a block's columns, put together through shared memory in the order of the warps.
template <int WARPS, int N, int M>
__device__ __forceinline__ void wg_leave_totals(const float (&sums)[N][M][4], float *room, float *to, int row, int rows,
                                                int columns)
{
    int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    __syncthreads();
#pragma unroll
    for (int j = 0; j < M; j++) {
        float total[2] = {};
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int e = 0; e < 4; e++)
                if (row + i * 16 + e / 2 * 8 < rows) total[e % 2] += sums[i][j][e];
#pragma unroll
        for (int e = 0; e < 2; e++) {
#pragma unroll
            for (int apart = 4; apart < 32; apart *= 2) total[e] += __shfl_xor_sync(0xffffffff, total[e], apart);
            if (lane < 4) room[(warp * M + j) * 8 + lane * 2 + e] = total[e];
        }
    }
    __syncthreads();
    for (int c = threadIdx.x; c < columns; c += WARPS * 32) {
        float total = 0;
        for (int w = 0; w < WARPS; w++) total += room[w * M * 8 + c];
        to[c] = total;
    }
}

// Cotangents. A block owns keys (BY_KEY: their and their values' cotangents) or queries and walks over the others. Blocks of
// queries come first, and leave the shares to those of keys. Where the three cotangents lie side by side in rows of
// Shape::totals, `parts` gets the totals of each block's columns: a row for each block of a batch.
template <class Shape, class Cores, int E, int V, int WARPS, int OTHER, bool BY_KEY, class T, class Mask>
__device__ __forceinline__ void wg_attention_back_cores(const T *query, const T *key, const T *value, const Mask *mask,
                                                        const T *g, const float *logarithms, float *shares, const T *y,
                                                        float *parts, T *to, T *to_value, char *shared)
{
    const int TALL = Cores::tall, owned = TALL * WARPS, threads = WARPS * 32, stage = OTHER * (E + V) * 2;
    const int own_rows = BY_KEY ? Shape::keys : Shape::queries, other_rows = BY_KEY ? Shape::queries : Shape::keys;
    const bool free = Shape::free;
    int head = blockIdx.x, first = (BY_KEY ? blockIdx.y : gridDim.y - 1 - blockIdx.y) * owned;
    int lane = threadIdx.x & 31, warp = threadIdx.x / 32, high = warp * TALL, row = first + high + (lane >> 2);
    int group = first + wg_group_of<Cores, owned>(high);
    wg_u32 own = wg_aligned<Cores>(shared), own_v = own + owned * E * 2, ring = own_v + owned * V * 2;
    wg_u32 statistics = ring + 2 * stage;
    const float unit = Shape::unit;
    query += Shape::query_at(head), key += Shape::key_at(head), value += Shape::value_at(head), g += Shape::g_at(head);
    mask += Shape::mask_at(head), logarithms += (long long)head * Shape::pitch, shares += (long long)head * Shape::pitch;
    int begin = BY_KEY && Shape::causal ? first / OTHER * OTHER : 0;
    int end = !BY_KEY && Shape::causal && first + owned < other_rows ? first + owned : other_rows;

    typedef typename Cores::template Tile<OTHER, E> Other;
    typedef typename Cores::template Tile<OTHER, V> OtherV;
    const T *others = BY_KEY ? query : key, *others_v = BY_KEY ? g : value;
    const long long step = BY_KEY ? Shape::query_row : Shape::key_row, step_v = BY_KEY ? Shape::g_row : Shape::value_row;
    auto bring = [&](int start, int slot) {
        wg_u32 to = ring + slot * stage;
        wg_bring<Other, threads, free>(to, others, step, start, other_rows, Shape::features);
        wg_bring<OtherV, threads, free>(to + OTHER * E * 2, others_v, step_v, start, other_rows, Shape::values);
        if (BY_KEY && threadIdx.x < OTHER / 2) {
            int at = threadIdx.x % (OTHER / 4) * 4;
            wg_copy_async(statistics + slot * OTHER * 8 + threadIdx.x * 16,
                          (threadIdx.x < OTHER / 4 ? logarithms : shares) + start + at, 16);
        }
    };
    wg_bring<typename Cores::template Tile<owned, E>, threads, free>(own, BY_KEY ? key : query,
                                                                     BY_KEY ? Shape::key_row : Shape::query_row, first,
                                                                     own_rows, Shape::features);
    wg_bring<typename Cores::template Tile<owned, V>, threads, free>(own_v, BY_KEY ? value : g,
                                                                     BY_KEY ? Shape::value_row : Shape::g_row, first, own_rows,
                                                                     Shape::values);
    if (begin < end) bring(begin, 0);
    wg_commit();
    typename Cores::template Own<owned, E> rows(own, high);
    typename Cores::template Own<owned, V> rows_v(own_v, high);
    float sums[TALL / 16][E / 8][4] = {}, sums_v[BY_KEY ? TALL / 16 : 1][BY_KEY ? V / 8 : 1][4] = {};
    float logarithm[TALL / 16][2], share[TALL / 16][2];
    if (!BY_KEY)
#pragma unroll
        for (int i = 0; i < TALL / 16 * 2; i++) {
            int r = row + i / 2 * 16 + i % 2 * 8;
            logarithm[i / 2][i % 2] = r < own_rows ? logarithms[r] : WG_INFINITY;
            share[i / 2][i % 2] = wg_share_of<Shape>(y + Shape::y_at(head), g, r);
            if ((lane & 3) == 0) shares[r] = share[i / 2][i % 2];
        }
    if (first >= own_rows) end = begin;  // nothing but shares, which are 0

    for (int start = begin, slot = 0; start < end; start += OTHER, slot ^= 1) {
        wg_wait<0>();
        Cores::arrived();
        __syncthreads();  // this tile is there, and nobody reads the one before any more
        auto bring_next = [&]() {
            if (start + OTHER < end) bring(start + OTHER, slot ^ 1);
            wg_commit();
        };
        if (Shape::causal && (BY_KEY ? group >= start + OTHER : start >= group + Cores::together)) {  // above the diagonal
            bring_next();
            continue;
        }
        wg_u32 tile = ring + slot * stage, tile_v = tile + OTHER * E * 2;
        const float *columns = (const float *)(shared + (statistics - wg_shared_address(shared))) + slot * OTHER * 2;
        float scores[TALL / 16][OTHER / 8][4], by[TALL / 16][OTHER / 8][4];
        Cores::template products<OTHER, E>(scores, rows, tile);
        Cores::template products<OTHER, V>(by, rows_v, tile_v);
        bring_next();
        Cores::template wait<1>(scores);
        if (BY_KEY ? wg_is_cut<Shape>(start, first + high, TALL) : wg_is_cut<Shape>(first + high, start, OTHER))
#pragma unroll
            for (int i = 0; i < TALL / 16; i++)
#pragma unroll
                for (int j = 0; j < OTHER / 8; j++)
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        int r = row + i * 16 + e / 2 * 8, column = start + j * 8 + (lane & 3) * 2 + e % 2;
                        scores[i][j][e] = wg_score<Shape>(scores[i][j][e], mask, BY_KEY ? column : r, BY_KEY ? r : column);
                    }
#pragma unroll
        for (int j = 0; j < OTHER / 8; j++) {
            float2 logs;
            if (BY_KEY) logs = *(const float2 *)(columns + j * 8 + (lane & 3) * 2);
#pragma unroll
            for (int i = 0; i < TALL / 16; i++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    float log = BY_KEY ? (e % 2 ? logs.y : logs.x) : logarithm[i][e / 2];
                    scores[i][j][e] = wg_fast_power(fmaf(scores[i][j][e], unit, -log));
                }
        }
        if constexpr (BY_KEY) Cores::template weigh<OTHER, V>(sums_v, scores, tile_v);
        Cores::template wait<BY_KEY ? 1 : 0>(by);
#pragma unroll
        for (int j = 0; j < OTHER / 8; j++) {
            float2 parts;
            if (BY_KEY) parts = *(const float2 *)(columns + OTHER + j * 8 + (lane & 3) * 2);
#pragma unroll
            for (int i = 0; i < TALL / 16; i++)
#pragma unroll
                for (int e = 0; e < 4; e++) {
                    float part = BY_KEY ? (e % 2 ? parts.y : parts.x) : share[i][e / 2];
                    by[i][j][e] = scores[i][j][e] * (by[i][j][e] - part);
                }
        }
        Cores::template weigh<OTHER, E>(sums, by, tile);
        Cores::template wait<0>(sums);
        if constexpr (BY_KEY) Cores::template wait<0>(sums_v);
    }
    wg_wait<0>();
    __syncthreads();
#pragma unroll
    for (int i = 0; i < TALL / 16; i++)
#pragma unroll
        for (int j = 0; j < E / 8; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) sums[i][j][e] *= (float)Shape::scale;
    if constexpr (Shape::totals > 0) {
        auto part = [&](long long at) {
            long long block = at / ((long long)Shape::totals * own_rows) * (own_rows / owned) + first / owned;
            return parts + block * Shape::totals + at % Shape::totals;
        };
        float *to_part = part(BY_KEY ? Shape::to_key_at(head) : Shape::to_query_at(head));
        wg_leave_totals<WARPS>(sums, (float *)shared, to_part, row, own_rows, Shape::features);
        if constexpr (BY_KEY)
            wg_leave_totals<WARPS>(sums_v, (float *)shared, part(Shape::to_value_at(head)), row, own_rows, Shape::values);
        __syncthreads();
    }
    to += BY_KEY ? Shape::to_key_at(head) : Shape::to_query_at(head);
    wg_plain<T, Shape::features % 8 ? 1 : 8> out = {to, BY_KEY ? Shape::to_key_row : Shape::to_query_row, own_rows,
                                                    Shape::features};
    wg_hand_out<TALL, E>(sums, (float *)shared + warp * 16 * (E + 8), out, first + high, 0);
    if constexpr (BY_KEY) {
        wg_plain<T, Shape::values % 8 ? 1 : 8> out = {to_value + Shape::to_value_at(head), Shape::to_value_row, own_rows,
                                                      Shape::values};
        __syncthreads();
        wg_hand_out<TALL, V>(sums_v, (float *)shared + warp * 16 * (V + 8), out, first + high, 0);
    }
}
