// Matrix products by the BLAS that NumPy brought along: batches, and products too small or thin for the tiles of matmul.h.
// Each of our threads calls it for its own part of the rows or columns, and BLAS itself stays on one thread: two pools of
// threads would fight for the same cores.
#pragma once
#include <omp.h>
#include <stdint.h>

typedef int64_t blas_int;
enum { ROW_MAJOR = 101, AS_IS = 111, TRANSPOSED = 112 };
typedef void (*wg_sgemm_t)(int, int, int, blas_int, blas_int, blas_int, float, const float *, blas_int, const float *,
                           blas_int, float, float *, blas_int);
typedef void (*wg_dgemm_t)(int, int, int, blas_int, blas_int, blas_int, double, const double *, blas_int,
                           const double *, blas_int, double, double *, blas_int);
typedef void (*wg_zgemm_t)(int, int, int, blas_int, blas_int, blas_int, const void *, const void *, blas_int, const void *,
                           blas_int, const void *, void *, blas_int); // of both precisions: factors by their addresses
static wg_sgemm_t wg_sgemm;
static wg_dgemm_t wg_dgemm;
static wg_zgemm_t wg_of_cgemm, wg_of_zgemm;
static int wg_threads = 1;

#define WG_COMPLEX_GEMM(name, type)                                                                                    \
    static inline void wg_##name(int order, int ta, int tb, blas_int m, blas_int n, blas_int k, type one,              \
                                 const type *a, blas_int lda, const type *b, blas_int ldb, type none, type *c,         \
                                 blas_int ldc)                                                                         \
    {                                                                                                                  \
        wg_of_##name(order, ta, tb, m, n, k, &one, a, lda, b, ldb, &none, c, ldc);                                     \
    }
WG_COMPLEX_GEMM(cgemm, wg_c64)
WG_COMPLEX_GEMM(zgemm, wg_c128)

void wg_connect(void *sgemm, void *dgemm, void *cgemm, void *zgemm, int threads)
{
    wg_sgemm = (wg_sgemm_t)sgemm;
    wg_dgemm = (wg_dgemm_t)dgemm;
    wg_of_cgemm = (wg_zgemm_t)cgemm;
    wg_of_zgemm = (wg_zgemm_t)zgemm;
    wg_threads = threads;
    omp_set_num_threads(threads);
}

// c[b] = a[b] @ bb[b] for every batch b. `ta`, `tb`: the operand lies transposed in memory. Steps are in elements, 0 for
// an operand that is the same in every batch. A product is cut along its longer side, in multiples of 16.
#define WG_MATMUL(suffix, type, gemm)                                                                                  \
    static void wg_matmul_##suffix(const type *a, const type *b, type *c, long batch, long m, long n, long k, int ta,  \
                                   int tb, long step_a, long step_b)                                                   \
    {                                                                                                                  \
        long lda = ta ? m : k, ldb = tb ? k : n;                                                                       \
        int wide = n > m;                                                                                              \
        long side = wide ? n : m;                                                                                      \
        long parts = 2.0 * m * n * k < 4000000.0 ? 1 : batch >= wg_threads ? 1 : wg_threads;                            \
        long part = ((side + parts - 1) / parts + 15) / 16 * 16;                                                       \
        if (k == 0) {                                                                                                  \
            for (long i = 0; i < batch * m * n; i++) c[i] = 0;                                                         \
            return;                                                                                                    \
        }                                                                                                              \
        _Pragma("omp parallel for collapse(2) if (2.0 * batch * m * n * k > 4000000.0)") for (long i = 0; i < batch;    \
                                                                                             i++) for (long p = 0;     \
                                                                                                       p < parts;      \
                                                                                                       p++)            \
        {                                                                                                              \
            long start = p * part, size = side - start < part ? side - start : part;                                   \
            if (size <= 0) continue;                                                                                   \
            const type *x = a + i * step_a, *y = b + i * step_b;                                                       \
            type *z = c + i * m * n;                                                                                   \
            if (wide)                                                                                                  \
                gemm(ROW_MAJOR, ta ? TRANSPOSED : AS_IS, tb ? TRANSPOSED : AS_IS, m, size, k, 1, x, lda,               \
                     y + (tb ? start * ldb : start), ldb, 0, z + start, n);                                            \
            else                                                                                                       \
                gemm(ROW_MAJOR, ta ? TRANSPOSED : AS_IS, tb ? TRANSPOSED : AS_IS, size, n, k, 1,                       \
                     x + (ta ? start : start * lda), lda, y, ldb, 0, z + start * n, n);                                \
        }                                                                                                              \
    }
// The rows from `first` to `last` of one product, on the thread that asks.
#define WG_MATMUL_ROWS(suffix, type, gemm)                                                                             \
    static void wg_matmul_rows_##suffix(const type *a, const type *b, type *c, long m, long n, long k, int ta, int tb, \
                                        long first, long last)                                                         \
    {                                                                                                                  \
        long lda = ta ? m : k, ldb = tb ? k : n;                                                                       \
        gemm(ROW_MAJOR, ta ? TRANSPOSED : AS_IS, tb ? TRANSPOSED : AS_IS, last - first, n, k, 1,                       \
             a + (ta ? first : first * lda), lda, b, ldb, 0, c + first * n, n);                                        \
    }
WG_MATMUL_ROWS(f32, float, wg_sgemm)
WG_MATMUL_ROWS(f64, double, wg_dgemm)
WG_MATMUL(f32, float, wg_sgemm)
WG_MATMUL(f64, double, wg_dgemm)
WG_MATMUL_ROWS(c64, wg_c64, wg_cgemm)
WG_MATMUL_ROWS(c128, wg_c128, wg_zgemm)
WG_MATMUL(c64, wg_c64, wg_cgemm)
WG_MATMUL(c128, wg_c128, wg_zgemm)
