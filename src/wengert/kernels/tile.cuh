// What the matrix kernels share: numbers of 16 bits, operands, how a tile of one is brought in, where results go.
//
// A product is rows x columns, summed over its depth. An operand gives chunks of neighbouring elements: along the depth
// (a row-major left matrix, a column-major right one), or across it. A kernel asks it for
//
//     row(r)         what is known of row r from the start: kept by the thread that loads it, unless rows are `even`:
//                    then below(row, n) finds the one n further
//     spot(k, first) what is known of depth k, of a tile that begins at `first`
//     at(row, spot)  the address of a chunk and how many of its elements exist; the others are zero
//
// An operand that is `whole` has all elements of a chunk or none: then a load is one instruction and no branch.
// so the same tiles multiply matrices here and the unfolded images of a convolution in conv.cuh.
#pragma once

typedef unsigned long long wg_u64;
typedef unsigned int wg_u32;

struct wg_f16 { unsigned short bits; };
struct wg_bf16 { unsigned short bits; };

__device__ __forceinline__ float wg_wide(float x) { return x; }
__device__ __forceinline__ double wg_wide(double x) { return x; }
__device__ __forceinline__ float wg_wide(wg_bf16 x) { return __uint_as_float((wg_u32)x.bits << 16); }
__device__ __forceinline__ float wg_wide(wg_f16 x)
{
#ifdef WG_EMULATED
    return (float)(const _Float16 &)x;
#else
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x.bits));
    return wide;
#endif
}
template <class T> __device__ __forceinline__ T wg_wide(T x) { return x; }

template <class T> struct wg_narrow {
    template <class S> __device__ __forceinline__ static T of(S x) { return (T)x; }
};
template <> struct wg_narrow<wg_f16> {
    __device__ __forceinline__ static wg_f16 of(float x)
    {
        wg_f16 narrow;
#ifdef WG_EMULATED
        (_Float16 &)narrow = (_Float16)x;
#else
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(x));
#endif
        return narrow;
    }
};
template <> struct wg_narrow<wg_bf16> {
    __device__ __forceinline__ static wg_bf16 of(float x)
    {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
        wg_bf16 narrow;
        asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(narrow.bits) : "f"(x));
        return narrow;
#else
        wg_u32 bits = __float_as_uint(x);  // to the nearest, ties to even; what is not a number stays none
        wg_u32 rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
        return {(unsigned short)(x != x ? 0x7fff : rounded)};
#endif
    }
};

// What sums are made in.
template <class T> struct wg_total { typedef T type; };
template <> struct wg_total<wg_f16> { typedef float type; };
template <> struct wg_total<wg_bf16> { typedef float type; };

// N neighbours, read and written by accesses of up to 16 bytes.
template <class T, int N> struct alignas(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) wg_pack {
    static const int bytes = sizeof(T) * N;
    T of[N];

    template <class Word> __device__ __forceinline__ static void copy(void *to, const void *from)
    {
#pragma unroll
        for (int i = 0; i < bytes / (int)sizeof(Word); i++) ((Word *)to)[i] = ((const Word *)from)[i];
    }
    __device__ __forceinline__ static wg_pack load(const T *from)
    {
        wg_pack got;
        if (bytes % 16 == 0) copy<uint4>(got.of, from);
        else if (bytes == 8) copy<uint2>(got.of, from);
        else if (bytes == 4) copy<wg_u32>(got.of, from);
        else copy<T>(got.of, from);
        return got;
    }
    // To global memory: said outright, since the compiler takes copies of structs apart.
    __device__ __forceinline__ void store(T *to) const
    {
#ifndef WG_EMULATED
        if (bytes % 8 == 0) {
            wg_u32 w[(bytes + 3) / 4];
            copy<wg_u32>(w, of);
            wg_u64 at = (wg_u64)__cvta_generic_to_global(to);
#pragma unroll
            for (int i = 0; i < bytes / 16; i++)
                asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(at + i * 16), "r"(w[i * 4]), "r"(w[i * 4 + 1]),
                             "r"(w[i * 4 + 2]), "r"(w[i * 4 + 3]) : "memory");
            if (bytes % 16)
                asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(at + bytes / 16 * 16), "r"(w[bytes / 16 * 4]),
                             "r"(w[bytes / 16 * 4 + 1]) : "memory");
            return;
        }
