/* Factorisations of small matrices that take a known number of steps: LU with partial pivoting, Cholesky, Householder's
   QR, and the triangular systems that use them.

   Step k takes what is below and right of the diagonal element k. A thread has a row, or a part of one where there are
   more threads than rows: it reads an element of the row of the pivot as all others do, at one place (a broadcast), and
   its own at a distance that is odd (no two in one bank). So step k costs N - k iterations of two loads, a multiplication
   and a store, whatever the number of rows; LU takes N^2 / 2 of them and 2/3 N^3 operations on N^2 elements, which are
   read and written once. The order of operations is LAPACK's unblocked one. */

#ifndef WENGERT_FACTOR_CUH
#define WENGERT_FACTOR_CUH

#include "matrix.cuh"

/* How the threads of a team share rows: so many rows side by side, and so many threads for each. */
template <int TEAM, int N> struct wg_rows {
    static constexpr int power = N <= 8 ? 8 : N <= 16 ? 16 : N <= 32 ? 32 : N <= 64 ? 64 : 128;
    static constexpr int rows = power < TEAM ? power : TEAM;
    static constexpr int parts = TEAM / rows;
    static __device__ __forceinline__ int row() { return wg_team<TEAM>::rank() % rows; }
    static __device__ __forceinline__ int part() { return wg_team<TEAM>::rank() / rows; }
};

/* own[j] -= factor * other[j * step] for every PARTS-th j: what four of them need is read before the first is written,
   so that one wait for shared memory serves four */
template <int PARTS, class T> WG void wg_subtract(T *own, T factor, const T *other, int step, int first, int end, bool conjugate = false)
{
    int j = first;
    for (; j + 3 * PARTS < end; j += 4 * PARTS) {
        T x[4], y[4];
#pragma unroll
        for (int u = 0; u < 4; u++) x[u] = own[j + u * PARTS], y[u] = other[(j + u * PARTS) * step];
#pragma unroll
        for (int u = 0; u < 4; u++) own[j + u * PARTS] = x[u] - factor * (conjugate ? wg_conj(y[u]) : y[u]);
    }
    for (; j < end; j += PARTS) own[j] = own[j] - factor * (conjugate ? wg_conj(other[j * step]) : other[j * step]);
}

/* a / pivot by way of 1 / pivot, unless that overflows */
template <class T> WG T wg_quotient(T a, T pivot, T over) { return wg_size1(over) * 0 == 0 ? a * over : a / pivot; }

/* Where the largest element of column k is, of the rows from k on. */
template <int N, int STEP, int TEAM, class T> WG int wg_pivot(const T *a, int k, int *found)
{
    wg_largest<TEAM, wg_real_of<T>> best = {(wg_real_of<T>)-1, N};
    constexpr int lanes = TEAM < 32 ? TEAM : 32;
    if (TEAM <= 32 || wg_team<TEAM>::rank() < 32) {
        for (int i = k + wg_team<TEAM>::rank() % lanes; i < N; i += lanes) best.meet(wg_size1(a[i * STEP + k]), i);
        best.over_warp();
        if (best.at == N) best.at = k;
    }
    if (TEAM <= 32) return best.at;
    if (wg_team<TEAM>::rank() == 0) *found = best.at;
    wg_team<TEAM>::sync();
    return *found;
}

/* P A = L U in place: L below the diagonal, whose own is ones. pivots[k] is the row that changed places with row k, and
   rows[i] the one that has come to place i. Whether no pivot was zero. */
