/* The mathematics of fused kernels: one element of every elementwise op, written so that compilers vectorise the loop
   around it.

   No function branches, looks up a table or calls the C library unless it says so: a choice is a ternary over two
   values already computed, which becomes a blend; 2^k is made from bits; rounding to an integer adds and subtracts
   1.5 * 2^23 (2^52), which leaves the integer in the low bits. Names end in the dtype computed in. Rounding is to
   nearest; -fno-math-errno and -fno-trapping-math let loops vectorise, -ffast-math would break them. Infinities, NaN,
   -0.0, subnormal arguments and results come out as in the C library.

   The largest error in ulp (units in the last place), found over 4 million float32 arguments of every size against
   float64 and 5,000 float64 arguments against 200 bits; and nanoseconds an element (benchmarks/mathematics.py, one
   core with AVX-512, the C library's function in the same loop beside it):

                    float32                       float64
              ulp     ns    libm          ulp     ns    libm
   exp         1.0   0.40    2.24          0.9   0.96    4.13
   expm1       1.4   0.39    9.02          1.6   0.92    6.93
   log         0.8   0.47    2.50          0.7   1.17    3.61
   log1p       1.4   0.66    6.96          1.1   1.65    5.65
   log2        1.1   0.47    2.23          0.7   1.19    3.33
   log10       1.2   0.48    5.21          0.8   1.18    5.76
   sigmoid     2.3   0.51    2.51          2.4   1.22    4.39
   tanh        2.5   0.50   11.49          2.4   1.17    9.93
   cosh        1.4   0.48    5.26          1.2   1.13    5.81
   sinh        1.6   0.57   12.68          1.3   1.46   12.36
   asinh       1.7   1.19    7.14          1.3   2.69    8.08
   acosh       2.0   1.01    5.42          1.7   2.36    6.42
   atanh       2.1   0.85   10.58          1.5   2.08    9.28
   sin         1.5   1.30    2.93          1.2   1.36    9.44
   cos         1.5   1.30    2.91          1.3   1.34    9.85
   tan         3.4   1.42   10.53          2.5   1.58   10.76
   atan        1.5   0.48    4.80          1.6   1.14    8.36
   atan2       1.7   0.70    9.22          1.9   1.99   15.32
   asin        2.3   0.38    3.42         libm   4.80    4.80
   acos        1.1   0.33    4.47         libm   5.24    5.23
   erf         1.1   0.82    9.70          2.3   2.63   10.33
   erfc        5.5   0.78   13.47          9.3   2.59   14.30
   erfinv      0.5  16.35       -          3.3  16.21       -
   pow         0.5   1.82    4.34          1.0   3.82   10.29
   hypot       0.5   0.61    2.51          1.1   0.75    5.06
   logaddexp     -   1.65   10.87            -   3.25   10.86
   lgamma        -   9.75   11.72            -   9.46   12.20
   digamma       -   5.91       -            -   5.57       -

   logaddexp, lgamma and digamma are as exact as the terms they add; erfc in float64 is that of ops/special.py, which
   below 1 is 1 - erf. sin, cos and tan are right for every number; of float64 from 2^45 on they are the C library's (far.h).

   The polynomials are minimax fits of our own (Remez in 40 digits, each coefficient rounded before the next ones were
   fitted); the rational ones are those of ops/special.py. */

#ifndef WENGERT_MATH_H
#define WENGERT_MATH_H

#ifndef WG_DEVICE /* math.cuh has this for CUDA, up to the error function, from CUDA's own functions */
#include <math.h>
#include <stdint.h>

typedef float _Complex wg_c64; /* complex.h has what is done with them */
typedef double _Complex wg_c128;

#define WG static inline __attribute__((always_inline, unused))
#define WG_CALL static __attribute__((noinline, unused))
#define WG_INF_f32 __builtin_inff()
#define WG_INF_f64 __builtin_inf()
#define WG_NAN_f32 __builtin_nanf("")
#define WG_NAN_f64 __builtin_nan("")

/* --- bits --------------------------------------------------------------------------------------------------------- */

WG uint32_t wg_bits_f32(float x) { uint32_t b; __builtin_memcpy(&b, &x, 4); return b; }
WG uint64_t wg_bits_f64(double x) { uint64_t b; __builtin_memcpy(&b, &x, 8); return b; }
WG float wg_of_bits_f32(uint32_t b) { float x; __builtin_memcpy(&x, &b, 4); return x; }
WG double wg_of_bits_f64(uint64_t b) { double x; __builtin_memcpy(&x, &b, 8); return x; }

/* a * b + c, in one rounding where the processor can. Where an exact product is needed, __builtin_fma says so. */
#if defined(__FMA__) || defined(__aarch64__)
WG float wg_ma_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
WG double wg_ma_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }
#else
WG float wg_ma_f32(float a, float b, float c) { return a * b + c; }
WG double wg_ma_f64(double a, double b, double c) { return a * b + c; }
#endif

/* 2^k for k from -126 to 127 (-1022 to 1023) */
WG float wg_power2_f32(int32_t k) { return wg_of_bits_f32((uint32_t)(k + 127) << 23); }
WG double wg_power2_f64(int64_t k) { return wg_of_bits_f64((uint64_t)(k + 1023) << 52); }

/* x * 2^k, also where 2^k or the result is subnormal, or 2^k is too large: in two steps */
WG float wg_scale_f32(float x, int32_t k) {
    int32_t half = k >> 1;
    return x * wg_power2_f32(half) * wg_power2_f32(k - half);
}
WG double wg_scale_f64(double x, int64_t k) {
    int64_t half = (int64_t)((uint64_t)(k + 4096) >> 1) - 2048; /* AVX2 shifts 64 bits without their sign only */
    return x * wg_power2_f64(half) * wg_power2_f64(k - half);
}

WG float wg_abs_f32(float x) { return __builtin_fabsf(x); }
WG double wg_abs_f64(double x) { return __builtin_fabs(x); }
WG float wg_copysign_f32(float x, float s) { return __builtin_copysignf(x, s); }
WG double wg_copysign_f64(double x, double s) { return __builtin_copysign(x, s); }
WG float wg_sqrt_f32(float x) { return __builtin_sqrtf(x); }
WG double wg_sqrt_f64(double x) { return __builtin_sqrt(x); }
WG float wg_floor_f32(float x) { return __builtin_floorf(x); }
WG double wg_floor_f64(double x) { return __builtin_floor(x); }
WG float wg_ceil_f32(float x) { return __builtin_ceilf(x); }
WG double wg_ceil_f64(double x) { return __builtin_ceil(x); }
WG float wg_trunc_f32(float x) { return __builtin_truncf(x); }
WG double wg_trunc_f64(double x) { return __builtin_trunc(x); }
WG float wg_round_f32(float x) { return __builtin_rintf(x); }
WG double wg_round_f64(double x) { return __builtin_rint(x); }
WG uint8_t wg_signbit_f32(float x) { return wg_bits_f32(x) >> 31; }
WG uint8_t wg_signbit_f64(double x) { return wg_bits_f64(x) >> 63; }
/* NaN wins. Two choices, one after the other: the first is an instruction of its own. Of both conditions as one gcc makes
   branches where the result is not always needed (as in a clip), and those it cannot vectorise. */
#define WG_EXTREMES(t, T)                                                                                              \
    WG T wg_maximum_##t(T a, T b) {                                                                                    \
        T larger = a > b ? a : b;                                                                                      \
        return a != a ? a : larger;                                                                                    \
    }                                                                                                                  \
    WG T wg_minimum_##t(T a, T b) {                                                                                    \
        T smaller = a < b ? a : b;                                                                                     \
        return a != a ? a : smaller;                                                                                   \
    }
WG_EXTREMES(f32, float)
WG_EXTREMES(f64, double)

#endif
/* --- what is the same text for both floats ------------------------------------------------------------------------ */

/* 0 where g is 0, whatever d is; as a factor that is chosen, on a device, a sum takes the product in (fused) */
#ifdef WG_DEVICE
#define WG_SAFE(g, d) (g) * ((g) == 0 ? 0 : (d))
#else
#define WG_SAFE(g, d) (g) == 0 ? 0 : (g) * (d)
#endif
#define WG_FLOAT(t, T, B, sign)                                                                                        \
    WG T wg_square_##t(T x) { return x * x; }                                                                          \
    WG T wg_safe_multiply_##t(T g, T d) { return WG_SAFE(g, d); }                                                          \
    WG T wg_sign_##t(T x) { return x > 0 ? (T)1 : x < 0 ? (T)-1 : x == 0 ? (T)0 : x; }                                 \
    WG uint8_t wg_isfinite_##t(T x) { return wg_abs_##t(x) < WG_INF_##t; }                                             \
    WG uint8_t wg_isinf_##t(T x) { return wg_abs_##t(x) == WG_INF_##t; }                                               \
    /* the neighbour is one step of the bits away; the smallest number is 1 */                                         \
    WG T wg_nextafter_##t(T a, T b) {                                                                                  \
        B bits = wg_bits_##t(a);                                                                                       \
        B next = (a < b) == (a > 0) ? bits + 1 : bits - 1;                                                             \
        next = a == 0 ? (wg_bits_##t(b) & (B)sign) | 1 : next;                                                         \
        T moved = wg_of_bits_##t(next);                                                                                \
        moved = a == b ? b : moved;                                                                                    \
        return (a != a) | (b != b) ? a + b : moved;                                                                    \
    }
