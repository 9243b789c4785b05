// Matrix products in tiles, by all threads of a parallel region. Included once for each WG_T.
//
// b is packed first, by all threads: panels of WG_TILE_WIDE vectors of columns, with what one step of k needs side by side.
// Then blocks of c's rows are made in tiles of WG_TILE_TALL rows x WG_TILE_WIDE vectors, whose sums stay in registers over
// WG_DEPTH steps of k. a is read where it lies, each element for a whole vector. Rows and columns are cut into tiles of
// nearly the same size: with 16 rows and 32 columns or more none is less than half as tall, or one vector wide.
//     tile       8 x 48 floats with AVX-512: 24 sums; 3 loads and 8 broadcasts for 24 multiply-adds
//     panel      512 x 48 floats = 98 KB in the second-level cache, used for all rows of a block
//
// FLOPs: 2 * m * n * k. Bytes: a and b read and c written once, b written and read once more.
// An element of c is summed in the order of k whatever the tile: the same bits for any number of threads.
// Measured on two cores of an EPYC (Zen 4), multiply-adds alone 232 GFLOP/s, against OpenBLAS on two threads:
//     (100, 300) by (300, 300)   172, OpenBLAS 166, 145 with b transposed
//     (128, 784) by (784, 512)   198, 188, 173           (512, 512) by (512, 512)       219, 202, 195
//     (300, 100) by (100, 300)   198, 169, 160           (2048, 2048) by (2048, 2048)   210, 204, 193
// Blocks of 16 rows, taken as threads become free, keep 20 % more than one block a thread when a core has other work.
#include <omp.h>
#include "simd.h"

#ifndef WENGERT_MATMUL_H
#define WENGERT_MATMUL_H
#define WG_TILE_TALL (WG_FEW ? 4 : 8)
#define WG_TILE_WIDE 3
#define WG_DEPTH 512

// Where the part'th of `parts` nearly equal stretches of n begins.
INLINE long wg_part(long part, long parts, long n) { return part * (n / parts) + (part < n % parts ? part : n % parts); }
#endif

#undef REAL
#undef VECTOR
#undef ANYWHERE
#undef WIDTH
#define REAL NAMED(real)
#define VECTOR NAMED(vector)
#define ANYWHERE NAMED(anywhere)
#define WIDTH ((long)(WG_VECTOR / sizeof(REAL)))

// c[i][j] (+)= sum over p of a[i][p] * b[p][j], for `tall` rows and `wide` vectors of columns, the last of them in part.
INLINE void NAMED(wg_product_tile)(const REAL *a, long row, long step, const REAL *b, REAL *c, long n, long k, int more,
                                   NAMED(mask) last, int tall, int wide)
{
    VECTOR sums[WG_TILE_TALL][WG_TILE_WIDE];
    UNROLLED for (int i = 0; i < tall; i++)
        UNROLLED for (int j = 0; j < wide; j++) {
            const REAL *from = c + i * n + j * WIDTH;
            sums[i][j] = !more ? (VECTOR){0} : j + 1 < wide ? (VECTOR)*(const ANYWHERE *)from : NAMED(load_part)(from, last);
        }
    for (long p = 0; p < k; p++) {
        VECTOR x[WG_TILE_WIDE];
        UNROLLED for (int j = 0; j < wide; j++) __builtin_prefetch(b + (j + 16 * wide) * WIDTH);
        UNROLLED for (int j = 0; j < wide; j++) x[j] = *(const VECTOR *)(b + j * WIDTH);
        UNROLLED for (int i = 0; i < tall; i++) {
            VECTOR every = a[i * row] - (VECTOR){0};
            UNROLLED for (int j = 0; j < wide; j++) sums[i][j] = NAMED(fma)(every, x[j], sums[i][j]);
        }
        a += step;
        b += wide * WIDTH;
    }
    UNROLLED for (int i = 0; i < tall; i++)
        UNROLLED for (int j = 0; j < wide; j++) {
            REAL *to = c + i * n + j * WIDTH;
            if (j + 1 < wide) *(ANYWHERE *)to = sums[i][j];
            else NAMED(store_part)(to, last, sums[i][j]);
        }
}