template <int N, int STEP, int TEAM, class T> WG bool wg_lu(T *a, int *pivots, int *rows)
{
    typedef wg_team<TEAM> team;
    typedef wg_rows<TEAM, N> mine;
    bool regular = true;
    for (int i = team::rank(); i < N; i += TEAM) rows[i] = i;
    team::sync();
    for (int k = 0; k < N; k++) {
        int p = wg_pivot<N, STEP, TEAM>(a, k, pivots + k);
        if (team::rank() == 0) {
            int held = rows[k];
            pivots[k] = p, rows[k] = rows[p], rows[p] = held;
        }
        if (p != k) {
            for (int j = team::rank(); j < N; j += TEAM) {
                T held = a[k * STEP + j];
                a[k * STEP + j] = a[p * STEP + j];
                a[p * STEP + j] = held;
            }
        }
        team::sync();
        T pivot = a[k * STEP + k];
        if (wg_size1(pivot) == 0) {
            regular = false;
            continue;
        }
        const T over = wg_from_real<T>::of(1) / pivot;
        for (int i = k + 1 + mine::row(); i < N; i += mine::rows) {
            T factor = wg_quotient(a[i * STEP + k], pivot, over);
            wg_subtract<mine::parts>(a + i * STEP, factor, a + k * STEP, 1, k + 1 + mine::part(), N);
            if (mine::parts == 1) a[i * STEP + k] = factor;
        }
        if (mine::parts > 1) { /* first the others of a row read its factor */
            team::sync();
            for (int i = k + 1 + team::rank(); i < N; i += TEAM) a[i * STEP + k] = wg_quotient(a[i * STEP + k], pivot, over);
        }
        team::sync();
    }
    return regular;
}

/* The x of a x = b in the place of b, for the upper or the lower triangle of a, whose diagonal may be taken as ones.
   Whether no element of the diagonal was zero. */
template <int N, int STEP, int TEAM, bool UPPER, bool UNIT, class T> WG bool wg_triangular(const T *a, T *b, int step, int columns)
{
    typedef wg_team<TEAM> team;
    typedef wg_rows<TEAM, N> mine;
    bool regular = true;
    for (int n = 0; n < N; n++) {
        int k = UPPER ? N - 1 - n : n;
        if (!UNIT) {
            T pivot = a[k * STEP + k];
            regular = regular && wg_size1(pivot) != 0;
            for (int j = team::rank(); j < columns; j += TEAM) b[k * step + j] = b[k * step + j] / pivot;
            team::sync();
        }
        int first = UPPER ? 0 : k + 1, end = UPPER ? k : N;
        for (int i = first + mine::row(); i < end; i += mine::rows) {
            wg_subtract<mine::parts>(b + i * step, a[i * STEP + k], b + k * step, 1, mine::part(), columns);
        }
        team::sync();
    }
    return regular;
}

/* A = L L^H in place, of the lower triangle. Whether A is positive definite. */
template <int N, int STEP, int TEAM, class T> WG bool wg_cholesky(T *a)
{
    typedef wg_team<TEAM> team;
    typedef wg_rows<TEAM, N> mine;
    typedef wg_real_of<T> R;
    for (int k = 0; k < N; k++) {
        R square = wg_re(a[k * STEP + k]);
        if (!(square > 0)) return false;
        R root = wg_root(square);
        team::sync(); /* all have read the diagonal */
        for (int i = k + team::rank(); i < N; i += TEAM) a[i * STEP + k] = i == k ? wg_from_real<T>::of(root) : a[i * STEP + k] / root;
        team::sync();
        for (int i = k + 1 + mine::row(); i < N; i += mine::rows) {
            wg_subtract<mine::parts>(a + i * STEP, a[i * STEP + k], a + k, STEP, k + 1 + mine::part(), i + 1, true);
        }
        team::sync();
    }
    return true;
}

/* The sum over a team of what each thread has, in a fixed order; `parts` is shared and has a place for every warp. */
template <int TEAM, class T> WG T wg_team_sum(T value, T *parts)
{
    typedef wg_team<TEAM> team;
    value = wg_sum_over<(TEAM < 32 ? TEAM : 32)>(team::mask(), value);
    if (TEAM <= 32) return value;
    if (team::rank() % 32 == 0) parts[team::rank() / 32] = value;
    team::sync();
    T total = parts[0];
#pragma unroll
    for (int k = 1; k < team::warps; k++) total = total + parts[k];
    team::sync();
    return total;
}
template <int TEAM, class R> WG R wg_team_largest(R value, R *parts)
{
    typedef wg_team<TEAM> team;
    wg_largest<TEAM, R> best = {value, 0};
    best.over_warp();
    if (TEAM <= 32) return best.value;
    if (team::rank() % 32 == 0) parts[team::rank() / 32] = best.value;
    team::sync();
    R top = parts[0];
#pragma unroll
    for (int k = 1; k < team::warps; k++) top = parts[k] > top ? parts[k] : top;
    team::sync();
    return top;
}

