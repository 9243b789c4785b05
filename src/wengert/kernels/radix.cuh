/* Sorting by radix: rows of keys, stably, with the place that each key came from or without it.

   Keys go by eight bits at a time, the lowest first (LSD). A pass puts every key behind all keys of its row with a
   smaller digit and behind those of the same digit that came before it, so equal keys keep their order.

   Long rows (wg_radix_*): one histogram of all digits of a row in one read; then one launch a digit, in which each
   block takes a tile of keys, ranks them within the block, learns how many keys with its digits lie in earlier tiles, and
   writes keys that belong together side by side (Adinets and Merrill, "Onesweep", 2022). What earlier tiles hold comes
   by decoupled look-back: a tile publishes its own counts as soon as it knows them, walks back over the tiles before it,
   and stops at one that knows the sum up to there. Tiles are numbered as blocks start, so those that a block waits for
   always run or are done. Counts are integers: whichever way a block learns them, it learns the same.
   Bytes: a read of the keys, then a read and a write of keys (and places) for each byte of a key; of 2^24 float32 without
   places 0.6 GB. Work: 8 ballots a key and digit to find the lanes of a warp that have the same digit.

   Rows that fit a block (wg_sort_row): the same ranks, passes exchange keys through shared memory: one read, one write.
   Rows of up to 64 (wg_sort_short): a thread a key counts the keys of its row that come before it. */

#ifndef WENGERT_RADIX_CUH
#define WENGERT_RADIX_CUH

#include "order.cuh"

typedef long long wg_long;
static constexpr int WG_DIGITS = 256;

WG int wg_digit(uint64_t key, int shift) { return (int)(key >> shift) & (WG_DIGITS - 1); }

/* words that other blocks write while this one runs: read and written past the caches of an SM */
template <class W> WG W wg_peek(const W *at) { return *(const volatile W *)at; }
template <class W> WG void wg_tell(W *at, W value) { *(volatile W *)at = value; }

/* the lanes of the warp that have this lane's digit */
WG unsigned wg_same_digit(int digit) {
    unsigned same = ~0u;
#pragma unroll
    for (int bit = 0; bit < 8; bit++) {
        const bool set = digit >> bit & 1;
        const unsigned votes = __ballot_sync(~0u, set);
        same &= set ? votes : ~votes;
    }
    return same;
}

/* Ranks of a tile's keys within the block. A warp has THREADS / WARPS * ITEMS neighbouring keys, lane by lane, so keys
   come in the order (warp, item, lane). */
template <int THREADS, int ITEMS> struct wg_ranks {
    static constexpr int WARPS = THREADS / 32, TILE = THREADS * ITEMS;
    static constexpr int EACH = THREADS < WG_DIGITS ? WG_DIGITS / THREADS : 1; /* digits that a thread adds up */
    struct storage {
        unsigned counts[WARPS][WG_DIGITS]; /* of a warp, by digit; then where its keys of a digit begin in the tile */
        unsigned totals[8];
    };

    /* where a thread's item lies in the tile */
    static __device__ __forceinline__ int place(int item) {
        return (int)threadIdx.x / 32 * 32 * ITEMS + item * 32 + (int)threadIdx.x % 32;
    }
    static __device__ __forceinline__ bool adds() { return (int)threadIdx.x * EACH < WG_DIGITS; }

    /* how many earlier keys of the warp have the same digit */
    template <class O> static __device__ __forceinline__ void in_warps(
        storage &s, const typename O::key (&keys)[ITEMS], unsigned (&ranks)[ITEMS], int shift) {
        const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
        for (int k = lane; k < WG_DIGITS; k += 32) s.counts[warp][k] = 0;
        __syncwarp();
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            const int digit = wg_digit(O::rank(keys[i]), shift);
            const unsigned same = wg_same_digit(digit), before = s.counts[warp][digit];
            const unsigned earlier = same & ((1u << lane) - 1);
            __syncwarp();
            if (!earlier) s.counts[warp][digit] = before + __popc(same);
            __syncwarp();
            ranks[i] = before + __popc(earlier);
        }
    }
    /* after a barrier: how many keys of the tile have the digits of this thread; counts become those of earlier warps */
    static __device__ __forceinline__ void over_warps(storage &s, unsigned (&own)[EACH]) {
        if (!adds()) return;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int digit = threadIdx.x * EACH + e;
            unsigned sum = 0;
#pragma unroll
            for (int w = 0; w < WARPS; w++) {
                const unsigned count = s.counts[w][digit];
                s.counts[w][digit] = sum;
                sum += count;
            }
            own[e] = sum;
        }
    }
    /* where the keys of each digit begin in the tile: added to the counts, and left in `begins`; has a barrier */
    static __device__ __forceinline__ void over_digits(storage &s, const unsigned (&own)[EACH], unsigned (&begins)[EACH]) {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        unsigned mine = 0, sum = 0;
        if (adds()) {
#pragma unroll
            for (int e = 0; e < EACH; e++) mine += own[e];
            sum = mine;
        }
#pragma unroll
        for (int by = 1; by < 32; by *= 2) {
            const unsigned other = __shfl_up_sync(~0u, sum, by);
            if (lane >= by) sum += other;
        }
        if (lane == 31 && adds()) s.totals[warp] = sum;
        __syncthreads();
        if (!adds()) return;
        sum -= mine;
        for (int w = 0; w < warp; w++) sum += s.totals[w];
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            begins[e] = sum;
#pragma unroll
            for (int w = 0; w < WARPS; w++) s.counts[w][threadIdx.x * EACH + e] += sum;
            sum += own[e];
        }
    }
    /* after a barrier: where each key goes in the sorted tile, instead of its rank in the warp */
    template <class O> static __device__ __forceinline__ void in_tile(
        const storage &s, const typename O::key (&keys)[ITEMS], unsigned (&ranks)[ITEMS], int shift) {
#pragma unroll
        for (int i = 0; i < ITEMS; i++)
            ranks[i] += s.counts[threadIdx.x / 32][wg_digit(O::rank(keys[i]), shift)];
    }
};

