// Attention by the tensor cores of sm_80 and later (mma.sync): see attention_cores.cuh.
#pragma once
#include "attention_cores.cuh"

// A tile of rows in shared memory, read as rows of a product's depth or as columns.
template <class Number, bool ALONG> struct wg_lines {
    typedef Number T;
    static const bool along = ALONG;
};

template <class T, int TALL> struct wg_by_mma {
    static const int tall = TALL, together = TALL, alignment = 128;
    template <int ROWS, int WIDTH> using Tile = wg_tile<wg_lines<T, true>, ROWS, WIDTH>;
    template <int ROWS, int WIDTH> using Across = wg_tile<wg_lines<T, false>, WIDTH, ROWS>;

    template <int ROWS, int WIDTH> struct Own {
        typedef wg_tile<wg_lines<T, true>, ROWS, WIDTH> Lines;
        wg_u32 tile;
        int high;
        __device__ __forceinline__ Own(wg_u32 tile, int high) : tile(tile), high(high) {}
    };

    __device__ __forceinline__ static void arrived() {}
    template <int PENDING, class Sums> __device__ __forceinline__ static void wait(Sums &) {}

    template <int OTHER, int WIDTH, class Rows>
    __device__ __forceinline__ static void products(float (&sums)[TALL / 16][OTHER / 8][4], const Rows &own, wg_u32 other)
    {
#pragma unroll
        for (int i = 0; i < TALL / 16; i++)
#pragma unroll
            for (int j = 0; j < OTHER / 8; j++)
#pragma unroll
                for (int e = 0; e < 4; e++) sums[i][j][e] = 0;
#pragma unroll
        for (int step = 0; step < WIDTH / 16; step++) {
            wg_u32 a[TALL / 16][4];
#pragma unroll
            for (int i = 0; i < TALL / 16; i++) Rows::Lines::template fragment<true>(a[i], own.tile, own.high + i * 16, step);
#pragma unroll
            for (int j = 0; j < OTHER / 16; j++) {
                wg_u32 b[4];
                Tile<OTHER, WIDTH>::template fragment<false>(b, other, j * 16, step);
#pragma unroll
                for (int i = 0; i < TALL / 16; i++) {
                    wg_mma<T>(sums[i][2 * j], a[i], b[0], b[1]);
                    wg_mma<T>(sums[i][2 * j + 1], a[i], b[2], b[3]);
                }
            }
        }
    }

    template <int OTHER, int WIDTH>
    __device__ __forceinline__ static void weigh(float (&sums)[TALL / 16][WIDTH / 8][4],
                                                 const float (&weights)[TALL / 16][OTHER / 8][4], wg_u32 other)
    {
#pragma unroll
        for (int step = 0; step < OTHER / 16; step++) {
            wg_u32 a[TALL / 16][4];
#pragma unroll
            for (int i = 0; i < TALL / 16; i++) wg_left_fragment<T>(a[i], weights[i][2 * step], weights[i][2 * step + 1]);
#pragma unroll
            for (int j = 0; j < WIDTH / 16; j++) {
                wg_u32 b[4];
                Across<OTHER, WIDTH>::template fragment<false>(b, other, j * 16, step);
#pragma unroll
                for (int i = 0; i < TALL / 16; i++) {
                    wg_mma<T>(sums[i][2 * j], a[i], b[0], b[1]);
                    wg_mma<T>(sums[i][2 * j + 1], a[i], b[2], b[3]);
                }
            }
        }
    }
};
