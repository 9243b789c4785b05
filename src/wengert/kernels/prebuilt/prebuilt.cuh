/* What kernels share whose sizes are arguments: where the elements of arrays lie, and how threads add a row up.

   A space is a nest of loops over up to eight axes. Axes that lie one behind the other in every array are one, so most
   spaces have an axis or two. Places are 32-bit: larger arrays have kernels written for their shape. */

#ifndef WENGERT_PREBUILT_CUH
#define WENGERT_PREBUILT_CUH

#include "block.cuh"

/* Axes, the fastest first, and for each of N arrays where it begins and how far apart its elements are along each axis.
   A division by an extent is a multiplication: n / extent = (high half of n * multiplier, + n) >> shift, for n < 2^31. */
template <int N> struct wg_space {
    long long offset[N];
    unsigned count, axes;
    unsigned extent[8], multiplier[8], shift[8];
    int step[N][8];
};
template <int N> struct wg_places {
    int at[N];
};

/* where the arrays have the i-th element of a space */
template <int N> WG wg_places<N> wg_find(const wg_space<N> &space, unsigned i)
{
    wg_places<N> found = {};
#pragma unroll 1
    for (unsigned k = 0; k + 1 < space.axes; k++) {
        const unsigned rest = (__umulhi(i, space.multiplier[k]) + i) >> space.shift[k];
        const int along = (int)(i - rest * space.extent[k]);
#pragma unroll
        for (int n = 0; n < N; n++) found.at[n] += along * space.step[n][k];
        i = rest;
    }
#pragma unroll
    for (int n = 0; n < N; n++) found.at[n] += (int)i * space.step[n][space.axes - 1];
    return found;
}

/* --- elements -------------------------------------------------------------------------------------------------------- */

/* an element of an operand; one that the host has is a number, and has no address */
template <class T> WG T wg_one(const T *x, T number, int at) { return x ? x[at] : number; }

/* V elements of an operand along the fastest axis: side by side, or the same one for all */
template <int V, class T> WG wg_vector<T, V> wg_several(const T *x, T number, int step, int at)
{
    if (step) return wg_load<V>(x + at);
    const T one = wg_one(x, number, at);
    wg_vector<T, V> all;
#pragma unroll
    for (int j = 0; j < V; j++) all.at[j] = one;
    return all;
}

/* the first of the V elements that a thread computes in its u-th step of U */
template <int V, int U> WG unsigned wg_first(int u) { return ((blockIdx.x * U + u) * blockDim.x + threadIdx.x) * V; }

/* Elements that are read along one axis and written along another go through shared memory, in squares of 32 times V a
   side. Axis 0 of the space is the one along which y lies, axis 1 that of x; the grid's last axis is all others. */
template <int V, class T> WG void wg_transpose(const T *x, T *y, const wg_space<2> &space)
{
    constexpr int SIDE = 32 * V;
    __shared__ T tile[SIDE][SIDE + V];
    const unsigned lane = threadIdx.x % 32 * V, line = threadIdx.x / 32;
    const unsigned across = blockIdx.x * SIDE, down = blockIdx.y * SIDE;
    unsigned other = blockIdx.z;
    for (unsigned k = 2; k < space.axes; k++) {
        const unsigned rest = other / space.extent[k];
        const int along = (int)(other - rest * space.extent[k]);
        x += along * space.step[0][k], y += along * space.step[1][k];
        other = rest;
    }
    x += (int)across * space.step[0][0] + (int)(down + lane), y += (int)down * space.step[1][1] + (int)(across + lane);
#pragma unroll
    for (unsigned k = line; k < SIDE; k += 8)
        if (across + k < space.extent[0] && down + lane < space.extent[1])
            wg_store(&tile[k][lane], wg_load<V>(x + (int)k * space.step[0][0]));
    __syncthreads();
#pragma unroll
    for (unsigned k = line; k < SIDE; k += 8)
        if (down + k < space.extent[1] && across + lane < space.extent[0]) {
            wg_vector<T, V> out;
#pragma unroll
            for (int j = 0; j < V; j++) out.at[j] = tile[lane + j][k];
            wg_store(y + (int)k * space.step[1][1], out);
        }
}