WG_FLOAT(f32, float, uint32_t, 0x80000000u)
WG_FLOAT(f64, double, uint64_t, 0x8000000000000000ull)

/* NumPy's quotient and remainder (npy_divmod), by the C library's fmod: not vectorised */
#define WG_DIVMOD(t, T, end)                                                                                           \
    WG T wg_floor_divide_##t(T a, T b) {                                                                               \
        T rest = __builtin_fmod##end(a, b);                                                                            \
        T quotient = (a - rest) / b;                                                                                   \
        quotient = (rest != 0) & ((b < 0) != (rest < 0)) ? quotient - 1 : quotient;                                    \
        T down = __builtin_floor##end(quotient);                                                                       \
        down = quotient - down > (T)0.5 ? down + 1 : down;                                                             \
        down = quotient == 0 ? wg_copysign_##t((T)0, a / b) : down;                                                    \
        return b == 0 ? a / b : down;                                                                                  \
    }                                                                                                                  \
    WG T wg_remainder_##t(T a, T b) {                                                                                  \
        T rest = __builtin_fmod##end(a, b);                                                                            \
        T moved = (b < 0) != (rest < 0) ? rest + b : rest;                                                             \
        moved = rest == 0 ? wg_copysign_##t((T)0, b) : moved;                                                          \
        return b == 0 ? rest : moved;                                                                                  \
    }
WG_DIVMOD(f32, float, f)
WG_DIVMOD(f64, double, )

#ifndef WG_DEVICE
/* --- exponentials ------------------------------------------------------------------------------------------------- */

/* (e^r - 1 - r) / r^2 for |r| <= log(2) / 2 */
WG float wg_exp_tail_f32(float r) {
    float p = 0.0013820467f;
    p = wg_ma_f32(p, r, 0.00836925f);
    p = wg_ma_f32(p, r, 0.041668285f);
    p = wg_ma_f32(p, r, 0.16666517f);
    return wg_ma_f32(p, r, 0.49999994f);
}
WG double wg_exp_tail_f64(double r) {
    double p = 1.6360123166473772e-09;
    p = wg_ma_f64(p, r, 2.510079554656615e-08);
    p = wg_ma_f64(p, r, 2.7571886492934247e-07);
    p = wg_ma_f64(p, r, 2.755726716129629e-06);
    p = wg_ma_f64(p, r, 2.4801570445659122e-05);
    p = wg_ma_f64(p, r, 0.00019841269864883813);
    p = wg_ma_f64(p, r, 0.0013888888897312195);
    p = wg_ma_f64(p, r, 0.008333333333328724);
    p = wg_ma_f64(p, r, 0.04166666666664952);
    p = wg_ma_f64(p, r, 0.1666666666666667);
    return wg_ma_f64(p, r, 0.5000000000000001);
}

/* e^x = 2^k e^r: k and r. log(2) is taken in two parts, of which k times the first is exact */
#define WG_EXP_SPLIT(t, T, I, x, k, r, log2e, high, low, magic, magic_bits)                                            \
    T shifted_ = wg_ma_##t(x, (T)log2e, (T)magic);                                                                     \
    T n_ = shifted_ - (T)magic;                                                                                        \
    I k = (I)(wg_bits_##t(shifted_) - magic_bits);                                                                     \
    T r = wg_ma_##t(n_, (T)-high, x);                                                                                  \
    r = wg_ma_##t(n_, (T)-low, r);
#define WG_SPLIT_f32(x, k, r)                                                                                          \
    WG_EXP_SPLIT(f32, float, int32_t, x, k, r, 1.44269504f, 0.693359375f, -2.12194440e-4f, 0x1.8p23f, 0x4b400000u)
#define WG_SPLIT_f64(x, k, r)                                                                                          \
    WG_EXP_SPLIT(f64, double, int64_t, x, k, r, 0x1.71547652b82fep+0, 0x1.62e42feep-1, 1.90821492927058770002e-10,     \
                 0x1.8p52, 0x4338000000000000ull)

/* e^x 2^shift; the comparisons let NaN through. float32: the power of 2 comes out of the low bits in one shift, halved,
   as 2^128 is no float; a result that may be subnormal is made 2^64 times too large and rounded once. */
WG float wg_exp_shifted_f32(float x, int32_t shift) {
    const float magic = 0x1.8p23f + (126 + shift);
    x = x < -105.0f ? -105.0f : x;
    x = x > 89.0f - 0.69f * shift ? 89.0f - 0.69f * shift : x;
    float shifted = wg_ma_f32(x, 1.44269504f, magic), n = shifted - magic;
    float r = wg_ma_f32(n, -0.693359375f, x);
    r = wg_ma_f32(n, 2.12194440e-4f, r);
    float y = wg_ma_f32(2, wg_ma_f32(r * r, wg_exp_tail_f32(r), r), 2);
    int small = n < -115;
    y *= wg_of_bits_f32((wg_bits_f32(shifted) << 23) + (small ? 64u << 23 : 0));
    return small ? y * 0x1p-64f : y;
}
WG double wg_exp_shifted_f64(double x, int64_t shift) {
    x = x < -747.0 ? -747.0 : x;
    x = x > 712.0 ? 712.0 : x;
    WG_SPLIT_f64(x, k, r)
    double y = 1 + wg_ma_f64(r * r, wg_exp_tail_f64(r), r);
    return wg_scale_f64(y, k + shift);
}
WG float wg_exp_f32(float x) { return wg_exp_shifted_f32(x, 0); }
WG double wg_exp_f64(double x) { return wg_exp_shifted_f64(x, 0); }

WG float wg_exp2_f32(float x) {
    x = x < -151.0f ? -151.0f : x;
    x = x > 129.0f ? 129.0f : x;
    float shifted = x + 0x1.8p23f;
    float r = (x - (shifted - 0x1.8p23f)) * 0.693147181f;
    float y = 1 + wg_ma_f32(r * r, wg_exp_tail_f32(r), r);
    return wg_scale_f32(y, (int32_t)(wg_bits_f32(shifted) - 0x4b400000u));
}
WG double wg_exp2_f64(double x) {
    x = x < -1076.0 ? -1076.0 : x;
    x = x > 1025.0 ? 1025.0 : x;
    double shifted = x + 0x1.8p52;
    double r = (x - (shifted - 0x1.8p52)) * 0x1.62e42fefa39efp-1;
    double y = 1 + wg_ma_f64(r * r, wg_exp_tail_f64(r), r);
    return wg_scale_f64(y, (int64_t)(wg_bits_f64(shifted) - 0x4338000000000000ull));
}

/* 2^k (e^r - 1) + (2^k - 1), halved and doubled again so that 2^128 need not exist; tiny numbers are their own */
#define WG_EXPM1(t, T, I, lowest, highest, tiny)                                                                       \
    WG T wg_expm1_##t(T x) {                                                                                           \
        T held = x < (T)lowest ? (T)lowest : x;                                                                        \
        held = held > (T)highest ? (T)highest : held;                                                                  \
        WG_SPLIT_##t(held, k, r)                                                                                       \
        T part = wg_ma_##t(r * r, wg_exp_tail_##t(r), r);                                                              \
        T half = wg_power2_##t(k - 1);                                                                                 \
        T y = 2 * wg_ma_##t(half, part, half - (T)0.5);                                                                \
        return wg_abs_##t(x) < (T)tiny ? x : y;                                                                        \
    }
WG_EXPM1(f32, float, int32_t, -30, 89, 1e-10)
WG_EXPM1(f64, double, int64_t, -60, 710, 1e-20)

/* --- logarithms --------------------------------------------------------------------------------------------------- */

/* (log(1 + f) - f + f^2 / 2) / f^3 for sqrt(1/2) <= 1 + f <= sqrt(2) */
WG float wg_log_tail_f32(float f) {
    float p = -0.07640472f;
    p = wg_ma_f32(p, f, 0.12765299f);
    p = wg_ma_f32(p, f, -0.13159548f);
    p = wg_ma_f32(p, f, 0.14201106f);
    p = wg_ma_f32(p, f, -0.1662335f);
    p = wg_ma_f32(p, f, 0.2000126f);
    p = wg_ma_f32(p, f, -0.25000823f);
    return wg_ma_f32(p, f, 0.3333333f);
}
/* log(1 + f) - f + f^2 / 2, where with s = f / (2 + f) log(1 + f) is 2 atanh(s), a series in s^2 */
WG double wg_log_rest_f64(double f) {
    double s = f / (2 + f), z = s * s;
    double p = 0.14798260519118397;
    p = wg_ma_f64(p, z, 0.15313831864675395);
    p = wg_ma_f64(p, z, 0.18183572369292922);
    p = wg_ma_f64(p, z, 0.22222198428698342);
    p = wg_ma_f64(p, z, 0.28571428743688737);
    p = wg_ma_f64(p, z, 0.39999999999409347);
    p = wg_ma_f64(p, z, 0.6666666666666735);
    return s * wg_ma_f64(p, z, 0.5 * f * f);
}
/* log(1 + f) + n log(2), with the parts added from the smallest up */
WG float wg_log_sum_f32(float f, float n) {
    float square = f * f;
    float rest = wg_ma_f32(square * f, wg_log_tail_f32(f), n * -2.12194440e-4f);
    rest = wg_ma_f32(square, -0.5f, rest);
    return wg_ma_f32(n, 0.693359375f, f + rest);
}
WG double wg_log_sum_f64(double f, double n) {
    double rest = wg_ma_f64(n, 1.90821492927058770002e-10, wg_log_rest_f64(f));
    rest = wg_ma_f64(f * f, -0.5, rest);
    return wg_ma_f64(n, 0x1.62e42feep-1, f + rest);
}

