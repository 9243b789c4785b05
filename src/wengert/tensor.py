"""Tensor: what the user holds, a slot that names a value.

Its operators and methods record nodes (`ops`) and return Tensors on them; nothing is computed until somebody looks. A
slot can be given another value (`assign`, `+=`, `x[i] = v`) and has a `grad`. What computes values and walks backwards
comes later in the house and is reached through `engine`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar
from weakref import ref

import numpy as np

from wengert.core.context import mode
from wengert.core.conversion import require_array, require_number, require_stored
from wengert.core.devices import is_device, named
from wengert.core.dtypes import INEXACT, as_dtype
from wengert.core.errors import AssignmentError, DTypeError, GradientError, ShapeError
from wengert.core.graph import Node, now, recording, watch
from wengert.ops import elementwise as e
from wengert.ops.core import VARIABLE, Argument, Weak, alias, cast, data, operand, stop_gradient, to_device, variable
from wengert.ops.index import get_item, set_item
from wengert.ops.linalg import matmul
from wengert.ops.movement import matrix_transpose, permute_dims, reshape


class Engine:
    """What later rooms do for a Tensor; `wengert.runtime` and `wengert.autodiff` fill it in."""

    value: Callable[[Node], np.ndarray[Any, Any]]  # the array of a node, computing all that is pending
    array: Callable[[Node], Any]  # the same where it is, on its device
    flush: Callable[..., None]  # computes what is pending: called when that is much, and by backward
    backward: Callable[..., None]
    on_accumulated: Callable[..., Callable[[], None]]  # has a function called when a leaf's gradient was added to
    changed: Callable[[], None]  # says that what recorded functions depend on was set


engine = Engine()


class Removal:
    """What registering a hook on a Tensor gives: calling it, or its `remove()`, takes the hook away."""

    __slots__ = ("remove",)

    def __init__(self, remove: Callable[[], None]) -> None:
        self.remove = remove

    def __call__(self) -> None:
        self.remove()


def _dtype_named(target: Any) -> np.dtype[Any]:
    """What `to` casts to, where it was not given a device."""
    try:
        return as_dtype(target)
    except DTypeError:
        places = "'cpu', or 'cuda' where there is an NVIDIA GPU"
        raise DTypeError(f"to: {target!r} is neither a dtype, such as wg.float64, nor a device: {places}") from None


def _operator(record: Callable[[Any, Any], Node]) -> Callable[..., Any]:
    """The method for an operator with a Tensor on its left.

    Few frames lie between the user's line and the recorded node: finding that line costs a fifth of the whole per
    frame.
    """

    def left(self: Tensor, other: Any) -> Any:
        b = other.node if type(other) is Tensor else beside(other)
        return b if b is NotImplemented else self.family(record(self.node, b))

    return left


def _arithmetic(symbol: str, record: Callable[[Any, Any], Node]) -> tuple[Callable[..., Any], ...]:
    """The methods for an operator with a Tensor on its left, with one on its right, and for `x += y`.

    In place, the slot x gets the new value in x's own dtype. The result of an indexing is no slot of x: `x[0] += 1`
    computes the sum, and Python then assigns it to `x[0]`.
    """
    left = _operator(record)

    def right(self: Tensor, other: Any) -> Any:
        a = other.node if type(other) is Tensor else beside(other)
        return a if a is NotImplemented else self.family(record(a, self.node))

    def in_place(self: Tensor, other: Any) -> Any:
        result = left(self, other)
        if result is NotImplemented or self._taken_from is INDEXED:
            return result
        if result.dtype.kind not in _KINDS_INTO[self.dtype.kind]:
            raise DTypeError(f"x {symbol}= y: a {result.dtype} result cannot go into a {self.dtype} tensor")
        node = result.node
        del result  # so that the slot can have its node as it is
        return self.assign(node)

    return left, right, in_place


INDEXED = "an indexing"
"""Where the result of an indexing comes from."""

_KINDS_INTO = {"b": "b", "i": "biu", "u": "biu", "f": "biufV", "V": "biufV", "c": "biufVc"}
"""The kinds of result that a slot of each kind takes in place."""


def beside(other: Any) -> Any:
    """What stands beside a Tensor in an expression. A float is an argument of the program, other numbers part of it."""
    if type(other) is float:
        return Argument(other)
    if isinstance(other, (int, float, complex, np.ndarray, np.generic)):
        return other
    if isinstance(other, Tensor):
        return other.node if other.weak is None else other.weak
    if isinstance(other, (list, tuple)):
        raise DTypeError(f"an operand is a {type(other).__name__}; make it a tensor with wg.tensor(...)")
    return NotImplemented


class Tensor:
    """A slot that names a value. Make one with `wg.tensor`, `wg.zeros`, ... or by computing.

    >>> import wengert as wg
    >>> x = wg.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> x.shape, x.T[0].tolist(), x.sum().item()
    ((2, 2), [1.0, 3.0], 10.0)
    """

    __slots__ = ("__weakref__", "_grad", "_taken_from", "node")
    __array_priority__ = 100

    node: Node
    family: ClassVar[type[Tensor]]  # the class of what is computed from it; a subclass may be its own (see `family_of`)
    weak: Weak | None = None  # what it is beside values, where it stands for a Python float
    born: int | None = None  # when it was made, where its node does not tell: of a view (`wengert.torch.views`)
    view_of: tuple[Tensor, Any] | None = None  # of a view: the slot it is a part of, and what makes it of another slot
    _grad: Tensor | None
    _taken_from: Any  # None, or INDEXED, or a weak reference to the slot that was detached: see `assign`

    def __init__(self, node: Node) -> None:
        if type(node) is not Node:
            raise DTypeError(f"a Tensor is made with wg.tensor({node!r}), not with Tensor(...)")
        if node.owner is not None and node.owner() is not None:
            node = alias(node)  # so that a node tells whose value it is
        self.node = node
        self._grad = None
        self._taken_from = None
        node.owner = slot = ref(self)
        if node.buffer is None:  # as `_await` does: this is the hottest line of all
            pending = recording.pending
            pending.append(slot)
            if len(pending) > mode().limit:
                engine.flush()

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
        return self.family(permute_dims(self.node, tuple(reversed(range(self.ndim)))))

    @property
    def mT(self) -> Tensor:
        """The last two axes exchanged."""
        return self.family(matrix_transpose(self.node))

    def __len__(self) -> int:
        if not self.node.shape:
            raise DTypeError("len() of a 0-d tensor: it is one number")
        return self.node.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        if not self.node.shape:
            raise DTypeError("a 0-d tensor cannot be iterated over: it is one number, item() gives it")
        return (self[i] for i in range(len(self)))

    __hash__ = object.__hash__

    # --- looking at the value -----------------------------------------------------------------------------------

    def numpy(self) -> np.ndarray[Any, Any]:
        """The value as a read-only NumPy array; computes it, and all else that is pending."""
        require_array(self.node, "numpy()")
        now()
        array = engine.value(self.node).view()
        array.flags.writeable = False
        return array

    def item(self) -> Any:
        """The value of a one-element tensor as a Python number."""
        if self.node.size != 1:
            raise ShapeError(f"item() takes one element; shape {self.shape} has {self.size}. tolist() gives all")
        require_number(self.node, "item()")
        return engine.value(self.node).item()

    def tolist(self) -> Any:
        """The value as nested Python lists."""
        require_number(self.node, "tolist()")
        return engine.value(self.node).tolist()

    def __bool__(self) -> bool:
        if self.node.size != 1:
            raise ShapeError(f"the truth of {self.size} elements of shape {self.shape}: use any() or all()")
        return bool(engine.value(self.node))

    def __float__(self) -> float:
        require_stored(self.node, "float(x)")
        return float(self.item())

    def __int__(self) -> int:
        require_stored(self.node, "int(x)")
        return int(self.item())

    def __complex__(self) -> complex:
        require_stored(self.node, "complex(x)")
        return complex(self.item())

    def __index__(self) -> int:
        if self.node.dtype.kind not in "iu":
            raise DTypeError(f"only an integer tensor can be an index, not {self.dtype}")
        return int(self.item())

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        if self.node.size != 1:
            raise ShapeError(
                f"{spec!r} formats one number; shape {self.shape} has {self.size}. Without it all are shown"
            )
        return format(engine.value(self.node).item(), spec)

    def __repr__(self) -> str:
        from wengert.core.formatting import text

        return text(self)

    def _repr_html_(self) -> str:
        from wengert.core.formatting import html

        return html(self)

    # --- the slot -----------------------------------------------------------------------------------------------

    def assign(self, value: Any) -> Tensor:
        """Give this slot another value of the same shape; nothing is computed yet.

        >>> import wengert as wg
        >>> x = wg.tensor([1.0, 2.0])
        >>> x.assign(x * 2).tolist()
        [2.0, 4.0]
        """
        if self._taken_from is not None:
            self._require_own()
        value = unwrap(value) if isinstance(value, Tensor) else value
        node = value if type(value) is Node else operand(value, self.node.dtype, self.device)
        if node.shape != self.node.shape:
            raise ShapeError(f"assign: a slot of shape {self.shape} cannot take a value of shape {node.shape}")
        node = to_device(cast(node, self.node.dtype), self.device)
        if self._is_variable():
            if node.tracked and mode().grad:
                raise AssignmentError(
                    "this tensor requires grad, and the new value was computed from tracked ones: which of the two "
                    "would the gradient be of? Update it inside `with wg.no_grad():`, or assign value.detach()"
                )
            node = variable(stop_gradient(node) if node.tracked else node, ref(self))
        elif node.tracked and not mode().grad:
            node = stop_gradient(node)
        self._put(node)
        return self

    def _require_own(self) -> None:
        """Raise if a write was meant for what this tensor was taken from. There are no views: it would be lost."""
        if self._taken_from is INDEXED:
            raise AssignmentError(
                "this tensor is the result of an indexing: a value of its own, not a view. To change part of x write "
                "x[0, 1] = 5 instead of x[0][1] = 5; to work on the part alone take x[0].copy()"
            )
        if self._taken_from() is not None:
            raise AssignmentError(
                "this tensor is what x.detach(), or state_dict(), gave of an x that is still there: its value, not a "
                "view of it, so that a write would not reach x. To change x write x.assign(value) inside "
                "`with wg.no_grad():`, or model.load_state_dict(state) with the new values; to have a tensor to work "
                "on take x.detach().clone()"
            )

    def _put(self, node: Node) -> None:
        """Have the slot name this node from now on, and compute it in the next flush."""
        self._name(node)
        if self.node.buffer is None:
            _await(self)
            recording.cut = len(recording.pending)

    def _name(self, node: Node) -> None:
        """Have the slot name this node, or one of its own with that value if another Tensor names it."""
        if recording.trace is not None:
            recording.trace.note(self)
        owner = None if node.owner is None else node.owner()
        if owner is not None and owner is not self:
            node = alias(node)
        now()
        self.node = node
        node.owner = ref(self)

    def copy(self) -> Tensor:
        """Another slot with the same value."""
        return self.family(self.node)

    clone = copy

    def __copy__(self) -> Tensor:
        return self.__deepcopy__({})

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """A slot of its own with the same value, a leaf if this is one; `copy.deepcopy(model)` comes here."""
        if self.node.tracked and not self._is_variable():
            raise GradientError("deepcopy: this tensor was computed from tracked ones; copy x.detach()")
        twin = self.family(stop_gradient(self.node) if self._is_variable() else self.node)
        twin.requires_grad = self.requires_grad
        memo[id(self)] = twin
        return twin

    def __reduce__(self) -> Any:
        """Pickling keeps the value and whether it is a leaf, not the history."""
        require_number(self.node, "pickling")
        return _unpickled, (np.array(engine.value(self.node)), self._is_variable())

    def detach(self) -> Tensor:
        """The same value, through which no derivative passes. It is no view: while this tensor is there, writing to
        the result raises; `x.detach().clone()` is one to write to.
        """
        detached = self.family(stop_gradient(self.node))
        detached._taken_from = ref(self)
        return detached

    def to(self, *targets: Any) -> Tensor:
        """The value in another dtype or on another device: `x.to(wg.float64)`, `x.to("cpu")`.

        A tensor that requires grad moves as the leaf it is: the gradient goes to the result.
        """
        node = self.node
        for target in targets:
            node = to_device(node, named(target, "to")) if is_device(target) else cast(node, _dtype_named(target))
        return self if node is self.node else self.family(node)

    def to_(self, *targets: Any) -> Tensor:
        """Move the slot itself to another dtype or device. A leaf stays one, and its gradient moves along."""
        if self.node.tracked and not self._is_variable():
            raise AssignmentError("to_: this tensor was computed from tracked ones; x.to(...) gives a moved value")
        if self.grad is not None:
            self.grad.to_(*targets)
        return self._become(Tensor(stop_gradient(self.node) if self._is_variable() else self.node).to(*targets))

    def _become(self, value: Tensor) -> Tensor:
        """Give this slot another value, of whatever shape, dtype and device, without its history; a leaf stays one."""
        node = stop_gradient(value.node) if value.node.tracked else value.node
        self._put(variable(node, ref(self)) if self._is_variable() else node)
        return self

    def reshape(self, *shape: Any, **options: Any) -> Tensor:
        """The same elements in another shape, given as one tuple or as sizes."""
        return self.family(reshape(self.node, shape[0] if len(shape) == 1 else shape or options["shape"]))

    def permute_dims(self, *axes: Any) -> Tensor:
        """The axes in another order, given as one tuple or one by one."""
        return self.family(
            permute_dims(self.node, axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes)
        )

    def astype(self, dtype: Any, *, copy: bool = True) -> Tensor:
        """The value in another dtype."""
        return self.family(cast(self.node, as_dtype(dtype)))

    def to_device(self, device: str, /, *, stream: Any = None) -> Tensor:
        """The value on another device."""
        return self.to(device)

    # --- gradients ----------------------------------------------------------------------------------------------

    @property
    def grad(self) -> Tensor | None:
        """What backward passes have added up here, or None."""
        if recording.trace is not None:
            recording.trace.note_grad(self, reads=True)
        now()
        return self._grad

    @grad.setter
    def grad(self, gradient: Tensor | None) -> None:
        if gradient is not None:
            _check_gradient(gradient, self.node, "grad")
        if recording.trace is not None:
            recording.trace.note_grad(self, reads=False)
        now()
        self._grad = gradient

    @property
    def requires_grad(self) -> bool:
        """Whether the value is tracked for gradients. Settable on a tensor that was not computed from tracked ones."""
        return self.node.tracked

    @requires_grad.setter
    def requires_grad(self, required: bool) -> None:
        if required == self.node.tracked:
            return
        if required:
            if self.node.dtype not in INEXACT:
                raise DTypeError(f"only floating-point and complex tensors can require grad, not {self.dtype}")
            self._name(variable(self.node, ref(self)))
            self._taken_from = None  # a leaf is a slot of its own
        elif not self._is_variable():
            raise GradientError("this tensor was computed from tracked ones; detach() gives its value untracked")
        else:
            self._name(stop_gradient(self.node))

    def requires_grad_(self, required: bool = True) -> Tensor:
        """Set `requires_grad` and return the tensor."""
        self.requires_grad = required
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether this is a tensor to differentiate with respect to: one that requires grad of its own."""
        return self._is_variable()

    def _is_variable(self) -> bool:
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
        if self._is_variable():
            return
        slot = ref(self)

        def keep(g: Node) -> None:
            tensor = slot()
            if tensor is not None:
                made = tensor.family(g)
                tensor.grad = made if tensor.grad is None else tensor.grad + made

        watch(self.node, keep)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Removal:
        """Call `hook(gradient)` in every backward pass; a tensor it returns replaces the gradient.

        The answer removes the hook, when it is called or by its `remove()`.
        """
        if not self.node.tracked:
            raise GradientError("register_hook: this tensor is not tracked for gradients")

        def call(g: Node) -> Node | None:
            replaced = hook(self.family(g))
            if replaced is None:
                return None
            _check_gradient(replaced, g, "register_hook")
            return cast(replaced.node, g.dtype)

        return Removal(watch(self.node, call))

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], Any]) -> Removal:
        """Call `hook(x)` whenever a backward pass has added to `x.grad`, of a leaf: to step, and let the gradient go.

        >>> import wengert as wg
        >>> x = wg.tensor([1.0, 2.0], requires_grad=True)
        >>> handle = x.register_post_accumulate_grad_hook(lambda leaf: print(leaf.grad.tolist()))
        >>> (x * x).sum().backward()
        [2.0, 4.0]
        """
        if not self.is_leaf:
            raise GradientError("register_post_accumulate_grad_hook: this tensor is no leaf, and keeps no gradient")
        return Removal(engine.on_accumulated(self, hook))

    # --- indexing -----------------------------------------------------------------------------------------------

    def __getitem__(self, key: Any) -> Tensor:
        plain = type(key) is int or type(key) is slice
        part = self.family(get_item(self.node, key if plain else unwrap(key), engine.value))
        part._taken_from = INDEXED
        return part

    def __setitem__(self, key: Any, value: Any) -> None:
        value = Argument(value) if type(value) is float else unwrap(value)
        self.assign(set_item(self.node, unwrap(key), value, engine.value))

    # --- operators ----------------------------------------------------------------------------------------------

    __add__, __radd__, __iadd__ = _arithmetic("+", e.add.record)
    __sub__, __rsub__, __isub__ = _arithmetic("-", e.subtract.record)
    __mul__, __rmul__, __imul__ = _arithmetic("*", e.multiply.record)
    __truediv__, __rtruediv__, __itruediv__ = _arithmetic("/", e.divide.record)
    __floordiv__, __rfloordiv__, __ifloordiv__ = _arithmetic("//", e.floor_divide.record)
    __mod__, __rmod__, __imod__ = _arithmetic("%", e.remainder.record)
    __pow__, __rpow__, __ipow__ = _arithmetic("**", e.pow)
    __matmul__, __rmatmul__, __imatmul__ = _arithmetic("@", matmul)
    __and__, __rand__, __iand__ = _arithmetic("&", e.bitwise_and.record)
    __or__, __ror__, __ior__ = _arithmetic("|", e.bitwise_or.record)
    __xor__, __rxor__, __ixor__ = _arithmetic("^", e.bitwise_xor.record)
    __lshift__, __rlshift__, __ilshift__ = _arithmetic("<<", e.bitwise_left_shift.record)
    __rshift__, __rrshift__, __irshift__ = _arithmetic(">>", e.bitwise_right_shift.record)
    __lt__ = _operator(e.less.record)
    __le__ = _operator(e.less_equal.record)
    __gt__ = _operator(e.greater.record)
    __ge__ = _operator(e.greater_equal.record)
    __eq__ = _operator(e.equal.record)
    __ne__ = _operator(e.not_equal.record)

    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]:
        return self // other, self % other

    def __neg__(self) -> Tensor:
        return self.family(e.negative(self.node))

    def __pos__(self) -> Tensor:
        return self.family(e.positive(self.node))

    def __abs__(self) -> Tensor:
        return self.family(e.absolute(self.node))

    def __invert__(self) -> Tensor:
        return self.family(e.bitwise_invert(self.node))

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...  # the methods that wengert.api.functions adds


