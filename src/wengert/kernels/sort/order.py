"""The order of a dtype's elements as text: one of the orders in order.cuh."""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.core.dtypes import COMPLEX, bfloat16, float16, float32, float64

DType = np.dtype[Any]

_INFINITE = {float16: 0x7C00, bfloat16: 0x7F80, float32: 0x7F800000, float64: 0x7FF0000000000000}


def key_type(dtype: DType) -> str:
    """The unsigned integer of an element's size."""
    return f"uint{8 * dtype.itemsize}_t"


def order(dtype: DType, descending: bool = False) -> str:
    """The order of a dtype's elements, in C++.

    >>> order(float16)
    'wg_order<uint16_t, WG_FLOATING, 0x7c00ull, false>'
    """
    kind = "WG_FLOATING" if dtype in _INFINITE else "WG_SIGNED" if dtype.kind == "i" else "WG_UNSIGNED"
    return f"wg_order<{key_type(dtype)}, {kind}, {_INFINITE.get(dtype, 0):#x}ull, {str(descending).lower()}>"


def has_order(dtype: DType) -> bool:
    """Whether elements of a dtype can be ordered."""
    return dtype not in COMPLEX
