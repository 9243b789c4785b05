"""`r_` and `c_`: values joined by indexing, as NumPy's, which cannot pass tensors on.

In: numbers, arrays, tensors and slices between brackets. Out: one tensor, along its only axis or as columns.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.api import creation, functions
from wengert.core.errors import ArgumentError
from wengert.tensor import Tensor


class Joined:
    """What is between the brackets, along one axis. A slice is a range; with an imaginary step, that many points."""

    def __init__(self, name: str, as_columns: bool) -> None:
        self._name, self._as_columns = name, as_columns

    def __getitem__(self, key: Any) -> Tensor:
        parts = [self._part(item) for item in (key if isinstance(key, tuple) else (key,))]
        return functions.concat(parts, axis=-1 if self._as_columns else 0)

    def _part(self, item: Any) -> Tensor:
        if isinstance(item, str):
            raise ArgumentError(f"{self._name}: {item!r} as a first index is NumPy's; write wg.concat with an axis")
        value = creation.asarray(np.r_[item] if isinstance(item, slice) else item)
        if not self._as_columns:
            return functions.atleast_1d(value)
        return functions.reshape(value, (-1, 1)) if value.ndim < 2 else value

    def __repr__(self) -> str:
        return f"wg.{self._name}"


r_ = Joined("r_", as_columns=False)
"""Values one after another: `wg.r_[x, 0.0, 1:4]`."""

c_ = Joined("c_", as_columns=True)
"""Vectors as the columns of a matrix: `wg.c_[x, y]`."""
