"""What PyTorch tells of a tensor's memory, and what changes a tensor as a whole: `copy_`, `set_`, `resize_`, `data`.

A tensor's memory is its slot: it has an address of its own, which tells only whether two tensors share it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.core.context import mode
from wengert.core.dtypes import as_dtype
from wengert.core.ownership import ownership
from wengert.ops.core import Argument, cast, data, operand, stop_gradient, to_device, variable
from wengert.ops.movement import broadcast_to, concat, reshape, slice_axis
from wengert.torch import dtypes, views
from wengert.torch.devices import device as as_device
from wengert.torch.indexing_views import fitted
from wengert.torch.registry import functions, methods, torch_function
from wengert.torch.tensor import Base, Tensor, axis_of
from wengert.torch.views import View, contiguous_strides, detached, geometry_of, leave_memory, root_of


def method(*aliases: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that makes a function a method of Tensor under its name and each alias."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in (function.__name__, *aliases):
            methods[name] = function
        return function

    return register


# --- where its elements lie -----------------------------------------------------------------------------------------


def _address(root: Any) -> int:
    """A number for a tensor's memory: no other's that lives, and no other is near."""
    return id(root) << 32


@method()
def stride(self: Any, dim: int | None = None) -> Any:
    """The strides along each axis, in elements."""
    strides = geometry_of(self).strides
    return strides if dim is None else strides[axis_of(dim, len(strides))]


@method()
def storage_offset(self: Any) -> int:
    """The offset of the tensor in its storage, in elements."""
    return geometry_of(self).offset


@method()
def is_contiguous(self: Any, memory_format: Any = None) -> bool:
    """Whether its elements are contiguous."""
    at = geometry_of(self)
    return 0 in at.sizes or all(n == 1 or s == t for n, s, t in zip(at.sizes, at.strides, contiguous_strides(at.sizes)))


@method()
def contiguous(self: Any, memory_format: Any = None) -> Any:
    """The tensor itself if its elements are contiguous, otherwise a contiguous copy."""
    return self if is_contiguous(self) else Tensor(self.node)


@method()
def data_ptr(self: Any) -> int:
    """A number for the address of its first element: equal for tensors that share it."""
    return _address(root_of(self)) + geometry_of(self).offset * self.node.dtype.itemsize if self.node.size else 0


@method("nelement")
def numel(self: Any) -> int:
    """The number of elements."""
    return int(math.prod(geometry_of(self).sizes))


@method("ndimension")
def dim(self: Any) -> int:
    """The number of axes."""
    return len(geometry_of(self).sizes)


@torch_function()
def clone(input: Any, *, memory_format: Any = None) -> Any:
    """A copy that derivatives pass through."""
    return Tensor(input.node)


functions["numel"] = numel


@method()
def element_size(self: Any) -> int:
    """The size of an element in bytes."""
    return int(self.node.dtype.itemsize)


@method()
def _is_view(self: Any) -> bool:
    """Whether it is a part of another tensor, and its gradient a part of that one's."""
    if not isinstance(self, View) or self._is_whole:
        return False
    return not self._is_detached or self._flaw != "" or self._of is not None


methods["_base"] = property(lambda self: _root_of_gradients(self) if _is_view(self) else None)
methods["_version"] = property(lambda self: root_of(self)._writes)
methods["is_leaf"] = property(lambda self: not views.is_tracked(self) or self._is_variable())


def _root_of_gradients(x: View) -> Any:
    root: Any = x._root if x._of is None else x._of
    while isinstance(root, View) and not root._is_detached:
        root = root._root
    return root


