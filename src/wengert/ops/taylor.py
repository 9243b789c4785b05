"""Truncated power series in two parameters, with arrays as coefficients: how references compute derivatives with
respect to a parameter.

`series[i, j]` is the coefficient of `da**i * db**j`. A continued fraction computed with them instead of numbers gives
its derivatives with respect to a and b, to rounding. References only; nothing here is recorded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from wengert.ops.special import _digamma, _polygamma

Array = Any


def constant(value: Array, orders: tuple[int, int]) -> Array:
    """A series that does not depend on the parameters."""
    series = np.zeros((orders[0] + 1, orders[1] + 1, *np.shape(value)))
    series[0, 0] = value
    return series


def linear(value: Array, by_a: float, by_b: float, orders: tuple[int, int]) -> Array:
    """`value + by_a * da + by_b * db`."""
    series = constant(value, orders)
    if orders[0]:
        series[1, 0] = by_a
    if orders[1]:
        series[0, 1] = by_b
    return series


def _indices(series: Array) -> Iterator[tuple[int, int]]:
    return ((i, j) for i in range(series.shape[0]) for j in range(series.shape[1]))


def product(f: Array, g: Array) -> Array:
    """The product of two series."""
    if f.shape[:2] == (1, 1):
        return f * g
    result = np.zeros(np.broadcast_shapes(f.shape, g.shape))
    for i, j in _indices(f):
        for k, m in _indices(f[: f.shape[0] - i, : f.shape[1] - j]):
            result[i + k, j + m] += f[i, j] * g[k, m]
    return result


def reciprocal(f: Array) -> Array:
    """The reciprocal of a series."""
    result = np.zeros_like(f)
    result[0, 0] = first = 1 / f[0, 0]
    for i, j in _indices(f):
        if i or j:
            parts = [f[k, m] * result[i - k, j - m] for k, m in _indices(f[: i + 1, : j + 1]) if k or m]
            result[i, j] = -first * sum(parts)
    return result


def exponential(f: Array, first: Array = None) -> Array:
    """The exponential of a series; `first` is that of its constant term, if it is known more accurately."""
    result = np.zeros_like(f)
    result[0, 0] = np.exp(f[0, 0]) if first is None else first
    for i, j in _indices(f):
        if i:
            result[i, j] = sum(k * f[k, m] * result[i - k, j - m] for k, m in _indices(f[: i + 1, : j + 1]) if k) / i
        elif j:
            result[0, j] = sum(m * f[0, m] * result[0, j - m] for m in range(1, j + 1)) / j
    return result


def log_gamma(x: Array, by_a: int, by_b: int, orders: tuple[int, int]) -> Array:
    """The logarithm of gamma(x + by_a da + by_b db), except for its constant term, which is 0."""
    result = np.zeros((orders[0] + 1, orders[1] + 1, *x.shape))
    for i, j in _indices(result):
        if (i == 0 or by_a) and (j == 0 or by_b) and i + j:
            n = i + j
            slope = _digamma(x) if n == 1 else _polygamma(x, n - 1)
            result[i, j] = slope * (by_a**i * by_b**j / (math.factorial(i) * math.factorial(j)))
    return result


def derivative(series: Array, i: int, j: int) -> Array:
    """The derivative of this order, from the last coefficient."""
    return series[i, j] * (math.factorial(i) * math.factorial(j))
