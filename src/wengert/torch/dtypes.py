"""`torch.dtype` and its objects, the default dtype, and PyTorch's rules of which dtype values meet in.

A dtype here is an object of its own that stands for one of NumPy's, to which it is equal and from which `np.dtype`
makes it: so every function of Wengert takes it.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import ml_dtypes
import numpy as np

from wengert.core import dtypes as d
from wengert.core.dtypes import COMPLEX, FLOATING, as_dtype, promote
from wengert.core.graph import Node
from wengert.ops.core import cast
from wengert.ops.recorders import real


class dtype:
    """The type of a tensor's elements, such as `torch.float32`."""

    __slots__ = ("dtype", "name")
    _known: ClassVar[dict[np.dtype[Any], dtype]] = {}

    def __init__(self, name: str, of: np.dtype[Any]) -> None:
        self.name = name
        self.dtype = of  # what `np.dtype(self)` reads
        dtype._known.setdefault(of, self)

    is_floating_point = property(lambda self: self.dtype in FLOATING or self.name.startswith("float8"))
    is_complex = property(lambda self: self.dtype in COMPLEX)
    is_signed = property(lambda self: self.dtype.kind in "ifVc")
    itemsize = property(lambda self: self.dtype.itemsize)
    kind = property(lambda self: self.dtype.kind)  # as NumPy's have

    def to_real(self) -> dtype:
        """The dtype of its parts, if it is complex."""
        return of(d.real_of(self.dtype))

    def to_complex(self) -> dtype:
        """The complex dtype whose parts have this one."""
        return of(d.complex_of(self.dtype))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, dtype):
            return self.dtype is other.dtype
        return isinstance(other, np.dtype) and self.dtype == other

    def __hash__(self) -> int:
        return hash(self.dtype)

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> Any:
        return of, (self.dtype,)


def of(found: np.dtype[Any]) -> dtype:
    """The object for one of NumPy's dtypes."""
    return dtype._known[as_dtype(found)]


bool_ = dtype("bool", d.bool_)
uint8, int8, int16, int32, int64 = (dtype(n, as_dtype(n)) for n in ("uint8", "int8", "int16", "int32", "int64"))
uint16, uint32, uint64 = (dtype(n, as_dtype(n)) for n in ("uint16", "uint32", "uint64"))
float16, bfloat16 = dtype("float16", d.float16), dtype("bfloat16", d.bfloat16)
float32, float64 = dtype("float32", d.float32), dtype("float64", d.float64)
complex64, complex128 = dtype("complex64", d.complex64), dtype("complex128", d.complex128)
for _name in ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"):
    dtype(_name, np.dtype(getattr(ml_dtypes, _name)))  # a name that programs compare with: tensors have none of these

NAMES: dict[str, dtype] = {made.name: made for made in dtype._known.values()} | {
    "half": float16,
    "float": float32,
    "double": float64,
    "short": int16,
    "int": int32,
    "long": int64,
    "cfloat": complex64,
    "cdouble": complex128,
}
"""The dtypes by the names they have in the module."""

# --- the default ------------------------------------------------------------------------------------------------------

_default = d.float32


def default() -> np.dtype[Any]:
    """The default dtype of Python floats, as a NumPy dtype."""
    return _default


def get_default_dtype() -> dtype:
    """The default dtype of tensors made from Python floats."""
    return of(_default)


def set_default_dtype(given: Any) -> None:
    """Set the default floating-point dtype of tensors made from Python floats."""
    global _default
    chosen = as_dtype(given)
    if chosen not in FLOATING:
        raise TypeError("only floating-point types are supported as the default type")
    _default = chosen


# --- which dtype values meet in ---------------------------------------------------------------------------------------

_RANKS = {"b": 0, "i": 1, "u": 1, "f": 2, "V": 2, "c": 3}


def _rank(of: np.dtype[Any]) -> int:
    return _RANKS[of.kind]


