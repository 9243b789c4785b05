"""Lifting: a function over nodes becomes one over Tensors.

`ops` is written over nodes; what users call takes Tensors, arrays and numbers and gives Tensors. `lift` does that for
any function, `lift_unary` and `lift_binary` for the elementwise ones, where every tenth of a microsecond matters.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np

from wengert.core.errors import DTypeError
from wengert.core.graph import Node, recorded_as, recording
from wengert.ops.core import Argument, as_node
from wengert.ops.op import Precision, at_precision
from wengert.ops.recorders import Binary, Unary
from wengert.tensor import Tensor, family_of, other_families, unwrap, wrap

P = ParamSpec("P")
T = TypeVar("T")
WholePrecision = Precision | Literal["same"]
"""Of a function as a whole: "low", "full" as of an op; "same": as without autocast; None: its ops decide."""

# PyTorch's names for arguments that have the Array API's here. They work wherever the function does not have its own.
TORCH_NAMES = {"dim": "axis", "keepdim": "keepdims", "input": "x", "other": "x2"}


def lift(function: Callable[P, Any], precision: WholePrecision = None) -> Callable[P, Any]:
    """Turn a function over nodes into a function over Tensors.

    With a `precision`, autocast treats it as one op; without one, each op that it records has its own precision.
    """
    compute = function if precision is None else as_a_whole(function, precision)

    @functools.wraps(function)
    def lifted(*args: Any, **kwargs: Any) -> Any:
        family = family_of((*args, *kwargs.values())) if other_families else Tensor
        if kwargs:
            kwargs = {key: unwrap(value) for key, value in kwargs.items()}
            if not TORCH_NAMES.keys().isdisjoint(kwargs):
                kwargs = _spelled_here(function, kwargs)
        return wrap(compute(*[unwrap(arg) for arg in args], **kwargs), family)

    return lifted


def _spelled_here(function: Callable[..., Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    code = (function if hasattr(function, "__code__") else type(function).__call__).__code__
    own = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {key if key in own else TORCH_NAMES.get(key, key): value for key, value in kwargs.items()}


def lift_creation(function: Callable[P, Any]) -> Callable[..., Tensor]:
    """Turn a function that makes a node into one that makes a Tensor; with `requires_grad`, a leaf to differentiate
    with respect to."""
    make = lift(function)

    @functools.wraps(function)
    def lifted(*args: Any, requires_grad: bool = False, **kwargs: Any) -> Tensor:
        made = make(*args, **kwargs)
        if requires_grad:
            made.requires_grad = True
        return made

    return lifted


def lift_unary(op: Unary) -> Callable[[Any], Tensor]:
    """The public function of one Tensor for an elementwise op."""

    record = op.record

    def lifted(x: Any, /) -> Tensor:
        if type(x) is Tensor:
            return Tensor(record(x.node))
        return family_of((x,))(record(_operand(x)))

    return _named(lifted, op)


def lift_binary(op: Binary) -> Callable[[Any, Any], Tensor]:
    """The public function of two Tensors (or a Tensor and a number) for an elementwise op."""

    record = op.record

    def lifted(x1: Any, x2: Any, /) -> Tensor:
        a = x1.node if type(x1) is Tensor else Argument(x1) if type(x1) is float else _operand(x1)
        b = x2.node if type(x2) is Tensor else Argument(x2) if type(x2) is float else _operand(x2)
        return (family_of((x1, x2)) if other_families else Tensor)(record(a, b))

    return _named(lifted, op)


def _operand(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        raise DTypeError(
            f"expected a tensor, an array or a number, not a {type(x).__name__}: convert it with wg.tensor"
        )
    if isinstance(x, (int, float, complex, np.generic)):
        return x
    return x.weak if isinstance(x, Tensor) and x.weak is not None else as_node(x)


def _named(lifted: Any, op: Unary | Binary) -> Any:
    lifted.__name__ = lifted.__qualname__ = op.name
    lifted.__doc__ = op.__doc__
    lifted.op = op
    return lifted


# --- precision of a function as a whole -------------------------------------------------------------------------------


def as_a_whole(function: Callable[P, T], precision: WholePrecision) -> Callable[P, T]:
    """Give a function over nodes one precision as a whole; its ops' own precisions are ignored."""

    @functools.wraps(function)
    def whole(*args: Any, **kwargs: Any) -> T:
        if recording.autocast is None:
            return function(*args, **kwargs)
        if precision == "low" or precision == "full":
            nodes = list(_nodes_in([*args, *kwargs.values()]))
            instead = dict(zip(nodes, at_precision(precision, nodes)))
            args, kwargs = _replaced(args, instead), {key: _replaced(kwargs[key], instead) for key in kwargs}
        with recorded_as(recording.location, recording.grad):
            return function(*args, **kwargs)

    return whole


def _nodes_in(values: Any) -> Iterator[Node]:
    for value in values:
        if type(value) is Node:
            yield value
        elif type(value) in (list, tuple):
            yield from _nodes_in(value)


def _replaced(value: Any, instead: dict[Node, Node]) -> Any:
    if type(value) in (list, tuple):
        return type(value)([_replaced(item, instead) for item in value])
    return instead[value] if type(value) is Node else value
