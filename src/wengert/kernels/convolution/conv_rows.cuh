// What the convolutions share that keep rows of images in shared memory (conv_slide.cuh, conv_sweep.cuh and
// conv_chain.cuh): how rows come there, and how wgmma is told of chunks.
#pragma once
#include "mma.cuh"

// Rows of images on their way into a ring of SLOTS lines in shared memory, one after the other, PERIOD from one image to the
// next: PLACES of them from LOW before a row's first of SIZE on, CHANNELS of STEP each. Of the rows that are numbered COUNT
// exist, ABOVE after the first.
template <int PLACES, int LOW, int SIZE, int ABOVE, int COUNT, int PERIOD, int CHANNELS, int STEP, int SLOTS, int LINE, int PITCH,
          int THREADS>
struct wg_arriving {
    static const int chunks = CHANNELS / 4, at_once = THREADS / chunks, passes = (PLACES + at_once - 1) / at_once;
    const float *from;
    wg_u32 to;
    int slot, at, images, first;

    __device__ __forceinline__ wg_arriving(const float *data, wg_u32 base, int row, int count)
    {
        first = (int)threadIdx.x / chunks, at = row % PERIOD, slot = row % SLOTS, images = count - row / PERIOD;
        int chunk = (int)threadIdx.x % chunks * 4, line = row / PERIOD * COUNT + at - ABOVE;
        from = data + (long long)line * (SIZE * STEP) + (first - LOW) * STEP + chunk;
        to = base + (first * PITCH + chunk) * 4;
    }
    // A part of the row.
    __device__ __forceinline__ void bring(int pass) const
    {
        int before = pass * at_once, place = first + before;
        bool there = images > 0 && (unsigned)(at - ABOVE) < COUNT;
        if (before < LOW || before + at_once > SIZE + LOW) there = there && (unsigned)(place - LOW) < SIZE;
        if ((THREADS % chunks == 0 || first < at_once) && (before + at_once <= PLACES || place < PLACES))
            wg_copy_async_if(to + (slot * LINE + before * PITCH) * 4, from + before * STEP, there);
    }
    __device__ __forceinline__ void next()
    {
        from += SIZE * STEP;
        if (++slot == SLOTS) slot = 0;
        if (++at == PERIOD) at = 0, images--, from -= (PERIOD - COUNT) * SIZE * STEP;
    }
};

// An operand of wgmma that is not swizzled: lines of 16 bytes follow each other, and the next 16 bytes of depth are `apart`
// bytes away.
__device__ __forceinline__ wg_u64 wg_described_chunks(wg_u32 tile, int apart)
{
    return (wg_u64)(tile >> 4 & 0x3fff) | (wg_u64)(apart >> 4) << 16 | (wg_u64)(128 >> 4) << 32;
}
