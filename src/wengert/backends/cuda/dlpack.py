"""Device arrays shared with other libraries without a copy, by DLPack or the CUDA array interface.

DLPack's structs are defined with ctypes. An exported array is kept alive until its consumer calls the deleter; an
imported one keeps its producer's capsule. Whoever hands over an array makes the other's stream wait for it, and whoever
returns it does too, because its memory may be reused from then on.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import finalize

import numpy as np

from wengert.backends.cuda.memory import ALIGNMENT, DeviceArray, opened
from wengert.core import devices
from wengert.core.dtypes import ALL, as_dtype, bfloat16, bool_
from wengert.core.errors import DTypeError
from wengert.core.graph import Shape

DLPACK_CUDA = 2  # DLPack's number for it
_LEGACY = 1  # the default stream of libraries
_CODES = {"i": 0, "u": 1, "f": 2, "c": 5, "b": 6}
_BFLOAT = 4


class _Device(ctypes.Structure):
    _fields_ = (("kind", ctypes.c_int32), ("index", ctypes.c_int32))


class _DataType(ctypes.Structure):
    _fields_ = (("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16))


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    pass


_Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(_Managed))
_Managed._fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", _Deleter))

_python = ctypes.pythonapi
_python.PyCapsule_New.restype = ctypes.py_object
_python.PyCapsule_New.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
_python.PyCapsule_GetPointer.restype = ctypes.c_void_p
_python.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_python.PyCapsule_IsValid.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
_python.PyCapsule_SetName.argtypes = (ctypes.py_object, ctypes.c_char_p)

_NEW, _USED = b"dltensor", b"used_dltensor"
_lent: dict[int, Any] = {}  # by address: what a consumer still refers to


@_Deleter  # type: ignore[untyped-decorator]
def _delete(managed: Any) -> None:
    *_, array, driver, stream = _lent.pop(ctypes.addressof(managed.contents))
    if not sys.is_finalizing():  # its last kernels may still read what we are about to free
        driver.when_not_capturing(partial(_after, driver.wait_for, stream, array))


def _after(wait: Callable[[int], Any], stream: int, held: Any) -> None:
    """Make one stream wait for the other, and afterwards release what was held."""
    wait(stream)


@ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # type: ignore[untyped-decorator]
def _forget(capsule: int) -> None:
    """A capsule is collected: if nobody consumed its content, that is released too."""
    if _python.PyCapsule_IsValid(capsule, _NEW):
        pointer = ctypes.cast(capsule, ctypes.py_object)
        _lent.pop(_python.PyCapsule_GetPointer(pointer, _NEW), None)


def to_dlpack(array: DeviceArray, stream: int | None = None) -> Any:
    """A capsule with the array, for a consumer that works on `stream` (-1: the consumer synchronises itself)."""
    driver = opened(array.device)
    consumer = _LEGACY if stream in (None, -1) else stream
    if stream != -1:
        driver.be_waited_for(consumer)
    managed = _Managed()
    shape = (ctypes.c_int64 * max(len(array.shape), 1))(*array.shape)
    tensor = managed.tensor
    tensor.data = array.pointer
    tensor.device = _Device(DLPACK_CUDA, driver.index)
    tensor.ndim = len(array.shape)
    code = _BFLOAT if array.dtype is bfloat16 else _CODES[array.dtype.kind]
    tensor.dtype = _DataType(code, 8 * array.dtype.itemsize, 1)
    tensor.shape = ctypes.cast(shape, ctypes.POINTER(ctypes.c_int64))
    managed.deleter = _delete
    address = ctypes.addressof(managed)
    _lent[address] = managed, shape, array, driver, consumer
    return _python.PyCapsule_New(address, _NEW, ctypes.cast(_forget, ctypes.c_void_p))


class _Borrowed:
    """Another library's memory, kept until no array of ours uses it and its stream waits for our last kernels."""

    def __init__(self, pointer: int, device: str, owner: Any, stream: int) -> None:
        self.pointer, self.device, self.owner, self.stream = pointer, device, owner, stream
        self.driver = opened(device)

    def __del__(self) -> None:
        if not sys.is_finalizing():
            self.driver.when_not_capturing(partial(_after, self.driver.be_waited_for, self.stream, self.owner))


