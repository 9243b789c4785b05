"""Orthogonal polynomials, by their recurrences: p(k+1) = (A x + B) p(k) - C p(k-1).

The order is an operand, rounded down; of negative order all are 0, as in PyTorch. A derivative with respect to x of any
order runs the recurrence on values and derivatives together, so it is equally accurate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from wengert.core.graph import Node
from wengert.ops.parameters import Several, real_operands

Array = Any


class Family(NamedTuple):
    """The polynomial of order 1 as (slope, constant), and (A, B, C) of the step from k to k + 1."""

    first: tuple[float, float]
    step: Callable[[int], tuple[float, float, float]]


def _chebyshev(slope: float, constant: float) -> Family:
    return Family((slope, constant), lambda k: (2.0, 0.0, 1.0))


FAMILIES = {
    "chebyshev_t": _chebyshev(1, 0),
    "chebyshev_u": _chebyshev(2, 0),
    "chebyshev_v": _chebyshev(2, -1),
    "chebyshev_w": _chebyshev(2, 1),
    "hermite_h": Family((2, 0), lambda k: (2.0, 0.0, 2.0 * k)),
    "hermite_he": Family((1, 0), lambda k: (1.0, 0.0, float(k))),
    "laguerre_l": Family((-1, 1), lambda k: (-1 / (k + 1), (2 * k + 1) / (k + 1), k / (k + 1))),
    "legendre_p": Family((1, 0), lambda k: ((2 * k + 1) / (k + 1), 0.0, k / (k + 1))),
}


def polynomial(x: Array, n: Array, family: str, m: int) -> Array:
    """The m-th derivative of the polynomial of order n."""
    (slope, constant), step = FAMILIES[family]
    order = np.floor(n)
    zero = np.zeros_like(x)
    before = [np.ones_like(x), *[zero] * m]
    now = [slope * x + constant, *[np.full_like(x, slope), *[zero] * m][:m]]
    result = np.where(order == 0, before[m], np.where(order == 1, now[m], 0.0))
    for k in range(1, int(order.max(initial=0))):
        a, b, c = step(k)
        after = [(a * x + b) * now[i] + (i * a * now[i - 1] if i else 0.0) - c * before[i] for i in range(m + 1)]
        before, now = now, after
        result = np.where(order == k + 1, now[m], result)
    return np.where(np.isnan(n) | np.isnan(x), np.nan, result)


def _samples() -> Any:
    x = np.linspace(-1.5, 1.5, 7)
    for family in FAMILIES:
        for m in (0, 1):
            yield (x, np.arange(7.0) - 1), {"family": family, "m": m}
    yield (x[:, None], np.array([2.5, 5.0])), {"family": "legendre_p", "m": 0}


POLYNOMIAL: Several = Several(
    "orthogonal_polynomial",
    polynomial,
    (lambda y, x, n: POLYNOMIAL(x, n, family=y.attrs["family"], m=y.attrs["m"] + 1), None),
    samples=_samples,
)


def _of_family(name: str, family: str, text: str, shifted: bool = False) -> Callable[[Any, Any], Node]:
    def function(x: Any, n: Any, /) -> Node:
        x, n = real_operands(name, x, n)
        return POLYNOMIAL(2 * x - 1 if shifted else x, n, family=family, m=0)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"{text}, of order `n`, an integer for each element or for all.\n\n"
        f"    >>> import wengert as wg\n    >>> wg.special.{name}(wg.tensor([1.0]), 1).tolist()\n"
        f"    [{_at_one(family)}]\n    "
    )
    return function


def _at_one(family: str) -> float:
    slope, constant = FAMILIES[family].first
    return float(slope + constant)


chebyshev_polynomial_t = _of_family(
    "chebyshev_polynomial_t", "chebyshev_t", "Chebyshev's polynomial of the first kind, cos(n arccos x)"
)
chebyshev_polynomial_u = _of_family(
    "chebyshev_polynomial_u", "chebyshev_u", "Chebyshev's polynomial of the second kind"
)
chebyshev_polynomial_v = _of_family("chebyshev_polynomial_v", "chebyshev_v", "Chebyshev's polynomial of the third kind")
chebyshev_polynomial_w = _of_family(
    "chebyshev_polynomial_w", "chebyshev_w", "Chebyshev's polynomial of the fourth kind"
)
hermite_polynomial_h = _of_family("hermite_polynomial_h", "hermite_h", "the physicists' Hermite polynomial")
hermite_polynomial_he = _of_family("hermite_polynomial_he", "hermite_he", "the probabilists' Hermite polynomial")
laguerre_polynomial_l = _of_family("laguerre_polynomial_l", "laguerre_l", "Laguerre's polynomial")
legendre_polynomial_p = _of_family("legendre_polynomial_p", "legendre_p", "Legendre's polynomial")
shifted_chebyshev_polynomial_t = _of_family(
    "shifted_chebyshev_polynomial_t", "chebyshev_t", "`chebyshev_polynomial_t` of 2 x - 1", shifted=True
)
shifted_chebyshev_polynomial_u = _of_family(
    "shifted_chebyshev_polynomial_u", "chebyshev_u", "`chebyshev_polynomial_u` of 2 x - 1", shifted=True
)
shifted_chebyshev_polynomial_v = _of_family(
    "shifted_chebyshev_polynomial_v", "chebyshev_v", "`chebyshev_polynomial_v` of 2 x - 1", shifted=True
)
shifted_chebyshev_polynomial_w = _of_family(
    "shifted_chebyshev_polynomial_w", "chebyshev_w", "`chebyshev_polynomial_w` of 2 x - 1", shifted=True
)
