// Convolution of images with a 3 x 3 kernel, stride 1, forward and by the input, in 16 multiplications where the sum takes
// 36 (S. Winograd 1980; A. Lavin and S. Gray 2016). Included once for each WG_T, after matmul.h.
//
// A tile of 2 x 2 outputs comes from 4 x 4 inputs d and the kernel g as A'[(G g G') * (B' d B)]A: both are transformed, the
// 16 elements multiplied and added up over channels (16 matrix products), and the sums transformed back.
//     weight     transformed once, by all threads, into (16, channels, rows)
//     panel      up to 48 tiles, which lie side by side in an image or follow in the next: a thread transforms the inputs
//                under them into (16, channels, 48), multiplies, transforms back. Nothing of it leaves its caches
//     stretch    tiles of one row of tiles, up to a vector of them, are transformed in each vector's elements
//     volumes    a plane of the output comes from several planes of the input, as from so many more channels
//     dilation   planes are taken apart into those of elements a dilation apart, and those of the output put together
//
// FLOPs: 32 * rows * channels * tiles for the products, 2.25 times fewer than 2 * 9 * rows * channels * positions; 32 adds
// and 16 stores for a channel's tile, 24 adds for a row's. Sums are 9 times shorter: with 64 channels the error is 0.6 of
// that of the sum, 2.7e-7 of the result's size against 4.2e-7.
// Measured on two cores of an EPYC (Zen 4), the 3 x 3 layers of ResNet-18 for CIFAR, counted as if they were the sum (which
// conv.h does at 200 to 224 GFLOP/s): 64 channels, 32 x 32 389; 128, 16 x 16 380; 256, 8 x 8 336. With 512 channels and
// 4 x 4 images there are only 128 tiles for a weight to be transformed for, and nothing is gained.
#include "conv_shape.h"

#ifndef WENGERT_WINOGRAD_H
#define WENGERT_WINOGRAD_H
#define WG_CHUNK 64  // rows multiplied before they are transformed back: 196 KB of sums
// Tiles side by side: the first one's place, how many, and where they are in the panel.
typedef struct {
    long image, row, column, length, at;
} wg_stretch;

typedef struct {
    long batch, channels, rows, row_step, channel_step;  // of the weight: from one row, one channel to the next
    long size[2], count[2], low[2];                      // of the input, of the output, zeros in front
    int flipped;                                         // whether the kernel is read backwards: by the input
    long groups, deep, planes[2], ahead;  // kernel planes of a volume; planes of the input, of the output; zeros in front
} wg_image_shape;

// An image here is a plane of a volume's output. Its tiles come from `deep` planes of each of the channels, as from so many
// more channels.
static long wg_channels(const wg_image_shape *s) { return s->deep * s->channels; }
#endif

// to[16][block of rows][channel][row] = G g G'
static void NAMED(wg_winograd_weight)(const REAL *weight, REAL *to, const wg_image_shape *s)
{
    long channels = wg_channels(s), blocks = wg_up(s->rows, WG_TILE_TALL) / WG_TILE_TALL, apart = blocks * channels * WG_TILE_TALL;
#pragma omp for schedule(static)
    for (long block = 0; block < blocks; block++)
        for (long c = 0; c < channels; c++) {
            REAL g[9][WG_TILE_TALL] = {0}, half[4][3][WG_TILE_TALL];
            long some = wg_between(0, s->rows - block * WG_TILE_TALL, WG_TILE_TALL);
            for (long m = 0; m < some; m++) {
                long plane = s->flipped ? s->deep - 1 - c / s->channels : c / s->channels;
                const REAL *from = weight + (block * WG_TILE_TALL + m) * s->row_step + c % s->channels * s->channel_step + 9 * plane;
                for (int tap = 0; tap < 9; tap++) g[tap][m] = from[s->flipped ? 8 - tap : tap];
            }
            for (int j = 0; j < 3; j++)
                for (int m = 0; m < WG_TILE_TALL; m++) {
                    half[0][j][m] = g[j][m], half[3][j][m] = g[6 + j][m];
                    half[1][j][m] = (g[j][m] + g[3 + j][m] + g[6 + j][m]) / 2;
                    half[2][j][m] = (g[j][m] - g[3 + j][m] + g[6 + j][m]) / 2;
                }
            REAL *at = to + (block * channels + c) * WG_TILE_TALL;
            for (int i = 0; i < 4; i++, at += 4 * apart)
                for (int m = 0; m < WG_TILE_TALL; m++) {
                    at[m] = half[i][0][m], at[3 * apart + m] = half[i][2][m];
                    at[apart + m] = (half[i][0][m] + half[i][1][m] + half[i][2][m]) / 2;
                    at[2 * apart + m] = (half[i][0][m] - half[i][1][m] + half[i][2][m]) / 2;
                }
        }
}

