// Attention without the T x T matrix, forward and backward, in plain arithmetic: float32, float64, and halves where no
// tensor cores take them.
//
// Forward: a block owns TILE queries and walks over the keys, TILE at a time. The softmax is kept as it goes: each row's
// largest score so far, the sum of powers below it, and the weighted sum of values, scaled anew when a larger score comes.
// Forward keeps for each query the logarithm of its sum, if backward asks for it: with that every probability is one power
// again. Backward: the row sums of g * y, each query's share of the cotangent; then blocks that own keys walk over the
// queries and add up the cotangents of keys and values, and blocks that own queries walk over the keys: nothing is added by
// two.
//
// 16 x 16 threads; a thread has rows ty, ty + 16, ... and columns tx, tx + 16, ... of whatever the block computes, so the
// 16 threads of a row are neighbours in a warp. FLOPs: forward 4 T S E a head, backward 14 (8 + 6), half if causal.
//
// `Shape` has the sizes and steps of one attention as constants. Scores are in powers of two, times Shape::unit.
#pragma once
#include "tile.cuh"

#define WG_INFINITY __int_as_float(0x7f800000)
#define WG_LOG2E 1.4426950408889634

__device__ __forceinline__ float wg_power(float x) { return exp2f(x); }
__device__ __forceinline__ double wg_power(double x) { return exp2(x); }
__device__ __forceinline__ float wg_logarithm(float x) { return log2f(x); }
__device__ __forceinline__ double wg_logarithm(double x) { return log2(x); }

// The score of a query for a key from the product of the two: -infinity where it may not look.
template <class Shape, class Sum, class Mask>
__device__ __forceinline__ Sum wg_score(Sum product, const Mask *mask, int query, int key)
{
    Sum score = Shape::scaled_early ? product * (Sum)(Shape::scale * WG_LOG2E) : product;
    bool seen = key < Shape::keys && query < Shape::queries && (!Shape::causal || key <= query);
    if constexpr (Shape::mask_kind != 0)
        if (seen) {
            Mask m = mask[(long long)query * Shape::mask_row + key * Shape::mask_column];
            if constexpr (Shape::mask_kind == 1) seen = m;
            else score += wg_wide(m) * (Sum)WG_LOG2E;
        }
    return seen ? score : -(Sum)WG_INFINITY;
}

// What a row's powers are taken below: its largest score, or 0 if it has none that is finite.
template <class Sum> __device__ __forceinline__ Sum wg_base(Sum top) { return top - top == 0 ? top : 0; }

// `ROWS` rows of a matrix from `first` on into shared memory, zeros beyond its end.
template <int ROWS, int COLUMNS, class T, class Sum>
__device__ __forceinline__ void wg_fill(Sum *to, const T *from, long long step, int first, int rows)
{
    for (int e = threadIdx.x; e < ROWS * COLUMNS; e += 256) {
        int row = e / COLUMNS, column = e % COLUMNS;
        to[row * (COLUMNS | 1) + column] = first + row < rows ? (Sum)wg_wide(from[(first + row) * step + column]) : 0;
    }
}

// out[i][j] = products of rows ty + 16 i of one tile with rows tx + 16 j of another.
template <int N, int DEPTH, class Sum>
__device__ __forceinline__ void wg_products(Sum (&out)[N][N], const Sum *rows, const Sum *columns)
{
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) out[i][j] = 0;
#pragma unroll 4
    for (int k = 0; k < DEPTH; k++)
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int j = 0; j < N; j++)
                out[i][j] += rows[(ty + 16 * i) * (DEPTH | 1) + k] * columns[(tx + 16 * j) * (DEPTH | 1) + k];
}

// sums[i][j] += row ty + 16 i of `weights` times column tx + 16 j of `tile`.
template <int TILE, int COLUMNS, class Sum>
__device__ __forceinline__ void wg_weigh(Sum (&sums)[TILE / 16][(COLUMNS + 15) / 16], const Sum *weights, const Sum *tile)
{
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    for (int k = 0; k < TILE; k++)
#pragma unroll
        for (int j = 0; j < (COLUMNS + 15) / 16; j++) {
            Sum x = tx + 16 * j < COLUMNS ? tile[k * (COLUMNS | 1) + tx + 16 * j] : 0;
#pragma unroll
            for (int i = 0; i < TILE / 16; i++) sums[i][j] += weights[(ty + 16 * i) * (TILE + 1) + k] * x;
        }
}

