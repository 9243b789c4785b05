"""The incomplete gamma and beta functions, zeta, and the beta function: ops with derivatives with respect to every
argument."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wengert.core.errors import ArgumentError
from wengert.core.graph import Node
from wengert.ops import incomplete
from wengert.ops.comparison import equal, greater, where
from wengert.ops.core import as_node
from wengert.ops.elementwise import exp, floor, remainder
from wengert.ops.exponential import log, log1p
from wengert.ops.formulas import xlog1py, xlogy
from wengert.ops.parameters import Several, real_operands
from wengert.ops.special import POLYGAMMA, digamma, lgamma


def _slope_of_log_gamma(x: Node, n: int) -> Node:
    return digamma(x) if n == 1 else POLYGAMMA(x, n=n - 1)


def _leibniz(density: Node, slopes: dict[tuple[int, int], Node], i: int, j: int) -> Node:
    """A derivative of `density`, from the derivatives of its logarithm, which are `slopes`."""
    if i == j == 0:
        return density
    step = (1, 0) if i else (0, 1)
    total: Node | None = None
    for p in range(i - step[0] + 1):
        for q in range(j - step[1] + 1):
            ways = math.comb(i - step[0], p) * math.comb(j - step[1], q)
            slope = slopes.get((i - p, j - q))
            if slope is not None:
                term = ways * _leibniz(density, slopes, p, q) * slope
                total = term if total is None else total + term
    assert total is not None
    return total


# --- incomplete gamma -----------------------------------------------------------------------------------------------


def _gamma_density(y: Node, a: Node, x: Node) -> Node:
    """The derivative in x, x^(a-1) e^-x / gamma(a), itself differentiated in a as often as the op's value is."""
    n = y.attrs["n"]
    density = exp(xlogy(a - 1, x) - x - lgamma(a))
    slopes = {(k, 0): -_slope_of_log_gamma(a, k) for k in range(1, n + 1)}
    if n:
        slopes[1, 0] = slopes[1, 0] + log(x)
    found = _leibniz(density, slopes, n, 0)
    return -found if y.attrs["upper"] else found


def _gamma_samples() -> Any:
    a = np.array([[0.3], [1.0], [4.5], [20.0]])
    x = np.array([0.05, 0.8, 1.7, 5.0, 19.0])
    for upper in (False, True):
        yield (a, x), {"upper": upper, "n": 0}
        yield (np.array(2.5), x[::2]), {"upper": upper, "n": 1}


IGAMMA: Several = Several(
    "igamma",
    incomplete.igamma,
    (lambda y, a, x: IGAMMA(a, x, upper=y.attrs["upper"], n=y.attrs["n"] + 1), _gamma_density),
    samples=_gamma_samples,
)


def igamma(a: Any, x: Any, /) -> Node:
    """The regularised lower incomplete gamma function P(a, x): the cumulative distribution function of a gamma
    distribution of shape `a`.

    It is differentiable with respect to both arguments, to any order.

    >>> import wengert as wg
    >>> f"{wg.special.igamma(wg.tensor(1.0), 1.0).item():.4f}"
    '0.6321'
    """
    return IGAMMA(*real_operands("igamma", a, x), upper=False, n=0)


def igammac(a: Any, x: Any, /) -> Node:
    """The regularised upper incomplete gamma function, 1 - `igamma(a, x)`, accurate even where it is small.

    >>> import wengert as wg
    >>> f"{wg.special.igammac(wg.tensor(1.0), 1.0).item():.4f}"
    '0.3679'
    """
    return IGAMMA(*real_operands("igammac", a, x), upper=True, n=0)


# --- beta -----------------------------------------------------------------------------------------------------------


def _sum_slope(a: Node, b: Node) -> Node:
    return -digamma(a + b)


BETALN: Several = Several(
    "betaln",
    incomplete.log_beta,
    (lambda y, a, b: digamma(a) + _sum_slope(a, b), lambda y, a, b: digamma(b) + _sum_slope(a, b)),
    samples=lambda: iter([((np.array([[0.3], [2.0], [9.0]]), np.array([0.5, 7.0, 30.0])), {})]),
)


def betaln(a: Any, b: Any, /) -> Node:
    """The logarithm of the absolute value of the beta function.

    >>> import wengert as wg
    >>> f"{wg.special.betaln(wg.tensor(2.0), 3.0).item():.4f}"
    '-2.4849'
    """
    return BETALN(*real_operands("betaln", a, b))


def beta(a: Any, b: Any, /) -> Node:
    """The beta function gamma(a) gamma(b) / gamma(a + b).

    >>> import wengert as wg
    >>> f"{wg.special.beta(wg.tensor(2.0), 3.0).item():.4f}"
    '0.0833'
    """
    a, b = real_operands("beta", a, b)
    return _gamma_sign(a) * _gamma_sign(b) * _gamma_sign(a + b) * exp(BETALN(a, b))