/* x = 2^n (1 + f), sqrt(1/2) <= 1 + f < sqrt(2), also for subnormal x. An integer becomes a float as n in the low bits
   of 1.5 * 2^52: the instruction for 64 bits is AVX-512's. */
#define WG_LOG_SPLIT_f32(x, f, n)                                                                                      \
    int tiny_ = x < 0x1p-126f;                                                                                         \
    uint32_t i_ = wg_bits_f32(tiny_ ? x * 0x1p25f : x) - 0x3f3504f3u;                                                  \
    float f = wg_of_bits_f32((i_ & 0x7fffffu) + 0x3f3504f3u) - 1;                                                      \
    float n = (float)(((int32_t)i_ >> 23) - (tiny_ ? 25 : 0));
#define WG_LOG_SPLIT_f64(x, f, n)                                                                                      \
    int tiny_ = x < 0x1p-1022;                                                                                         \
    uint64_t i_ = wg_bits_f64(tiny_ ? x * 0x1p54 : x) - 0x3fe6a09e667f3bcdull;                                         \
    double f = wg_of_bits_f64((i_ & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull) - 1;                                  \
    double n = wg_of_bits_f64(((i_ + 0x4000000000000000ull) >> 52) + (0x4338000000000000ull - 0x400)) - 0x1.8p52 -     \
               (tiny_ ? 54 : 0);
/* what a logarithm is where its argument is not a positive finite number */
#define WG_LOG_ENDS(t, x, y) (x > 0 ? (x < WG_INF_##t ? y : x) : (x == 0 ? -WG_INF_##t : WG_NAN_##t))

WG float wg_log_f32(float x) {
    WG_LOG_SPLIT_f32(x, f, n)
    float y = wg_log_sum_f32(f, n);
    return WG_LOG_ENDS(f32, x, y);
}
WG double wg_log_f64(double x) {
    WG_LOG_SPLIT_f64(x, f, n)
    double y = wg_log_sum_f64(f, n);
    return WG_LOG_ENDS(f64, x, y);
}
/* n + log2(1 + f): the logarithm to base e times log2(e), as a sum of two parts whose first has few bits */
WG float wg_log2_f32(float x) {
    WG_LOG_SPLIT_f32(x, f, n)
    float rest = wg_ma_f32(f * f, wg_ma_f32(f, wg_log_tail_f32(f), -0.5f), 0);
    float y = wg_ma_f32(f, 1.44269504f, wg_ma_f32(rest, 1.44269504f, f * 1.925963033e-8f)) + n;
    return WG_LOG_ENDS(f32, x, y);
}
WG double wg_log2_f64(double x) {
    WG_LOG_SPLIT_f64(x, f, n)
    double rest = wg_ma_f64(f * f, -0.5, wg_log_rest_f64(f));
    double y = wg_ma_f64(f, 0x1.71547652b82fep+0, wg_ma_f64(rest, 0x1.71547652b82fep+0, f * 0x1.777d0ffda0d24p-56)) + n;
    return WG_LOG_ENDS(f64, x, y);
}
WG float wg_log10_f32(float x) {
    WG_LOG_SPLIT_f32(x, f, n)
    float rest = wg_ma_f32(f * f, wg_ma_f32(f, wg_log_tail_f32(f), -0.5f), 0);
    float y = wg_ma_f32(f, 0.434294482f, wg_ma_f32(rest, 0.434294482f, n * 7.9034151668e-07f));
    y = wg_ma_f32(n, 3.0102920532e-01f, y);
    return WG_LOG_ENDS(f32, x, y);
}
WG double wg_log10_f64(double x) {
    WG_LOG_SPLIT_f64(x, f, n)
    double rest = wg_ma_f64(f * f, -0.5, wg_log_rest_f64(f));
    double low = n * 3.69423907715893078616e-13;
    double y = wg_ma_f64(f, 0x1.bcb7b1526e50ep-2, wg_ma_f64(rest, 0x1.bcb7b1526e50ep-2, low));
    y = wg_ma_f64(n, 3.01029995663611771306e-01, y);
    return WG_LOG_ENDS(f64, x, y);
}
/* u = 1 + x rounded, and what the rounding dropped, at u's scale */
#define WG_LOG1P(t, T, I, tiny, lowest)                                                                                \
    WG T wg_log1p_##t(T x) {                                                                                           \
        T u = 1 + x;                                                                                                   \
        T dropped = x < 1 ? x - (u - 1) : 1 - (u - x);                                                                 \
        WG_LOG_SPLIT_##t(u, f, n)                                                                                      \
        T scale = n < lowest ? wg_power2_##t((I)-n) : 0;                                                               \
        T y = wg_log_sum_##t(wg_ma_##t(dropped, scale, f), n);                                                         \
        y = WG_LOG_ENDS(t, u, y);                                                                                      \
        return wg_abs_##t(x) < (T)tiny ? x : y;                                                                        \
    }
WG_LOG1P(f32, float, int32_t, 1e-10, 120)
WG_LOG1P(f64, double, int32_t, 1e-20, 120)

/* --- functions made of exponentials and logarithms ---------------------------------------------------------------- */

#define WG_MADE_OF_EXP(t, T, log_2, large)                                                                             \
    WG T wg_sigmoid_##t(T x) {                                                                                         \
        T e = wg_exp_##t(-wg_abs_##t(x));                                                                              \
        return (x < 0 ? e : 1) / (1 + e);                                                                              \
    }                                                                                                                  \
    WG T wg_tanh_##t(T x) {                                                                                            \
        T e = wg_expm1_##t(-2 * wg_abs_##t(x));                                                                        \
        return wg_copysign_##t(e / (e + 2), x);                                                                        \
    }                                                                                                                  \
    WG T wg_cosh_##t(T x) {                                                                                            \
        T half = wg_exp_shifted_##t(wg_abs_##t(x), -1);                                                                \
        return half + (T)0.25 / half;                                                                                  \
    }                                                                                                                  \
    WG T wg_sinh_##t(T x) {                                                                                            \
        T a = wg_abs_##t(x);                                                                                           \
        T half = wg_exp_shifted_##t(a, -1);                                                                            \
        T y = a < 1 ? wg_sinh_small_##t(a) : half - (T)0.25 / half;                                                    \
        return wg_copysign_##t(y, x);                                                                                  \
    }                                                                                                                  \
    WG T wg_logaddexp_##t(T a, T b) {                                                                                  \
        T apart = a - b, top = a > b ? a : b;                                                                          \
        T y = top + wg_log1p_##t(wg_exp_##t(-wg_abs_##t(apart)));                                                      \
        return a == b ? a + (T)log_2 : apart != apart ? apart : y;                                                     \
    }                                                                                                                  \
    WG T wg_asinh_##t(T x) {                                                                                           \
        T a = wg_abs_##t(x), z = a * a;                                                                                \
        T inner = a > (T)large ? a : a + z / (1 + wg_sqrt_##t(1 + z));                                                 \
        return wg_copysign_##t(wg_log1p_##t(inner) + (a > (T)large ? (T)log_2 : 0), x);                                \
    }                                                                                                                  \
    WG T wg_acosh_##t(T x) {                                                                                           \
        T d = x - 1;                                                                                                   \
        T inner = x > (T)large ? x : d + wg_sqrt_##t(wg_ma_##t(d, d, 2 * d));                                          \
        T y = wg_log1p_##t(inner) + (x > (T)large ? (T)log_2 : 0);                                                     \
        return x < 1 ? WG_NAN_##t : y;                                                                                 \
    }                                                                                                                  \
    WG T wg_atanh_##t(T x) {                                                                                           \
        T a = wg_abs_##t(x);                                                                                           \
        return wg_copysign_##t((T)0.5 * wg_log1p_##t(2 * a / (1 - a)), x);                                             \
    }
/* sinh(a) for 0 <= a < 1 */
WG float wg_sinh_small_f32(float a) {
    float z = a * a, p = 2.7822132e-06f;
    p = wg_ma_f32(p, z, 0.00019842896f);
    p = wg_ma_f32(p, z, 0.0083333105f);
    p = wg_ma_f32(p, z, 0.16666667f);
    return wg_ma_f32(z * a, p, a);
}
WG double wg_sinh_small_f64(double a) {
    double z = a * a, p = 6.475819552837374e-15;
    p = wg_ma_f64(p, z, 7.503253259344363e-13);
    p = wg_ma_f64(p, z, 1.606133927736282e-10);
    p = wg_ma_f64(p, z, 2.5052089412325997e-08);
    p = wg_ma_f64(p, z, 2.7557319310091294e-06);
    p = wg_ma_f64(p, z, 0.0001984126984106116);
    p = wg_ma_f64(p, z, 0.008333333333333573);
    p = wg_ma_f64(p, z, 0.16666666666666666);
    return wg_ma_f64(z * a, p, a);
}
WG_MADE_OF_EXP(f32, float, 0.693147181f, 1e9f)
WG_MADE_OF_EXP(f64, double, 0x1.62e42fefa39efp-1, 1e18)

/* --- powers ------------------------------------------------------------------------------------------------------- */

/* |x|^y made x^y, with the answers C and NumPy agree on at the ends. One choice after the other: of a nest of them the
   compiler makes branches. */
