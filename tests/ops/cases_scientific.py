"""Cases of `wg.special` against SciPy, in the middle of the functions' domains; test_scientific.py has wide grids."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.special as sp

from tests.ops.case import Case
from wengert.ops.samples import of_one

SHARP = "its derivatives are too large for a narrow dtype"


def _one(name: str, reference: Any, low: float, high: float, **options: Any) -> Iterator[Case]:
    for (x,) in of_one(400, low, high):
        yield Case(f"special.{name}", (x,), numpy=reference, **options)


def _of_one_operand() -> Iterator[Case]:
    for name, other in (("bessel_j0", sp.j0), ("bessel_j1", sp.j1)):
        yield from _one(name, other, -12.0, 12.0)
    for name, other in (("bessel_y0", sp.y0), ("bessel_y1", sp.y1)):
        yield from _one(name, other, 0.7, 12.0)
    for name in ("i0", "i0e", "i1", "i1e"):
        yield from _one(name, getattr(sp, name), -3.0, 3.0, second_order=not name.endswith("e"), note="a kink at 0")
        yield Case(f"special.{name}", (np.array([0.5, 29.0, 31.0]),), numpy=getattr(sp, name), half=name.endswith("e"))
    for name in ("k0", "k1"):
        yield from _one(f"modified_bessel_{name}", getattr(sp, name), 0.6, 6.0)
        yield from _one(f"scaled_modified_bessel_{name}", getattr(sp, f"{name}e"), 0.6, 6.0)
    yield from _one("spherical_bessel_j0", lambda x: sp.spherical_jn(0, x), -4.0, 4.0)
    yield from _one("airy_ai", lambda x: sp.airy(x)[0], -8.0, 4.0)
    yield from _one("erfcx", sp.erfcx, -1.0, 12.0)
    yield from _one("ndtr", sp.ndtr, -3.0, 3.0)
    yield from _one("log_ndtr", sp.log_ndtr, -9.0, 3.0)
    yield from _one("ndtri", sp.ndtri, 0.03, 0.97)
    yield from _one("entr", sp.entr, 0.2, 3.0)
    for d in (1, 2, 3, 4, 5):
        yield Case("special.multigammaln", (np.array([2.6, 3.0, 7.5]), d), numpy=sp.multigammaln)


def _of_real_order() -> Iterator[Case]:
    for v in (0, 1.5, -0.5, 3, 2.25):
        for name in ("jv", "yv", "iv", "ive"):
            x = np.array([0.9, 2.0, 7.0, 20.0]) if name == "yv" else np.array([0.4, 2.0, 7.0, 20.0])
            yield Case(f"special.{name}", (v, x), numpy=getattr(sp, name), half=name != "iv" and abs(v) < 2, note=SHARP)
        for name in ("kv", "kve"):
            yield Case(f"special.{name}", (v, np.array([0.7, 2.0, 6.0])), numpy=getattr(sp, name))
    order = np.array([0.5, 1.0, 2.25])
    for name in ("kv", "kve"):
        yield Case(f"special.{name}", (order[:, None], np.array([0.7, 2.0, 6.0])), numpy=getattr(sp, name))


def _of_gamma_and_beta() -> Iterator[Case]:
    a, x = np.array([[0.3], [1.0], [4.5]]), np.array([0.05, 0.8, 1.7, 6.0])
    for name in ("gammainc", "gammaincc"):
        reference = getattr(sp, name)
        for one, other in ((a, x), (np.array(1.0), x), (a, np.array(0.8)), (a.T, x[:, None]), (np.zeros((0, 1)), x)):
            yield Case(f"special.{name}", (one, other), numpy=reference)
    b = np.array([0.5, 3.0, 12.0])
    for one, other in ((a, b), (a[0], b), (a, np.array(0.5)), (a[2], b[::-1]), (np.zeros((0, 1)), b)):
        for name in ("beta", "betaln"):
            yield Case(f"special.{name}", (one, other), numpy=getattr(sp, name))
        place = np.array(0.3)
        yield Case("special.betainc", (one, other, place), numpy=sp.betainc)
    yield Case("special.betainc", (a[:2, :, None], b[:, None], np.array([0.1, 0.6, 0.9])), numpy=sp.betainc)
    for s in (np.array([1.5, 2.0, 7.0]), np.array(3.0), np.array([[1.2], [4.0]])):
        yield Case("special.zeta", (s, np.array([0.6, 1.0, 5.0])), numpy=sp.zeta)
        yield Case("special.zeta", (s,), numpy=lambda s: sp.zeta(s, 1.0))
    y = np.array([-0.5, 0.2, 3.0])
    for one in (np.array([0.5, -1.0, 2.0]), np.array(1.5), a, a.T, np.array([2.0, 3.0, 4.0])):
        yield Case("special.xlog1py", (one, y), numpy=sp.xlog1py)


POLYNOMIALS = {
    "chebyshev_polynomial_t": sp.eval_chebyt,
    "chebyshev_polynomial_u": sp.eval_chebyu,
    "hermite_polynomial_h": sp.eval_hermite,
    "hermite_polynomial_he": sp.eval_hermitenorm,
    "laguerre_polynomial_l": sp.eval_laguerre,
    "legendre_polynomial_p": sp.eval_legendre,
    "shifted_chebyshev_polynomial_t": sp.eval_sh_chebyt,
    "shifted_chebyshev_polynomial_u": sp.eval_sh_chebyu,
    "chebyshev_polynomial_v": None,
    "chebyshev_polynomial_w": None,
    "shifted_chebyshev_polynomial_v": None,
    "shifted_chebyshev_polynomial_w": None,
}


def _polynomials() -> Iterator[Case]:
    x = np.array([-0.9, 0.2, 0.7, 1.3])
    for name, reference in POLYNOMIALS.items():
        other = None if reference is None else lambda x, n, reference=reference: reference(n, x)
        for n in (0, 1, 2, 5, np.array([0, 1, 3, 4])):
            yield Case(f"special.{name}", (x, n), numpy=other)


CASES = [*_of_one_operand(), *_of_real_order(), *_of_gamma_and_beta(), *_polynomials()]