Tensor.family = Tensor
other_families: list[type[Tensor]] = []  # beside Tensor's own; `wengert.torch` has one


def family_of(values: Iterable[Any]) -> type[Tensor]:
    """The class of what is computed from these values, of which some may be Tensors, also within lists and tuples.

    A subclass that is its own `family` is that of every result that such a tensor has a part in.
    """
    if other_families:
        for value in values:
            if isinstance(value, Tensor):
                found = value.family
            elif isinstance(value, (list, tuple)):
                found = family_of(value)
            else:
                continue
            if found is not Tensor:
                return found
    return Tensor


def _unpickled(array: np.ndarray[Any, Any], requires_grad: bool) -> Tensor:
    return Tensor(data(array)).requires_grad_(requires_grad)


def tensors_like(example: Node, family: type[Tensor] = Tensor) -> Callable[[Any], Tensor]:
    """What makes Tensors of arrays, with nodes like an example: `Tensor(Node(...))` in a third of the time."""
    new, op, sources, attrs, location = object.__new__, example.op, example.sources, example.attrs, example.location
    shape, dtype, device, tracked = example.shape, example.dtype, example.device, example.tracked

    def made(array: Any) -> Tensor:
        node, tensor = new(Node), new(family)
        node.op, node.sources, node.attrs = op, sources, attrs
        node.shape, node.dtype, node.device = shape, dtype, device
        node.tracked, node.location, node.buffer = tracked, location, array
        node.owner, node.serial = ref(tensor), now()
        tensor.node, tensor._grad, tensor._taken_from = node, None, None
        return tensor

    return made