// What of an image's rows is read for the tiles of a stretch: from where, which vectors of it, and their even and odd
// columns.
typedef struct {
    long start;
    NAMED(mask) parts[4][4];
    NAMED(order) even, odd;
} NAMED(wg_window);

static NAMED(wg_window) NAMED(wg_window_of)(const wg_stretch *t, const wg_image_shape *s)
{
    long top = 2 * t->row - s->low[0], left = 2 * t->column - s->low[1];
    NAMED(wg_window) w = {top * s->size[1] + left};
    for (int i = 0; i < WIDTH; i++) w.even[i] = 2 * i, w.odd[i] = 2 * i + 1;
    for (int r = 0; r < 4; r++)
        for (int k = 0; k < 4; k++) {
            long start = left + k / 2 * 2 + k % 2 * WIDTH, there = top + r >= 0 && top + r < s->size[0];
            long low = wg_between(0, -start, WIDTH);
            w.parts[r][k] = NAMED(mask_of)(low, there ? wg_between(low, s->size[1] - start, WIDTH) : low);
        }
    return w;
}

// B' d B for a channel's tiles. A row's even and odd columns are taken apart; those two columns on are the other half.
INLINE void NAMED(wg_winograd_input)(const REAL *corner, const NAMED(wg_window) *w, long row_step, VECTOR *found)
{
    VECTOR d[4][4], half[4][4];
    UNROLLED for (int r = 0; r < 4; r++) {
        const REAL *row = corner + r * row_step;
        VECTOR a = NAMED(load_part)(row, w->parts[r][0]), b = NAMED(load_part)(row + WIDTH, w->parts[r][1]);
        d[r][0] = __builtin_shuffle(a, b, w->even), d[r][1] = __builtin_shuffle(a, b, w->odd);
        a = NAMED(load_part)(row + 2, w->parts[r][2]), b = NAMED(load_part)(row + 2 + WIDTH, w->parts[r][3]);
        d[r][2] = __builtin_shuffle(a, b, w->even), d[r][3] = __builtin_shuffle(a, b, w->odd);
    }
    UNROLLED for (int j = 0; j < 4; j++) {
        half[0][j] = d[0][j] - d[2][j], half[1][j] = d[1][j] + d[2][j];
        half[2][j] = d[2][j] - d[1][j], half[3][j] = d[1][j] - d[3][j];
    }
    UNROLLED for (int i = 0; i < 4; i++) {
        found[4 * i] = half[i][0] - half[i][2], found[4 * i + 1] = half[i][1] + half[i][2];
        found[4 * i + 2] = half[i][2] - half[i][1], found[4 * i + 3] = half[i][1] - half[i][3];
    }
}

// panel[16][channel][tile] = B' d B for the tiles of a stretch
static void NAMED(wg_winograd_into)(const REAL *x, REAL *panel, const wg_stretch *t, const wg_image_shape *s, long width)
{
    NAMED(wg_window) w = NAMED(wg_window_of)(t, s);
    NAMED(mask) some = NAMED(mask_of)(0, t->length);
    long plane = s->size[0] * s->size[1], volume = s->planes[0] * plane, channels = wg_channels(s);
    x += t->image / s->planes[1] * s->groups * s->channels * volume + w.start;
    for (long a = 0, at = t->at; a < s->deep; a++) {
        long z = t->image % s->planes[1] + a - s->ahead;
        for (long c = 0; c < s->channels; c++, at += width) {
            VECTOR v[16];
            if (z >= 0 && z < s->planes[0])
                NAMED(wg_winograd_input)(x + c * volume + z * plane, &w, s->size[1], v);
            else memset(v, 0, sizeof v);
            UNROLLED for (int e = 0; e < 16; e++) {
                REAL *to = panel + e * channels * width + at;
                if (t->length == WIDTH) *(ANYWHERE *)to = v[e];
                else NAMED(store_part)(to, some, v[e]);
            }
        }
    }
}

