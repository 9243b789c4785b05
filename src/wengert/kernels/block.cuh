/* What generated kernels share besides mathematics: several elements in one access, and reductions over the threads that
   work on one row, in an order that never changes. Every thread of a row gets the result. */

#ifndef WENGERT_BLOCK_CUH
#define WENGERT_BLOCK_CUH

#include "math.cuh"

/* N elements that lie side by side: read and written by as few accesses of up to 16 bytes as they take */
template <class T, int N> struct __align__(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) wg_vector {
    T at[N];
};
template <int N, class T> WG wg_vector<T, N> wg_load(const T *from) { return *(const wg_vector<T, N> *)from; }
template <class T, int N> WG void wg_store(T *to, const wg_vector<T, N> &value) { *(wg_vector<T, N> *)to = value; }

/* begin to copy what lies at `from` into shared memory, without a way through registers where the device has one; after
   wg_fetched() the thread that asked for it finds it there */
template <class V, class T> WG void wg_fetch(V *to, const T *from)
{
#if !defined(WG_EMULATED) && __CUDA_ARCH__ >= 800
    if constexpr (sizeof(V) % 16 == 0 || sizeof(V) == 8 || sizeof(V) == 4) {
        unsigned at = (unsigned)__cvta_generic_to_shared(to);
        if constexpr (sizeof(V) % 16 == 0) {
#pragma unroll
            for (unsigned i = 0; i < sizeof(V); i += 16)
                asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at + i), "l"((const char *)from + i) : "memory");
        } else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(at), "l"(from), "n"(sizeof(V)) : "memory");
        return;
    }
#endif
    *to = *(const V *)from;
}
WG void wg_fetched()
{
#if !defined(WG_EMULATED) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/* addresses that a launch takes by value */
template <int N> struct wg_table {
    void *at[N];
};

/* --- how two parts of a reduction become one: the order of the two does not matter ---------------------------------- */

#define WG_MEMBER __device__ __forceinline__
struct wg_sum { template <class T> WG_MEMBER T operator()(T a, T b) const { return (T)(a + b); } };
struct wg_prod { template <class T> WG_MEMBER T operator()(T a, T b) const { return (T)(a * b); } };
struct wg_all { template <class T> WG_MEMBER T operator()(T a, T b) const { return (T)((a != 0) & (b != 0)); } };
struct wg_any { template <class T> WG_MEMBER T operator()(T a, T b) const { return (T)((a != 0) | (b != 0)); } };
/* NaN wins */
struct wg_max {
    template <class T> WG_MEMBER T operator()(T a, T b) const { return (a > b) | (a != a) ? a : b; }
    WG_MEMBER float operator()(float a, float b) const { return wg_maximum_f32(a, b); }
};
struct wg_min {
    template <class T> WG_MEMBER T operator()(T a, T b) const { return (a < b) | (a != a) ? a : b; }
    WG_MEMBER float operator()(float a, float b) const { return wg_minimum_f32(a, b); }
};

/* an extreme and where along the row it is; of equals the first counts, and NaN wins */
template <class T, class I> struct wg_place {
    T best;
    I at;
};
template <class T, class I> WG bool wg_beats(bool more, wg_place<T, I> a, wg_place<T, I> b) {
    bool a_is = a.best == a.best, b_is = b.best == b.best;
    bool even = (a.best == b.best) | (!a_is & !b_is);
    return even ? a.at < b.at : a_is & b_is ? more : b_is;
}
struct wg_argmax {
    template <class T, class I> WG_MEMBER wg_place<T, I> operator()(wg_place<T, I> a, wg_place<T, I> b) const {
        return wg_beats(a.best > b.best, a, b) ? a : b;
    }
};
struct wg_argmin {
    template <class T, class I> WG_MEMBER wg_place<T, I> operator()(wg_place<T, I> a, wg_place<T, I> b) const {
        return wg_beats(a.best < b.best, a, b) ? a : b;
    }
};

/* lets the kernel after this one come while this one ends, and waits until the one before it has ended: before any access
   to memory. Where kernels are not launched so, it does nothing */
WG void wg_follow() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* --- over threads --------------------------------------------------------------------------------------------------- */

template <class T> WG T wg_from_lane(T x, int by) {
    if constexpr (sizeof(T) < 4) return (T)__shfl_xor_sync(0xffffffffu, (int)x, by);
    else return __shfl_xor_sync(0xffffffffu, x, by);
}
template <class T, class I> WG wg_place<T, I> wg_from_lane(wg_place<T, I> x, int by) {
    return wg_place<T, I>{wg_from_lane(x.best, by), wg_from_lane(x.at, by)};
}
/* over N neighbouring lanes of a warp, all 32 of which must come here */
template <int N, class T, class F> WG T wg_over_lanes(T x, F combine) {
#pragma unroll
    for (int by = N / 2; by > 0; by /= 2) x = combine(x, wg_from_lane(x, by));
    return x;
}
/* the barrier of N threads that share a row: those of the block's other rows (15 at most) go on */
template <int N> WG void wg_row_barrier() {
#ifdef WG_EMULATED
    __syncthreads();
#else
    asm volatile("bar.sync %0, %1;" ::"r"(1 + threadIdx.x / N), "n"(N) : "memory");
#endif
}
/* over N neighbouring threads of a block, more than a warp: each warp leaves its part in `parts`, which has one for each
   warp of the block; after a barrier wg_over_parts puts them together */
template <class T, class F> WG void wg_leave_part(T x, F combine, T *parts) {
    x = wg_over_lanes<32>(x, combine);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
}
template <int N, class T, class F> WG T wg_over_parts(F combine, const T *parts) {
    T x = parts[threadIdx.x / N * (N / 32) + threadIdx.x % (N / 32)];
    return wg_over_lanes<N / 32>(x, combine);
}

#endif
