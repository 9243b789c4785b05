"""Memory shared with NumPy: `numpy()`, `from_numpy`, `as_tensor`, `frombuffer` on the CPU, in both directions.

Values here are computed later and are immutable, while NumPy's arrays are written immediately. So a tensor that shares
an array has a special class as long as anything else refers to that array: its node holds a private copy, which is
renewed when the array has changed. A value assigned to the tensor is computed immediately and copied into the array. A
large array that nothing else can write to is made read-only instead: a write to it then raises, and is never lost.
"""

from __future__ import annotations

import ctypes
from typing import Any
from weakref import finalize, ref

import numpy as np

from wengert.backends.cpu.recycle import is_sole_base
from wengert.core.conversion import require_array
from wengert.core.devices import HOST
from wengert.core.dtypes import as_dtype, bfloat16, native
from wengert.core.graph import Node, now, recording
from wengert.core.ownership import ownership
from wengert.ops.core import data, variable
from wengert.tensor import engine
from wengert.torch.creation import tensor
from wengert.torch.devices import device as device_of
from wengert.torch.memory import UntypedStorage, bytes_of
from wengert.torch.pickling import deepcopy
from wengert.torch.registry import methods, torch_function
from wengert.torch.tensor import Base, Tensor, of
from wengert.torch.view_ops import CHANGING
from wengert.torch.views import View, geometry_of, root_of

SMALL = 1 << 18  # bytes: so much is compared in 15 microseconds, each time a tensor is used

_memcmp = ctypes.CDLL(None).memcmp
_memcmp.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


class Shared(Tensor):
    """A tensor whose values are in an array that others refer to as well."""

    _kind: type  # what it is again when nobody refers to the array any more
    _array: np.ndarray[Any, Any]
    _is_frozen: bool
    _named: Node

    @property
    def node(self) -> Node:
        """Its value: what is in the array now."""
        if recording.trace is None:
            if not self._is_frozen and not _equal(self._array, self._named.buffer):
                self._renew()
            if self._is_alone():
                return _unshared(self, self._named)
        return self._named

    @node.setter
    def node(self, node: Node) -> None:
        if recording.trace is None and not self._is_alone():
            self._show(node)
        elif recording.trace is None:
            _unshared(self, node)
            return
        self._named = node

    def _is_alone(self) -> bool:
        """Whether only this tensor and its node refer to the array."""
        ours = 1 + (self._named.buffer is self._array)
        return ownership.others([self._array]) == [ours] and is_sole_base(self._array)

    def _renew(self) -> None:
        """Adopt what was written into the array."""
        node = data(self._array.copy())
        self._named = variable(node, ref(self)) if self._named.tracked else node
        if self._named is not node:
            self._named.buffer = node.buffer
        self._named.owner = ref(self)
        now()

    def _show(self, node: Node) -> None:
        """Compute a value, and write it into the array."""
        value = engine.value(node)
        before = self._named
        if before.buffer is self._array:  # somebody may still read it
            before.buffer = self._array.copy()
        frozen = not self._array.flags.writeable
        self._array.flags.writeable = True
        np.copyto(self._array, value)
        self._array.flags.writeable = not frozen


def _equal(a: np.ndarray[Any, Any], b: Any) -> bool:
    if b is None or a.shape != b.shape:
        return False
    if a.flags.c_contiguous and b.flags.c_contiguous:
        return not _memcmp(a.ctypes.data, b.ctypes.data, a.nbytes)
    return bool(((a == b) | ((a != a) & (b != b))).all())


def _unshared(x: Any, node: Node) -> Node:
    """Restore a tensor to its class before it shared an array; returns its value."""
    x.__class__ = x._kind
    if x._array.flags.owndata:
        x._array.flags.writeable = True
    del x._kind, x._array, x._is_frozen, x._named
    x.node = node
    return node


_classes: dict[type, type] = {Tensor: Shared}


def _share(x: Any, node: Node, array: np.ndarray[Any, Any], is_frozen: bool) -> None:
    """Let a tensor share an array, whose values its node has."""
    kind = type(x)
    if kind not in _classes:
        _classes[kind] = type(kind.__name__, (Shared, kind), {"__module__": kind.__module__})
    x.__class__ = _classes[kind]
    x._kind, x._array, x._is_frozen, x._named = kind, array, is_frozen, node


# --- arrays of tensors ----------------------------------------------------------------------------------------------


def numpy(self: Any, *, force: bool = False) -> np.ndarray[Any, Any]:
    """The values as an array that shares the tensor's memory; a large one is read-only.

    With `force` also of a tensor that requires grad, or on a GPU: a copy then.
    """
    if force:
        return np.array(engine.value(self.node))
    if self.node.tracked:
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    if self.node.device != HOST:
        raise TypeError(
            f"can't convert {self.node.device} device type tensor to numpy. Use Tensor.cpu() to copy the tensor to "
            "host memory first."
        )
    if self.node.dtype is bfloat16:
        raise TypeError("Got unsupported ScalarType BFloat16")
    require_array(self.node, "numpy()")
    if recording.trace is not None:
        return engine.value(self.node)
    return _shown(self)