#define WG_POW(t, T, end, exact)                                                                                       \
    WG T wg_pow_##t(T x, T y) {                                                                                        \
        T power = wg_power_##t(wg_abs_##t(x), y), half = y * (T)0.5;                                                   \
        int whole = __builtin_trunc##end(y) == y;                                                                      \
        int odd = whole & (wg_abs_##t(y) < (T)exact) & (__builtin_trunc##end(half) != half);                           \
        T turned = wg_copysign_##t(power, x);                                                                          \
        power = odd ? turned : power;                                                                                  \
        power = (x < 0) & (x > -WG_INF_##t) & !whole ? WG_NAN_##t : power;                                             \
        power = (x == -1) & (wg_abs_##t(y) == WG_INF_##t) ? 1 : power;                                                 \
        return (y == 0) | (x == 1) ? 1 : power;                                                                        \
    }

/* float32: exp2(y log2|x|) in float64, where the product is exact enough */
WG float wg_power_f32(float x, float y) {
    double a = x;
    uint64_t i = wg_bits_f64(a) - 0x3fe6a09e667f3bcdull;
    double f = wg_of_bits_f64((i & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull) - 1;
    double n = wg_of_bits_f64(((i + 0x4000000000000000ull) >> 52) + (0x4338000000000000ull - 0x400)) - 0x1.8p52;
    double s = f / (2 + f), z = s * s;
    double p = 0.2829344431937015;
    p = wg_ma_f64(p, z, 0.31990335906831663);
    p = wg_ma_f64(p, z, 0.4122093078220351);
    p = wg_ma_f64(p, z, 0.5770779418321315);
    p = wg_ma_f64(p, z, 0.9617966941151183);
    p = wg_ma_f64(p, z, 2.885390081777849);
    double logarithm = wg_ma_f64(s, p, n);
    logarithm = a == 0 ? -WG_INF_f64 : logarithm;
    logarithm = a < WG_INF_f64 ? logarithm : a;
    double e = logarithm * (double)y;
    e = e < -160.0 ? -160.0 : e;
    e = e > 130.0 ? 130.0 : e;
    double shifted = e + 0x1.8p52;
    double r = (e - (shifted - 0x1.8p52)) * 0x1.62e42fefa39efp-1;
    double q = 0.00019802037;
    q = wg_ma_f64(q, r, 0.0013937452);
    q = wg_ma_f64(q, r, 0.00833335);
    q = wg_ma_f64(q, r, 0.041666437);
    q = wg_ma_f64(q, r, 0.16666667);
    q = wg_ma_f64(q, r, 0.5);
    q = 1 + wg_ma_f64(r * r, q, r);
    return (float)(q * wg_power2_f64((int64_t)(wg_bits_f64(shifted) - 0x4338000000000000ull)));
}

/* float64: log|x| as a sum of two numbers (70 bits), times y, and the exponential of both parts */
WG double wg_power_f64(double a, double y) {
    WG_LOG_SPLIT_f64(a, f, n)
    /* s + s_low = f / (2 + f) */
    double bottom = 2 + f, bottom_low = f - (bottom - 2);
    double s = f / bottom;
    double s_low = (__builtin_fma(-s, bottom, f) - s * bottom_low) / bottom;
    /* log(1 + f) = 2 s + 2 s (z / 3 + z^2 p) with z + z_low = s^2: the first two terms in two parts */
    double z = s * s, z_low = __builtin_fma(s, s, -z) + 2 * s * s_low;
    double p = 0.059914396474483995;
    p = wg_ma_f64(p, z, 0.05837826449735359);
    p = wg_ma_f64(p, z, 0.06668135175206309);
    p = wg_ma_f64(p, z, 0.07692279145492305);
    p = wg_ma_f64(p, z, 0.09090909422866207);
    p = wg_ma_f64(p, z, 0.11111111108889309);
    p = wg_ma_f64(p, z, 0.14285714285721934);
    p = wg_ma_f64(p, z, 0.1999999999999999);
    const double third = 0x1.5555555555555p-2, third_low = 0x1.5555555555555p-56;
    double t = z * third, t_low = __builtin_fma(z, third, -t) + z_low * third + z * third_low + z * z * p;
    double c = 2 * s * t, c_low = __builtin_fma(2 * s, t, -c) + 2 * s * t_low + 2 * s_low * t;
    /* n log(2) + 2 s + c, largest first; each sum keeps what it drops */
    const double log_2 = 0x1.62e42fefa39efp-1, log_2_low = 0x1.abc9e3b39803fp-56;
    double whole_part = n * log_2, whole_low = __builtin_fma(n, log_2, -whole_part) + n * log_2_low;
    double first = whole_part + 2 * s, back = first - whole_part;
    double first_low = (whole_part - (first - back)) + (2 * s - back);
    double log_high = first + c, back_c = log_high - first;
    double log_low = (first - (log_high - back_c)) + (c - back_c) + (first_low + whole_low + (2 * s_low + c_low));
    /* y times it */
    double e = y * log_high, e_low = __builtin_fma(y, log_high, -e) + y * log_low;
    double end = a == 0 ? -WG_INF_f64 : a;
    int finite = (a > 0) & (a < WG_INF_f64);
    e = finite ? e : end * y;
    e_low = finite & (wg_abs_f64(e) < 800) ? e_low : 0;
    e = e < -800.0 ? -800.0 : e;
    e = e > 800.0 ? 800.0 : e;
    WG_SPLIT_f64(e, k, r)
    r += e_low;
    double power = 1 + wg_ma_f64(r * r, wg_exp_tail_f64(r), r);
    return wg_scale_f64(power, k);
}
WG_POW(f32, float, f, 0x1p24)
WG_POW(f64, double, , 0x1p53)

/* --- trigonometry ------------------------------------------------------------------------------------------------- */

/* (sin(r) - r) / r^3 and (cos(r) - 1 + r^2 / 2) / r^4 in z = r^2, |r| <= pi / 4; of floats from
   2^48 on, whose turns round less well, up to 0.88 */
WG float wg_sin_part_f32(float r) {
    float z = r * r, p = wg_ma_f32(2.7638105e-06f, z, -0.00019846819f);
    p = wg_ma_f32(p, z, 0.008333366f);
    return wg_ma_f32(z * r, wg_ma_f32(p, z, -0.16666667f), r);
}
WG float wg_cos_part_f32(float r) {
    float z = r * r, p = wg_ma_f32(2.433153e-05f, z, -0.0013886329f);
    return wg_ma_f32(z * z, wg_ma_f32(p, z, 0.041666623f), wg_ma_f32(z, -0.5f, 1));
}
WG double wg_sin_part_f64(double r) {
    double z = r * r, p = 1.5895433426184507e-10;
    p = wg_ma_f64(p, z, -2.50507343912286e-08);
    p = wg_ma_f64(p, z, 2.7557313538523395e-06);
    p = wg_ma_f64(p, z, -0.00019841269829358541);
    p = wg_ma_f64(p, z, 0.00833333333332184);
    p = wg_ma_f64(p, z, -0.1666666666666663);
    return wg_ma_f64(z * r, p, r);
}
WG double wg_cos_part_f64(double r) {
    double z = r * r, p = -1.1358617000180191e-11;
    p = wg_ma_f64(p, z, 2.0875703139402537e-09);
    p = wg_ma_f64(p, z, -2.755731420307812e-07);
    p = wg_ma_f64(p, z, 2.4801587288965227e-05);
    p = wg_ma_f64(p, z, -0.0013888888888873307);
    p = wg_ma_f64(p, z, 0.041666666666666595);
    double half = z * 0.5, top = 1 - half;
    return top + wg_ma_f64(z * z, p, (1 - top) - half);
}

/* How far |x| is into which quarter turn. float32: |x| times 2 / pi, modulo 4, in float64 and exact where it cancels.
   A float from 2^50 on is a multiple of 2^27, and of that many turns only the product with 2^27 * 2 / pi modulo 4
   counts; two more such steps make it right for every float. */
#define WG_TURN_f32(x, r, quarter)                                                                                     \
    double a_ = wg_abs_f32(x);                                                                                         \
    int large_ = a_ >= 0x1p50, larger_ = a_ >= 0x1p77, largest_ = a_ >= 0x1p103;                                       \
    double c_ = large_ ? -0x1.1b1bbead603d9p-1 : 0x1.45f306dc9c883p-1;                                                 \
    double d_ = large_ ? 0x1.5f47d4d377037p-55 : -0x1.6b01ec5417056p-55;                                               \
    double scale_ = large_ ? 0x1p-27 : 1;                                                                              \
    c_ = larger_ ? 0x1.4a7f09d5f47d5p+0 : c_, c_ = largest_ ? -0x1.505c1596447e5p-2 : c_;                              \
    d_ = larger_ ? -0x1.6447e493ad4cep-55 : d_, d_ = largest_ ? 0x1.b14acc9e21c82p-56 : d_;                            \
    scale_ = larger_ ? 0x1p-54 : scale_, scale_ = largest_ ? 0x1p-79 : scale_;                                         \
    a_ *= scale_;                                                                                                      \
    double p_ = a_ * c_, low_ = __builtin_fma(a_, c_, -p_);                                                            \
    double shifted_ = p_ + 0x1.8p52;                                                                                   \
    double part_ = wg_ma_f64(a_, d_, (p_ - (shifted_ - 0x1.8p52)) + low_);                                             \
    float r = (float)(part_ * 0x1.921fb54442d18p+0);                                                                   \
    uint32_t quarter = (uint32_t)wg_bits_f64(shifted_);

/* float64: Cody and Waite's subtraction of a multiple of pi / 2 in three parts, right up to 2^45 */
#define WG_TURN_f64(x, r, quarter)                                                                                     \
    double a_ = wg_abs_f64(x);                                                                                         \
    double shifted_ = wg_ma_f64(a_, 0x1.45f306dc9c883p-1, 0x1.8p52), n_ = shifted_ - 0x1.8p52;                         \
    double r = __builtin_fma(n_, -0x1.921fb54442d18p+0, a_);                                                           \
    r = __builtin_fma(n_, -0x1.1a62633145c07p-54, r);                                                                  \
    r = __builtin_fma(n_, 0x1.f1976b7ed8fbcp-110, r);                                                                  \
    uint64_t quarter = wg_bits_f64(shifted_);

#define WG_TRIGONOMETRY(t, T, to_sign)                                                                                 \
    WG T wg_sin_near_##t(T x) {                                                                                        \
        WG_TURN_##t(x, r, quarter)                                                                                     \
        T y = quarter & 1 ? wg_cos_part_##t(r) : wg_sin_part_##t(r);                                                   \
        return wg_of_bits_##t(wg_bits_##t(y) ^ ((quarter & 2) << to_sign) ^                                            \
                              (wg_bits_##t(x) & wg_bits_##t(-(T)0)));                                                  \
    }                                                                                                                  \
    WG T wg_cos_near_##t(T x) {                                                                                        \
        WG_TURN_##t(x, r, quarter)                                                                                     \
        T y = quarter & 1 ? wg_sin_part_##t(r) : wg_cos_part_##t(r);                                                   \
        return wg_of_bits_##t(wg_bits_##t(y) ^ (((quarter + 1) & 2) << to_sign));                                      \
    }                                                                                                                  \
    WG T wg_tan_near_##t(T x) {                                                                                        \
        WG_TURN_##t(x, r, quarter)                                                                                     \
        T sine = wg_sin_part_##t(r), cosine = wg_cos_part_##t(r);                                                      \
        T y = quarter & 1 ? -cosine / sine : sine / cosine;                                                            \
        return wg_of_bits_##t(wg_bits_##t(y) ^ (wg_bits_##t(x) & wg_bits_##t(-(T)0)));                                 \
    }
WG_TRIGONOMETRY(f32, float, 30)
WG_TRIGONOMETRY(f64, double, 62)
WG float wg_sin_f32(float x) { return wg_sin_near_f32(x); }
WG float wg_cos_f32(float x) { return wg_cos_near_f32(x); }
WG float wg_tan_f32(float x) { return wg_tan_near_f32(x); }
/* wg_sin_f64, wg_cos_f64, wg_tan_f64: far.h */

/* atan(a) for 0 <= a <= 1 */
WG float wg_atan_part_f32(float a) {
    float z = a * a, p = 0.0029194772f;
    p = wg_ma_f32(p, z, -0.016363332f);
    p = wg_ma_f32(p, z, 0.043204863f);
    p = wg_ma_f32(p, z, -0.075516656f);
    p = wg_ma_f32(p, z, 0.1066577f);
    p = wg_ma_f32(p, z, -0.14211002f);
    p = wg_ma_f32(p, z, 0.19993767f);
    p = wg_ma_f32(p, z, -0.33333153f);
    return wg_ma_f32(z * a, p, a);
}
WG float wg_atan_f32(float x) {
    float a = wg_abs_f32(x);
    int steep = a > 1;
    float y = wg_atan_part_f32(steep ? 1 / a : a);
    y = steep ? 0x1.921fb6p+0f - (y + 0x1.777a5cp-25f) : y;
    return wg_copysign_f32(y, x);
}
WG float wg_atan2_f32(float y, float x) {
    float a = wg_abs_f32(x), b = wg_abs_f32(y);
    int steep = b > a;
    float small = steep ? a : b, large = steep ? b : a;
    float slope = large == 0 ? 0 : small == WG_INF_f32 ? 1 : small / large;
    float angle = wg_atan_part_f32(slope);
    angle = steep ? 0x1.921fb6p+0f - (angle + 0x1.777a5cp-25f) : angle;
    angle = wg_bits_f32(x) >> 31 ? 0x1.921fb6p+1f - (angle + 0x1.777a5cp-24f) : angle;
    return (x != x) | (y != y) ? x + y : wg_copysign_f32(angle, y);
}
/* atan(p / q) for 0 <= p <= q; from 0.28 on it is atan(1 / 2) + atan((p - q / 2) / (q + p / 2)) */
WG double wg_atan_part_f64(double p, double q) {
    int far = p > 0.28 * q;
    double a = (far ? p - q / 2 : p) / (far ? q + p / 2 : q), z = a * a, t = 0.029230628341980962;
    t = wg_ma_f64(t, z, -0.04869291047239519);
    t = wg_ma_f64(t, z, 0.0583328967569695);
    t = wg_ma_f64(t, z, -0.06662897705714912);
    t = wg_ma_f64(t, z, 0.07692126647950116);
    t = wg_ma_f64(t, z, -0.09090903764682916);
    t = wg_ma_f64(t, z, 0.11111111020756197);
    t = wg_ma_f64(t, z, -0.14285714284933687);
    t = wg_ma_f64(t, z, 0.19999999999997378);
    t = wg_ma_f64(t, z, -0.3333333333333333);
    double y = wg_ma_f64(z * a, t, a);
    return far ? 0x1.dac670561bb4fp-2 + (y + 0x1.a2b7f222f65e2p-56) : y;
}
WG double wg_atan_f64(double x) {
    double a = wg_abs_f64(x);
    int steep = a > 1;
    double y = wg_atan_part_f64(steep ? 1 : a, steep ? a : 1);
    y = steep ? 0x1.921fb54442d18p+0 - (y - 0x1.1a62633145c07p-54) : y;
    return x != x ? x : wg_copysign_f64(y, x);
}
WG double wg_atan2_f64(double y, double x) {
    double a = wg_abs_f64(x), b = wg_abs_f64(y);
    int steep = b > a;
    double small = steep ? a : b, large = steep ? b : a;
    double scale = large > 0x1p1000 ? 0x1p-100 : large < 0x1p-900 ? 0x1p100 : 1; /* sum and half must not lose anything */
    int none = (large == 0) | (small == WG_INF_f64);
    double p = none ? large != 0 : small * scale, q = none ? 1 : large * scale;
    double angle = wg_atan_part_f64(p, q);
    angle = steep ? 0x1.921fb54442d18p+0 - (angle - 0x1.1a62633145c07p-54) : angle;
    angle = wg_bits_f64(x) >> 63 ? 0x1.921fb54442d18p+1 - (angle - 0x1.1a62633145c07p-53) : angle;
    return (x != x) | (y != y) ? x + y : wg_copysign_f64(angle, y);
}
/* (asin(s) - s) / s^3 in z = s^2, s <= 1/2; beyond, asin(a) = pi / 2 - 2 asin(sqrt((1 - a) / 2)) */
WG float wg_asin_part_f32(float s, float z) {
    float p = 0.042158388f;
    p = wg_ma_f32(p, z, 0.024184743f);
    p = wg_ma_f32(p, z, 0.045469154f);
    p = wg_ma_f32(p, z, 0.074953094f);
    p = wg_ma_f32(p, z, 0.16666752f);
    return wg_ma_f32(z * s, p, s);
}
WG float wg_asin_f32(float x) {
    float a = wg_abs_f32(x);
    int steep = a > 0.5f;
    float z = steep ? (1 - a) * 0.5f : a * a;
    float y = wg_asin_part_f32(steep ? wg_sqrt_f32(z) : a, z);
    y = steep ? 0x1.921fb6p+0f - (2 * y + 0x1.777a5cp-25f) : y;
    return wg_copysign_f32(y, x);
}
WG float wg_acos_f32(float x) {
    float a = wg_abs_f32(x);
    int steep = a > 0.5f;
    float z = steep ? (1 - a) * 0.5f : a * a;
    float y = wg_asin_part_f32(steep ? wg_sqrt_f32(z) : x, z);
    float near = x > 0 ? 2 * y : 0x1.921fb6p+1f - (2 * y + 0x1.777a5cp-24f);
    return steep ? near : 0x1.921fb6p+0f - (y + 0x1.777a5cp-25f);
}
/* from the C library: not vectorised */
WG double wg_asin_f64(double x) { return asin(x); }
WG double wg_acos_f64(double x) { return acos(x); }

WG float wg_hypot_f32(float x, float y) {
    double a = x, b = y;
    float r = (float)wg_sqrt_f64(a * a + b * b);
    return (wg_abs_f32(x) == WG_INF_f32) | (wg_abs_f32(y) == WG_INF_f32) ? WG_INF_f32 : r;
}
/* scaled so that no square overflows or loses its digits */
WG double wg_hypot_f64(double x, double y) {
    double a = wg_abs_f64(x), b = wg_abs_f64(y);
    double large = a > b ? a : b;
    double down = large > 0x1p500 ? 0x1p-600 : large < 0x1p-500 ? 0x1p600 : 1;
    double up = large > 0x1p500 ? 0x1p600 : large < 0x1p-500 ? 0x1p-600 : 1;
    a *= down, b *= down;
    double square = a * a, low = __builtin_fma(a, a, -square);
    double r = wg_sqrt_f64(square + __builtin_fma(b, b, low)) * up;
    return (wg_abs_f64(x) == WG_INF_f64) | (wg_abs_f64(y) == WG_INF_f64) ? WG_INF_f64 : r;
}

/* --- the error function ------------------------------------------------------------------------------------------- */

/* float32: a polynomial below 0.92; further out log(erfc) is one */
WG float wg_erf_near_f32(float x) {
    float z = x * x, p = 7.995175e-05f;
    p = wg_ma_f32(p, z, -0.00080495304f);
    p = wg_ma_f32(p, z, 0.005192393f);
    p = wg_ma_f32(p, z, -0.02685573f);
    p = wg_ma_f32(p, z, 0.11283626f);
    p = wg_ma_f32(p, z, -0.3761263f);
    p = wg_ma_f32(p, z, 0.12837917f);
    return wg_ma_f32(x, p, x);
}
WG float wg_erf_f32(float x) {
    float a = wg_abs_f32(x), t = a > 4 ? 4 : a;
    float q = -2.1098826e-05f;
    q = wg_ma_f32(q, t, 0.00043449522f);
    q = wg_ma_f32(q, t, -0.0041711717f);
    q = wg_ma_f32(q, t, 0.025119605f);
    q = wg_ma_f32(q, t, -0.108280234f);
    q = wg_ma_f32(q, t, -0.63334686f);
    q = wg_ma_f32(q, t, -1.1295149f);
    q = wg_ma_f32(q, t, 0.00017468318f);
    float far = 1 - wg_exp_f32(q);
    return wg_copysign_f32(a < 0.92f ? wg_erf_near_f32(a) : far, x);
}
/* e^(a^2) erfc(a) is t = 1 / (a + 2) times a polynomial in u = 1 - 4 t = (a - 2) / (a + 2); what rounding a^2 drops is
   made up for */
WG float wg_erfc_f32(float x) {
    float a = wg_abs_f32(x);
    a = a > 10.2f ? 10.2f : a;
    float t = 1 / (a + 2), u = wg_ma_f32(-4, t, 1);
    float p = -0.00046413633f;
    p = wg_ma_f32(p, u, -0.0007570664f);
    p = wg_ma_f32(p, u, 0.002982297f);
    p = wg_ma_f32(p, u, 0.0064396667f);
    p = wg_ma_f32(p, u, -0.021485172f);
    p = wg_ma_f32(p, u, -0.03643592f);
    p = wg_ma_f32(p, u, 0.27946997f);
    p = wg_ma_f32(p, u, -0.6871609f);
    p = wg_ma_f32(p, u, 1.0215827f) * t;
    float square = a * a, dropped = __builtin_fmaf(a, a, -square);
    float y = wg_exp_f32(-square) * wg_ma_f32(-dropped, p, p);
    return x < 0 ? 2 - y : y;
}
/* float64: the rational functions of ops/special.py, below 1 and from 1 on */
WG double wg_erf_near_f64(double x) {
    double z = x * x;
    double top = 0.00019495923726023075, bottom = 2.029790462265773e-5;
    top = wg_ma_f64(top, z, 0.0018273013509439323);
    top = wg_ma_f64(top, z, 0.045304001252692237);
    top = wg_ma_f64(top, z, 0.14214916543924506);
    top = wg_ma_f64(top, z, 1.1283791670955126);
    bottom = wg_ma_f64(bottom, z, 0.00068122213763916209);
    bottom = wg_ma_f64(bottom, z, 0.010582244394242084);
    bottom = wg_ma_f64(bottom, z, 0.093252876132968135);
    bottom = wg_ma_f64(bottom, z, 0.45930975117623058);
    bottom = wg_ma_f64(bottom, z, 1.0);
    return x * top / bottom;
}
WG double wg_erfc_far_f64(double a) {
    a = a > 28 ? 28 : a;
    double t = 1 / (a + 2);
    double top = 82.651498433468679, bottom = 40.894087039416082;
    top = wg_ma_f64(top, t, 129.81660200530926);
    top = wg_ma_f64(top, t, 119.35373295888698);
    top = wg_ma_f64(top, t, 110.03632957079972);
    top = wg_ma_f64(top, t, 36.236123155840777);
    top = wg_ma_f64(top, t, 46.764990851762619);
    top = wg_ma_f64(top, t, 0.82001244871641458);
    top = wg_ma_f64(top, t, 9.1351493613685968);
    top = wg_ma_f64(top, t, -0.40608501091899897);
    top = wg_ma_f64(top, t, 0.56418958354774858);
    bottom = wg_ma_f64(bottom, t, -54.68732176971416);
    bottom = wg_ma_f64(bottom, t, 130.29747466808296);
    bottom = wg_ma_f64(bottom, t, -84.712087955277845);
    bottom = wg_ma_f64(bottom, t, 88.85797029617172);
    bottom = wg_ma_f64(bottom, t, -30.289710628525685);
    bottom = wg_ma_f64(bottom, t, 18.131164547711858);
    bottom = wg_ma_f64(bottom, t, -2.7197669414041645);
    bottom = wg_ma_f64(bottom, t, 1.0);
    double square = a * a, dropped = __builtin_fma(a, a, -square);
    double ratio = t * top / bottom;
    return wg_exp_f64(-square) * wg_ma_f64(-dropped, ratio, ratio);
}
WG double wg_erf_f64(double x) {
    double a = wg_abs_f64(x);
    double y = a < 1 ? wg_erf_near_f64(a) : 1 - wg_erfc_far_f64(a);
    return wg_copysign_f64(y, x);
}
WG double wg_erfc_f64(double x) {
    double far = wg_erfc_far_f64(wg_abs_f64(x));
    double beyond = x < 0 ? 2 - far : far;
    return wg_abs_f64(x) < 1 ? 1 - wg_erf_near_f64(x) : beyond;
}
#endif
/* one of Halley's steps towards erf(x) = size; near 1 the distance is taken between complements, where it is exact */
WG double wg_erfinv_step(double x, double size) {
    double near = wg_erf_f64(x) - size, far = (1 - size) - wg_erfc_f64(x);
    double step = (size < 0.5 ? near : far) * 0.886226925452758 * wg_exp_f64(x * x);
    return x - step / (1 + x * step);
}
/* Winitzki's closed form, good to 0.2 %, and two steps, each of which cubes the error */
WG double wg_erfinv_f64(double y) {
    double size = wg_abs_f64(y), logarithm = wg_log1p_f64(-size * size);
    double half = 2 / (3.141592653589793 * 0.147) + logarithm / 2;
    double x = wg_sqrt_f64(-logarithm / 0.147 / (wg_sqrt_f64(half * half - logarithm / 0.147) + half));
    x = wg_erfinv_step(wg_erfinv_step(x, size), size);
    double end = size == 1 ? WG_INF_f64 : WG_NAN_f64;
    x = size < 1 ? x : end;
    return wg_copysign_f64(x, y);
}
WG float wg_erfinv_f32(float y) { return (float)wg_erfinv_f64(y); }

/* --- the gamma function's logarithm and derivatives: as in ops/special.py, in float64, not vectorised ------------- */

WG double wg_horner(const double *coefficients, int count, double x) {
    double total = coefficients[count - 1];
    for (int i = count - 2; i >= 0; i--) total = total * x + coefficients[i];
    return total;
}
#define WG_HORNER(table, x) wg_horner(table, sizeof(table) / sizeof(table[0]), x)

/* 0.5 <= x < 8: down in steps of 1 to below 2.5 */
WG_CALL double wg_lgamma_middle(double x) {
    static const double top[] = {2.7573562411470015, 115.97371479361496, 1034.6564829931297,
                                 3075.7260923180075, 3528.8389320758474, 1582.4104975695402,
                                 253.73324900808709, 10.90170257603801,  0.028491708015303525};
    static const double bottom[] = {1.0,                68.905676953361319, 899.8335652753582,
                                    3805.6432489374881, 6270.7553753252332, 4284.2467018304336,
                                    1188.5394464926238, 118.3999583377497,  2.9495040444380974};
    double product = 1;
    while (x >= 2.5) {
        x -= 1;
        product *= x;
    }
    return (x - 1) * (x - 2) * (WG_HORNER(top, x) / WG_HORNER(bottom, x)) + log(product);
}
/* x >= 0.5 */
WG_CALL double wg_lgamma_positive(double x) {
    static const double stirling[] = {1. / 12,   -1. / 360,      1. / 1260, -1. / 1680,
                                      1. / 1188, -691. / 360360, 1. / 156,  -3617. / 122400};
    if (x < 8) return wg_lgamma_middle(x);
    double logarithm = log(x);
    return x * (logarithm - 1) - 0.5 * logarithm + 0.91893853320467274 + WG_HORNER(stirling, 1 / (x * x)) / x;
}
WG_CALL double wg_lgamma_f64(double x) {
    if (x != x) return x;
    if (__builtin_isinf(x)) return WG_INF_f64;
    if (fabs(x) < 0.5) return wg_lgamma_middle(1 + x) - log(fabs(x));
    if (x > 0) return wg_lgamma_positive(x);
    double sine = sin(3.141592653589793 * fabs(x - rint(x)));
    return sine > 0 ? log(3.141592653589793 / sine) - wg_lgamma_positive(1 - x) : WG_INF_f64;
}
WG float wg_lgamma_f32(float x) { return (float)wg_lgamma_f64(x); }

/* x >= 1 */
WG_CALL double wg_digamma_positive(double x) {
    static const double top[] = {1.2503801375034053,  1.6688494588084343,    0.71582813249555085,
                                 0.11380972053231725, 0.0054181409092182644, 1.6967203356793116e-5};
    static const double bottom[] = {1.0,                 2.0182204944880807,   1.350244990653301,
                                    0.37088638761398203, 0.040094175832378058, 0.0012320589032494183};
    static const double series[] = {1. / 12,  -1. / 120,     1. / 252, -1. / 240,
                                    1. / 132, -691. / 32760, 1. / 12,  -3617. / 8160};
    if (x >= 8) {
        double z = 1 / (x * x);
        return log(x) - 0.5 / x - z * WG_HORNER(series, z);
    }
    double total = 0;
    while (x >= 2) {
        x -= 1;
        total += 1 / x;
    }
    double from_root = (x - 1.4616321449683622) - 9.549995429965697e-17;
    return from_root * WG_HORNER(top, x - 1) / WG_HORNER(bottom, x - 1) + total;
}
WG_CALL double wg_digamma_f64(double x) {
    if (x != x) return x;
    if (x == 0) return copysign(WG_INF_f64, -x);
    if (x >= 1) return wg_digamma_positive(x);
    if (x > 0) return wg_digamma_positive(1 + x) - 1 / x;
    double r = x - rint(x);
    return r != 0 ? wg_digamma_positive(1 - x) - 3.141592653589793 / tan(3.141592653589793 * r) : WG_NAN_f64;
}
WG float wg_digamma_f32(float x) { return (float)wg_digamma_f64(x); }

/* n! times the sum of (x + k)^-(n + 1) over k >= 0, with its sign: first terms one by one, then Euler and Maclaurin */
WG_CALL double wg_polygamma_positive(double x, int n) {
    static const double numbers[] = {1. / 12,
                                     -1. / 720,
                                     1. / 30240,
                                     -1. / 1209600,
                                     1. / 47900160,
                                     -691. / 1307674368000,
                                     1. / 74724249600,
                                     -3617. / 10670622842880000};
    int s = n + 1, terms = 10 + s;
    double total = 0, factorial = 1;
    for (int k = 0; k < terms; k++) total += pow(x + k, -s);
    double a = x + terms;
    total += pow(a, 1 - s) / (s - 1) + pow(a, -s) / 2;
    double term = s * pow(a, -s - 1);
    for (int j = 1; j <= 8; j++) {
        total += numbers[j - 1] * term;
        term = term * (s + 2 * j - 1) * (s + 2 * j) / (a * a);
    }
    for (int k = 2; k <= n; k++) factorial *= k;
    return (n % 2 ? 1 : -1) * factorial * total;
}
/* the n-th derivative of cot as a polynomial in cot: the derivative of cot is -(1 + cot^2). n is below 171, as n! */
WG_CALL double wg_cotangent_derivative(double cotangent, int n) {
    double now[180] = {0, 1}, next[180];
    for (int degree = 1; degree <= n; degree++) {
        for (int i = 0; i <= degree + 1; i++) {
            double below = i >= 2 ? (i - 1) * now[i - 1] : 0;
            double above = i + 1 <= degree ? (i + 1) * now[i + 1] : 0;
            next[i] = -(above + below);
        }
        for (int i = 0; i <= degree + 1; i++) now[i] = next[i];
    }
    return wg_horner(now, n + 2, cotangent);
}
WG_CALL double wg_polygamma_f64(double x, int n) {
    if (x != x) return x;
    if (x > 0) return wg_polygamma_positive(x, n);
    double r = x - rint(x);
    if (r == 0) return n % 2 ? WG_INF_f64 : x == 0 ? copysign(WG_INF_f64, -x) : WG_NAN_f64;
    double bend = pow(3.141592653589793, n + 1) * wg_cotangent_derivative(1 / tan(3.141592653589793 * r), n);
    return (n % 2 ? -1 : 1) * wg_polygamma_positive(1 - x, n) - bend;
}
WG float wg_polygamma_f32(float x, int n) { return (float)wg_polygamma_f64(x, n); }

/* --- the normal distribution: as in ops/normal.py, in float64, not vectorised ------------------------------------- */

/* the asymptotic series of the n-th derivative, up to its smallest term */
WG_CALL double wg_erfcx_far(double x, int n) {
    double total = 0, term = 1, last = WG_INF_f64, power = x;
    for (int k = 0; k < 40; k++) {
        double slope = 1;
        for (int i = 0; i < n; i++) slope *= 2 * k + 1 + i;
        if (!(fabs(term) * slope < last)) break;
        last = fabs(term) * slope;
        total += term * slope;
        term *= -(2 * k + 1) / (2 * x * x);
    }
    for (int i = 0; i < n; i++) power *= -x;
    return total / (power * 1.772453850905516);
}
WG_CALL double wg_erfcx_value(double x) {
    static const double top[] = {0.56418958354774858, -0.40608501091899897, 9.1351493613685968, 0.82001244871641458,
                                 46.764990851762619,  36.236123155840777,   110.03632957079972, 119.35373295888698,
                                 129.81660200530926,  82.651498433468679};
    static const double bottom[] = {1.0,
                                    -2.7197669414041645,
                                    18.131164547711858,
                                    -30.289710628525685,
                                    88.85797029617172,
                                    -84.712087955277845,
                                    130.29747466808296,
                                    -54.68732176971416,
                                    40.894087039416082};
    if (x != x) return x;
    if (x < -26.7) return WG_INF_f64;
    if (x < 1) {
        double high = floor(x * 16) / 16; /* rounding x^2 would cost digits */
        return exp(high * high) * exp((x - high) * (x + high)) * wg_erfc_f64(x);
    }
    if (x >= 28) return wg_erfcx_far(x, 0);
    double t = 1 / (x + 2);
    return t * WG_HORNER(top, t) / WG_HORNER(bottom, t);
}
WG_CALL double wg_erfcx_f64(double x, int n) {
    if (n == 0) return wg_erfcx_value(x);
    if (x > 9) return wg_erfcx_far(x, n);
    double before = wg_erfcx_value(x), now = 2 * x * before - 1.1283791670955126;
    for (int k = 1; k < n; k++) {
        double next = 2 * x * now + 2 * k * before;
        before = now;
        now = next;
    }
    return now;
}
WG float wg_erfcx_f32(float x, int n) { return (float)wg_erfcx_f64(x, n); }
WG_CALL double wg_log_ndtr_f64(double x) {
    if (x > -1) return log1p(-wg_erfc_f64(x / 1.4142135623730951) / 2);
    return log(wg_erfcx_value(-x / 1.4142135623730951) / 2) - x * x / 2;
}
WG float wg_log_ndtr_f32(float x) { return (float)wg_log_ndtr_f64(x); }
/* in a tail by Halley's steps on the logarithm, from Abramowitz and Stegun 26.2.23 */
WG_CALL double wg_ndtri_f64(double p) {
    if (!(p > 0 && p < 1)) return p == 0 ? -WG_INF_f64 : p == 1 ? WG_INF_f64 : WG_NAN_f64;
    if (p >= 0.1 && p <= 0.9) return 1.4142135623730951 * wg_erfinv_f64(2 * p - 1);
    double wanted = log(p < 0.5 ? p : 1 - p), t = sqrt(-2 * wanted);
    double x = (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))) - t;
    for (int i = 0; i < 3; i++) {
        double slope = 0.79788456080286541 / wg_erfcx_value(-x / 1.4142135623730951);
        double error = (wg_log_ndtr_f64(x) - wanted) / slope;
        x -= error / (1 - error * (x + slope) / 2);
    }
    return p < 0.5 ? x : -x;
}
WG float wg_ndtri_f32(float p) { return (float)wg_ndtri_f64(p); }

