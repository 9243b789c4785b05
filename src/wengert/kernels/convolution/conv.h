// Convolution forward and by the input. Memory is (batch, channels, *spatial) with three spatial axes; fewer are filled
// up with ones. Included once for each WG_T.
//
// Both are one product: (channels out) x (channels in * taps) times (channels in * taps) x (positions). The matrix of
// unfolded input never exists: a *panel* of WG_WIDE vectors of positions is packed from the image into a thread's scratch,
// where it stays in the second-level cache, and multiplied with the packed weight in tiles of WG_TALL channels x WG_WIDE
// vectors whose sums stay in registers over WG_DEEP channels * taps.
//     tile       8 x 48 floats with AVX-512: 24 sums; 3 loads and 8 broadcasts for 24 multiply-adds
//     panel      positions of one output row, of as many images as fill its vectors: rows of the kernel that lie in the
//                padding are skipped for the whole panel (a sixth of the work on 4 x 4 images)
//     packing    channels * taps * 48 elements are copied once for (channels out) * 48 multiply-adds each
//     strides    by the input, a stride leaves phases: elements that meet the same taps. Each is a product of its own
//
// FLOPs: 2 * batch * positions * outs * ins * taps. Bytes: input and weight read once from memory, afterwards from the
// caches; output written once.
// Measured on one core of an EPYC (Zen 4) where sgemm reaches 95 GFLOP/s and multiply-adds alone 116 (benchmarks/conv.py):
// forward 101 to 112 on the 3 x 3 layers of ResNet-18 for CIFAR, 81 to 96 % of oneDNN; by the input 100 to 113 at stride 1,
// 66 to 92 at stride 2. Steps on the way (64 channels, 32 x 32): tiles alone 82; taps packed next to each other, so that
// channels' rows do not push each other out of the cache, 94; rows of the panel kept from one output row to the next 101.
#include "conv_shape.h"

#ifndef WENGERT_CONV_H
#define WENGERT_CONV_H
// One product: which elements of the output it makes and which of the source each tap meets.
typedef struct {
    long grid[3], first[3], apart[3];          // output elements along each axis, where they begin, how far apart
    long step[3];                              // source elements from one to the next
    long taps[3], *tap[3], *at[3];             // along each axis: how many, their place in the kernel and in the source
} wg_pass;

// Positions of a panel that lie side by side in an image.
typedef struct {
    long image, column, length, at;
} wg_segment;

// A row of taps: where its weights and its part of the panel begin, how many channels * taps it has.
typedef struct {
    long weight, panel, length;
} wg_run;
#endif

// --- forward and by the input --------------------------------------------------------------------------------------

// tile[m][position] = sum over k of weight[k][m] * panel[k][position], over runs of k that are not skipped; on top of what
// is there if `more`
INLINE void NAMED(wg_tile)(const REAL *weight, const REAL *panel, const wg_run *runs, long run_count, REAL *tile,
                           int more, int wide)
{
    VECTOR sums[WG_TALL][WG_WIDE];
    UNROLLED for (int m = 0; m < WG_TALL; m++)
        UNROLLED for (int j = 0; j < wide; j++)
            sums[m][j] = more ? *(const VECTOR *)(tile + m * PANEL + j * WIDTH) : (VECTOR){0};
    for (long run = 0; run < run_count; run++) {
        const REAL *w = weight + runs[run].weight * WG_TALL, *from = panel + runs[run].panel * wide * WIDTH;
        for (long k = 0; k < runs[run].length; k++) {
            VECTOR x[WG_WIDE];
            UNROLLED for (int j = 0; j < wide; j++) __builtin_prefetch(from + (j + 16 * wide) * WIDTH);
            UNROLLED for (int j = 0; j < wide; j++) x[j] = *(const VECTOR *)(from + j * WIDTH);
            UNROLLED for (int m = 0; m < WG_TALL; m++) {
                VECTOR every = w[m] - (VECTOR){0};
                UNROLLED for (int j = 0; j < wide; j++) sums[m][j] = NAMED(fma)(every, x[j], sums[m][j]);
            }
            w += WG_TALL;
            from += wide * WIDTH;
        }
    }
    UNROLLED for (int m = 0; m < WG_TALL; m++)
        UNROLLED for (int j = 0; j < wide; j++) *(VECTOR *)(tile + m * PANEL + j * WIDTH) = sums[m][j];
}

