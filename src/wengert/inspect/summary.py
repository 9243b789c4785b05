"""A value in a few numbers: range, mean, how many are not finite, a small histogram."""

from __future__ import annotations

from typing import Any

import numpy as np

BINS = 24
_SAMPLE = 1 << 16  # elements, about: of more, some are counted, evenly spread
_FEW = 6  # elements that are shown one by one


def summary(value: Any) -> dict[str, Any]:
    """What a page shows of an array; of several results, a list of that."""
    if isinstance(value, tuple):
        return {"parts": [summary(part) for part in value]}
    array = np.asarray(value)
    found: dict[str, Any] = {"bytes": array.nbytes}
    if array.size <= _FEW:
        found["shown"] = [number(x) for x in array.ravel().tolist()]
    if array.dtype.kind == "c":
        array = np.abs(array)
    if array.size == 0 or array.dtype.kind not in "fiubV":
        return found
    numbers = array.astype(np.float64).ravel()
    finite = numbers[np.isfinite(numbers)]
    if array.size > 1:  # one number speaks for itself
        found["nan"] = int(np.isnan(numbers).sum())
        found["inf"] = int(np.isinf(numbers).sum())
    if finite.size:
        found |= {"min": number(finite.min()), "max": number(finite.max()), "mean": number(finite.mean())}
        if finite.size > _FEW:
            found["histogram"] = _counts(finite)
    return found


def _counts(numbers: np.ndarray[Any, Any]) -> list[int]:
    low, high = float(numbers.min()), float(numbers.max())
    if not np.isfinite(high - low) or high == low:
        return []
    return np.histogram(numbers[:: numbers.size // _SAMPLE + 1], BINS, (low, high))[0].tolist()


def number(x: Any) -> str:
    """A number to read, of up to six digits."""
    return f"{x:.6g}" if isinstance(x, (float, np.floating)) else str(x)