/* --- long rows ------------------------------------------------------------------------------------------------------

   What launches share lies in one buffer of words: a ticket for each pass, whether a pass moves anything (64 words in
   all), the histograms [row][pass][digit], and for each pass what tiles publish [row][tile][digit]. Zero before the first
   launch. */

template <class W> struct wg_radix_space {
    W *words;
    int rows, tiles, passes;
    WG_MEMBER_OF wg_long length(wg_long rows, wg_long tiles, wg_long passes) {
        return 64 + rows * passes * WG_DIGITS * (1 + tiles);
    }
    __device__ __forceinline__ W *ticket(int pass) const { return words + pass; }
    __device__ __forceinline__ W *moves(int pass) const { return words + 32 + pass; }
    __device__ __forceinline__ W *starts(int row, int pass) const {
        return words + 64 + ((wg_long)row * passes + pass) * WG_DIGITS;
    }
    __device__ __forceinline__ W *published(int pass) const {
        return words + 64 + (wg_long)rows * WG_DIGITS * (passes + (wg_long)pass * tiles);
    }
};

template <class W> WG void wg_radix_clear(wg_radix_space<W> space) {
    const wg_long n = space.length(space.rows, space.tiles, space.passes);
    for (wg_long i = blockIdx.x * (wg_long)blockDim.x + threadIdx.x; i < n; i += (wg_long)gridDim.x * blockDim.x)
        space.words[i] = 0;
}

/* How many keys of a row have each digit, for all passes in one read; `blocks` of the grid for a row. Neighbouring lanes
   count in different copies: digits of a row are often few, and adding to one word takes turns. */
template <class O, int PASSES, class W>
WG void wg_radix_count(const typename O::key *x, wg_radix_space<W> space, wg_long n, int blocks) {
    constexpr int COPIES = PASSES > 4 ? 4 : 8, AT_ONCE = 8;
    __shared__ unsigned counts[PASSES][WG_DIGITS * COPIES];
    const int row = blockIdx.x / blocks, part = blockIdx.x % blocks;
    for (int i = threadIdx.x; i < PASSES * WG_DIGITS * COPIES; i += blockDim.x) ((unsigned *)counts)[i] = 0;
    __syncthreads();
    x += row * n;
    const int copy = threadIdx.x % COPIES;
    const wg_long step = (wg_long)blocks * blockDim.x;
    for (wg_long i = (wg_long)part * blockDim.x + threadIdx.x; i < n; i += AT_ONCE * step) {
        typename O::key keys[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (i + k * step < n) keys[k] = x[i + k * step];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++)
            if (i + k * step < n) {
                const uint64_t key = O::rank(O::of(keys[k]));
#pragma unroll
                for (int pass = 0; pass < PASSES; pass++)
                    atomicAdd(&counts[pass][wg_digit(key, 8 * pass) * COPIES + copy], 1u);
            }
    }
    __syncthreads();
    for (int i = threadIdx.x; i < PASSES * WG_DIGITS; i += blockDim.x) {
        unsigned sum = 0;
        for (int c = 0; c < COPIES; c++) sum += counts[i / WG_DIGITS][i % WG_DIGITS * COPIES + c];
        if (sum) atomicAdd(space.starts(row, 0) + i, (W)sum);
    }
}

/* where the keys of each digit begin in the row, and whether there are several digits: a block of 256 threads for a row
   and a pass */
