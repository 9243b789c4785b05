// Convolutions by the weight on the tensor cores in tf32, channels last: taps slide over what a lane has in its registers.
//
//     weight[o, line, tap, c] = sum over positions of y[row, column, o] * x[row * stride + line - low, column * stride + tap - low, c]
//
// A block makes the sums of `outs` x `ins` channels for all taps of the kernel, over a part of the rows of all images. Rows
// of x travel through a ring in shared memory, those of y through stages: each is read once, where an unfolded product reads
// x for every tap. mma takes positions in any order, the same for both operands; so each of the 8 it takes at a time is one
// of `span` neighbours, two such streams a lane, and the next tap's operand is what the lane has already, one place further.
// For 3 x 3 taps 36 mma go with 20 loads from shared memory and as many roundings to tf32.
//
// Rows of y are numbered through all images, `period` for each; those that do not exist are zero, and so are the rows of x
// between images. A turn takes `rows` of them. The text before this header defines `wg_shape`, as for conv.cuh, and
// `wg_cut`: these sizes, and how far apart things lie in shared memory.
#pragma once
#include "conv_rows.cuh"

struct wg_rows {
    typedef wg_shape s;
    typedef wg_cut c;
    static const int lines = s::kernel1, taps = s::kernel2, step = s::stride2;
    static const int width = (s::count2 + c::span - 1) / c::span * c::span;  // positions of a row, filled up
    static const int threads = c::warps_high * c::warps_wide * c::warps_deep * 32;
    static const int y_slots = c::stages * c::rows, y_start = c::slots * c::x_line;
    typedef wg_arriving<(width - 1) * step + taps, s::low2, s::size2, s::low1, s::size1, c::period * s::stride1, c::ins, s::ins,
                        c::slots, c::x_line, c::x_pitch, threads> X;
    typedef wg_arriving<width, 0, s::count2, 0, s::count1, c::period, c::outs, s::outs, y_slots, c::y_line, c::y_pitch, threads> Y;
    X x;
    Y y;

    __device__ __forceinline__ wg_rows(const float *x, const float *y, wg_u32 shared, int turn, int images)
        : x(x, shared, turn * c::rows * s::stride1, images), y(y, shared + y_start * 4, turn * c::rows, images)
    {
    }
    __device__ __forceinline__ void bring_x(int i)
    {
        x.bring(i % X::passes);
        if (i % X::passes == X::passes - 1) x.next();
    }
    // Rows of x that the first turn shares with the one before it.
    __device__ __forceinline__ void bring_shared()
    {
#pragma unroll
        for (int i = 0; i < (lines - s::stride1) * X::passes; i++) bring_x(i);
    }
    // A part of what the next turn wants besides: its rows of y, and as many steps of rows of x.
    __device__ __forceinline__ void bring(int part, int parts)
    {
        const int of_x = c::rows * s::stride1 * X::passes, all = of_x + c::rows * Y::passes;
#pragma unroll
        for (int i = all * part / parts; i < all * (part + 1) / parts; i++) {
            if (i < of_x) {
                bring_x(i);
            } else {
                y.bring((i - of_x) % Y::passes);
                if ((i - of_x) % Y::passes == Y::passes - 1) y.next();
            }
        }
    }
};

// The sums of a warp: fragments of 16 channels of y by 8 pairs of (line, channel of x), for every tap along a line.
struct wg_slide {
    typedef wg_shape s;
    typedef wg_cut c;
    static const int lines = s::kernel1, taps = s::kernel2, step = s::stride2, width = wg_rows::width;
    static const int segments = c::rows * width / (8 * c::span) / c::warps_deep;  // of a turn, for a warp
    static const int high = c::outs / 16 / c::warps_high, wide = lines * c::ins / 8 / c::warps_wide;
    static const int kept = taps + step;  // places of x, with those of the next position

    const float *shared;
    float sums[high][wide][taps][4];
    int across, down, deep;  // this warp's first fragments and segment