/* QR of `M` by `N` in place, by Householder's reflections: R on and above the diagonal, below it the vectors of the
   reflections H_k = 1 - tau_k v v^H, whose first element is 1 and is not stored. `parts` has a place for every warp.
   A column is scaled by its largest element before it is squared. */
template <int M, int N, int STEP, int TEAM, class T> WG void wg_qr(T *a, T *taus, T *parts)
{
    typedef wg_team<TEAM> team;
    typedef wg_real_of<T> R;
    constexpr int steps = M < N ? M : N;
    for (int k = 0; k < steps; k++) {
        R top = 0;
        for (int i = k + 1 + team::rank(); i < M; i += TEAM) {
            R size = wg_size1(a[i * STEP + k]);
            top = size > top ? size : top;
        }
        top = wg_team_largest<TEAM>(top, (R *)parts);
        T head = a[k * STEP + k], tau = wg_from_real<T>::of(0);
        if (top != 0 || wg_im(head) != 0) {
            R scale = wg_size1(head) > top ? wg_size1(head) : top, sum = 0;
            for (int i = k + 1 + team::rank(); i < M; i += TEAM) sum += wg_norm2(a[i * STEP + k] / scale);
            sum = wg_team_sum<TEAM>(sum, (R *)parts);
            R norm = scale * wg_root(wg_norm2(head / scale) + sum);
            R beta = wg_re(head) < 0 ? norm : -norm;
            tau = (wg_from_real<T>::of(beta) - head) / beta;
            T below = head - wg_from_real<T>::of(beta);
            for (int i = k + 1 + team::rank(); i < M; i += TEAM) a[i * STEP + k] = a[i * STEP + k] / below;
            team::sync();
            if (team::rank() == 0) a[k * STEP + k] = wg_from_real<T>::of(beta);
            for (int j = k + 1 + team::rank(); j < N; j += TEAM) { /* a thread has a column: H^H of it */
                T dot = a[k * STEP + j];
                for (int i = k + 1; i < M; i++) dot += wg_conj(a[i * STEP + k]) * a[i * STEP + j];
                dot = wg_conj(tau) * dot;
                a[k * STEP + j] -= dot;
                for (int i = k + 1; i < M; i++) a[i * STEP + j] -= a[i * STEP + k] * dot;
            }
        }
        if (team::rank() == 0) taus[k] = tau;
        team::sync();
    }
}

/* The first `columns` columns of the Q that wg_qr left as reflections, in q. */
template <int M, int N, int STEP, int TEAM, class T> WG void wg_orthogonal(const T *a, const T *taus, T *q, int step, int columns)
{
    typedef wg_team<TEAM> team;
    constexpr int steps = M < N ? M : N;
    for (int j = team::rank(); j < columns; j += TEAM) { /* a thread has a column: the reflections, the last one first */
        for (int i = 0; i < M; i++) q[i * step + j] = wg_from_real<T>::of(i == j ? 1 : 0);
        for (int k = steps - 1; k >= 0; k--) {
            if (j < k) continue;
            T dot = q[k * step + j];
            for (int i = k + 1; i < M; i++) dot += wg_conj(a[i * STEP + k]) * q[i * step + j];
            dot = taus[k] * dot;
            q[k * step + j] -= dot;
            for (int i = k + 1; i < M; i++) q[i * step + j] -= a[i * STEP + k] * dot;
        }
    }
    team::sync();
}

#endif
