// Convolutions as matrix products whose operands are never unfolded in memory (implicit GEMM), channels last.
//
//     forward        y[position, o]   = sum over (tap, c)    of x[position * stride + tap * gap - low, c] * weight[o, tap, c]
//     by the input   x[place, c]      = sum over (tap, o)    of y[(place + low - tap * gap) / stride, o] * weight[o, tap, c]
//     by the weight  weight[o, tap, c] = sum over positions  of y[position, o] * x[position * stride + tap * gap - low, c]
//
// The operands below stand in for matrices in the kernels gemm_fma.cuh and gemm_mma.cuh: they say where a chunk of channels
// lies, and that there is none outside the image. The text before this header defines `wg_shape`, the sizes as constants, so
// that positions are taken apart without divisions: size, count (of y), kernel, stride, gap (dilation) and low along three
// axes, the channels `ins` and `outs` of one group (multiples of a chunk), and the number of groups.
#pragma once
#include "tile.cuh"

struct wg_sizes : wg_shape {
    static const int taps = kernel0 * kernel1 * kernel2, depth = taps * ins, places = size0 * size1 * size2;
    static const int positions = count0 * count1 * count2;
};

// Positions of y (or places of x) in order; the first axis is that of images.
struct wg_position {
    int image, at0, at1, at2;

    __device__ __forceinline__ static wg_position of(int p, int n0, int n1, int n2)
    {
        int rest = p / n2, last = p % n2, before = rest / n1;
        return {before / n0, before % n0, rest % n1, last};
    }
};

const int wg_nowhere = -(1 << 30);  // along an axis: outside, whatever is added

// --- x, unfolded: a row is a position of y, the depth is (tap, channel) --------------------------------------------

// A chunk lies where its position's window begins, and its tap's step further: the step is the same for all positions.
template <class Number, bool ALONG> struct wg_unfolded {
    typedef Number T;
    typedef wg_sizes s;
    static const bool along = ALONG, free = false, even = false, whole = true;
    const T *data;
    int rows, depth;  // ALONG: positions and (tap, channel); across: the other way round

    struct Corner { const T *start; int at0, at1, at2; };
    struct Tap { long long step; int at0, at1, at2; };

    __device__ __forceinline__ Corner corner(int p, int last) const
    {
        wg_position at = wg_position::of(p, s::count0, s::count1, s::count2);
        int at0 = at.at0 * s::stride0 - s::low0, at1 = at.at1 * s::stride1 - s::low1, at2 = at.at2 * s::stride2 - s::low2;
        long long place = (long long)at.image * s::places + ((long long)at0 * s::size1 + at1) * s::size2 + at2;
        return {data + place * (s::ins * s::groups), at0, p < last ? at1 : wg_nowhere, at2};
    }
    __device__ __forceinline__ Tap tap(int k, int last) const
    {
        int t = k / s::ins, rest = t / s::kernel2;
        int at0 = rest / s::kernel1 * s::gap0, at1 = rest % s::kernel1 * s::gap1, at2 = t % s::kernel2 * s::gap2;
        long long place = ((long long)at0 * s::size1 + at1) * s::size2 + at2;
        return {place * (s::ins * s::groups) + k % s::ins, at0, k < last ? at1 : wg_nowhere, at2};
    }
    template <int CHUNK> __device__ __forceinline__ const T *chunk(const Corner &c, const Tap &t, int &count) const
    {
        bool deep = s::size0 == 1 && s::kernel0 == 1 && s::low0 == 0 || (unsigned)(c.at0 + t.at0) < s::size0;
        bool in = deep && (unsigned)(c.at1 + t.at1) < s::size1 && (unsigned)(c.at2 + t.at2) < s::size2;
        count = in ? CHUNK : 0;
        return c.start + t.step;
    }
};

template <class Number> struct wg_unfolded_rows : wg_unfolded<Number, true> {
    typedef typename wg_unfolded<Number, true>::Corner Row;
    typedef typename wg_unfolded<Number, true>::Tap Spot;
    __device__ __forceinline__ Row row(int r) const { return this->corner(r, this->rows); }
    __device__ __forceinline__ Spot spot(int k, int) const { return this->tap(k, this->depth); }
    template <int CHUNK> __device__ __forceinline__ const Number *at(const Row &row, const Spot &spot, int &count) const
    {
        return this->template chunk<CHUNK>(row, spot, count);
    }
};

template <class Number> struct wg_unfolded_columns : wg_unfolded<Number, false> {
    typedef typename wg_unfolded<Number, false>::Tap Row;
    typedef typename wg_unfolded<Number, false>::Corner Spot;
    __device__ __forceinline__ Row row(int r) const { return this->tap(r, this->rows); }
    __device__ __forceinline__ Spot spot(int k, int) const { return this->corner(k, this->depth); }
    template <int CHUNK> __device__ __forceinline__ const Number *at(const Row &row, const Spot &spot, int &count) const
    {
        return this->template chunk<CHUNK>(spot, row, count);
    }
};

// --- by the input: places of x that are equal modulo the stride read the same taps -----------------------------------

// Along one axis, for places `rest` modulo the stride: the first tap that meets them, every which one does, and how many.
struct wg_meeting {
    int first, step, taps, places, rest, start, back;

    __device__ __forceinline__ static wg_meeting of(int rest, int size, int kernel, int stride, int gap, int low)
    {
        int common = gap, other = stride;  // their greatest common divisor
        while (other) {
            int left = common % other;
            common = other, other = left;
        }
        int step = stride / common, first = 0;
        while (first < step && (rest + low - first * gap) % stride) first++;
        int taps = first < step && first < kernel ? (kernel - first + step - 1) / step : 0;
        return {first, step, taps, (size - rest + stride - 1) / stride, rest, (rest + low - first * gap) / stride, gap / common};
    }
};

