/* Eigenvalues of small Hermitian matrices, and singular values of small matrices, by Jacobi's rotations.

   A rotation makes one pair of rows and columns (of columns, for singular values) orthogonal. Pairs without a member in
   common are rotated at once: with N even there are N/2 of them in a round, and N - 1 rounds, as in a tournament in which
   everybody meets everybody (Brent and Luk, 1985), are a sweep. After some 6 sweeps in float32, 8 in float64, nothing is
   left to rotate: the end of the convergence is quadratic.

   Eigenvalues: a round takes A to J^H A J. Thread by thread that is 2 by 2 blocks, the rows of one pair and the columns
   of another, each read and written by one thread: no other order of rows and columns is waited for. A round costs
   (N/2)^2 blocks of 16 multiplications and N^2/2 pairs of elements of V.
   Singular values (Hestenes, 1958): the columns of A V are made orthogonal: their sizes are the singular values, to high
   relative accuracy. A few threads have a pair: they sum the three products of its columns, and rotate them. */

#ifndef WENGERT_JACOBI_CUH
#define WENGERT_JACOBI_CUH

#include "factor.cuh"

#define WG_SWEEPS 30 /* more than any matrix takes that has no NaN */

template <class R> struct wg_limits;
template <> struct wg_limits<float> {
    static constexpr float epsilon = 1.1920929e-7f, tiny = 1e-36f;
};
template <> struct wg_limits<double> {
    static constexpr double epsilon = 2.220446049250313e-16, tiny = 1e-300;
};

/* A rotation of two columns: p to cosine p - conj(sine) q, q to sine p + cosine q, but for the phase of q's column:
   p' = c p - s conj(w) q, q' = s p + c conj(w) q, where w is the phase of the product that vanishes. */
template <class T> struct wg_rotation {
    wg_real_of<T> c, s;
    T turn; /* conj(w) */
    wg_real_of<T> t; /* the tangent */
    T product; /* what vanished; 0: nothing is rotated */
};
WG float wg_turned(float product, float size) { return product < 0 ? -1.0f : 1.0f; }
WG double wg_turned(double product, double size) { return product < 0 ? -1.0 : 1.0; }
template <class R> WG wg_complex<R> wg_turned(wg_complex<R> product, R size) { return {product.x / size, -product.y / size}; }

/* The rotation that makes two columns orthogonal whose squared sizes are `first` and `second`, and whose product this is:
   the smaller of the two angles. */
template <class T, class R> WG wg_rotation<T> wg_rotate(R first, R second, T product, R size)
{
    R zeta = (second - first) / (2 * size);
    R far = zeta < 0 ? -zeta : zeta;
    R t = 1 / (far + wg_root(1 + zeta * zeta));
    if (!(far < (sizeof(R) == 4 ? (R)1e18 : (R)1e150))) t = 1 / (2 * far);
    if (zeta < 0) t = -t;
    R c = 1 / wg_root(1 + t * t);
    return {c, t * c, wg_turned(product, size), t, product};
}

/* Columns p and q of a matrix of `rows` rows, rotated by so many threads: every LANES-th row by each. Four rows are read
   before the first is written. */
template <int LANES, int STEP, class T> WG void wg_rotate_columns(T *w, int rows, int p, int q, int lane, const wg_rotation<T> &r)
{
    for (int first = lane; first < rows; first += 4 * LANES) {
        T x[4], y[4];
#pragma unroll
        for (int u = 0; u < 4; u++) {
            int i = first + u * LANES < rows ? first + u * LANES : first;
            x[u] = w[i * STEP + p], y[u] = r.turn * w[i * STEP + q];
        }
#pragma unroll
        for (int u = 0; u < 4; u++) {
            int i = first + u * LANES;
            if (i >= rows) continue;
            w[i * STEP + p] = r.c * x[u] - r.s * y[u];
            w[i * STEP + q] = r.s * x[u] + r.c * y[u];
        }
    }
}

/* How many threads of a team have a pair of N columns, in one warp. */
template <int N, int TEAM> struct wg_pairs {
    static constexpr int players = N + N % 2, pairs = players / 2;
    static constexpr int power = pairs <= 1 ? 1 : pairs <= 2 ? 2 : pairs <= 4 ? 4 : pairs <= 8 ? 8 : pairs <= 16 ? 16 : 32;
    static constexpr int spare = TEAM / power > 0 ? TEAM / power : 1, lanes = spare > 32 ? 32 : spare;
    static constexpr int groups = TEAM / lanes;
};

/* The members of a pair of a round, of an even number of players. */
template <int PLAYERS> WG void wg_pair(int round, int pair, int &p, int &q)
{
    int a = pair ? (round + pair) % (PLAYERS - 1) : PLAYERS - 1;
    int b = (round + PLAYERS - 1 - pair) % (PLAYERS - 1);
    p = a < b ? a : b, q = a < b ? b : a;
}

