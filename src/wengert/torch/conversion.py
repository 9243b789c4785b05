"""A tensor in another dtype or on another device: `to`, `float`, `type`, `cpu`, ... give it back if nothing changes."""

from __future__ import annotations

from typing import Any

from wengert.core import devices
from wengert.core.graph import Node
from wengert.ops.core import to_device
from wengert.torch import dtypes
from wengert.torch.devices import device as device_of
from wengert.torch.meta import NO_DATA
from wengert.torch.registry import methods
from wengert.torch.tensor import Base, Tensor


def _changed(x: Any, dtype: Any = None, device: Any = None, copy: bool = False) -> Any:
    """A tensor in this dtype and on this device: itself if it is so already."""
    before: Node = x.node
    node = before if dtype is None else dtypes.converted(before, dtype)
    if device is not None:
        node = to_device(node, _named(device))
        if before.device == devices.META != node.device:
            raise NotImplementedError(NO_DATA)
    return x if node is before and not copy else Tensor(node)


def _named(device: Any) -> str:
    """The full name of a device, which is opened: that there is none is an error here, not when it is used."""
    return devices.named(str(device_of(device)), "to")


def to(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Convert the tensor to another dtype or device, or to those of another tensor; returns itself if nothing
    changes."""
    dtype, device, copy = kwargs.get("dtype"), kwargs.get("device"), kwargs.get("copy", False)
    other = kwargs.get("other")
    flags = [arg for arg in args if isinstance(arg, bool)]  # non_blocking, copy
    for arg in args:
        if isinstance(arg, bool) or arg is None:
            continue
        if isinstance(arg, Base):
            other = arg
        elif isinstance(arg, (str, device_of, int)):
            device = arg
        else:
            dtype = arg
    if other is not None:
        dtype, device = other.node.dtype, other.node.device
    return _changed(self, dtype, device, copy or (len(flags) > 1 and flags[1]))


def type_(self: Any, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """The name of its type, or the tensor converted to another type."""
    if dtype is None:
        where = "torch.cuda" if self.node.device != "cpu" else "torch"
        return f"{where}.{dtypes.scalar_name(self.node.dtype)}Tensor"
    if isinstance(dtype, str):
        kind, device = _named_type(dtype)
        return _changed(self, kind, device)
    if isinstance(dtype, type) and hasattr(dtype, "place"):  # torch.FloatTensor and the like
        legacy: Any = dtype
        return _changed(self, legacy.kind, legacy.place or "cpu")
    return _changed(self, getattr(dtype, "dtype", dtype))


def _named_type(name: str) -> tuple[Any, str]:
    for dtype, legacy in dtypes.SCALAR_NAMES.items():
        if name.rpartition(".")[2] == f"{legacy}Tensor":
            return dtypes.NAMES[dtype], "cuda" if ".cuda." in name else "cpu"
    raise ValueError(f"invalid type: '{name}'")


def type_as(self: Any, other: Any) -> Any:
    """The tensor converted to the type of another one."""
    return _changed(self, other.node.dtype, other.node.device)


def cpu(self: Any, memory_format: Any = None) -> Any:
    """The tensor on the CPU."""
    return _changed(self, device="cpu")


def cuda(self: Any, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Any:
    """The tensor on a GPU."""
    return _changed(self, device="cuda" if device is None else device)


def _casting(name: str, dtype: Any) -> Any:
    def method(self: Any, memory_format: Any = None) -> Any:
        return _changed(self, dtype)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"The tensor in {dtype.name}; itself if it is so already."
    return method


for _name in ("half", "float", "double", "short", "int", "long", "cfloat", "cdouble", "bfloat16"):
    methods[_name] = _casting(_name, dtypes.NAMES[_name])
for _name, _dtype in (("bool", "bool"), ("char", "int8"), ("byte", "uint8")):
    methods[_name] = _casting(_name, dtypes.NAMES[_dtype])
methods.update({"to": to, "type": type_, "type_as": type_as, "cpu": cpu, "cuda": cuda})