SCALAR_NAMES = {
    "float32": "Float",
    "float64": "Double",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "bool": "Bool",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
}
"""What PyTorch calls a number of each dtype, in its messages and in `torch.LongTensor`."""


def scalar_name(found: np.dtype[Any]) -> str:
    """What PyTorch calls a number of one of NumPy's dtypes: `Double` for float64."""
    return SCALAR_NAMES[of(found).name]


def of_number(value: complex) -> np.dtype[Any]:
    """The dtype of a Python number."""
    if isinstance(value, bool):
        return d.bool_
    if isinstance(value, int):
        return d.int64
    return _default if isinstance(value, float) else d.complex_of(_default)


def meet(*values: Any) -> np.dtype[Any]:
    """The promoted dtype of values: nodes with axes first, then 0-d ones, then numbers.

    A value of lower priority counts only if its kind is higher (bool, integer, floating, complex).
    """
    levels: list[np.dtype[Any] | None] = [None, None, None]
    for value in values:
        is_node = type(value) is Node
        level = (0 if value.shape else 1) if is_node else 2
        found = value.dtype if is_node else of_number(value)
        before = levels[level]
        levels[level] = found if before is None else promote(before, found)
    result: np.dtype[Any] | None = None
    for lower in levels:
        result = lower if result is None else result if lower is None else _above(result, lower)
    assert result is not None
    return result


def _above(high: np.dtype[Any], low: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of values of dtype `high` beside one of less priority."""
    if _rank(low) <= _rank(high):
        return high
    if low in COMPLEX and high in FLOATING:
        return promote(low, high) if high is d.float64 else d.complex_of(d.float32)
    return promote(high, low)


def result_type(first: Any, second: Any) -> dtype:
    """The dtype of the result of arithmetic between two tensors or numbers."""
    return of(meet(*[getattr(value, "node", value) for value in (first, second)]))


def promote_all(*nodes: Node) -> np.dtype[Any]:
    """The dtype that holds values of all of these, with or without axes."""
    found = nodes[0].dtype
    for node in nodes[1:]:
        found = promote(found, node.dtype)
    return found


def promote_types(type1: Any, type2: Any) -> dtype:
    """The smallest dtype that holds values of both."""
    return of(promote(as_dtype(type1), as_dtype(type2)))


def can_cast(from_: Any, to: Any) -> bool:
    """Whether values of one dtype may be stored in place in a tensor of another."""
    return _rank(as_dtype(from_)) <= _rank(as_dtype(to))


def converted(x: Node, dtype: Any) -> Node:
    """Convert a value to another dtype; complex to real takes the real part, with a warning."""
    dtype = as_dtype(dtype)
    if x.dtype in COMPLEX and dtype not in COMPLEX and dtype is not d.bool_:
        warnings.warn("Casting complex values to real discards the imaginary part", UserWarning, stacklevel=4)
        x = real(x)
    return cast(x, dtype)


# --- limits -----------------------------------------------------------------------------------------------------------


class finfo:
    """The limits of a floating-point dtype."""

    def __init__(self, type: Any = None) -> None:
        kind = type if isinstance(type, dtype) else of(_default if type is None else as_dtype(type))
        self.dtype = kind.name
        found = ml_dtypes.finfo(kind.dtype if kind.name.startswith("float8") else d.real_of(kind.dtype))
        self.bits, self.eps, self.max, self.min = found.bits, float(found.eps), float(found.max), float(found.min)
        self.tiny = self.smallest_normal = float(found.smallest_normal)
        self.resolution = float(found.resolution)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
            f"smallest_normal={self.smallest_normal:g}, tiny={self.tiny:g}, dtype={self.dtype})"
        )


class iinfo:
    """The limits of an integer dtype."""

    def __init__(self, type: Any) -> None:
        found = np.iinfo(as_dtype(type))
        self.bits, self.max, self.min = found.bits, int(found.max), int(found.min)
        self.dtype = str(of(as_dtype(type)))[6:]

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
