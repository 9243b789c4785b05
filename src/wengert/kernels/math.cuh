/* The mathematics of fused kernels on a CUDA device: the functions of math.h under the same names. Exponentials,
   logarithms, trigonometry and the error function are CUDA's own, in full accuracy (expf, logf, tanhf, sinf within
   1 ulp, erff 2, powf 4; see the CUDA programming guide); what is the same text on both sides is taken from math.h. */

#ifndef WENGERT_MATH_CUH
#define WENGERT_MATH_CUH

#define WG_DEVICE
#define WG static __device__ __forceinline__
#define WG_CALL static __device__ __noinline__

#ifndef WG_EMULATED
#pragma nv_diag_suppress 186 // unsigned numbers are compared with zero where one text serves all integers
/* what NVRTC has no headers for */
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#define INT8_MIN (-128)
#define INT16_MIN (-32768)
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807LL - 1)
#define INT8_MAX 127
#define INT16_MAX 32767
#define INT32_MAX 2147483647
#define INT64_MAX 9223372036854775807LL
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000LL)
#define __builtin_nanf(none) __int_as_float(0x7fc00000)
#define __builtin_nan(none) __longlong_as_double(0x7ff8000000000000LL)
#define __builtin_fmodf fmodf
#define __builtin_fmod fmod
#define __builtin_floorf floorf
#define __builtin_floor floor
#define __builtin_isinf isinf
#endif
#define WG_INF_f32 __builtin_inff()
#define WG_INF_f64 __builtin_inf()
#define WG_NAN_f32 __builtin_nanf("")
#define WG_NAN_f64 __builtin_nan("")

WG uint32_t wg_bits_f32(float x) { return __float_as_uint(x); }
WG uint64_t wg_bits_f64(double x) { return (uint64_t)__double_as_longlong(x); }
WG float wg_of_bits_f32(uint32_t b) { return __uint_as_float(b); }
WG double wg_of_bits_f64(uint64_t b) { return __longlong_as_double((int64_t)b); }
WG uint8_t wg_signbit_f32(float x) { return wg_bits_f32(x) >> 31; }
WG uint8_t wg_signbit_f64(double x) { return wg_bits_f64(x) >> 63; }

#define WG_ONE(name, function)                                                                                         \
    WG float wg_##name##_f32(float x) { return function##f(x); }                                                       \
    WG double wg_##name##_f64(double x) { return function(x); }
#define WG_TWO(name, function)                                                                                         \
    WG float wg_##name##_f32(float x, float y) { return function##f(x, y); }                                           \
    WG double wg_##name##_f64(double x, double y) { return function(x, y); }
WG_ONE(abs, fabs)
WG_ONE(sqrt, sqrt)
WG_ONE(floor, floor)
WG_ONE(ceil, ceil)
WG_ONE(trunc, trunc)
WG_ONE(round, rint)
WG_ONE(exp, exp)
WG_ONE(exp2, exp2)
WG_ONE(expm1, expm1)
WG_ONE(log, log)
WG_ONE(log1p, log1p)
WG_ONE(log2, log2)
WG_ONE(log10, log10)
WG_ONE(tanh, tanh)
WG_ONE(cosh, cosh)
WG_ONE(sinh, sinh)
WG_ONE(asinh, asinh)
WG_ONE(acosh, acosh)
WG_ONE(atanh, atanh)
WG_ONE(sin, sin)
WG_ONE(cos, cos)
WG_ONE(tan, tan)
WG_ONE(asin, asin)
WG_ONE(acos, acos)
WG_ONE(atan, atan)
WG_ONE(erf, erf)
WG_TWO(copysign, copysign)
WG_TWO(atan2, atan2)
WG_TWO(hypot, hypot)
WG_TWO(pow, pow)

/* NaN wins */
#define WG_EXTREMES(t, T)                                                                                              \
    WG T wg_maximum_##t(T a, T b) { return (a > b) | (a != a) ? a : b; }                                               \
    WG T wg_minimum_##t(T a, T b) { return (a < b) | (a != a) ? a : b; }
WG_EXTREMES(f64, double)
#if __CUDA_ARCH__ < 800
WG_EXTREMES(f32, float)
#else
WG float wg_maximum_f32(float a, float b) {
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}
WG float wg_minimum_f32(float a, float b) {
    float y;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(a), "f"(b));
    return y;
}
#endif

