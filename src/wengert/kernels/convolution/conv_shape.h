// What the kernels of convolution share: the shape of one, and the sizes of their tiles. Included once for each WG_T by
// them, it names the types.
#include <omp.h>
#include "blas.h"
#include "simd.h"

#ifndef WENGERT_CONV_SHAPE_H
#define WENGERT_CONV_SHAPE_H
#define WG_TALL (WG_FEW ? 4 : 8)    // channels of a tile
#define WG_WIDE 3                   // vectors of positions of a tile
#define WG_WHOLE 1536               // channels * taps up to which a panel is kept from one output row to the next
#define WG_DEEP 512                 // else: how many are multiplied at a time; a panel of them is 98 KB of floats
#define WG_PAIRS (WG_FEW ? 6 : 12)  // by the weight: pairs of tap and channel of a tile

typedef struct {
    long batch, groups, ins, outs;        // ins and outs: the channels of one group
    long size[3], kernel[3], count[3];    // of the input, the weight, the output
    long stride[3], low[3], dilation[3];  // low: the zeros in front
    long together;                        // forward, by the input: images that share panels
    long images, lines, parts;            // by the weight: what is worked on at a time, and sums kept apart
    long columns;                         // in groups of few channels: of a band, which is `lines` tall
} wg_convolution;

static long wg_volume(const long *sizes) { return sizes[0] * sizes[1] * sizes[2]; }
static long wg_up(long n, long to) { return (n + to - 1) / to * to; }
INLINE long wg_between(long low, long x, long high) { return x < low ? low : x > high ? high : x; }
#endif

#undef REAL
#undef VECTOR
#undef ANYWHERE
#undef WIDTH
#undef PANEL
#define REAL NAMED(real)
#define VECTOR NAMED(vector)
#define ANYWHERE NAMED(anywhere)
#define WIDTH ((long)(WG_VECTOR / sizeof(REAL)))
#define PANEL (WG_WIDE * WIDTH)
