// Convolution for groups of few channels, as in depthwise convolutions, forward and by the input. Included once for each
// WG_T. There is no matrix to tile here; what a plane of the output needs is made contiguous instead.
//
// A band of the output (lines x columns, a whole plane if it is small) is worked on at a time. The part of the source that
// it meets is copied into a *panel* with its padding, of rows `pitch` apart, and stays in the nearest caches. Output position
// (line, column) counts as line * pitch + column, so a tap reads at a fixed distance from it, wherever it is: rows follow
// each other without a gap, vectors go across their ends, and the few elements between them are thrown away.
//     strides    forward, source elements a stride apart are put side by side (a *slot* for each remainder that is met)
//     phases     by the input, a stride leaves kinds of elements that meet different taps; all are made from one panel
//     tile       8 vectors of positions, whose sums stay in registers over the taps of a channel
//
// FLOPs: 2 * batch * positions * outs * ins * taps. Bytes: input and weight read once, output written once; a load from
// the nearest cache for each multiply-add, of which those across a cache line take two cycles (Zen 4).
#include "conv_shape.h"

#ifndef WENGERT_CONV_DIRECT_H
#define WENGERT_CONV_DIRECT_H
// Along one axis: which output elements there are, and where each tap meets the source.
typedef struct {
    long phases, step, source, out;      // kinds of output elements; source elements from one to the next; sizes
    long base, shift, slots;             // the first source element met at output 0; elements a panel has besides; slots
    long *slot, *from, *kind, *phase;    // by tap: its slot, where in it, the kind of elements it makes; by slot: remainder
} wg_way;

// A part of the output.
typedef struct {
    long image, group, depth, line, lines, column, columns;
} wg_band;

// How a convolution is cut: the sizes of its panels, and the taps of a plane in the order of the kinds that they make.
typedef struct {
    wg_way way[3];
    long pitch, plane, panel, sums;      // from row to row, from slot to slot; elements of a panel, of one kind's sums
    long bands[3], taps, *offset, *tap, *start;
} wg_cut;

static long wg_kind_size(const wg_way *way, long kind)
{
    return way->out > kind ? (way->out - kind + way->phases - 1) / way->phases : 0;
}

static wg_way wg_way_of(const wg_convolution *s, int axis, int by_input, long *tables)
{
    long taps = s->kernel[axis], stride = s->stride[axis], step = by_input ? 1 : stride, last = 0;
    long source = by_input ? s->count[axis] : s->size[axis], out = by_input ? s->size[axis] : s->count[axis];
    wg_way way = {by_input ? stride : 1, step, source, out, 0, 0, 0, tables, tables + taps, tables + 2 * taps, tables + 3 * taps};
    for (long t = 0; t < taps; t++) {
        long at = t * s->dilation[axis] - s->low[axis];
        way.kind[t] = by_input ? (at % stride + stride) % stride : 0;
        way.from[t] = by_input ? (way.kind[t] - at) / stride : at;
        if (!t || way.from[t] < way.base) way.base = way.from[t];
        if (!t || way.from[t] > last) last = way.from[t];
    }
    way.shift = (last - way.base) / step;
    for (long t = 0; t < taps; t++) {
        long rest = (way.from[t] - way.base) % step, slot = 0;
        while (slot < way.slots && way.phase[slot] != rest) slot++;
        if (slot == way.slots) way.phase[way.slots++] = rest;
        way.slot[t] = slot, way.from[t] = (way.from[t] - way.base) / step;
    }
    return way;
}

static long wg_tables_size(const wg_convolution *s)
{
    return 4 * (s->kernel[0] + s->kernel[1] + s->kernel[2]) + 2 * s->kernel[1] * s->kernel[2] + s->stride[1] * s->stride[2] + 1;
}