/* --- integers: they wrap around, division rounds down, and by zero gives 0 ---------------------------------------- */

#define WG_INTEGER(t, T, U)                                                                                            \
    WG T wg_square_##t(T x) { return (T)((U)x * (U)x); }                                                               \
    WG T wg_safe_multiply_##t(T g, T d) { return (T)((U)g * (U)d); }                                                           \
    WG T wg_maximum_##t(T a, T b) { return a > b ? a : b; }                                                            \
    WG T wg_minimum_##t(T a, T b) { return a < b ? a : b; }                                                            \
    WG T wg_sign_##t(T x) { return (T)((x > 0) - (x < 0)); }                                                           \
    WG_CALL T wg_gcd_##t(T a, T b) {                                                                                   \
        U x = a < 0 ? 0 - (U)a : (U)a, y = b < 0 ? 0 - (U)b : (U)b;                                                    \
        while (y) {                                                                                                    \
            U rest = x % y;                                                                                            \
            x = y;                                                                                                     \
            y = rest;                                                                                                  \
        }                                                                                                              \
        return (T)x;                                                                                                   \
    }                                                                                                                  \
    WG T wg_bitwise_left_shift_##t(T a, T b) {                                                                         \
        return (uint64_t)b < 8 * sizeof(T) ? (T)((U)a << (b & (T)(8 * sizeof(T) - 1))) : 0;                            \
    }                                                                                                                  \
    WG T wg_bitwise_right_shift_##t(T a, T b) {                                                                        \
        T over = (T)(a < 0 ? -1 : 0);                                                                                  \
        return (uint64_t)b < 8 * sizeof(T) ? (T)(a >> (b & (T)(8 * sizeof(T) - 1))) : over;                            \
    }                                                                                                                  \
    /* to a negative power, where NumPy raises, only 1 and -1 have one */                                              \
    WG_CALL T wg_pow_##t(T a, T b) {                                                                                   \
        if (b < 0) return a == 1 ? 1 : a == (T)-1 ? (b & 1 ? (T)-1 : 1) : 0;                                           \
        U power = 1, factor = (U)a;                                                                                    \
        for (; b; b >>= 1) {                                                                                           \
            power = b & 1 ? power * factor : power;                                                                    \
            factor *= factor;                                                                                          \
        }                                                                                                              \
        return (T)power;                                                                                               \
    }
