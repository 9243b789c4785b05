// Convolution by the weight for groups of few channels. Included once for each WG_T, after conv_direct.h, whose bands and
// panels it has.
//
// The gradient with respect to a tap is the dot product of the cotangent and the panel at the tap's distance. The cotangent
// is laid into rows a pitch apart too, and goes past the panel once for up to 12 taps, a vector of sums for each in
// registers. What lies between two rows is 0 in the one and masked in the other: an infinite element of an image would
// make not a number of its product with 0.
//
// FLOPs: 2 * batch * positions * outs * ins * taps. Bytes: input and cotangent read once for each pair of channels.

// sums[t] += g[position] * panel[offset[t] + position], where `counts` has all bits
INLINE void NAMED(wg_dot_taps)(const REAL *panel, const REAL *g, const REAL *counts, const long *offset, long positions,
                               VECTOR *sums, int taps)
{
    VECTOR total[WG_PAIRS];
    UNROLLED for (int t = 0; t < taps; t++) total[t] = sums[t];
    for (long i = 0; i < positions; i += WIDTH) {
        VECTOR y = *(const ANYWHERE *)(g + i);
        NAMED(order) mask = (NAMED(order))(VECTOR)*(const ANYWHERE *)(counts + i);
        UNROLLED for (int t = 0; t < taps; t++) {
            NAMED(order) x = (NAMED(order))(VECTOR)*(const ANYWHERE *)(panel + offset[t] + i);
            total[t] = NAMED(fma)(y, (VECTOR)(x & mask), total[t]);
        }
    }
    UNROLLED for (int t = 0; t < taps; t++) sums[t] = total[t];
}

#define WG_DOT_CASE(n)                                                                                                 \
    case n: NAMED(wg_dot_taps)(panel, g, counts, at, positions, to, n); break;

static void NAMED(wg_dot_plane)(const REAL *panel, const REAL *g, const REAL *counts, const long *offset, long taps,
                                long positions, VECTOR *sums)
{
    long blocks = (taps + WG_PAIRS - 1) / WG_PAIRS;
    for (long block = 0; block < blocks; block++) {
        const long *at = offset + block * taps / blocks;
        VECTOR *to = sums + block * taps / blocks;
        switch ((block + 1) * taps / blocks - block * taps / blocks) {
            WG_DOT_CASE(1) WG_DOT_CASE(2) WG_DOT_CASE(3) WG_DOT_CASE(4) WG_DOT_CASE(5) WG_DOT_CASE(6)
#if !WG_FEW
            WG_DOT_CASE(7) WG_DOT_CASE(8) WG_DOT_CASE(9) WG_DOT_CASE(10) WG_DOT_CASE(11) WG_DOT_CASE(12)
#endif
        }
    }
}

// The bits of the positions of a band that are elements of the output.
static void NAMED(wg_count)(REAL *counts, const wg_cut *cut, const wg_band *band)
{
    long end = wg_up(band->lines * cut->pitch, WIDTH);
    memset(counts, 0, end * sizeof(REAL));
    for (long line = 0; line < band->lines; line++)
        memset(counts + line * cut->pitch, 255, band->columns * sizeof(REAL));
}

// The sums of one pair of channels over a band of one image.
static void NAMED(wg_weight_band)(const REAL *x, const REAL *g, const wg_convolution *s, const wg_cut *cut, const wg_band *band,
                                  REAL *panel, const REAL *counts, VECTOR *sums)
{
    const wg_way *deep = &cut->way[0], *down = &cut->way[1], *across = &cut->way[2];
    long positions = (band->lines - 1) * cut->pitch + band->columns, end = wg_up(band->lines * cut->pitch, WIDTH);
    REAL *laid = panel + cut->panel;
    NAMED(wg_lay_rows)
    (laid, g + (band->depth * down->out + band->line) * across->out + band->column, cut->pitch, across->out, band->lines,
     cut->pitch, 0, band->columns, 1);
    memset(laid + band->lines * cut->pitch, 0, (end - band->lines * cut->pitch) * sizeof(REAL));
    for (long a = 0; a < s->kernel[0]; a++) {
        long z = wg_plane_met(deep, band->depth, a);
        if (z < 0) continue;
        NAMED(wg_lay_plane)(panel, x + z * down->source * across->source, cut, band);
        NAMED(wg_dot_plane)(panel, laid, counts, cut->offset, cut->taps, positions, sums + a * cut->taps);
    }
}

// The scratch memory of a thread: a panel, the cotangent, what of it counts, a vector of sums for each tap.
static void NAMED(wg_convolve_weight_direct)(const REAL *x, const REAL *g, REAL *weight, REAL *scratch, long each,
                                             const wg_convolution *s)
{
    long tables[wg_tables_size(s)], taps = wg_volume(s->kernel), plane = wg_volume(s->size), out = wg_volume(s->count);
    wg_cut cut = wg_cut_of(s, 0, 1, WIDTH, tables);
    long bands = cut.bands[0] * cut.bands[1] * cut.bands[2];
#pragma omp parallel num_threads(wg_threads)  // as many as the scratch memory is for
    {
        REAL *panel = scratch + omp_get_thread_num() * each, *counts = panel + cut.panel + cut.sums;
        VECTOR *sums = (VECTOR *)(counts + cut.sums);
        long lines = 0, columns = 0;
#pragma omp for collapse(2) schedule(static)
        for (long o = 0; o < s->groups * s->outs; o++)
            for (long c = 0; c < s->ins; c++) {
                memset(sums, 0, taps * sizeof(VECTOR));
                for (long number = 0; number < s->batch * bands; number++) {
                    wg_band band = wg_band_at(s, &cut, number % bands);
                    long image = number / bands;
                    if (band.lines != lines || band.columns != columns) NAMED(wg_count)(counts, &cut, &band);
                    lines = band.lines, columns = band.columns;
                    NAMED(wg_weight_band)
                    (x + ((image * s->groups + o / s->outs) * s->ins + c) * plane, g + (image * s->groups * s->outs + o) * out, s,
                     &cut, &band, panel, counts, sums);
                }
                for (long t = 0; t < taps; t++) {
                    REAL total = 0;
                    for (int i = 0; i < WIDTH; i++) total += sums[t][i];
                    weight[(o * s->ins + c) * taps + cut.tap[t % cut.taps] + t / cut.taps * cut.taps] = total;
                }
            }
    }
}

#undef WG_DOT_CASE
