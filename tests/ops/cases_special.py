"""Cases for polygamma, with the negative axis between the poles; the other special functions are elementwise ops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import scipy.special

from tests.ops.case import Case
from wengert.ops.samples import of_one

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]


def _torch(name: str) -> Any:
    return getattr(torch, name) if torch is not None else None


def _cases() -> Iterator[Case]:
    for n, x in enumerate(x for (x,) in of_one(10, 0.6, 4.0)):
        yield Case("polygamma", (n, x), numpy=scipy.special.polygamma, torch=_torch("polygamma"))
    for n, x in enumerate(x for (x,) in of_one(11, -0.7, -0.3)):
        note = "derivatives next to a pole are in the tens of thousands, beyond float16"
        yield Case("polygamma", (n, x), numpy=scipy.special.polygamma, half=False, second_order=n < 3, note=note)


CASES = [*_cases()]
