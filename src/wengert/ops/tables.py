"""Dtype tables of elementwise ops: from the operands' promoted dtype to those of the computation and the result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wengert.core.dtypes import COMPLEX, FLOATING, INTEGER, NUMERIC, REAL, bool_, default_float, default_int, real_of

Table = dict[np.dtype[Any], tuple[np.dtype[Any], np.dtype[Any]]]


def same(dtypes: Sequence[np.dtype[Any]]) -> Table:
    """The result has the operands' dtype."""
    return {dtype: (dtype, dtype) for dtype in dtypes}


def to_float(dtypes: Sequence[np.dtype[Any]] = FLOATING) -> Table:
    """Integers and booleans are computed in the default float dtype; the result has the dtype of the computation."""
    return same(dtypes) | {dtype: (default_float, default_float) for dtype in (bool_, *INTEGER)}


def to_bool(dtypes: Sequence[np.dtype[Any]]) -> Table:
    """The result is boolean."""
    return {dtype: (dtype, bool_) for dtype in dtypes}


ARITHMETIC = same(NUMERIC) | {bool_: (default_int, default_int)}
SMOOTH = to_float((*FLOATING, *COMPLEX))
SMOOTH_REAL = to_float()
TO_PART = same(FLOATING) | {c: (c, real_of(c)) for c in COMPLEX}
TO_REAL = TO_PART | same(REAL) | {bool_: (default_int, default_int)}
