// The products of recurrent.cuh by tensor cores: float32 as tf32, bfloat16 and float16, with sums in float32.
//
// Slabs and weights lie in the order of the fragments, so that a lane reads those it gives to an instruction by one
// access. Each warp multiplies every WARPS-th piece of the depth, by all rows and columns of the block. Where its part of
// the weights is 128 registers a lane or less, they stay there: shared memory would take longer to give them than the
// tensor cores to multiply (128 kB a step are 1,024 cycles, the products of 16 x 64 x 512 in tf32 are 512).
#pragma once
#include "mma.cuh"
#include "recurrent.cuh"

template <class T> struct wg_core_number;
template <> struct wg_core_number<float> {
    typedef float Element;
    WG_MEMBER static float of(float x) { return __uint_as_float(wg_tf32(x)); }
};
template <> struct wg_core_number<wg_bf16> {
    typedef uint16_t Element;
    WG_MEMBER static uint16_t of(float x) { return wg_to_bf16(x); }
};
template <> struct wg_core_number<wg_f16> {
    typedef uint16_t Element;
    WG_MEMBER static uint16_t of(float x) { return wg_to_f16(x); }
};

/* KEPT: the depth whose weights stay in registers, all of it, or 0 */
template <class T, int R, int NB, int THREADS, int KEPT> struct wg_mma_core {
    typedef typename wg_core_number<T>::Element Element;
    typedef float Sum;
    static constexpr int rows = R, columns = NB, threads = THREADS, WARPS = THREADS / 32, parts = WARPS;
    static constexpr int PAIR = 4 / sizeof(Element), K = 8 * PAIR; /* numbers in a register; the depth of a fragment */
    static constexpr int DOWN = R / 16, ACROSS = NB / 8;
    static constexpr int line = NB % 32 ? NB : NB + 16; /* of partial sums: two rows of 16 lie in different banks */
    static constexpr int PIECES = KEPT / (K * WARPS);
    static constexpr bool unrolled = KEPT > 0;
    static_assert(R % 16 == 0 && NB % 8 == 0 && KEPT % (K * WARPS) == 0, "");
    float sums[DOWN][ACROSS][4];
    uint2 kept[PIECES ? PIECES : 1][ACROSS];

    /* element (row, k) of the left side: fragments of 16 x K, 4 registers a lane */
    WG_MEMBER static int slab_at(int k, int row)
    {
        int lane = row % 8 * 4 + k % (K / 2) / PAIR, word = row % 16 / 8 + 2 * (k % K / (K / 2));
        return (((k / K * DOWN + row / 16) * 32 + lane) * 4 + word) * PAIR + k % PAIR;
    }
    /* element (k, column) of the right side: fragments of K x 8, 2 registers a lane */
    WG_MEMBER static int weight_at(int k, int column)
    {
        int lane = column % 8 * 4 + k % (K / 2) / PAIR, word = k % K / (K / 2);
        return (((k / K * ACROSS + column / 8) * 32 + lane) * 2 + word) * PAIR + k % PAIR;
    }
    WG_MEMBER static Element of(float x) { return wg_core_number<T>::of(x); }

    WG_MEMBER static uint2 right_of(const Element *weights, int piece, int j)
    {
        return *(const uint2 *)(weights + ((piece * ACROSS + j) * 32 + threadIdx.x % 32) * 2 * PAIR);
    }
    WG_MEMBER void keep(const Element *weights)
    {
#pragma unroll
        for (int p = 0; p < PIECES; p++)
#pragma unroll
            for (int j = 0; j < ACROSS; j++) kept[p][j] = right_of(weights, p * WARPS + threadIdx.x / 32, j);
    }
    WG_MEMBER void begin()
    {
#pragma unroll
        for (int i = 0; i < DOWN; i++)
#pragma unroll
            for (int j = 0; j < ACROSS; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) sums[i][j][e] = 0;
    }
    WG_MEMBER void add(const Element *slab, const Element *weights, int from, int depth)
    {
        int warp = threadIdx.x / 32, lane = threadIdx.x % 32, count = KEPT ? depth / (K * WARPS) : (depth / K - warp + WARPS - 1) / WARPS;
#pragma unroll KEPT ? PIECES : 2
        for (int p = 0; p < count; p++) {
            int piece = p * WARPS + warp;
            wg_u32 left[DOWN][4];
#pragma unroll
            for (int i = 0; i < DOWN; i++) {
                uint4 got = *(const uint4 *)(slab + ((piece * DOWN + i) * 32 + lane) * 4 * PAIR);
                left[i][0] = got.x, left[i][1] = got.y, left[i][2] = got.z, left[i][3] = got.w;
            }
#pragma unroll
            for (int j = 0; j < ACROSS; j++) {
                uint2 right = KEPT ? kept[KEPT ? from / (K * WARPS) + p : 0][j] : right_of(weights, from / K + piece, j);
#pragma unroll
                for (int i = 0; i < DOWN; i++) wg_mma<T>(sums[i][j], left[i], right.x, right.y);
            }
        }
    }
    WG_MEMBER void finish(float *partial)
    {
        int lane = threadIdx.x % 32;
        partial += threadIdx.x / 32 * R * line;
#pragma unroll
        for (int i = 0; i < DOWN; i++)
#pragma unroll
            for (int j = 0; j < ACROSS; j++)
#pragma unroll
                for (int e = 0; e < 4; e += 2) {
                    float2 beside = {sums[i][j][e], sums[i][j][e + 1]};
                    *(float2 *)(partial + (i * 16 + lane / 4 + e * 4) * line + j * 8 + lane % 4 * 2) = beside;
                }
    }
};
