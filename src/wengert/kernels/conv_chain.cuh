// Convolutions of few rows and 64 channels on Hopper's tensor cores in tf32 (wgmma), channels last, stride 1.
//
// A warpgroup for each line of the kernel holds that line's weight for 64 channels of y in its registers, rounded once, and
// multiplies it with rows of x in shared memory: the product is 64 channels x a row of y. The sums of a row of y are passed
// on from one warpgroup to the next, which adds its own line, and the last one stores them; so each warpgroup works on other
// rows at the same time, and x comes from memory once. A row of x lies as chunks of 4 channels of all its places, one after
// the other: the operand of the next tap begins 16 bytes further. The tensor cores read 32 bytes of shared memory for each
// place and step of 8 channels, half of what they could; a product with x on the left and the weight on the right would read
// twice as much.
//
// A turn is a row of x, numbered as rows of y in conv_slide.cuh are: the warpgroup of line l has the row of y that the first
// one had l turns ago. On an H200 256 images of 56 x 56 places take 0.15 ms, cuDNN 0.28.
#pragma once
#include "conv_rows.cuh"
#include "wgmma.cuh"

// FLIPPED: by the input. The weight is (channels of x, lines, taps, channels of y) then, lines and taps from the last one on.
template <int PERIOD, bool FLIPPED> struct wg_chain {
    typedef wg_shape s;
    static const int lines = s::kernel1, taps = s::kernel2, threads = lines * 128, steps = s::ins / 8;
    static const int places = s::count2 + taps - 1, chunks = s::ins / 4, apart = (places | 1) * 16, line_bytes = chunks * apart;
    static const int passes = (places * chunks + threads - 1) / threads, sums = s::count2 / 2, handed = s::count2 * 64 * 4;

    const float *x;
    int images;
    char *room;
    wg_u32 weight[taps][steps][4];
    float4 coming[passes];

    __device__ __forceinline__ void take_weight(const float *from, int line, int first)
    {
        int thread = threadIdx.x & 127, out = first + thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
        for (int tap = 0; tap < taps; tap++)
#pragma unroll
            for (int k = 0; k < steps; k++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int in = k * 8 + i / 2 * 4 + thread % 4, to = out + i % 2 * 8;
                    int at = FLIPPED ? ((in * lines + lines - 1 - line) * taps + taps - 1 - tap) * s::outs + to
                                     : ((to * lines + line) * taps + tap) * s::ins + in;
                    weight[tap][k][i] = wg_tf32(from[at]);
                }
    }
    // A row of x from memory, and into its slot.
    __device__ __forceinline__ void load(int row)
    {
        int image = row / PERIOD, at = row % PERIOD - s::low1;
        bool exists = image < images && (unsigned)at < s::size1;
#pragma unroll
        for (int i = 0; i < passes; i++) {
            int e = threadIdx.x + i * threads, place = e / chunks - s::low2;
            bool there = exists && (unsigned)place < s::size2;
            coming[i] = there ? *(const float4 *)(x + ((long long)(image * s::size1 + at) * s::size2 + place) * s::ins + e % chunks * 4)
                              : make_float4(0, 0, 0, 0);
        }
    }
    __device__ __forceinline__ void keep(int row) const
    {
#pragma unroll
        for (int i = 0; i < passes; i++) {
            int e = threadIdx.x + i * threads;
            uint4 rounded = {wg_tf32(coming[i].x), wg_tf32(coming[i].y), wg_tf32(coming[i].z), wg_tf32(coming[i].w)};
            if (e < places * chunks)
                *(uint4 *)(room + row % 2 * line_bytes + e % chunks * apart + e / chunks * 16) = rounded;
        }
    }
    // Where the sums of a line lie that are passed on.
    __device__ __forceinline__ float4 *handed_over(int line, int turn) const
    {
        return (float4 *)(room + 2 * line_bytes + (line * 2 + turn % 2) * handed) + (threadIdx.x & 127);
    }
    // Add the products with a row of x to the sums.
    __device__ __forceinline__ void multiply(float (&total)[sums], wg_u32 base, int row) const
    {
        wg_u64 right = wg_described_chunks(base + row % 2 * line_bytes, apart);
        wg_products_begin();
#pragma unroll
        for (int tap = 0; tap < taps; tap++)
#pragma unroll
            for (int k = 0; k < steps; k++) wg_multiply(total, weight[tap][k], right + tap + k * 2 * (apart >> 4), 1);
        wg_products_commit();
    }
    __device__ __forceinline__ void store(const float (&total)[sums], float *y, int row, int first) const
    {
        int image = row / PERIOD, at = row % PERIOD, thread = threadIdx.x & 127;
        if (image >= images || at >= s::count1) return;
        y += ((long long)(image * s::count1 + at) * s::count2 + thread % 4 * 2) * s::outs + first + thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
        for (int i = 0; i < sums; i++) y[(i / 4 * 8 + i % 2) * s::outs + i % 4 / 2 * 8] = total[i];
    }
};

// The rows of y from `first` to `last` by a block.
template <int PERIOD, bool FLIPPED>
__device__ __forceinline__ void wg_convolve_chain(const float *x, const float *weight, float *to, int images, int out, int first,
                                                  int last)
{
    typedef wg_chain<PERIOD, FLIPPED> Chain;
    extern __shared__ __align__(128) char shared[];
    wg_u32 base = wg_shared_address(shared);
    int line = threadIdx.x / 128;
    Chain chain = {x, images, shared};
    chain.take_weight(weight, line, out);
    chain.load(first);
    chain.keep(first);
    chain.load(first + 1);
    wg_show_tensor_cores();
    __syncthreads();
    for (int turn = first; turn < last + Chain::lines - 1; turn++) {
        float total[Chain::sums];
        const float4 *before = chain.handed_over(line - 1, turn + 1);
#pragma unroll
        for (int i = 0; i < Chain::sums / 4; i++) {
            float4 four = line ? before[i * 128] : make_float4(0, 0, 0, 0);
            total[i * 4] = four.x, total[i * 4 + 1] = four.y, total[i * 4 + 2] = four.z, total[i * 4 + 3] = four.w;
        }
        chain.multiply(total, base, turn);
        chain.keep(turn + 1);
        chain.load(turn + 2);
        wg_products_wait<0>();
        wg_products_settled(total);
        if (line < Chain::lines - 1) {
            float4 *next = chain.handed_over(line, turn);
#pragma unroll
            for (int i = 0; i < Chain::sums / 4; i++)
                next[i * 128] = make_float4(total[i * 4], total[i * 4 + 1], total[i * 4 + 2], total[i * 4 + 3]);
        } else if (turn - line >= first) {
            chain.store(total, to, turn - line, out);
        }
        wg_show_tensor_cores();
        __syncthreads();
    }
}
