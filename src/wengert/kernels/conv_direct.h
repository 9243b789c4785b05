// Convolution for groups of few channels, as in depthwise convolutions: planes added up tap by tap, row by row, without
// packing. Included once for each WG_T. A plane of the output stays in the nearest caches while taps * channels rows are
// added to it: 2 FLOPs for 12 bytes of cache traffic, so a fraction of what the tiles of conv.h reach, but there is no
// matrix to tile. Parallel over images and channels; by the weight over its planes.
#include "conv_shape.h"

// From which to which output position a tap meets the input along an axis.
static void NAMED(wg_reach)(const wg_convolution *s, int axis, long tap, long *low, long *high)
{
    long start = tap * s->dilation[axis] - s->low[axis], stride = s->stride[axis];
    *low = start >= 0 ? 0 : wg_between(0, (-start + stride - 1) / stride, s->count[axis]);
    *high = s->size[axis] <= start ? *low : wg_between(*low, (s->size[axis] - start + stride - 1) / stride, s->count[axis]);
}

// Goes through the rows in which output and input meet at a tap: `ROW` sees `yrow`, `xrow`, `n` elements, `step`.
#define FOR_ROWS(s, a, b, e, y, x, ROW)                                                                                \
    do {                                                                                                               \
        long low[3], high[3], at[3] = {a, b, e}, step = (s)->stride[2];                                               \
        for (int axis = 0; axis < 3; axis++) NAMED(wg_reach)(s, axis, at[axis], &low[axis], &high[axis]);             \
        long n = high[2] - low[2], column = low[2] * step + (e) * (s)->dilation[2] - (s)->low[2];                      \
        for (long d = low[0]; d < high[0]; d++)                                                                        \
            for (long h = low[1]; h < high[1]; h++) {                                                                  \
                long z = d * (s)->stride[0] + (a) * (s)->dilation[0] - (s)->low[0];                                    \
                long v = h * (s)->stride[1] + (b) * (s)->dilation[1] - (s)->low[1];                                    \
                long yrow = (d * (s)->count[1] + h) * (s)->count[2] + low[2];                                          \
                long xrow = (z * (s)->size[1] + v) * (s)->size[2] + column;                                            \
                ROW;                                                                                                   \
            }                                                                                                          \
    } while (0)

#define FOR_TAPS(s)                                                                                                    \
    for (long a = 0, tap = 0; a < (s)->kernel[0]; a++)                                                                 \
        for (long b = 0; b < (s)->kernel[1]; b++)                                                                      \
            for (long e = 0; e < (s)->kernel[2]; e++, tap++)

INLINE void NAMED(wg_add_row)(REAL *y, const REAL *x, REAL w, long n, long y_step, long x_step)
{
    if (y_step == 1 && x_step == 1)
        for (long j = 0; j < n; j++) y[j] += w * x[j];
    else
        for (long j = 0; j < n; j++) y[j * y_step] += w * x[j * x_step];
}

static void NAMED(wg_convolve_direct)(const REAL *x, const REAL *weight, REAL *y, const wg_convolution *s)
{
    long taps = wg_volume(s->kernel), plane = wg_volume(s->size), out_plane = wg_volume(s->count);
#pragma omp parallel for collapse(2) schedule(static)
    for (long image = 0; image < s->batch; image++)
        for (long o = 0; o < s->groups * s->outs; o++) {
            REAL *to = y + (image * s->groups * s->outs + o) * out_plane;
            memset(to, 0, out_plane * sizeof(REAL));
            for (long c = 0; c < s->ins; c++) {
                const REAL *from = x + ((image * s->groups + o / s->outs) * s->ins + c) * plane;
                const REAL *w = weight + (o * s->ins + c) * taps;
                FOR_TAPS(s)
                FOR_ROWS(s, a, b, e, to, from, NAMED(wg_add_row)(to + yrow, from + xrow, w[tap], n, 1, step));
            }
        }
}

static void NAMED(wg_convolve_input_direct)(const REAL *y, const REAL *weight, REAL *x, const wg_convolution *s)
{
    long taps = wg_volume(s->kernel), plane = wg_volume(s->size), out_plane = wg_volume(s->count);
#pragma omp parallel for collapse(2) schedule(static)
    for (long image = 0; image < s->batch; image++)
        for (long c = 0; c < s->groups * s->ins; c++) {
            REAL *to = x + (image * s->groups * s->ins + c) * plane;
            memset(to, 0, plane * sizeof(REAL));
            for (long o = 0; o < s->outs; o++) {
                long out = c / s->ins * s->outs + o;
                const REAL *from = y + (image * s->groups * s->outs + out) * out_plane;
                const REAL *w = weight + (out * s->ins + c % s->ins) * taps;
                FOR_TAPS(s)
                FOR_ROWS(s, a, b, e, from, to, NAMED(wg_add_row)(to + xrow, from + yrow, w[tap], n, step, 1));
            }
        }
}

INLINE REAL NAMED(wg_dot_row)(const REAL *y, const REAL *x, long n, long step)
{
    REAL total = 0;
    if (step == 1) {
        WG_TOTAL(j, n, y[j] * x[j])
    } else {
        WG_TOTAL(j, n, y[j] * x[j * step])
    }
    return total;
}

static void NAMED(wg_convolve_weight_direct)(const REAL *x, const REAL *y, REAL *weight, const wg_convolution *s)
{
    long taps = wg_volume(s->kernel), plane = wg_volume(s->size), out_plane = wg_volume(s->count);
#pragma omp parallel for collapse(2) schedule(static)
    for (long o = 0; o < s->groups * s->outs; o++)
        for (long c = 0; c < s->ins; c++) {
            REAL *w = weight + (o * s->ins + c) * taps;
            memset(w, 0, taps * sizeof(REAL));
            for (long image = 0; image < s->batch; image++) {
                const REAL *g = y + (image * s->groups * s->outs + o) * out_plane;
                const REAL *from = x + ((image * s->groups + o / s->outs) * s->ins + c) * plane;
                FOR_TAPS(s) FOR_ROWS(s, a, b, e, g, from, w[tap] += NAMED(wg_dot_row)(g + yrow, from + xrow, n, step));
            }
        }
}

#undef FOR_ROWS
#undef FOR_TAPS