class UntypedStorage:
    """A tensor's memory as bytes, mainly to tell whether tensors share it."""

    def __init__(self, root: Any) -> None:
        self._root = root

    def data_ptr(self) -> int:
        """A number for its address."""
        return _address(self._root)

    _cdata = property(data_ptr)
    device = property(lambda self: self._root.device)

    def nbytes(self) -> int:
        """How many bytes it has."""
        return int(self._root.node.size * self._root.node.dtype.itemsize)

    size = __len__ = nbytes

    def untyped(self) -> UntypedStorage:
        """The memory itself."""
        return self

    @staticmethod
    def from_file(filename: Any, shared: bool = False, nbytes: int = 0) -> _FileStorage:
        """The first bytes of a file, of which slices are read when they are taken. They do not change the file."""
        if shared:
            raise RuntimeError("UntypedStorage.from_file: shared=True, which writes to the file, is not supported")
        return _FileStorage(np.memmap(filename, np.uint8, "r", shape=(nbytes,)) if nbytes else np.empty(0, np.uint8))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UntypedStorage) and other._root is self._root

    def __hash__(self) -> int:
        return id(self._root)

    def __repr__(self) -> str:
        return f"[torch.storage.UntypedStorage(device={self._root.device}) of size {self.nbytes()}]"