#endif
        copy<T>(to, of);
    }
};

__device__ __forceinline__ int wg_between(int low, int x, int high) { return x < low ? low : x > high ? high : x; }

// --- operands ------------------------------------------------------------------------------------------------------

// A matrix, `step` elements from one row to the next (ALONG the depth) or from one depth to the next (across it).
// FREE: chunks may begin anywhere, so they are read element by element.
template <class Number, bool ALONG, bool FREE> struct wg_matrix {
    typedef Number T;
    static const bool along = ALONG, free = FREE, even = true, whole = false;
    const T *data;
    long long step;
    int rows, depth;

    struct Row { const T *start; int left; };
    struct Spot { long long offset; int left; };

    __device__ __forceinline__ Row row(int r) const
    {
        return {data + (ALONG ? r * step : r), rows - r};
    }
    __device__ __forceinline__ Row below(const Row &row, int n) const
    {
        return {row.start + (ALONG ? n * step : n), row.left - n};
    }
    __device__ __forceinline__ Spot spot(int k, int) const { return {ALONG ? k : k * step, depth - k}; }
    template <int CHUNK> __device__ __forceinline__ const T *at(Row row, Spot spot, int &count) const
    {
        int many = ALONG ? spot.left : row.left, one = ALONG ? row.left : spot.left;
        count = one > 0 ? wg_between(0, many, CHUNK) : 0;
        return row.start + spot.offset;
    }
};

// The same, where every chunk is there or is not: no chunk goes beyond an edge.
template <class Operand> struct wg_whole : Operand { static const bool whole = true; };

// --- batches and blocks --------------------------------------------------------------------------------------------

// Batches lie evenly apart at two levels: (outer, inner).
struct wg_batch {
    int inner;
    long long a_outer, a_inner, b_outer, b_inner, c_outer, c_inner;

    __device__ __forceinline__ long long at(int z, long long far, long long near) const
    {
        return z ? z / inner * far + z % inner * near : 0;
    }
    __device__ __forceinline__ long long a(int z) const { return at(z, a_outer, a_inner); }
    __device__ __forceinline__ long long b(int z) const { return at(z, b_outer, b_inner); }
    __device__ __forceinline__ long long c(int z) const { return at(z, c_outer, c_inner); }
};

// The tile of a block: blocks that run at the same time cover a patch `tall` tiles high, so that they share their
// operands in the L2 cache.
__device__ __forceinline__ void wg_tile_at(int block, int high, int wide, int tall, int &row, int &column)
{
    int patch = block / (tall * wide), first = patch * tall;
    int height = high - first < tall ? high - first : tall, within = block % (tall * wide);
    row = first + within % height, column = within / height;
}

// --- results -------------------------------------------------------------------------------------------------------

// Stores `width` neighbours of a row; the epilogue of a plain product.
template <class T, int WIDTH> struct wg_plain {
    static const int width = WIDTH;
    T *data;
    long long step;
    int rows, columns;

    template <class S> __device__ __forceinline__ void operator()(int row, int column, const S *sums) const
    {
        if (row >= rows || column >= columns) return;
        T *to = data + row * step + column;
        if (column + WIDTH <= columns) {
            wg_pack<T, WIDTH> packed;
#pragma unroll
            for (int j = 0; j < WIDTH; j++) packed.of[j] = wg_narrow<T>::of(sums[j]);
            packed.store(to);
        } else {
#pragma unroll
            for (int j = 0; j < WIDTH; j++)
                if (column + j < columns) to[j] = wg_narrow<T>::of(sums[j]);
        }
    }
};
