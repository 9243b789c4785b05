/* Running sums, products, extremes and counts: a scan along rows with any associative way to join two states.

   A text that includes this defines a struct RUN: the type of a `state`, `none()` and `join(earlier, later)`, which need not
   commute; `raw`, the element in memory, and `enter(raw, position)`; and either `made(state)`, the element of the result
   (VALUES), or `put(index, before, up_to)`, which does with the states around an element what it wants. With READS false
   `at(index)` takes the place of reading `x`. BACK: rows run from their ends.

   Float sums must come out the same every time, so what is joined with what may not depend on which block is first.
   A plain decoupled look-back does: it stops at whatever tile knows its prefix. A chain in which each tile waits for
   the one before it does not, and takes 0.7 us a tile, 11 ms for 2^27 elements. Reducing first and scanning then does not
   either, and reads everything twice. Here tiles are in groups of 128. A tile adds up the totals of the tiles before it in
   its group by a tree of fixed shape, and joins that to the prefix of the group, which the last tile of the group before
   has made in the same way: the same tree always, one read and one write an element, and a chain of one wait in 128 tiles.

   A tile has THREADS / 32 warps with CHUNKS * 128 neighbouring elements each, four to a lane, read by one access where rows
   begin on 16 bytes. Bytes: 1 GB for 2^27 float32. Joins: two an element, and a dozen a lane and chunk. */

#ifndef WENGERT_RUNNING_CUH
#define WENGERT_RUNNING_CUH

#include "block.cuh"

typedef long long wg_long;
static constexpr int WG_GROUP = 128, WG_LANE = 4, WG_CHUNK = 32 * WG_LANE;

/* a state of another lane, whatever its size */
template <class S> union wg_words {
    S state;
    unsigned words[sizeof(S) / 4];
    __device__ __forceinline__ wg_words() {}
};
template <class S> WG S wg_from_before(S s, int by) {
    wg_words<S> one, other;
    one.state = s;
#pragma unroll
    for (int k = 0; k < (int)sizeof(S) / 4; k++) other.words[k] = __shfl_up_sync(~0u, one.words[k], by);
    return other.state;
}
template <class S> WG S wg_from_behind(S s, int by) {
    wg_words<S> one, other;
    one.state = s;
#pragma unroll
    for (int k = 0; k < (int)sizeof(S) / 4; k++) other.words[k] = __shfl_down_sync(~0u, one.words[k], by);
    return other.state;
}
template <class S> WG S wg_of_lane(S s, int lane) {
    wg_words<S> one, other;
    one.state = s;
#pragma unroll
    for (int k = 0; k < (int)sizeof(S) / 4; k++) other.words[k] = __shfl_sync(~0u, one.words[k], lane);
    return other.state;
}

/* What tiles and groups tell one another, each once: `count` states and whether they are there, all zero in the beginning.
   A state of four bytes lies in one word with its mark; a larger one is written before its mark. */
template <class S> struct wg_told {
    uint64_t *words;
    wg_long count;
    static constexpr bool SMALL = sizeof(S) <= 4;

    __device__ __forceinline__ volatile unsigned *mark(wg_long i) const { return (volatile unsigned *)words + i; }
    __device__ __forceinline__ volatile unsigned *place(wg_long i) const {
        return (volatile unsigned *)(words + (count + 1) / 2) + i * (sizeof(S) / 4);
    }
    __device__ __forceinline__ void tell(wg_long i, S state) const {
        wg_words<S> s;
        s.state = state;
        if constexpr (SMALL) *(volatile uint64_t *)(words + i) = (uint64_t)1 << 32 | s.words[0];
        else {
#pragma unroll
            for (int k = 0; k < (int)sizeof(S) / 4; k++) place(i)[k] = s.words[k];
            __threadfence();
            *mark(i) = 1;
        }
    }
    __device__ __forceinline__ S wait(wg_long i) const {
        wg_words<S> s;
        if constexpr (SMALL) {
            uint64_t word;
            do word = *(volatile uint64_t *)(words + i);
            while (!(word >> 32));
            s.words[0] = (unsigned)word;
        } else {
            while (!*mark(i)) {}
            __threadfence();
#pragma unroll
            for (int k = 0; k < (int)sizeof(S) / 4; k++) s.words[k] = place(i)[k];
        }
        return s.state;
    }
};