/* 1 / x within 1 ulp, in one instruction; 0 beyond 2^126 */
#ifdef WG_EMULATED
WG float wg_over_f32(float x) { return 1 / x; }
#else
WG float wg_over_f32(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#endif
/* a / b with over = 1 / b at hand: one step of Newton's makes the product the quotient as it is rounded; where that step
   meets an infinity the product is right as it is. Of b below 2^-126 only the size is right. */
WG float wg_divide_f32(float a, float b, float over) {
    float q = a * over, y = fmaf(fmaf(-b, q, a), over, q);
    return y == y ? y : q;
}
WG float wg_sigmoid_f32(float x) { return wg_over_f32(1.0f + expf(-x)); }

/* 2^x by one instruction, within 2 ulp; 0 below 2^-126 */
#ifdef WG_EMULATED
WG float wg_two_to_f32(float x) { return exp2f(x); }
#else
WG float wg_two_to_f32(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
#endif
/* of numbers that are known to half precision: within 2 + |x| / 8 ulp */
WG float wg_quick_exp_f32(float x) { return wg_two_to_f32(x * 1.44269504f); }
WG float wg_quick_sigmoid_f32(float x) { return wg_over_f32(1.0f + wg_quick_exp_f32(-x)); }

WG double wg_sigmoid_f64(double x) { return 1 / (1 + exp(-x)); }

/* That of math.h, in half the instructions of CUDA's: erfc is half of gelu, and a chain with it in is bound by
   arithmetic. e^(-a^2) is 2^high, and what high lacks is made up for with what rounding a^2 drops. Within 7 ulp (all
   float32 tried on an H200); 0 below 2^-126. */
WG float wg_erfc_f32(float x) {
    float a = wg_minimum_f32(fabsf(x), 10.2f);
    float t = wg_over_f32(a + 2), u = fmaf(-4, t, 1);
    float p = -0.00046413633f;
    p = fmaf(p, u, -0.0007570664f);
    p = fmaf(p, u, 0.002982297f);
    p = fmaf(p, u, 0.0064396667f);
    p = fmaf(p, u, -0.021485172f);
    p = fmaf(p, u, -0.03643592f);
    p = fmaf(p, u, 0.27946997f);
    p = fmaf(p, u, -0.6871609f);
    p = fmaf(p, u, 1.0215827f) * t;
    float square = a * a, dropped = fmaf(a, a, -square);
    float high = square * -1.44269502f, low = fmaf(square, -1.44269502f, -high);
    float rest = fmaf(low, 0.6931472f, fmaf(square, -1.3349759e-8f, -dropped));
    float y = wg_two_to_f32(high) * fmaf(rest, p, p);
    return x < 0 ? 2 - y : y;
}
WG double wg_erfc_f64(double x) { return erfc(x); }

#define WG_LOGADDEXP(t, T, end, log_2)                                                                                 \
    WG T wg_logaddexp_##t(T a, T b) {                                                                                  \
        T apart = a - b, top = a > b ? a : b;                                                                          \
        T y = top + log1p##end(exp##end(-fabs##end(apart)));                                                           \
        return a == b ? a + (T)log_2 : apart != apart ? apart : y;                                                     \
    }
WG_LOGADDEXP(f32, float, f, 0.693147181f)
WG_LOGADDEXP(f64, double, , 0x1.62e42fefa39efp-1)

/* float16 and bfloat16 by the device's own conversions: rounded to nearest, ties to even */
WG float wg_from_bf16(uint16_t h) { return wg_of_bits_f32((uint32_t)h << 16); }
#if defined(WG_EMULATED) || __CUDA_ARCH__ < 800
WG uint16_t wg_to_bf16(float x) {
    uint32_t b = wg_bits_f32(x), up = b + 0x7fffu + ((b >> 16) & 1);
    return (uint16_t)(((b & 0x7fffffffu) > 0x7f800000u ? b | 0x400000u : up) >> 16);
}
WG float wg_round_bf16(float x) { return wg_from_bf16(wg_to_bf16(x)); }
#else
WG uint16_t wg_to_bf16(float x) {
    uint16_t h;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}
/* As the upper of two, a rounded number lies where its float32 does. The instruction for two is the quick one. */
WG float wg_round_bf16(float x) {
    uint32_t b;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(b) : "f"(x), "f"(0.0f));
    return wg_of_bits_f32(b);
}
#endif
#ifdef WG_EMULATED
WG float wg_from_f16(uint16_t h) { _Float16 x; memcpy(&x, &h, 2); return (float)x; }
WG uint16_t wg_to_f16(float x) { _Float16 h = (_Float16)x; uint16_t b; memcpy(&b, &h, 2); return b; }
#else
WG float wg_from_f16(uint16_t h) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
}
WG uint16_t wg_to_f16(float x) {
    uint16_t h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
}
#endif

#include "math.h"

/* An index that is compared with: what checked_index computes. The program looks at the flag and raises. */
WG int64_t wg_checked_index(int *error, int64_t index, int64_t size) {
    if (index < -size || index >= size) *error = 1;
    return index < 0 ? index + size : index;
}

#endif
