"""What a tensor says of itself beside its shape and dtype: where it lies and of what kind it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.ops.core import operand
from wengert.tensor import engine
from wengert.torch.devices import Size
from wengert.torch.registry import methods, torch_function
from wengert.torch.tensor import Tensor, write


def _property(name: str, of: Callable[[Any], Any], doc: str) -> None:
    methods[name] = property(of, doc=doc)


def _kind(name: str) -> Callable[[Any], bool]:
    return lambda self: self.node.device.partition(":")[0] == name


def _in_place(method: Callable[..., Any]) -> Callable[..., Any]:
    """Enter a method whose name ends in an underscore."""
    methods[method.__name__] = method
    return method


for _name in ("cpu", "cuda", "meta"):
    _property(f"is_{_name}", _kind(_name), f"Whether it is on a device of the kind {_name!r}.")
for _name in (
    "ipu",
    "maia",
    "mkldnn",
    "mps",
    "mtia",
    "nested",
    "quantized",
    "sparse",
    "sparse_csr",
    "vulkan",
    "xla",
    "xpu",
):
    _property(f"is_{_name}", lambda self: False, "False: there are no such tensors here.")
_property("itemsize", lambda self: self.node.dtype.itemsize, "The bytes that an element takes.")
_property("names", lambda self: (None,) * len(self.node.shape), "Its axes have no names.")
_property("output_nr", lambda self: 0, "Which result of its function it is.")
_property("volatile", lambda self: False, "A flag of PyTorch's early days.")


@torch_function()
def get_device(input: Any) -> int:
    """The index of its GPU, or -1 on the CPU."""
    number = input.device.index
    return -1 if input.device.type == "cpu" else (number or 0)


@torch_function(module=False)
def is_pinned(self: Any, device: Any = None) -> bool:
    """Always False: copies go through pinned memory where that helps."""
    return False


@torch_function(module=False)
def pin_memory(self: Any, device: Any = None) -> Any:
    """The tensor itself: copies to a GPU go through pinned memory where that helps."""
    return self


@torch_function(module=False)
def is_shared(self: Any) -> bool:
    """Whether its memory is shared with other processes."""
    return False


@torch_function(module=False)
def is_distributed(self: Any) -> bool:
    """False, as in PyTorch."""
    return False


@torch_function(module=False)
def is_coalesced(self: Any) -> bool:
    """False for a dense tensor."""
    return False


@torch_function(module=False)
def to_dense(self: Any, dtype: Any = None, *, masked_grad: bool = True) -> Any:
    """The tensor, which is dense."""
    return self if dtype is None else self.to(dtype)


@_in_place
def apply_(self: Any, callable: Callable[[Any], Any]) -> Any:
    """Replace each element by the result of a Python function, on the CPU."""
    if self.node.device != "cpu":
        raise TypeError("apply_ is only implemented on CPU tensors")
    if self.node.tracked:
        raise TypeError("can't call apply_() on a tensor that requires grad")
    return write(self, _mapped(callable, self))


@_in_place
def map_(self: Any, tensor: Any, callable: Callable[[Any, Any], Any]) -> Any:
    """Replace each element by the result of a Python function of it and another tensor's element, on the CPU."""
    if self.node.tracked:
        raise TypeError("can't call map_() on a tensor that requires grad")
    return write(self, _mapped(callable, self, tensor))


def _mapped(function: Callable[..., Any], *tensors: Any) -> Tensor:
    arrays = np.broadcast_arrays(*[engine.value(x.node) for x in tensors])
    values = [function(*[a.item() for a in elements]) for elements in zip(*[a.reshape(-1) for a in arrays])]
    made = np.array(values, tensors[0].node.dtype).reshape(tensors[0].node.shape)
    return Tensor(operand(made, None))


@torch_function(module=False)
def new(self: Any, *data: Any, device: Any = None) -> Tensor:
    """A tensor of this one's dtype, of the given sizes or numbers."""
    if len(data) == 1 and not hasattr(data[0], "__index__") and not isinstance(data[0], Size):
        return self.new_tensor(data[0], device=device)
    return self.new_empty(*(data or (0,)), device=device)