// How the work is cut for vectors of some width; `tables` has room for what it points to.
static wg_cut wg_cut_of(const wg_convolution *s, int by_input, long channels, long width, long *tables)
{
    wg_cut cut;
    for (int axis = 0; axis < 3; axis++) {
        cut.way[axis] = wg_way_of(s, axis, by_input, tables);
        tables += 4 * s->kernel[axis];
    }
    const wg_way *down = &cut.way[1], *across = &cut.way[2];
    cut.pitch = s->columns + across->shift;
    cut.plane = wg_up((s->lines + down->shift) * cut.pitch, width);
    cut.panel = channels * s->kernel[0] * down->slots * across->slots * cut.plane + width;
    cut.sums = wg_up(s->lines * cut.pitch, width) + width;
    cut.bands[0] = wg_kind_size(&cut.way[0], 0);
    cut.bands[1] = (wg_kind_size(down, 0) + s->lines - 1) / s->lines;
    cut.bands[2] = (wg_kind_size(across, 0) + s->columns - 1) / s->columns;
    cut.taps = s->kernel[1] * s->kernel[2];
    cut.offset = tables, cut.tap = tables + cut.taps, cut.start = tables + 2 * cut.taps;
    long n = 0, kinds = 0;
    for (long i = 0; i < down->phases; i++)
        for (long j = 0; j < across->phases; j++) {
            cut.start[kinds++] = n;
            for (long b = 0; b < s->kernel[1]; b++)
                for (long e = 0; e < s->kernel[2]; e++) {
                    if (down->kind[b] != i || across->kind[e] != j) continue;
                    cut.offset[n] = (down->slot[b] * across->slots + across->slot[e]) * cut.plane +
                                    down->from[b] * cut.pitch + across->from[e];
                    cut.tap[n++] = b * s->kernel[2] + e;
                }
        }
    cut.start[kinds] = n;
    return cut;
}

// The band with a number; its extent is that of the elements of kind 0, which are the most.
static wg_band wg_band_at(const wg_convolution *s, const wg_cut *cut, long number)
{
    wg_band band = {0};
    band.column = number % cut->bands[2] * s->columns, number /= cut->bands[2];
    band.line = number % cut->bands[1] * s->lines, number /= cut->bands[1];
    band.depth = number % cut->bands[0], number /= cut->bands[0];
    band.group = number % s->groups, band.image = number / s->groups;
    band.lines = wg_between(0, wg_kind_size(&cut->way[1], 0) - band.line, s->lines);
    band.columns = wg_between(0, wg_kind_size(&cut->way[2], 0) - band.column, s->columns);
    return band;
}

// The source plane that a tap meets, or -1 where it lies in the padding.
static long wg_plane_met(const wg_way *way, long depth, long tap)
{
    long z = depth * way->step + way->base + way->phase[way->slot[tap]] + way->from[tap] * way->step;
    return z >= 0 && z < way->source ? z : -1;
}
#endif

// to[i] = from[i * step] where that is from low to high, else 0, for the vector of elements from i on
INLINE VECTOR NAMED(wg_laid)(const REAL *from, long i, long low, long high, int step, NAMED(order) even)
{
    VECTOR parts[2];
    UNROLLED for (int k = 0; k < step; k++) {
        long start = i * step + k * WIDTH, first = wg_between(0, low - start, WIDTH);
        if (start >= low && start + WIDTH <= high) parts[k] = *(const ANYWHERE *)(from + start);
        else parts[k] = NAMED(load_part)(from + start, NAMED(mask_of)(first, wg_between(first, high - start, WIDTH)));
    }
    return step == 1 ? parts[0] : __builtin_shuffle(parts[0], parts[1], even);
}

