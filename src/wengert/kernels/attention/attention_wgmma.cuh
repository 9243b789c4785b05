// Attention by Hopper's tensor cores (wgmma, sm_90a): see attention_cores.cuh.
//
// Four warps of 16 rows each multiply together. Scores are products of two tiles in shared memory; their weights go back in
// from registers, times the same tile read the other way. A tile lies in panels of 64 features, lines of 128 bytes, swizzled
// as wgmma expects it. Products run on while the threads take powers.
//
// Before this header the text defines `wg_multiply`, a wgmma of 64 x OTHER from two tiles, and `wg_weigh`, of 64 x E and
// 64 x V from registers and a tile across.
#pragma once
#include "attention_cores.cuh"
#include "wgmma.cuh"

template <class Number, int ROWS, int WIDTH> struct wg_panels {
    typedef Number T;
    static const int chunk = 8, lines = ROWS, per_line = WIDTH / chunk, bytes = ROWS * WIDTH * 2;

    __device__ __forceinline__ static wg_u32 offset(int line, int c)
    {
        return c / 8 * (ROWS * 128) + line * 128 + (c % 8 ^ line & 7) * 16;
    }
    // How far, in 16 bytes, the chunks of a step of 16 features lie from the first.
    __device__ __forceinline__ static int step(int s) { return s / 4 * (ROWS * 128 >> 4) + s % 4 * 2; }
};

template <class T> struct wg_by_wgmma {
    static const int tall = 16, together = 64, alignment = 1024;
    template <int ROWS, int WIDTH> using Tile = wg_panels<T, ROWS, WIDTH>;

    template <int ROWS, int WIDTH> struct Own {
        typedef wg_panels<T, ROWS, WIDTH> Panels;
        wg_u32 tile;
        __device__ __forceinline__ Own(wg_u32 all, int high) : tile(all + wg_group_of<wg_by_wgmma, ROWS>(high) * 128) {}
    };

    __device__ __forceinline__ static void arrived() { wg_show_tensor_cores(); }
    template <int PENDING, int N> __device__ __forceinline__ static void wait(float (&sums)[1][N][4])
    {
        wg_products_wait<PENDING>();
        wg_products_settled((float(&)[N * 4])sums);
    }

    template <int OTHER, int WIDTH, class Rows>
    __device__ __forceinline__ static void products(float (&sums)[1][OTHER / 8][4], const Rows &own, wg_u32 other)
    {
        wg_u64 a = wg_described<true>(own.tile, 0), b = wg_described<true>(other, 0);
        wg_products_begin();
#pragma unroll
        for (int step = 0; step < WIDTH / 16; step++)
            wg_multiply((float(&)[OTHER / 2])sums, a + Rows::Panels::step(step), b + Tile<OTHER, WIDTH>::step(step), step > 0);
        wg_products_commit();
    }

    template <int OTHER, int WIDTH>
    __device__ __forceinline__ static void weigh(float (&sums)[1][WIDTH / 8][4], const float (&weights)[1][OTHER / 8][4],
                                                 wg_u32 other)
    {
        wg_u64 b = wg_described<false>(other, OTHER);
        wg_u32 a[OTHER / 16][4];
#pragma unroll
        for (int step = 0; step < OTHER / 16; step++)
            wg_left_fragment<T>(a[step], weights[0][2 * step], weights[0][2 * step + 1]);
        wg_products_begin();
#pragma unroll
        for (int step = 0; step < OTHER / 16; step++)
            wg_weigh((float(&)[WIDTH / 2])sums, a[step], b + step * (16 * 128 >> 4), 1);
        wg_products_commit();
    }
};