// Two rows of y from A' sums A for the tiles of a stretch; `sums` of the 16 elements lie `apart`.
INLINE void NAMED(wg_winograd_back)(const REAL *sums, long apart, REAL *y, const wg_stretch *t, const wg_image_shape *s)
{
    NAMED(order) low, high;
    UNROLLED for (int i = 0; i < WIDTH; i++) low[i] = i / 2 + i % 2 * WIDTH, high[i] = low[i] + WIDTH / 2;
    VECTOR half[2][4];
    UNROLLED for (int j = 0; j < 4; j++) {
        const REAL *from = sums + j * apart + t->at;
        VECTOR a = *(const ANYWHERE *)from, b = *(const ANYWHERE *)(from + 4 * apart);
        VECTOR c = *(const ANYWHERE *)(from + 8 * apart), d = *(const ANYWHERE *)(from + 12 * apart);
        half[0][j] = a + b + c, half[1][j] = b - c - d;
    }
    long columns = wg_between(0, s->count[1] - 2 * t->column, 2 * t->length);
    NAMED(mask) first = NAMED(mask_of)(0, wg_between(0, columns, WIDTH));
    NAMED(mask) second = NAMED(mask_of)(0, wg_between(0, columns - WIDTH, WIDTH));
    REAL *to = y + 2 * t->row * s->count[1] + 2 * t->column;
    UNROLLED for (int i = 0; i < 2; i++) {
        if (2 * t->row + i >= s->count[0]) break;
        VECTOR a = half[i][0] + half[i][1] + half[i][2], b = half[i][1] - half[i][2] - half[i][3];
        NAMED(store_part)(to + i * s->count[1], first, __builtin_shuffle(a, b, low));
        if (columns > WIDTH) NAMED(store_part)(to + i * s->count[1] + WIDTH, second, __builtin_shuffle(a, b, high));
    }
}

// The tiles from `first` to `last`, in stretches.
static long NAMED(wg_stretches)(wg_stretch *stretches, long first, long last, long down, long across)
{
    long count = 0;
    for (long tile = first; tile < last;) {
        long column = tile % across, row = tile / across, rest = across - column;
        long length = wg_between(0, rest < last - tile ? rest : last - tile, WIDTH);
        stretches[count++] = (wg_stretch){row / down, row % down, column, length, tile - first};
        tile += length;
    }
    return count;
}

static void NAMED(wg_winograd_group)(const REAL *x, const REAL *weight, REAL *y, REAL *scratch, const wg_image_shape *s)
{
    long down = (s->count[0] + 1) / 2, across = (s->count[1] + 1) / 2, tiles = s->batch * s->planes[1] * down * across;
    long vectors = wg_up(tiles, WIDTH) / WIDTH, panels = (vectors + WG_TILE_WIDE - 1) / WG_TILE_WIDE;
    if (2 * wg_up(panels, wg_threads) <= vectors) panels = wg_up(panels, wg_threads);
    long blocks = wg_up(s->rows, WG_TILE_TALL) / WG_TILE_TALL, plane = s->count[0] * s->count[1], channels = wg_channels(s);
    REAL *packed = scratch, *panels_at = scratch + 16 * blocks * WG_TILE_TALL * channels;
    long panel_size = 16 * (channels + WG_CHUNK) * PANEL + WIDTH;
    NAMED(mask) all = NAMED(mask_of)(0, WIDTH);
#pragma omp parallel num_threads(wg_threads)  // as many as the scratch memory is for
    {
        NAMED(wg_winograd_weight)(weight, packed, s);
        REAL *panel = panels_at + omp_get_thread_num() * panel_size, *sums = panel + 16 * channels * PANEL;
        wg_stretch stretches[PANEL];
#pragma omp for schedule(dynamic, 1)
        for (long number = 0; number < panels; number++) {
            long start = wg_part(number, panels, vectors), wide = wg_part(number + 1, panels, vectors) - start;
            long last = (start + wide) * WIDTH < tiles ? (start + wide) * WIDTH : tiles, width = wide * WIDTH;
            long count = NAMED(wg_stretches)(stretches, start * WIDTH, last, down, across);
            for (long i = 0; i < count; i++) NAMED(wg_winograd_into)(x, panel, stretches + i, s, width);
            for (long row = 0; row < s->rows; row += WG_CHUNK) {
                long some = wg_between(0, s->rows - row, WG_CHUNK);
                for (long e = 0; e < 16; e++)
                    for (long m = 0; m < some; m += WG_TILE_TALL)
                        NAMED(wg_product_tile_of)
                        (packed + (e * blocks * WG_TILE_TALL + row + m) * channels, 1, WG_TILE_TALL,
                         panel + e * channels * width, sums + (e * WG_CHUNK + m) * width, width, channels, 0, all,
                         WG_TILE_TALL, wide);
                for (long i = 0; i < count; i++) {
                    long image = stretches[i].image / s->planes[1], z = stretches[i].image % s->planes[1];
                    for (long m = 0; m < some; m++) {
                        REAL *to = y + ((image * s->groups * s->rows + row + m) * s->planes[1] + z) * plane;
                        NAMED(wg_winograd_back)(sums + m * width, WG_CHUNK * width, to, stretches + i, s);
                    }
                }
            }
        }
    }
}