// Rows of n elements; those of `to` are a pitch apart, those of the source `source`. Vectors are written as a whole: what is
// too much is overwritten by the next row. Long rows are copied in the order of memory, which is prefetched then; short ones
// a column of vectors after the other, from the last to the first, which all lie in the row alike.
INLINE void NAMED(wg_lay_rows)(REAL *to, const REAL *from, long pitch, long source, long lines, long n, long low, long high,
                               int step)
{
    NAMED(order) even;
    for (int i = 0; i < WIDTH; i++) even[i] = 2 * i;
    if (n > 2 * WIDTH) {
        for (long line = 0; line < lines; line++)
            for (long i = 0; i < n; i += WIDTH)
                *(ANYWHERE *)(to + line * pitch + i) = NAMED(wg_laid)(from + line * source, i, low, high, step, even);
        return;
    }
    for (long i = (n - 1) / WIDTH * WIDTH; i >= 0; i -= WIDTH) {
        NAMED(mask) parts[2];
        UNROLLED for (int k = 0; k < step; k++) {
            long start = i * step + k * WIDTH, first = wg_between(0, low - start, WIDTH);
            parts[k] = NAMED(mask_of)(first, wg_between(first, high - start, WIDTH));
        }
        for (long line = 0; line < lines; line++) {
            const REAL *row = from + line * source + i * step;
            VECTOR x = NAMED(load_part)(row, parts[0]);
            if (step == 2) x = __builtin_shuffle(x, NAMED(load_part)(row + WIDTH, parts[1]), even);
            *(ANYWHERE *)(to + line * pitch + i) = x;
        }
    }
}

static void NAMED(wg_lay_apart)(REAL *to, const REAL *from, long pitch, long source, long lines, long n, long low, long high,
                                long step)
{
    for (long line = 0; line < lines; line++)
        for (long i = 0; i < n; i++)
            to[line * pitch + i] = i * step >= low && i * step < high ? from[line * source + i * step] : 0;
}

// What a band meets of one source plane, into the slots of it.
static void NAMED(wg_lay_plane)(REAL *panel, const REAL *from, const wg_cut *cut, const wg_band *band)
{
    const wg_way *down = &cut->way[1], *across = &cut->way[2];
    long all = band->lines + down->shift, n = band->columns + across->shift, step = across->step, jump = down->step;
    for (long i = 0; i < down->slots; i++)
        for (long j = 0; j < across->slots; j++, panel += cut->plane) {
            long left = band->column * step + across->base + across->phase[j], top = band->line * jump + down->base + down->phase[i];
            long first = wg_between(0, (-top + jump - 1) / jump, all), last = wg_between(first, (down->source - top + jump - 1) / jump, all);
            const REAL *row = from + (top + first * jump) * across->source + left;
            REAL *to = panel + first * cut->pitch;
            long low = -left, high = across->source - left, source = jump * across->source;
            memset(panel, 0, first * cut->pitch * sizeof(REAL));
            if (step == 1) NAMED(wg_lay_rows)(to, row, cut->pitch, source, last - first, n, low, high, 1);
            else if (step == 2) NAMED(wg_lay_rows)(to, row, cut->pitch, source, last - first, n, low, high, 2);
            else NAMED(wg_lay_apart)(to, row, cut->pitch, source, last - first, n, low, high, step);
            memset(panel + last * cut->pitch, 0, (all - last) * cut->pitch * sizeof(REAL));
        }
}

// sums[position] = sum over taps of w[tap] * panel[offset + position], on top of what is there if `more`
INLINE void NAMED(wg_add_taps)(const REAL *panel, const REAL *w, const long *offset, const long *tap, long taps, REAL *sums,
                               int more, int wide)
{
    VECTOR total[8];
    UNROLLED for (int k = 0; k < wide; k++) total[k] = more ? (VECTOR)*(const ANYWHERE *)(sums + k * WIDTH) : (VECTOR){0};
    for (long t = 0; t < taps; t++) {
        VECTOR every = w[tap[t]] - (VECTOR){0};
        const REAL *x = panel + offset[t];
        UNROLLED for (int k = 0; k < wide; k++)
            total[k] = NAMED(fma)(every, *(const ANYWHERE *)(x + k * WIDTH), total[k]);
    }
    UNROLLED for (int k = 0; k < wide; k++) *(ANYWHERE *)(sums + k * WIDTH) = total[k];
}

