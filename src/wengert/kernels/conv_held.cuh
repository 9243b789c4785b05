// Convolutions over few channels on the tensor cores in tf32, channels last, stride 1: the weight is held in registers.
//
// Rows of x travel through a ring in shared memory as they lie, so that what a position sees of a row, (tap, channel), is
// one piece: 16 positions by 8 of its elements are one ldmatrix, from different banks where the channels are an odd number of
// chunks. A warp has the weight of 32 channels of y in its registers, rounded once, and passes over every fourth piece of 16
// positions: 4 mma for each ldmatrix. The text before this header defines `wg_shape`, as for conv.cuh, and `wg_cut`: `rows`
// of y of a turn, numbered as in conv_slide.cuh, turns in flight (`stages`), `period`, `slots` and `x_line`.
#pragma once
#include "conv_rows.cuh"

struct wg_held {
    typedef wg_shape s;
    typedef wg_cut c;
    static const int lines = s::kernel1, depth = s::kernel2 * s::ins, steps = lines * depth / 8, columns = 4, groups = 4;
    static const int across = s::count2 / 16, pieces = c::rows * across;
    typedef wg_arriving<s::count2 + s::kernel2 - 1, s::low2, s::size2, s::low1, s::size1, c::period, s::ins, s::ins, c::slots,
                        c::x_line, s::ins, 256> X;
    wg_u32 weight[steps][columns][2];

    __device__ __forceinline__ wg_held(const float *from, int first)
    {
        int lane = threadIdx.x & 31;
#pragma unroll
        for (int k = 0; k < steps; k++)
#pragma unroll
            for (int j = 0; j < columns; j++)
#pragma unroll
                for (int i = 0; i < 2; i++)
                    weight[k][j][i] = wg_tf32(from[(first + j * 8 + lane / 4) * (lines * depth) + k * 8 + i * 4 + lane % 4]);
    }
    // 16 positions from `at` on, the ring's slot of the first line and the element of the row where they begin.
    __device__ __forceinline__ void multiply(float (&sums)[columns][4], wg_u32 base, int slot, int at) const
    {
        int lane = threadIdx.x & 31;
        wg_u32 from = base + (at + lane % 16 * s::ins + lane / 16 * 4) * 4;
#pragma unroll
        for (int line = 0; line < lines; line++) {
            int wrapped = slot + line < c::slots ? slot + line : slot + line - c::slots;
#pragma unroll
            for (int k = 0; k < depth / 8; k++) {
                wg_u32 left[4];
                wg_load_matrices(left, from + (wrapped * c::x_line + k * 8) * 4);
                wg_rounded<float>(left);
#pragma unroll
                for (int j = 0; j < columns; j++)
                    wg_mma<float>(sums[j], left, weight[line * (depth / 8) + k][j][0], weight[line * (depth / 8) + k][j][1]);
            }
        }
    }
};

// Turns `first` to `last` of 64 channels of y, by 8 warps: four pass over positions, for either half of the channels.
__device__ __forceinline__ void wg_convolve_held(const float *x, const float *weight, float *to, int images, int out, int first,
                                                 int last)
{
    typedef wg_shape s;
    typedef wg_cut c;
    extern __shared__ __align__(128) char shared[];
    wg_u32 base = wg_shared_address(shared);
    int lane = threadIdx.x & 31, warp = threadIdx.x / 32;
    wg_held::X rows(x, base, first * c::rows, images);
    auto bring = [&](int count) {
#pragma unroll
        for (int i = 0; i < count; i++) {
#pragma unroll
            for (int pass = 0; pass < wg_held::X::passes; pass++) rows.bring(pass);
            rows.next();
        }
    };
    bring(s::kernel1 - 1);
#pragma unroll
    for (int ahead = 0; ahead < c::stages - 1; ahead++) {
        bring(c::rows);
        wg_commit();
    }
    out += warp % 2 * 32;
    wg_held held(weight, out);
    for (int turn = first; turn < last; turn++) {
        wg_wait<c::stages - 2>();
        __syncthreads();
        bring(c::rows);
        wg_commit();
        for (int piece = warp / 2; piece < wg_held::pieces; piece += wg_held::groups) {
            int row = turn * c::rows + piece / wg_held::across, column = piece % wg_held::across * 16;
            int image = row / c::period, at = row % c::period;
            if (at >= s::count1 || image >= images) continue;
            float sums[wg_held::columns][4] = {};
            held.multiply(sums, base, row % c::slots, column * s::ins);
            float *y = to + ((long long)(image * s::count1 + at) * s::count2 + column + lane / 4) * s::outs + out + lane % 4 * 2;
#pragma unroll
            for (int j = 0; j < wg_held::columns; j++) {
                *(float2 *)(y + j * 8) = make_float2(sums[j][0], sums[j][1]);
                *(float2 *)(y + 8 * s::outs + j * 8) = make_float2(sums[j][2], sums[j][3]);
            }
        }
    }
    wg_wait<0>();
}
