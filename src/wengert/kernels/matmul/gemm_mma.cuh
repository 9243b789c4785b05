// Matrix products on the tensor cores of sm_80 and later (mma.sync): float16, bfloat16, and float32 as tf32.
//
// A block makes HIGH x WIDE sums, a warp TALL x BROAD of them in its registers. Tiles of DEPTH columns of both operands
// travel through a ring of STAGES buffers in shared memory: cp.async fills one while ldmatrix and mma work on another.
// A tile is kept as chunks of 16 bytes; chunk c of line l lies at c ^ f(l), so that the 8 lines an ldmatrix reads lie in
// different banks. For each chunk of depth a warp reads (TALL + BROAD) * 32 bytes and does TALL * BROAD * 32 / size FLOPs:
// with 64 x 64 the tensor cores, not shared memory, are the limit. On an H200 256 x 128 x 64 reach 497 of the 620 TFLOP/s that mma
// and ldmatrix alone do.
#pragma once
#include "cluster.cuh"
#include "mma.cuh"

// A tile of an operand in shared memory: its chunks, and how fragments of 16 rows (left) or columns (right) are read.
template <class Operand, int ROWS, int DEPTH> struct wg_tile {
    typedef typename Operand::T T;
    static const int chunk = 16 / sizeof(T), lines = Operand::along ? ROWS : DEPTH;
    static const int per_line = (Operand::along ? DEPTH : ROWS) / chunk, bytes = ROWS * DEPTH * sizeof(T);

    __device__ __forceinline__ static wg_u32 offset(int line, int c)
    {
        int turn = per_line == 4 ? line >> 1 & 3 : sizeof(T) == 2 || Operand::along ? line & 7 : (line & 3) << 1;
        return (line * per_line + (c ^ turn)) * 16;
    }

    // The fragment of rows r to r + 15 over chunks 2 * step, 2 * step + 1 of depth; a left one in the order that mma takes,
    // a right one as two fragments of 8 columns.
    template <bool LEFT> __device__ __forceinline__ static void fragment(wg_u32 (&f)[4], wg_u32 tile, int r, int step)
    {
        int lane = threadIdx.x & 31, eighth = lane & 7, low = lane >> 3 & 1, high = lane >> 4;
        int row = eighth + (LEFT ? low : high) * 8, part = LEFT ? high : low;
        if (Operand::along) {
            wg_load_matrices(f, tile + offset(r + row, 2 * step + part));
        } else if (sizeof(T) == 2) {
            int k = eighth + (LEFT ? high : low) * 8, c = LEFT ? low : high;
            wg_load_transposed(f, tile + offset(step * 16 + k, r / 8 + c));
        } else {
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int k = step * 8 + (lane & 3) + (LEFT ? i >> 1 : i & 1) * 4;
                int at = r + (lane >> 2) + (LEFT ? i & 1 : i >> 1) * 8;
                wg_u32 from = tile + offset(k, at / 4) + at % 4 * 4;
                asm volatile("ld.shared.u32 %0, [%1];" : "=r"(f[i]) : "r"(from) : "memory");
            }
        }
        wg_rounded<T>(f);
    }
};

// The part of one thread in bringing tiles in: a column of chunks (along the depth) or of rows (across), every STEP lines.
template <class Operand, class Tile, int THREADS> struct wg_loader {
    typedef typename Operand::T T;
    static const int step = THREADS / Tile::per_line, passes = Tile::lines / step;
    static_assert(THREADS % Tile::per_line == 0 && Tile::lines % step == 0, "chunks divide among the threads");
    const Operand &operand;
    int line, column;
    typename Operand::Row rows[Operand::along && !Operand::even ? passes : 1];
    const T *from;  // the next chunk of a whole tile

    __device__ __forceinline__ wg_loader(const Operand &operand, int first) : operand(operand)
    {
        line = threadIdx.x / Tile::per_line, column = threadIdx.x % Tile::per_line;
        if (Operand::along)
#pragma unroll
            for (int i = 0; i < (Operand::even ? 1 : passes); i++) rows[i] = operand.row(first + line + i * step);
        else
            rows[0] = operand.row(first + column * Tile::chunk);
    }

    __device__ __forceinline__ typename Operand::Row row_of(int i) const
    {
        if constexpr (Operand::along && Operand::even) return operand.below(rows[0], i * step);
        else return rows[Operand::along ? i : 0];
    }
    // Part `part` of `parts` of the tile at a depth.
    __device__ __forceinline__ void load(wg_u32 tile, int depth, int part, int parts) const
    {
        typename Operand::Spot spot;
        if (Operand::along) spot = operand.spot(depth + column * Tile::chunk, depth);
#pragma unroll
        for (int i = passes * part / parts; i < passes * (part + 1) / parts; i++) {
            int count, at = line + i * step;
            if (!Operand::along) spot = operand.spot(depth + at, depth);
            const T *from = operand.template at<Tile::chunk>(row_of(i), spot, count);
            wg_u32 to = tile + Tile::offset(at, column);
            if (!Operand::free) {
                wg_copy_async(to, from, count * (int)sizeof(T));
            } else {
                wg_pack<T, Tile::chunk> chunk = {};
#pragma unroll
                for (int j = 0; j < Tile::chunk; j++)
                    if (j < count) chunk.of[j] = from[j];
                const uint4 &bits = (const uint4 &)chunk;
                asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(bits.x), "r"(bits.y), "r"(bits.z),
                             "r"(bits.w) : "memory");
            }
        }
    }
    // The same where all of that depth exists, parts in order: lines of a matrix lie evenly apart, and so do those of a tile.
    __device__ __forceinline__ void load_whole(wg_u32 tile, int depth, int part, int parts)
    {
        if constexpr (!Operand::even || Operand::free || step % 8) {
            load(tile, depth, part, parts);
        } else {
            if (part == 0) from = rows[0].start + operand.spot(depth + (Operand::along ? column * Tile::chunk : line), depth).offset;
            tile += Tile::offset(line, column);
#pragma unroll
            for (int i = passes * part / parts; i < passes * (part + 1) / parts; i++) {
                wg_u32 to = tile + Tile::offset(i * step, 0);
                if (Operand::along) wg_copy_async_if(to, from, rows[0].left > i * step);
                else wg_copy_async(to, from, wg_between(0, rows[0].left, Tile::chunk) * (int)sizeof(T));
                from += step * operand.step;
            }
        }
    }
};