    // A position of y in both streams.
    __device__ __forceinline__ void read_y(wg_u32 (&to)[high][4], const float *const (&from)[2], int position) const
    {
#pragma unroll
        for (int i = 0; i < high; i++)
#pragma unroll
            for (int k = 0; k < 4; k++) to[i][k] = wg_tf32(from[k / 2][position * c::y_pitch + i * 16 + k % 2 * 8]);
    }
    __device__ __forceinline__ void read_x(wg_u32 (&to)[wide][kept][2], const float *const (&from)[wide][2], int first, int last) const
    {
#pragma unroll
        for (int place = first; place < last; place++)
#pragma unroll
            for (int j = 0; j < wide; j++)
#pragma unroll
                for (int k = 0; k < 2; k++) to[j][place % kept][k] = wg_tf32(from[j][k][place * c::x_pitch]);
    }
    // Where a stream's first position lies in the stages of y, and its first place in the ring of x.
    __device__ __forceinline__ void find(int stream, int turn, int start, const float *&y, const float *(&x)[wide]) const
    {
        int at = stream * c::span, row = at / width, column = at % width, group = (int)(threadIdx.x & 31) >> 2;
        y = shared + wg_rows::y_start + (turn % c::stages * c::rows + row) * c::y_line + column * c::y_pitch + down * 16 + group;
#pragma unroll
        for (int j = 0; j < wide; j++) {
            int pair = (across + j) * 8 + group, slot = start + row * s::stride1 + pair / c::ins;
            if (slot >= c::slots) slot -= c::slots;
            x[j] = shared + slot * c::x_line + column * step * c::x_pitch + pair % c::ins;
        }
    }
    // Add up a turn's products; `between` is called before those of each position of a span.
    template <class Between> __device__ __forceinline__ void multiply(int turn, const Between &between)
    {
        int start = turn * (c::rows * s::stride1) % c::slots;
#pragma unroll
        for (int segment = 0; segment < segments; segment++) {
            int stream = (deep * segments + segment) * 8 + (threadIdx.x & 3) * 2;
            const float *y[2], *x[wide][2];
#pragma unroll
            for (int k = 0; k < 2; k++) {
                const float *found[wide];
                if (k == 0 || width % (2 * c::span)) find(stream + k, turn, start, y[k], found);
                else y[k] = y[0] + c::span * c::y_pitch;
#pragma unroll
                for (int j = 0; j < wide; j++)
                    x[j][k] = k == 0 || width % (2 * c::span) ? found[j] : x[j][0] + c::span * step * c::x_pitch;
            }
            wg_u32 left[2][high][4], right[wide][kept][2];
            read_y(left[0], y, 0);
            read_x(right, x, 0, taps);
#pragma unroll
            for (int p = 0; p < c::span; p++) {
                if (p + 1 < c::span) {
                    read_y(left[p + 1 & 1], y, p + 1);
                    read_x(right, x, p * step + taps, (p + 1) * step + taps);
                }
                if (segment == 0) between(p);
#pragma unroll
                for (int j = 0; j < wide; j++)
#pragma unroll
                    for (int tap = 0; tap < taps; tap++)
#pragma unroll
                        for (int i = 0; i < high; i++) {
                            const wg_u32(&pair)[2] = right[j][(p * step + tap) % kept];
                            wg_mma<float>(sums[i][j][tap], left[p & 1][i], pair[0], pair[1]);
                        }
            }
        }
    }
    // The sums into (outs, lines, taps, ins).
    __device__ __forceinline__ void store(float *to) const
    {
        int lane = threadIdx.x & 31;
#pragma unroll
        for (int i = 0; i < high; i++)
#pragma unroll
            for (int j = 0; j < wide; j++) {
                int pair = (across + j) * 8 + lane % 4 * 2, out = (down + i) * 16 + lane / 4;
#pragma unroll
                for (int tap = 0; tap < taps; tap++) {
                    float *at = to + (((long long)out * lines + pair / c::ins) * taps + tap) * s::ins + pair % c::ins;
                    *(float2 *)at = make_float2(sums[i][j][tap][0], sums[i][j][tap][1]);
                    *(float2 *)(at + 8LL * lines * taps * s::ins) = make_float2(sums[i][j][tap][2], sums[i][j][tap][3]);
                }
            }
    }
};

// Turns `first` to `last` of a tile by a block, into part after part of the sums: one for each warp along the depth.
__device__ __forceinline__ void wg_convolve_weight_slide(const float *x, const float *y, float *to, int images, int tile, int part,
                                                         int first, int last)
{
    typedef wg_shape s;
    typedef wg_cut c;
    extern __shared__ __align__(128) char shared[];
    int warp = threadIdx.x / 32, in = tile % (s::ins / c::ins) * c::ins, out = tile / (s::ins / c::ins) * c::outs;
    wg_rows rows(x + in, y + out, wg_shared_address(shared), first, images);
    wg_slide slide = {(const float *)shared};
    slide.across = warp % c::warps_wide * wg_slide::wide;
    slide.down = warp / c::warps_wide % c::warps_high * wg_slide::high;
    slide.deep = warp / (c::warps_wide * c::warps_high);

    rows.bring_shared();
#pragma unroll
    for (int ahead = 0; ahead < c::stages - 1; ahead++) {
        rows.bring(0, 1);
        wg_commit();
    }
    for (int turn = first; turn < last; turn++) {
        wg_wait<c::stages - 2>();
        __syncthreads();
        if (c::rows > 1 || turn % c::period < s::count1) slide.multiply(turn, [&](int part) { rows.bring(part, c::span); });
        else rows.bring(0, 1);
        wg_commit();
    }
    part = part * c::warps_deep + slide.deep;
    slide.store(to + ((long long)part * s::outs + out) * s::kernel1 * s::kernel2 * s::ins + in);
    wg_wait<0>();
}
