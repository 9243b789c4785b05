"""Where values enter a graph, and the ops that only mark one: data, literals, placeholders, variables, casts.

Everything here is below the families: `operand` turns what a user or a rule writes beside a node into a node.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.core.code import here
from wengert.core.context import mode
from wengert.core.devices import HOST
from wengert.core.dtypes import (
    ALL,
    COMPLEX,
    HALF,
    INEXACT,
    as_dtype,
    bool_,
    cast_array,
    default_float,
    float32,
    is_floating,
    native,
    promote,
    scalar_dtype,
)
from wengert.core.errors import ComputationError, DTypeError
from wengert.core.graph import NO_ATTRS, Node, Shape, recording
from wengert.ops.facts import FREE, itself
from wengert.ops.op import Op
from wengert.ops.symbolic import number, truth


class Argument(float):
    """A float a user wrote beside a tensor: an argument of the program by position, where other numbers are literals.

    So `x * rate` with a rate that changes every step stays one structure.
    """


class Weak:
    """A number that is known only when the program runs. Like a Python float it takes the dtype of what it meets."""

    __slots__ = ()

    like: complex = 0.0  # a number of its kind
    alone = default_float  # its dtype where it meets nothing

    def at(self, dtype: np.dtype[Any]) -> Node:
        """It in this dtype."""
        raise TypeError("what stands for a float says itself what it is in a dtype")


def _no_value(**attrs: Any) -> Any:
    raise ComputationError("a placeholder has no value")


def _no_inference(*sources: Node, **attrs: Any) -> tuple[Any, Any]:
    raise TypeError("made by its own function, never by calling the op")


DATA = Op(
    "data",
    infer=_no_inference,
    numpy=_no_value,
    differentiable=False,
    kind="source",
)
PLACEHOLDER = Op(
    "placeholder",
    infer=_no_inference,
    numpy=_no_value,
    kind="source",
    free=True,
)
LITERAL = Op(
    "literal",
    infer=lambda value, dtype: ((), as_dtype(dtype)),
    numpy=lambda value, dtype: np.asarray(value, dtype),
    differentiable=False,
    kind="source",
    free=True,
)


def data(array: np.ndarray[Any, Any], device: str = HOST) -> Node:
    """A node that holds an array. The array is the node's from now on."""
    dtype = as_dtype(array.dtype)
    held = native(array, dtype) if isinstance(array, np.ndarray) else array
    return Node(DATA, (), NO_ATTRS, array.shape, dtype, device, False, None, held)


def literal(value: complex, dtype: np.dtype[Any], device: str = HOST) -> Node:
    """A number that is part of the program's text."""
    return Node(LITERAL, (), {"value": value, "dtype": dtype}, (), dtype, device, False, None)


def placeholder(shape: Shape, dtype: np.dtype[Any], device: str = HOST, tracked: bool = True) -> Node:
    """An abstract input: it has a shape and a dtype and no value."""
    return Node(PLACEHOLDER, (), NO_ATTRS, shape, dtype, device, tracked and dtype in INEXACT, here())


def _identity(x: Any) -> Any:
    return x


def _same(x: Node) -> tuple[Any, Any]:
    return x.shape, x.dtype


VARIABLE: Op = Op(
    "variable",
    infer=lambda x, slot=None: (x.shape, x.dtype),
    numpy=lambda x, slot=None: x,
    vjp=(lambda g, y, x: g,),
    jvp=lambda tangents, y, x: tangents[0],
    batch=lambda y, sources, batched: VARIABLE(*sources),
    moves=True,
    kind="identity",
    free=True,
    symbolic=itself,
)


def variable(x: Node, slot: Any = None) -> Node:
    """The value of `x` as a point to differentiate by: tracked, whatever `x` is.

    A leaf Tensor's node is one, with a weak reference to its slot, so that a backward pass finds where `grad` goes.
    """
    attrs = NO_ATTRS if slot is None else {"slot": slot}
    return Node(VARIABLE, (x,), attrs, x.shape, x.dtype, x.device, True, recording.location or here())