template <int TILE, int COLUMNS, class T, class Sum>
__device__ __forceinline__ void wg_put(T *to, const Sum (&sums)[TILE / 16][(COLUMNS + 15) / 16], int first, int rows,
                                       long long step, Sum by)
{
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
#pragma unroll
    for (int i = 0; i < TILE / 16; i++)
#pragma unroll
        for (int j = 0; j < (COLUMNS + 15) / 16; j++) {
            int row = first + ty + 16 * i, column = tx + 16 * j;
            if (row < rows && column < COLUMNS) to[row * step + column] = wg_narrow<T>::of(sums[i][j] * by);
        }
}

template <class Sum> __device__ __forceinline__ Sum wg_row_sum(Sum x)
{
    for (int lanes = 8; lanes; lanes /= 2) x += __shfl_xor_sync(0xffffffff, x, lanes);
    return x;
}
template <class Sum> __device__ __forceinline__ Sum wg_row_top(Sum x)
{
    for (int lanes = 8; lanes; lanes /= 2) {
        Sum other = __shfl_xor_sync(0xffffffff, x, lanes);
        x = other > x ? other : x;
    }
    return x;
}

// The forward pass; KEEPS: it leaves each query's logarithm too.
template <class Shape, int TILE, bool KEEPS, class T, class Mask, class Sum>
__device__ __forceinline__ void wg_attention(const T *query, const T *key, const T *value, const Mask *mask, T *y,
                                             Sum *logarithms, Sum *room)
{
    const int N = TILE / 16, E = Shape::features, V = Shape::values, J = (V + 15) / 16;
    int head = blockIdx.x, first = (gridDim.y - 1 - blockIdx.y) * TILE;  // the longest walks begin first
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    Sum *q = room, *k = q + TILE * (E | 1), *v = k + TILE * (E | 1), *p = v + TILE * (V | 1);
    const Sum unit = Shape::unit;
    key += Shape::key_at(head), value += Shape::value_at(head), mask += Shape::mask_at(head);
    wg_fill<TILE, E>(q, query + Shape::query_at(head), Shape::query_row, first, Shape::queries);
    Sum sums[N][J] = {}, top[N], total[N];
    for (int i = 0; i < N; i++) top[i] = -(Sum)WG_INFINITY, total[i] = 0;
    int last = Shape::causal && first + TILE < Shape::keys ? first + TILE : Shape::keys;
    for (int start = 0; start < last; start += TILE) {
        __syncthreads();
        wg_fill<TILE, E>(k, key, Shape::key_row, start, Shape::keys);
        wg_fill<TILE, V>(v, value, Shape::value_row, start, Shape::keys);
        __syncthreads();
        Sum scores[N][N];
        wg_products<N, E>(scores, q, k);
#pragma unroll
        for (int i = 0; i < N; i++) {
            int row = first + ty + 16 * i;
            Sum largest = top[i];
#pragma unroll
            for (int j = 0; j < N; j++) {
                scores[i][j] = unit * wg_score<Shape>(scores[i][j], mask, row, start + tx + 16 * j);
                largest = scores[i][j] > largest ? scores[i][j] : largest;
            }
            largest = wg_row_top(largest);
            Sum base = wg_base(largest), shrink = wg_power(top[i] - base);
            top[i] = largest, total[i] *= shrink;
            for (int j = 0; j < J; j++) sums[i][j] *= shrink;
#pragma unroll
            for (int j = 0; j < N; j++) {
                Sum power = wg_power(scores[i][j] - base);
                total[i] += power;
                p[(ty + 16 * i) * (TILE + 1) + tx + 16 * j] = power;
            }
        }
        __syncthreads();
        wg_weigh<TILE, V>(sums, p, v);
    }
#pragma unroll
    for (int i = 0; i < N; i++) {
        Sum whole = wg_row_sum(total[i]), by = whole == 0 ? 0 : 1 / whole;
        int row = first + ty + 16 * i;
        for (int j = 0; j < J; j++) sums[i][j] *= by;
        if (KEEPS && row < Shape::queries && tx == 0)
            logarithms[(long long)head * Shape::pitch + row] =
                whole == 0 ? (Sum)WG_INFINITY : wg_base(top[i]) + wg_logarithm(whole);
    }
    wg_put<TILE, V>(y + Shape::y_at(head), sums, first, Shape::queries, Shape::y_row, (Sum)1);
}

