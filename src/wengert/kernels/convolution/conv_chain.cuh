// Convolutions on Hopper's tensor cores in tf32 (wgmma) with the weight in registers, channels last, stride 1.
//
// A warpgroup holds lines of the weight of 64 channels of y, rounded once, and multiplies them with rows of x in shared
// memory: the product is 64 channels x a row of y. Where all lines are too much for its registers, each has one (LINES = 1)
// and the sums of a row of y are passed on from one warpgroup to the next, which adds its own line; the last one stores them.
// So each warpgroup works on another row at the same time, and x comes from memory once. A row of x lies as chunks of 4
// channels of all its places, one after the other: the operand of the next tap begins 16 bytes further. The tensor cores read
// 32 bytes of shared memory for each place and step of 8 channels, half of what they could; with x on the left and the
// weight on the right it would be twice as much.
//
// A turn is a row of x, numbered as rows of y in conv_slide.cuh are. On an H200 256 images of 56 x 56 places and 64 channels
// take 0.21 ms, cuDNN 0.28.
#pragma once
#include "conv_rows.cuh"
#include "wgmma.cuh"

// FLIPPED: by the input. The weight is (channels of x, lines, taps, channels of y) then, lines and taps from the last one on.
template <int LINES, int PERIOD, bool FLIPPED> struct wg_chain {
    typedef wg_shape s;
    static const int lines = s::kernel1, taps = s::kernel2, links = lines / LINES, threads = links * 128, slots = LINES + 1;
    static const int places = s::count2 + taps - 1, chunks = s::ins / 4, apart = (places | 1) * 16, line_bytes = chunks * apart;
    static const bool even = chunks % 2 == 0;  // a step of depth is two chunks of a tap, or else one of two taps
    static const int steps = taps * chunks / 2, sums = s::count2 / 2, handed = s::count2 * 64 * 4;
    static const int passes = (places * chunks + threads - 1) / threads;
    static_assert(even || taps % 2 == 0, "a step is two chunks");

    const float *x;
    int images;
    char *room;
    wg_u32 weight[LINES][steps][4];
    float4 coming[passes];

    __device__ __forceinline__ static int tap_of(int step) { return even ? step / (chunks / 2) : step / chunks * 2; }
    __device__ __forceinline__ static int chunk_of(int step) { return even ? step % (chunks / 2) * 2 : step % chunks; }

    __device__ __forceinline__ void take_weight(const float *from, int link, int first)
    {
        int thread = threadIdx.x & 127, out = first + thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
        for (int l = 0; l < LINES; l++)
#pragma unroll
            for (int k = 0; k < steps; k++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    int line = link * LINES + l, tap = tap_of(k) + (even ? 0 : i / 2);
                    int in = (chunk_of(k) + (even ? i / 2 : 0)) * 4 + thread % 4, to = out + i % 2 * 8;
                    int at = FLIPPED ? ((in * lines + lines - 1 - line) * taps + taps - 1 - tap) * s::outs + to
                                     : ((to * lines + line) * taps + tap) * s::ins + in;
                    weight[l][k][i] = wg_tf32(from[at]);
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
                *(uint4 *)(room + row % slots * line_bytes + e % chunks * apart + e / chunks * 16) = rounded;
        }
    }
    // Where the sums of a link lie that are passed on.
    __device__ __forceinline__ float4 *handed_over(int link, int turn) const
    {
        return (float4 *)(room + slots * line_bytes + (link * 2 + turn % 2) * handed) + (threadIdx.x & 127);
    }
    // Add the products with the rows of x up to this turn's to the sums.
    __device__ __forceinline__ void multiply(float (&total)[sums], wg_u32 base, int turn) const
    {
        wg_products_begin();
#pragma unroll
        for (int l = 0; l < LINES; l++) {
            int slot = (turn + l + 2) % slots;  // of row turn - LINES + 1 + l
            wg_u64 right = wg_described_chunks(base + slot * line_bytes, even ? apart : 16);
#pragma unroll
            for (int k = 0; k < steps; k++)
                wg_multiply(total, weight[l][k], right + tap_of(k) + chunk_of(k) * (apart >> 4), 1);
        }
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

// The rows of y from `first` to `last` by a block: a link is its lines behind the one before it.
template <int LINES, int PERIOD, bool FLIPPED>
__device__ __forceinline__ void wg_convolve_chain(const float *x, const float *weight, float *to, int images, int out, int first,
                                                  int last)
{
    typedef wg_chain<LINES, PERIOD, FLIPPED> Chain;
    extern __shared__ __align__(128) char shared[];
    wg_u32 base = wg_shared_address(shared);
    int link = threadIdx.x / 128;
    Chain chain = {x, images, shared};
    chain.take_weight(weight, link, out);
    chain.load(first);
    chain.keep(first);
    chain.load(first + 1);
    wg_show_tensor_cores();
    __syncthreads();
    for (int turn = first; turn < last + Chain::lines - 1; turn++) {
        float total[Chain::sums];
        const float4 *before = chain.handed_over(link - 1, turn + 1);
#pragma unroll
        for (int i = 0; i < Chain::sums / 4; i++) {
            float4 four = link ? before[i * 128] : make_float4(0, 0, 0, 0);
            total[i * 4] = four.x, total[i * 4 + 1] = four.y, total[i * 4 + 2] = four.z, total[i * 4 + 3] = four.w;
        }
        chain.multiply(total, base, turn);
        chain.keep(turn + 1);
        wg_show_tensor_cores();
        chain.load(turn + 2);
        wg_products_wait<0>();
        wg_products_settled(total);
        if (link < Chain::links - 1) {
            float4 *next = chain.handed_over(link, turn);
#pragma unroll
            for (int i = 0; i < Chain::sums / 4; i++)
                next[i * 128] = make_float4(total[i * 4], total[i * 4 + 1], total[i * 4 + 2], total[i * 4 + 3]);
        }
        __syncthreads();  // the last link stores while the others multiply
        if (link == Chain::links - 1 && turn - Chain::lines + 1 >= first) chain.store(total, to, turn - Chain::lines + 1, out);
    }
}