/* Elements p to p + 3 of a row of n that begins at `begin`; those behind the end are none. */
template <class RUN, bool WIDE> WG void wg_enter(const RUN &run, wg_long begin, wg_long n, wg_long p,
                                                 typename RUN::state (&s)[WG_LANE]) {
    if constexpr (RUN::READS && WIDE) {
        if (p + WG_LANE <= n) {
            const wg_vector<typename RUN::raw, WG_LANE> v =
                wg_load<WG_LANE>(run.x + begin + (RUN::BACK ? n - WG_LANE - p : p));
#pragma unroll
            for (int e = 0; e < WG_LANE; e++) s[e] = RUN::enter(v.at[RUN::BACK ? WG_LANE - 1 - e : e], p + e);
            return;
        }
    }
#pragma unroll
    for (int e = 0; e < WG_LANE; e++) {
        const wg_long index = begin + (RUN::BACK ? n - 1 - p - e : p + e);
        s[e] = RUN::none();
        if (p + e < n) {
            if constexpr (RUN::READS) s[e] = RUN::enter(run.x[index], p + e);
            else s[e] = run.at(index);
        }
    }
}

/* Their results: each joined to what comes before the first of them. */
template <class RUN, bool WIDE> WG void wg_leave(const RUN &run, wg_long begin, wg_long n, wg_long p,
                                                 typename RUN::state before, const typename RUN::state (&s)[WG_LANE]) {
    typedef typename RUN::state S;
    if constexpr (RUN::VALUES && WIDE) {
        if (p + WG_LANE <= n) {
            wg_vector<typename RUN::result, WG_LANE> v;
#pragma unroll
            for (int e = 0; e < WG_LANE; e++) v.at[RUN::BACK ? WG_LANE - 1 - e : e] = RUN::made(RUN::join(before, s[e]));
            wg_store(run.y + begin + (RUN::BACK ? n - WG_LANE - p : p), v);
            return;
        }
    }
    S last = before;
#pragma unroll
    for (int e = 0; e < WG_LANE; e++) {
        if (p + e >= n) break;
        const wg_long index = begin + (RUN::BACK ? n - 1 - p - e : p + e);
        const S up_to = RUN::join(before, s[e]);
        if constexpr (RUN::VALUES) run.y[index] = RUN::made(up_to);
        else run.put(index, last, up_to);
        last = up_to;
    }
}

/* CHUNKS of a warp: states become those within their lane, `before` what comes before them in the warp; the total of all */
template <class RUN, int CHUNKS>
WG typename RUN::state wg_run_warp(typename RUN::state (&s)[CHUNKS][WG_LANE], typename RUN::state (&before)[CHUNKS]) {
    typedef typename RUN::state S;
    const int lane = threadIdx.x % 32;
    S total = RUN::none();
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
#pragma unroll
        for (int e = 1; e < WG_LANE; e++) s[c][e] = RUN::join(s[c][e - 1], s[c][e]);
        S sum = s[c][WG_LANE - 1];
#pragma unroll
        for (int by = 1; by < 32; by *= 2) {
            const S other = wg_from_before(sum, by);
            if (lane >= by) sum = RUN::join(other, sum);
        }
        const S lanes = wg_from_before(sum, 1);
        before[c] = lane ? RUN::join(total, lanes) : total;
        total = RUN::join(total, wg_of_lane(sum, 31));
    }
    return total;
}

/* --- few long rows: a tile to a block, `told` has the tiles of all rows and then their groups ----------------------- */