STOP_GRADIENT: Op = Op(
    "stop_gradient",
    infer=_same,
    numpy=_identity,
    differentiable=False,
    batch=lambda y, sources, batched: STOP_GRADIENT(*sources),
    moves=True,
    kind="identity",
    free=True,
    symbolic=lambda s, x: s.Function("stop_gradient")(x),
)


def stop_gradient(x: Any) -> Node:
    """The value of `x`, through which no derivative passes.

    >>> import wengert as wg
    >>> wg.grad(lambda x: x * wg.stop_gradient(x))(wg.tensor(3.0)).item()
    3.0
    """
    return STOP_GRADIENT(as_node(x))


class _ToDevice(Op):
    """The op that moves a value: its device is an attribute."""

    def __call__(self, *sources: Node, **attrs: Any) -> Node:
        (x,), device = sources, attrs["device"]
        tracked = x.tracked and mode().grad
        return Node(self, (x,), attrs, x.shape, x.dtype, device, tracked, recording.location or here())


TO_DEVICE: Op = _ToDevice(
    "to_device",
    infer=lambda x, device: (x.shape, x.dtype),
    numpy=lambda x, device: x,
    vjp=(lambda g, y, x: to_device(g, x.device),),
    linear=(0,),
    batch=lambda y, sources, batched: TO_DEVICE(*sources, device=y.device),
    moves=True,
    kind="identity",
)


def to_device(x: Node, device: str) -> Node:
    """The value on another device."""
    return x if x.device == device else TO_DEVICE(x, device=device)


ALIAS: Op = Op(
    "alias",
    infer=_same,
    numpy=_identity,
    vjp=(lambda g, y, x: g,),
    linear=(0,),
    batch=lambda y, sources, batched: ALIAS(*sources),
    moves=True,
    kind="identity",
    free=True,
)


def alias(x: Node) -> Node:
    """The value of `x` as a node of its own, for a second Tensor to name."""
    return ALIAS(x)


RECOMPUTE_BARRIER: Op = Op(
    "recompute_barrier",
    infer=_same,
    numpy=_identity,
    vjp=(lambda g, y, x: g,),
    linear=(0,),
    batch=lambda y, sources, batched: RECOMPUTE_BARRIER(*sources),
    moves=True,
    kind="identity",
    aliases=True,
    cost=FREE,
    free=True,
)


def recompute_barrier(x: Node) -> Node:
    """The value of `x`, for what is computed from it a second time on purpose: the compiler takes it for another value
    in the same memory, so neither are the two computations made one nor are they done together.
    """
    return RECOMPUTE_BARRIER(x)


