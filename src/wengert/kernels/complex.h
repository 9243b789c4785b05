/* Complex numbers: what C and CUDA C++ say differently, and the functions, which are one text for both (`exp` of
   complex64 is wg_exp_c64). In C they are C's own, whose sums, loads and stores the compiler vectorises; products and
   quotients are ours, since C's look for infinities in them. */

#ifndef WENGERT_COMPLEX_H
#define WENGERT_COMPLEX_H

#ifdef WG_DEVICE
#define WG_PARTS_OF(c, T, X)                                                                                           \
    WG T wg_of_parts_##c(X x, X y) { return T(x, y); }                                                                 \
    WG X wg_real_##c(T z) { return z.x; }                                                                              \
    WG X wg_imag_##c(T z) { return z.y; }
WG float wg_exact_ma_f32(float a, float b, float c) { return fmaf(a, b, c); }
WG double wg_exact_ma_f64(double a, double b, double c) { return fma(a, b, c); }
#else
#include "far.h"
#define WG_PARTS_OF(c, T, X)                                                                                           \
    WG T wg_of_parts_##c(X x, X y) { return __builtin_complex(x, y); }                                                 \
    WG X wg_real_##c(T z) { return __real__ z; }                                                                       \
    WG X wg_imag_##c(T z) { return __imag__ z; }
WG float wg_exact_ma_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
WG double wg_exact_ma_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }
#endif
WG_PARTS_OF(c64, wg_c64, float)
WG_PARTS_OF(c128, wg_c128, double)

/* a product, rounded: on a device no addition takes it in. (In C none does if what rounding drops is asked for as well.) */
#if defined(WG_DEVICE) && !defined(WG_EMULATED)
WG float wg_rounded_product_f32(float a, float b) { return __fmul_rn(a, b); }
WG double wg_rounded_product_f64(double a, double b) { return __dmul_rn(a, b); }
#else
WG float wg_rounded_product_f32(float a, float b) { return a * b; }
WG double wg_rounded_product_f64(double a, double b) { return a * b; }
#endif

#define COMPLEX wg_c64
#define REAL float
#define Z(name) wg_##name##_c64
#define R(name) wg_##name##_f32
#define TOP 88
#define E_TOP 1.6516363e38f
#define LOG_2 0.693147181f
#define LARGE 0x1p100f
#define TINY 0x1p-60f
#define FAR 0x1p14f
#include "complex_functions.h"
#undef COMPLEX
#undef REAL
#undef Z
#undef R
#undef TOP
#undef E_TOP
#undef LOG_2
#undef LARGE
#undef TINY
#undef FAR

#define COMPLEX wg_c128
#define REAL double
#define Z(name) wg_##name##_c128
#define R(name) wg_##name##_f64
#define TOP 709
#define E_TOP 8.218407461554972e307
#define LOG_2 0x1.62e42fefa39efp-1
#define LARGE 0x1p1000
#define TINY 0x1p-900
#define FAR 0x1p30
#include "complex_functions.h"
#undef COMPLEX
#undef REAL
#undef Z
#undef R
#undef TOP
#undef E_TOP
#undef LOG_2
#undef LARGE
#undef TINY
#undef FAR

#endif
