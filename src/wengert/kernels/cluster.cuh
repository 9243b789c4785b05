// Clusters of sm_90 and later: blocks that run at the same time, wait for one another and read one another's shared memory.
#pragma once

// Waits for all threads of the cluster; what they wrote before is seen after.
__device__ __forceinline__ void wg_cluster_sync()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Adds N neighbours that block `rank` of the cluster has where `at` lies in this one's shared memory.
template <int N> __device__ __forceinline__ void wg_cluster_add(float (&sums)[N], const float *at, int rank)
{
    unsigned here = (unsigned)__cvta_generic_to_shared(at), there;
    float x[N];
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(here), "r"(rank));
    if constexpr (N % 4 == 0) {
#pragma unroll
        for (int i = 0; i < N; i += 4)
            asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(x[i]), "=f"(x[i + 1]), "=f"(x[i + 2]), "=f"(x[i + 3]) : "r"(there + i * 4));
    } else {
#pragma unroll
        for (int i = 0; i < N; i++) asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x[i]) : "r"(there + i * 4));
    }
#pragma unroll
    for (int i = 0; i < N; i++) sums[i] += x[i];
}
