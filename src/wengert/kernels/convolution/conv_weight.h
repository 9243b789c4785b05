// Convolution by the weight: a sum over images and positions. Included once for each WG_T, after matmul.h.
//
// The cotangent is transposed to (position, channel out) a piece of the batch at a time and the image gets its padding;
// both stay in the second-level cache. A tile is 12 pairs of tap and channel in x 2 vectors of channels out: 24 sums in
// registers. For each position 2 vectors are loaded and 12 numbers broadcast straight from the image, whatever the stride:
// nothing is unfolded.
//     pieces     about 2048 positions: images, or rows of a large one. The sums wait in memory between pieces
//     parts      where the weight is small, pieces are summed apart, by several threads, and added up in order
// Which thread does what changes no bits.
//
// FLOPs: 2 * batch * positions * outs * ins * taps. Bytes: input and cotangent read and copied once; the weight written
// once, its sums read and written once a piece.
// Measured on one core of an EPYC (Zen 4) where sgemm reaches 95 GFLOP/s and multiply-adds alone 116 (benchmarks/conv.py):
// 82 to 103 on the 3 x 3 layers of ResNet-18 for CIFAR, 95 to 110 % of oneDNN.
#include "conv_shape.h"

// A piece of the batch, prepared: images (or some output rows of one image) with their padding, and their cotangent
// transposed.
typedef struct {
    long image, images, line, lines;  // which; lines are rows of the output
    long pad[3], channel, each;       // the padded image's sizes; from one channel, one image to the next
    REAL *x, *g;                      // g: [outs / (2 vectors)][position][2 vectors]
} NAMED(wg_piece);

// Which piece of the batch has a number, and where its memory is.
static NAMED(wg_piece) NAMED(wg_piece_at)(const wg_convolution *s, long number, REAL *memory)
{
    NAMED(wg_piece) piece;
    long per_image = (s->count[1] + s->lines - 1) / s->lines;
    piece.image = number / per_image * s->images, piece.line = number % per_image * s->lines;
    piece.images = wg_between(0, s->batch - piece.image, s->images);
    piece.lines = wg_between(0, s->count[1] - piece.line, s->lines);
    for (int axis = 0; axis < 3; axis++) {
        long lines = axis == 1 ? s->lines : s->count[axis];
        piece.pad[axis] = (lines - 1) * s->stride[axis] + (s->kernel[axis] - 1) * s->dilation[axis] + 1;
    }
    piece.channel = wg_volume(piece.pad), piece.each = s->ins * piece.channel;
    piece.x = memory, piece.g = memory + wg_up(s->images * piece.each, WIDTH);
    return piece;
}

// A channel of an image with its padding.
static void NAMED(wg_pad)(const wg_convolution *s, const NAMED(wg_piece) *piece, const REAL *from, REAL *to)
{
    for (long d = 0; d < piece->pad[0]; d++)
        for (long h = 0; h < piece->pad[1]; h++, to += piece->pad[2]) {
            long z = d - s->low[0], v = h + piece->line * s->stride[1] - s->low[1], low = wg_between(0, s->low[2], piece->pad[2]);
            long high = wg_between(low, s->size[2] + s->low[2], piece->pad[2]);
            if (z < 0 || z >= s->size[0] || v < 0 || v >= s->size[1]) low = high = 0;
            memset(to, 0, low * sizeof(REAL));
            memcpy(to + low, from + (z * s->size[1] + v) * s->size[2] + low - s->low[2], (high - low) * sizeof(REAL));
            memset(to + high, 0, (piece->pad[2] - high) * sizeof(REAL));
        }
}

// to[position][channel] = from[channel][position], 2 vectors of channels wide: squares of a vector's positions and channels
// are transposed in registers
static void NAMED(wg_turn)(const REAL *from, REAL *to, long channels, long plane, long positions)
{
    for (long start = 0; start < positions; start += WIDTH) {
        long some = positions - start < WIDTH ? positions - start : WIDTH;
        NAMED(mask) part = NAMED(mask_of)(0, some);
        for (long half = 0; half < 2; half++) {
            VECTOR x[WIDTH];
            UNROLLED for (long c = 0; c < WIDTH; c++) {
                long channel = half * WIDTH + c;
                x[c] = channel < channels ? NAMED(load_part)(from + channel * plane + start, part) : (VECTOR){0};
            }
            NAMED(wg_transpose)(x);
            UNROLLED for (long j = 0; j < WIDTH; j++)
                if (j < some) *(VECTOR *)(to + (start + j) * 2 * WIDTH + half * WIDTH) = x[j];
        }
    }
}

