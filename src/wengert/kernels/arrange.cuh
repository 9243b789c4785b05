// Rearrangements around convolutions: channels first to channels last and back, weights to (out, tap, channel) and back.
// Each element is read and written once; planes go through shared memory, so that reads and writes are both contiguous.
#pragma once
#include "tile.cuh"

// to[n][j][i] = from[n][i][j] for i < rows, zero for rows <= i < pitch; blocks of 32 x 8 threads swap tiles of 32 x 32.
template <class T>
__device__ __forceinline__ void wg_swap(const T *from, T *to, int rows, int columns, int from_pitch, int pitch, long long from_step,
                                        long long to_step)
{
    __shared__ T tile[32][33];
    int row = blockIdx.y * 32, column = blockIdx.x * 32, x = threadIdx.x;
    from += blockIdx.z * from_step, to += blockIdx.z * to_step;
    for (int y = threadIdx.y; y < 32; y += 8)
        if (column + x < columns && row + y < pitch)
            tile[y][x] = row + y < rows ? from[(long long)(row + y) * from_pitch + column + x] : T{};
    __syncthreads();
    for (int y = threadIdx.y; y < 32; y += 8)
        if (row + x < pitch && column + y < columns) to[(long long)(column + y) * pitch + row + x] = tile[x][y];
}

// The same for a few rows: a thread gathers one element of each row and stores them together.
template <class T, int PITCH>
__device__ __forceinline__ void wg_swap_few(const T *from, T *to, int rows, int columns, long long from_step, long long to_step)
{
    int j = blockIdx.x * blockDim.x + threadIdx.x;
    if (j >= columns) return;
    from += blockIdx.z * from_step, to += blockIdx.z * to_step;
    wg_vector<T, PITCH> got = {};
#pragma unroll
    for (int i = 0; i < PITCH; i++)
        if (i < rows) got.of[i] = from[(long long)i * columns + j];
    *(wg_vector<T, PITCH> *)(to + (long long)j * PITCH) = got;
}

// A weight (out, channel, lines, columns) as (out, lines, wide, fold * pitch): `fold` neighbouring columns, from `shift` before
// the first on, count as channels. `wide` times `fold` covers shift + columns; what is outside is zero, as are the rows from
// `outs` to `rows`.
template <class T>
__device__ __forceinline__ void wg_arrange(const T *from, T *to, int rows, int outs, int channels, int lines, int columns, int wide,
                                           int fold, int pitch, int shift)
{
    long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    int inner = fold * pitch, c = e % inner % pitch, part = e % inner / pitch;
    long long rest = e / inner;
    int column = (int)(rest % wide) * fold + part - shift, line = rest / wide % lines, out = rest / wide / lines;
    if (out >= rows) return;
    bool in = out < outs && c < channels && column >= 0 && column < columns;
    to[e] = in ? from[(((long long)out * channels + c) * lines + line) * columns + column] : T{};
}

// And back.
template <class S, class T>
__device__ __forceinline__ void wg_arrange_back(const S *from, T *to, int rows, int outs, int channels, int lines, int columns,
                                                int wide, int fold, int pitch, int shift)
{
    long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    int column = e % columns + shift, line = e / columns % lines, c = e / columns / lines % channels;
    int out = e / columns / lines / channels;
    if (out >= outs) return;
    to[e] = wg_narrow<T>::of(
        wg_wide(from[(((long long)out * lines + line) * wide + column / fold) * (fold * pitch) + column % fold * pitch + c]));
}
