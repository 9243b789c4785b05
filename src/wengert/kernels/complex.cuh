/* Complex numbers on a CUDA device: two parts side by side in memory, as NumPy, cuFFT and cuSOLVER have them, so that one
   access of 8 or 16 bytes moves a number. Templates over a scalar T take real and complex numbers alike: `wg_real_of<T>`
   is the type of its parts, and conjugation, the squared size and the like of a real number cost nothing. */

#ifndef WENGERT_COMPLEX_CUH
#define WENGERT_COMPLEX_CUH

#include "math.cuh"

template <class R> struct __align__(2 * sizeof(R)) wg_complex {
    R x, y;
    wg_complex() = default;
    __device__ __forceinline__ wg_complex(R x, R y = 0) : x(x), y(y) {}
    friend __device__ __forceinline__ bool operator==(wg_complex a, wg_complex b) { return a.x == b.x && a.y == b.y; }
    friend __device__ __forceinline__ bool operator!=(wg_complex a, wg_complex b) { return !(a == b); }
};
typedef wg_complex<float> wg_c64;
typedef wg_complex<double> wg_c128;

template <class T> struct wg_parts { typedef T real; };
template <class R> struct wg_parts<wg_complex<R>> { typedef R real; };
template <class T> using wg_real_of = typename wg_parts<T>::real;

template <class R> WG wg_complex<R> operator+(wg_complex<R> a, wg_complex<R> b) { return {a.x + b.x, a.y + b.y}; }
template <class R> WG wg_complex<R> operator-(wg_complex<R> a, wg_complex<R> b) { return {a.x - b.x, a.y - b.y}; }
template <class R> WG wg_complex<R> operator-(wg_complex<R> a) { return {-a.x, -a.y}; }
template <class R> WG wg_complex<R> operator*(wg_complex<R> a, wg_complex<R> b)
{
    return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};
}
template <class R> WG wg_complex<R> operator*(R a, wg_complex<R> b) { return {a * b.x, a * b.y}; }
template <class R> WG wg_complex<R> operator*(wg_complex<R> b, R a) { return {a * b.x, a * b.y}; }
template <class R> WG wg_complex<R> operator/(wg_complex<R> a, R b) { return {a.x / b, a.y / b}; }
/* by Smith's method, as NumPy divides: squares of the parts would overflow before the quotient does */
template <class R> WG wg_complex<R> operator/(wg_complex<R> a, wg_complex<R> b)
{
    bool wide = (b.x < 0 ? -b.x : b.x) >= (b.y < 0 ? -b.y : b.y);
    if (wide && b.x == 0 && b.y == 0) return {a.x / b.x, a.y / b.x};
    R ratio = wide ? b.y / b.x : b.x / b.y;
    R scale = 1 / (wide ? b.x + b.y * ratio : b.y + b.x * ratio);
    if (wide) return {(a.x + a.y * ratio) * scale, (a.y - a.x * ratio) * scale};
    return {(a.x * ratio + a.y) * scale, (a.y * ratio - a.x) * scale};
}
template <class R> WG wg_complex<R> &operator+=(wg_complex<R> &a, wg_complex<R> b) { return a = a + b; }
template <class R> WG wg_complex<R> &operator-=(wg_complex<R> &a, wg_complex<R> b) { return a = a - b; }

/* as block.cuh's, of another lane of the warp */
template <class R> WG wg_complex<R> wg_from_lane(wg_complex<R> x, int by)
{
    return wg_complex<R>(__shfl_xor_sync(0xffffffffu, x.x, by), __shfl_xor_sync(0xffffffffu, x.y, by));
}

/* --- what templates ask of real and complex scalars ------------------------------------------------------------------ */

WG float wg_conj(float a) { return a; }
WG double wg_conj(double a) { return a; }
template <class R> WG wg_complex<R> wg_conj(wg_complex<R> a) { return {a.x, -a.y}; }
WG float wg_re(float a) { return a; }
WG double wg_re(double a) { return a; }
template <class R> WG R wg_re(wg_complex<R> a) { return a.x; }
WG float wg_im(float) { return 0; }
WG double wg_im(double) { return 0; }
template <class R> WG R wg_im(wg_complex<R> a) { return a.y; }
/* the squared size */
WG float wg_norm2(float a) { return a * a; }
WG double wg_norm2(double a) { return a * a; }
template <class R> WG R wg_norm2(wg_complex<R> a) { return a.x * a.x + a.y * a.y; }
/* the size */
WG float wg_size(float a) { return fabsf(a); }
WG double wg_size(double a) { return fabs(a); }
WG float wg_size(wg_c64 a) { return hypotf(a.x, a.y); }
WG double wg_size(wg_c128 a) { return hypot(a.x, a.y); }
/* a size that needs no root: LAPACK looks for pivots by it */
WG float wg_size1(float a) { return fabsf(a); }
WG double wg_size1(double a) { return fabs(a); }
template <class R> WG R wg_size1(wg_complex<R> a) { return wg_size1(a.x) + wg_size1(a.y); }
/* a real number as a scalar */
template <class T> struct wg_from_real {
    static __device__ __forceinline__ T of(T a) { return a; }
};
template <class R> struct wg_from_real<wg_complex<R>> {
    static __device__ __forceinline__ wg_complex<R> of(R a) { return {a, 0}; }
};

WG float wg_logarithm(float a) { return logf(a); }
WG double wg_logarithm(double a) { return log(a); }
WG float wg_root(float a) { return sqrtf(a); }
WG double wg_root(double a) { return sqrt(a); }

#include "complex.h"

#endif
