/* The first k of long rows, in order: radix select, then a sort of the few.

   What is selected are pairs (key, place), which are all different and whose order is the one wanted: equal keys by their
   places. A pass counts the next 11 bits of those that are still undecided, and the block that is last to count says which
   of them the k-th has; those below are in, those above are out. Once as many are undecided as are still needed, all of
   them are in and later passes end at once, which is after the key's three passes unless equal keys straddle the k-th.
   Then one more read collects the pairs, in any order, and each finds its place by counting the pairs before it.

   Counts and the set of pairs do not depend on which block comes first, nor does the order of different pairs.
   Bytes: 4 reads of a float32 each, of which those after the first often come from the L2. Work: k * k comparisons. */

#ifndef WENGERT_SELECT_CUH
#define WENGERT_SELECT_CUH

#include "block.cuh"
#include "order.cuh"

typedef long long wg_long;
static constexpr int WG_CUT = 11, WG_BINS = 1 << WG_CUT;

/* bits that a pass looks at, of a number of so many bits, from the top */
struct wg_bits {
    int shift, width;
    __device__ __forceinline__ wg_bits(int bits, int pass) {
        shift = bits > WG_CUT * (pass + 1) ? bits - WG_CUT * (pass + 1) : 0;
        width = bits - WG_CUT * pass - shift;
    }
};

/* what is known of a row: the bits of the k-th pair so far, how many pairs have these, and how many of those are needed */
struct wg_selection {
    uint64_t key;
    unsigned place, needed, same;
    int passes; /* that were made */
    unsigned collected, unused;
};

template <class O> struct wg_select {
    typedef typename O::key K;
    static constexpr int KEY_PASSES = (O::BITS + WG_CUT - 1) / WG_CUT;
    int k, place_bits, passes; /* of keys and places */

    /* whether a pair has all the bits that the first passes found, and the bits of the next one */
    __device__ __forceinline__ bool undecided(const wg_selection &s, int pass, K key, unsigned place) const {
        if (pass == 0) return true;
        if (pass <= KEY_PASSES) return (key >> wg_bits(O::BITS, pass - 1).shift) == s.key;
        return key == s.key && place >> wg_bits(place_bits, pass - KEY_PASSES - 1).shift == s.place;
    }
    __device__ __forceinline__ int bin(int pass, K key, unsigned place) const {
        const bool by_key = pass < KEY_PASSES;
        const wg_bits b = by_key ? wg_bits(O::BITS, pass) : wg_bits(place_bits, pass - KEY_PASSES);
        return (int)((by_key ? (uint64_t)key : (uint64_t)place) >> b.shift) & ((1 << b.width) - 1);
    }
    __device__ __forceinline__ bool is_in(const wg_selection &s, K key, unsigned place) const {
        if (s.passes <= KEY_PASSES) return (key >> wg_bits(O::BITS, s.passes - 1).shift) <= s.key;
        const int shift = wg_bits(place_bits, s.passes - KEY_PASSES - 1).shift;
        return key < s.key || (key == s.key && place >> shift <= s.place);
    }
};

/* all elements of a row by the blocks it has: f(key, place) */
template <class O, bool WIDE, class F> WG void wg_over_row(const typename O::key *x, wg_long n, int part, int blocks, F f) {
    typedef typename O::key K;
    constexpr int N = WIDE ? 16 / sizeof(K) : 1, AT_ONCE = sizeof(K) > 4 || !WIDE ? 4 : 2;
    const wg_long step = (wg_long)blocks * blockDim.x, count = (n + N - 1) / N;
    for (wg_long i = (wg_long)part * blockDim.x + threadIdx.x; i < count; i += AT_ONCE * step) {
        wg_vector<K, N> got[AT_ONCE];
#pragma unroll
        for (int a = 0; a < AT_ONCE; a++) {
            const wg_long at = (i + a * step) * N;
            if (at + N <= n) got[a] = wg_load<N>(x + at);
            else
                for (int e = 0; e < N; e++)
                    if (at + e < n) got[a].at[e] = x[at + e];
        }
#pragma unroll
        for (int a = 0; a < AT_ONCE; a++)
#pragma unroll
            for (int e = 0; e < N; e++) {
                const wg_long at = (i + a * step) * N + e;
                if (at < n) f(O::rank(O::of(got[a].at[e])), (unsigned)at);
            }
    }
}