#define WG_TILE_CASE(tall)                                                                                             \
    case tall:                                                                                                         \
        if (wide == 3) NAMED(wg_product_tile)(a, row, step, b, c, n, k, more, last, tall, 3);                          \
        else NAMED(wg_product_tile)(a, row, step, b, c, n, k, more, last, tall, 2);                                    \
        break;

static void NAMED(wg_product_tile_of)(const REAL *a, long row, long step, const REAL *b, REAL *c, long n, long k, int more,
                                      NAMED(mask) last, long tall, long wide)
{
    switch (tall) {
#if WG_FEW
        WG_TILE_CASE(3) WG_TILE_CASE(4)
#else
        WG_TILE_CASE(5) WG_TILE_CASE(6) WG_TILE_CASE(7) WG_TILE_CASE(8)
#endif
    }
}

// x[i][j] = x[j][i]: rounds of interleaving the first half of the vectors with the second.
INLINE void NAMED(wg_transpose)(VECTOR *x)
{
    NAMED(order) low, high;
    UNROLLED for (int i = 0; i < WIDTH; i++) low[i] = i / 2 + i % 2 * WIDTH, high[i] = low[i] + WIDTH / 2;
    UNROLLED for (int round = 1; round < WIDTH; round *= 2) {
        VECTOR y[WIDTH];
        UNROLLED for (int i = 0; i < WIDTH / 2; i++) {
            y[2 * i] = __builtin_shuffle(x[i], x[i + WIDTH / 2], low);
            y[2 * i + 1] = __builtin_shuffle(x[i], x[i + WIDTH / 2], high);
        }
        UNROLLED for (int i = 0; i < WIDTH; i++) x[i] = y[i];
    }
}

// packed[panel][p][column] = b[p][column] for p in [from, until), 0 beyond the last column; `transposed`: b lies as (n, k).
static void NAMED(wg_pack_panel)(const REAL *b, REAL *packed, long n, long k, int transposed, long panel, long from, long until)
{
    long vectors = (n + WIDTH - 1) / WIDTH, panels = (vectors + WG_TILE_WIDE - 1) / WG_TILE_WIDE;
    long start = wg_part(panel, panels, vectors), wide = wg_part(panel + 1, panels, vectors) - start;
    REAL *to = packed + start * WIDTH * k;
    for (long j = 0; j < wide; j++) {
        long column = (start + j) * WIDTH, some = n - column < WIDTH ? n - column : WIDTH;
        NAMED(mask) there = NAMED(mask_of)(0, some);
        if (!transposed)
            for (long p = from; p < until; p++)
                *(VECTOR *)(to + (p * wide + j) * WIDTH) = NAMED(load_part)(b + p * n + column, there);
        else
            for (long p = from; p < until; p += WIDTH) {
                VECTOR x[WIDTH];
                long rest = until - p < WIDTH ? until - p : WIDTH;
                NAMED(mask) part = NAMED(mask_of)(0, rest);
                UNROLLED for (long i = 0; i < WIDTH; i++)
                    x[i] = i < some ? NAMED(load_part)(b + (column + i) * k + p, part) : (VECTOR){0};
                NAMED(wg_transpose)(x);
                UNROLLED for (long i = 0; i < WIDTH; i++)
                    if (i < rest) *(VECTOR *)(to + ((p + i) * wide + j) * WIDTH) = x[i];
            }
    }
}

