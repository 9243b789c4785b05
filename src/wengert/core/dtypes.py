"""The dtypes, and which dtype two of them meet in.

Dtypes are NumPy's own dtype objects, one canonical object each, so that `is` compares them. Promotion follows the Array
API standard; where the standard leaves mixed kinds open, an integer meeting a float takes the float's dtype (as in
PyTorch and JAX), and float16 meeting bfloat16 gives float32.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from wengert.core.errors import DTypeError

bool_ = np.dtype(np.bool_)
int8, int16, int32, int64 = (np.dtype(f"int{n}") for n in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (np.dtype(f"uint{n}") for n in (8, 16, 32, 64))
float16, float32, float64 = (np.dtype(f"float{n}") for n in (16, 32, 64))
bfloat16 = np.dtype(ml_dtypes.bfloat16)
complex64, complex128 = np.dtype("complex64"), np.dtype("complex128")

SIGNED = (int8, int16, int32, int64)
UNSIGNED = (uint8, uint16, uint32, uint64)
INTEGER = SIGNED + UNSIGNED
HALF = frozenset((float16, bfloat16))
FLOATING = (float16, bfloat16, float32, float64)
COMPLEX = (complex64, complex128)
INEXACT = frozenset(FLOATING + COMPLEX)
REAL = INTEGER + FLOATING
NUMERIC = REAL + COMPLEX
ALL = (bool_, *NUMERIC)

default_float = float32
default_int = int64
default_complex = complex64

_canonical = {dtype: dtype for dtype in ALL}
_python = {bool: bool_, int: default_int, float: default_float, complex: default_complex}


def as_dtype(dtype: Any) -> np.dtype[Any]:
    """The canonical dtype that a dtype, a name or a Python type stands for.

    >>> as_dtype("float32") is float32, as_dtype(int) is int64
    (True, True)
    """
    if dtype in _python and isinstance(dtype, type):
        return _python[dtype]
    if isinstance(dtype, str) and dtype == "bfloat16":
        return bfloat16
    try:
        return _canonical[np.dtype(dtype).newbyteorder("=")]
    except (KeyError, TypeError):
        names = ", ".join(known.name for known in ALL)
        raise DTypeError(f"{dtype!r} is not a dtype here; there are {names}") from None


def native(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An array of this dtype as kernels read it: in the machine's byte order and aligned. A copy only where it is not.

    >>> native(np.arange(2, dtype=">i4"), int32).dtype is int32
    True
    """
    if array.dtype == dtype and array.flags.aligned:
        return array
    return np.array(array, dtype)


def cast_array(array: np.ndarray[Any, Any], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """An array in another dtype. A float that is no integer of it becomes the nearest one, and NaN 0, on any machine.

    >>> cast_array(np.array([-1.5, 3e9, np.nan]), int32).tolist(), cast_array(np.array([-1.5, 300.0]), uint8).tolist()
    ([-1, 2147483647, 0], [0, 255])
    """
    if dtype not in INTEGER or array.dtype not in FLOATING:
        return array.astype(dtype)
    wide = array.astype(float32) if array.dtype in HALF else array
    limits = np.iinfo(dtype)
    low, high = wide.dtype.type(limits.min), wide.dtype.type(limits.max)
    with np.errstate(invalid="ignore"):
        result = wide.astype(dtype)
        fits = (wide > low) & (wide < high)
    if not fits.all():  # what NumPy makes of the others depends on the processor
        most, least, none = (dtype.type(value) for value in (limits.max, limits.min, 0))
        result = np.where(fits, result, np.where(wide >= high, most, np.where(wide <= low, least, none)))
    return result.astype(dtype, copy=False)


def is_floating(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is one of the real floating-point ones.

    >>> import wengert as wg
    >>> wg.dtypes.is_floating(wg.float16), wg.dtypes.is_floating(wg.int8)
    (True, False)
    """
    return dtype in FLOATING


def real_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of a complex number's parts; other dtypes as they are.

    >>> import wengert as wg
    >>> wg.dtypes.real_of(wg.complex64).name
    'float32'
    """
    return {complex64: float32, complex128: float64}.get(dtype, dtype)


def complex_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of complex numbers with parts of a dtype; other dtypes as they are.

    >>> import wengert as wg
    >>> wg.dtypes.complex_of(wg.float64).name
    'complex128'
    """
    made: dict[np.dtype[Any], np.dtype[Any]] = {float32: complex64, float64: complex128}
    return made.get(dtype, dtype)


_promoted: dict[tuple[np.dtype[Any], np.dtype[Any]], np.dtype[Any]] = {}


def promote(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which values of dtypes `a` and `b` meet.

    >>> promote(int32, float32), promote(float16, bfloat16)
    (dtype('float32'), dtype('float32'))
    """
    if a is b:
        return a
    found = _promoted.get((a, b))
    if found is None:
        found = _promoted[a, b] = _promote(a, b)
    return found


def _promote(a: np.dtype[Any], b: np.dtype[Any]) -> np.dtype[Any]:
    rank = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}
    low, high = sorted((a, b), key=lambda dtype: rank[dtype.kind])
    if rank[low.kind] != rank[high.kind]:
        wide_parts = high is complex64 and low is float64
        return complex128 if wide_parts else high
    if {a, b} == HALF:
        return float32
    if a in HALF or b in HALF:
        return b if a in HALF else a
    meet = np.promote_types(a, b)
    if meet.kind == "f" and a.kind in "iu":
        raise DTypeError(f"no integer dtype holds both {a} and {b}: cast one of them with astype")
    return _canonical[meet]


def result_dtype(*dtypes: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which several dtypes meet.

    >>> import wengert as wg
    >>> wg.dtypes.result_dtype(wg.float32, wg.float64).name
    'float64'
    """
    meet = dtypes[0]
    for dtype in dtypes[1:]:
        meet = promote(meet, dtype)
    return meet


def scalar_dtype(value: complex, beside: np.dtype[Any] | None = None) -> np.dtype[Any]:
    """The dtype of a Python number beside a value of dtype `beside`: weak, it widens the kind and never the size.

    >>> import wengert as wg
    >>> wg.dtypes.scalar_dtype(1.5, wg.float16).name
    'float16'
    """
    if beside is None:
        return _python[type(value)] if type(value) in _python else as_dtype(np.asarray(value).dtype)
    if isinstance(value, bool):
        return beside
    if isinstance(value, int):
        return default_int if beside is bool_ else beside
    if isinstance(value, float):
        return beside if beside in INEXACT else default_float
    if beside in COMPLEX:
        return beside
    return complex128 if beside is float64 else default_complex
