// Convolutions by the weight on Hopper's tensor cores in tf32 (wgmma), channels last: what conv_slide.cuh does by mma.
//
// A block makes the sums of 64 x 64 channels, a warpgroup for each line of the kernel, over a part of the rows of all images.
// The left operand, 64 channels of x by 8 places, is in registers and serves one tap after the other, as in conv_slide.cuh;
// the right one, 64 channels of y by 8 positions, is the same for all taps: rows of y are turned around on their way into
// shared memory, into chunks of four positions of a channel, rounded to tf32. Its rows are numbered as there.
#pragma once
#include "conv_rows.cuh"
#include "wgmma.cuh"

struct wg_sweep {
    typedef wg_shape s;
    typedef wg_cut c;
    static const int lines = s::kernel1, taps = s::kernel2, step = s::stride2, threads = lines * 128, kept = taps + step;
    static const int width = (s::count2 + c::span - 1) / c::span * c::span;
    static_assert(c::rows * width == 8 * c::span, "a turn is eight streams");
    static const int y_bytes = c::rows * width * 64 * 4, y_start = c::slots * c::x_line * 4;  // after the ring of x: 3 turns of y
    static const int items = c::rows * width * 16, passes = (items + threads - 1) / threads;  // of four positions each
    typedef wg_arriving<(width - 1) * step + taps, s::low2, s::size2, s::low1, s::size1, c::period * s::stride1, 64, s::ins,
                        c::slots, c::x_line, c::x_pitch, threads> X;

    const float *y;
    int images;
    char *shared;
    float sums[taps][32];
    float coming[passes][4];

    // A turn's rows of y from memory: a thread has a channel of four streams, at every `lines`-th position of theirs.
    __device__ __forceinline__ void load(int turn)
    {
        const bool paired = width % (2 * c::span) == 0;  // whether two streams are in one row
        int half = threadIdx.x / 64 % 2, first = threadIdx.x / 128;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            int at = (j * 2 + (paired ? 0 : half)) * c::span, row = turn * c::rows + at / width, image = row / c::period;
            int down = row % c::period, column = at % width + (paired ? half * c::span : 0) + first;
            bool exists = image < images && down < s::count1;
            const float *from = y + ((long long)(image * s::count1 + down) * s::count2 + column) * s::outs + threadIdx.x % 64;
#pragma unroll
            for (int i = 0; i < passes; i++) {
                bool there = exists && (i * lines + lines <= c::span || first + i * lines < c::span);
                if (width > s::count2) there = there && column + i * lines < s::count2;
                coming[i][j] = there ? from[i * lines * s::outs] : 0.0f;
            }
        }
    }
    // They go into their place, turned around.
    __device__ __forceinline__ void keep(int turn) const
    {
        uint4 *to = (uint4 *)(shared + y_start + turn % 3 * y_bytes) + threadIdx.x;
#pragma unroll
        for (int i = 0; i < passes; i++)
            if ((i + 1) * threads <= items || threadIdx.x + i * threads < items)
                to[i * threads] = {wg_tf32(coming[i][0]), wg_tf32(coming[i][1]), wg_tf32(coming[i][2]), wg_tf32(coming[i][3])};
    }
    __device__ __forceinline__ void read(wg_u32 (&to)[kept][4], const float *const (&from)[2], int first, int last) const
    {
#pragma unroll
        for (int place = first; place < last; place++)
#pragma unroll
            for (int i = 0; i < 4; i++) to[place % kept][i] = wg_tf32(from[i / 2][place * c::x_pitch + i % 2 * 8]);
    }
    // Add up a turn's products; `between` is called after those of each position of a span were started.
    template <class Between> __device__ __forceinline__ void multiply(int turn, wg_u32 base, const Between &between)
    {
        int line = threadIdx.x / 128, lane = threadIdx.x & 31, start = turn * (c::rows * s::stride1) % c::slots;
        wg_u64 right = wg_described_chunks(base + y_start + turn % 3 * y_bytes, 1024);
        const float *x[2];
#pragma unroll
        for (int k = 0; k < 2; k++) {
            int at = (lane % 4 * 2 + k) * c::span, slot = start + at / width * s::stride1 + line;
            if (slot >= c::slots) slot -= c::slots;
            x[k] = (const float *)shared + slot * c::x_line + at % width * step * c::x_pitch + threadIdx.x % 128 / 32 * 16 + lane / 4;
        }
        wg_u32 left[kept][4];
        read(left, x, 0, taps);
#pragma unroll
        for (int p = 0; p < c::span; p++) {
            wg_products_begin();
#pragma unroll
            for (int tap = 0; tap < taps; tap++)
                wg_multiply(sums[tap], left[(p * step + tap) % kept], right + p * (2048 >> 4), 1);
            wg_products_commit();
            between(p);
            if (p + 1 < c::span) {
                wg_products_wait<1>();
                read(left, x, p * step + taps, (p + 1) * step + taps);
            }
        }
    }
    // The sums into (outs, lines, taps, ins).
    __device__ __forceinline__ void store(float *to)
    {
        int thread = threadIdx.x & 127;
        to += ((long long)(thread % 4 * 2) * lines + threadIdx.x / 128) * taps * s::ins + thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
        for (int tap = 0; tap < taps; tap++) {
            wg_products_settled(sums[tap]);
#pragma unroll
            for (int i = 0; i < 32; i++)
                to[((long long)(i / 4 * 8 + i % 2) * lines * taps + tap) * s::ins + i % 4 / 2 * 8] = sums[tap][i];
        }
    }
};

// Turns `first` to `last` of a tile by a block.
__device__ __forceinline__ void wg_convolve_weight_sweep(const float *x, const float *y, float *to, int images, int tile, int part,
                                                         int first, int last)
{
    typedef wg_shape s;
    typedef wg_cut c;
    extern __shared__ __align__(128) char shared[];
    int in = tile % (s::ins / 64) * 64, out = tile / (s::ins / 64) * 64;
    wg_u32 base = wg_shared_address(shared);
    wg_sweep::X rows(x + in, base, first * c::rows * s::stride1, images);
    auto bring = [&](int count) {
#pragma unroll
        for (int i = 0; i < count; i++) {
#pragma unroll
            for (int pass = 0; pass < wg_sweep::X::passes; pass++) rows.bring(pass);
            rows.next();
        }
    };
    wg_sweep sweep = {y + out, images, shared};
    bring(s::kernel1 - s::stride1);
#pragma unroll
    for (int ahead = 0; ahead < c::stages - 1; ahead++) {
        bring(c::rows * s::stride1);
        wg_commit();
    }
    sweep.load(first);
    sweep.keep(first);
    wg_show_tensor_cores();
    sweep.load(first + 1);
    auto arrived = [&] {
        wg_wait<c::stages - 2>();
        __syncthreads();
    };
    arrived();
    for (int turn = first; turn < last; turn++) {
        sweep.multiply(turn, base, [&](int position) {
            if (position == 0) {
                bring(c::rows * s::stride1);
                wg_commit();
            }
            if (position == 1) {
                sweep.keep(turn + 1);
                wg_show_tensor_cores();
            }
            if (position == 2) sweep.load(turn + 2);
        });
        arrived();
        wg_products_wait<0>();
    }
    sweep.store(to + (((long long)part * s::outs + out) * s::kernel1 * s::kernel2) * s::ins + in);
    wg_wait<0>();
}