static void NAMED(wg_tile_of)(const REAL *weight, const REAL *panel, const wg_run *runs, long run_count,
                              REAL *tile, int more, long wide)
{
    if (wide == 3) NAMED(wg_tile)(weight, panel, runs, run_count, tile, more, 3);
    else if (wide == 2) NAMED(wg_tile)(weight, panel, runs, run_count, tile, more, 2);
    else NAMED(wg_tile)(weight, panel, runs, run_count, tile, more, 1);
}

// to[channel][tap][0..length) = row[channel][(column + j) * step + at[tap]], 0 outside of the row. Channels come before
// taps: what one tap reads is in the nearest cache for the next, while channels' rows push each other out of it. With a
// step of 2 two vectors are read and every other element of them kept.
INLINE void NAMED(wg_pack_vectors)(REAL *to, const REAL *row, long channels, long taps, const long *at, long width,
                                   long plane, long column, long length, long size, int step)
{
    NAMED(mask) parts[taps + !taps][2];  // an array has no size 0, and a line may have no taps
    NAMED(order) even;
    for (int i = 0; i < WIDTH; i++) even[i] = 2 * i;
    for (long j = 0; j < length; j += WIDTH) {
        long some = length - j < WIDTH ? length - j : WIDTH, reach = (some - 1) * step + 1;
        for (long t = 0; t < taps; t++) {
            long start = (column + j) * step + at[t], low = wg_between(0, -start, reach), high = wg_between(low, size - start, reach);
            for (int i = 0; i < step; i++)
                parts[t][i] = NAMED(mask_of)(wg_between(0, low - i * WIDTH, WIDTH), wg_between(0, high - i * WIDTH, WIDTH));
        }
        REAL *target = to + j;
        const REAL *from = row + (column + j) * step;
        NAMED(mask) all = NAMED(mask_of)(0, some);
        for (long c = 0; c < channels; c++, from += plane) {
            __builtin_prefetch(from + 8 * plane);
            for (long t = 0; t < taps; t++, target += width) {
                VECTOR x = NAMED(load_part)(from + at[t], parts[t][0]);
                if (step == 2) x = __builtin_shuffle(x, NAMED(load_part)(from + at[t] + WIDTH, parts[t][1]), even);
                if (some == WIDTH) *(ANYWHERE *)target = x;
                else NAMED(store_part)(target, all, x);
            }
        }
    }
}

// The same for any step.
static void NAMED(wg_pack_apart)(REAL *to, const REAL *row, long channels, long taps, const long *at, long width, long plane,
                                 long column, long length, long size, long step)
{
    for (long c = 0; c < channels; c++)
        for (long t = 0; t < taps; t++)
            for (long j = 0; j < length; j++) {
                long place = (column + j) * step + at[t];
                to[(c * taps + t) * width + j] = place >= 0 && place < size ? row[c * plane + place] : 0;
            }
}

// What the threads of one product share: y (batch, groups * rows, *out) from x (batch, groups * channels, *source).
typedef struct {
    const REAL *x, *weight;
    REAL *y, *scratch;
    long groups, batch, rows, channels, row_step, channel_step, x_step, y_step, together;
    const long *kernel, *source, *out;
} NAMED(wg_product);