// sums[pair][channel] += sum over positions of x[position + offset of the pair] * g[position][channel]
INLINE void NAMED(wg_pairs)(const wg_convolution *s, const NAMED(wg_piece) *piece, const REAL *g, const long *offsets,
                            const uint8_t *skips, REAL *sums, int pairs, int wide)
{
    VECTOR total[WG_PAIRS][2];
    UNROLLED for (int i = 0; i < pairs; i++)
        UNROLLED for (int j = 0; j < wide; j++) total[i][j] = *(const VECTOR *)(sums + (i * 2 + j) * WIDTH);
    long across = s->stride[2], columns = s->count[2];
    for (long n = 0; n < piece->images; n++)
        for (long d = 0; d < s->count[0]; d++)
            for (long h = 0; h < piece->lines; h++) {
                const REAL *x = piece->x + n * piece->each +
                                (d * s->stride[0] * piece->pad[1] + h * s->stride[1]) * piece->pad[2];
                if (skips[d * piece->lines + h]) {
                    g += columns * 2 * WIDTH;
                    continue;
                }
                for (long q = 0; q < columns; q++, x += across, g += 2 * WIDTH) {
                    VECTOR y[2];
                    UNROLLED for (int j = 0; j < wide; j++) y[j] = *(const VECTOR *)(g + j * WIDTH);
                    UNROLLED for (int i = 0; i < pairs; i++) {
                        VECTOR every = x[offsets[i]] - (VECTOR){0};
                        UNROLLED for (int j = 0; j < wide; j++) total[i][j] = NAMED(fma)(every, y[j], total[i][j]);
                    }
                }
            }
    UNROLLED for (int i = 0; i < pairs; i++)
        UNROLLED for (int j = 0; j < wide; j++) *(VECTOR *)(sums + (i * 2 + j) * WIDTH) = total[i][j];
}

// The sums of one tile over one piece. Pairs are in the order (tap rows, channel, tap column): those of a tile mostly
// share their row of taps, and rows of the output for which it lies in the padding are left out.
static void NAMED(wg_weight_tile)(const wg_convolution *s, const NAMED(wg_piece) *piece, long block, long first, REAL *sums)
{
    const long *kernel = s->kernel;
    long all = s->ins * wg_volume(kernel), line = s->ins * kernel[2], pairs = wg_between(0, all - first, WG_PAIRS);
    long offsets[WG_PAIRS];
    for (long i = 0; i < WG_PAIRS; i++) {
        long pair = first + (i < pairs ? i : 0), row = pair / line, c = pair % line / kernel[2], e = pair % kernel[2];
        offsets[i] = c * piece->channel + (row / kernel[1] * s->dilation[0] * piece->pad[1] +
                                           row % kernel[1] * s->dilation[1]) * piece->pad[2] + e * s->dilation[2];
    }
    uint8_t skips[s->count[0] * piece->lines + 1];
    long row = first / line, last = (first + pairs - 1) / line;
    for (long d = 0; d < s->count[0]; d++)
        for (long h = 0; h < piece->lines; h++) {
            long z = d * s->stride[0] + row / kernel[1] * s->dilation[0] - s->low[0];
            long v = (piece->line + h) * s->stride[1] + row % kernel[1] * s->dilation[1] - s->low[1];
            skips[d * piece->lines + h] = row == last && (z < 0 || z >= s->size[0] || v < 0 || v >= s->size[1]);
        }
    long positions = piece->images * s->count[0] * piece->lines * s->count[2];
    const REAL *g = piece->g + block * positions * 2 * WIDTH;
    int narrow = s->outs - block * 2 * WIDTH <= WIDTH;
    if (narrow) NAMED(wg_pairs)(s, piece, g, offsets, skips, sums, WG_PAIRS, 1);
    else if (pairs * 2 <= WG_PAIRS) NAMED(wg_pairs)(s, piece, g, offsets, skips, sums, WG_PAIRS / 2, 2);
    else NAMED(wg_pairs)(s, piece, g, offsets, skips, sums, WG_PAIRS, 2);
}

// Add a tile's sums up over the parts and put them where they belong.
static void NAMED(wg_put_pairs)(const wg_convolution *s, const REAL *sums, long part_step, long block, long first, REAL *weight)
{
    const long *kernel = s->kernel;
    long taps = wg_volume(kernel), line = s->ins * kernel[2], pairs = wg_between(0, s->ins * taps - first, WG_PAIRS);
    long channels = wg_between(0, s->outs - block * 2 * WIDTH, 2 * WIDTH);
    for (long i = 0; i < pairs; i++) {
        long pair = first + i, c = pair % line / kernel[2], tap = pair / line * kernel[2] + pair % kernel[2];
        REAL *to = weight + (block * 2 * WIDTH * s->ins + c) * taps + tap;
        for (long o = 0; o < channels; o++) {
            REAL total = sums[i * 2 * WIDTH + o];
            for (long part = 1; part < s->parts; part++) total += sums[part * part_step + i * 2 * WIDTH + o];
            to[o * s->ins * taps] = total;
        }
    }
}

