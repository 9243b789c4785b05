// A scan whose steps multiply by weights that no step changes: one kernel for all steps, whose blocks stay on their SMs.
//
// Each block keeps a slice of the weights' columns in shared memory from the first step to the last, and a few rows of
// the batch are its own (R rows by C columns of each gate). What a product multiplies the weights with was computed by
// all blocks of these rows: they write it to global memory, wait for one another at a barrier, and each brings the
// whole of its rows (the slab) into shared memory by chunks. The slab lies in the order in which products read it.
// What is done with the sums, element by element, is written around this by kernels/recurrent.
//
// An LSTM of 512 with a batch of 64: 128 blocks of 16 rows and 64 columns (4 gates of 16); 128 kB of weights stay, and
// a step reads a slab of 32 kB and multiplies 16 x 64 x 512: 4,096 cycles of FMA, with little else in strict float32.
#pragma once
#include "block.cuh"

// --- the barrier ------------------------------------------------------------------------------------------------------

/* All blocks of a row group count up when they have written what the others read, and wait for the count of all. */
WG void wg_arrive(unsigned *count)
{
    __syncthreads();
    if (threadIdx.x) return;
#ifdef WG_EMULATED
    ++*count;
#elif __CUDA_ARCH__ >= 700
    asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(count) : "memory");
#else
    __threadfence();
    atomicAdd(count, 1);
#endif
}
WG void wg_wait_for_all(unsigned *count, unsigned all)
{
    if (threadIdx.x == 0) {
#ifdef WG_EMULATED
        for (long tries = 0; *(volatile unsigned *)count < all; tries++) {
            if (tries > 1000000) emulator::fail("blocks wait for one another");
            emulator::pause();
        }
#elif __CUDA_ARCH__ >= 700
        unsigned found;
        do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(found) : "l"(count) : "memory");
        while (found < all);
#else
        while (*(volatile unsigned *)count < all);
        __threadfence();
#endif
    }
    __syncthreads();
}

// --- chunks of a slab -------------------------------------------------------------------------------------------------

