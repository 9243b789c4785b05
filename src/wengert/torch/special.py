"""`torch.special`: special functions, under PyTorch's names."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from wengert.core.graph import Node
from wengert.ops import bessel_functions, formulas, gamma_functions, normal, polynomials
from wengert.ops.elementwise import trunc
from wengert.torch.missing import missing_attribute
from wengert.torch.registry import functions, with_out
from wengert.torch.specials import of_one, of_two

_SAME = (  # noqa: SIM905
    "digamma erf erfc erfinv exp2 expm1 i0 log1p log_softmax logit logsumexp polygamma round sinc softmax xlogy"
).split()
_RENAMED = {
    "expit": "sigmoid",
    "gammainc": "igamma",
    "gammaincc": "igammac",
    "gammaln": "lgamma",
    "multigammaln": "mvlgamma",
    "psi": "digamma",
}
_OF_ONE = (  # noqa: SIM905
    "airy_ai bessel_j0 bessel_j1 bessel_y0 bessel_y1 entr erfcx i0e i1 i1e log_ndtr modified_bessel_k0 "
    "modified_bessel_k1 ndtr ndtri scaled_modified_bessel_k0 scaled_modified_bessel_k1 spherical_bessel_j0"
).split()
_OF_TWO = (  # noqa: SIM905
    "chebyshev_polynomial_t chebyshev_polynomial_u chebyshev_polynomial_v chebyshev_polynomial_w hermite_polynomial_h "
    "hermite_polynomial_he laguerre_polynomial_l legendre_polynomial_p shifted_chebyshev_polynomial_t "
    "shifted_chebyshev_polynomial_u shifted_chebyshev_polynomial_v shifted_chebyshev_polynomial_w xlog1py zeta"
).split()


def _found(name: str) -> Any:
    for family in (bessel_functions, gamma_functions, normal, polynomials, formulas):
        if name in vars(family):
            return vars(family)[name]
    raise AttributeError(name)


def _rounded(of: Callable[[Node, Node], Node]) -> Callable[[Node, Node], Node]:
    """A polynomial of a degree that is rounded towards 0 first."""

    @functools.wraps(of)
    def function(x: Node, n: Any) -> Node:
        return of(x, trunc(n) if isinstance(n, Node) else math.trunc(n))

    return function


for _name in _SAME:
    globals()[_name] = functions[_name]
for _name, _here in _RENAMED.items():
    globals()[_name] = functions[_here]
for _name in _OF_ONE:
    globals()[_name] = with_out(of_one(_name, _found(_name)))
for _name in _OF_TWO:
    globals()[_name] = with_out(of_two(_name, _found(_name)))
for _name in ("hermite_polynomial_he", "laguerre_polynomial_l"):  # these round the degree before they look at its sign
    globals()[_name] = with_out(of_two(_name, _rounded(_found(_name))))
modified_bessel_i0 = functions["i0"]
modified_bessel_i1 = globals()["i1"]


def __getattr__(name: str) -> Any:
    return missing_attribute("torch.special", name)