static void NAMED(wg_weight_of_group)(const REAL *x, const REAL *g, REAL *weight, REAL *scratch, const wg_convolution *s)
{
    long plane = wg_volume(s->size), out_plane = wg_volume(s->count), columns = s->count[2];
    long blocks = (s->outs + 2 * WIDTH - 1) / (2 * WIDTH), tile = WG_PAIRS * 2 * WIDTH;
    long tiles = (s->ins * wg_volume(s->kernel) + WG_PAIRS - 1) / WG_PAIRS, part_step = tiles * blocks * tile;
    long pieces = (s->batch + s->images - 1) / s->images * ((s->count[1] + s->lines - 1) / s->lines);
    long piece_positions = s->images * s->count[0] * s->lines * columns;
    REAL *sums = scratch, *memory = scratch + s->parts * part_step;
    NAMED(wg_piece) one = NAMED(wg_piece_at)(s, 0, memory);
    long piece_size = (one.g - memory) + blocks * piece_positions * 2 * WIDTH;
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (long i = 0; i < s->parts * part_step; i += WIDTH) *(VECTOR *)(sums + i) = (VECTOR){0};
        for (long begin = 0; begin < pieces; begin += s->parts) {
            long parts = pieces - begin < s->parts ? pieces - begin : s->parts;
#pragma omp for collapse(3) schedule(static) nowait
            for (long part = 0; part < parts; part++)
                for (long n = 0; n < s->images; n++)
                    for (long c = 0; c < s->ins; c++) {
                        NAMED(wg_piece) piece = NAMED(wg_piece_at)(s, begin + part, memory + part * piece_size);
                        if (n < piece.images)
                            NAMED(wg_pad)
                            (s, &piece, x + ((piece.image + n) * s->groups * s->ins + c) * plane,
                             piece.x + n * piece.each + c * piece.channel);
                    }
#pragma omp for collapse(3) schedule(static)
            for (long part = 0; part < parts; part++)
                for (long n = 0; n < s->images; n++)
                    for (long block = 0; block < blocks; block++) {
                        NAMED(wg_piece) piece = NAMED(wg_piece_at)(s, begin + part, memory + part * piece_size);
                        if (n >= piece.images) continue;
                        long each = s->count[0] * piece.lines * columns;
                        long channels = wg_between(0, s->outs - block * 2 * WIDTH, 2 * WIDTH);
                        const REAL *from = g + ((piece.image + n) * s->groups * s->outs + block * 2 * WIDTH) * out_plane;
                        NAMED(wg_turn)  // some lines of an image are a stretch of it: there are such pieces in 2-d only
                        (from + piece.line * columns, piece.g + (block * piece.images + n) * each * 2 * WIDTH, channels,
                         out_plane, each);
                    }
#pragma omp for collapse(3) schedule(dynamic, 4)
            for (long part = 0; part < parts; part++)
                for (long block = 0; block < blocks; block++)
                    for (long number = 0; number < tiles; number++) {
                        NAMED(wg_piece) piece = NAMED(wg_piece_at)(s, begin + part, memory + part * piece_size);
                        NAMED(wg_weight_tile)
                        (s, &piece, block, number * WG_PAIRS, sums + part * part_step + (block * tiles + number) * tile);
                    }
        }
#pragma omp for collapse(2) schedule(static)
        for (long block = 0; block < blocks; block++)
            for (long number = 0; number < tiles; number++)
                NAMED(wg_put_pairs)
                (s, sums + (block * tiles + number) * tile, part_step, block, number * WG_PAIRS, weight);
    }
}

// weight = the sum over images and positions of x * g
static void NAMED(wg_convolve_weight)(const REAL *x, const REAL *g, REAL *weight, REAL *scratch, const wg_convolution *s)
{
    long taps = wg_volume(s->kernel), plane = wg_volume(s->size), out_plane = wg_volume(s->count);
    for (long i = 0; i < s->groups; i++)
        NAMED(wg_weight_of_group)
        (x + i * s->ins * plane, g + i * s->outs * out_plane, weight + i * s->outs * s->ins * taps, scratch, s);
}
