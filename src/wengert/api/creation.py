"""Tensors made from other objects: numbers, nested lists, NumPy arrays, anything that NumPy can read, Tensors.

`tensor` makes a new one with no history; `asarray` takes a Tensor as it is, with its history.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.core.conversion import require_number
from wengert.core.devices import is_host
from wengert.core.dtypes import as_dtype, cast_array, default_complex, default_float, native
from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.core.graph import Node
from wengert.ops.core import alias, cast, data, from_outside, operand, stop_gradient, to_device
from wengert.ops.creation import check_device
from wengert.ops.movement import stack
from wengert.tensor import Tensor


def tensor(
    value: Any, dtype: Any = None, *, device: str | None = None, requires_grad: bool = False, copy: bool = True
) -> Tensor:
    """A new tensor from a number, nested lists, an array or anything NumPy can read.

    NumPy arrays keep their dtype; Python floats become float32 and integers int64. `copy=False` shares a NumPy array's
    memory where the dtype allows it. Arrays that other libraries have on a GPU stay there.

    >>> import wengert as wg
    >>> wg.tensor([1.0, 2.0]).dtype
    dtype('float32')
    """
    node = _untracked(value, None if dtype is None else as_dtype(dtype), copy)
    keeps = device is None and (isinstance(value, Tensor) or not is_host(node.device))
    made = Tensor(node if keeps else to_device(node, check_device(device, "tensor")))
    return made.requires_grad_() if requires_grad else made


def _untracked(value: Any, dtype: np.dtype[Any] | None, copy: bool) -> Node:
    """The node of a value, through which no derivative passes."""
    if isinstance(value, Tensor):
        require_number(value.node, "wg.tensor(x)")
        node = stop_gradient(value.node if value.weak is None else operand(value.weak, dtype))
        return node if dtype is None else cast(node, dtype)
    if _holds_tensor(value):
        return stack([_untracked(item, dtype, copy) for item in value])
    if _is_on_gpu(value):
        assert borrow is not None
        node = borrow(value, copy)
        return node if dtype is None else cast(node, dtype)
    read = from_outside(value)
    if read is not None:
        return alias(read) if dtype is None else cast(alias(read), dtype)
    array = _read(value)
    if dtype is None:
        if array.dtype.kind in _NO_NUMBERS:
            held = _NO_NUMBERS[array.dtype.kind]
            raise DTypeError(f"cannot make a tensor from a {type(value).__name__}: it holds {held}, not numbers")
        dtype = as_dtype(array.dtype if _has_dtype(value) else _PYTHON_KINDS.get(array.dtype.kind, array.dtype))
    if array.dtype.kind in "fV" and dtype.kind in "iu":
        return data(cast_array(native(array, as_dtype(array.dtype)), dtype))
    return data(np.array(array, dtype) if copy or array.dtype != dtype else array)


borrow: Callable[[Any, bool], Node] | None = None
"""The node of another library's array on a GPU, copied there or not; set by `interop`."""


def _is_on_gpu(value: Any) -> bool:
    """Whether a value is another library's array on a GPU."""
    if isinstance(value, (np.ndarray, np.generic, int, float, list, tuple)):
        return False
    if hasattr(value, "__dlpack_device__"):
        return bool(value.__dlpack_device__()[0] == 2)
    return hasattr(value, "__cuda_array_interface__")


def _read(value: Any) -> np.ndarray[Any, Any]:
    """The value as NumPy reads it, through DLPack where that is all it speaks."""
    try:
        only_dlpack = hasattr(value, "__dlpack__") and not hasattr(value, "__array__")
        return np.from_dlpack(value) if only_dlpack else np.asarray(value)
    except (ValueError, TypeError) as error:
        raise ShapeError(f"cannot make a tensor from this value: {error}") from None


def _has_dtype(value: Any) -> bool:
    """Whether the value is an array that chose its dtype, not Python numbers for which NumPy did."""
    return hasattr(value, "__array__") or hasattr(value, "__dlpack__")


_PYTHON_KINDS = {"f": default_float, "c": default_complex}
"""What Python's floats and complex numbers become, which NumPy reads in double precision."""

_NO_NUMBERS = {"O": "Python objects", "S": "bytes", "U": "strings", "M": "dates", "m": "spans of time"}
"""What arrays of NumPy's other kinds hold."""


def _holds_tensor(value: Any) -> bool:
    """Whether a Tensor is anywhere within nested lists."""
    return isinstance(value, (list, tuple)) and any(isinstance(item, Tensor) or _holds_tensor(item) for item in value)


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Tensor:
    """Convert `obj` to a tensor. A Tensor is returned as it is, still differentiable; anything else becomes a new one.

    `copy=True` always makes a copy; `copy=False` raises an error if a copy is needed.

    >>> import wengert as wg
    >>> x = wg.tensor([1.0, 2.0])
    >>> wg.asarray(x) is x, wg.asarray([1, 2]).dtype
    (True, dtype('int64'))
    """
    place = obj.device if device is None and isinstance(obj, Tensor) else check_device(device, "asarray")
    if copy is False:
        _require_no_copy(obj, dtype)
    if isinstance(obj, Tensor) and obj.weak is None:
        node = to_device(obj.node if dtype is None else cast(obj.node, as_dtype(dtype)), place)
        return obj if node is obj.node and not copy else Tensor(node)
    if _holds_tensor(obj):
        return Tensor(stack([asarray(item, dtype=dtype, device=device).node for item in obj]))
    return tensor(obj, dtype, device=None if device is None else place, copy=copy is not False)


def _require_no_copy(obj: Any, dtype: Any) -> None:
    if not isinstance(obj, (Tensor, np.ndarray)) and not _is_on_gpu(obj):
        raise ArgumentError(f"asarray: a {type(obj).__name__} cannot become a tensor without a copy")
    if isinstance(obj, np.ndarray) and native(obj, as_dtype(obj.dtype)) is not obj:
        raise ArgumentError(
            "asarray: an array that is unaligned or in non-native byte order cannot become a tensor without a copy"
        )
    if dtype is not None and obj.dtype != as_dtype(dtype):
        raise ArgumentError(f"asarray: {obj.dtype} cannot become {as_dtype(dtype)} without a copy")
