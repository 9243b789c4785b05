"""`wg.special`: special functions by the names that PyTorch and SciPy have for them.

All are computed in float64 whatever the dtype, and have derivatives to any order, also with respect to orders and
shapes. The degree of a polynomial is an integer, and the function a step in it.
"""

from __future__ import annotations

from wengert.api.functions import (
    digamma,
    lgamma,
    sigmoid,
)
from wengert.api.lift import lift as _lift
from wengert.api.spelling_hints import module_attribute as _module_attribute
from wengert.core.pickled_names import name_by_place as _name_by_place
from wengert.ops import bessel_functions as _bessel
from wengert.ops import formulas as _formulas
from wengert.ops import gamma_functions as _gamma
from wengert.ops import normal as _normal
from wengert.ops import polynomials as _polynomials

airy_ai = _lift(_bessel.airy_ai)
bessel_j0 = _lift(_bessel.bessel_j0)
bessel_j1 = _lift(_bessel.bessel_j1)
bessel_y0 = _lift(_bessel.bessel_y0)
bessel_y1 = _lift(_bessel.bessel_y1)
beta = _lift(_gamma.beta, precision="full")
betainc = _lift(_gamma.betainc)
betaln = _lift(_gamma.betaln)
chebyshev_polynomial_t = _lift(_polynomials.chebyshev_polynomial_t)
chebyshev_polynomial_u = _lift(_polynomials.chebyshev_polynomial_u)
chebyshev_polynomial_v = _lift(_polynomials.chebyshev_polynomial_v)
chebyshev_polynomial_w = _lift(_polynomials.chebyshev_polynomial_w)
entr = _lift(_formulas.entr, precision="full")
erfcx = _lift(_normal.erfcx)
expit = sigmoid
gammainc = _lift(_gamma.igamma)
gammaincc = _lift(_gamma.igammac)
gammaln = lgamma
hermite_polynomial_h = _lift(_polynomials.hermite_polynomial_h)
hermite_polynomial_he = _lift(_polynomials.hermite_polynomial_he)
i0 = _lift(_bessel.i0)
i0e = _lift(_bessel.i0e)
i1 = _lift(_bessel.i1)
i1e = _lift(_bessel.i1e)
igamma = gammainc
igammac = gammaincc
iv = _lift(_bessel.iv)
ive = _lift(_bessel.ive)
jv = _lift(_bessel.jv)
kv = _lift(_bessel.kv)
kve = _lift(_bessel.kve)
laguerre_polynomial_l = _lift(_polynomials.laguerre_polynomial_l)
legendre_polynomial_p = _lift(_polynomials.legendre_polynomial_p)
log_ndtr = _lift(_normal.log_ndtr)
modified_bessel_i0 = i0
modified_bessel_i1 = i1
modified_bessel_k0 = _lift(_bessel.modified_bessel_k0)
modified_bessel_k1 = _lift(_bessel.modified_bessel_k1)
multigammaln = _lift(_gamma.multigammaln)
ndtr = _lift(_normal.ndtr)
ndtri = _lift(_normal.ndtri)
psi = digamma
scaled_modified_bessel_k0 = _lift(_bessel.scaled_modified_bessel_k0)
scaled_modified_bessel_k1 = _lift(_bessel.scaled_modified_bessel_k1)
shifted_chebyshev_polynomial_t = _lift(_polynomials.shifted_chebyshev_polynomial_t)
shifted_chebyshev_polynomial_u = _lift(_polynomials.shifted_chebyshev_polynomial_u)
shifted_chebyshev_polynomial_v = _lift(_polynomials.shifted_chebyshev_polynomial_v)
shifted_chebyshev_polynomial_w = _lift(_polynomials.shifted_chebyshev_polynomial_w)
spherical_bessel_j0 = _lift(_bessel.spherical_bessel_j0, precision="full")
xlog1py = _lift(_formulas.xlog1py, precision="full")
yv = _lift(_bessel.yv)
zeta = _lift(_gamma.zeta)
_name_by_place(globals())

__all__ = sorted(_name for _name in globals() if not _name.startswith("_") and _name != "annotations")


def __getattr__(name: str) -> object:
    return _module_attribute(name, __all__, __name__)


def __dir__() -> list[str]:
    return sorted(__all__)
