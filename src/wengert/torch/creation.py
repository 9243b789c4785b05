"""Tensors from nothing and from what others hold; sizes may be given one by one."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.api.creation import tensor as _tensor
from wengert.core import devices
from wengert.core.dtypes import COMPLEX, INEXACT, INTEGER, as_dtype, bool_, complex_of, float64, int64
from wengert.core.graph import Node, Shape
from wengert.ops import creation as c
from wengert.ops.core import Weak, cast, literal, to_device
from wengert.ops.elementwise import real as real_part
from wengert.ops.elementwise import trunc
from wengert.ops.movement import broadcast_to
from wengert.tensor import Tensor as Base
from wengert.tensor import engine
from wengert.torch import dtypes
from wengert.torch.arguments import int_of, sizes_of
from wengert.torch.registry import resized, torch_function
from wengert.torch.tensor import Tensor

IGNORED = ("layout", "pin_memory", "memory_format", "names")
"""Arguments of PyTorch's that say where memory lies, which changes no value."""


def creating(function: Callable[..., Node]) -> Callable[..., Tensor]:
    """Turn a function that makes a node from shape, dtype and device into one that makes a Tensor."""

    @functools.wraps(function)
    def call(*args: Any, requires_grad: bool = False, out: Any = None, **kwargs: Any) -> Tensor:
        for name in IGNORED:
            kwargs.pop(name, None)
        made = Tensor(function(*args, **kwargs))
        if out is not None:
            resized(out, made)
            return out
        if requires_grad:
            made.requires_grad = True
        return made

    return call


def _enter(function: Callable[..., Node]) -> Callable[..., Node]:
    """Enter a function that makes nodes as one of the module alone."""
    torch_function(module=True, method=False)(creating(function))
    return function


def dtype_or(dtype: Any, otherwise: np.dtype[Any] | None = None) -> np.dtype[Any]:
    """The requested dtype, or the default."""
    return as_dtype(dtype) if dtype is not None else dtypes.default() if otherwise is None else otherwise


def place_of(device: Any) -> str:
    """The name of the requested device, or the default's."""
    if device is None:
        return devices.default
    from wengert.torch.devices import device as known

    return c.check_device(str(known(device)), "device")


# --- constants ------------------------------------------------------------------------------------------------------


def filled(shape: Shape, value: Any, dtype: np.dtype[Any], device: str) -> Node:
    """Fill a shape with a number."""
    if isinstance(value, Base):
        value = value.node if value.weak is None else value.weak
    if isinstance(value, Weak):
        return broadcast_to(value.at(dtype), shape)
    if isinstance(value, Node):
        return broadcast_to(to_device(_into(value, dtype), device), shape)
    if dtype in COMPLEX or not isinstance(value, complex):
        number = bool(value) if dtype is bool_ else value
        number = int(number) if dtype in INTEGER else number
        return broadcast_to(literal(number, dtype, device), shape)
    raise RuntimeError("value cannot be converted to type without overflow")


def _into(x: Node, dtype: np.dtype[Any]) -> Node:
    return cast(real_part(x), dtype) if x.dtype in COMPLEX and dtype not in COMPLEX else cast(x, dtype)


@_enter
def zeros(*size: Any, dtype: Any = None, device: Any = None, **named: Any) -> Node:
    """Zeros of a shape."""
    return filled(_sizes(size, named), 0, dtype_or(dtype), place_of(device))


@_enter
def ones(*size: Any, dtype: Any = None, device: Any = None, **named: Any) -> Node:
    """Ones of a shape."""
    return filled(_sizes(size, named), 1, dtype_or(dtype), place_of(device))


@_enter
def empty(*size: Any, dtype: Any = None, device: Any = None, **named: Any) -> Node:
    """A tensor of a shape whose elements do not matter; they are zeros."""
    return filled(_sizes(size, named), 0, dtype_or(dtype), place_of(device))


def _sizes(size: tuple[Any, ...], named: dict[str, Any]) -> Shape:
    if named:
        if set(named) != {"size"}:
            raise TypeError(f"got an unexpected keyword argument {next(iter(set(named) - {'size'}))!r}")
        size = (named["size"],)
    return sizes_of(size)