def _check_gradient(gradient: Any, of: Node, asker: str) -> None:
    if not isinstance(gradient, Tensor):
        raise DTypeError(f"{asker}: a gradient is a tensor, or None, not a {type(gradient).__name__}")
    if gradient.node.shape != of.shape:
        raise ShapeError(f"{asker}: a gradient of shape {gradient.shape} for a value of shape {of.shape}")


def _await(tensor: Tensor) -> None:
    """Remember a Tensor that has no value yet, weakly, for the next flush."""
    pending = recording.pending
    pending.append(ref(tensor))
    if len(pending) > mode().limit:
        engine.flush()


def unwrap(value: Any) -> Any:
    """Tensors replaced by their nodes, also within lists, tuples and slices."""
    kind = type(value)
    if kind is Tensor:
        return value.node
    if kind is list or kind is tuple:
        return kind([unwrap(item) for item in value])
    if isinstance(value, Tensor):
        return value.node if value.weak is None else value.weak
    return value


def wrap(value: Any, family: type[Tensor] = Tensor) -> Any:
    """Nodes replaced by Tensors, also within (named) tuples and lists."""
    if type(value) is Node:
        return family(value)
    if isinstance(value, tuple):
        parts = [wrap(item, family) for item in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return [wrap(item, family) for item in value] if type(value) is list else value