#define WG_SIGNED(t, T, U)                                                                                             \
    WG_INTEGER(t, T, U)                                                                                                \
    WG T wg_abs_##t(T x) { return x < 0 ? (T)(0 - (U)x) : x; }                                                         \
    /* by -1 is the negative: the quotient of the smallest number would not fit, and stops the program */              \
    WG T wg_floor_divide_##t(T a, T b) {                                                                               \
        T by = (b == 0) | (b == -1) ? 1 : b;                                                                           \
        T quotient = (T)(a / by), rest = (T)(a % by);                                                                  \
        T down = (rest != 0) & ((rest < 0) != (by < 0)) ? (T)(quotient - 1) : quotient;                                \
        return b == 0 ? 0 : b == -1 ? (T)(0 - (U)a) : down;                                                            \
    }                                                                                                                  \
    WG T wg_remainder_##t(T a, T b) {                                                                                  \
        T by = (b == 0) | (b == -1) ? 1 : b;                                                                           \
        T rest = (T)(a % by);                                                                                          \
        return (rest != 0) & ((rest < 0) != (by < 0)) ? (T)(rest + by) : rest;                                         \
    }
#define WG_UNSIGNED(t, T, U)                                                                                           \
    WG_INTEGER(t, T, U)                                                                                                \
    WG T wg_floor_divide_##t(T a, T b) { return b == 0 ? 0 : (T)(a / (b == 0 ? 1 : b)); }                              \
    WG T wg_remainder_##t(T a, T b) { return b == 0 ? 0 : (T)(a % (b == 0 ? 1 : b)); }
