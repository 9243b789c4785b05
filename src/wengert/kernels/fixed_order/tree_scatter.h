// Rows added at indices that are data, in a fixed order. Included once for each WG_T, after gather.h.
//
// The rows that go to one place are added up by the tree of tree.h: WG_BLOCK neighbouring rows are a leaf, of which those
// for this place are added in order; leaves without any are not there. So the sums of two halves of the rows, added, are
// the sum over all of them. Rows are sorted by their places first. A stack holds subtrees with the number of one of their
// leaves; two neighbours on it become one when the next leaf lies further away than they do from one another.
#include <omp.h>
#include "simd.h"

#define WG_BLOCK 32
#undef REAL
#define REAL NAMED(real)

#ifndef WENGERT_TREE_SCATTER_H
#define WENGERT_TREE_SCATTER_H
#define WG_ROW 64      // columns at a time
#define WG_WAITING 64  // subtrees at most: one of each height

// order = the rows by place, those of a place in order; place p has those from starts[p] to starts[p + 1]
static void wg_sort_places(const int64_t *places, int64_t *order, int64_t *starts, long size, long count)
{
    memset(starts, 0, (size + 1) * sizeof(int64_t));
    for (long i = 0; i < count; i++) starts[places[i] + 1]++;
    for (long p = 0; p < size; p++) starts[p + 1] += starts[p];
    for (long i = 0; i < count; i++) order[starts[places[i]]++] = i;
    for (long p = size; p > 0; p--) starts[p] = starts[p - 1];
    starts[0] = 0;
}

// The height at which the leaves a and b come together.
INLINE int wg_meet(long a, long b) { return a == b ? 0 : 64 - __builtin_clzl(a ^ b); }
#endif

// y[j] = y[j] + the sum of the rows order[0 .. some), for `width` columns
static void NAMED(wg_tree_rows)(const REAL *values, REAL *y, const int64_t *order, long some, long inner, long width)
{
    REAL stack[WG_WAITING][WG_ROW];
    long leaf[WG_WAITING];
    int top = 0;
    for (long i = 0; i < some;) {
        long next = order[i] / WG_BLOCK;
        for (; top > 1 && wg_meet(leaf[top - 2], leaf[top - 1]) < wg_meet(leaf[top - 1], next); top--)
            for (long j = 0; j < width; j++) stack[top - 2][j] = stack[top - 2][j] + stack[top - 1][j];
        memcpy(stack[top], values + order[i] * inner, width * sizeof(REAL));
        for (i++; i < some && order[i] / WG_BLOCK == next; i++)
            for (long j = 0; j < width; j++) stack[top][j] = stack[top][j] + values[order[i] * inner + j];
        leaf[top++] = next;
    }
    for (; top > 1; top--)
        for (long j = 0; j < width; j++) stack[top - 2][j] = stack[top - 2][j] + stack[top - 1][j];
    if (top)
        for (long j = 0; j < width; j++) y[j] = y[j] + stack[0][j];
}

// y = x (or zeros), then the rows of values at their places; `places` is followed by room for what is sorted.
static void NAMED(wg_tree_scatter_add)(const REAL *x, const REAL *values, REAL *y, int64_t *places, long outer, long size,
                                       long count, long inner)
{
    if (x) memcpy(y, x, outer * size * inner * sizeof(REAL));
    else memset(y, 0, outer * size * inner * sizeof(REAL));
    if (size == 0) return;
    int64_t *order = places + count, *starts = order + count;
    wg_sort_places(places, order, starts, size, count);
    long bunches = (inner + WG_ROW - 1) / WG_ROW;
#pragma omp parallel for collapse(3) schedule(static) if (outer * count * inner > 20000)
    for (long o = 0; o < outer; o++)
        for (long p = 0; p < size; p++)
            for (long b = 0; b < bunches; b++) {
                long start = b * WG_ROW, width = inner - start < WG_ROW ? inner - start : WG_ROW;
                NAMED(wg_tree_rows)
                (values + o * count * inner + start, y + (o * size + p) * inner + start, order + starts[p],
                 starts[p + 1] - starts[p], inner, width);
            }
}