static void NAMED(wg_add_plane)(const REAL *panel, const REAL *w, const long *offset, const long *tap, long taps, REAL *sums,
                                int more, long positions)
{
    long i = 0;
    for (; i + 7 * WIDTH < positions; i += 8 * WIDTH)
        NAMED(wg_add_taps)(panel + i, w, offset, tap, taps, sums + i, more, 8);
    for (; i + 3 * WIDTH < positions; i += 4 * WIDTH)
        NAMED(wg_add_taps)(panel + i, w, offset, tap, taps, sums + i, more, 4);
    for (; i < positions; i += WIDTH) NAMED(wg_add_taps)(panel + i, w, offset, tap, taps, sums + i, more, 1);
}

// A row of the output from the rows of the kinds in it.
INLINE void NAMED(wg_put_kinds)(REAL *to, const REAL *sums, long kinds, long apart, long columns, long size)
{
    if (kinds == 1) {
        long j = 0;
        for (; j + WIDTH <= size; j += WIDTH) *(ANYWHERE *)(to + j) = *(const ANYWHERE *)(sums + j);
        if (j < size) NAMED(store_part)(to + j, NAMED(mask_of)(0, size - j), *(const ANYWHERE *)(sums + j));
    } else if (kinds == 2) {
        NAMED(order) low, high;
        UNROLLED for (int i = 0; i < WIDTH; i++) low[i] = i / 2 + i % 2 * WIDTH, high[i] = low[i] + WIDTH / 2;
        for (long j = 0; 2 * j < size; j += WIDTH) {
            VECTOR a = *(const ANYWHERE *)(sums + j), b = *(const ANYWHERE *)(sums + apart + j);
            long rest = size - 2 * j;
            NAMED(store_part)(to + 2 * j, NAMED(mask_of)(0, wg_between(0, rest, WIDTH)), __builtin_shuffle(a, b, low));
            if (rest > WIDTH)
                NAMED(store_part)
                (to + 2 * j + WIDTH, NAMED(mask_of)(0, wg_between(0, rest - WIDTH, WIDTH)), __builtin_shuffle(a, b, high));
        }
    } else
        for (long kind = 0; kind < kinds; kind++)
            for (long j = 0; j < columns && kind + j * kinds < size; j++) to[kind + j * kinds] = sums[kind * apart + j];
}

// What the threads share: y (batch, groups * rows, *out) from x (batch, groups * channels, *source).
typedef struct {
    const REAL *x, *weight;
    REAL *y;
    long rows, channels, row_step, channel_step, group_step;
    const wg_convolution *shape;
    const wg_cut *cut;
} NAMED(wg_direct);

// Elements of a band of one output plane: all kinds of lines and columns of one kind of depth, from a panel.
static void NAMED(wg_direct_plane)(const NAMED(wg_direct) *p, const wg_band *band, const REAL *panel, const REAL *w, REAL *sums,
                                   long kind, REAL *to)
{
    const wg_cut *cut = p->cut;
    const wg_way *deep = &cut->way[0], *down = &cut->way[1], *across = &cut->way[2];
    long slots = down->slots * across->slots * cut->plane;
    for (long i = 0; i < down->phases; i++) {
        long lines = wg_between(0, wg_kind_size(down, i) - band->line, band->lines);
        long positions = (lines - 1) * cut->pitch + band->columns;
        if (!lines) break;
        for (long j = 0; j < across->phases; j++) {
            long start = cut->start[i * across->phases + j], taps = cut->start[i * across->phases + j + 1] - start;
            int more = 0;
            for (long c = 0; c < p->channels; c++)
                for (long a = 0; a < p->shape->kernel[0]; a++) {
                    if (deep->kind[a] != kind || wg_plane_met(deep, band->depth, a) < 0) continue;
                    NAMED(wg_add_plane)
                    (panel + (c * p->shape->kernel[0] + a) * slots, w + c * p->channel_step + a * cut->taps, cut->offset + start,
                     cut->tap + start, taps, sums + j * cut->sums, more, positions);
                    more = 1;
                }
            if (!more) memset(sums + j * cut->sums, 0, wg_up(positions, WIDTH) * sizeof(REAL));
        }
        long first = band->column * across->phases;
        for (long line = 0; line < lines; line++)
            NAMED(wg_put_kinds)
            (to + (i + (band->line + line) * down->phases) * across->out + first, sums + line * cut->pitch, across->phases,
             cut->sums, band->columns, wg_between(0, across->out - first, band->columns * across->phases));
    }
}