// Neighbours in shared memory to the epilogue, by loads of up to 16 bytes.
template <class Out> __device__ __forceinline__ void wg_give(const Out &out, int row, int column, const float *from)
{
    float sums[Out::width];
    const int vector = Out::width < 4 ? Out::width : 4;
#pragma unroll
    for (int j = 0; j < Out::width; j += vector) {
        wg_pack<float, vector> got = wg_pack<float, vector>::load(from + j);
#pragma unroll
        for (int i = 0; i < vector; i++) sums[j + i] = got.of[i];
    }
    out(row, column, sums);
}

// Sums from registers to the epilogue by way of shared memory, 16 rows of a warp at a time, so that neighbouring lanes
// have neighbouring columns.
template <int TALL, int BROAD, class Out>
__device__ __forceinline__ void wg_hand_out(const float (&sums)[TALL / 16][BROAD / 8][4], float *room, const Out &out, int row,
                                            int column)
{
    const int pitch = BROAD + 8, lanes = BROAD / Out::width;
    int lane = threadIdx.x & 31;
#pragma unroll
    for (int i = 0; i < TALL / 16; i++) {
        __syncwarp();
#pragma unroll
        for (int j = 0; j < BROAD / 8; j++) {
            float *to = room + (lane >> 2) * pitch + j * 8 + (lane & 3) * 2;
            *(float2 *)to = make_float2(sums[i][j][0], sums[i][j][1]);
            *(float2 *)(to + 8 * pitch) = make_float2(sums[i][j][2], sums[i][j][3]);
        }
        __syncwarp();
#pragma unroll 4
        for (int e = lane; e < 16 * lanes; e += 32)
            wg_give(out, row + i * 16 + e / lanes, column + e % lanes * Out::width, room + e / lanes * pitch + e % lanes * Out::width);
    }
}

