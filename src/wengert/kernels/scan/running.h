// Running sums and products along the middle axis of (outer, size, inner). Included once for each WG_T.
//
// A row after the other: what came before is added to, or multiplied with, a whole row of the axes behind, which
// vectorises. Threads take the axes in front. Bytes: every element read once and written once.
#include "simd.h"

#ifndef WENGERT_RUNNING_H
#define WENGERT_RUNNING_H
#define WG_OF_REALS(t, T)                                                                                              \
    typedef T number_##t;                                                                                              \
    INLINE T plus_##t(T a, T b) { return a + b; }                                                                      \
    INLINE T times_##t(T a, T b) { return a * b; }
WG_OF_REALS(f32, float)
WG_OF_REALS(f64, double)
WG_OF_REALS(i32, uint32_t) // which wrap around
WG_OF_REALS(i64, uint64_t)
#define WG_OF_COMPLEX(t, T)                                                                                            \
    typedef T number_##t;                                                                                              \
    INLINE T plus_##t(T a, T b) { return a + b; }                                                                      \
    INLINE T times_##t(T a, T b)                                                                                       \
    {                                                                                                                  \
        return __builtin_complex(__real__ a * __real__ b - __imag__ a * __imag__ b,                                    \
                                 __real__ a * __imag__ b + __imag__ a * __real__ b);                                   \
    }
WG_OF_COMPLEX(c64, float _Complex)
WG_OF_COMPLEX(c128, double _Complex)
#endif

#undef NUMBER
#define NUMBER NAMED(number)

// along the axis from the first or from the last
#define WG_RUNNING(name, join)                                                                                         \
    static void name(const NUMBER *x, NUMBER *y, long outer, long size, long inner, int backwards)                     \
    {                                                                                                                  \
        _Pragma("omp parallel for schedule(static) if (outer * size * inner > 20000)")                                 \
        for (long o = 0; o < outer; o++) {                                                                             \
            NUMBER all;                                                                                                \
            for (long i = 0; inner == 1 && i < size; i++) { /* in a register */                                        \
                long at = o * size + (backwards ? size - 1 - i : i);                                                   \
                y[at] = all = i ? join(all, x[at]) : x[at];                                                            \
            }                                                                                                          \
            for (long i = 0; inner > 1 && i < size; i++) {                                                             \
                long at = (o * size + (backwards ? size - 1 - i : i)) * inner, before = backwards ? at + inner : at - inner; \
                for (long j = 0; j < inner; j++) y[at + j] = i ? join(y[before + j], x[at + j]) : x[at + j];           \
            }                                                                                                          \
        }                                                                                                              \
    }
__attribute__((unused)) WG_RUNNING(NAMED(wg_cumsum), NAMED(plus))
__attribute__((unused)) WG_RUNNING(NAMED(wg_cumprod), NAMED(times))
#undef WG_RUNNING
