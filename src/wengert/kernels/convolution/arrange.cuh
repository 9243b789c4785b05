// Rearrangements around convolutions: channels first to channels last and back, weights to (out, tap, channel) and back.
// Each element is read and written once; planes go through shared memory, so that reads and writes are both contiguous.
#pragma once
#include "tile.cuh"

// to[n][j][i] = from[n][i][j] for i < rows, zero for rows <= i < pitch; blocks of 32 x 8 threads swap tiles of 32 x 32.
// They are numbered one after the other: the other axes of a grid would hold 65535 tiles or images.
template <class T> __device__ __forceinline__ void wg_swap(const T *from, T *to, int rows, int columns, int pitch)
{
    __shared__ T tile[32][33];
    unsigned wide = (columns + 31) / 32, high = (pitch + 31) / 32, n = blockIdx.x / wide / high;
    int row = blockIdx.x / wide % high * 32, column = blockIdx.x % wide * 32, x = threadIdx.x;
    from += (long long)n * rows * columns, to += (long long)n * columns * pitch;
    for (int y = threadIdx.y; y < 32; y += 8)
        if (column + x < columns && row + y < pitch)
            tile[y][x] = row + y < rows ? from[(long long)(row + y) * columns + column + x] : T{};
    __syncthreads();
    for (int y = threadIdx.y; y < 32; y += 8)
        if (row + x < pitch && column + y < columns) to[(long long)(column + y) * pitch + row + x] = tile[x][y];
}

// The same for a few rows: a thread gathers one element of each row and stores them together.
template <class T, int PITCH> __device__ __forceinline__ void wg_swap_few(const T *from, T *to, int rows, int columns)
{
    unsigned wide = (columns + blockDim.x - 1) / blockDim.x, n = blockIdx.x / wide;
    int j = blockIdx.x % wide * blockDim.x + threadIdx.x;
    if (j >= columns) return;
    from += (long long)n * rows * columns, to += (long long)n * columns * PITCH;
    wg_pack<T, PITCH> got = {};
#pragma unroll
    for (int i = 0; i < PITCH; i++)
        if (i < rows) got.of[i] = from[(long long)i * columns + j];
    got.store(to + (long long)j * PITCH);
}

// A weight (outs, channels, lines, columns) as (rows, lines, wide, fold * pitch): `fold` neighbouring columns, from `shift`
// before the first on, count as channels. `wide` times `fold` covers shift + columns. What is outside is zero. `last` says that
// the weight is (outs, lines, columns, channels).
struct wg_arrangement {
    int rows, outs, channels, lines, columns, wide, fold, pitch, shift, last;

    __device__ __forceinline__ long long at(int out, int c, int line, int column) const
    {
        if (last) return (((long long)out * lines + line) * columns + column) * channels + c;
        return (((long long)out * channels + c) * lines + line) * columns + column;
    }
};

template <class T> __device__ __forceinline__ void wg_arrange(const T *from, T *to, wg_arrangement s)
{
    long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    int inner = s.fold * s.pitch, c = e % inner % s.pitch, part = e % inner / s.pitch;
    long long rest = e / inner;
    int column = (int)(rest % s.wide) * s.fold + part - s.shift, line = rest / s.wide % s.lines, out = rest / s.wide / s.lines;
    if (out >= s.rows) return;
    bool in = out < s.outs && c < s.channels && column >= 0 && column < s.columns;
    to[e] = in ? from[s.at(out, c, line, column)] : T{};
}

template <class S, class T> __device__ __forceinline__ void wg_arrange_back(const S *from, T *to, wg_arrangement s)
{
    long long e = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    int column = e % s.columns, line = e / s.columns % s.lines, c = e / s.columns / s.lines % s.channels;
    int out = e / s.columns / s.lines / s.channels;
    if (out >= s.outs) return;
    long long to_place = s.at(out, c, line, column);
    column += s.shift;
    long long place = ((long long)out * s.lines + line) * s.wide + column / s.fold;
    to[to_place] = wg_narrow<T>::of(wg_wide(from[place * (s.fold * s.pitch) + column % s.fold * s.pitch + c]));
}
