// Windows over planes: the largest element of each with its place, and the sum of each. Included once for each WG_T.
//
// A stretch of up to 256 outputs of one row is worked on at a time, tap after tap, vectorised along it: best values, places
// and sums stay in the nearest cache. Parallel over planes. Bytes: the input read once from memory, results written once;
// a comparison (or an addition) for each element of each window.
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

// What is larger, or not a number, replaces the best.
INLINE void NAMED(wg_larger)(REAL *restrict best, int64_t *restrict places, const REAL *restrict row, long low, long high,
                             long step, int64_t place)
{
#pragma omp simd
    for (long j = low; j < high; j++) {
        REAL x = row[j * step], old = best[j];
        int larger = (x > old) | (x != x);
        best[j] = larger ? x : old;
        places[j] = larger ? place + j * step : places[j];
    }
}

static void NAMED(wg_max_pool)(const REAL *x, REAL *values, int64_t *places, const wg_windows *s)
{
    long plane = s->size[0] * s->size[1] * s->size[2], out = s->count[0] * s->count[1] * s->count[2];
#pragma omp parallel for schedule(static) if (s->planes * out > 10000)
    for (long p = 0; p < s->planes; p++) {
        REAL best[WG_STRETCH];
        int64_t where[WG_STRETCH];
        for (long line = 0; line < s->count[0] * s->count[1]; line++)
            for (long start = 0; start < s->count[2]; start += WG_STRETCH) {
                long d = line / s->count[1], h = line % s->count[1], length = s->count[2] - start;
                if (length > WG_STRETCH) length = WG_STRETCH;
                long first = (wg_first_place(s, 0, d) * s->size[1] + wg_first_place(s, 1, h)) * s->size[2];
                for (long j = 0; j < length; j++) {
                    best[j] = -__builtin_inf();
                    where[j] = first + wg_first_place(s, 2, start + j);
                }
                for (long a = 0; a < s->kernel[0]; a++)
                    for (long b = 0; b < s->kernel[1]; b++) {
                        long z = d * s->stride[0] + a * s->dilation[0] - s->low[0];
                        long v = h * s->stride[1] + b * s->dilation[1] - s->low[1];
                        if (z < 0 || z >= s->size[0] || v < 0 || v >= s->size[1]) continue;
                        for (long e = 0; e < s->kernel[2]; e++) {
                            long column = start * s->stride[2] + e * s->dilation[2] - s->low[2], low, high;
                            long at = (z * s->size[1] + v) * s->size[2] + column;
                            wg_window_reach(column, s->stride[2], s->size[2], length, &low, &high);
                            const REAL *row = x + p * plane + at;
                            if (s->stride[2] == 1) NAMED(wg_larger)(best, where, row, low, high, 1, at);
                            else if (s->stride[2] == 2) NAMED(wg_larger)(best, where, row, low, high, 2, at);
                            else NAMED(wg_larger)(best, where, row, low, high, s->stride[2], at);
                        }
                    }
                long to = p * out + line * s->count[2] + start;
                if (values) memcpy(values + to, best, length * sizeof(REAL));
                if (places) memcpy(places + to, where, length * sizeof(int64_t));
            }
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
