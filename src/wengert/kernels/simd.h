// Vectors of the widest kind the processor has, for hand-written kernels: gcc's vector extensions, and the few things
// they do not say (a fused multiply-add, a part of a vector). Kernels are written once for both floats: a header is
// included with WG_T defined as f32 or f64 and names its functions and types with NAMED(...).
#ifndef WENGERT_SIMD_H
#define WENGERT_SIMD_H
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define WG_JOIN_NAMES(a, b) a##_##b
#define WG_JOIN(a, b) WG_JOIN_NAMES(a, b)
#define NAMED(name) WG_JOIN(name, WG_T)
#define INLINE static inline __attribute__((always_inline, unused))
#define UNROLLED _Pragma("GCC unroll 16")

#if defined(__AVX512F__)
#define WG_VECTOR 64  // bytes
#define WG_FEW 0      // whether there are 16 vector registers rather than 32
#elif defined(__AVX__)
#define WG_VECTOR 32
#define WG_FEW 1
#elif defined(__aarch64__)
#define WG_VECTOR 16
#define WG_FEW 0
#else
#define WG_VECTOR 16
#define WG_FEW 1
#endif

typedef float real_f32;
typedef double real_f64;
typedef float vector_f32 __attribute__((vector_size(WG_VECTOR)));
typedef double vector_f64 __attribute__((vector_size(WG_VECTOR)));
typedef float anywhere_f32 __attribute__((vector_size(WG_VECTOR), aligned(4), may_alias));  // not aligned
typedef double anywhere_f64 __attribute__((vector_size(WG_VECTOR), aligned(8), may_alias));

typedef int32_t order_f32 __attribute__((vector_size(WG_VECTOR)));  // which elements a shuffle takes
typedef int64_t order_f64 __attribute__((vector_size(WG_VECTOR)));

// a * b + c in one rounding
#if defined(__AVX512F__)
INLINE vector_f32 fma_f32(vector_f32 a, vector_f32 b, vector_f32 c) { return _mm512_fmadd_ps(a, b, c); }
INLINE vector_f64 fma_f64(vector_f64 a, vector_f64 b, vector_f64 c) { return _mm512_fmadd_pd(a, b, c); }
#elif defined(__FMA__)
INLINE vector_f32 fma_f32(vector_f32 a, vector_f32 b, vector_f32 c) { return _mm256_fmadd_ps(a, b, c); }
INLINE vector_f64 fma_f64(vector_f64 a, vector_f64 b, vector_f64 c) { return _mm256_fmadd_pd(a, b, c); }
#elif defined(__aarch64__)
INLINE vector_f32 fma_f32(vector_f32 a, vector_f32 b, vector_f32 c) { return vfmaq_f32(c, a, b); }
INLINE vector_f64 fma_f64(vector_f64 a, vector_f64 b, vector_f64 c) { return vfmaq_f64(c, a, b); }
#else
INLINE vector_f32 fma_f32(vector_f32 a, vector_f32 b, vector_f32 c) { return a * b + c; }
INLINE vector_f64 fma_f64(vector_f64 a, vector_f64 b, vector_f64 c) { return a * b + c; }
#endif

// Which of a vector's elements to read or write: those from low to high.
#if defined(__AVX512F__)
typedef __mmask16 mask_f32;
typedef __mmask8 mask_f64;
#define WG_MASK(suffix, low, high) ((mask_##suffix)(((1u << (high)) - 1) & ~((1u << (low)) - 1)))
INLINE mask_f32 mask_of_f32(long low, long high) { return WG_MASK(f32, low, high); }
INLINE mask_f64 mask_of_f64(long low, long high) { return WG_MASK(f64, low, high); }
INLINE vector_f32 load_part_f32(const float *from, mask_f32 part) { return _mm512_maskz_loadu_ps(part, from); }
INLINE vector_f64 load_part_f64(const double *from, mask_f64 part) { return _mm512_maskz_loadu_pd(part, from); }
INLINE void store_part_f32(float *to, mask_f32 part, vector_f32 x) { _mm512_mask_storeu_ps(to, part, x); }
INLINE void store_part_f64(double *to, mask_f64 part, vector_f64 x) { _mm512_mask_storeu_pd(to, part, x); }
#else
typedef struct { int8_t low, high; } mask_f32, mask_f64;
#define WG_PARTS(suffix, type)                                                                                         \
    INLINE mask_##suffix mask_of_##suffix(long low, long high) { return (mask_##suffix){low, high}; }                  \
    INLINE vector_##suffix load_part_##suffix(const type *from, mask_##suffix part)                                    \
    {                                                                                                                  \
        if (part.low == 0 && part.high == WG_VECTOR / sizeof(type)) return *(const anywhere_##suffix *)from;           \
        vector_##suffix x = {0};                                                                                       \
        for (int i = part.low; i < part.high; i++) x[i] = from[i];                                                     \
        return x;                                                                                                      \
    }                                                                                                                  \
    INLINE void store_part_##suffix(type *to, mask_##suffix part, vector_##suffix x)                                   \
    {                                                                                                                  \
        for (int i = part.low; i < part.high; i++) to[i] = x[i];                                                       \
    }
WG_PARTS(f32, float)
WG_PARTS(f64, double)
#endif

// Adds `term`, which depends on j, to `total` for every j below n. Under `config.invariant` in lanes that are written down:
// how many sums the compiler would make depends on what else it knows about the loop.
#ifdef WG_INVARIANT
#define WG_TOTAL(j, n, term)                                                                                           \
    {                                                                                                                  \
        REAL lanes_of_total[16] = {0};                                                                                 \
        long whole_lanes = (n) / 16 * 16;                                                                              \
        for (long at_lanes = 0; at_lanes < whole_lanes; at_lanes += 16)                                                \
            _Pragma("omp simd") for (long lane = 0; lane < 16; lane++)                                                 \
            {                                                                                                          \
                long j = at_lanes + lane;                                                                              \
                lanes_of_total[lane] += term;                                                                          \
            }                                                                                                          \
        for (long j = whole_lanes; j < (n); j++) lanes_of_total[j - whole_lanes] += term;                              \
        for (int half = 8; half; half /= 2)                                                                            \
            for (int lane = 0; lane < half; lane++) lanes_of_total[lane] += lanes_of_total[lane + half];               \
        total += lanes_of_total[0];                                                                                    \
    }
#else
#define WG_TOTAL(j, n, term) _Pragma("omp simd reduction(+ : total)") for (long j = 0; j < (n); j++) total += term;
#endif

#endif