def _shown(x: Any) -> np.ndarray[Any, Any]:
    root = root_of(x)
    chain = _whole_chain(x)
    if chain is None:
        array = np.array(engine.value(x.node))
        array.flags.writeable = False
        return array
    whole = _memory(root)
    at = geometry_of(x)
    flat = whole.reshape(-1)
    if any(name != "same" for name in chain):
        flat = flat.view(x.node.dtype)
    size = x.node.dtype.itemsize
    steps = tuple(step * size for step in at.strides)
    return np.lib.stride_tricks.as_strided(flat[at.offset :], at.sizes, steps, writeable=flat.flags.writeable)


def _whole_chain(x: Any) -> list[str] | None:
    """Whether elements of a view are read as something else; None where no array shows them so."""
    found = ["same"]
    while isinstance(x, View):
        if x._own is not None:
            return None
        found += [op.name for op in x._chain if op.name in CHANGING]
        x = x._root
    return found


def _memory(root: Any) -> np.ndarray[Any, Any]:
    """The array that shows a tensor's values from now on."""
    if isinstance(root, Shared):
        _ = root.node  # what it is again, perhaps
    if isinstance(root, Shared):
        if root._array.flags.c_contiguous:
            return root._array
        raise RuntimeError("numpy(): this tensor shares an array that is not contiguous; take clone().numpy()")
    node = root.node
    value = engine.value(node)
    is_small = value.nbytes <= SMALL
    if not is_small and value.flags.c_contiguous and is_sole_base(value):
        array = value.view()
        array.flags.writeable = False
        _share(root, node, value, is_frozen=True)
        return array
    memory = np.array(value, order="C")  # always its own, also of zeros that take no memory
    if not is_small:
        memory.flags.writeable = False
    _share(root, node, memory, is_frozen=not is_small)
    return memory


def _as_array(self: Any, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    """NumPy's protocol: `np.asarray(x)` shares memory as `numpy()` does."""
    found = numpy(self)
    if copy or (dtype is not None and found.dtype != dtype):
        return np.array(found, dtype)
    return found


Shared.__deepcopy__ = deepcopy  # type: ignore[method-assign]
methods["numpy"], methods["__array__"] = numpy, _as_array


# --- tensors of arrays ----------------------------------------------------------------------------------------------


@torch_function(method=False)
def from_numpy(ndarray: Any) -> Tensor:
    """A tensor that shares an array's memory."""
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    if any(step < 0 for step in ndarray.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. (You can probably work around this by making a copy of your array with array.copy().)"
        )
    if ndarray.dtype.kind in "OSUMm" or not ndarray.dtype.isnative:
        raise TypeError(
            f"can't convert np.ndarray of type {ndarray.dtype}. The only supported types are: float64, float32, "
            "float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool."
        )
    if recording.trace is not None:
        return of(ndarray)
    held = native(ndarray, as_dtype(ndarray.dtype))
    if held is not ndarray:
        raise TypeError("from_numpy: an array that is not aligned is no tensor without a copy; take torch.tensor(a)")
    return _sharing(ndarray)


def _sharing(array: np.ndarray[Any, Any]) -> Tensor:
    """A tensor on an array."""
    if not _is_writable(array):
        return Tensor(data(array))
    if array.nbytes > SMALL and array.flags.owndata and array.flags.c_contiguous:
        made = Tensor(data(array))
        array.flags.writeable = False
        _share(made, made.node, array, is_frozen=True)
        finalize(made, _thaw, ref(made._named), ref(array)).atexit = False
        return made
    made = Tensor(data(array.copy()))
    _share(made, made.node, array, is_frozen=False)
    return made


def _is_writable(array: Any) -> bool:
    """Whether anything can write to an array's memory."""
    while type(array) is np.ndarray or isinstance(array, np.ndarray):
        if array.flags.writeable:
            return True
        array = array.base
    return False


def _thaw(node: Any, array: Any) -> None:
    """Make an array writable again once the tensor that shared it, and its value, are gone."""
    held, memory = node(), array()
    if memory is None:
        return
    if held is not None and held.buffer is memory:
        finalize(held, _thaw, node, array).atexit = False
        return
    memory.flags.writeable = True


@torch_function("asarray", method=False)
def as_tensor(data: Any, dtype: Any = None, device: Any = None, **named: Any) -> Any:
    """A tensor of this, which shares an array's memory, or is the tensor itself, where dtype and device allow that."""
    if named.get("copy"):
        return tensor(data, dtype=dtype, device=device)
    place = None if device is None else str(device_of(device))
    is_same = isinstance(data, np.ndarray) and (dtype is None or as_dtype(dtype) == data.dtype)
    if is_same and place in (None, "cpu") and data.dtype.isnative:
        return from_numpy(data)
    if isinstance(data, UntypedStorage):
        data = bytes_of(data)
    if isinstance(data, Base):
        made: Any = of(data)
        return made if dtype is None and device is None else made.to(dtype=dtype, device=device)
    return tensor(data, dtype=dtype, device=device)


@torch_function(method=False)
def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Any:
    """A tensor that shares the memory of an object with Python's buffer protocol."""
    made = from_numpy(np.frombuffer(buffer, as_dtype(dtype), count, offset))
    return made.requires_grad_() if requires_grad else made
