"""Cases for the special functions, each over its domain with the negative axis between the poles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import scipy.special

from tests.ops.case import Case
from tests.ops.cases_elementwise import operands_of_one

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

DOMAINS = {
    "digamma": [(0.3, 6.0), (-0.8, -0.2)],
    "erf": [(-3.0, 3.0)],
    "erfc": [(-3.0, 3.0)],
    "erfinv": [(-0.95, 0.95)],
    "lgamma": [(0.3, 6.0), (-1.8, -1.2)],
}
NUMPY = {"lgamma": scipy.special.gammaln}


def _torch(name: str) -> Any:
    return getattr(torch, name) if torch is not None else None


def _cases() -> Iterator[Case]:
    for seed, (name, domains) in enumerate(DOMAINS.items()):
        for domain in domains:
            for x in operands_of_one(seed, *domain):
                yield Case(name, (x,), numpy=NUMPY.get(name) or getattr(scipy.special, name), torch=_torch(name))
    for n, x in enumerate(operands_of_one(10, 0.6, 4.0)):
        yield Case("polygamma", (n, x), numpy=scipy.special.polygamma, torch=_torch("polygamma"))
    for n, x in enumerate(operands_of_one(11, -0.7, -0.3)):
        note = "derivatives next to a pole are in the tens of thousands, beyond float16"
        yield Case("polygamma", (n, x), numpy=scipy.special.polygamma, half=False, second_order=n < 3, note=note)


CASES = [*_cases()]
