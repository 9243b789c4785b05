// Matrix products in a fixed order, by the tiles of matmul.h in every size: the same bits for an element of c whatever m
// and n are. Included once for each WG_T, after matmul.h.
//
// Blocks of WG_BLOCK steps of k are the leaves of a binary tree (tree.h). A leaf is added up in registers, by
// multiply-adds in the order of k; its tile goes to the next free level, and two subtrees of one height become one. The
// lowest level is c itself, the others are a thread's scratch of (rows of a block) x n elements each.
// FLOPs: 2 * m * n * k, and m * n additions for each WG_BLOCK steps of k.
#include <omp.h>
#include "simd.h"

#define WG_BLOCK 32  // as in tree.h

#undef REAL
#undef VECTOR
#undef ANYWHERE
#undef WIDTH
#define REAL NAMED(real)
#define VECTOR NAMED(vector)
#define ANYWHERE NAMED(anywhere)
#define WIDTH ((long)(WG_VECTOR / sizeof(REAL)))

#define WG_ANY_WIDTH(tall)                                                                                             \
    if (wide == 3) NAMED(wg_product_tile)(a, row, step, b, c, line, k, more, last, tall, 3);                           \
    else if (wide == 2) NAMED(wg_product_tile)(a, row, step, b, c, line, k, more, last, tall, 2);                      \
    else NAMED(wg_product_tile)(a, row, step, b, c, line, k, more, last, tall, 1);

static void NAMED(wg_tile_any)(const REAL *a, long row, long step, const REAL *b, REAL *c, long line, long k, int more,
                               NAMED(mask) last, long tall, long wide)
{
    if (tall == WG_TILE_TALL) { WG_ANY_WIDTH(WG_TILE_TALL) }
    else if (tall == 2) { WG_ANY_WIDTH(2) }
    else { WG_ANY_WIDTH(1) }
}

// `rows` rows of c (+)= a @ b over steps `from` to `until` of k, from a packed b (k, n), as far as the panels with the
// first `columns` columns go.
static void NAMED(wg_product_any)(const REAL *a, long row, long step, const REAL *packed, long n, long k, REAL *c, long line,
                                  long rows, long columns, long from, long until, int more)
{
    long vectors = (n + WIDTH - 1) / WIDTH, panels = (vectors + WG_TILE_WIDE - 1) / WG_TILE_WIDE;
    long rest = n - (vectors - 1) * WIDTH;
    for (long panel = 0; panel < panels; panel++) {
        long start = wg_part(panel, panels, vectors), wide = wg_part(panel + 1, panels, vectors) - start;
        if (start * WIDTH >= columns) break;
        NAMED(mask) part = NAMED(mask_of)(0, panel + 1 < panels ? WIDTH : rest);
        for (long i = 0; i < rows;) {
            long tall = rows - i >= WG_TILE_TALL ? WG_TILE_TALL : rows - i >= 2 ? 2 : 1;
            NAMED(wg_tile_any)
            (a + i * row + from * step, row, step, packed + (start * k + from * wide) * WIDTH, c + i * line + start * WIDTH,
             line, until - from, more, part, tall, wide);
            i += tall;
        }
    }
}

INLINE void NAMED(wg_add_rows)(REAL *restrict to, long line, const REAL *restrict from, long rows, long n)
{
    for (long i = 0; i < rows; i++)
        for (long j = 0; j < n; j++) to[i * line + j] = to[i * line + j] + from[i * n + j];
}

// Rows `first` to `last` of c = a @ b from the packed b; `turned`: a lies as (k, m). Levels above c are in `levels`.
static void NAMED(wg_tree_product_rows)(const REAL *a, const REAL *packed, REAL *c, REAL *levels, long m, long n, long k,
                                        int turned, long first, long last)
{
    long row = turned ? 1 : k, step = turned ? m : 1, rows = last - first, size = rows * n, leaf = 0;
    int top = 0;
    a += first * row, c += first * n;
    if (k == 0) memset(c, 0, size * sizeof(REAL));
    for (long p = 0; p < k; p += WG_BLOCK, leaf++) {
        REAL *level = top ? levels + (top - 1) * size : c;
        NAMED(wg_product_any)(a, row, step, packed, n, k, level, n, rows, n, p, p + WG_BLOCK < k ? p + WG_BLOCK : k, 0);
        for (long bits = leaf; bits & 1; bits >>= 1, top--)
            NAMED(wg_add_rows)(top > 1 ? levels + (top - 2) * size : c, n, levels + (top - 1) * size, rows, n);
        top++;
    }
    for (top--; top > 0; top--)
        NAMED(wg_add_rows)(top > 1 ? levels + (top - 2) * size : c, n, levels + (top - 1) * size, rows, n);
}

// c[i] = a[i] @ b[i] for a batch, a product on one thread. A thread's scratch of `each` bytes holds a packed b and levels.
static void NAMED(wg_tree_products)(const REAL *a, const REAL *b, REAL *c, long batch, long m, long n, long k, int ta, int tb,
                                    long step_a, long step_b, char *room, long packed, long each, int many)
{
#pragma omp parallel for schedule(static) if (many)
    for (long i = 0; i < batch; i++) {
        REAL *own = (REAL *)(room + omp_get_thread_num() * each), *levels = (REAL *)((char *)own + packed);
        NAMED(wg_pack_alone)(b + i * step_b, own, n, k, tb);
        long blocks = m < 32 ? 1 : m / 16;
        for (long block = 0; block < blocks; block++)
            NAMED(wg_tree_product_rows)
            (a + i * step_a, own, c + i * m * n, levels, m, n, k, ta, wg_part(block, blocks, m), wg_part(block + 1, blocks, m));
    }
}

// to += from, for the sums of two subtrees; or a copy of the first.
static void NAMED(wg_add_all)(REAL *restrict to, const REAL *restrict from, long n)
{
    for (long i = 0; i < n; i++) to[i] = to[i] + from[i];
}