struct wg_class {
    wg_meeting axis0, axis1, axis2;

    __device__ __forceinline__ static wg_class of(int number)
    {
        typedef wg_sizes s;
        int rest = number / s::stride2;
        return {wg_meeting::of(rest / s::stride1, s::size0, s::kernel0, s::stride0, s::gap0, s::low0),
                wg_meeting::of(rest % s::stride1, s::size1, s::kernel1, s::stride1, s::gap1, s::low1),
                wg_meeting::of(number % s::stride2, s::size2, s::kernel2, s::stride2, s::gap2, s::low2)};
    }
    __device__ __forceinline__ int places() const { return axis0.places * axis1.places * axis2.places; }
    __device__ __forceinline__ int taps() const { return axis0.taps * axis1.taps * axis2.taps; }
};

// Taps of a class, numbered.
struct wg_class_tap {
    int at0, at1, at2;

    __device__ __forceinline__ static wg_class_tap of(const wg_class &c, int t)
    {
        int n2 = c.axis2.taps > 0 ? c.axis2.taps : 1, n1 = c.axis1.taps > 0 ? c.axis1.taps : 1, rest = t / n2;
        return {rest / n1, rest % n1, t % n2};
    }
};

// y as the places of a class see it: a row is a place, the depth is (tap of the class, output channel).
template <class Number> struct wg_seen {
    typedef Number T;
    typedef wg_sizes s;
    static const bool along = true, free = false, even = false, whole = true;
    const T *data;
    wg_class c;
    int rows, depth;

    struct Row { const T *start; int at0, at1, at2; };
    struct Spot { long long step; int at0, at1, at2; };

    __device__ __forceinline__ Row row(int r) const
    {
        wg_position p = wg_position::of(r, c.axis0.places, c.axis1.places, c.axis2.places);
        int at0 = p.at0 + c.axis0.start, at1 = p.at1 + c.axis1.start, at2 = p.at2 + c.axis2.start;
        long long place = (long long)p.image * s::positions + ((long long)at0 * s::count1 + at1) * s::count2 + at2;
        return {data + place * (s::outs * s::groups), at0, r < rows ? at1 : wg_nowhere, at2};
    }
    __device__ __forceinline__ Spot spot(int k, int first) const
    {
        wg_class_tap t = wg_class_tap::of(c, (s::outs % 64 == 0 ? first : k) / s::outs);
        int at0 = t.at0 * c.axis0.back, at1 = t.at1 * c.axis1.back, at2 = t.at2 * c.axis2.back;
        long long place = ((long long)at0 * s::count1 + at1) * s::count2 + at2;
        return {k % s::outs - place * (s::outs * s::groups), -at0, k < depth ? -at1 : wg_nowhere, -at2};
    }
    template <int CHUNK> __device__ __forceinline__ const T *at(const Row &row, const Spot &spot, int &count) const
    {
        bool deep = s::count0 == 1 && s::size0 == 1 && s::kernel0 == 1 || (unsigned)(row.at0 + spot.at0) < s::count0;
        bool in = deep && (unsigned)(row.at1 + spot.at1) < s::count1 && (unsigned)(row.at2 + spot.at2) < s::count2;
        count = in ? CHUNK : 0;
        return row.start + spot.step;
    }
};

// The weight with the same depth, across: its rows are input channels.
template <class Number> struct wg_seen_weight {
    typedef Number T;
    typedef wg_sizes s;
    static const bool along = false, free = false, even = false, whole = false;
    const T *data;
    wg_class c;
    int rows, depth;

    struct Row { const T *start; int left; };
    struct Spot { long long offset; bool in; };

    __device__ __forceinline__ Row row(int r) const { return {data + r, rows - r}; }
    __device__ __forceinline__ Spot spot(int k, int first) const
    {
        wg_class_tap t = wg_class_tap::of(c, (s::outs % 64 == 0 ? first : k) / s::outs);
        int tap0 = c.axis0.first + t.at0 * c.axis0.step, tap1 = c.axis1.first + t.at1 * c.axis1.step;
        int tap = (tap0 * s::kernel1 + tap1) * s::kernel2 + c.axis2.first + t.at2 * c.axis2.step;
        return {((long long)(k % s::outs) * s::taps + tap) * s::ins, k < depth};
    }
    template <int CHUNK> __device__ __forceinline__ const T *at(const Row &row, const Spot &spot, int &count) const
    {
        count = spot.in ? wg_between(0, row.left, CHUNK) : 0;
        return row.start + spot.offset;
    }
};

// Hands a class's sums to the places they belong to.
template <class Out> struct wg_spread {
    typedef wg_sizes s;
    static const int width = Out::width;
    Out out;
    wg_class c;
    int rows;

    template <class S> __device__ __forceinline__ void operator()(int row, int column, const S *sums) const
    {
        if (row >= rows) return;
        wg_position p = wg_position::of(row, c.axis0.places, c.axis1.places, c.axis2.places);
        int at0 = p.at0 * s::stride0 + c.axis0.rest, at1 = p.at1 * s::stride1 + c.axis1.rest, at2 = p.at2 * s::stride2 + c.axis2.rest;
        out(((p.image * s::size0 + at0) * s::size1 + at1) * s::size2 + at2, column, sums);
    }
};
