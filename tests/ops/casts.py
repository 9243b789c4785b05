"""Numbers that are hard to cast to integers, and what they become: the nearest integer of the dtype, NaN 0."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import wengert as wg

SOURCES = [wg.float16, wg.bfloat16, wg.float32, wg.float64]
TARGETS = [wg.int8, wg.int16, wg.int32, wg.int64, wg.uint8, wg.uint16, wg.uint32, wg.uint64]


def numbers(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """NaN, infinities, and numbers around every limit, as a floating-point dtype has them."""
    found = [math.nan, math.inf, -math.inf, 0.0, -0.0, 0.5, -0.5, 0.99, -0.99, 1.5, -1.5, 1e30, -1e30, 1e-30]
    for bits in (7, 8, 15, 16, 31, 32, 53, 63, 64):
        for near in (2.0**bits, 2.0**bits - 1, 2.0**bits - 0.5, 2.0**bits + 1, 2.0**bits * 1.25):
            found += [near, -near]
    with np.errstate(over="ignore"):
        array = np.array(found, np.float64).astype(dtype)
    around = np.asarray(array, np.float32 if dtype.itemsize < 8 else np.float64)
    with np.errstate(over="ignore"):
        step = [np.nextafter(around, around.dtype.type(to)).astype(dtype) for to in (np.inf, -np.inf)]
    return np.concatenate([array, *step])


def expected(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """What casting gives, worked out in Python's integers."""
    limits = np.iinfo(dtype)
    found = []
    for x in np.asarray(array, np.float64).tolist():
        if math.isnan(x):
            found.append(0)
        elif math.isinf(x):
            found.append(limits.max if x > 0 else limits.min)
        else:
            found.append(min(max(int(x), limits.min), limits.max))
    return np.array(found, dtype)