WG_SIGNED(i8, int8_t, uint32_t)
WG_SIGNED(i16, int16_t, uint32_t)
WG_SIGNED(i32, int32_t, uint32_t)
WG_SIGNED(i64, int64_t, uint64_t)
WG_UNSIGNED(u8, uint8_t, uint32_t)
WG_UNSIGNED(u16, uint16_t, uint32_t)
WG_UNSIGNED(u32, uint32_t, uint32_t)
WG_UNSIGNED(u64, uint64_t, uint64_t)
WG uint8_t wg_maximum_b8(uint8_t a, uint8_t b) { return a | b; }
WG uint8_t wg_minimum_b8(uint8_t a, uint8_t b) { return a & b; }

/* --- casts -------------------------------------------------------------------------------------------------------- */

/* floats to integers, towards zero. NaN becomes 0, and what does not fit the nearest number that does, on every machine:
   what C makes of it is undefined. The cast is of a number that fits, also where a vector computes both ways. */
#define WG_TO_INTEGER(t, T, i, I, low, high, LOW, HIGH)                                                                \
    WG I wg_##t##_to_##i(T x) {                                                                                        \
        int inside = (x > (T)(low)) & (x < (T)(high));                                                                 \
        I whole = (I)(inside ? x : 0), limit = x >= (T)(high) ? HIGH : x <= (T)(low) ? LOW : 0;                        \
        return inside ? whole : limit;                                                                                 \
    }