/* The place of each of N numbers in their order, of equals the first first. */
template <int N, int TEAM, bool DESCENDING, class R> WG void wg_order(const R *values, int *places)
{
    for (int j = wg_team<TEAM>::rank(); j < N; j += TEAM) {
        int place = 0;
        R own = values[j];
        for (int k = 0; k < N; k++) {
            R other = values[k];
            bool is_nan = own != own, other_nan = other != other;
            bool before = DESCENDING ? other > own : other < own;
            bool even = other == own || (is_nan && other_nan);
            place += (!is_nan && other_nan ? false : is_nan && !other_nan ? true : before || (even && k < j)) ? 1 : 0;
        }
        places[j] = place;
    }
    wg_team<TEAM>::sync();
}

/* --- eigenvalues ---------------------------------------------------------------------------------------------------------- */

/* A Hermitian matrix to a diagonal one in place, and the eigenvectors to the columns of v (with WITH). `rotations` is
   shared, one for each pair of a round; `parts` has a place for every warp. Whether nothing was left to rotate. */
template <int N, int STEP, int TEAM, bool WITH, class T> WG bool wg_eigen(T *a, T *v, wg_rotation<T> *rotations, T *parts)
{
    typedef wg_team<TEAM> team;
    typedef wg_real_of<T> R;
    constexpr int players = N + N % 2, pairs = players / 2;
    R top = 0;
    for (int k = team::rank(); k < N * N; k += TEAM) {
        R size = wg_size1(a[k / N * STEP + k % N]);
        top = size > top ? size : top;
        if (WITH) v[k / N * STEP + k % N] = wg_from_real<T>::of(k / N == k % N ? 1 : 0);
    }
    const R least = wg_team_largest<TEAM>(top, (R *)parts) * wg_limits<R>::epsilon / (2 * N);
    team::sync();
    for (int sweep = 0; sweep < WG_SWEEPS; sweep++) {
        R rotated = 0;
        for (int round = 0; round < players - 1; round++) {
            for (int pair = team::rank(); pair < pairs; pair += TEAM) {
                int p, q;
                wg_pair<players>(round, pair, p, q);
                wg_rotation<T> r = {1, 0, wg_from_real<T>::of(1), 0, wg_from_real<T>::of(0)};
                if (q < N) {
                    T product = a[p * STEP + q];
                    R size = wg_size(product);
                    if (size > least) {
                        r = wg_rotate<T, R>(wg_re(a[p * STEP + p]), wg_re(a[q * STEP + q]), product, size);
                        rotated = 1;
                    }
                }
                rotations[pair] = r;
            }
            team::sync();
            for (int k = team::rank(); k < pairs * pairs; k += TEAM) { /* rows p, q and columns u, w */
                int p, q, u, w;
                wg_pair<players>(round, k / pairs, p, q);
                wg_pair<players>(round, k % pairs, u, w);
                const wg_rotation<T> left = rotations[k / pairs], right = rotations[k % pairs];
                if (wg_size1(left.product) == 0 && wg_size1(right.product) == 0) continue;
                bool below = q < N, beside = w < N;
                if (k / pairs == k % pairs) {
                    if (below && wg_size1(left.product) != 0) {
                        R gain = left.t * wg_size(left.product);
                        a[p * STEP + p] = wg_from_real<T>::of(wg_re(a[p * STEP + p]) - gain);
                        a[q * STEP + q] = wg_from_real<T>::of(wg_re(a[q * STEP + q]) + gain);
                        a[p * STEP + q] = a[q * STEP + p] = wg_from_real<T>::of(0);
                    }
                    continue;
                }
                T zero = wg_from_real<T>::of(0);
                T pu = a[p * STEP + u], pw = beside ? right.turn * a[p * STEP + w] : zero;
                T qu = below ? a[q * STEP + u] : zero, qw = below && beside ? right.turn * a[q * STEP + w] : zero;
                T pu2 = right.c * pu - right.s * pw, pw2 = right.s * pu + right.c * pw;
                T qu2 = wg_conj(left.turn) * (right.c * qu - right.s * qw), qw2 = wg_conj(left.turn) * (right.s * qu + right.c * qw);
                a[p * STEP + u] = left.c * pu2 - left.s * qu2;
                if (below) a[q * STEP + u] = left.s * pu2 + left.c * qu2;
                if (beside) a[p * STEP + w] = left.c * pw2 - left.s * qw2;
                if (below && beside) a[q * STEP + w] = left.s * pw2 + left.c * qw2;
            }
            typedef wg_pairs<N, TEAM> share;
            for (int pair = team::rank() / share::lanes; WITH && pair < pairs; pair += share::groups) {
                int p, q;
                wg_pair<players>(round, pair, p, q);
                const wg_rotation<T> r = rotations[pair];
                if (q < N && wg_size1(r.product) != 0) wg_rotate_columns<share::lanes, STEP>(v, N, p, q, team::rank() % share::lanes, r);
            }
            team::sync();
        }
        if (wg_team_largest<TEAM>(rotated, (R *)parts) == 0) return true;
    }
    return false;
}

