// Windows over planes: the largest element of each with its place, and the sum of each. Included once for each WG_T.
//
// A vector of neighbouring outputs is worked on at a time, tap after tap: best values and places stay in registers. Sums
// are made for up to 256 outputs at a time. Parallel over planes. Bytes: the input read once from memory, results written once;
// a comparison (or an addition) for each element of each window.
// Measured: 128 x 32 planes of 28 x 28, windows of 2 x 2, one core of an EPYC (Zen 4): 2.4 ms; PyTorch 17.7.
#include <omp.h>
#include "simd.h"

#ifndef WENGERT_POOL_H
#define WENGERT_POOL_H
typedef struct {
    long planes, size[3], count[3], kernel[3], stride[3], low[3], dilation[3];
} wg_windows;

#define WG_STRETCH 256

// From which to which output of a stretch a tap meets the plane.
static void wg_window_reach(long start, long step, long size, long length, long *low, long *high)
{
    *low = start >= 0 ? 0 : (-start + step - 1) / step;
    *high = size <= start ? 0 : (size - start + step - 1) / step;
    if (*high > length) *high = length;
}

// The place of a window's first element inside the plane along an axis.
static long wg_first_place(const wg_windows *s, int axis, long position)
{
    long at = position * s->stride[axis] - s->low[axis], last = s->size[axis] > 0 ? s->size[axis] - 1 : 0;
    if (at < 0) at = (at % s->dilation[axis] + s->dilation[axis]) % s->dilation[axis];
    return at > last ? last : at;
}
#endif

#undef REAL
#define REAL NAMED(real)

#undef VECTOR
#undef ORDER
#undef WIDTH
#define VECTOR NAMED(vector)
#define ORDER NAMED(order)
#define WIDTH ((long)(WG_VECTOR / sizeof(REAL)))

INLINE long NAMED(wg_inside)(long x) { return x < 0 ? 0 : x > WIDTH ? WIDTH : x; }

// Every `step`-th element of a row, those from low to high; the others are anything.
INLINE VECTOR NAMED(wg_every)(const REAL *row, long low, long high, long step, ORDER lanes)
{
    if (step == 1) return NAMED(load_part)(row, NAMED(mask_of)(low, high));
    if (step == 2) {
        long first = 2 * low, last = 2 * high - 1;
        VECTOR a = NAMED(load_part)(row, NAMED(mask_of)(NAMED(wg_inside)(first), NAMED(wg_inside)(last)));
        first -= WIDTH, last -= WIDTH;
        VECTOR b = NAMED(load_part)(row + WIDTH, NAMED(mask_of)(NAMED(wg_inside)(first), NAMED(wg_inside)(last)));
        return __builtin_shuffle(a, b, 2 * lanes);
    }
    VECTOR x = {0};
    for (long j = low; j < high; j++) x[j] = row[j * step];
    return x;
}

// The largest elements and their places of the windows from `start` on in an output row; a place is -1 where nothing is
// larger than -inf. What is not a number counts as larger.
INLINE void NAMED(wg_largest)(const REAL *plane, const wg_windows *s, long d, long h, long start, long length, VECTOR *best,
                              ORDER *places)
{
    ORDER lanes;
    for (int j = 0; j < WIDTH; j++) lanes[j] = j;
    *best = (VECTOR){0} - (REAL)__builtin_inf(), *places = (ORDER){0} - 1;
    long step = s->stride[2];
    for (long a = 0; a < s->kernel[0]; a++)
        for (long b = 0; b < s->kernel[1]; b++) {
            long z = d * s->stride[0] + a * s->dilation[0] - s->low[0], v = h * s->stride[1] + b * s->dilation[1] - s->low[1];
            if (z < 0 || z >= s->size[0] || v < 0 || v >= s->size[1]) continue;
            for (long e = 0; e < s->kernel[2]; e++) {
                long column = start * step + e * s->dilation[2] - s->low[2], low, high;
                long at = (z * s->size[1] + v) * s->size[2] + column;
                wg_window_reach(column, step, s->size[2], length, &low, &high);
                if (low >= high) continue;
                VECTOR x = NAMED(wg_every)(plane + at, low, high, step, lanes);
                ORDER larger = ((x > *best) | (x != x)) & (lanes >= (int)low) & (lanes < (int)high);
                *best = (VECTOR)(((ORDER)x & larger) | ((ORDER)*best & ~larger));
                *places = ((lanes * (int)step + (int)at) & larger) | (*places & ~larger);
            }
        }
}

static void NAMED(wg_max_pool)(const REAL *x, REAL *values, int64_t *places, const wg_windows *s)
{
    long plane = s->size[0] * s->size[1] * s->size[2], out = s->count[0] * s->count[1] * s->count[2];
#pragma omp parallel for schedule(static) if (s->planes * out > 10000)
    for (long p = 0; p < s->planes; p++)
        for (long d = 0; d < s->count[0]; d++)
            for (long h = 0; h < s->count[1]; h++)
                for (long start = 0; start < s->count[2]; start += WIDTH) {
                    long length = NAMED(wg_inside)(s->count[2] - start);
                    long to = p * out + (d * s->count[1] + h) * s->count[2] + start;
                    VECTOR best;
                    ORDER where;
                    NAMED(wg_largest)(x + p * plane, s, d, h, start, length, &best, &where);
                    if (values) NAMED(store_part)(values + to, NAMED(mask_of)(0, length), best);
                    if (!places) continue;
                    long first = (wg_first_place(s, 0, d) * s->size[1] + wg_first_place(s, 1, h)) * s->size[2];
                    for (long j = 0; j < length; j++)
                        places[to + j] = where[j] >= 0 ? where[j] : first + wg_first_place(s, 2, start + j);
                }
}

static void NAMED(wg_sum_pool)(const REAL *x, REAL *y, const wg_windows *s)
{
    long plane = s->size[0] * s->size[1] * s->size[2], out = s->count[0] * s->count[1] * s->count[2];
#pragma omp parallel for schedule(static) if (s->planes * out > 10000)
    for (long p = 0; p < s->planes; p++)
        for (long line = 0; line < s->count[0] * s->count[1]; line++)
            for (long start = 0; start < s->count[2]; start += WG_STRETCH) {
                REAL total[WG_STRETCH] = {0};
                long d = line / s->count[1], h = line % s->count[1], length = s->count[2] - start, step = s->stride[2];
                if (length > WG_STRETCH) length = WG_STRETCH;
                for (long a = 0; a < s->kernel[0]; a++)
                    for (long b = 0; b < s->kernel[1]; b++)
                        for (long e = 0; e < s->kernel[2]; e++) {
                            long z = d * s->stride[0] + a, v = h * s->stride[1] + b;
                            const REAL *row = x + p * plane + (z * s->size[1] + v) * s->size[2] + start * step + e;
                            if (step == 1)
                                for (long j = 0; j < length; j++) total[j] += row[j];
                            else
                                for (long j = 0; j < length; j++) total[j] += row[j * step];
                        }
                memcpy(y + p * out + line * s->count[2] + start, total, length * sizeof(REAL));
            }
}
