// Reductions in a fixed order: the same bits whatever is beside what is reduced, and whatever the number of threads.
// Included once for each WG_T. ops/fixed_order.py has the same order in NumPy.
//
// The elements of one result are numbered in the order of memory. Blocks of WG_BLOCK are the leaves of a binary tree; a
// block is added up in WG_LANES lanes, and the lanes by halving. The tree is added up as a binary counter counts: a leaf
// is put on a stack, and two subtrees of one height become one. Elements beyond the last are neutral: -0.0 for a sum,
// which changes no number, 0.0 included.
//
// Two ways through memory, with the same order: a result at a time where the last axis is reduced (WG_LANES elements
// side by side are one vector), and WG_COLUMNS neighbouring results at a time where it is not.
// Bytes: every element is read once.
#include <omp.h>
#include "simd.h"

#ifndef WENGERT_TREE_H
#define WENGERT_TREE_H
#define WG_BLOCK 32
#define WG_LANES 16
#define WG_COLUMNS 64   // 2 * WG_LANES * WG_COLUMNS floats are 8 KB: a block stays in the nearest cache
#define WG_HEIGHT 48    // of a tree: more leaves than there are addresses
#define WG_CHUNK 8192   // elements of a subtree that a thread adds up by itself; a power of two

// Where the elements lie: `outer` and `inner` axes of results and of what is reduced, slowest first.
typedef struct {
    int kept_rank, rank;
    long kept[8], kept_step[8];   // the axes that stay, without the columns
    long size[8], step[8];        // the axes that are reduced, without those that lie side by side
    long results, count;          // how many results there are (without columns), how many elements each is made of
    long run;                     // reduced elements side by side; 1 with columns
    long columns;                 // results side by side
} wg_tree;

static long wg_offset(long at, int rank, const long *sizes, const long *steps)
{
    long offset = 0;
    for (int axis = rank - 1; axis >= 0; axis--) offset += at % sizes[axis] * steps[axis], at /= sizes[axis];
    return offset;
}
#endif

#undef REAL
#define REAL NAMED(real)
#define WG_ADD(a, b) ((a) + (b))
#define WG_TIMES(a, b) ((a) * (b))
#define WG_LARGER(a, b) ((a) != (a) ? (a) : (b) != (b) || (b) > (a) ? (b) : (a))
#define WG_SMALLER(a, b) ((a) != (a) ? (a) : (b) != (b) || (b) < (a) ? (b) : (a))