def _cast_infer(x: Node, dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if x.dtype in COMPLEX and dtype not in COMPLEX and dtype is not bool_:
        raise DTypeError(f"astype: {x.dtype} to {dtype} would drop the imaginary part; take real(x) or abs(x)")
    return x.shape, dtype


def _cast_symbolic(s: Any, x: Any, dtype: np.dtype[Any]) -> Any:
    return truth(s, x) if dtype is bool_ else number(s, x)


def _cast_vjp(g: Node, y: Node, x: Node) -> Node:
    """Where a real value became complex, the walk takes the real part, as of all real values that met complex ones."""
    return g if g.dtype in COMPLEX and x.dtype not in COMPLEX else cast(g, x.dtype)


CAST: Op = Op(
    "cast",
    infer=_cast_infer,
    numpy=cast_array,
    vjp=(_cast_vjp,),
    linear=(0,),
    batch=lambda y, sources, batched: CAST(sources[0], **y.attrs),
    moves=True,
    kind="elementwise",
    cost=FREE,
    symbolic=_cast_symbolic,
)


def cast(x: Node, dtype: np.dtype[Any]) -> Node:
    """`x` in another dtype; `x` itself if it has that already."""
    return x if x.dtype is dtype else CAST(x, dtype=dtype)


def as_node(x: Any) -> Node:
    """The node of a node, a Tensor, a NumPy array or a number."""
    if type(x) is Node:
        return x
    node = getattr(x, "node", None)
    if type(node) is Node:
        return node
    return operand(x, None)


def operand(x: Any, beside: np.dtype[Any] | None, device: str = HOST) -> Node:
    """What stands beside a value of dtype `beside` in an expression, as a node. Python's and NumPy's numbers are weak:
    `x / np.sqrt(64)` keeps the dtype of `x`.
    """
    kind = type(x)
    if kind is Argument:
        dtype = beside if beside in INEXACT else default_float
        return Node(DATA, (), NO_ATTRS, (), dtype, device, False, None, np.array(x, dtype))
    if kind in (float, int, bool, complex):
        return literal(x, _dtype_holding(x, beside), device)
    if isinstance(x, Weak):
        return x.at(x.alone if beside is None else scalar_dtype(x.like, beside))
    if isinstance(x, np.generic) and beside is not None and x.dtype in ALL:
        dtype = scalar_dtype(x.item(), beside)
        _check_fits(x, dtype)
        return Node(DATA, (), NO_ATTRS, (), dtype, device, False, None, np.array(x, dtype))
    if isinstance(x, (np.ndarray, np.generic)):
        if x.dtype.newbyteorder("=") not in ALL:
            raise DTypeError(f"an array of dtype {x.dtype} cannot become a tensor")
        read = from_outside(x)
        return data(np.array(x), device) if read is None else to_device(read, device)
    node = getattr(x, "node", None)
    if type(node) is Node:
        return node
    base: Any
    for base in (float, int, complex):  # a class of the user's, or a member of an IntEnum
        if isinstance(x, base):
            return operand(base(x), beside, device)
    raise DTypeError(f"cannot compute with {x!r} of type {kind.__name__}: expected a tensor, an array or a number")


def from_outside(x: Any) -> Node | None:
    """The input that a NumPy array is while a function is compiled that found it outside; None for any other."""
    static = None if recording.trace is None else recording.trace.static
    read = None if static is None or static.array_of is None else static.array_of(x)
    return None if read is None else ALIAS(read)  # which no tensor names: it goes along to another device


def _dtype_holding(value: Any, beside: np.dtype[Any] | None) -> np.dtype[Any]:
    dtype = scalar_dtype(value, beside)
    _check_fits(value, dtype)
    return dtype


def _check_fits(value: Any, dtype: np.dtype[Any]) -> None:
    if dtype.kind in "iu" and isinstance(value, (int, np.integer)):
        limits = np.iinfo(dtype)
        if not limits.min <= value <= limits.max:
            raise DTypeError(f"the number {value} does not fit into {dtype}; cast the tensor with astype first")


def beside(x: Node, value: Any) -> Node:
    """A value that stands beside `x`, as a node: numbers take the dtype of `x`, and lists are arrays."""
    if type(value) is Node:
        return value
    return operand(np.asarray(value) if isinstance(value, (list, tuple)) else value, x.dtype, x.device)


def operands(*values: Any) -> list[Node]:
    """Several values that stand side by side, as nodes, with numbers taking their dtype from the others."""
    beside: np.dtype[Any] | None = None
    found: list[Any] = []
    for value in values:
        node = value if type(value) is Node else getattr(value, "node", value)
        node = operand(node, None) if isinstance(node, np.ndarray) else node
        if type(node) is Node:
            beside = _meet(beside, node.dtype)
        found.append(node)
    if beside is None:  # numbers alone: NumPy's have a dtype, and Python's take it
        found = [operand(node, None) if isinstance(node, np.generic) else node for node in found]
        for node in found:
            beside = _meet(beside, node.dtype) if type(node) is Node else beside
    return [node if type(node) is Node else operand(node, beside) for node in found]


def _meet(a: np.dtype[Any] | None, b: np.dtype[Any]) -> np.dtype[Any]:
    return b if a is None else promote(a, b)


def require_floating(name: str, *nodes: Node) -> None:
    """Raise unless every node is of a real floating-point dtype."""
    for node in nodes:
        if not is_floating(node.dtype):
            raise DTypeError(f"{name} takes floating-point values, not {node.dtype}; cast with astype(wg.float32)")


def widened(x: Node) -> Node:
    """A value of half precision in float32, others as they are."""
    return cast(x, float32) if x.dtype in HALF else x