def _gamma_sign(x: Node) -> Node:
    """The sign of the gamma function: it changes at each pole."""
    even = equal(remainder(floor(x), 2), 0)
    return where(greater(x, 0), as_node(np.ones((), x.dtype)), where(even, as_node(np.ones((), x.dtype)), -1))


def _beta_density(y: Node, a: Node, b: Node, x: Node) -> Node:
    """The derivative in x, x^(a-1) (1-x)^(b-1) / B(a, b), differentiated in a and b as often as the op's value is."""
    i, j = y.attrs["i"], y.attrs["j"]
    density = exp(xlogy(a - 1, x) + xlog1py(b - 1, -x) - BETALN(a, b))
    slopes: dict[tuple[int, int], Node] = {}
    for p in range(i + 1):
        for q in range(j + 1):
            if p + q:
                slope = _slope_of_log_gamma(a + b, p + q)
                slope = slope if q else slope - _slope_of_log_gamma(a, p)
                slopes[p, q] = slope if p else slope - _slope_of_log_gamma(b, q)
    if i:
        slopes[1, 0] = slopes[1, 0] + log(x)
    if j:
        slopes[0, 1] = slopes[0, 1] + log1p(-x)
    return _leibniz(density, slopes, i, j)


def _beta_samples() -> Any:
    a, b = np.array([[[0.4]], [[2.0]], [[7.0]]]), np.array([[0.5], [1.0], [6.0]])
    yield (a, b, np.array([0.05, 0.4, 0.8])), {"i": 0, "j": 0}
    yield (np.array(2.5), np.array([1.5, 3.0]), np.array([0.3, 0.9])), {"i": 1, "j": 0}


BETAINC: Several = Several(
    "betainc",
    incomplete.betainc,
    (
        lambda y, a, b, x: BETAINC(a, b, x, i=y.attrs["i"] + 1, j=y.attrs["j"]),
        lambda y, a, b, x: BETAINC(a, b, x, i=y.attrs["i"], j=y.attrs["j"] + 1),
        _beta_density,
    ),
    samples=_beta_samples,
)


def betainc(a: Any, b: Any, x: Any, /) -> Node:
    """The regularised incomplete beta function: the cumulative distribution function of a beta distribution of shapes
    `a` and `b`.

    It is differentiable with respect to all three arguments, to any order.

    >>> import wengert as wg
    >>> wg.special.betainc(wg.tensor(2.0), 2.0, 0.5).item()
    0.5
    """
    return BETAINC(*real_operands("betainc", a, b, x), i=0, j=0)


def multigammaln(a: Any, d: int, /) -> Node:
    """The logarithm of the multivariate gamma function of dimension `d`.

    >>> import wengert as wg
    >>> f"{wg.special.multigammaln(wg.tensor(2.0), 2).item():.4f}"
    '0.4516'
    """
    if not isinstance(d, (int, np.integer)) or isinstance(d, bool) or d < 1:
        raise ArgumentError(f"multigammaln(a, d): the dimension d must be a positive integer, not {d!r}")
    (a,) = real_operands("multigammaln", a)
    total = lgamma(a) + d * (d - 1) / 4 * math.log(math.pi)
    for k in range(1, int(d)):
        total = total + lgamma(a - k / 2)
    return total


# --- zeta -----------------------------------------------------------------------------------------------------------


def _zeta_by_q(y: Node, s: Node, q: Node) -> Node:
    """-s zeta(s + 1, q), and that n times by s."""
    n = y.attrs["n"]
    found = -s * ZETA(s + 1, q, n=n)
    return found - n * ZETA(s + 1, q, n=n - 1) if n else found


ZETA: Several = Several(
    "zeta",
    incomplete.zeta,
    (lambda y, s, q: ZETA(s, q, n=y.attrs["n"] + 1), _zeta_by_q),
    samples=lambda: ((((np.array([[1.5], [2.0], [6.0]]), np.array([0.4, 1.0, 12.0])), {"n": n})) for n in (0, 1)),
)


def zeta(s: Any, q: Any = 1.0, /) -> Node:
    """Hurwitz's zeta function, the sum of (q + k)^-s over k >= 0; without `q`, Riemann's. For s > 1.

    It is differentiable with respect to both arguments, to any order.

    >>> import wengert as wg
    >>> f"{wg.special.zeta(wg.tensor(2.0)).item():.4f}"
    '1.6449'
    """
    return ZETA(*real_operands("zeta", s, q), n=0)
