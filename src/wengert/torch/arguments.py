"""Arguments as PyTorch has them: a function over nodes becomes one over Tensors, and `dim` an axis or several."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from wengert.api.lift import WholePrecision, as_a_whole
from wengert.core.dtypes import INEXACT
from wengert.core.graph import Node, Shape
from wengert.ops.addressing import TAKE_ALONG
from wengert.ops.core import as_node, cast
from wengert.ops.movement import reshape
from wengert.ops.reduce import reduced
from wengert.tensor import unwrap, wrap
from wengert.torch import dtypes
from wengert.torch.tensor import Base, Tensor, axis_of

F = TypeVar("F", bound=Callable[..., Any])

NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input", "x1": "input", "x2": "other", "a": "input"}
"""NumPy's names of arguments, which PyTorch takes as well."""


def over_nodes(precision: WholePrecision = None) -> Callable[[F], F]:
    """A decorator that turns a function over nodes into a function over Tensors.

    Arguments of type Node must be tensors; others may be numbers. With a `precision`, autocast treats the function as
    one op.
    """

    def lifted(function: F) -> F:
        compute = function if precision is None else as_a_whole(function, precision)
        code = function.__code__
        own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        tensors = [(i, name) for i, name in enumerate(own) if function.__annotations__[name] in ("Node", Node)]

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            if kwargs:
                kwargs = {key if key in own else NUMPY_NAMES.get(key, key): unwrap(kwargs[key]) for key in kwargs}
            for i, name in tensors:
                given = args[i] if i < len(args) else kwargs.get(name)
                if not isinstance(given, (Base, Node)) and (i < len(args) or name in kwargs or not args):
                    raise not_a_tensor(function.__name__, given, name, i)
            return wrap(compute(*[unwrap(arg) for arg in args], **kwargs), Tensor)

        return call  # type: ignore[return-value]

    return lifted


def not_a_tensor(function: str, value: Any, name: str = "input", place: int = 0) -> TypeError:
    """The error that PyTorch raises if an argument is not a tensor."""
    called = f"{function.rstrip('_')}(): argument {name!r} (position {place + 1})"
    return TypeError(f"{called} must be Tensor, not {type(value).__name__}")


def require_one(function: str, input: Any, other: Any) -> None:
    """Raise an error unless one of two operands is a tensor."""
    if not isinstance(input, (Base, Node)) and not isinstance(other, (Base, Node)):
        kinds = f"({type(input).__name__}, {type(other).__name__})"
        raise TypeError(f"{function}() received an invalid combination of arguments - got {kinds}: one is a Tensor")


def in_floats(x: Any) -> Node:
    """Convert integers and booleans to the default dtype; return other values unchanged."""
    node = as_node(x)
    return node if node.dtype in INEXACT else cast(node, dtypes.default())


def as_asked(x: Node, dtype: Any) -> Node:
    """A value converted to the requested dtype, if there is one."""
    return x if dtype is None else dtypes.converted(x, dtype)


def axes_of(dim: Any, x: Node) -> tuple[int, ...]:
    """The axes of `dim`: all if it is None or empty, and none for a 0-d value."""
    rank = len(x.shape)
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(rank))
    found = tuple(axis_of(int_of(d), rank) for d in (dim if isinstance(dim, (tuple, list)) else (dim,)))
    for axis in found:
        if found.count(axis) > 1:
            raise RuntimeError(f"dim {axis} appears multiple times in the list of dims")
    return found if rank else ()


def int_of(value: Any) -> int:
    """Check that an argument is an integer; PyTorch accepts no floating-point number for one."""
    if isinstance(value, Node):
        from wengert.tensor import engine

        value = engine.value(value).item()
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        raise TypeError(f"an integer is expected, not {value!r} of type {type(value).__name__}")
    return int(value.__index__())


def row_of(x: Any, dim: Any) -> tuple[Node, int]:
    """A value with at least one axis, and the axis of `dim`."""
    node = as_node(x)
    axis = axis_of(int_of(dim), len(node.shape))
    return (node if node.shape else reshape(node, (1,))), axis


def any_empty(x: Node, axes: tuple[int, ...]) -> bool:
    """Whether one of these axes has no elements."""
    return 0 in [x.shape[axis] for axis in axes]


def along(places: Callable[[Node, int], Node], x: Node, dim: Any, keepdim: bool, pair: Any) -> Any:
    """The elements that a function finds along an axis, and their indices: its `places` keep the axis."""
    row, axis = row_of(x, dim)
    if not row.shape[axis]:
        raise IndexError(f"{pair.__name__}(): Expected reduction dim {axis} to have non-zero size.")
    where = places(row, axis)
    values = TAKE_ALONG(row, where, axis=axis)
    shape = reduced(x.shape, axes_of(dim, x), bool(keepdim))
    return pair(reshape(values, shape), reshape(where, shape))


def sizes_of(sizes: tuple[Any, ...], name: str = "size") -> Shape:
    """A shape, given as separate numbers or as one sequence of them."""
    if len(sizes) == 1 and not hasattr(sizes[0], "__index__"):
        sizes = tuple(sizes[0])
    elif len(sizes) == 1 and isinstance(sizes[0], Base) and sizes[0].node.shape:
        sizes = tuple(sizes[0].tolist())
    found = tuple(n.__index__() if hasattr(n, "__index__") else _no_size(n, name) for n in sizes)
    for n in found:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(found)}")
    return found


def _no_size(value: Any, name: str) -> int:
    raise TypeError(f"{name} is made of integers, not {value!r} of type {type(value).__name__}")
