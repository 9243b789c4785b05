"""Arithmetic that rounds as PyTorch's kernels do on x86-64: fused multiply-adds, and Box-Muller's normal numbers.

In: NumPy arrays of float32 or float64. Out: the bits that AVX2 code and the C library give.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_BLOCKS_AT_ONCE = 1 << 10  # so that what is in between stays in the cache
_BELOW_FLOAT32 = (1 << 29) - 1  # the bits of a float64 that float32 has not
_MIDDLE = 1 << 28


def c_library(function: Callable[[float], float], values: Array) -> Array:
    """A function of the C library, which PyTorch calls, of each number. NumPy's own may differ in the last bit."""
    return np.fromiter(map(function, values.reshape(-1).tolist()), np.float64, values.size).reshape(values.shape)


def scaled(values: Array, factor: Any, offset: Any) -> Array:
    """values * factor + offset with one rounding."""
    return (fma32 if values.dtype == np.float32 else fma64)(values, factor, offset)


def _two_sum(a: Any, b: Any) -> tuple[Any, Any]:
    """A sum and its rounding error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _to_odd(total: Array, error: Array) -> Array:
    """A float64 sum rounded to odd, from which another rounding goes as if it were the first (Boldo, Melquiond)."""
    bits = np.ascontiguousarray(total).view(np.int64)
    is_due = (error != 0) & (bits & 1 == 0)
    return np.where(is_due, np.where((error > 0) == (total > 0), bits + 1, bits - 1), bits).view(np.float64)


def fma32(a: Any, b: Any, c: Any) -> Array:
    """a * b + c in float32 with one rounding: in float64, where the product is exact, and from there to float32.

    The second rounding goes wrong only from the middle between two float32, to which the first one has come.
    """
    product = np.multiply(a, b, dtype=np.float64)
    total = np.atleast_1d(product + c)
    result = total.astype(np.float32)
    middle = np.flatnonzero((total.view(np.int64) & _BELOW_FLOAT32) == _MIDDLE)
    if middle.size:
        parts = (np.broadcast_to(part, total.shape).reshape(-1)[middle] for part in (product, c))
        result.reshape(-1)[middle] = _to_odd(*_two_sum(*(part.astype(np.float64) for part in parts)))
    return result.reshape(np.broadcast_shapes(np.shape(product), np.shape(c)))


def fma64(a: Array, b: Any, c: Any) -> Array:
    """a * b + c in float64 with one rounding, from exact sums and products."""
    if b == 1 or c == 0:
        return np.asarray(a * b + c)
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    upper, lower = _two_sum(c, error)
    total, rest = _two_sum(product, upper)
    return np.asarray(total + _to_odd(*_two_sum(rest, lower)))


def _halves(a: Any) -> tuple[Any, Any]:
    """A float64 as a sum of two with 26 bits each (Veltkamp)."""
    scaled = a * 134217729.0
    high = scaled - (scaled - a)
    return high, a - high


def in_blocks(unit: Array, box_muller: Callable[..., Array], mean: float, std: float) -> Array:
    """Normal numbers from uniform ones, a block of 16 being eight radii and eight angles."""
    blocks = unit.reshape(-1, 2, 8)
    result = np.empty_like(blocks)
    for start in range(0, len(blocks), _BLOCKS_AT_ONCE):
        part = blocks[start : start + _BLOCKS_AT_ONCE]
        result[start : start + _BLOCKS_AT_ONCE] = box_muller(
            np.ascontiguousarray(part[:, 0]),
            np.ascontiguousarray(part[:, 1]),
            unit.dtype.type(mean),
            unit.dtype.type(std),
        )
    return result.reshape(-1)


def box_muller64(first: Array, second: Array, mean: Any, std: Any) -> Array:
    radius = np.sqrt(-2.0 * c_library(math.log, 1.0 - first))
    angle = 2.0 * math.pi * second
    pair = np.stack([radius * c_library(math.cos, angle), radius * c_library(math.sin, angle)], 1)
    return fma64(pair, std, mean)


def box_muller32(first: Array, second: Array, mean: Any, std: Any) -> Array:
    radius = np.sqrt(np.float32(-2.0) * _log32(np.float32(1.0) - first))
    sine, cosine = _sine_and_cosine32(np.float32(2.0 * math.pi) * second)
    pair = np.stack([radius * cosine, radius * sine], 1)
    return pair if mean == 0 and std == 1 else fma32(pair, std, mean)


# Minimax polynomials of the Cephes library (Moshier), highest power first, which AVX code for float32 is made of.
_LOG: tuple[float, ...] = (7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1)
_LOG += (-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1)
_SINE = (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)
_COSINE = (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)
_QUARTER_PI = (-0.78515625, -2.4187564849853515625e-4, -3.77489497744594108e-8)  # minus pi/4, in parts
_LN2 = (-2.12194440e-4, 0.693359375)  # in parts


def _polynomial32(coefficients: tuple[float, ...], x: Array) -> Array:
    value = np.full_like(x, np.float32(coefficients[0]))
    for coefficient in coefficients[1:]:
        value = fma32(value, x, np.float32(coefficient))
    return value


def _log32(x: Array) -> Array:
    """The logarithm of positive float32: x = 2^e m with m from sqrt(1/2) to sqrt(2), and a polynomial in m - 1."""
    bits = np.maximum(x, np.float32(2.0**-126)).view(np.int32)
    exponent = ((bits >> 23) - 126).astype(np.float32)
    mantissa = (bits & 0x7FFFFF | 0x3F000000).view(np.float32)  # from 1/2 to 1
    is_small = mantissa < np.float32(0.707106781186547524)
    exponent = exponent - is_small.astype(np.float32)
    m = (mantissa - np.float32(1.0)) + np.where(is_small, mantissa, np.float32(0.0))
    square = m * m
    value = fma32(_polynomial32(_LOG, m) * m, square, exponent * np.float32(_LN2[0]))
    value = m + (fma32(square, np.float32(-0.5), value))
    return fma32(exponent, np.float32(_LN2[1]), value)


def _sine_and_cosine32(x: Array) -> tuple[Array, Array]:
    """Of float32 from 0 on: the octant of the angle, and polynomials around its even end."""
    octant = ((x * np.float32(4 / math.pi)).astype(np.int32) + 1) & ~1
    for part in _QUARTER_PI:
        x = fma32(octant.astype(np.float32), np.float32(part), x)
    square = x * x
    half = square * np.float32(0.5)
    cosine = fma32(_polynomial32(_COSINE, square) * square, square, -half) + np.float32(1.0)
    sine = fma32(_polynomial32(_SINE, square) * square, x, x)
    is_swapped = octant & 2 != 0
    signs = (
        np.where(octant & 4 != 0, -1, 1).astype(np.float32),
        np.where((octant + 2) & 4 != 0, -1, 1).astype(np.float32),
    )
    return np.where(is_swapped, cosine, sine) * signs[0], np.where(is_swapped, sine, cosine) * signs[1]