#define WG_TO_INTEGERS(t, T)                                                                                           \
    WG_TO_INTEGER(t, T, i8, int8_t, -128.0, 127.0, -128, 127)                                                          \
    WG_TO_INTEGER(t, T, i16, int16_t, -32768.0, 32767.0, -32768, 32767)                                                \
    WG_TO_INTEGER(t, T, i32, int32_t, -0x1p31, 0x1p31, (-2147483647 - 1), 2147483647)                                  \
    WG_TO_INTEGER(t, T, i64, int64_t, -0x1p63, 0x1p63, (-9223372036854775807LL - 1), 9223372036854775807LL)            \
    WG_TO_INTEGER(t, T, u8, uint8_t, 0.0, 255.0, 0, 255)                                                               \
    WG_TO_INTEGER(t, T, u16, uint16_t, 0.0, 65535.0, 0, 65535)                                                         \
    WG_TO_INTEGER(t, T, u32, uint32_t, 0.0, 0x1p32, 0, 4294967295u)                                                    \
    WG_TO_INTEGER(t, T, u64, uint64_t, 0.0, 0x1p64, 0, 18446744073709551615ull)
WG_TO_INTEGERS(f32, float)
WG_TO_INTEGERS(f64, double)

#ifndef WG_DEVICE
/* float16 and bfloat16, by their bits: integer instructions, which vectorise everywhere (the processors' own
   conversions are reached by intrinsics, around which a loop stays scalar). Rounded to nearest, ties to even; NaN
   stays NaN. */
WG float wg_from_bf16(uint16_t h) { return wg_of_bits_f32((uint32_t)h << 16); }
WG uint16_t wg_to_bf16(float x) {
    uint32_t b = wg_bits_f32(x), up = b + 0x7fffu + ((b >> 16) & 1);
    return (uint16_t)(((b & 0x7fffffffu) > 0x7f800000u ? b | 0x400000u : up) >> 16);
}
WG float wg_from_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, size = h & 0x7fffu;
    /* read as a float it is 2^112 times too small, also if subnormal */
    uint32_t b = wg_bits_f32(wg_of_bits_f32(size << 13) * 0x1p112f);
    return wg_of_bits_f32((size >= 0x7c00u ? b | 0x7f800000u : b) | sign);
}
WG uint16_t wg_to_f16(float x) {
    uint32_t b = wg_bits_f32(x), sign = (b >> 16) & 0x8000u, size = b & 0x7fffffffu;
    /* adding 0.5 to a subnormal one leaves its digits, rounded, as the low bits */
    uint32_t small = wg_bits_f32(wg_of_bits_f32(size) + 0.5f) - 0x3f000000u;
    uint32_t normal = (size - 0x38000000u + 0xfffu + ((size >> 13) & 1)) >> 13;
    uint32_t large = size > 0x7f800000u ? 0x7e00u | ((size >> 13) & 0x3ffu) : 0x7c00u;
    return (uint16_t)(sign | (size < 0x38800000u ? small : size < 0x477ff000u ? normal : large));
}
WG float wg_round_bf16(float x) { return wg_from_bf16(wg_to_bf16(x)); }
#endif
WG float wg_round_f16(float x) { return wg_from_f16(wg_to_f16(x)); }
/* from float64: first to float32 with the last bit set if anything was dropped ("to odd"), and so rounded once */
WG float wg_round_f16_f64(double x) {
    float f = (float)x;
    uint32_t b = wg_bits_f32(f), odd = wg_abs_f64(f) > wg_abs_f64(x) ? b - 1 : b;
    odd = f == x ? b : odd | 1;
    return wg_round_f16(wg_abs_f32(f) < WG_INF_f32 ? wg_of_bits_f32(odd) : f);
}
#define WG_NEXTAFTER_HALF(t)                                                                                           \
    WG float wg_nextafter_##t(float a, float b) {                                                                      \
        uint16_t bits = wg_to_##t(a);                                                                                  \
        uint16_t next = (uint16_t)((a < b) == (a > 0) ? bits + 1 : bits - 1);                                          \
        next = a == 0 ? (uint16_t)((wg_to_##t(b) & 0x8000u) | 1) : next;                                               \
        float moved = a == b ? b : wg_from_##t(next);                                                                  \
        return (a != a) | (b != b) ? a + b : moved;                                                                    \
    }
WG_NEXTAFTER_HALF(f16)
WG_NEXTAFTER_HALF(bf16)

/* --- random bits -------------------------------------------------------------------------------------------------- */

/* Philox4x32-10: the four words of the block numbered by `position` and `stream`, under a key of two words */
WG void wg_philox_block(uint32_t key0, uint32_t key1, uint64_t position, uint64_t stream, uint32_t words[4]) {
    uint32_t c0 = (uint32_t)position, c1 = (uint32_t)(position >> 32);
    uint32_t c2 = (uint32_t)stream, c3 = (uint32_t)(stream >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t product0 = (uint64_t)c0 * 0xD2511F53u, product1 = (uint64_t)c2 * 0xCD9E8D57u;
        c0 = (uint32_t)(product1 >> 32) ^ c1 ^ key0;
        c1 = (uint32_t)product1;
        c2 = (uint32_t)(product0 >> 32) ^ c3 ^ key1;
        c3 = (uint32_t)product0;
        key0 += 0x9E3779B9u;
        key1 += 0xBB67AE85u;
    }
    words[0] = c0, words[1] = c1, words[2] = c2, words[3] = c3;
}
/* element `index` of the draw that starts at block `counter`: what random_bits computes. Vectorises over the index, at
   the price of making four words for one; a loop over blocks with wg_philox_block makes each once. */
WG uint32_t wg_philox(uint32_t key0, uint32_t key1, uint64_t counter, uint64_t stream, uint64_t index) {
    uint32_t words[4];
    wg_philox_block(key0, key1, counter + (index >> 2), stream, words);
    uint32_t even = index & 2 ? words[2] : words[0], odd = index & 2 ? words[3] : words[1];
    return index & 1 ? odd : even;
}

#ifndef WG_DEVICE
/* --- an index that is compared with: what checked_index computes. The program looks at wg_error and raises ---------- */
extern int wg_error;
WG int64_t wg_checked_index(int64_t index, int64_t size) {
    if (index < -size || index >= size) wg_error = 1;
    return index < 0 ? index + size : index;
}

#endif
#endif