template <class W> WG void wg_radix_starts(wg_radix_space<W> space, wg_long n) {
    __shared__ W parts[8];
    W *at = space.starts(blockIdx.x / space.passes, blockIdx.x % space.passes) + threadIdx.x;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const W own = *at;
    W sum = own;
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
        const W other = __shfl_up_sync(~0u, sum, by);
        if (lane >= by) sum += other;
    }
    if (lane == 31) parts[warp] = sum;
    __syncthreads();
    for (int w = 0; w < warp; w++) sum += parts[w];
    *at = sum - own;
    if (own && own != (W)n) *space.moves(blockIdx.x % space.passes) = 1;
}

/* How many keys of a digit earlier tiles of the row have, by what they published: several of them are read at once, as each
   read takes a way through the L2. */
template <class W> WG W wg_look_back(const W *published, int tile) {
    constexpr int AT_ONCE = 8, FLAGS = 8 * sizeof(W) - 2;
    constexpr W UP_TO = (W)2 << FLAGS, COUNT = ((W)1 << FLAGS) - 1;
    W earlier = 0;
    while (tile > 0) {
        W said[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) said[k] = k < tile ? wg_peek(published - (k + 1) * WG_DIGITS) : 0;
        int heard = 0;
#pragma unroll
        for (int k = 0; k < AT_ONCE; k++) {
            if (heard < k || !(said[k] >> FLAGS)) continue;
            earlier += said[k] & COUNT;
            if (said[k] & UP_TO) return earlier;
            heard++;
        }
        published -= heard * WG_DIGITS, tile -= heard;
    }
    return earlier;
}

/* What a sort reads and writes: elements and sorted elements, two places for keys in between, and the same of places. */
template <class K> struct wg_radix_data {
    const K *x;
    K *y, *keys[2];
    void *to;
    unsigned *places;
};

/* One pass over a tile; the first reads elements, and places are where they lie; the last writes elements, if KEYS, and
   places as the numbers of 64 bits that an index is, if WIDE. Passes in which the keys of each row have one digit do
   nothing, and which is the first and the last of the others is found out here: small integers take one or two. The last
   writes to the results, the one before it to the temporaries, the one before that to the results or their like. */
template <class O, int THREADS, int ITEMS, bool KEYS, bool PLACES, bool WIDE, class W>
WG void wg_radix_pass(wg_radix_data<typename O::key> data, wg_radix_space<W> space, wg_long n, int pass) {
    typedef typename O::key K;
    typedef wg_ranks<THREADS, ITEMS> ranked;
    constexpr int TILE = ranked::TILE, FLAGS = 8 * sizeof(W) - 2;
    constexpr W OWN = (W)1 << FLAGS, UP_TO = (W)2 << FLAGS;
    union memory {
        typename ranked::storage ranks;
        K keys[TILE];
    };
    __shared__ memory m;
    __shared__ unsigned moved[PLACES ? TILE : 1];
    __shared__ W bases[WG_DIGITS];
    __shared__ unsigned number;
    const int shift = 8 * pass;
    int earlier = 0, later = 0;
    for (int p = 0; p < space.passes; p++) (p < pass ? earlier : later) += p != pass && *space.moves(p);
    const bool does = *space.moves(pass), is_last = later == 0, is_first = earlier == 0;
    if (!does && !(is_first && is_last && pass == space.passes - 1)) return;

    if (threadIdx.x == 0) number = (unsigned)atomicAdd(space.ticket(pass), (W)1);
    __syncthreads();
    const int row = number / space.tiles, tile = number % space.tiles;
    const wg_long first = (wg_long)tile * TILE, begin = row * n;
    const int valid = n - first < TILE ? (int)(n - first) : TILE;
    const K *x = is_first ? data.x : later % 2 ? (PLACES ? data.keys[1] : data.y) : data.keys[0];
    K *y = is_last ? data.y : later % 2 ? data.keys[0] : PLACES ? data.keys[1] : data.y;
    const unsigned *from = later % 2 ? (const unsigned *)data.to : data.places;
    unsigned *to = later % 2 ? data.places : (unsigned *)data.to;
    x += begin + first, from += begin + first;
    K keys[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const int at = ranked::place(i);
        keys[i] = at < valid ? x[at] : K(0);
    }
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        if (is_first) keys[i] = O::of(keys[i]);
        if (ranked::place(i) >= valid) keys[i] = O::ALL;
    }
    auto put = [&](wg_long at, K key, unsigned place) {
        if (KEYS || !is_last) y[begin + at] = is_last ? O::bits(key) : key;
        if (!PLACES) return;
        if (WIDE && is_last) ((wg_long *)to)[begin + at] = place;
        else to[begin + at] = place;
    };
    if (!does) { /* all keys of a row are the same */
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            const int at = ranked::place(i);
            if (at < valid) put(first + at, keys[i], (unsigned)(first + at));
        }
        return;
    }

    unsigned ranks[ITEMS], own[ranked::EACH], begins[ranked::EACH];
    ranked::template in_warps<O>(m.ranks, keys, ranks, shift);
    __syncthreads();
    ranked::over_warps(m.ranks, own);
    W *published = space.published(pass) + ((wg_long)row * space.tiles + tile) * WG_DIGITS;
    if (ranked::adds()) {
#pragma unroll
        for (int e = 0; e < ranked::EACH; e++)
            wg_tell(published + threadIdx.x * ranked::EACH + e, (W)own[e] | (tile == 0 ? UP_TO : OWN));
    }
    ranked::over_digits(m.ranks, own, begins);
    __syncthreads();
    ranked::template in_tile<O>(m.ranks, keys, ranks, shift);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) m.keys[ranks[i]] = keys[i];
    if (PLACES) {
#pragma unroll
        for (int i = 0; i < ITEMS; i++) {
            const int at = ranked::place(i);
            moved[ranks[i]] = is_first || at >= valid ? (unsigned)(first + at) : from[at];
        }
    }

    /* by now most earlier tiles have looked back themselves */
    if (ranked::adds()) {
        const W *starts = space.starts(row, pass);
#pragma unroll
        for (int e = 0; e < ranked::EACH; e++) {
            const int digit = threadIdx.x * ranked::EACH + e;
            const W before = wg_look_back(published + digit, tile);
            if (tile) wg_tell(published + digit, (before + own[e]) | UP_TO);
            bases[digit] = starts[digit] + before - begins[e];
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const int at = i * THREADS + threadIdx.x;
        if (at >= valid) break;
        const K key = m.keys[at];
        put(bases[wg_digit(O::rank(key), shift)] + at, key, moved[PLACES ? at : 0]);
    }
}