/* counts [row][pass][bin], then tickets [row][pass]: all zero before the first pass, as selections are */
template <class O, bool WIDE>
WG void wg_select_pass(const typename O::key *x, wg_selection *selections, unsigned *counts, wg_select<O> select, wg_long n,
                       int rows, int blocks, int pass) {
    constexpr int COPIES = 4, THREADS = 256, EACH = WG_BINS / THREADS;
    __shared__ unsigned bins[WG_BINS * COPIES];
    __shared__ unsigned sums[THREADS / 32];
    __shared__ bool is_last;
    const int row = blockIdx.x / blocks, part = blockIdx.x % blocks, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const wg_selection s = selections[row];
    const unsigned needed = pass ? s.needed : (unsigned)select.k;
    if (pass && s.needed == s.same) return;
    for (int i = threadIdx.x; i < WG_BINS * COPIES; i += THREADS) bins[i] = 0;
    __syncthreads();
    const int copy = threadIdx.x % COPIES;
    wg_over_row<O, WIDE>(x + row * n, n, part, blocks, [&](typename O::key key, unsigned place) {
        if (select.undecided(s, pass, key, place)) atomicAdd(&bins[select.bin(pass, key, place) * COPIES + copy], 1u);
    });
    __syncthreads();
    unsigned *all = counts + ((wg_long)row * select.passes + pass) * WG_BINS;
    for (int i = threadIdx.x; i < WG_BINS; i += THREADS) {
        unsigned sum = 0;
#pragma unroll
        for (int c = 0; c < COPIES; c++) sum += bins[i * COPIES + c];
        if (sum) atomicAdd(all + i, sum);
    }
    __threadfence();
    __syncthreads();
    unsigned *ticket = counts + (wg_long)rows * select.passes * WG_BINS + (wg_long)row * select.passes + pass;
    if (threadIdx.x == 0) is_last = atomicAdd(ticket, 1u) == (unsigned)blocks - 1;
    __syncthreads();
    if (!is_last) return;
    __threadfence();

    /* the bin of the k-th: a thread adds up 8 neighbours */
    unsigned own[EACH], sum = 0;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        own[e] = *(volatile unsigned *)(all + threadIdx.x * EACH + e);
        sum += own[e];
    }
    unsigned up_to = sum;
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
        const unsigned other = __shfl_up_sync(~0u, up_to, by);
        if (lane >= by) up_to += other;
    }
    if (lane == 31) sums[warp] = up_to;
    __syncthreads();
    for (int w = 0; w < warp; w++) up_to += sums[w];
    unsigned before = up_to - sum;
    if (before >= needed || up_to < needed) return;
    int bin = 0;
    while (before + own[bin] < needed) before += own[bin++];
    wg_selection next = s;
    const int number = threadIdx.x * EACH + bin;
    if (pass < select.KEY_PASSES) next.key = s.key << wg_bits(O::BITS, pass).width | number;
    else next.place = s.place << wg_bits(select.place_bits, pass - select.KEY_PASSES).width | number;
    next.needed = needed - before, next.same = own[bin], next.passes = pass + 1;
    selections[row] = next;
}

/* the pairs that are in, in any order */
template <class O, bool WIDE>
WG void wg_select_collect(const typename O::key *x, wg_selection *selections, typename O::key *keys, unsigned *places,
                          wg_select<O> select, wg_long n, int blocks) {
    const int row = blockIdx.x / blocks, part = blockIdx.x % blocks;
    const wg_selection s = selections[row];
    wg_over_row<O, WIDE>(x + row * n, n, part, blocks, [&](typename O::key key, unsigned place) {
        if (!select.is_in(s, key, place)) return;
        const unsigned at = atomicAdd(&selections[row].collected, 1u);
        keys[(wg_long)row * select.k + at] = key;
        places[(wg_long)row * select.k + at] = place;
    });
}

/* each pair goes behind those before it; `blocks` of 256 for a row */
template <class K> WG void wg_select_order(const K *keys, const unsigned *places, wg_long *y, int k, int blocks) {
    constexpr int THREADS = 256;
    __shared__ K some_keys[THREADS];
    __shared__ unsigned some_places[THREADS];
    const wg_long row = blockIdx.x / blocks;
    const int mine = blockIdx.x % blocks * THREADS + threadIdx.x;
    keys += row * k, places += row * k;
    const K key = mine < k ? keys[mine] : 0;
    const unsigned place = mine < k ? places[mine] : 0;
    int rank = 0;
    for (int start = 0; start < k; start += THREADS) {
        __syncthreads();
        if (start + threadIdx.x < k) {
            some_keys[threadIdx.x] = keys[start + threadIdx.x];
            some_places[threadIdx.x] = places[start + threadIdx.x];
        }
        __syncthreads();
        const int count = k - start < THREADS ? k - start : THREADS;
        for (int i = 0; i < count; i++)
            rank += some_keys[i] < key || (some_keys[i] == key && some_places[i] < place);
    }
    if (mine < k) y[row * k + rank] = place;
}

WG void wg_select_clear(unsigned *words, wg_long count) {
    for (wg_long i = blockIdx.x * (wg_long)blockDim.x + threadIdx.x; i < count; i += (wg_long)gridDim.x * blockDim.x)
        words[i] = 0;
}

#endif