// weight[m][channel][tap] as packed[m / TALL][tap rows][channel][tap column][m % TALL], for every group
static void NAMED(wg_pack_weight)(const NAMED(wg_product) *p, REAL *packed, long each, const wg_pass *pass)
{
    long depth = p->channels * pass->taps[0] * pass->taps[1] * pass->taps[2], group_step = p->rows * p->channels * wg_volume(p->kernel);
#pragma omp for collapse(2) schedule(static)
    for (long group = 0; group < p->groups; group++)
        for (long block = 0; block < wg_up(p->rows, WG_TALL); block += WG_TALL) {
            REAL *to = packed + group * each + block * depth;
            const REAL *weight = p->weight + group * group_step + block * p->row_step;
            long some = p->rows - block < WG_TALL ? p->rows - block : WG_TALL;
            for (long a = 0; a < pass->taps[0]; a++)
                for (long b = 0; b < pass->taps[1]; b++)
                    for (long c = 0; c < p->channels; c++)
                        for (long e = 0; e < pass->taps[2]; e++, to += WG_TALL) {
                            long tap = (pass->tap[0][a] * p->kernel[1] + pass->tap[1][b]) * p->kernel[2] + pass->tap[2][e];
                            const REAL *from = weight + c * p->channel_step + tap;
                            if (some == WG_TALL)
                                UNROLLED for (long m = 0; m < WG_TALL; m++) to[m] = from[m * p->row_step];
                            else
                                for (long m = 0; m < WG_TALL; m++) to[m] = m < some ? from[m * p->row_step] : 0;
                        }
        }
}

INLINE void NAMED(wg_copy)(REAL *to, const REAL *from, long length)
{
    long j = 0;
    for (; j + WIDTH <= length; j += WIDTH) *(ANYWHERE *)(to + j) = *(const ANYWHERE *)(from + j);
    NAMED(mask) rest = NAMED(mask_of)(0, length - j);
    if (j < length) NAMED(store_part)(to + j, rest, NAMED(load_part)(from + j, rest));
}

// Pack one row of taps of a panel.
INLINE void NAMED(wg_pack_line)(const NAMED(wg_product) *p, const wg_pass *pass, REAL *to, const wg_segment *segments,
                                long segment_count, long offset, long width)
{
    long plane = wg_volume(p->source);
    for (const wg_segment *s = segments; s < segments + segment_count; s++) {
        const REAL *row = p->x + s->image * p->x_step + offset;
        const long *taps = pass->taps, *at = pass->at[2], size = p->source[2], step = pass->step[2];
        if (step == 1)
            NAMED(wg_pack_vectors)
            (to + s->at, row, p->channels, taps[2], at, width, plane, s->column, s->length, size, 1);
        else if (step == 2)
            NAMED(wg_pack_vectors)
            (to + s->at, row, p->channels, taps[2], at, width, plane, s->column, s->length, size, 2);
        else
            NAMED(wg_pack_apart)
            (to + s->at, row, p->channels, taps[2], at, width, plane, s->column, s->length, size, step);
    }
}

// Copy a tile's rows to where they belong in the output.
INLINE void NAMED(wg_put)(const REAL *tile, REAL *y, long rows, long plane, long y_step, long apart,
                          const wg_segment *segments, long segment_count)
{
    for (long m = 0; m < rows; m++)
        for (const wg_segment *s = segments; s < segments + segment_count; s++) {
            REAL *to = y + s->image * y_step + m * plane + s->column * apart;
            const REAL *from = tile + m * PANEL + s->at;
            if (apart == 1) NAMED(wg_copy)(to, from, s->length);
            else
                for (long j = 0; j < s->length; j++) to[j * apart] = from[j];
        }
}

// The stretches of images that a panel's positions lie in, `start` of them in front of it.
static long NAMED(wg_segments)(wg_segment *segments, long image, long columns, long start, long positions)
{
    long count = 0;
    for (long at = 0; at < positions;) {
        long column = (start + at) % columns, rest = columns - column;
        long length = rest < positions - at ? rest : positions - at;
        segments[count++] = (wg_segment){image + (start + at) / columns, column, length, at};
        at += length;
    }
    return count;
}

// The rows of taps that meet the image at an output row, and which source row each is; in the padding there are none.
static long NAMED(wg_rows_met)(const NAMED(wg_product) *p, const wg_pass *pass, long line, long *rows, long *met)
{
    long d = line / pass->grid[1], h = line % pass->grid[1], count = 0;
    for (long row = 0; row < pass->taps[0] * pass->taps[1]; row++) {
        long z = d * pass->step[0] + pass->at[0][row / pass->taps[1]], v = h * pass->step[1] + pass->at[1][row % pass->taps[1]];
        if (z >= 0 && z < p->source[0] && v >= 0 && v < p->source[1]) rows[count] = row, met[count++] = z * p->source[1] + v;
    }
    return count;
}

