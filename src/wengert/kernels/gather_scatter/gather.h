// Elements named by integers: read, replaced, added to. Included once for each WG_T that is added up; what only moves is
// written for elements of any size.
//
// First the integers become places: several indices one, negative ones counted from the back, those out of range noted in
// wg_error and made 0, so that nothing outside is touched. Then rows move, in parallel over what is written by one thread
// only: the axes in front, or a range of the columns behind. Writers of one place keep their order whatever the number of
// threads. Bytes: every named row read and written once; an embedding of 128 floats a row runs at the speed of memcpy.
#include <omp.h>
#include <stdint.h>
#include <string.h>
#include "simd.h"

#ifndef WENGERT_GATHER_H
#define WENGERT_GATHER_H
extern int wg_error;

// An index array that broadcasts to the shape of the places.
typedef struct {
    const void *numbers;
    int wide;           // int64, else int32
    long size;          // of the axis it is for
    long steps[8];      // from one to the next along each axis of the places; 0 where it is broadcast
} wg_index;

static void wg_places(int64_t *places, long count, int rank, const long *shape, const wg_index *indices, int index_count)
{
#pragma omp parallel for schedule(static) if (count > 20000)
    for (long i = 0; i < count; i++) {
        int64_t place = 0;
        for (int k = 0; k < index_count; k++) {
            const wg_index *index = indices + k;
            long at = 0, rest = i;
            for (int axis = rank - 1; axis >= 0; axis--) at += rest % shape[axis] * index->steps[axis], rest /= shape[axis];
            int64_t n = index->wide ? ((const int64_t *)index->numbers)[at] : ((const int32_t *)index->numbers)[at];
            if (n < 0) n += index->size;
            if (n < 0 || n >= index->size) wg_error = 1, n = 0;
            place = place * index->size + n;
        }
        places[i] = place;
    }
}

// x (outer, size, inner), y (outer, count, inner), inner in bytes: y[o][i] = x[o][places[i]]
static void wg_gather_rows(const char *x, char *y, const int64_t *places, long outer, long size, long count, long inner)
{
    if (size == 0) return;
#pragma omp parallel for collapse(2) schedule(static) if (outer * count * inner > 100000)
    for (long o = 0; o < outer; o++)
        for (long i = 0; i < count; i++) {
            const char *from = x + (o * size + places[i]) * inner;
            char *to = y + (o * count + i) * inner;
            if (inner == 4) memcpy(to, from, 4);
            else if (inner == 8) memcpy(to, from, 8);
            else if (inner == 16) memcpy(to, from, 16);
            else memcpy(to, from, inner);
        }
}

// y = x, then y[o][places[i]] = values[o][i] in order; x is zeros if it is NULL
static void wg_scatter_rows(const char *x, const char *values, char *y, const int64_t *places, long outer, long size,
                            long count, long inner)
{
    if (x == y) ;  // written over its first operand
    else if (x) memcpy(y, x, outer * size * inner);
    else memset(y, 0, outer * size * inner);
    if (size == 0) return;
#pragma omp parallel for schedule(static) if (outer > 1 && outer * count * inner > 100000)
    for (long o = 0; o < outer; o++)
        for (long i = 0; i < count; i++)
            memcpy(y + (o * size + places[i]) * inner, values + (o * count + i) * inner, inner);
}

INLINE long wg_place_along(const void *index, int wide, long at, long size)
{
    int64_t n = wide ? ((const int64_t *)index)[at] : ((const int32_t *)index)[at];
    if (n < 0) n += size;
    if (n < 0 || n >= size) wg_error = 1, n = 0;
    return n;
}

// x (outer, size, inner), index and y (outer, count, inner), of elements of some bytes: y[o][i][j] = x[o][index[o][i][j]][j]
static void wg_take_along(const char *x, const void *index, int wide, char *y, long outer, long size, long count, long inner,
                          long bytes)
{
    if (size == 0) wg_error |= outer * count * inner > 0;
    if (size == 0) return;
#pragma omp parallel for schedule(static) if (outer * count * inner > 20000)
    for (long o = 0; o < outer; o++)
        for (long i = 0; i < count; i++)
            for (long j = 0; j < inner; j++) {
                long at = (o * count + i) * inner + j, from = (o * size + wg_place_along(index, wide, at, size)) * inner + j;
                if (bytes == 4) memcpy(y + at * 4, x + from * 4, 4);
                else memcpy(y + at * bytes, x + from * bytes, bytes);
            }
}

static void wg_put_along(const char *x, const char *values, const void *index, int wide, char *y, long outer, long size,
                         long count, long inner, long bytes)
{
    if (x == y) ;
    else if (x) memcpy(y, x, outer * size * inner * bytes);
    else memset(y, 0, outer * size * inner * bytes);
    if (size == 0) wg_error |= outer * count * inner > 0;
    if (size == 0) return;
#pragma omp parallel for schedule(static) if (outer * count * inner > 20000)
    for (long o = 0; o < outer; o++)
        for (long i = 0; i < count; i++)
            for (long j = 0; j < inner; j++) {
                long at = (o * count + i) * inner + j, to = (o * size + wg_place_along(index, wide, at, size)) * inner + j;
                memcpy(y + to * bytes, values + at * bytes, bytes);
            }
}
typedef int32_t real_i32;
typedef int64_t real_i64;
typedef float _Complex real_c64;
typedef double _Complex real_c128;
#endif

#undef REAL
#define REAL NAMED(real)

// y = x (or zeros), then y[o][places[i]] += values[o][i] in order. Columns are shared out among the threads.
static void NAMED(wg_scatter_add)(const REAL *x, const REAL *values, REAL *y, const int64_t *places, long outer, long size,
                                  long count, long inner)
{
    if (x == y) ;
    else if (x) memcpy(y, x, outer * size * inner * sizeof(REAL));
    else memset(y, 0, outer * size * inner * sizeof(REAL));
    if (size == 0) return;
    long parts = outer > 1 ? 1 : inner / 32 < 1 ? 1 : inner / 32 > 16 ? 16 : inner / 32, width = (inner + parts - 1) / parts;
#pragma omp parallel for collapse(2) schedule(static) if (outer * count * inner > 20000)
    for (long o = 0; o < outer; o++)
        for (long part = 0; part < parts; part++) {
            long start = part * width, stop = start + width < inner ? start + width : inner;
            for (long i = 0; i < count; i++) {
                REAL *restrict to = y + (o * size + places[i]) * inner;
                const REAL *restrict from = values + (o * count + i) * inner;
                for (long j = start; j < stop; j++) to[j] += from[j];
            }
        }
}

static void NAMED(wg_add_along)(const REAL *x, const REAL *values, const void *index, int wide, REAL *y, long outer, long size,
                                long count, long inner)
{
    if (x == y) ;
    else if (x) memcpy(y, x, outer * size * inner * sizeof(REAL));
    else memset(y, 0, outer * size * inner * sizeof(REAL));
    if (size == 0) wg_error |= outer * count * inner > 0;
    if (size == 0) return;
#pragma omp parallel for schedule(static) if (outer * count * inner > 20000)
    for (long o = 0; o < outer; o++)
        for (long i = 0; i < count; i++)
            for (long j = 0; j < inner; j++) {
                long at = (o * count + i) * inner + j;
                y[(o * size + wg_place_along(index, wide, at, size)) * inner + j] += values[at];
            }
}
