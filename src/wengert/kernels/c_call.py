"""What a hand-written kernel's Python side gives: the C statement that calls it, and what it needs.

A statement may use `(arena + scratch)`: memory for it alone while it runs, of the size it asks for. Headers are found
by the functions' names, `wg_NAME_f32(...)`: HEADERS says which file has them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from wengert.core.graph import Node

Pointer = Callable[[Node | None], str]  # the C expression for the memory of a value; NULL for a result nobody reads

HEADERS = {
    "product_pack": "matmul.h",
    "winograd": "winograd.h",
    "winograd_weight_gradient": "winograd_weight.h",
    "convolve": "conv.h",
    "convolve_input": "conv.h",
    "convolve_weight": "conv_weight.h",
    "convolve_direct": "conv_direct.h",
    "convolve_input_direct": "conv_direct.h",
    "convolve_weight_direct": "conv_direct.h",
    "max_pool": "pool.h",
    "sum_pool": "pool.h",
    "gather_rows": "gather.h",
    "scatter_rows": "gather.h",
    "scatter_add": "gather.h",
    "take_along": "gather.h",
    "put_along": "gather.h",
    "add_along": "gather.h",
    "cumsum": "gather.h",
    "attention_forward": "attention.h",
    "attention_backward": "attention.h",
}
NEEDS = {  # what headers come after
    "attention.h": ("matmul.h",),
    "winograd.h": ("matmul.h",),
    "winograd_weight.h": ("matmul.h", "winograd.h"),
}
_CALLED = re.compile(rf"\bwg_({'|'.join(HEADERS)})(?:_([fi]\d+))?\(")


class Call(NamedTuple):
    """A C statement and the bytes of scratch memory it works in."""

    text: str
    scratch: int = 0


def includes(texts: Iterable[str]) -> str:
    """The lines that include what some statements call; a header is included once for each dtype."""
    found: dict[tuple[str, str], None] = {}
    for name, dtype in (call for text in texts for call in _CALLED.findall(text)):
        header = HEADERS[name]
        found |= {(file, dtype or "f32"): None for file in (*NEEDS.get(header, ()), header)}
    return "".join(f'#define WG_T {dtype}\n#include "{header}"\n#undef WG_T\n' for header, dtype in found)


def braces(numbers: Iterable[int]) -> str:
    """Numbers as the value of a C array."""
    return "{" + ", ".join(map(str, numbers)) + "}"
