// Small matrix products in float32, where time goes by latency: many small tiles, the depth shared out among warps.
//
// A block makes HIGH x WIDE sums. It asks for DEPTH columns of its two panels at once, all copies in flight together, and
// then warp w multiplies every WARPS-th group of four depths from w on; the warps' sums are added up in order. Panels lie in
// shared memory as they do in memory: along the depth with rows DEPTH + 4 apart, so that 8 rows lie in different banks.
// Loops are not unrolled: a kernel that runs for two microseconds waits for its instructions, too.
#pragma once
#include "tile.cuh"

// N numbers from memory to shared memory, `count` of them; the others are zero.
template <int N> __device__ __forceinline__ void wg_fetch(float *to, const float *from, int count)
{
#if __CUDA_ARCH__ >= 800
    unsigned address = (unsigned)__cvta_generic_to_shared(to);
    if (N == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from), "r"(count * 4) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(address), "l"(from), "r"(count * 4) : "memory");
#else
#pragma unroll
    for (int j = 0; j < N; j++) to[j] = j < count ? from[j] : 0;
#endif
}
__device__ __forceinline__ void wg_fetched()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
    __syncthreads();
}

// A panel of ROWS x DEPTH. EACH lanes' rows lie together (across) or LANES apart (along).
template <class Operand, int ROWS, int DEPTH, int LANES> struct wg_panel {
    static const int pitch = Operand::along ? DEPTH + 4 : ROWS, floats = (Operand::along ? ROWS : DEPTH) * pitch;
    static const int each = ROWS / LANES, chunk = Operand::free ? 1 : 4;

    template <int THREADS> __device__ __forceinline__ static void fetch(const Operand &operand, float *panel, int row, int first)
    {
        if (Operand::along) {  // a warp a row
            int lane = threadIdx.x % 32;
#pragma unroll 1
            for (int r = threadIdx.x / 32; r < ROWS; r += THREADS / 32) {
                typename Operand::Row from = operand.row(row + r);
#pragma unroll 1
                for (int k = lane * chunk; k < DEPTH; k += 32 * chunk) {
                    int count;
                    const float *chunk_at = operand.template at<chunk>(from, operand.spot(first + k, first), count);
                    wg_fetch<chunk>(panel + r * pitch + k, chunk_at, count);
                }
            }
        } else {
            const int per = ROWS / chunk;
            typename Operand::Row from = operand.row(row + threadIdx.x % per * chunk);
#pragma unroll 1
            for (int k = threadIdx.x / per; k < DEPTH; k += THREADS / per) {
                int count;
                const float *chunk_at = operand.template at<chunk>(from, operand.spot(first + k, first), count);
                wg_fetch<chunk>(panel + k * pitch + threadIdx.x % per * chunk, chunk_at, count);
            }
        }
    }
    __device__ __forceinline__ static int row(int lane, int i) { return Operand::along ? lane + i * LANES : lane * each + i; }

    // Four depths of a lane's rows.
    __device__ __forceinline__ static void read(float (&x)[each][4], const float *panel, int lane, int k)
    {
        if (Operand::along) {
#pragma unroll
            for (int i = 0; i < each; i++) *(float4 *)x[i] = *(const float4 *)(panel + row(lane, i) * pitch + k);
        } else {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                wg_pack<float, each> got = wg_pack<float, each>::load(panel + (k + j) * pitch + lane * each);
#pragma unroll
                for (int i = 0; i < each; i++) x[i][j] = got.of[i];
            }
        }
    }
};

template <int HIGH, int WIDE, int DEPTH, int WARPS, class A, class B, class Out>
__device__ __forceinline__ void wg_gemm_small(const A &a, const B &b, const Out &out, int row, int column, int first, int last)
{
    typedef wg_panel<A, HIGH, DEPTH, 8> Left;
    typedef wg_panel<B, WIDE, DEPTH, 4> Right;
    const int threads = WARPS * 32;
    extern __shared__ __align__(128) float shared_floats[];
    float *left = shared_floats, *right = left + Left::floats;
    int warp = threadIdx.x / 32, high = threadIdx.x % 32 / 4, wide = threadIdx.x % 4;
    float sums[Left::each][Right::each] = {};
    for (int start = first; start < last; start += DEPTH) {
        if (start > first) __syncthreads();
        Left::template fetch<threads>(a, left, row, start);
        Right::template fetch<threads>(b, right, column, start);
        wg_fetched();
        int depth = last - start < DEPTH ? last - start : DEPTH;
#pragma unroll 1
        for (int k = warp * 4; k < depth; k += WARPS * 4) {
            float x[Left::each][4], y[Right::each][4];
            Left::read(x, left, high, k), Right::read(y, right, wide, k);
#pragma unroll
            for (int s = 0; s < 4; s++)
#pragma unroll
                for (int i = 0; i < Left::each; i++)
#pragma unroll
                    for (int j = 0; j < Right::each; j++) sums[i][j] += x[i][s] * y[j][s];
        }
    }
    __syncthreads();
    float(*parts)[HIGH * WIDE] = (float(*)[HIGH * WIDE]) shared_floats;
#pragma unroll
    for (int i = 0; i < Left::each; i++)
#pragma unroll
        for (int j = 0; j < Right::each; j++) parts[warp][Left::row(high, i) * WIDE + Right::row(wide, j)] = sums[i][j];
    __syncthreads();
#pragma unroll
    for (int e = threadIdx.x; e < HIGH * WIDE; e += threads) {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) sum += parts[w][e];
        out(row + e / WIDE, column + e % WIDE, &sum);
    }
}
