"""A value in a few numbers: range, mean, counts of NaN and infinity, a small histogram."""

from __future__ import annotations

from typing import Any

import numpy as np

BINS = 24
_SAMPLE = 1 << 16  # elements, about: of more, some are counted, evenly spread
_FEW = 6  # elements that are shown one by one


def summary(value: Any) -> dict[str, Any]:
    """What a page shows of an array; for several results, a list."""
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
    if array.dtype.kind == "V":  # bfloat16, which NumPy does not reduce
        array = array.astype(np.float32)
    numbers = array.ravel()
    nan = inf = 0
    if not np.isfinite(numbers.min()) or not np.isfinite(numbers.max()):  # which is rare: others are not copied
        nan, inf = int(np.isnan(numbers).sum()), int(np.isinf(numbers).sum())
        numbers = numbers[np.isfinite(numbers)]
    if array.size > 1:  # one number speaks for itself
        found |= {"nan": nan, "inf": inf}
    if numbers.size:
        low, high, mean = float(numbers.min()), float(numbers.max()), float(numbers.mean(dtype=np.float64))
        found |= {"min": number(low), "max": number(high), "mean": number(mean)}
        if numbers.size > _FEW:
            found["histogram"] = _counts(numbers, low, high)
    return found


def _counts(numbers: np.ndarray[Any, Any], low: float, high: float) -> list[int]:
    if not np.isfinite(high - low) or high == low:
        return []
    sample = numbers[:: numbers.size // _SAMPLE + 1].astype(np.float64)
    return np.histogram(sample, BINS, (low, high))[0].tolist()


def number(x: Any) -> str:
    """A number to read, of up to six digits."""
    return f"{x:.6g}" if isinstance(x, (float, np.floating)) else str(x)