/* --- rows that fit a block ------------------------------------------------------------------------------------------

   A block sorts the row of its number and writes the first `most`: keys, or their places in the row. */
template <class O, int THREADS, int ITEMS, bool PLACES>
WG void wg_sort_row(const typename O::key *x, void *y, int n, int most) {
    typedef typename O::key K;
    typedef wg_ranks<THREADS, ITEMS> ranked;
    union memory {
        typename ranked::storage ranks;
        K keys[ranked::TILE];
        unsigned short places[ranked::TILE];
    };
    __shared__ memory m;
    x += (wg_long)blockIdx.x * n;
    K keys[ITEMS];
    unsigned short places[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const int at = ranked::place(i);
        keys[i] = at < n ? O::of(x[at]) : O::ALL;
        places[i] = (unsigned short)at;
    }
#pragma unroll 1
    for (int shift = 0; shift < O::BITS; shift += 8) {
        unsigned ranks[ITEMS], own[ranked::EACH], begins[ranked::EACH];
        ranked::template in_warps<O>(m.ranks, keys, ranks, shift);
        __syncthreads();
        ranked::over_warps(m.ranks, own);
        ranked::over_digits(m.ranks, own, begins);
        __syncthreads();
        ranked::template in_tile<O>(m.ranks, keys, ranks, shift);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < ITEMS; i++) m.keys[ranks[i]] = keys[i];
        __syncthreads();
#pragma unroll
        for (int i = 0; i < ITEMS; i++) keys[i] = m.keys[ranked::place(i)];
        if (PLACES) {
            __syncthreads();
#pragma unroll
            for (int i = 0; i < ITEMS; i++) m.places[ranks[i]] = places[i];
            __syncthreads();
#pragma unroll
            for (int i = 0; i < ITEMS; i++) places[i] = m.places[ranked::place(i)];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
        const int at = ranked::place(i);
        if (at >= most) continue;
        if (PLACES) ((wg_long *)y)[(wg_long)blockIdx.x * most + at] = places[i];
        else ((K *)y)[(wg_long)blockIdx.x * most + at] = O::bits(keys[i]);
    }
}

/* short rows: several to a block, a thread a key */
template <class O, bool PLACES> WG void wg_sort_short(const typename O::key *x, void *y, wg_long rows, int n, int most) {
    typedef typename O::key K;
    constexpr int THREADS = 256;
    __shared__ K keys[THREADS];
    const int each = THREADS / n, mine = threadIdx.x / n, at = threadIdx.x % n;
    const wg_long row = (wg_long)blockIdx.x * each + mine;
    const bool is_in = mine < each && row < rows;
    K element = 0, key = 0;
    if (is_in) {
        element = x[row * n + at];
        key = O::rank(O::of(element));
    }
    keys[threadIdx.x] = key;
    __syncthreads();
    if (!is_in) return;
    int rank = 0;
    const K *others = keys + mine * n;
    for (int k = 0; k < n; k++) rank += others[k] < key || (others[k] == key && k < at);
    if (rank >= most) return;
    if (PLACES) ((wg_long *)y)[row * most + rank] = at;
    else ((K *)y)[row * most + rank] = element;
}

#endif
