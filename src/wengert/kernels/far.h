/* sin, cos and tan of float64, near and far. A header of its own, included where they are called: it takes a tenth of a
   second to compile.

   Up to 2^45 they are those of math.h. From there on, where neighbours are 1/128 and more apart, they are the C
   library's. gcc would not vectorise a loop that calls it in a branch; so there is no branch, and the loop calls a
   function of ours for every vector, in its form for as many lanes as the vector has (named as the vector ABI of x86
   says). It asks the library only if some lane is far, and gives -0.0 for the others, which adds nothing: 20 % slower
   than without. Other processors and compilers have the branch. */

#ifndef WENGERT_FAR_H
#define WENGERT_FAR_H

#include "math.h"

#define WG_IS_FAR(x) (wg_abs_f64(x) >= 0x1p45)
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define WG_MERGED __attribute__((weak, visibility("hidden"))) /* the same in every unit of a program */
typedef double wg_lanes2 __attribute__((vector_size(16)));
typedef double wg_lanes4 __attribute__((vector_size(32)));
typedef double wg_lanes8 __attribute__((vector_size(64)));
#define WG_FAR_LANES(name, instructions, count)                                                                        \
    WG_MERGED wg_lanes##count _ZGV##instructions##N##count##v_wg_##name##_far(wg_lanes##count x) {                     \
        wg_lanes##count y = -(wg_lanes##count){0};                                                                     \
        int far = 0;                                                                                                   \
        for (int i = 0; i < count; i++) far |= WG_IS_FAR(x[i]);                                                        \
        if (__builtin_expect(far, 0)) wg_##name##_each((double *)&x, (double *)&y, count);                             \
        return y;                                                                                                      \
    }
#ifdef __AVX__
#define WG_FAR_AVX(name) WG_FAR_LANES(name, c, 4)
#else
#define WG_FAR_AVX(name)
#endif
#ifdef __AVX2__
#define WG_FAR_AVX2(name) WG_FAR_LANES(name, d, 4)
#else
#define WG_FAR_AVX2(name)
#endif
#ifdef __AVX512F__
#define WG_FAR_AVX512(name) WG_FAR_LANES(name, e, 8)
#else
#define WG_FAR_AVX512(name)
#endif
#define WG_FAR(name)                                                                                                   \
    WG_CALL void wg_##name##_each(const double *x, double *y, int count) {                                             \
        for (int i = 0; i < count; i++) y[i] = WG_IS_FAR(x[i]) ? name(x[i]) : -0.0;                                    \
    }                                                                                                                  \
    WG_FAR_LANES(name, b, 2) WG_FAR_AVX(name) WG_FAR_AVX2(name) WG_FAR_AVX512(name)                                    \
    WG_MERGED double wg_##name##_far_alone(double x) __asm__("wg_" #name "_far");                                      \
    WG_MERGED double wg_##name##_far_alone(double x) { return WG_IS_FAR(x) ? name(x) : -0.0; }                         \
    __attribute__((const, simd("notinbranch"), visibility("hidden"))) double wg_##name##_far(double x);                \
    WG double wg_##name##_f64(double x) {                                                                              \
        return (WG_IS_FAR(x) ? -0.0 : wg_##name##_near_f64(x)) + wg_##name##_far(x);                                   \
    }
#else
#define WG_FAR(name)                                                                                                   \
    WG double wg_##name##_f64(double x) { return WG_IS_FAR(x) ? name(x) : wg_##name##_near_f64(x); }
#endif
WG_FAR(sin)
WG_FAR(cos)
WG_FAR(tan)

#endif