#define WG_TREE(kind, COMBINE, NEUTRAL, EMPTY)                                                                         \
    INLINE REAL NAMED(wg_leaf_##kind)(const REAL *x, long some)                                                        \
    {                                                                                                                  \
        REAL lanes[WG_LANES], last[WG_BLOCK];                                                                          \
        if (some < WG_BLOCK) {                                                                                         \
            for (int i = 0; i < WG_BLOCK; i++) last[i] = NEUTRAL;                                                      \
            for (long i = 0; i < some; i++) last[i] = x[i];                                                            \
            x = last;                                                                                                  \
        }                                                                                                              \
        for (int i = 0; i < WG_LANES; i++) lanes[i] = COMBINE(x[i], x[WG_LANES + i]);                                  \
        for (int i = 0; i < 8; i++) lanes[i] = COMBINE(lanes[i], lanes[i + 8]);                                        \
        for (int i = 0; i < 4; i++) lanes[i] = COMBINE(lanes[i], lanes[i + 4]);                                        \
        for (int i = 0; i < 2; i++) lanes[i] = COMBINE(lanes[i], lanes[i + 2]);                                        \
        return COMBINE(lanes[0], lanes[1]);                                                                            \
    }                                                                                                                  \
    /* A leaf that begins at element `first` of a result. */                                                           \
    INLINE REAL NAMED(wg_leaf_at_##kind)(const REAL *x, const wg_tree *t, long first, long some)                       \
    {                                                                                                                  \
        if (t->rank == 0) return NAMED(wg_leaf_##kind)(x + first, some);                                               \
        REAL found[WG_BLOCK];                                                                                          \
        for (long i = 0; i < some;) {                                                                                  \
            long in_run = (first + i) % t->run, rest = t->run - in_run, length = rest < some - i ? rest : some - i;    \
            const REAL *from = x + wg_offset((first + i) / t->run, t->rank, t->size, t->step) + in_run;                \
            for (long j = 0; j < length; j++) found[i + j] = from[j];                                                  \
            i += length;                                                                                               \
        }                                                                                                              \
        return NAMED(wg_leaf_##kind)(found, some);                                                                     \
    }                                                                                                                  \
    /* The subtree of the elements from `first` to `last`. */                                                          \
    static REAL NAMED(wg_subtree_##kind)(const REAL *x, const wg_tree *t, long first, long last)                       \
    {                                                                                                                  \
        REAL stack[WG_HEIGHT];                                                                                         \
        int top = 0;                                                                                                   \
        long leaf = 0;                                                                                                 \
        for (long at = first; at < last; at += WG_BLOCK, leaf++) {                                                     \
            REAL sum = NAMED(wg_leaf_at_##kind)(x, t, at, last - at < WG_BLOCK ? last - at : WG_BLOCK);                \
            for (long bits = leaf; bits & 1; bits >>= 1) top--, sum = COMBINE(stack[top], sum);                        \
            stack[top++] = sum;                                                                                        \
        }                                                                                                              \
        REAL sum = stack[--top];                                                                                       \
        while (top) top--, sum = COMBINE(stack[top], sum);                                                             \
        return sum;                                                                                                    \
    }                                                                                                                  \
    /* One result, whose subtrees threads share; `parts` has room for one number each. */                              \
    static REAL NAMED(wg_shared_tree_##kind)(const REAL *x, const wg_tree *t, REAL *parts)                             \
    {                                                                                                                  \
        long chunks = (t->count + WG_CHUNK - 1) / WG_CHUNK;                                                            \
        _Pragma("omp parallel for schedule(static)") for (long c = 0; c < chunks; c++)                                 \
        {                                                                                                              \
            long first = c * WG_CHUNK, last = first + WG_CHUNK < t->count ? first + WG_CHUNK : t->count;               \
            parts[c] = NAMED(wg_subtree_##kind)(x, t, first, last);                                                    \
        }                                                                                                              \
        for (long apart = 1; apart < chunks; apart *= 2)                                                               \
            for (long c = 0; c + apart < chunks; c += 2 * apart) parts[c] = COMBINE(parts[c], parts[c + apart]);       \
        return parts[0];                                                                                               \
    }                                                                                                                  \
    /* WG_COLUMNS results or fewer, side by side. */                                                                   \
    static void NAMED(wg_columns_##kind)(const REAL *x, REAL *y, const wg_tree *t, long width)                         \
    {                                                                                                                  \
        REAL stack[WG_HEIGHT][WG_COLUMNS], lanes[WG_LANES][WG_COLUMNS];                                                \
        int top = 0;                                                                                                   \
        long leaf = 0;                                                                                                 \
        for (long first = 0; first < t->count; first += WG_BLOCK, leaf++) {                                            \
            long some = t->count - first < WG_BLOCK ? t->count - first : WG_BLOCK;                                     \
            for (long i = 0; i < WG_BLOCK; i++) {                                                                      \
                REAL *restrict lane = lanes[i % WG_LANES];                                                             \
                if (i >= some) {                                                                                       \
                    if (i < WG_LANES)                                                                                  \
                        for (long j = 0; j < width; j++) lane[j] = NEUTRAL;                                            \
                    continue;                                                                                          \
                }                                                                                                      \
                const REAL *restrict row = x + wg_offset(first + i, t->rank, t->size, t->step);                        \
                if (i < WG_LANES)                                                                                      \
                    for (long j = 0; j < width; j++) lane[j] = row[j];                                                 \
                else                                                                                                   \
                    for (long j = 0; j < width; j++) lane[j] = COMBINE(lane[j], row[j]);                               \
            }                                                                                                          \
            for (int half = WG_LANES / 2; half; half /= 2)                                                             \
                for (int i = 0; i < half; i++)                                                                         \
                    for (long j = 0; j < width; j++) lanes[i][j] = COMBINE(lanes[i][j], lanes[i + half][j]);           \
            for (long bits = leaf; bits & 1; bits >>= 1) {                                                             \
                top--;                                                                                                 \
                for (long j = 0; j < width; j++) lanes[0][j] = COMBINE(stack[top][j], lanes[0][j]);                    \
            }                                                                                                          \
            memcpy(stack[top++], lanes[0], width * sizeof(REAL));                                                      \
        }                                                                                                              \
        while (--top)                                                                                                  \
            for (long j = 0; j < width; j++) stack[top - 1][j] = COMBINE(stack[top - 1][j], stack[top][j]);            \
        memcpy(y, stack[0], width * sizeof(REAL));                                                                     \
    }                                                                                                                  \
    static void NAMED(wg_tree_##kind)(const REAL *x, REAL *y, REAL *parts, const wg_tree *t)                           \
    {                                                                                                                  \
        int many = t->results * t->count * t->columns > 40000;                                                         \
        if (t->count == 0) {                                                                                           \
            for (long i = 0; i < t->results * t->columns; i++) y[i] = EMPTY;                                           \
        } else if (t->run > 0 && t->columns == 0 && t->results == 1) {                                                 \
            y[0] = many ? NAMED(wg_shared_tree_##kind)(x, t, parts) : NAMED(wg_subtree_##kind)(x, t, 0, t->count);     \
        } else if (t->columns == 0) {                                                                                  \
            many = t->results * t->count > 40000;                                                                      \
            _Pragma("omp parallel for schedule(static) if (many)") for (long i = 0; i < t->results; i++)               \
                y[i] = NAMED(wg_subtree_##kind)(x + wg_offset(i, t->kept_rank, t->kept, t->kept_step), t, 0, t->count);\
        } else {                                                                                                       \
            long bunches = (t->columns + WG_COLUMNS - 1) / WG_COLUMNS;                                                 \
            _Pragma("omp parallel for collapse(2) schedule(static) if (many)") for (long i = 0; i < t->results; i++)   \
                for (long b = 0; b < bunches; b++) {                                                                   \
                    long start = b * WG_COLUMNS, rest = t->columns - start;                                            \
                    const REAL *from = x + wg_offset(i, t->kept_rank, t->kept, t->kept_step) + start;                  \
                    NAMED(wg_columns_##kind)                                                                           \
                    (from, y + i * t->columns + start, t, rest < WG_COLUMNS ? rest : WG_COLUMNS);                      \
                }                                                                                                      \
        }                                                                                                              \
    }

WG_TREE(sum, WG_ADD, -(REAL)0, 0)
WG_TREE(prod, WG_TIMES, 1, 1)
WG_TREE(max, WG_LARGER, -(REAL)__builtin_inf(), 0)
WG_TREE(min, WG_SMALLER, (REAL)__builtin_inf(), 0)

#undef WG_ADD
#undef WG_TIMES
#undef WG_LARGER
#undef WG_SMALLER
#undef WG_TREE