@_enter
def empty_strided(size: Any, stride: Any, *, dtype: Any = None, device: Any = None) -> Node:
    """A tensor of a shape whose elements do not matter."""
    return filled(sizes_of((size,)), 0, dtype_or(dtype), place_of(device))


@_enter
def empty_permuted(size: Any, physical_layout: Any, *, dtype: Any = None, device: Any = None) -> Node:
    """A tensor of a shape whose elements do not matter."""
    if sorted(physical_layout) != list(range(len(size))):
        raise RuntimeError(f"physical_layout {tuple(physical_layout)} is no permutation of {len(size)} axes")
    return filled(sizes_of((size,)), 0, dtype_or(dtype), place_of(device))


@_enter
def full(size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Node:
    """Fill a shape with a number, in the number's dtype unless another is given."""
    if dtype is None and isinstance(fill_value, Base):
        kind = fill_value.node.dtype
    else:
        kind = dtype_or(dtype, None if dtype is not None else dtypes.of_number(_plain(fill_value)))
    return filled(sizes_of((size,)), fill_value, kind, place_of(device))


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


@_enter
def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None) -> Node:
    """A number as a 0-d tensor of the default dtype."""
    return filled((), s, dtype_or(dtype), place_of(device))


def _like(name: str, value: Any) -> None:
    def function(input: Any, *, dtype: Any = None, device: Any = None) -> Node:
        node = input.node
        return filled(
            node.shape, value, dtype_or(dtype, node.dtype), node.device if device is None else place_of(device)
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`{name[:-5]}` of the shape, dtype and device of a tensor."
    _enter(function)


for _name, _value in (("zeros_like", 0), ("ones_like", 1), ("empty_like", 0)):
    _like(_name, _value)


@_enter
def full_like(input: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Node:
    """Fill the shape of a tensor with a number, in its dtype and on its device."""
    node = input.node
    place = node.device if device is None else place_of(device)
    return filled(node.shape, fill_value, dtype_or(dtype, node.dtype), place)


def _new(name: str, make: Callable[..., Node]) -> None:
    @functools.wraps(make)
    def function(self: Any, *args: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> Node:
        kind = dtype_or(dtype, self.node.dtype)
        return make(*args, dtype=kind, device=self.node.device if device is None else device, **kwargs)

    made = creating(function)
    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"`torch.{name[4:]}`, by default in this tensor's dtype and on its device."
    torch_function(module=False)(made)


for _name, _make in (
    ("new_zeros", zeros),
    ("new_ones", ones),
    ("new_empty", empty),
    ("new_full", full),
    ("new_empty_strided", empty_strided),
):
    _new(_name, _make)


@torch_function(module=False)
def new_tensor(
    self: Any, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, **ignored: Any
) -> Tensor:
    """A new tensor from numbers, by default in this tensor's dtype and on its device."""
    place = self.node.device if device is None else device
    return tensor(data, dtype=self.node.dtype if dtype is None else dtype, device=place, requires_grad=requires_grad)


# --- ramps ----------------------------------------------------------------------------------------------------------


def _number(value: Any) -> Any:
    """A bound as a Python number; of a tensor, its one element."""
    if isinstance(value, Base):
        return engine.value(value.node).item()
    return _plain(value)


@_enter
def arange(*bounds: Any, dtype: Any = None, device: Any = None, **named: Any) -> Node:
    """The numbers from `start` (0) up to but excluding `end`, in steps (of 1)."""
    start, end, step = _bounds(bounds, named)
    kind = as_dtype(dtype) if dtype is not None else _meeting(start, end, step)
    if kind in INTEGER:
        start, end, step = int(start), int(end), int(step)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if not all(map(math.isfinite, (start, end))):
        raise RuntimeError(f"unsupported range: {start} -> {end}")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    count = max(0, math.ceil((end - start) / step))
    if kind in INTEGER:
        return c.arange(start, start + count * step, step, dtype=kind, device=place_of(device))
    wide = c.iota(count, float64) * literal(float(step), float64) + literal(float(start), float64)
    return to_device(cast(wide, kind), place_of(device))


def _bounds(bounds: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, Any, Any]:
    start, end, step = 0, None, 1
    if len(bounds) == 1 and "end" not in named:
        end = bounds[0]
    else:
        start, end, step = (*bounds, *(start, end, step)[len(bounds) :])[:3]
    start, end, step = named.pop("start", start), named.pop("end", end), named.pop("step", step)
    if named or end is None:
        raise TypeError(f"arange() received an invalid combination of arguments: {bounds}, {named}")
    return _number(start), _number(end), _number(step)


def _meeting(*values: Any) -> np.dtype[Any]:
    return int64 if all(isinstance(v, int) for v in values) else dtypes.default()


@_enter
def range_(start: Any = 0, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Node:
    """The numbers from `start` up to and including `end`, in steps."""
    start, end = (0, start) if end is None else (start, end)
    count = math.floor((_number(end) - _number(start)) / _number(step)) + 1
    ramp = c.iota(count, float64) * float(_number(step)) + float(_number(start))
    return to_device(cast(ramp, dtype_or(dtype)), place_of(device))


@_enter
def linspace(start: Any, end: Any, steps: Any, *, dtype: Any = None, device: Any = None) -> Node:
    """`steps` evenly spaced numbers from `start` to `end`."""
    return _ramp("linspace", start, end, steps, dtype, place_of(device), lambda ramp: ramp)


@_enter
def logspace(start: Any, end: Any, steps: Any, base: float = 10.0, *, dtype: Any = None, device: Any = None) -> Node:
    """`steps` powers of a base, with evenly spaced exponents from `start` to `end`."""

    def powers(ramp: Node) -> Node:
        return literal(base, ramp.dtype) ** ramp

    return _ramp("logspace", start, end, steps, dtype, place_of(device), powers)


def _ramp(name: str, start: Any, end: Any, steps: Any, dtype: Any, device: str, then: Callable[[Node], Node]) -> Node:
    for bound in (start, end):
        if isinstance(bound, Base) and bound.node.shape:
            raise RuntimeError(f"{name} only supports 0-dimensional start and end tensors")
    start, end, count = _number(start), _number(end), int_of(steps)
    if count < 0:
        raise RuntimeError("number of steps must be non-negative")
    is_complex = isinstance(start, complex) or isinstance(end, complex)
    kind = dtype_or(dtype, complex_of(dtypes.default()) if is_complex else None)
    if is_complex and kind not in COMPLEX:
        raise RuntimeError(f"torch.{name}(): inferred dtype ComplexFloat can't be safely cast to passed dtype")
    if kind in INTEGER:
        start, end = int(start), int(end)
    ramp = c.linspace(start, end, count, dtype=complex_of(float64) if kind in COMPLEX else float64)
    made = then(ramp)
    return to_device(cast(trunc(made) if kind in INTEGER else made, kind), device)


@_enter
def eye(n: Any, m: Any = None, *, dtype: Any = None, device: Any = None) -> Node:
    """A matrix with ones on its diagonal and zeros elsewhere."""
    rows, columns = int_of(n), int_of(n if m is None else m)
    for side, size in (("n", rows), ("m", columns)):
        if size < 0:
            raise RuntimeError(f"{side} must be greater or equal to 0, got {size}")
    return c.eye(rows, columns, dtype=dtype_or(dtype), device=place_of(device))


# --- from what others hold ------------------------------------------------------------------------------------------


@torch_function(method=False)
def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, pin_memory: bool = False
) -> Tensor:
    """A new tensor from numbers, nested lists, or an array; Python floats get the default dtype."""
    kind = None if dtype is None else as_dtype(dtype)
    if kind is None and isinstance(data, (list, tuple)) and isinstance(_first_leaf(data), np.float64):
        kind = np.dtype(np.float64)  # which is a `float` of Python too, but PyTorch keeps what NumPy says
    made = _tensor(data) if kind is None else _tensor(data, dtype=kind)
    if kind is None and made.node.dtype not in (dtypes.default(), complex_of(dtypes.default())):
        made = _tensor(data, dtype=_default_for(data, made.node.dtype))
    node = made.node
    del made  # so that the node becomes the new tensor's own
    place = node.device if device is None and isinstance(data, Base) else place_of(device)
    result = Tensor(to_device(node, place))
    if requires_grad:
        result.requires_grad = True
    return result


def _default_for(data: Any, found: np.dtype[Any]) -> np.dtype[Any] | None:
    """The dtype of Python's numbers where the default is another one than Wengert's; None of arrays."""
    if found not in INEXACT or hasattr(data, "dtype") or _first_leaf_is_array(data):
        return None
    return complex_of(dtypes.default()) if found in COMPLEX else dtypes.default()


def _first_leaf_is_array(data: Any) -> bool:
    return hasattr(_first_leaf(data), "dtype")


def _first_leaf(data: Any) -> Any:
    while isinstance(data, (list, tuple)) and data:
        data = data[0]
    return data


@torch_function(method=False)
@creating
def complex_(real: Any, imag: Any) -> Node:
    """Complex numbers with these real and imaginary parts."""
    a, b = real.node, imag.node
    if a.dtype is not b.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {dtypes.of(a.dtype)} but got scalar type {dtypes.of(b.dtype)} "
            "for second argument"
        )
    if a.dtype not in INEXACT or a.dtype in COMPLEX:
        raise RuntimeError("Expected both inputs to be Half, Float or Double tensors")
    kind = complex_of(a.dtype)
    return cast(a, kind) + cast(b, kind) * literal(1j, kind)


@torch_function(method=False)
@creating
def polar(abs: Any, angle: Any) -> Node:
    """Complex numbers with these absolute values and angles."""
    from wengert.ops.trigonometry import cos, sin

    size, turn = abs.node, angle.node
    if size.dtype is not turn.dtype or size.dtype not in INEXACT:
        raise RuntimeError("Expected both inputs to be Half, Float or Double tensors of one dtype")
    kind = complex_of(size.dtype)
    return cast(size * cos(turn), kind) + cast(size * sin(turn), kind) * literal(1j, kind)


# --- classes of early days ------------------------------------------------------------------------------------------


class _OfDtype(type):
    """A class whose instances are the tensors of one dtype (and on a GPU those of `torch.cuda`)."""

    kind: np.dtype[Any]
    place: str | None

    def __instancecheck__(cls, value: Any) -> bool:
        if not isinstance(value, Base) or value.node.dtype is not cls.kind:
            return False
        return value.node.device.startswith(cls.place or "cpu")

    def __call__(cls, *data: Any, device: Any = None) -> Tensor:
        place = cls.place if device is None else str(device)
        is_content = len(data) == 1 and (isinstance(data[0], (np.ndarray, Base)) or not hasattr(data[0], "__index__"))
        if is_content and type(data[0]).__name__ != "Size":
            return tensor(data[0], dtype=cls.kind, device=place)
        return Tensor(filled(sizes_of(data) if data else (0,), 0, cls.kind, place_of(place)))

    def __repr__(cls) -> str:
        return f"<class 'torch.{'cuda.' if cls.place else ''}{cls.__name__}'>"


_CLASSES = {
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "ByteTensor": "uint8",
    "CharTensor": "int8",
    "ShortTensor": "int16",
    "IntTensor": "int32",
    "LongTensor": "int64",
    "BoolTensor": "bool",
}


def classes(place: str | None = None) -> dict[str, Any]:
    """`FloatTensor`, `LongTensor`, ... by name."""
    return {
        name: _OfDtype(name, (), {"kind": as_dtype(kind), "place": place, "__doc__": f"Tensors of {kind}."})
        for name, kind in _CLASSES.items()
    }


CLASSES = classes()


def type_name(x: Tensor) -> str:
    """The legacy class name of a tensor: "torch.FloatTensor"."""
    names = {as_dtype(kind): name for name, kind in _CLASSES.items()}
    return f"torch.{'' if x.node.device == 'cpu' else 'cuda.'}{names.get(x.node.dtype, 'Tensor')}"
