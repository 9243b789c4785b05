"""Bessel functions as ops: their derivatives by `x` and by the order, to any order of both.

The references are in `bessel` and, of derivatives in the order (`n`), in `bessel_orders`. Derivatives in `x` are other
orders of the same function, or (`m`) the next derivative of a scaled one, which differences of orders would lose
digits of.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.core.graph import Node
from wengert.ops import bessel, bessel_orders
from wengert.ops.formulas import sin_over
from wengert.ops.parameters import Several, real_operands


def _samples(low: float, high: float, **attrs: Any) -> Any:
    from wengert.ops.samples import of_one

    def calls() -> Any:
        for i, order in enumerate((0.0, 1.0, 2.5)):
            for (x,) in of_one(95 + i, low, high):
                yield (np.full(x.shape, order), x), attrs

    return calls


JV: Several = Several(
    "jv",
    bessel_orders.jv,
    (
        lambda y, v, x: JV(v, x, **_next(y, "n")),
        lambda y, v, x: 0.5 * (JV(v - 1, x, **y.attrs) - JV(v + 1, x, **y.attrs)),
    ),
    samples=_samples(0.3, 30.0, n=0),
)
YV: Several = Several(
    "yv",
    bessel_orders.yv,
    (
        lambda y, v, x: YV(v, x, **_next(y, "n")),
        lambda y, v, x: 0.5 * (YV(v - 1, x, **y.attrs) - YV(v + 1, x, **y.attrs)),
    ),
    samples=_samples(0.3, 30.0, n=0),
)
IV: Several = Several(
    "iv",
    bessel_orders.iv,
    (lambda y, v, x: IV(v, x, **_next(y, "n")), lambda y, v, x: IV(v, x, **_next(y, "m"))),
    samples=_samples(0.3, 40.0, scaled=True, m=0, n=0),
)
KV: Several = Several(
    "kv",
    bessel.kv,
    (lambda y, v, x: KV(v, x, **_next(y, "n")), lambda y, v, x: KV(v, x, **_next(y, "m"))),
    samples=_samples(0.3, 30.0, scaled=True, n=0, m=0),
)


def _next(y: Node, name: str) -> dict[str, Any]:
    return {**y.attrs, name: y.attrs[name] + 1}


def _airy_derivative(y: Node, x: Node) -> Node:
    """Airy's equation Ai'' = x Ai gives all derivatives from the first two."""
    return AIRY(x, prime=True) if not y.attrs["prime"] else x * AIRY(x, prime=False)


AIRY: Several = Several(
    "airy_ai",
    bessel.airy,
    (_airy_derivative,),
    samples=lambda: ((x, {"prime": prime}) for x, prime in _airy_samples()),
)


def _airy_samples() -> Any:
    from wengert.ops.samples import of_one

    return ((x, prime) for prime in (False, True) for x in of_one(99, -12.0, 6.0))


# --- of any real order ----------------------------------------------------------------------------------------------


def jv(v: Any, x: Any, /) -> Node:
    """The Bessel function of the first kind of real order `v`. NaN for `x` below 0, unless `v` is an integer.

    It has derivatives with respect to both arguments; the one with respect to the order is NaN for `x` below 0.

    >>> import wengert as wg
    >>> f"{wg.special.jv(0.5, wg.tensor(1.0)).item():.4f}"
    '0.6714'
    """
    return JV(*real_operands("jv", v, x), n=0)


def yv(v: Any, x: Any, /) -> Node:
    """The Bessel function of the second kind of real order `v`, with derivatives with respect to both arguments.

    >>> import wengert as wg
    >>> f"{wg.special.yv(0.5, wg.tensor(1.0)).item():.4f}"
    '-0.4311'
    """
    return YV(*real_operands("yv", v, x), n=0)


def iv(v: Any, x: Any, /) -> Node:
    """The modified Bessel function of the first kind of real order `v`.

    It has derivatives with respect to both arguments; the one with respect to the order is NaN for `x` below 0.

    >>> import wengert as wg
    >>> f"{wg.special.iv(0.5, wg.tensor(1.0)).item():.4f}"
    '0.9377'
    """
    return IV(*real_operands("iv", v, x), scaled=False, m=0, n=0)


def ive(v: Any, x: Any, /) -> Node:
    """`iv` times e^-|x|, without overflow.

    >>> import wengert as wg
    >>> f"{wg.special.ive(0.0, wg.tensor(1000.0)).item():.5f}"
    '0.01262'
    """
    return IV(*real_operands("ive", v, x), scaled=True, m=0, n=0)