/* Begin to copy 16 bytes that another SM has written: by L2, since L1 may have what was there before. */
WG void wg_fetch_shared(void *to, const void *from)
{
#if defined(WG_EMULATED)
    memcpy(to, from, 16);
#elif __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");
#else
    *(uint4 *)to = __ldcg((const uint4 *)from);
#endif
}
WG void wg_fetch_close()
{
#if !defined(WG_EMULATED) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int PENDING> WG void wg_fetch_wait()
{
#if !defined(WG_EMULATED) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
#endif
}
template <class Core, int CHUNK> WG void wg_fetch_chunk(typename Core::Element *to, const typename Core::Element *from, int depth)
{
    constexpr int EACH = 16 / sizeof(typename Core::Element);
    for (int i = threadIdx.x * EACH; i < depth * Core::rows; i += Core::threads * EACH) wg_fetch_shared(to + i, from + i);
    wg_fetch_close();
}

/* Slab times weights: the partial sums of each part of the depth, for wg_total_of to add up. RING chunks are under way or
   in use at a time. */
template <class Core, int DEPTH, int CHUNK, int RING>
WG void wg_multiply(Core &core, const typename Core::Element *slab, const typename Core::Element *weights,
                    typename Core::Element *ring, typename Core::Sum *partial)
{
    constexpr int CHUNKS = (DEPTH + CHUNK - 1) / CHUNK;
    core.begin();
#pragma unroll
    for (int c = 0; c < RING; c++) {
        if (c < CHUNKS) wg_fetch_chunk<Core, CHUNK>(ring + c * CHUNK * Core::rows, slab + c * CHUNK * Core::rows, min(CHUNK, DEPTH - c * CHUNK));
        else wg_fetch_close();
    }
#pragma unroll Core::unrolled ? CHUNKS : 1
    for (int c = 0; c < CHUNKS; c++) {
        wg_fetch_wait<RING - 1>();
        __syncthreads();
        auto *chunk = ring + c % RING * CHUNK * Core::rows;
        core.add(chunk, weights, c * CHUNK, min(CHUNK, DEPTH - c * CHUNK));
        int next = c + RING;
        if (next < CHUNKS) {
            __syncthreads();
            wg_fetch_chunk<Core, CHUNK>(chunk, slab + next * CHUNK * Core::rows, min(CHUNK, DEPTH - next * CHUNK));
        } else wg_fetch_close();
    }
    __syncthreads(); /* partial sums may lie where the chunks were */
    core.finish(partial);
    __syncthreads();
}

/* One sum: the partial sums of all parts, in their order. */
template <class Core, class Sum> WG Sum wg_total_of(const Sum *partial, int at)
{
    Sum total = partial[at];
#pragma unroll
    for (int part = 1; part < Core::parts; part++) total += partial[part * Core::rows * Core::line + at];
    return total;
}

/* A block's slice of a matrix of weights: C columns of each unit of U, from column `first`; zeros for what is outside. */
template <class Core, int DEPTH, int UNITS, int C, int U, bool ALONG, class Read>
WG void wg_keep_weights(typename Core::Element *to, int first, Read read)
{
    constexpr int COLUMNS = Core::columns;
    for (int i = threadIdx.x; i < DEPTH * COLUMNS; i += Core::threads) {
        int k = ALONG ? i % DEPTH : i / COLUMNS, column = ALONG ? i / DEPTH : i % COLUMNS;
        int unit = column / C, j = first + column % C;
        to[Core::weight_at(k, column)] = Core::of(unit < UNITS && j < U ? read(k, unit * U + j) : 0);
    }
}

// --- multiplication by FMA --------------------------------------------------------------------------------------------

/* Each thread has TM x TN of the sums for every GROUPS-th k; groups within a warp are added up by shuffles. A thread
   loads TM + TN numbers for TM * TN products: with 8 x 8 shared memory and the FMA units are busy alike. */
template <class T, int R, int NB, int TM, int TN, int THREADS> struct wg_fma_core {
    typedef T Element;
    typedef T Sum;
    static constexpr int rows = R, columns = NB, threads = THREADS;
    static constexpr bool unrolled = false;
    static constexpr int ACROSS = NB / TN, LANES = R / TM * ACROSS, GROUPS = THREADS / LANES;
    static constexpr int parts = LANES < 32 ? THREADS / 32 : GROUPS;
    static constexpr int VR = TM % 4 == 0 ? 4 : TM, VC = TN % 4 == 0 ? 4 : TN % 2 == 0 ? 2 : 1; /* side by side */
    static constexpr int line = NB % 32 ? NB : NB + 16; /* of partial sums: two rows of 16 lie in different banks */
    static_assert(R % TM == 0 && NB % TN == 0 && THREADS % LANES == 0 && (LANES >= 32 || 32 % LANES == 0), "");
    T sums[TM * TN];

    WG_MEMBER static int slab_at(int k, int row) { return k * R + row; }
    WG_MEMBER static int weight_at(int k, int column) { return k * NB + column; }
    WG_MEMBER static T of(T x) { return x; }
    WG_MEMBER static int row_of(int lane, int i) { return i / VR * (R / TM * VR) + lane / ACROSS * VR + i % VR; }
    WG_MEMBER static int column_of(int lane, int i) { return i / VC * (ACROSS * VC) + lane % ACROSS * VC + i % VC; }

    WG_MEMBER void keep(const T *) {}
    WG_MEMBER void begin()
    {
#pragma unroll
        for (int i = 0; i < TM * TN; i++) sums[i] = 0;
    }
    /* what a chunk of the slab adds, which begins at a depth */
    WG_MEMBER void add(const T *slab, const T *weights, int from, int depth)
    {
        int group = threadIdx.x / LANES, lane = threadIdx.x % LANES;
        const T *left = slab + lane / ACROSS * VR, *right = weights + from * NB + lane % ACROSS * VC;
#pragma unroll 4
        for (int k = group; k < depth; k += GROUPS) {
            T a[TM], b[TN];
#pragma unroll
            for (int i = 0; i < TM; i += VR) {
                wg_vector<T, VR> got = wg_load<VR>(left + k * R + i / VR * (R / TM * VR));
#pragma unroll
                for (int v = 0; v < VR; v++) a[i + v] = got.at[v];
            }
#pragma unroll
            for (int i = 0; i < TN; i += VC) {
                wg_vector<T, VC> got = wg_load<VC>(right + k * NB + i / VC * (ACROSS * VC));
#pragma unroll
                for (int v = 0; v < VC; v++) b[i + v] = got.at[v];
            }
#pragma unroll
            for (int i = 0; i < TM; i++)
#pragma unroll
                for (int j = 0; j < TN; j++) sums[i * TN + j] += a[i] * b[j];
        }
    }
    /* The half of the sums that a lane keeps is added to the other lane's; so many are left, from `first` on. */
    template <int COUNT, int APART> WG_MEMBER void add_up(int &first)
    {
        if constexpr (APART >= LANES && APART > 0) {
            constexpr int HALF = COUNT / 2;
            static_assert(COUNT % 2 == 0, "");
            bool upper = threadIdx.x & APART;
#pragma unroll
            for (int i = 0; i < HALF; i++) {
                T kept = upper ? sums[i + HALF] : sums[i], given = upper ? sums[i] : sums[i + HALF];
                sums[i] = kept + __shfl_xor_sync(~0u, given, APART);
            }
            if (upper) first += HALF;
            add_up<HALF, APART / 2>(first);
        }
    }
    WG_MEMBER void finish(T *partial)
    {
        int lane = threadIdx.x % LANES, part = LANES < 32 ? threadIdx.x / 32 : threadIdx.x / LANES, first = 0;
        constexpr int LEFT = LANES < 32 ? TM * TN * LANES / 32 : TM * TN;
        add_up<TM * TN, LANES < 32 ? 16 : 0>(first);
        partial += part * R * line;
        constexpr int V = LEFT % VC == 0 ? VC : 1;
#pragma unroll
        for (int i = 0; i < LEFT; i += V) {
            wg_vector<T, V> beside;
#pragma unroll
            for (int v = 0; v < V; v++) beside.at[v] = sums[i + v];
            int at = first + i;
            wg_store<T, V>(partial + row_of(lane, at / TN) * line + column_of(lane, at % TN), beside);
        }
    }
};
