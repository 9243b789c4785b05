// Elements named by integers on the device: read, replaced, added to; running sums; values joined and pasted in.
//
// Texts that include this define wg_count (what sizes and places are counted in) and, for rows named by index arrays,
// wg_place: the place that the i-th set of indices names, out-of-range ones noted in wg_error and made 0. Deterministic:
// integers alone are counted with atomics, whose order does not matter; floats are added up in the order of the indices.
typedef long long wg_long;

#define WG_EACH(i, n) \
    for (wg_count i = blockIdx.x * (wg_count)blockDim.x + threadIdx.x; i < (n); i += (wg_count)gridDim.x * blockDim.x)

static __device__ inline wg_long wg_in_range(wg_long n, wg_long size, int *wg_error)
{
    if (n < 0) n += size;
    if (n < 0 || n >= size) {
        *wg_error = 1;
        n = 0;
    }
    return n;
}