// Row sums of g * y, 16 threads a row; 0 for rows beyond the last.
template <class Shape, class T, class Sum>
__device__ __forceinline__ void wg_attention_shares(const T *y, const T *g, Sum *shares)
{
    const int wide = Shape::free || Shape::values % 4 ? 1 : sizeof(T) == 8 ? 2 : 4;
    int head = blockIdx.x, row = blockIdx.y * 16 + threadIdx.x / 16;
    Sum share = 0;
    if (row < Shape::queries) {
        y += Shape::y_at(head) + row * (long long)Shape::y_row;
        g += Shape::g_at(head) + row * (long long)Shape::g_row;
        for (int column = threadIdx.x % 16 * wide; column < Shape::values; column += 16 * wide) {
            wg_pack<T, wide> a = *(const wg_pack<T, wide> *)(y + column), b = *(const wg_pack<T, wide> *)(g + column);
#pragma unroll
            for (int e = 0; e < wide; e++) share += (Sum)wg_wide(a.of[e]) * (Sum)wg_wide(b.of[e]);
        }
    }
    share = wg_row_sum(share);
    if (threadIdx.x % 16 == 0) shares[(long long)head * Shape::pitch + row] = share;
}

// Cotangents. A block owns TILE keys (BY_KEY: their and their values' cotangents) or TILE queries and walks over the others.
template <class Shape, int TILE, bool BY_KEY, class T, class Mask, class Sum>
__device__ __forceinline__ void wg_attention_back(const T *query, const T *key, const T *value, const Mask *mask, const T *g,
                                                  const Sum *logarithms, const Sum *shares, T *to, T *to_value, Sum *room)
{
    const int N = TILE / 16, E = Shape::features, V = Shape::values;
    const int own_rows = BY_KEY ? Shape::keys : Shape::queries, other_rows = BY_KEY ? Shape::queries : Shape::keys;
    int head = blockIdx.x, first = (BY_KEY ? blockIdx.y : gridDim.y - 1 - blockIdx.y) * TILE;
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
    Sum *own = room, *own_v = own + TILE * (E | 1), *other = own_v + TILE * (V | 1), *other_v = other + TILE * (E | 1);
    Sum *p = other_v + TILE * (V | 1), *d = p + TILE * (TILE + 1);
    const Sum unit = Shape::unit;
    query += Shape::query_at(head), key += Shape::key_at(head), value += Shape::value_at(head), g += Shape::g_at(head);
    mask += Shape::mask_at(head), logarithms += (long long)head * Shape::pitch, shares += (long long)head * Shape::pitch;
    wg_fill<TILE, E>(own, BY_KEY ? key : query, BY_KEY ? Shape::key_row : Shape::query_row, first, own_rows);
    wg_fill<TILE, V>(own_v, BY_KEY ? value : g, BY_KEY ? Shape::value_row : Shape::g_row, first, own_rows);
    Sum sums[N][(E + 15) / 16] = {}, sums_v[N][(V + 15) / 16] = {};
    int begin = BY_KEY && Shape::causal ? first : 0;
    int end = !BY_KEY && Shape::causal && first + TILE < other_rows ? first + TILE : other_rows;
    for (int start = begin; start < end; start += TILE) {
        __syncthreads();
        wg_fill<TILE, E>(other, BY_KEY ? query : key, BY_KEY ? Shape::query_row : Shape::key_row, start, other_rows);
        wg_fill<TILE, V>(other_v, BY_KEY ? g : value, BY_KEY ? Shape::g_row : Shape::value_row, start, other_rows);
        __syncthreads();
        Sum scores[N][N], by[N][N];
        wg_products<N, E>(scores, own, other);
        wg_products<N, V>(by, own_v, other_v);
#pragma unroll
        for (int i = 0; i < N; i++)
#pragma unroll
            for (int j = 0; j < N; j++) {
                int row = first + ty + 16 * i, column = start + tx + 16 * j, r = BY_KEY ? column : row;
                Sum score = unit * wg_score<Shape>(scores[i][j], mask, r, BY_KEY ? row : column);
                Sum power = r < Shape::queries ? wg_power(score - logarithms[r]) : 0;
                p[(ty + 16 * i) * (TILE + 1) + tx + 16 * j] = power;
                d[(ty + 16 * i) * (TILE + 1) + tx + 16 * j] = power == 0 ? 0 : power * (by[i][j] - shares[r]);
            }
        __syncthreads();
        if constexpr (BY_KEY) wg_weigh<TILE, V>(sums_v, p, other_v);
        wg_weigh<TILE, E>(sums, d, other);
    }
    to += BY_KEY ? Shape::to_key_at(head) : Shape::to_query_at(head);
    wg_put<TILE, E>(to, sums, first, own_rows, BY_KEY ? Shape::to_key_row : Shape::to_query_row, (Sum)Shape::scale);
    if constexpr (BY_KEY)
        wg_put<TILE, V>(to_value + Shape::to_value_at(head), sums_v, first, own_rows, Shape::to_value_row, (Sum)1);
}
