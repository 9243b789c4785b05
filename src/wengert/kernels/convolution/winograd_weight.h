// The gradient of a 3 x 3 convolution by its weight, in tiles of 2 x 2 outputs. Included once for each WG_T, after matmul.h
// and winograd.h, which has the idea.
//
// With y' the cotangent of a tile and d the inputs under it, the gradient is G'[sum over tiles of (A y' A') * (B' d B)]G:
// 16 matrix products whose sums go over tiles. Tiles are taken a chunk at a time: all threads transform its inputs and
// cotangents (with channels side by side: vectors of tiles are transposed), then multiply them, and add to the sums.
//     chunk      about 400,000 transformed elements: they stay in the caches
//     sums       (16, outs, ins), each element in the order of the tiles whatever the threads; transformed at the end
//
// FLOPs: 32 * outs * ins * tiles for the products; 32 adds, 16 shuffles, 64 more to transpose for 16 tiles of a channel.
// Measured on one core of an EPYC (Zen 4), counted as if it were the sum, against conv_weight.h: 64 channels, 32 x 32
// 157 and 97 GFLOP/s; 128, 16 x 16 172 and 98; 256, 8 x 8 149 and 92; 32 to 64, 14 x 14 99 and 87; 64 to 128, 7 x 7 99, 88.
#ifndef WENGERT_WINOGRAD_WEIGHT_H
#define WENGERT_WINOGRAD_WEIGHT_H
#define WG_CHUNK_ELEMENTS 400000
#endif

// A y' A' for a channel's tiles; the parts of its vectors that lie in the image are in `parts`.
INLINE void NAMED(wg_winograd_cotangent)(const REAL *corner, const NAMED(wg_window) *w, NAMED(mask) parts[2][2], long row_step,
                                         VECTOR *found)
{
    VECTOR y[2][2], half[4][2];
    UNROLLED for (int r = 0; r < 2; r++) {
        const REAL *row = corner + r * row_step;
        VECTOR a = NAMED(load_part)(row, parts[r][0]), b = NAMED(load_part)(row + WIDTH, parts[r][1]);
        y[r][0] = __builtin_shuffle(a, b, w->even), y[r][1] = __builtin_shuffle(a, b, w->odd);
    }
    UNROLLED for (int j = 0; j < 2; j++) {
        half[0][j] = y[0][j], half[1][j] = y[0][j] + y[1][j];
        half[2][j] = y[0][j] - y[1][j], half[3][j] = -y[1][j];
    }
    UNROLLED for (int i = 0; i < 4; i++) {
        found[4 * i] = half[i][0], found[4 * i + 1] = half[i][0] + half[i][1];
        found[4 * i + 2] = half[i][0] - half[i][1], found[4 * i + 3] = -half[i][1];
    }
}

// to[16][tile][channel] for a vector of channels and the tiles of a stretch, from vectors of tiles
INLINE void NAMED(wg_winograd_turn)(VECTOR found[][16], REAL *to, long element_step, long tile_step, const wg_stretch *t)
{
    for (int e = 0; e < 16; e++) {
        VECTOR v[WIDTH];
        UNROLLED for (int c = 0; c < WIDTH; c++) v[c] = found[c][e];
        NAMED(wg_transpose)(v);
        UNROLLED for (int i = 0; i < WIDTH; i++)
            if (i < t->length) *(VECTOR *)(to + e * element_step + (t->at + i) * tile_step) = v[i];
    }
}

static void NAMED(wg_winograd_turned_input)(const REAL *x, REAL *to, long element_step, long tile_step, long first,
                                            const wg_stretch *t, const wg_image_shape *s)
{
    VECTOR found[WIDTH][16];
    NAMED(wg_window) w = NAMED(wg_window_of)(t, s);
    x += t->image * s->channels * s->size[0] * s->size[1];
    for (long c = 0; c < WIDTH; c++)
        if (first + c < s->channels)
            NAMED(wg_winograd_input)(x + w.start + (first + c) * s->size[0] * s->size[1], &w, s->size[1], found[c]);
        else memset(found[c], 0, sizeof(found[c]));
    NAMED(wg_winograd_turn)(found, to, element_step, tile_step, t);
}

static void NAMED(wg_winograd_turned_cotangent)(const REAL *y, REAL *to, long element_step, long tile_step, long first,
                                                const wg_stretch *t, const wg_image_shape *s)
{
    VECTOR found[WIDTH][16];
    NAMED(wg_window) w = NAMED(wg_window_of)(t, s);
    NAMED(mask) parts[2][2];
    for (int r = 0; r < 2; r++)
        for (int k = 0; k < 2; k++) {
            long columns = 2 * t->row + r < s->count[0] ? s->count[1] - 2 * t->column - k * WIDTH : 0;
            parts[r][k] = NAMED(mask_of)(0, wg_between(0, columns, WIDTH));
        }
    const REAL *corner = y + (t->image * s->rows * s->count[0] + 2 * t->row) * s->count[1] + 2 * t->column;
    for (long c = 0; c < WIDTH; c++)
        if (first + c < s->rows)
            NAMED(wg_winograd_cotangent)
            (corner + (first + c) * s->count[0] * s->count[1], &w, parts, s->count[1], found[c]);
        else memset(found[c], 0, sizeof(found[c]));
    NAMED(wg_winograd_turn)(found, to, element_step, tile_step, t);
}

