"""Tensor: what the user holds, a slot that names a value.

Its operators and methods record nodes (`ops`) and return Tensors on them; nothing is computed until somebody looks. A slot
can be given another value (`assign`, `+=`, `x[i] = v`) and has a `grad`. What computes values and walks backwards comes
later in the house and is reached through `engine`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from wengert.dtypes import FLOATING, as_dtype, bool_
from wengert.errors import AssignmentError, DeviceError, DTypeError, GradientError, ShapeError
from wengert.graph import Node, recording, watch
from wengert.ops import elementwise as e
from wengert.ops.core import VARIABLE, Argument, cast, data, operand, stop_gradient, variable
from wengert.ops.index import get_item, set_item
from wengert.ops.linalg import matmul
from wengert.ops.movement import matrix_transpose, permute_dims, stack


class Engine:
    """What later rooms do for a Tensor; `wengert.runtime` and `wengert.autodiff` fill it in."""

    value: Callable[[Node], np.ndarray[Any, Any]]  # the array of a node, computing all that is pending
    settle: Callable[[], None]  # called when many Tensors are pending
    backward: Callable[..., None]


engine = Engine()


class Tensor:
    """A slot that names a value. Make one with `wg.tensor`, `wg.zeros`, ... or by computing."""

    __slots__ = ("__weakref__", "_indexed", "grad", "node")
    __array_priority__ = 100

    node: Node
    grad: Tensor | None

    def __init__(self, node: Node) -> None:
        if type(node) is not Node:
            raise DTypeError(f"a Tensor is made with wg.tensor({node!r}), not with Tensor(...)")
        self.node = node
        self.grad = None
        self._indexed = False
        if node.buffer is None:
            _await(self)

    # --- what it is ---------------------------------------------------------------------------------------------

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each axis."""
        return self.node.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        return self.node.dtype

    @property
    def device(self) -> str:
        """Where the value is."""
        return self.node.device

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.node.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.node.size

    @property
    def nbytes(self) -> int:
        """The number of bytes the elements take."""
        return self.node.size * self.node.dtype.itemsize

    @property
    def T(self) -> Tensor:
        """The axes in reverse order."""
        return Tensor(permute_dims(self.node, tuple(reversed(range(self.ndim)))))

    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged."""
        return Tensor(matrix_transpose(self.node))

    def __len__(self) -> int:
        if not self.node.shape:
            raise DTypeError("len() of a 0-d tensor: it is one number")
        return self.node.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    __hash__ = object.__hash__

    # --- looking at the value -----------------------------------------------------------------------------------

    def numpy(self) -> np.ndarray[Any, Any]:
        """The value as a read-only NumPy array; computes it, and all else that is pending."""
        array = engine.value(self.node).view()
        array.flags.writeable = False
        return array

    def item(self) -> Any:
        """The value of a one-element tensor as a Python number."""
        if self.node.size != 1:
            raise ShapeError(f"item() takes one element; shape {self.shape} has {self.size}. tolist() gives all")
        return engine.value(self.node).item()

    def tolist(self) -> Any:
        """The value as nested Python lists."""
        return engine.value(self.node).tolist()

    def __bool__(self) -> bool:
        if self.node.size != 1:
            raise ShapeError(f"the truth of {self.size} elements of shape {self.shape}: use any() or all()")
        return bool(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        if self.node.dtype.kind not in "iu":
            raise DTypeError(f"only an integer tensor can be an index, not {self.dtype}")
        return int(self.item())

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and self.node.size == 1 else format(str(self), spec)

    def __repr__(self) -> str:
        from wengert.show import text

        return text(self)

    def _repr_html_(self) -> str:
        from wengert.show import html

        return html(self)

    # --- the slot -----------------------------------------------------------------------------------------------

    def assign(self, value: Any) -> Tensor:
        """Give this slot another value of the same shape; nothing is computed yet.

        >>> import wengert as wg
        >>> x = wg.tensor([1.0, 2.0])
        >>> x.assign(x * 2).tolist()
        [2.0, 4.0]
        """
        if self._indexed:
            raise AssignmentError(
                "this tensor is the result of an indexing: a value of its own, not a view. To change part of x write "
                "x[0, 1] = 5 instead of x[0][1] = 5; to work on the part alone take x[0].copy()"
            )
        node = operand(value, self.node.dtype) if not isinstance(value, Tensor) else value.node
        if node.shape != self.node.shape:
            raise ShapeError(f"assign: a slot of shape {self.shape} cannot take a value of shape {node.shape}")
        node = cast(node, self.node.dtype)
        if self.is_leaf:
            if node.tracked and recording.grad:
                raise AssignmentError(
                    "this tensor requires grad, and the new value was computed from tracked ones: the gradient of which "
                    "of the two would be meant? Update it inside `with wg.no_grad():`, or assign value.detach()"
                )
            node = variable(stop_gradient(node) if node.tracked else node, ref(self))
        if recording.trace is not None:
            recording.trace.note(self)
        self.node = node
        if node.buffer is None:
            _await(self)
            recording.cut = len(recording.pending)
        return self

    def copy(self) -> Tensor:
        """Another slot with the same value."""
        return Tensor(e.positive(self.node)) if self.node.dtype is not bool_ else Tensor(self.node)

    clone = copy

    def detach(self) -> Tensor:
        """Another slot with the same value, through which no derivative passes."""
        return Tensor(stop_gradient(self.node))

    def to(self, *targets: Any) -> Tensor:
        """The value in another dtype or on another device: `x.to(wg.float64)`, `x.to("cpu")`.

        A tensor that requires grad moves as the leaf it is: the gradient goes to the result.
        """
        node = self.node
        for target in targets:
            if isinstance(target, str) and target.split(":")[0] in ("cpu", "cuda"):
                if target != node.device:
                    raise DeviceError(f"there is no device {target!r} here; there is 'cpu'")
            else:
                node = cast(node, as_dtype(target))
        return self if node is self.node else Tensor(node)

    def to_device(self, device: str, /, *, stream: Any = None) -> Tensor:
        """The value on another device."""
        return self.to(device)

    # --- gradients ----------------------------------------------------------------------------------------------

    @property
    def requires_grad(self) -> bool:
        """Whether the value is tracked for gradients. Settable on a tensor that was not computed from tracked ones."""
        return self.node.tracked

    @requires_grad.setter
    def requires_grad(self, required: bool) -> None:
        if required == self.node.tracked:
            return
        if required:
            if self.node.dtype not in FLOATING:
                raise DTypeError(f"only floating-point tensors can require grad, not {self.dtype}")
            self.node = variable(self.node, ref(self))
        elif not self.is_leaf:
            raise GradientError("this tensor was computed from tracked ones; detach() gives its value untracked")
        else:
            self.node = stop_gradient(self.node.sources[0])

    def requires_grad_(self, required: bool = True) -> Tensor:
        """Set `requires_grad` and return the tensor."""
        self.requires_grad = required
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether this is a tensor to differentiate by: one that requires grad of its own."""
        return self.node.op is VARIABLE and "slot" in self.node.attrs and self.node.attrs["slot"]() is self

    def backward(self, gradient: Any = None, *, retain_graph: bool = False, create_graph: bool = False) -> None:
        """Add the gradient of this value to `grad` of every leaf it was computed from, and compute all of them.

        `gradient` is the cotangent to start from, needed unless the value is a single number. The graph is let go
        afterwards unless `retain_graph`; with `create_graph` the gradients can be differentiated again.
        """
        engine.backward(self, gradient, retain_graph=retain_graph or create_graph, create_graph=create_graph)

    def retain_grad(self) -> None:
        """Have a backward pass fill in `grad` of this tensor though it is no leaf."""
        if not self.node.tracked:
            raise GradientError("retain_grad: this tensor is not tracked for gradients")
        if self.is_leaf:
            return
        slot = ref(self)

        def keep(g: Node) -> None:
            tensor = slot()
            if tensor is not None:
                tensor.grad = Tensor(g) if tensor.grad is None else tensor.grad.assign(tensor.grad + Tensor(g))

        watch(self.node, keep)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Callable[[], None]:
        """Call `hook(gradient)` in every backward pass; a tensor it returns replaces the gradient.

        The answer is a function that removes the hook.
        """
        if not self.node.tracked:
            raise GradientError("register_hook: this tensor is not tracked for gradients")

        def call(g: Node) -> Node | None:
            replaced = hook(Tensor(g))
            return None if replaced is None else replaced.node

        return watch(self.node, call)

    # --- indexing -----------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Tensor:
        part = Tensor(get_item(self.node, unwrap(key)))
        part._indexed = True
        return part

    def __setitem__(self, key: Any, value: Any) -> None:
        self.assign(Tensor(set_item(self.node, unwrap(key), unwrap(value))))

    # --- operators ----------------------------------------------------------------------------------------------

    def __add__(self, other: Any) -> Tensor:
        return binary(e.add, self, other)

    def __radd__(self, other: Any) -> Tensor:
        return binary(e.add, other, self)

    def __sub__(self, other: Any) -> Tensor:
        return binary(e.subtract, self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return binary(e.subtract, other, self)

    def __mul__(self, other: Any) -> Tensor:
        return binary(e.multiply, self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return binary(e.multiply, other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return binary(e.divide, self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return binary(e.divide, other, self)

    def __floordiv__(self, other: Any) -> Tensor:
        return binary(e.floor_divide, self, other)

    def __rfloordiv__(self, other: Any) -> Tensor:
        return binary(e.floor_divide, other, self)

    def __mod__(self, other: Any) -> Tensor:
        return binary(e.remainder, self, other)

    def __rmod__(self, other: Any) -> Tensor:
        return binary(e.remainder, other, self)

    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __pow__(self, other: Any) -> Tensor:
        return binary(e.pow, self, other)

    def __rpow__(self, other: Any) -> Tensor:
        return binary(e.pow, other, self)

    def __matmul__(self, other: Any) -> Tensor:
        return binary(matmul, self, other)

    def __rmatmul__(self, other: Any) -> Tensor:
        return binary(matmul, other, self)

    def __and__(self, other: Any) -> Tensor:
        return binary(e.bitwise_and, self, other)

    __rand__ = __and__

    def __or__(self, other: Any) -> Tensor:
        return binary(e.bitwise_or, self, other)

    __ror__ = __or__

    def __xor__(self, other: Any) -> Tensor:
        return binary(e.bitwise_xor, self, other)

    __rxor__ = __xor__

    def __lshift__(self, other: Any) -> Tensor:
        return binary(e.bitwise_left_shift, self, other)

    def __rlshift__(self, other: Any) -> Tensor:
        return binary(e.bitwise_left_shift, other, self)

    def __rshift__(self, other: Any) -> Tensor:
        return binary(e.bitwise_right_shift, self, other)

    def __rrshift__(self, other: Any) -> Tensor:
        return binary(e.bitwise_right_shift, other, self)

    def __eq__(self, other: Any) -> Tensor:  # type: ignore[override]
        return binary(e.equal, self, other)

    def __ne__(self, other: Any) -> Tensor:  # type: ignore[override]
        return binary(e.not_equal, self, other)

    def __lt__(self, other: Any) -> Tensor:
        return binary(e.less, self, other)

    def __le__(self, other: Any) -> Tensor:
        return binary(e.less_equal, self, other)

    def __gt__(self, other: Any) -> Tensor:
        return binary(e.greater, self, other)

    def __ge__(self, other: Any) -> Tensor:
        return binary(e.greater_equal, self, other)

    def __neg__(self) -> Tensor:
        return Tensor(e.negative(self.node))

    def __pos__(self) -> Tensor:
        return Tensor(e.positive(self.node))

    def __abs__(self) -> Tensor:
        return Tensor(e.absolute(self.node))

    def __invert__(self) -> Tensor:
        return Tensor(e.bitwise_invert(self.node))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # the methods that wengert.functions adds


def _await(tensor: Tensor) -> None:
    """Remember a Tensor that has no value yet, weakly, for the next flush."""
    pending = recording.pending
    pending.append(ref(tensor))
    if len(pending) > recording.limit:
        engine.settle()


def unwrap(value: Any) -> Any:
    """Tensors replaced by their nodes, also within lists, tuples and slices."""
    kind = type(value)
    if kind is Tensor:
        return value.node
    if kind is list or kind is tuple:
        return kind([unwrap(item) for item in value])
    return value


def wrap(value: Any) -> Any:
    """Nodes replaced by Tensors, also within (named) tuples and lists."""
    if type(value) is Node:
        return Tensor(value)
    if isinstance(value, tuple):
        parts = [wrap(item) for item in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return [wrap(item) for item in value] if type(value) is list else value


def binary(op: Callable[[Any, Any], Node], a: Any, b: Any) -> Tensor:
    """An operator of two operands, one of them a Tensor. A float is an argument of the program, not part of it."""
    if type(a) is not Tensor:
        if type(a) is float:
            a = operand(Argument(a), b.node.dtype, b.node.device)
        elif not isinstance(a, (int, complex, np.ndarray, np.generic, Tensor)):
            return NotImplemented
        return Tensor(op(a.node if isinstance(a, Tensor) else a, b.node))
    if type(b) is Tensor:
        return Tensor(op(a.node, b.node))
    if type(b) is float:
        return Tensor(op(a.node, Argument(b)))
    if isinstance(b, (int, complex, np.ndarray, np.generic)):
        return Tensor(op(a.node, b))
    if isinstance(b, list):
        raise DTypeError("an operand is a list; make it a tensor with wg.tensor(...)")
    return NotImplemented


def _in_place(name: str) -> Callable[[Tensor, Any], Tensor]:
    """`x += y`: the slot x gets the new value, in x's own dtype. The result of an indexing is no slot of x: `x[0] += 1`
    computes the sum and Python then assigns it to `x[0]`.
    """
    operator = getattr(Tensor, f"__{name}__")

    def update(self: Tensor, other: Any) -> Tensor:
        result = operator(self, other)
        if result is NotImplemented or self._indexed:
            return result
        if result.dtype.kind not in _KINDS_INTO[self.dtype.kind]:
            raise DTypeError(f"in-place {name.strip('i')}: a {result.dtype} result cannot go into a {self.dtype} tensor")
        return self.assign(result)

    return update


_KINDS_INTO = {"b": "b", "i": "biu", "u": "biu", "f": "biufV", "V": "biufV", "c": "biufVc"}

for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor", "lshift", "rshift"):
    setattr(Tensor, f"__i{_name}__", _in_place(_name))


def tensor(
    value: Any, dtype: Any = None, *, device: str | None = None, requires_grad: bool = False, copy: bool = True
) -> Tensor:
    """A new tensor from a number, nested lists, an array or anything NumPy can read.

    NumPy arrays keep their dtype; Python floats become float32 and integers int64. `copy=False` shares a NumPy array's
    memory where the dtype allows it.

    >>> import wengert as wg
    >>> wg.tensor([1.0, 2.0]).dtype
    dtype('float32')
    """
    if device not in (None, "cpu"):
        raise DeviceError(f"there is no device {device!r} here; there is 'cpu'")
    result = Tensor(_node_from(value, None if dtype is None else as_dtype(dtype), copy))
    if requires_grad:
        result.requires_grad = True
    return result


def _node_from(value: Any, dtype: np.dtype[Any] | None, copy: bool) -> Node:
    if isinstance(value, Tensor):
        node = stop_gradient(value.node)
        return node if dtype is None else cast(node, dtype)
    if isinstance(value, (list, tuple)) and _holds_tensor(value):
        node = stack([_node_from(item, dtype, copy) for item in value])
        return node
    known = isinstance(value, (np.ndarray, np.generic)) or hasattr(value, "__array__") or hasattr(value, "__dlpack__")
    try:
        array = np.from_dlpack(value) if _only_dlpack(value) else np.asarray(value)
    except (ValueError, TypeError) as error:
        raise ShapeError(f"cannot make a tensor of this: {error}") from None
    if dtype is None and not known:
        dtype = _PYTHON_DEFAULTS.get(array.dtype.kind)
    target = as_dtype(array.dtype) if dtype is None else dtype
    return data(np.array(array, target) if copy or array.dtype != target else array)


_PYTHON_DEFAULTS = {"f": as_dtype(float), "c": as_dtype(complex)}


def _only_dlpack(value: Any) -> bool:
    return hasattr(value, "__dlpack__") and not hasattr(value, "__array__")


def _holds_tensor(value: Sequence[Any]) -> bool:
    return any(
        isinstance(item, Tensor) or (isinstance(item, (list, tuple)) and _holds_tensor(item)) for item in value
    )