class _FileStorage(UntypedStorage):
    """Bytes of a file; a slice is a part of them, and `torch.asarray` reads it."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        super().__init__(None)
        self._array = array

    device = property(lambda self: as_device("cpu"))

    def data_ptr(self) -> int:
        """A number that tells where it begins."""
        return int(self._array.ctypes.data)

    def nbytes(self) -> int:
        """How many bytes it has."""
        return int(self._array.nbytes)

    size = __len__ = nbytes

    def __getitem__(self, at: Any) -> _FileStorage:
        return _FileStorage(self._array[at])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _FileStorage) and other._array is self._array

    __hash__ = UntypedStorage.__hash__


class BytesOfFile(Tensor):
    """Bytes read from a file. They are not changed, so `view(dtype)` reads them as numbers with their own memory."""

    def view(self, *shape: Any, dtype: Any = None) -> Any:
        """The numbers in these bytes, as a tensor of its own; of a shape, a view."""
        if dtype is None:
            return methods["view"](self, *shape)
        return Tensor(data(self.node.buffer.view(as_dtype(dtype))))


def bytes_of(storage: UntypedStorage) -> Any:
    """Memory as a tensor of bytes."""
    if isinstance(storage, _FileStorage):
        return BytesOfFile(data(np.array(storage._array)))
    return storage._root.reshape(-1).view(dtypes.uint8)


@method("storage")
def untyped_storage(self: Any) -> UntypedStorage:
    """The storage that it shares with its views."""
    return UntypedStorage(root_of(self))


# --- giving it another value ------------------------------------------------------------------------------------------


def _is_same(x: Any, src: Any) -> bool:
    """Whether copying would change nothing, not even for gradients."""
    if src is x:
        return True
    if not isinstance(src, Base) or src.node.tracked or src.dtype != x.dtype:
        return False
    return root_of(src) is root_of(x) and geometry_of(src) == geometry_of(x)


@method()
def copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    """Copy the values of another tensor into this one, broadcast and converted to its dtype."""
    if _is_same(self, src):
        views.check_write(self, self.node.tracked, is_fill=True)
        return self
    before = views.facts_of(self)
    node = src.node if isinstance(src, Base) else operand(np.asarray(src), None)
    views.check_write(self, node.tracked, is_fill=node.size == 1)
    node = to_device(dtypes.converted(fitted(node, before.shape), before.dtype), before.device)
    del src
    views.store(self, node)
    return self


@method()
def fill_(self: Any, value: Any) -> Any:
    """Set every element to one value."""
    before = views.facts_of(self)
    if isinstance(value, Base):
        if value.node.shape:
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {len(value.node.shape)} dimensions."
            )
        node = value.node
    else:
        node = operand(Argument(value) if type(value) is float else value, before.dtype)
    views.check_write(self, node.tracked, is_fill=True)
    node = broadcast_to(to_device(cast(node, before.dtype), before.device), before.shape)
    views.store(self, node)
    return self


@torch_function()
def fill(input: Any, value: Any) -> Any:
    """A tensor like this one filled with one value."""
    return fill_(Tensor(input.node), value)


@method()
def zero_(self: Any) -> Any:
    """Set every element to 0."""
    return fill_(self, 0)


@method()
def detach_(input: Any) -> Any:
    """Detach the tensor in place from how it was computed."""
    if isinstance(input, View) and not input._is_detached:
        raise RuntimeError("Can't detach views in-place. Use detach() instead.")
    if input._is_variable():
        input.requires_grad = False
    elif isinstance(input, View):
        input._own = None
    elif input.node.tracked:
        input._put(stop_gradient(input.node))
    return input


# --- sharing another tensor's memory ----------------------------------------------------------------------------------


def _set_data(self: Any, value: Any) -> None:
    """`x.data = v`: x has the value of v from now on, and its memory; it stays the leaf that it is."""
    if not isinstance(value, Base):
        raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
    share(self, value)


functions["UntypedStorage"] = UntypedStorage
functions.update({"zero_": zero_, "fill_": fill_, "detach_": detach_})
methods["data"] = property(detached, _set_data)


def share(x: Any, value: Any) -> None:
    """Have a tensor share the memory of another from now on, each with its own history."""
    if root_of(value) is root_of(x) and geometry_of(value) == geometry_of(x):
        return
    leave_memory(x)
    is_held = ownership.copies or ownership.others([value])[0] > _HOLDERS
    if is_held or type(value) is not Tensor or isinstance(x, View):
        _become_view(x, value)
        return
    is_leaf = x._is_variable()
    node = stop_gradient(value.node) if value.node.tracked else value.node
    del value  # nobody else has it
    x._put(variable(node, views.ref(x)) if is_leaf else node)


_HOLDERS = 3  # the caller's name, the setter's and this one's: nobody else knows the tensor


def _become_view(x: Any, of: Any) -> None:
    """Turn a tensor into a detached view of another; it stays the object and the leaf that it is."""
    is_leaf, kind, grad = x._is_variable(), type(x), x._grad
    own = None if is_leaf or not x.node.tracked else x.node
    if not isinstance(x, View):
        x.__class__ = View if kind is Tensor else view_class(kind)
    made = detached(of)
    View.__init__(x, made._root, made._chain, made._geometry, is_detached=True)
    x._grad = grad
    if is_leaf:
        x._own, x._own_of = variable(stop_gradient(made.node), views.ref(x)), made._root.node.serial
    elif own is not None:
        x._keep_history(own)
        x._own_of = made._root.node.serial


_view_classes: dict[type, type] = {}


def view_class(kind: Any) -> type:
    """The class of views that are of another class too, such as parameters that share memory."""
    if kind not in _view_classes:
        body = {"__module__": kind.__module__, "__init__": kind.__init__}  # `View.__init__` is called by its name
        _view_classes[kind] = type(kind.__name__, (View, kind), body)
    return _view_classes[kind]


@method()
def set_(self: Any, source: Any = None, storage_offset: int = 0, size: Any = None, stride: Any = None) -> Any:
    """Make the tensor share the memory of another one."""
    if source is None:
        return resize_(self, 0)
    if isinstance(source, UntypedStorage):
        source = source._root
        size = tuple(source.node.shape) if size is None else size
    if size is not None:
        steps = contiguous_strides(tuple(size)) if stride is None else stride
        source = source.as_strided(tuple(size), tuple(steps), storage_offset)
    share(self, source)
    return self


@method()
def resize_(self: Any, *sizes: Any, memory_format: Any = None) -> Any:
    """Change the tensor's shape in place; new elements are zeros here, and uninitialised in PyTorch."""
    from wengert.torch.shape import sizes_of

    shape, node = sizes_of(sizes), self.node
    if node.shape == shape:
        return self
    if self.node.tracked and mode().grad:
        raise RuntimeError("cannot resize variables that require grad")
    if isinstance(self, View):
        at, root = geometry_of(self), root_of(self)
        if at.offset + math.prod(shape) <= root.node.size and root.node.dtype == node.dtype:
            return set_(self, root, at.offset, shape)
        raise RuntimeError("resize_: this tensor shares memory with another one; use x[:n], or a clone()")
    wanted = math.prod(shape)
    flat = reshape(node, (-1,))
    if wanted > node.size:
        flat = concat([flat, data(np.zeros(wanted - node.size, node.dtype))])
    elif wanted < node.size:
        flat = slice_axis(flat, 0, 0, wanted)
    self._put(reshape(flat, shape))
    return self


@method()
def resize_as_(self: Any, other: Any, memory_format: Any = None) -> Any:
    """Give the tensor the shape of another one."""
    return resize_(self, tuple(other.node.shape))