// weight[out][in][3][3] = G' sums G
static void NAMED(wg_winograd_weight_back)(const REAL *sums, REAL *weight, long ins, const wg_image_shape *s)
{
#pragma omp for schedule(static)
    for (long out = 0; out < s->rows; out++)
        for (long in = 0; in < s->channels; in += WIDTH) {
            VECTOR half[3][4], w[9];
            UNROLLED for (int j = 0; j < 4; j++) {
                VECTOR v[4];
                UNROLLED for (int i = 0; i < 4; i++)
                    v[i] = *(const VECTOR *)(sums + ((4 * i + j) * s->rows + out) * ins + in);
                half[0][j] = v[0] + (v[1] + v[2]) / 2, half[1][j] = (v[1] - v[2]) / 2, half[2][j] = (v[1] + v[2]) / 2 + v[3];
            }
            UNROLLED for (int i = 0; i < 3; i++) {
                w[3 * i] = half[i][0] + (half[i][1] + half[i][2]) / 2;
                w[3 * i + 1] = (half[i][1] - half[i][2]) / 2;
                w[3 * i + 2] = (half[i][1] + half[i][2]) / 2 + half[i][3];
            }
            long some = wg_between(0, s->channels - in, WIDTH);
            for (long i = 0; i < some; i++)
                for (int tap = 0; tap < 9; tap++) weight[(out * s->channels + in + i) * 9 + tap] = w[tap][i];
        }
}

static void NAMED(wg_winograd_weight_gradient)(const REAL *x, const REAL *y, REAL *weight, REAL *scratch, const wg_image_shape *s)
{
    long down = (s->count[0] + 1) / 2, across = (s->count[1] + 1) / 2, tiles = s->batch * down * across;
    long ins = wg_up(s->channels, WIDTH), outs = wg_up(s->rows, WIDTH), groups = ins / WIDTH;
    long chunk = wg_between(4, WG_CHUNK_ELEMENTS / (16 * (ins + outs) * 16), 32) * 16;
    long panels = (groups + WG_TILE_WIDE - 1) / WG_TILE_WIDE, talls = (s->rows + WG_TILE_TALL - 1) / WG_TILE_TALL;
    REAL *sums = scratch, *inputs = sums + 16 * s->rows * ins, *cotangents = inputs + 16 * chunk * ins;
    NAMED(mask) all = NAMED(mask_of)(0, WIDTH);
#pragma omp parallel num_threads(wg_threads)
    {
        wg_stretch stretches[chunk];
        for (long first = 0; first < tiles; first += chunk) {
            long some = tiles - first < chunk ? tiles - first : chunk;
            long count = NAMED(wg_stretches)(stretches, first, first + some, down, across);
#pragma omp for schedule(dynamic, 1) collapse(2)
            for (long i = 0; i < count; i++)
                for (long group = 0; group < (ins + outs) / WIDTH; group++)
                    if (group < groups) {
                        long panel = 0;
                        while (wg_part(panel + 1, panels, groups) <= group) panel++;
                        long start = wg_part(panel, panels, groups), wide = wg_part(panel + 1, panels, groups) - start;
                        REAL *to = inputs + (start * chunk + group - start) * WIDTH;
                        NAMED(wg_winograd_turned_input)
                        (x, to, chunk * ins, wide * WIDTH, group * WIDTH, stretches + i, s);
                    } else
                        NAMED(wg_winograd_turned_cotangent)
                        (y, cotangents + (group - groups) * WIDTH, chunk * outs, outs, (group - groups) * WIDTH, stretches + i, s);
#pragma omp for schedule(dynamic, 1) collapse(2)
            for (long e = 0; e < 16; e++)
                for (long tile = 0; tile < talls; tile++)
                    for (long panel = 0; panel < panels; panel++) {
                        long row = wg_part(tile, talls, s->rows), tall = wg_part(tile + 1, talls, s->rows) - row;
                        long start = wg_part(panel, panels, groups), wide = wg_part(panel + 1, panels, groups) - start;
                        NAMED(wg_product_tile_of)
                        (cotangents + e * chunk * outs + row, 1, outs, inputs + (e * ins + start * WIDTH) * chunk,
                         sums + (e * s->rows + row) * ins + start * WIDTH, ins, some, first > 0, all, tall, wide);
                    }
        }
        NAMED(wg_winograd_weight_back)(sums, weight, ins, s);
    }
}
