// The tensor cores' instructions of sm_80, one function each: asynchronous copies into shared memory, matrices of 8 x 16
// bytes from there into registers, the product of a warp's two fragments, and what makes fragments of sums.
#pragma once
#include "tile.cuh"

__device__ __forceinline__ wg_u32 wg_shared_address(const void *p) { return (wg_u32)__cvta_generic_to_shared(p); }

// 16 bytes, of which `bytes` are read and the others zero.
__device__ __forceinline__ void wg_copy_async(wg_u32 to, const void *from, int bytes)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes) : "memory");
}
// 16 bytes, zero unless `there`.
__device__ __forceinline__ void wg_copy_async_if(wg_u32 to, const void *from, bool there)
{
    asm volatile("{\n.reg .pred absent;\nsetp.eq.u32 absent, %2, 0;\n"
                 "cp.async.cg.shared.global.L2::128B [%0], [%1], 16, absent;\n}" ::"r"(to), "l"(from), "r"((int)there) : "memory");
}
__device__ __forceinline__ void wg_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int PENDING> __device__ __forceinline__ void wg_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Four matrices of 8 rows of 16 bytes; lane l gives the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void wg_load_matrices(wg_u32 (&r)[4], wg_u32 from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}
// The same for 16-bit elements, each matrix transposed.
__device__ __forceinline__ void wg_load_transposed(wg_u32 (&r)[4], wg_u32 from)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(from) : "memory");
}

// c += a * b: 16 x 8 sums over a depth of two chunks of 16 bytes. `float` means tf32.
template <class T> __device__ __forceinline__ void wg_mma(float (&c)[4], const wg_u32 (&a)[4], wg_u32 b0, wg_u32 b1);
#define WG_MMA(T, SHAPE, KIND)                                                                                         \
    template <> __device__ __forceinline__ void wg_mma<T>(float (&c)[4], const wg_u32 (&a)[4], wg_u32 b0, wg_u32 b1)   \
    {                                                                                                                  \
        asm volatile("mma.sync.aligned." SHAPE ".row.col.f32." KIND "." KIND ".f32 "                                   \
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                 \
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                  \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                  \
    }
WG_MMA(wg_f16, "m16n8k16", "f16")
WG_MMA(wg_bf16, "m16n8k16", "bf16")
WG_MMA(float, "m16n8k8", "tf32")

// A float32 as the tensor cores take it: rounded to tf32's 10 bits; left alone they would cut it off.
__device__ __forceinline__ wg_u32 wg_tf32(float x)
{
    wg_u32 rounded;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
    return rounded;
}
template <class T> __device__ __forceinline__ void wg_rounded(wg_u32 (&)[4]) {}
template <> __device__ __forceinline__ void wg_rounded<float>(wg_u32 (&r)[4])
{
#pragma unroll
    for (int i = 0; i < 4; i++) r[i] = wg_tf32(__uint_as_float(r[i]));
}

// 2 to the power of x, by the hardware.
__device__ __forceinline__ float wg_fast_power(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Two numbers side by side in a register, the first one below.
template <class T> __device__ __forceinline__ wg_u32 wg_pair(float low, float high);
template <> __device__ __forceinline__ wg_u32 wg_pair<wg_bf16>(float low, float high)
{
    wg_u32 both;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
template <> __device__ __forceinline__ wg_u32 wg_pair<wg_f16>(float low, float high)
{
    wg_u32 both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}
