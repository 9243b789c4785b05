"""PyTorch's Tensor: Wengert's, with PyTorch's attributes, promotion, views and in-place writes.

Operators and the members that every tensor has are here; the other methods come from the families' tables (`registry`).
Any Wengert function of such a tensor returns one again (`family`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wengert.api.creation import tensor as _tensor
from wengert.core.context import mode
from wengert.core.dtypes import INEXACT, as_dtype
from wengert.core.errors import WengertError
from wengert.core.graph import Node
from wengert.ops import elementwise as e
from wengert.ops.core import VARIABLE, Argument, Weak, cast, operand, stop_gradient, to_device
from wengert.tensor import Tensor as Base
from wengert.tensor import other_families
from wengert.torch import dtypes
from wengert.torch.devices import Size
from wengert.torch.devices import device as as_device

# --- operands ---------------------------------------------------------------------------------------------------------


def node_of(value: Any) -> Any:
    """What stands in an expression: the node of a tensor, a number as it is, another library's array as a node."""
    if isinstance(value, Base):
        return value.node if value.weak is None else value.weak
    if type(value) is float:
        return Argument(value)
    if isinstance(value, np.generic):
        return value.item()  # a number, that promotes as one does
    if isinstance(value, np.ndarray):
        return operand(value, None)
    return value if isinstance(value, (int, float, complex, Weak)) else NotImplemented


def together(a: Any, b: Any) -> tuple[Any, Any]:
    """Two operands in the dtype in which PyTorch has them meet, and on one device."""
    if type(a) is Node and type(b) is Node:
        if a.dtype is not b.dtype:
            meet = dtypes.meet(a, b)
            a, b = cast(a, meet), cast(b, meet)
        if a.device != b.device:
            if not b.shape and a.shape:
                b = to_device(b, a.device)
            elif not a.shape and b.shape:
                a = to_device(a, b.device)
        return a, b
    if type(a) is Node:
        return (a, _wrapped(b, a)) if _is_no_wider(b, a) else _cast_with(a, b)
    if type(b) is Node:
        return (_wrapped(a, b), b) if _is_no_wider(a, b) else _cast_with(b, a)[::-1]
    return a, b


def _wrapped(number: Any, beside: Node) -> Any:
    """A whole number as it is in the dtype beside it: 300 is 44 beside an element of 8 bits."""
    if type(number) is not int or 0 <= number < 128 or beside.dtype.kind not in "iu":
        return number
    return int(np.array(number & 0xFFFFFFFFFFFFFFFF, np.uint64).astype(beside.dtype))


def _is_no_wider(number: Any, beside: Node) -> bool:
    return type(number) is int or (beside.dtype in INEXACT and not isinstance(number, complex))


def _cast_with(node: Node, number: Any) -> tuple[Any, Any]:
    if isinstance(number, Weak):
        return cast(node, dtypes.default()), number
    meet = dtypes.meet(node, number)
    return cast(node, meet), number