/* --- totals ---------------------------------------------------------------------------------------------------------- */

/* How a block's threads share rows: `lanes` of them, a power of two, have one together; those of a row are neighbours,
   or, where `across` is set, the rows are. Blocks with one blockIdx.x share rows too, `share` elements of them each. */
struct wg_team {
    unsigned lanes, across, share;
};

/* The parts that the lanes of each row have, W rows a thread, put together in an order that never changes; lane 0 gets
   the totals. */
template <int W, class Total>
WG void wg_put_together(typename Total::state (&mine)[W], unsigned lane, unsigned row, unsigned lanes)
{
    __shared__ typename Total::state held[W][256];
    const unsigned rows = blockDim.x / lanes, own = lane * rows + row;
#pragma unroll
    for (int j = 0; j < W; j++) held[j][own] = mine[j];
#pragma unroll 1
    for (unsigned half = lanes / 2; half; half /= 2) {
        __syncthreads();
        if (lane < half)
#pragma unroll
            for (int j = 0; j < W; j++) held[j][own] = mine[j] = Total::both(mine[j], held[j][own + half * rows]);
    }
}

/* The totals of the rows of a space, V elements at an access: V of one row, or (WIDE) one of each of V rows. Of a row
   that several blocks share each leaves a part. */
template <int V, bool WIDE, class Total, class X, class Y>
WG void wg_total_rows(const X *x, Y *y, typename Total::state *parts, const wg_space<1> &outer,
                      const wg_space<1> &inner, wg_team team)
{
    typedef typename Total::state S;
    constexpr int W = WIDE ? V : 1, ALONG = WIDE ? 1 : V;
    const unsigned rows = blockDim.x / team.lanes;
    const unsigned lane = team.across ? threadIdx.x / rows : threadIdx.x % team.lanes;
    const unsigned row = team.across ? threadIdx.x % rows : threadIdx.x / team.lanes;
    const unsigned o = (blockIdx.x * rows + row) * W;
    S mine[V];
#pragma unroll
    for (int j = 0; j < V; j++) mine[j] = Total::start();
    if (o < outer.count) {
        x += wg_find(outer, o).at[0];
        const unsigned last = min(inner.count, (blockIdx.y + 1) * team.share);
#pragma unroll 2
        for (unsigned i = blockIdx.y * team.share + lane * ALONG; i < last; i += team.lanes * ALONG) {
            const wg_vector<X, V> found = wg_load<V>(x + wg_find(inner, i).at[0]);
#pragma unroll
            for (int j = 0; j < V; j++) mine[j] = Total::both(mine[j], Total::of(found.at[j], WIDE ? i : i + j));
        }
    }
    if (!WIDE)
#pragma unroll
        for (int j = 1; j < V; j++) mine[0] = Total::both(mine[0], mine[j]);
    S kept[W];
#pragma unroll
    for (int j = 0; j < W; j++) kept[j] = mine[j];
    wg_put_together<W, Total>(kept, lane, row, team.lanes);
    if (lane || o >= outer.count) return;
#pragma unroll
    for (int j = 0; j < W; j++)
        if (gridDim.y == 1) y[o + j] = Total::done(kept[j]);
        else parts[blockIdx.y * outer.count + o + j] = kept[j];
}

/* the totals of rows whose parts several blocks left */
template <class Total, class Y>
WG void wg_total_parts(const typename Total::state *parts, Y *y, unsigned count, unsigned splits, unsigned lanes)
{
    const unsigned rows = blockDim.x / lanes, lane = threadIdx.x / rows, row = threadIdx.x % rows;
    const unsigned o = blockIdx.x * rows + row;
    typename Total::state mine[1] = {Total::start()};
    if (o < count)
#pragma unroll 1
        for (unsigned i = lane; i < splits; i += lanes) mine[0] = Total::both(mine[0], parts[i * count + o]);
    wg_put_together<1, Total>(mine, lane, row, lanes);
    if (!lane && o < count) y[o] = Total::done(mine[0]);
}

#endif