/* what comes before a tile, by the threads of one warp; it tells the next group if it is the last of its own */
template <class RUN> WG typename RUN::state wg_before_tile(const wg_told<typename RUN::state> &told, wg_long tiles_of_all,
                                                           int row, int tile, int tiles, typename RUN::state own) {
    typedef typename RUN::state S;
    constexpr int EACH = WG_GROUP / 32;
    const int lane = threadIdx.x % 32, in_group = tile % WG_GROUP, group = tile / WG_GROUP;
    const int groups = (tiles + WG_GROUP - 1) / WG_GROUP;
    const wg_long first = (wg_long)row * tiles + group * WG_GROUP, prefix = tiles_of_all + (wg_long)row * groups + group;
    S sum = RUN::none();
#pragma unroll
    for (int e = 0; e < EACH; e++)
        if (lane * EACH + e < in_group) sum = RUN::join(sum, told.wait(first + lane * EACH + e));
#pragma unroll
    for (int by = 1; by < 32; by *= 2) sum = RUN::join(sum, wg_from_behind(sum, by));
    if (lane) return sum;
    if (group) sum = RUN::join(told.wait(prefix), sum);
    if (in_group == WG_GROUP - 1 && tile + 1 < tiles) told.tell(prefix + 1, RUN::join(sum, own));
    return sum;
}

template <class RUN, int THREADS, int CHUNKS, bool WIDE>
WG void wg_run_tiles(const RUN &run, uint64_t *words, int rows, int tiles, wg_long n) {
    typedef typename RUN::state S;
    constexpr int WARPS = THREADS / 32, SPAN = CHUNKS * WG_CHUNK;
    __shared__ S totals[WARPS], earlier;
    __shared__ unsigned number;
    const wg_long tiles_of_all = (wg_long)rows * tiles;
    const wg_told<S> told{words + 1, tiles_of_all + (wg_long)rows * ((tiles + WG_GROUP - 1) / WG_GROUP)};
    if (threadIdx.x == 0) number = atomicAdd((unsigned *)words, 1u); /* tiles in the order in which blocks start */
    __syncthreads();
    const int row = number / tiles, tile = number % tiles, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const wg_long begin = row * n, first = ((wg_long)tile * WARPS + warp) * SPAN + lane * WG_LANE;
    S s[CHUNKS][WG_LANE], before[CHUNKS];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) wg_enter<RUN, WIDE>(run, begin, n, first + c * WG_CHUNK, s[c]);
    const S total = wg_run_warp<RUN, CHUNKS>(s, before);
    if (lane == 0) totals[warp] = total;
    __syncthreads();
    if (warp == 0) {
        S own = totals[0];
#pragma unroll
        for (int w = 1; w < WARPS; w++) own = RUN::join(own, totals[w]);
        if (lane == 0) told.tell((wg_long)row * tiles + tile, own);
        const S sum = wg_before_tile<RUN>(told, tiles_of_all, row, tile, tiles, own);
        if (lane == 0) earlier = sum;
    }
    __syncthreads();
    S sum = earlier;
    for (int w = 0; w < warp; w++) sum = RUN::join(sum, totals[w]);
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
        wg_leave<RUN, WIDE>(run, begin, n, first + c * WG_CHUNK, RUN::join(sum, before[c]), s[c]);
}

WG void wg_run_clear(uint64_t *words, wg_long count) {
    for (wg_long i = blockIdx.x * (wg_long)blockDim.x + threadIdx.x; i < count; i += (wg_long)gridDim.x * blockDim.x)
        words[i] = 0;
}

/* --- many rows: a warp to each --------------------------------------------------------------------------------------- */