def _operator(record: Callable[[Any, Any], Node]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The methods for an operator with a tensor on its left, and with one on its right."""

    def left(self: Tensor, other: Any) -> Any:
        a, b = self.node, other.node if type(other) is Tensor else node_of(other)
        if b is NotImplemented:
            return b
        if type(b) is not Node or a.dtype is not b.dtype or a.device is not b.device:
            a, b = together(a, b)
        return Tensor(record(a, b))

    def right(self: Tensor, other: Any) -> Any:
        a = node_of(other)
        return a if a is NotImplemented else Tensor(record(*together(a, self.node)))

    return left, right


def _arithmetic(record: Callable[[Any, Any], Node]) -> tuple[Callable[..., Any], ...]:
    left, right = _operator(record)

    def in_place(self: Tensor, other: Any) -> Any:
        result = left(self, other)
        return result if result is NotImplemented else write(self, result)

    return left, right, in_place


def _subtraction() -> tuple[Callable[..., Any], ...]:
    left, right, in_place = _arithmetic(e.subtract.record)

    def checked(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Tensor, other: Any) -> Any:
            check_subtraction(self, other)
            return method(self, other)

        return call

    return checked(left), checked(right), checked(in_place)


def check_subtraction(a: Any, b: Any) -> None:
    """Booleans are not subtracted."""
    found = [_is_bool(a), _is_bool(b)]
    if all(found):
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
            "operator instead."
        )
    if any(found):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, "
            "use the `~` or `logical_not()` operator instead."
        )


def _is_bool(x: Any) -> bool:
    return x.node.dtype.kind == "b" if isinstance(x, Base) else type(x) is bool


def divide(a: Any, b: Any) -> Node:
    """The quotient; of integers in the default dtype."""
    a, b = together(a, b)
    for x in (a, b):
        if type(x) is Node and x.dtype not in INEXACT:
            a, b = [cast(x, dtypes.default()) if type(x) is Node else x for x in (a, b)]
            break
    return e.divide.record(a, b)


def power(a: Any, b: Any) -> Node:
    """One to the power of the other. Integers to negative powers are integers: 0, but for 1 and -1."""
    if type(b) is not Node or b.dtype.kind not in "iu" or (type(a) is Node and a.dtype.kind not in "iub"):
        if type(b) is int and b < 0 and type(a) is Node and a.dtype not in INEXACT:
            raise RuntimeError("Integers to negative integer powers are not allowed.")
        return e.pow(a, b)
    if isinstance(a, float):
        return e.pow(a, b)
    base = a if type(a) is Node else operand(a, b.dtype)
    negative = e.less(b, 0)
    sign = e.where(e.equal(e.remainder(b, 2), 0), 1, base)
    inverse = e.where(e.equal(e.multiply(base, base), 1), sign, 0)
    return e.where(negative, inverse, e.pow(base, e.where(negative, 0, b)))


class Sizes(int):
    """The number of a tensor's elements, as Wengert's functions and NumPy's read it; called, PyTorch's `size`."""

    _shape: tuple[int, ...]

    def __new__(cls, node: Node) -> Sizes:
        made = int.__new__(cls, node.size)
        made._shape = node.shape
        return made

    @classmethod
    def of(cls, shape: tuple[int, ...]) -> Sizes:
        """Those of a shape."""
        made = int.__new__(cls, math.prod(shape))
        made._shape = shape
        return made

    def __call__(self, dim: int | None = None) -> Any:
        return Size(self._shape) if dim is None else self._shape[axis_of(dim, len(self._shape))]


def unseen(node: Node) -> Node:
    """A node that a tensor is to name: in `no_grad` without its history, which the node of a view brings along."""
    return node if mode().grad or node.op is VARIABLE else stop_gradient(node)


# --- the class --------------------------------------------------------------------------------------------------------


class Tensor(Base):
    """A tensor as PyTorch has it. Make one with `torch.tensor`, `torch.zeros`, ... or by computing."""

    _writes = 0  # how often it was written in place
    _looks: Any = ()  # weak references to its detached views

    def __init__(self, *data: Any, device: Any = None) -> None:
        """`Tensor(2, 3)` and `Tensor([1, 2])`, as in PyTorch's early days; functions make one of a node."""
        if len(data) == 1 and type(data[0]) is Node:
            Base.__init__(self, unseen(data[0]) if data[0].tracked else data[0])
        else:
            Base.__init__(self, _legacy(data, device))

    # --- what it is -------------------------------------------------------------------------------------------------

    @property
    def shape(self) -> Size:
        """The size of each axis."""
        return Size(self.node.shape)

    @property
    def size(self) -> Sizes:
        """`size()` is the shape, `size(0)` the size of an axis; as a number, the number of elements."""
        return Sizes(self.node)

    @property
    def is_leaf(self) -> bool:
        """Whether it was not computed from tensors that require grad."""
        return not self.node.tracked or self._is_variable()

    @property
    def dtype(self) -> dtypes.dtype:
        """The type of the elements."""
        return dtypes.of(self.node.dtype)

    @property
    def device(self) -> as_device:
        """Where the value is."""
        return as_device(self.node.device)

    # --- looking at the value ---------------------------------------------------------------------------------------

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        from wengert.torch.printing import text

        return text(self)

    def __format__(self, spec: str) -> str:
        """A number of no axes is formatted as the number that it is; all others only as a whole."""
        if self.ndim == 0 and (spec or type(self).__name__ != "Parameter"):
            return super().__format__(spec) if spec else str(self.item())
        if spec:
            raise TypeError(f"unsupported format string passed to {type(self).__name__}.__format__")
        return repr(self)

    def __iter__(self) -> Iterator[Tensor]:
        if not self.node.shape:
            raise TypeError("iteration over a 0-d tensor")
        return iter(self.unbind(0))

    def __contains__(self, element: Any) -> bool:
        return bool((self == element).any().item())

    # --- gradients ----------------------------------------------------------------------------------------------------

    def backward(
        self, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None
    ) -> None:
        """Add the gradient to `grad` of every leaf, or of the `inputs` alone."""
        from wengert.torch.autograd.backward import backward

        backward(self, gradient, retain_graph=retain_graph, create_graph=create_graph, inputs=inputs)

    def register_hook(self, hook: Callable[[Any], Any]) -> Any:
        """Call `hook(gradient)` in every backward pass; what it returns replaces the gradient."""
        from wengert.torch.autograd.hooks import register_hook

        return register_hook(self, hook)

    @property
    def grad_fn(self) -> Any:
        """How it was computed, seen from the backward pass; None of a leaf."""
        from wengert.torch.autograd.hooks import grad_fn

        return grad_fn(self)

    # --- operators ----------------------------------------------------------------------------------------------------

    __add__, __radd__, __iadd__ = _arithmetic(e.add.record)
    __sub__, __rsub__, __isub__ = _subtraction()
    __mul__, __rmul__, __imul__ = _arithmetic(e.multiply.record)
    __truediv__, __rtruediv__, __itruediv__ = _arithmetic(divide)
    __floordiv__, __rfloordiv__, __ifloordiv__ = _arithmetic(e.floor_divide.record)
    __mod__, __rmod__, __imod__ = _arithmetic(e.remainder.record)
    __pow__, __rpow__, __ipow__ = _arithmetic(power)
    __and__, __rand__, __iand__ = _arithmetic(e.bitwise_and.record)
    __or__, __ror__, __ior__ = _arithmetic(e.bitwise_or.record)
    __xor__, __rxor__, __ixor__ = _arithmetic(e.bitwise_xor.record)
    __lshift__, __rlshift__, __ilshift__ = _arithmetic(e.bitwise_left_shift.record)
    __rshift__, __rrshift__, __irshift__ = _arithmetic(e.bitwise_right_shift.record)
    __lt__ = _operator(e.less.record)[0]
    __le__ = _operator(e.less_equal.record)[0]
    __gt__ = _operator(e.greater.record)[0]
    __ge__ = _operator(e.greater_equal.record)[0]
    __eq__ = _operator(e.equal.record)[0]
    __ne__ = _operator(e.not_equal.record)[0]
    __hash__ = object.__hash__


Tensor.family = Tensor
other_families.append(Tensor)


def write(x: Tensor, value: Any, is_fill: bool = False) -> Tensor:
    """Assign a tensor another value in place, cast to its dtype; raises wherever PyTorch does."""
    before = views.facts_of(x)
    node = value.node if isinstance(value, Base) else operand(value, before.dtype)
    if not dtypes.can_cast(node.dtype, before.dtype):
        raise RuntimeError(
            f"result type {dtypes.of(node.dtype).name} can't be cast to the desired output type "
            f"{dtypes.of(before.dtype).name}"
        )
    if node.shape != before.shape:
        raise RuntimeError(
            f"output with shape {list(before.shape)} doesn't match the broadcast shape {list(node.shape)}"
        )
    views.check_write(x, node.tracked, is_fill)
    node = to_device(cast(node, before.dtype), before.device)
    del value  # so that the slot can have its node as it is
    views.store(x, node)
    return x


def axis_of(dim: Any, rank: int) -> int:
    """An axis counted from the front; a 0-d tensor has one as well, as in PyTorch."""
    low = -max(rank, 1)
    if not low <= dim < -low:
        raise IndexError(f"Dimension out of range (expected to be in range of [{low}, {-low - 1}], but got {dim})")
    return int(dim) % max(rank, 1)


def _legacy(data: tuple[Any, ...], device: Any) -> Node:
    if all(isinstance(n, int) for n in data):
        made = np.zeros(data or (0,), dtypes.default())
    elif len(data) == 1 and isinstance(data[0], Size):
        made = np.zeros(data[0], dtypes.default())
    elif len(data) == 1:
        return cast(to_device(_tensor(data[0]).node, device or "cpu"), dtypes.default())
    else:
        raise TypeError(f"Tensor() takes sizes, or one list of numbers, not {data!r}")
    return to_device(operand(made, None), str(device or "cpu"))


def of(value: Any, dtype: Any = None) -> Tensor:
    """A tensor of PyTorch's kind on the value of any tensor, array or number."""
    if isinstance(value, Tensor) and dtype is None:
        return value
    node = value.node if isinstance(value, Base) else _tensor(value).node
    return Tensor(node if dtype is None else cast(node, as_dtype(dtype)))


__all__ = [
    "Tensor",
    "WengertError",
    "axis_of",
    "check_subtraction",
    "divide",
    "node_of",
    "of",
    "power",
    "together",
    "write",
]

from wengert.torch import views  # noqa: E402  (which are Tensors)