// All of b, by all threads of a region.
static void NAMED(wg_product_pack)(const REAL *b, REAL *packed, long n, long k, int transposed)
{
    long vectors = (n + WIDTH - 1) / WIDTH, panels = (vectors + WG_TILE_WIDE - 1) / WG_TILE_WIDE;
    long blocks = (k + 63) / 64;
#pragma omp for schedule(dynamic) collapse(2)
    for (long panel = 0; panel < panels; panel++)
        for (long block = 0; block < blocks; block++)
            NAMED(wg_pack_panel)(b, packed, n, k, transposed, panel, block * 64, block * 64 + 64 < k ? block * 64 + 64 : k);
}

// All of b, by the thread that asks.
static void NAMED(wg_pack_alone)(const REAL *b, REAL *packed, long n, long k, int transposed)
{
    long vectors = (n + WIDTH - 1) / WIDTH, panels = (vectors + WG_TILE_WIDE - 1) / WG_TILE_WIDE;
    for (long panel = 0; panel < panels; panel++) NAMED(wg_pack_panel)(b, packed, n, k, transposed, panel, 0, k);
}

// `rows` rows of c (+)= a @ b, from the first `depth` rows of a packed b (k, n), as far as the panels with the first
// `columns` columns go. Elements of a lie `row` and `step` apart, rows of c `line`.
static void NAMED(wg_product_part)(const REAL *a, long row, long step, const REAL *packed, long n, long k, REAL *c, long line,
                                   long rows, long columns, long depth, int more)
{
    long vectors = (n + WIDTH - 1) / WIDTH, panels = (vectors + WG_TILE_WIDE - 1) / WG_TILE_WIDE;
    long tiles = (rows + WG_TILE_TALL - 1) / WG_TILE_TALL;
    long rest = n - (vectors - 1) * WIDTH;
    for (long p = 0; p < depth; p += WG_DEPTH) {
        long steps = depth - p < WG_DEPTH ? depth - p : WG_DEPTH;
        for (long panel = 0; panel < panels; panel++) {
            long start = wg_part(panel, panels, vectors), wide = wg_part(panel + 1, panels, vectors) - start;
            if (start * WIDTH >= columns) break;
            NAMED(mask) part = NAMED(mask_of)(0, panel + 1 < panels ? WIDTH : rest);
            for (long tile = 0; tile < tiles; tile++) {
                long i = wg_part(tile, tiles, rows), tall = wg_part(tile + 1, tiles, rows) - i;
                NAMED(wg_product_tile_of)
                (a + i * row + p * step, row, step, packed + (start * k + p * wide) * WIDTH, c + i * line + start * WIDTH, line,
                 steps, more || p > 0, part, tall, wide);
            }
        }
    }
}

// Rows `first` to `last` of c = a @ b from the packed b; `transposed`: a lies as (k, m).
static void NAMED(wg_product_rows)(const REAL *a, const REAL *packed, REAL *c, long m, long n, long k, int transposed, long first,
                                   long last)
{
    long row = transposed ? 1 : k, step = transposed ? m : 1;
    NAMED(wg_product_part)(a + first * row, row, step, packed, n, k, c + first * n, n, last - first, n, k, 0);
}

// A complex b (k, n) as a real (2 k, 2 n): each number a rotation, ((x, y), (-y, x)). A complex a (m, k) is a real (m, 2 k)
// as it lies, and their real product is the complex one as it lies: 8 * m * n * k FLOPs, none of them in vain. It goes
// behind the packed matrix, `after` elements on, before it is packed.
static void NAMED(wg_complex_product_pack)(const REAL *b, REAL *packed, long n, long k, int transposed, long after)
{
    REAL *rotations = packed + after;
#pragma omp for schedule(static)
    for (long p = 0; p < k; p++)
        for (long j = 0; j < n; j++) {
            const REAL *from = b + 2 * (transposed ? j * k + p : p * n + j);
            REAL *to = rotations + 4 * p * n + 2 * j;
            to[0] = from[0], to[1] = from[1], to[2 * n] = -from[1], to[2 * n + 1] = from[0];
        }
    NAMED(wg_product_pack)(rotations, packed, 2 * n, 2 * k, 0);
}