/* --- singular values -------------------------------------------------------------------------------------------------------- */

/* The columns of w (M by N, M >= N) made orthogonal, and v the product of the rotations (with WITH). Whether nothing was
   left to rotate; NaN leaves something. Elements of w must be at most 1 in size. */
template <int M, int N, int STEP, int VSTEP, int TEAM, bool WITH, class T> WG bool wg_orthogonalize(T *w, T *v, T *parts)
{
    typedef wg_team<TEAM> team;
    typedef wg_real_of<T> R;
    typedef wg_pairs<N, TEAM> share;
    constexpr int players = share::players, pairs = share::pairs, lanes = share::lanes, groups = share::groups;
    for (int k = team::rank(); WITH && k < N * N; k += TEAM) v[k / N * VSTEP + k % N] = wg_from_real<T>::of(k / N == k % N ? 1 : 0);
    team::sync();
    const R close = wg_limits<R>::epsilon * wg_root((R)M);
    const int lane = team::rank() % lanes;
    for (int sweep = 0; sweep < WG_SWEEPS; sweep++) {
        R rotated = 0;
        for (int round = 0; round < players - 1; round++) {
            for (int first = 0; first < pairs; first += groups) { /* every thread of a warp comes to the sums */
                int pair = first + team::rank() / lanes, p = 0, q = N;
                if (pair < pairs) wg_pair<players>(round, pair, p, q);
                R pp = 0, qq = 0;
                T pq = wg_from_real<T>::of(0);
                if (q < N) {
                    for (int i = lane; i < M; i += lanes) {
                        T x = w[i * STEP + p], y = w[i * STEP + q];
                        pp += wg_norm2(x), qq += wg_norm2(y), pq += wg_conj(x) * y;
                    }
                }
                pp = wg_sum_over<lanes>(team::mask(), pp);
                qq = wg_sum_over<lanes>(team::mask(), qq);
                pq = wg_sum_over<lanes>(team::mask(), pq);
                R size = wg_size(pq);
                bool has_size = !(pp < wg_limits<R>::tiny) && !(qq < wg_limits<R>::tiny);
                if (q < N && has_size && !(size <= close * wg_root(pp) * wg_root(qq))) {
                    wg_rotation<T> r = wg_rotate<T, R>(pp, qq, pq, size);
                    rotated = 1;
                    wg_rotate_columns<lanes, STEP>(w, M, p, q, lane, r);
                    if (WITH) wg_rotate_columns<lanes, VSTEP>(v, N, p, q, lane, r);
                }
            }
            team::sync();
        }
        if (wg_team_largest<TEAM>(rotated, (R *)parts) == 0) return true;
    }
    return false;
}

/* Columns that complete an orthonormal system: those of u whose place in order[] is `rank` or later. Each begins as the
   axis that the columns before it cover least, of which two passes of Gram and Schmidt leave what is orthogonal to them.
   `parts` has a place for every warp and one for every column, `found` is a shared number. */
template <int M, int COLUMNS, int STEP, int TEAM, class T> WG void wg_complete(T *u, const int *order, int rank, T *parts, int *found)
{
    typedef wg_team<TEAM> team;
    typedef wg_real_of<T> R;
    T *products = parts + (team::warps > 1 ? team::warps : 1);
    for (int n = rank; n < COLUMNS; n++) {
        int own = order[n];
        wg_largest<TEAM, R> best = {(R)-1e30, M};
        constexpr int lanes = TEAM < 32 ? TEAM : 32;
        if (TEAM <= 32 || team::rank() < 32) {
            for (int i = team::rank() % lanes; i < M; i += lanes) {
                R left = 1;
                for (int k = 0; k < n; k++) left -= wg_norm2(u[i * STEP + order[k]]);
                best.meet(left, i);
            }
            best.over_warp();
        }
        if (team::rank() == 0) *found = best.at;
        team::sync();
        for (int i = team::rank(); i < M; i += TEAM) u[i * STEP + own] = wg_from_real<T>::of(i == *found ? 1 : 0);
        team::sync();
        for (int pass = 0; pass < 2; pass++) {
            for (int k = team::rank(); k < n; k += TEAM) {
                T dot = wg_from_real<T>::of(0);
                for (int i = 0; i < M; i++) dot += wg_conj(u[i * STEP + order[k]]) * u[i * STEP + own];
                products[k] = dot;
            }
            team::sync();
            R sum = 0;
            for (int i = team::rank(); i < M; i += TEAM) {
                T x = u[i * STEP + own];
                for (int k = 0; k < n; k++) x -= u[i * STEP + order[k]] * products[k];
                u[i * STEP + own] = x;
                sum += wg_norm2(x);
            }
            R size = wg_root(wg_team_sum<TEAM>(sum, (R *)parts));
            for (int i = team::rank(); i < M; i += TEAM) u[i * STEP + own] = u[i * STEP + own] / size;
            team::sync();
        }
    }
}

#endif