class _Capsule:
    """A capsule that we consumed: its deleter is called when this is collected."""

    def __init__(self, managed: Any, capsule: Any) -> None:
        self.managed, self.capsule = managed, capsule

    def __del__(self) -> None:
        if self.managed.contents.deleter and not sys.is_finalizing():
            self.managed.contents.deleter(self.managed)


def from_dlpack(x: Any) -> DeviceArray:
    """An array over another library's memory, which must be contiguous."""
    device = devices.gpu_named(x.__dlpack_device__()[1])
    capsule = x.__dlpack__(stream=int(opened(device).stream))
    managed = ctypes.cast(_python.PyCapsule_GetPointer(capsule, _NEW), ctypes.POINTER(_Managed))
    tensor = managed.contents.tensor
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = [tensor.strides[i] for i in range(tensor.ndim)] if tensor.strides else None
    _require_contiguous(shape, strides)
    dtype = _dtype(tensor.dtype)
    _python.PyCapsule_SetName(capsule, _USED)
    pointer = (tensor.data or 0) + tensor.byte_offset
    return _borrowed(shape, dtype, _Borrowed(pointer, device, _Capsule(managed, capsule), _LEGACY))


def from_interface(x: Any) -> DeviceArray:
    """An array over the memory of an object with the CUDA array interface, which must be contiguous."""
    given = x.__cuda_array_interface__
    dtype, shape = np.dtype(given["typestr"]), tuple(given["shape"])
    if dtype not in ALL:
        raise DTypeError(f"elements of type {given['typestr']} have no dtype in Wengert")
    strides = given.get("strides")
    _require_contiguous(shape, None if strides is None else [step // dtype.itemsize for step in strides])
    pointer = int(given["data"][0])
    driver = opened(f"{devices.CUDA}:0")
    device = devices.gpu_named(driver.index_of(pointer)) if pointer else f"{devices.CUDA}:0"
    stream = given.get("stream")
    if stream is not None:
        opened(device).wait_for(int(stream))
    return _borrowed(shape, as_dtype(dtype), _Borrowed(pointer, device, x, int(stream or _LEGACY)))


def _borrowed(shape: Shape, dtype: np.dtype[Any], block: _Borrowed) -> DeviceArray:
    """An array over this memory; a copy if its alignment does not suit kernels."""
    array = DeviceArray.over(shape, dtype, block, block.pointer, block)
    return array.copy() if block.pointer % ALIGNMENT else array


def _dtype(found: _DataType) -> np.dtype[Any]:
    dtype: np.dtype[Any] = bfloat16
    if found.code == _BFLOAT:
        return dtype
    for dtype in ALL:
        code = _CODES.get("b" if dtype is bool_ else dtype.kind)
        if code == found.code and 8 * dtype.itemsize == found.bits and found.lanes == 1:
            return dtype
    raise DTypeError(f"from_dlpack: elements of code {found.code} and {found.bits} bits have no dtype in Wengert")


def _require_contiguous(shape: tuple[int, ...], strides: list[int] | None) -> None:
    if 0 in shape:
        return
    expected = 1
    for n, step in zip(reversed(shape), reversed(strides or [])):
        if n != 1 and step != expected:
            raise DTypeError("the array is not contiguous, and Wengert has no strided views; pass a contiguous copy")
        expected *= n


_shown: dict[int, DeviceArray] = {}
"""By the identity of who has the interface: the array that was shown last."""


def interface(array: DeviceArray, holder: Any) -> dict[str, Any]:
    """The CUDA array interface of an array. A reader keeps only `holder` alive, which keeps the array alive."""
    if id(holder) not in _shown:
        finalize(holder, _shown.pop, id(holder)).atexit = False
    _shown[id(holder)] = array
    return {
        "shape": array.shape,
        "typestr": array.dtype.str,
        "data": (array.pointer, False),  # torch takes no other
        "version": 3,
        "strides": None,
        "stream": int(opened(array.device).stream),
    }