template <int HIGH, int WIDE, int DEPTH, int TALL, int BROAD, int STAGES, class A, class B, class Out>
__device__ __forceinline__ void wg_gemm_mma(const A &a, const B &b, const Out &out, int row, int column, int first, int last)
{
    typedef typename A::T T;
    const int threads = HIGH / TALL * (WIDE / BROAD) * 32, across = WIDE / BROAD;
    typedef wg_tile<A, HIGH, DEPTH> TileA;
    typedef wg_tile<B, WIDE, DEPTH> TileB;
    const int stage = TileA::bytes + TileB::bytes, steps = DEPTH / TileA::chunk / 2;
    static_assert(steps % 2 == 0, "fragments alternate between two sets");
    extern __shared__ __align__(128) char shared[];
    wg_u32 base = wg_shared_address(shared);
    int warp = threadIdx.x / 32, high = warp / across * TALL, wide = warp % across * BROAD;

    wg_loader<A, TileA, threads> left(a, row);
    wg_loader<B, TileB, threads> right(b, column);
    float sums[TALL / 16][BROAD / 8][4] = {};
    int tiles = (last - first + DEPTH - 1) / DEPTH;
    auto depth_of = [&](int t) { return first + (t ? t - 1 : tiles - 1) * DEPTH; };  // the last, which may be cut, comes first

#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (s < tiles) {
            if (s) left.load_whole(base + s * stage, depth_of(s), 0, 1);
            else left.load(base, depth_of(0), 0, 1);
            if (s) right.load_whole(base + s * stage + TileA::bytes, depth_of(s), 0, 1);
            else right.load(base + TileA::bytes, depth_of(0), 0, 1);
        }
        wg_commit();
    }
    wg_u32 fa[2][TALL / 16][4], fb[2][BROAD / 16][4];
    auto read = [&](int to, wg_u32 tile, int step) {
#pragma unroll
        for (int i = 0; i < TALL / 16; i++) TileA::template fragment<true>(fa[to][i], tile, high + i * 16, step);
#pragma unroll
        for (int j = 0; j < BROAD / 16; j++) TileB::template fragment<false>(fb[to][j], tile + TileA::bytes, wide + j * 16, step);
    };
    wg_wait<STAGES - 2>();
    __syncthreads();
    if (tiles) read(0, base, 0);
    int here = 0, next = STAGES - 1;
    for (int t = 0; t < tiles; t++) {
        int after = here + 1 == STAGES ? 0 : here + 1, ahead = t + STAGES - 1;
#pragma unroll
        for (int s = 0; s < steps; s++) {  // while one step's fragments multiply, the next one's are read
            if (s < steps - 1) {
                read(s + 1 & 1, base + here * stage, s + 1);
                if (ahead < tiles) {
                    left.load_whole(base + next * stage, depth_of(ahead), s, steps - 1);
                    right.load_whole(base + next * stage + TileA::bytes, depth_of(ahead), s, steps - 1);
                }
                if (s == steps - 2) wg_commit();
            } else {
                wg_wait<STAGES - 2>();
                __syncthreads();
                if (t + 1 < tiles) read(0, base + after * stage, 0);
            }
#pragma unroll
            for (int i = 0; i < TALL / 16; i++)
#pragma unroll
                for (int n = 0; n < BROAD / 8; n++) {
                    int j = i % 2 ? BROAD / 8 - 1 - n : n;  // to and fro: neighbours share an operand
                    wg_mma<T>(sums[i][j], fa[s & 1][i], fb[s & 1][j / 2][j % 2 * 2], fb[s & 1][j / 2][j % 2 * 2 + 1]);
                }
        }
        here = after, next = next + 1 == STAGES ? 0 : next + 1;
    }
    wg_wait<0>();
    __syncthreads();
    float *room = (float *)shared + warp * 16 * (BROAD + 8);
    wg_hand_out<TALL, BROAD>(sums, room, out, row + high, column + wide);
}

// --- parts of the depth by the blocks of a cluster -------------------------------------------------------------------

// Where a block keeps its sums for the others: behind the room that it hands them out from.
template <int HIGH, int WIDE> struct wg_kept {
    static const int width = 4;
    float *sums;
    int row, column;

    __device__ __forceinline__ void operator()(int r, int c, const float *four) const
    {
        *(float4 *)(sums + (r - row) * WIDE + c - column) = make_float4(four[0], four[1], four[2], four[3]);
    }
};

// The same product by PARTS blocks of a cluster, each over a part of the depth. Each adds up its share of the tile, in
// the order of the parts, from the shared memory of all, and hands it out.
template <int HIGH, int WIDE, int DEPTH, int TALL, int BROAD, int STAGES, int PARTS, class A, class B, class Out>
__device__ __forceinline__ void wg_gemm_joined(const A &a, const B &b, const Out &out, int row, int column, int first, int last,
                                               int part)
{
    const int threads = HIGH / TALL * (WIDE / BROAD) * 32, lanes = WIDE / Out::width;
    extern __shared__ __align__(128) char shared[];
    wg_kept<HIGH, WIDE> kept = {(float *)shared + threads / 32 * 16 * (BROAD + 8), row, column};
    wg_gemm_mma<HIGH, WIDE, DEPTH, TALL, BROAD, STAGES>(a, b, kept, row, column, first, last);
    wg_cluster_sync();
    const int all = HIGH * lanes, step = PARTS * threads, each = (all + step - 1) / step;
    int here = part * threads + threadIdx.x;
    float sums[each][Out::width] = {};
#pragma unroll
    for (int p = 0; p < PARTS; p++)
#pragma unroll
        for (int k = 0; k < each; k++) {
            int e = here + k * step;
            if (all % step == 0 || e < all) wg_cluster_add(sums[k], kept.sums + e / lanes * WIDE + e % lanes * Out::width, p);
        }
#pragma unroll
    for (int k = 0; k < each; k++) {
        int e = here + k * step;
        if (all % step == 0 || e < all) out(row + e / lanes, column + e % lanes * Out::width, sums[k]);
    }
    wg_cluster_sync();  // nobody ends while another reads
}