static void NAMED(wg_direct_band)(const NAMED(wg_direct) *p, const wg_band *band, REAL *panel)
{
    const wg_cut *cut = p->cut;
    const wg_way *deep = &cut->way[0], *down = &cut->way[1], *across = &cut->way[2];
    long source = down->source * across->source, out = down->out * across->out, kernel = p->shape->kernel[0];
    long slots = down->slots * across->slots * cut->plane, lead = band->image * p->shape->groups + band->group;
    for (long kind = 0; kind < deep->phases && kind + band->depth * deep->phases < deep->out; kind++) {
        for (long c = 0; c < p->channels; c++)
            for (long a = 0; a < kernel; a++) {
                long z = wg_plane_met(deep, band->depth, a);
                if (deep->kind[a] == kind && z >= 0)
                    NAMED(wg_lay_plane)
                    (panel + (c * kernel + a) * slots, p->x + ((lead * p->channels + c) * deep->source + z) * source, cut, band);
            }
        for (long m = 0; m < p->rows; m++)
            NAMED(wg_direct_plane)
            (p, band, panel, p->weight + band->group * p->group_step + m * p->row_step, panel + cut->panel, kind,
             p->y + ((lead * p->rows + m) * deep->out + kind + band->depth * deep->phases) * out);
    }
}

// `each`: elements of scratch memory of a thread
static void NAMED(wg_direct_bands)(NAMED(wg_direct) p, REAL *scratch, long each, int by_input)
{
    long tables[wg_tables_size(p.shape)];
    wg_cut cut = wg_cut_of(p.shape, by_input, p.channels, WIDTH, tables);
    p.cut = &cut;
    long bands = p.shape->batch * p.shape->groups * cut.bands[0] * cut.bands[1] * cut.bands[2];
#pragma omp parallel num_threads(wg_threads)  // as many as the scratch memory is for
    {
        REAL *panel = scratch + omp_get_thread_num() * each;
#pragma omp for schedule(static)
        for (long number = 0; number < bands; number++) {
            wg_band band = wg_band_at(p.shape, &cut, number);
            NAMED(wg_direct_band)(&p, &band, panel);
        }
    }
}

static void NAMED(wg_convolve_direct)(const REAL *x, const REAL *weight, REAL *y, REAL *scratch, long each,
                                      const wg_convolution *s)
{
    long taps = wg_volume(s->kernel);
    NAMED(wg_direct_bands)
    ((NAMED(wg_direct)){x, weight, y, s->outs, s->ins, s->ins * taps, taps, s->outs * s->ins * taps, s}, scratch, each, 0);
}

static void NAMED(wg_convolve_input_direct)(const REAL *y, const REAL *weight, REAL *x, REAL *scratch, long each,
                                            const wg_convolution *s)
{
    long taps = wg_volume(s->kernel);
    NAMED(wg_direct_bands)
    ((NAMED(wg_direct)){y, weight, x, s->ins, s->outs, taps, s->ins * taps, s->outs * s->ins * taps, s}, scratch, each, 1);
}