// A slot that holds a source row, or one to hold it that no other row of this line needs; packs it if it is new.
static long NAMED(wg_slot)(const NAMED(wg_product) *p, const wg_pass *pass, REAL *panel, long *held, long slots, long met,
                           const long *all, long count, const wg_segment *segments, long segment_count, long wide)
{
    long depth = p->channels * pass->taps[2], free = -1;
    for (long slot = 0; slot < slots; slot++) {
        if (held[slot] == met) return slot;
        int needed = 0;
        for (long i = 0; i < count; i++) needed |= all[i] == held[slot];
        if (!needed && free < 0) free = slot;
    }
    held[free] = met;
    NAMED(wg_pack_line)
    (p, pass, panel + free * depth * wide * WIDTH, segments, segment_count, met * p->source[2], wide * WIDTH);
    return free;
}

// One output row of a panel. Where the whole panel fits the cache, rows it shares with the line before are packed already;
// otherwise rows of taps are packed and multiplied a few at a time.
static void NAMED(wg_line)(const NAMED(wg_product) *p, const wg_pass *pass, const REAL *packed, REAL *panel, REAL *sums,
                           long line, long *held, long slots, const wg_segment *segments, long segment_count, long wide)
{
    long all = pass->taps[0] * pass->taps[1], depth = p->channels * pass->taps[2], more = 0, run_count = 0;
    long rows[all + 1], met[all + 1], count = NAMED(wg_rows_met)(p, pass, line, rows, met);
    wg_run runs[all + 1];
    for (long i = 0; i < count || !more; i++) {
        if (i < count) {
            long slot = run_count;
            if (slots == all)
                slot = NAMED(wg_slot)
                    (p, pass, panel, held, slots, met[i], met, count, segments, segment_count, wide);
            else
                NAMED(wg_pack_line)
                (p, pass, panel + slot * depth * wide * WIDTH, segments, segment_count, met[i] * p->source[2], wide * WIDTH);
            runs[run_count++] = (wg_run){rows[i] * depth, slot * depth, depth};
            if (i + 1 < count && run_count < slots) continue;
        }
        for (long block = 0; block < p->rows; block += WG_TALL)
            NAMED(wg_tile_of)
            (packed + block * depth * all, panel, runs, run_count, sums + block * PANEL, more, wide);
        more = 1, run_count = 0;
    }
    long d = line / pass->grid[1], h = line % pass->grid[1];
    long target = (pass->first[0] + d * pass->apart[0]) * p->out[1] + pass->first[1] + h * pass->apart[1];
    NAMED(wg_put)
    (sums, p->y + target * p->out[2] + pass->first[2], p->rows, wg_volume(p->out), p->y_step, pass->apart[2], segments,
     segment_count);
}

static void NAMED(wg_image_product)(const NAMED(wg_product) *p, const wg_pass *pass)
{
    long all = pass->taps[0] * pass->taps[1], row_depth = p->channels * pass->taps[2], tall = wg_up(p->rows, WG_TALL);
    long slots = all * row_depth <= WG_WHOLE ? all : wg_between(1, WG_DEEP / row_depth, all);
    long panel_size = wg_up(slots * row_depth * PANEL, WIDTH), each = wg_up(tall * all * row_depth, WIDTH);
    REAL *packed = p->scratch, *panels = p->scratch + p->groups * each;
    long bunches = (p->batch + p->together - 1) / p->together, lines = pass->grid[0] * pass->grid[1];
    long columns = pass->grid[2], per_line = (p->together * columns + PANEL - 1) / PANEL;
    long band = slots < all ? 1 : wg_between(1, p->groups * bunches * per_line * lines / 64, 16), bands = (lines + band - 1) / band;
#pragma omp parallel num_threads(wg_threads)  // as many as the scratch memory is for
    {
        NAMED(wg_pack_weight)(p, packed, each, pass);
        REAL *panel = panels + omp_get_thread_num() * (panel_size + tall * PANEL), *sums = panel + panel_size;
        wg_segment segments[PANEL];
        long held[all + 1];
        NAMED(wg_product) own = *p;
#pragma omp for collapse(4) schedule(dynamic, 1)
        for (long group = 0; group < p->groups; group++)
            for (long bunch = 0; bunch < bunches; bunch++)
                for (long number = 0; number < per_line; number++)
                    for (long i = 0; i < bands; i++) {
                        long image = bunch * p->together, rest = p->batch - image;
                        long left = (rest < p->together ? rest : p->together) * columns - number * PANEL;
                        if (left <= 0) continue;
                        long positions = left < PANEL ? left : PANEL;
                        long count = NAMED(wg_segments)(segments, image, columns, number * PANEL, positions);
                        own.x = p->x + group * p->channels * wg_volume(p->source);
                        own.y = p->y + group * p->rows * wg_volume(p->out);
                        for (long slot = 0; slot < slots; slot++) held[slot] = -1;
                        for (long line = i * band; line < (i + 1) * band && line < lines; line++)
                            NAMED(wg_line)
                            (&own, pass, packed + group * each, panel, sums, line, held, slots, segments, count,
                             (positions + WIDTH - 1) / WIDTH);
                    }
    }
}

