// Attention without the T x T matrix in memory, forward and backward. Included once for each WG_T.
//
// A block of queries meets all keys at once: its scores (queries x keys, up to 256 KB) stay in a thread's scratch, in the
// second-level cache. Forward: scores = q k^T, softmax of the rows in place, y = scores v. Backward computes the
// probabilities again, then with d = g v^T the scores' cotangent P * (d - row sums of P * d), and adds to the cotangents
// of query, key and value by three more products. A causal block stops at its last query. Parallel over batch and heads.
// Products are made in the tiles of matmul.h, from operands that are packed once a head; by BLAS where tiles are not full.
//
// FLOPs: forward 4 T S E, backward 10 T S E for each head (half of it when causal). Bytes: each operand once a block of
// queries, from the caches; results once. Measured on two cores of an EPYC (Zen 4), causal, forward and backward: batch 8,
// 4 heads, T 128, E 32: 0.43 and 0.84 ms (all products by BLAS: 0.51, 1.03); batch 2, 12 heads, T 512, E 64: 12.6 backward
// (15.8).
#include <math.h>
#include <omp.h>
#include "blas.h"
#include "math.h"
#include "simd.h"

#ifndef WENGERT_ATTENTION_H
#define WENGERT_ATTENTION_H
typedef struct {
    long heads, queries, keys, features, values;  // features: of queries and keys; values: of values
    int rank;                                     // of the axes in front
    long lead[8], query_step[8], key_step[8], value_step[8], mask_step[8];
    int causal, mask_kind;                        // 0 none, 1 boolean, 2 added
    long mask_row, mask_column;                   // from one query, one key to the next
    long block;                                   // queries at a time
    long scores, each;                            // elements of a block's scores, and bytes for a thread
    double scale;
} wg_attention;

// How many elements in front of a head's: the axes in front broadcast.
static long wg_lead(const wg_attention *s, long head, const long *steps)
{
    long at = 0;
    for (int axis = s->rank - 1; axis >= 0; axis--) at += head % s->lead[axis] * steps[axis], head /= s->lead[axis];
    return at;
}

#ifdef WG_INVARIANT
#define WG_TILES_ONLY 1  // no BLAS, which has its own ways for every shape
#else
#define WG_TILES_ONLY 0
#endif
#define gemm_f32 wg_sgemm
#define gemm_f64 wg_dgemm
#endif

#undef REAL
#undef WIDTH
#define REAL NAMED(real)
#define WIDTH ((long)(WG_VECTOR / sizeof(REAL)))
#define GEMM NAMED(gemm)

// The right operand (k, n) of a product as it lies in memory, `transposed`: as (n, k); and packed, from `room` on.
typedef struct {
    const REAL *at;
    REAL *packed;
    long n, k;
    int transposed;
} NAMED(wg_right);

static NAMED(wg_right) NAMED(wg_packed)(const REAL *at, long n, long k, int transposed, REAL **room)
{
    NAMED(wg_right) b = {at, *room, n, k, transposed};
    *room += (n * (long)sizeof(REAL) + 63) / 64 * 64 / (long)sizeof(REAL) * k;
    if (n > WIDTH || WG_TILES_ONLY) NAMED(wg_pack_alone)(at, b.packed, n, k, transposed);
    return b;
}

// c (+)= a @ b: `rows` x `columns` sums over `depth`; rows of a (`transposed`: of its transpose) and of c lie `line_a`, `line`
// apart. Of c's other columns, up to b's, anything may be written.
static void NAMED(wg_multiply)(const REAL *a, long line_a, int transposed, const NAMED(wg_right) *b, REAL *c, long line, long rows,
                               long columns, long depth, int more)
{
#ifdef WG_INVARIANT
    NAMED(wg_product_any)
    (a, transposed ? 1 : line_a, transposed ? line_a : 1, b->packed, b->n, b->k, c, line, rows, columns, 0, depth, more);
#else
    if (rows >= 2 * WG_TILE_TALL && b->n > WIDTH)
        NAMED(wg_product_part)
        (a, transposed ? 1 : line_a, transposed ? line_a : 1, b->packed, b->n, b->k, c, line, rows, columns, depth, more);
    else
        GEMM(ROW_MAJOR, transposed ? TRANSPOSED : AS_IS, b->transposed ? TRANSPOSED : AS_IS, rows, columns, depth, 1, a, line_a, b->at,
             b->transposed ? b->k : b->n, more, c, line);
#endif
}

// Probabilities of `count` queries from `first` on, over the first `keys` keys; rows are s->keys apart.
static void NAMED(wg_probabilities)(const wg_attention *s, const REAL *query, const NAMED(wg_right) *keys_turned,
                                    const void *mask, long first, long count, long keys, REAL *scores)
{
    NAMED(wg_multiply)(query + first * s->features, s->features, 0, keys_turned, scores, s->keys, count, keys, s->features, 0);
    REAL scale = s->scale;
    for (long i = 0; i < count; i++) {
        REAL *restrict row = scores + i * s->keys, top = -__builtin_inf(), total = 0;
        long at = (first + i) * s->mask_row, allowed = s->causal && first + i + 1 < keys ? first + i + 1 : keys;
        for (long j = 0; j < allowed; j++) row[j] *= scale;
        if (s->mask_kind == 1) {
            const uint8_t *may = (const uint8_t *)mask + at;
            for (long j = 0; j < allowed; j++) row[j] = may[j * s->mask_column] ? row[j] : -__builtin_inf();
        } else if (s->mask_kind == 2) {
            const REAL *more = (const REAL *)mask + at;
            for (long j = 0; j < allowed; j++) row[j] += more[j * s->mask_column];
        }
#pragma omp simd reduction(max : top)
        for (long j = 0; j < allowed; j++) top = row[j] > top ? row[j] : top;
        if (!(top - top == 0)) top = 0;  // no key at all, or an infinite score
        WG_TOTAL(j, allowed, (row[j] = NAMED(wg_exp)(row[j] - top)))
        REAL share = total == 0 ? 1 : 1 / total;
        for (long j = 0; j < allowed; j++) row[j] *= share;
        for (long j = allowed; j < keys; j++) row[j] = 0;
    }
}

