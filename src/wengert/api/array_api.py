"""The Array API's utilities over Tensors and dtypes: conversion, promotion, limits, constants, what the library has.

With `wengert.api.functions` and the dtypes they make `import wengert` a namespace of the standard's version 2024.12.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import ml_dtypes
import numpy as np

from wengert.api.creation import asarray
from wengert.core import devices, dtypes
from wengert.core.dtypes import COMPLEX, FLOATING, INTEGER, NUMERIC, SIGNED, UNSIGNED, as_dtype, bool_, promote, real_of
from wengert.core.errors import ArgumentError, DTypeError
from wengert.core.graph import Shape
from wengert.ops import recorders
from wengert.ops.creation import check_device
from wengert.ops.movement import as_shape
from wengert.tensor import Tensor

e = math.e
inf = math.inf
nan = math.nan
newaxis = None
pi = math.pi


# --- conversion -----------------------------------------------------------------------------------------------------


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """`x` in another dtype; `x` itself if it has that and no copy is wanted.

    >>> import wengert as wg
    >>> wg.astype(wg.tensor([1.7, -1.7]), wg.int32).tolist()
    [1, -1]
    """
    return asarray(asarray(x), dtype=dtype, device=device, copy=copy or None)


def broadcast_shapes(*shapes: Any) -> Shape:
    """The shape that shapes broadcast to.

    >>> import wengert as wg
    >>> wg.broadcast_shapes((3, 1), (4,))
    (3, 4)
    """
    return recorders.broadcast_shapes("broadcast_shapes", *[as_shape(s, "broadcast_shapes") for s in shapes])


# --- dtypes ---------------------------------------------------------------------------------------------------------


def _dtype_of(x: Any) -> np.dtype[Any]:
    """The dtype that a dtype, its name, or a value with one stands for."""
    return as_dtype(x.dtype) if hasattr(x, "dtype") and not isinstance(x, (np.dtype, type)) else as_dtype(x)


def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The dtype in which values, dtypes and Python numbers meet; the numbers are weak.

    >>> import wengert as wg
    >>> wg.result_type(wg.int8, wg.float16, 3.0)
    dtype('float16')
    """
    numbers = [x for x in arrays_and_dtypes if type(x) in (bool, int, float, complex)]
    strong = [_dtype_of(x) for x in arrays_and_dtypes if type(x) not in (bool, int, float, complex)]
    if not strong:
        raise ArgumentError("result_type takes at least one tensor or dtype: Python numbers alone have no dtype")
    meet = dtypes.result_dtype(*strong)
    for number in numbers:
        meet = promote(meet, dtypes.scalar_dtype(number, meet))
    return meet


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether a value of one dtype takes the other by promotion, where the two meet.

    >>> import wengert as wg
    >>> wg.can_cast(wg.int32, wg.float64), wg.can_cast(wg.float64, wg.int32)
    (True, False)
    """
    try:
        return promote(_dtype_of(from_), as_dtype(to)) is as_dtype(to)
    except DTypeError:
        return False


_KINDS: dict[str, tuple[np.dtype[Any], ...]] = {
    "bool": (bool_,),
    "signed integer": SIGNED,
    "unsigned integer": UNSIGNED,
    "integral": INTEGER,
    "real floating": FLOATING,
    "complex floating": COMPLEX,
    "numeric": NUMERIC,
}


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind: its name (as "integral"), a dtype, or a tuple of those.

    >>> import wengert as wg
    >>> wg.isdtype(wg.bfloat16, "real floating"), wg.isdtype(wg.int8, ("bool", wg.int8))
    (True, True)
    """
    dtype = as_dtype(dtype)
    if isinstance(kind, tuple):
        return any(isdtype(dtype, each) for each in kind)
    if isinstance(kind, str) and kind not in _KINDS:
        raise ArgumentError(f"isdtype: {kind!r} is no kind of dtype; there are {', '.join(_KINDS)}")
    return dtype in _KINDS[kind] if isinstance(kind, str) else dtype is as_dtype(kind)


class FloatInfo(NamedTuple):
    """The limits of a floating-point dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: np.dtype[Any]


class IntegerInfo(NamedTuple):
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: np.dtype[Any]


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a floating-point dtype; of a complex one, those of its parts.

    >>> import wengert as wg
    >>> wg.finfo(wg.float32).bits
    32
    """
    dtype = real_of(_dtype_of(type))
    if dtype not in FLOATING:
        raise DTypeError(f"finfo takes a floating-point dtype, not {dtype}; iinfo is for integers")
    info = ml_dtypes.finfo(dtype)
    eps, largest, least, normal = (float(limit) for limit in (info.eps, info.max, info.min, info.smallest_normal))
    return FloatInfo(dtype.itemsize * 8, eps, largest, least, normal, dtype)


def iinfo(type: Any, /) -> IntegerInfo:
    """The limits of an integer dtype.

    >>> import wengert as wg
    >>> wg.iinfo(wg.uint8).max
    255
    """
    dtype = _dtype_of(type)
    if dtype not in INTEGER:
        raise DTypeError(f"iinfo takes an integer dtype, not {dtype}; finfo is for floating-point ones")
    info = np.iinfo(dtype)
    return IntegerInfo(info.bits, int(info.max), int(info.min), dtype)


# --- what the library has -------------------------------------------------------------------------------------------


class NamespaceInfo:
    """What this namespace has: devices, dtypes, capabilities."""

    def capabilities(self) -> dict[str, Any]:
        """What is optional in the standard: indexing by masks and shapes that depend on data are here."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """The device that creation functions use."""
        return devices.default

    def devices(self) -> list[str]:
        """The devices there are."""
        return [devices.HOST, *devices.gpus()]

    def default_dtypes(self, *, device: Any = None) -> dict[str, np.dtype[Any]]:
        """The dtypes that creation functions use."""
        check_device(device, "default_dtypes")
        return {
            "real floating": dtypes.default_float,
            "complex floating": dtypes.default_complex,
            "integral": dtypes.default_int,
            "indexing": dtypes.default_int,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        """The standard's dtypes, all or those of a kind, by name. There are float16 and bfloat16 besides."""
        check_device(device, "dtypes")
        standard = [dtype for dtype in dtypes.ALL if dtype not in dtypes.HALF]
        return {dtype.name: dtype for dtype in standard if kind is None or isdtype(dtype, kind)}


def __array_namespace_info__() -> NamespaceInfo:
    """What this namespace has, for code written to the Array API."""
    return NamespaceInfo()