static void NAMED(wg_winograd)(const REAL *x, const REAL *weight, REAL *y, REAL *scratch, const wg_image_shape *s)
{
    long source = s->channels * s->planes[0] * s->size[0] * s->size[1], out = s->rows * s->planes[1] * s->count[0] * s->count[1];
    long weights = 9 * s->deep * s->rows * s->channels;
    for (long g = 0; g < s->groups; g++)
        NAMED(wg_winograd_group)(x + g * source, weight + g * weights, y + g * out, scratch, s);
}

// The planes of x, taken apart into those of elements `by` apart: to (batch, by[0], by[1], channels, *parts) from (batch,
// channels, *size). Or, if `back`, put together again: `to` is read and x written. Parts of a plane that has fewer elements
// end in zeros.
static void NAMED(wg_apart)(REAL *x, REAL *to, long batch, long channels, const long *size, const long *by, int back)
{
    long rows = (size[0] + by[0] - 1) / by[0], columns = (size[1] + by[1] - 1) / by[1];
#pragma omp parallel for collapse(2) schedule(static)
    for (long image = 0; image < batch; image++)
        for (long c = 0; c < channels; c++)
            for (long h = 0; h < rows * by[0]; h++)
                for (long phase = 0; phase < by[1]; phase++) {
                    REAL *one = x + ((image * channels + c) * size[0] + h) * size[1] + phase;
                    long number = (image * by[0] + h % by[0]) * by[1] + phase;
                    REAL *other = to + ((number * channels + c) * rows + h / by[0]) * columns;
                    long some = h < size[0] ? (size[1] - phase + by[1] - 1) / by[1] : 0;
                    if (back)
                        for (long j = 0; j < some; j++) one[j * by[1]] = other[j];
                    else {
                        for (long j = 0; j < some; j++) other[j] = one[j * by[1]];
                        for (long j = some; j < columns; j++) other[j] = 0;
                    }
                }
}

// Where the elements of the kernel are `by` apart, so are those of the input that meet. Images are taken apart.
static void NAMED(wg_winograd_apart)(const REAL *x, const REAL *weight, REAL *y, REAL *scratch, const long *size, const long *count,
                                     const long *by, const wg_image_shape *s)
{
    long batch = s->batch / (by[0] * by[1]), ins = s->groups * s->channels * s->planes[0], outs = s->groups * s->rows * s->planes[1];
    REAL *source = scratch, *made = source + wg_up(s->batch * ins * s->size[0] * s->size[1], WIDTH);
    NAMED(wg_apart)((REAL *)x, source, batch, ins, size, by, 0);
    NAMED(wg_winograd)(source, weight, made, made + wg_up(s->batch * outs * s->count[0] * s->count[1], WIDTH), s);
    NAMED(wg_apart)(y, made, batch, outs, count, by, 1);
}