static void NAMED(wg_convolve)(const REAL *x, const REAL *weight, REAL *y, REAL *scratch, const wg_convolution *s)
{
    long tables[2][s->kernel[0] + s->kernel[1] + s->kernel[2] + 1], *tap = tables[0], *at = tables[1];
    wg_pass pass;
    for (int axis = 0; axis < 3; axis++) {
        pass.grid[axis] = s->count[axis], pass.first[axis] = 0, pass.apart[axis] = 1, pass.step[axis] = s->stride[axis];
        pass.taps[axis] = s->kernel[axis], pass.tap[axis] = tap, pass.at[axis] = at;
        for (long t = 0; t < s->kernel[axis]; t++) *tap++ = t, *at++ = t * s->dilation[axis] - s->low[axis];
    }
    long taps = wg_volume(s->kernel), plane = wg_volume(s->size), out_plane = wg_volume(s->count);
    NAMED(wg_image_product)
    (&(NAMED(wg_product)){x, weight, y, scratch, s->groups, s->batch, s->outs, s->ins, s->ins * taps, taps,
                          s->groups * s->ins * plane, s->groups * s->outs * out_plane, s->together, s->kernel, s->size, s->count},
     &pass);
}

// x = the transpose of the convolution applied to y: one pass for each phase of the strides
static void NAMED(wg_convolve_input)(const REAL *y, const REAL *weight, REAL *x, REAL *scratch, const wg_convolution *s)
{
    long tables[2][s->kernel[0] + s->kernel[1] + s->kernel[2] + 1];
    long taps = wg_volume(s->kernel), plane = wg_volume(s->size), out_plane = wg_volume(s->count);
    wg_pass pass;
    for (long phase = 0; phase < s->stride[0] * s->stride[1] * s->stride[2]; phase++) {
        long first[3] = {phase / s->stride[2] / s->stride[1], phase / s->stride[2] % s->stride[1], phase % s->stride[2]};
        long *tap = tables[0], *at = tables[1];
        for (int axis = 0; axis < 3; axis++) {
            long stride = s->stride[axis];
            pass.grid[axis] = s->size[axis] > first[axis] ? (s->size[axis] - first[axis] + stride - 1) / stride : 0;
            pass.first[axis] = first[axis], pass.apart[axis] = stride, pass.step[axis] = 1;
            pass.tap[axis] = tap, pass.at[axis] = at, pass.taps[axis] = 0;
            for (long t = 0; t < s->kernel[axis]; t++) {
                long reach = first[axis] + s->low[axis] - t * s->dilation[axis];
                if (reach % stride == 0) *tap++ = t, *at++ = reach / stride, pass.taps[axis]++;
            }
        }
        NAMED(wg_image_product)
        (&(NAMED(wg_product)){y, weight, x, scratch, s->groups, s->batch, s->ins, s->outs, taps, s->ins * taps,
                              s->groups * s->outs * out_plane, s->groups * s->ins * plane, s->together, s->kernel, s->count,
                              s->size},
         &pass);
    }
}