def kv(v: Any, x: Any, /) -> Node:
    """The modified Bessel function of the second kind of real order `v`, with derivatives by both arguments.

    >>> import wengert as wg
    >>> f"{wg.special.kv(0.5, wg.tensor(1.0)).item():.4f}"
    '0.4611'
    """
    return KV(*real_operands("kv", v, x), scaled=False, n=0, m=0)


def kve(v: Any, x: Any, /) -> Node:
    """`kv` times e^x, without underflow.

    >>> import wengert as wg
    >>> f"{wg.special.kve(0.0, wg.tensor(1000.0)).item():.5f}"
    '0.03963'
    """
    return KV(*real_operands("kve", v, x), scaled=True, n=0, m=0)


# --- of order 0 and 1 -----------------------------------------------------------------------------------------------


def bessel_j0(x: Any, /) -> Node:
    """The Bessel function of the first kind of order 0.

    >>> import wengert as wg
    >>> wg.special.bessel_j0(wg.tensor(0.0)).item()
    1.0
    """
    return jv(0, x)


def bessel_j1(x: Any, /) -> Node:
    """The Bessel function of the first kind of order 1.

    >>> import wengert as wg
    >>> wg.special.bessel_j1(wg.tensor(0.0)).item()
    0.0
    """
    return jv(1, x)


def bessel_y0(x: Any, /) -> Node:
    """The Bessel function of the second kind of order 0.

    >>> import wengert as wg
    >>> f"{wg.special.bessel_y0(wg.tensor(1.0)).item():.4f}"
    '0.0883'
    """
    return yv(0, x)


def bessel_y1(x: Any, /) -> Node:
    """The Bessel function of the second kind of order 1.

    >>> import wengert as wg
    >>> f"{wg.special.bessel_y1(wg.tensor(1.0)).item():.4f}"
    '-0.7812'
    """
    return yv(1, x)


def i0(x: Any, /) -> Node:
    """The modified Bessel function of the first kind of order 0.

    >>> import wengert as wg
    >>> wg.special.i0(wg.tensor(0.0)).item()
    1.0
    """
    return iv(0, x)


def i0e(x: Any, /) -> Node:
    """`i0` times e^-|x|, without overflow. The derivative at 0 is taken as 0.

    >>> import wengert as wg
    >>> wg.special.i0e(wg.tensor(0.0)).item()
    1.0
    """
    return ive(0, x)


def i1(x: Any, /) -> Node:
    """The modified Bessel function of the first kind of order 1.

    >>> import wengert as wg
    >>> wg.special.i1(wg.tensor(0.0)).item()
    0.0
    """
    return iv(1, x)


def i1e(x: Any, /) -> Node:
    """`i1` times e^-|x|, without overflow.

    >>> import wengert as wg
    >>> wg.special.i1e(wg.tensor(0.0)).item()
    0.0
    """
    return ive(1, x)


def modified_bessel_k0(x: Any, /) -> Node:
    """The modified Bessel function of the second kind of order 0.

    >>> import wengert as wg
    >>> f"{wg.special.modified_bessel_k0(wg.tensor(1.0)).item():.4f}"
    '0.4210'
    """
    return kv(0, x)


def modified_bessel_k1(x: Any, /) -> Node:
    """The modified Bessel function of the second kind of order 1.

    >>> import wengert as wg
    >>> f"{wg.special.modified_bessel_k1(wg.tensor(1.0)).item():.4f}"
    '0.6019'
    """
    return kv(1, x)


def scaled_modified_bessel_k0(x: Any, /) -> Node:
    """`modified_bessel_k0` times e^x, without underflow.

    >>> import wengert as wg
    >>> f"{wg.special.scaled_modified_bessel_k0(wg.tensor(1000.0)).item():.5f}"
    '0.03963'
    """
    return kve(0, x)


def scaled_modified_bessel_k1(x: Any, /) -> Node:
    """`modified_bessel_k1` times e^x, without underflow.

    >>> import wengert as wg
    >>> f"{wg.special.scaled_modified_bessel_k1(wg.tensor(1000.0)).item():.5f}"
    '0.03965'
    """
    return kve(1, x)


def spherical_bessel_j0(x: Any, /) -> Node:
    """sin(x) / x, and 1 at 0; with correct derivatives of every order there.

    >>> import wengert as wg
    >>> wg.special.spherical_bessel_j0(wg.tensor(0.0)).item()
    1.0
    """
    return sin_over(*real_operands("spherical_bessel_j0", x))


def airy_ai(x: Any, /) -> Node:
    """Airy's function Ai, the solution of y'' = x y that decays for large `x`.

    >>> import wengert as wg
    >>> f"{wg.special.airy_ai(wg.tensor(0.0)).item():.4f}"
    '0.3550'
    """
    return AIRY(*real_operands("airy_ai", x), prime=False)