INLINE long NAMED(wg_keys_for)(const wg_attention *s, long last) { return s->causal && last < s->keys ? last : s->keys; }

// Where a thread's scratch begins: `block` x `keys` scores, twice, and then room for packed operands.
INLINE REAL *NAMED(wg_scratch)(char *scratch, const wg_attention *s) { return (REAL *)(scratch + omp_get_thread_num() * s->each); }

static void NAMED(wg_attention_forward)(const REAL *query, const REAL *key, const REAL *value, const void *mask, REAL *y,
                                        char *scratch, const wg_attention *s)
{
    long blocks = (s->queries + s->block - 1) / s->block, mask_bytes = s->mask_kind == 1 ? 1 : sizeof(REAL);
    long parts = s->heads < 4 * wg_threads ? blocks : 1;  // of a head: each packs its keys and values
#pragma omp parallel for collapse(2) schedule(dynamic, 1) num_threads(wg_threads)
    for (long head = 0; head < s->heads; head++)
        for (long part = 0; part < parts; part++) {
            REAL *scores = NAMED(wg_scratch)(scratch, s), *room = scores + 2 * s->scores;
            const char *seen = mask ? (const char *)mask + wg_lead(s, head, s->mask_step) * mask_bytes : NULL;
            NAMED(wg_right) k = NAMED(wg_packed)(key + wg_lead(s, head, s->key_step), s->keys, s->features, 1, &room);
            NAMED(wg_right) v = NAMED(wg_packed)(value + wg_lead(s, head, s->value_step), s->values, s->keys, 0, &room);
            for (long b = wg_part(part, parts, blocks); b < wg_part(part + 1, parts, blocks); b++) {
                long first = b * s->block, count = s->queries - first < s->block ? s->queries - first : s->block;
                long keys = NAMED(wg_keys_for)(s, first + count);
                NAMED(wg_probabilities)(s, query + wg_lead(s, head, s->query_step), &k, seen, first, count, keys, scores);
                NAMED(wg_multiply)
                (scores, s->keys, 0, &v, y + (head * s->queries + first) * s->values, s->values, count, s->values, keys, 0);
            }
        }
}

// The cotangents of query, key and value for each head by itself; what was broadcast is summed outside.
static void NAMED(wg_attention_backward)(const REAL *g, const REAL *query, const REAL *key, const REAL *value,
                                         const void *mask, REAL *by_query, REAL *by_key, REAL *by_value, char *scratch,
                                         const wg_attention *s)
{
    long mask_bytes = s->mask_kind == 1 ? 1 : sizeof(REAL);
#pragma omp parallel for schedule(dynamic, 1) num_threads(wg_threads)
    for (long head = 0; head < s->heads; head++) {
        REAL *p = NAMED(wg_scratch)(scratch, s), *d = p + s->scores, *room = d + s->scores;
        const REAL *query_at = query + wg_lead(s, head, s->query_step), *key_at = key + wg_lead(s, head, s->key_step);
        const char *seen = mask ? (const char *)mask + wg_lead(s, head, s->mask_step) * mask_bytes : NULL;
        REAL *to_k = by_key + head * s->keys * s->features, *to_v = by_value + head * s->keys * s->values;
        NAMED(wg_right) k_transposed = NAMED(wg_packed)(key_at, s->keys, s->features, 1, &room);
        NAMED(wg_right) k = NAMED(wg_packed)(key_at, s->features, s->keys, 0, &room);
        NAMED(wg_right) v_turned =
            NAMED(wg_packed)(value + wg_lead(s, head, s->value_step), s->keys, s->values, 1, &room);
        memset(to_k, 0, s->keys * s->features * sizeof(REAL));
        memset(to_v, 0, s->keys * s->values * sizeof(REAL));
        for (long first = 0; first < s->queries; first += s->block) {
            long count = s->queries - first < s->block ? s->queries - first : s->block;
            long keys = NAMED(wg_keys_for)(s, first + count);
            REAL *rest = room;
            NAMED(wg_right) rows =
                NAMED(wg_packed)(g + (head * s->queries + first) * s->values, s->values, count, 0, &rest);
            NAMED(wg_right) q = NAMED(wg_packed)(query_at + first * s->features, s->features, count, 0, &rest);
            NAMED(wg_probabilities)(s, query_at, &k_transposed, seen, first, count, keys, p);
            NAMED(wg_multiply)(p, s->keys, 1, &rows, to_v, s->values, keys, s->values, count, 1);
            NAMED(wg_multiply)(rows.at, s->values, 0, &v_turned, d, s->keys, count, keys, s->values, 0);
            REAL scale = s->scale;
            for (long i = 0; i < count; i++) {
                REAL *restrict pi = p + i * s->keys, *restrict di = d + i * s->keys, total = 0;
                WG_TOTAL(j, keys, pi[j] * di[j])
                for (long j = 0; j < keys; j++) di[j] = pi[j] * (di[j] - total) * scale;
            }
            NAMED(wg_multiply)
            (d, s->keys, 0, &k, by_query + (head * s->queries + first) * s->features, s->features, count, s->features, keys, 0);
            NAMED(wg_multiply)(d, s->keys, 1, &q, to_k, s->features, keys, s->features, count, 1);
        }
    }
}

#undef GEMM