template <class RUN, int CHUNKS, bool WIDE> WG void wg_run_rows(const RUN &run, wg_long rows, wg_long n) {
    typedef typename RUN::state S;
    const wg_long warps = (wg_long)gridDim.x * (blockDim.x / 32);
    const int lane = threadIdx.x % 32;
    for (wg_long row = blockIdx.x * (wg_long)(blockDim.x / 32) + threadIdx.x / 32; row < rows; row += warps) {
        S sum = RUN::none();
        for (wg_long start = 0; start < n; start += CHUNKS * WG_CHUNK) {
            S s[CHUNKS][WG_LANE], before[CHUNKS];
#pragma unroll
            for (int c = 0; c < CHUNKS; c++)
                wg_enter<RUN, WIDE>(run, row * n, n, start + c * WG_CHUNK + lane * WG_LANE, s[c]);
            const S total = wg_run_warp<RUN, CHUNKS>(s, before);
#pragma unroll
            for (int c = 0; c < CHUNKS; c++)
                wg_leave<RUN, WIDE>(run, row * n, n, start + c * WG_CHUNK + lane * WG_LANE, RUN::join(sum, before[c]), s[c]);
            sum = RUN::join(sum, total);
        }
    }
}

/* --- axes before the last, and rows of a few elements: a thread to a line, or to each of `parts` of one ------------------

   The element p of line (o, j) lies at (o * n + p) * inner + j. Where there are several parts their totals come first, then
   what comes before each, and then the results: TOTALS, and `before` left there. */
template <class RUN> struct wg_line {
    const RUN &run;
    wg_long n, inner, start;
    __device__ __forceinline__ wg_line(const RUN &run, wg_long n, wg_long inner, wg_long line)
        : run(run), n(n), inner(inner), start(line / inner * n * inner + line % inner) {}
    __device__ __forceinline__ wg_long index(wg_long p) const { return start + (RUN::BACK ? n - 1 - p : p) * inner; }
    __device__ __forceinline__ typename RUN::state at(wg_long p) const {
        if constexpr (RUN::READS) return RUN::enter(run.x[index(p)], p);
        else return run.at(index(p));
    }
};

template <class RUN, bool TOTALS>
WG void wg_run_lines(const RUN &run, typename RUN::state *parts_of, wg_long lines, wg_long n, wg_long inner, int parts) {
    typedef typename RUN::state S;
    constexpr int AT_ONCE = 4;
    const wg_long length = (n + parts - 1) / parts, step = (wg_long)gridDim.x * blockDim.x;
    for (wg_long k = blockIdx.x * (wg_long)blockDim.x + threadIdx.x; k < lines * parts; k += step) {
        /* neighbouring threads have neighbouring lines of the same part */
        const wg_long outer = k / (inner * parts), part = k / inner % parts, j = k % inner;
        const wg_line<RUN> line(run, n, inner, outer * inner + j);
        const wg_long from = part * length, to = from + length < n ? from + length : n;
        S sum = parts > 1 && !TOTALS ? parts_of[k] : RUN::none();
        for (wg_long p = from; p < to; p += AT_ONCE) {
            S next[AT_ONCE];
#pragma unroll
            for (int e = 0; e < AT_ONCE; e++)
                if (p + e < to) next[e] = line.at(p + e);
#pragma unroll
            for (int e = 0; e < AT_ONCE; e++) {
                if (p + e >= to) break;
                const S up_to = RUN::join(sum, next[e]);
                if constexpr (!TOTALS) {
                    if constexpr (RUN::VALUES) run.y[line.index(p + e)] = RUN::made(up_to);
                    else run.put(line.index(p + e), sum, up_to);
                }
                sum = up_to;
            }
        }
        if (TOTALS) parts_of[k] = sum;
    }
}

/* what comes before each part of a line, from the totals: a thread a line */
template <class RUN> WG void wg_run_parts(typename RUN::state *parts_of, wg_long lines, wg_long inner, int parts) {
    typedef typename RUN::state S;
    for (wg_long k = blockIdx.x * (wg_long)blockDim.x + threadIdx.x; k < lines; k += (wg_long)gridDim.x * blockDim.x) {
        S *at = parts_of + k / inner * inner * parts + k % inner;
        S sum = RUN::none();
        for (int part = 0; part < parts; part++, at += inner) {
            const S own = *at;
            *at = sum;
            sum = RUN::join(sum, own);
        }
    }
}

#endif
