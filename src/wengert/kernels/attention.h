// Attention without the T x T matrix in memory, forward and backward. Included once for each WG_T.
//
// A block of queries meets all keys at once: its scores (queries x keys, up to 256 KB) stay in a thread's scratch, in the
// second-level cache. Forward: scores = q k^T (BLAS), softmax of the rows in place, y = scores v (BLAS). Backward computes
// the probabilities again, then with d = g v^T the scores' cotangent P * (d - row sums of P * d), and adds to the cotangents
// of query, key and value by three more products. A causal block stops at its last query. Parallel over batch and heads.
//
// FLOPs: forward 4 T S E, backward 10 T S E for each head (half of it when causal). Bytes: each operand once a block of
// queries, from the caches; results once. Measured on one core of an EPYC (Zen 4), causal, forward and backward, beside
// PyTorch: batch 8, 4 heads, T 128, E 32: 1.01 and 2.05 ms (1.23, 2.87); batch 2, 12 heads, T 1024, E 64: 54 and 121 (63, 172).
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
    double scale;
} wg_attention;

// How many elements in front of a head's: the axes in front broadcast.
static long wg_lead(const wg_attention *s, long head, const long *steps)
{
    long at = 0;
    for (int axis = s->rank - 1; axis >= 0; axis--) at += head % s->lead[axis] * steps[axis], head /= s->lead[axis];
    return at;
}

#define gemm_f32 wg_sgemm
#define gemm_f64 wg_dgemm
#endif

#undef REAL
#define REAL NAMED(real)
#define GEMM NAMED(gemm)

// Probabilities of `count` queries from `first` on, over the first `keys` keys; rows are s->keys apart.
static void NAMED(wg_probabilities)(const wg_attention *s, const REAL *query, const REAL *key, const void *mask, long first,
                                    long count, long keys, REAL *scores)
{
    GEMM(ROW_MAJOR, AS_IS, TRANSPOSED, count, keys, s->features, s->scale, query + first * s->features, s->features, key,
         s->features, 0, scores, s->keys);
    for (long i = 0; i < count; i++) {
        REAL *restrict row = scores + i * s->keys, top = -__builtin_inf(), total = 0;
        long at = (first + i) * s->mask_row, allowed = s->causal && first + i + 1 < keys ? first + i + 1 : keys;
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
#pragma omp simd reduction(+ : total)
        for (long j = 0; j < allowed; j++) {
            row[j] = NAMED(wg_exp)(row[j] - top);
            total += row[j];
        }
        REAL share = total == 0 ? 1 : 1 / total;
        for (long j = 0; j < allowed; j++) row[j] *= share;
        for (long j = allowed; j < keys; j++) row[j] = 0;
    }
}

INLINE long NAMED(wg_keys_for)(const wg_attention *s, long last) { return s->causal && last < s->keys ? last : s->keys; }

static void NAMED(wg_attention_forward)(const REAL *query, const REAL *key, const REAL *value, const void *mask, REAL *y,
                                        char *scratch, const wg_attention *s)
{
    long blocks = (s->queries + s->block - 1) / s->block, mask_bytes = s->mask_kind == 1 ? 1 : sizeof(REAL);
#pragma omp parallel for collapse(2) schedule(dynamic, 1) num_threads(wg_threads)
    for (long head = 0; head < s->heads; head++)
        for (long b = 0; b < blocks; b++) {
            REAL *scores = (REAL *)scratch + omp_get_thread_num() * 2 * s->block * s->keys;
            long first = b * s->block, count = s->queries - first < s->block ? s->queries - first : s->block;
            long keys = NAMED(wg_keys_for)(s, first + count);
            const char *seen = mask ? (const char *)mask + wg_lead(s, head, s->mask_step) * mask_bytes : NULL;
            NAMED(wg_probabilities)
            (s, query + wg_lead(s, head, s->query_step), key + wg_lead(s, head, s->key_step), seen, first, count, keys,
             scores);
            GEMM(ROW_MAJOR, AS_IS, AS_IS, count, s->values, keys, 1, scores, s->keys,
                 value + wg_lead(s, head, s->value_step), s->values, 0, y + (head * s->queries + first) * s->values,
                 s->values);
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
        REAL *p = (REAL *)scratch + omp_get_thread_num() * 2 * s->block * s->keys, *d = p + s->block * s->keys;
        const REAL *q = query + wg_lead(s, head, s->query_step), *k = key + wg_lead(s, head, s->key_step);
        const REAL *v = value + wg_lead(s, head, s->value_step);
        const char *seen = mask ? (const char *)mask + wg_lead(s, head, s->mask_step) * mask_bytes : NULL;
        REAL *to_k = by_key + head * s->keys * s->features, *to_v = by_value + head * s->keys * s->values;
        memset(to_k, 0, s->keys * s->features * sizeof(REAL));
        memset(to_v, 0, s->keys * s->values * sizeof(REAL));
        for (long first = 0; first < s->queries; first += s->block) {
            long count = s->queries - first < s->block ? s->queries - first : s->block;
            long keys = NAMED(wg_keys_for)(s, first + count);
            const REAL *rows = g + (head * s->queries + first) * s->values;
            NAMED(wg_probabilities)(s, q, k, seen, first, count, keys, p);
            GEMM(ROW_MAJOR, TRANSPOSED, AS_IS, keys, s->values, count, 1, p, s->keys, rows, s->values, 1, to_v, s->values);
            GEMM(ROW_MAJOR, AS_IS, TRANSPOSED, count, keys, s->values, 1, rows, s->values, v, s->values, 0, d, s->keys);
            for (long i = 0; i < count; i++) {
                REAL *restrict pi = p + i * s->keys, *restrict di = d + i * s->keys, total = 0;
#pragma omp simd reduction(+ : total)
                for (long j = 0; j < keys; j++) total += pi[j] * di[j];
                for (long j = 0; j < keys; j++) di[j] = pi[j] * (di[j] - total);
            }
            GEMM(ROW_MAJOR, AS_IS, AS_IS, count, s->features, keys, s->scale, d, s->keys, k, s->features, 0,
                 by_query + (head * s->queries + first) * s->features, s->features);
            GEMM(ROW_MAJOR, TRANSPOSED, AS_IS, keys, s->features, count, s->scale, d, s->keys, q + first * s->features,
                 s->features, 1, to_k, s->features);
        }
    }
}

#undef GEMM
