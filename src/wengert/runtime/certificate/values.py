"""Values for testing rules: all of a small dtype, or zeros, subnormals, infinities, NaN and limits of a larger one."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from wengert.core.dtypes import FLOATING, bool_

Array = np.ndarray[Any, Any]
Dtype = np.dtype[Any]

_ALL = 1 << 16  # values that are tried without a choice


def tried(dtype: Dtype, count: int) -> list[Array]:
    """Arrays for several operands with every combination of values: all values of the dtype if they are few enough."""
    each = all_of(dtype) if dtype.itemsize <= 2 else special(dtype)
    if len(each) ** count > _ALL:
        each = special(dtype)
    if len(each) ** count > _ALL:
        each = special(dtype)[:: len(each) // 12]
    columns = list(itertools.product(range(len(each)), repeat=count)) if count > 1 else [(i,) for i in range(len(each))]
    numbers = np.array(columns, np.intp)
    return [each[numbers[:, k]] for k in range(count)]


def all_of(dtype: Dtype) -> Array:
    """Every value of a dtype of one or two bytes, by its bits."""
    if dtype is bool_:
        return np.array([False, True])
    bits = np.arange(1 << (8 * dtype.itemsize), dtype=np.uint16 if dtype.itemsize == 2 else np.uint8)
    return bits.view(dtype)


def special(dtype: Dtype) -> Array:
    """Values at the edges of a dtype, and some between."""
    if dtype is bool_:
        return np.array([False, True])
    if dtype not in FLOATING:
        info = np.iinfo(dtype)
        found = [
            info.min,
            info.min + 1,
            info.min // 2,
            -1,
            0,
            1,
            2,
            3,
            5,
            64,
            100,
            info.max // 2,
            info.max - 1,
            info.max,
        ]
        return np.array([n for n in found if info.min <= n], dtype)
    sizes = [0.0, 1.0, 2.0, 0.5, 3.0, 1 / 3, 7.25, 100.1, 1e-3]
    one = np.array(sizes, np.float64).astype(dtype)
    bits = np.uint16 if dtype.itemsize == 2 else np.uint32 if dtype.itemsize == 4 else np.uint64
    patterns = np.array([1, 2, 3], bits)  # subnormal numbers
    infinity = np.array([np.inf], np.float64).astype(dtype).view(bits)
    largest = infinity - np.array([1, 2], bits)
    normal = np.array([np.finfo(np.float64).tiny], np.float64).astype(dtype).view(bits)
    positive = np.concatenate([one.view(bits), patterns, largest, infinity, normal]).view(dtype)
    return np.concatenate([positive, -positive, np.array([np.nan], np.float64).astype(dtype)])


def numbered(shape: tuple[int, ...], dtype: Dtype) -> Array:
    """Distinct elements, for ops that only move them, as far as the dtype has enough values."""
    count = int(np.prod(shape, dtype=np.int64))
    if dtype is bool_:
        return np.asarray(np.arange(count) * 7 % 3 == 0).reshape(shape)
    return np.arange(1, count + 1).astype(dtype).reshape(shape)
