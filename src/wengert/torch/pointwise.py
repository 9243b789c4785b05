"""Functions element by element: arithmetic, comparisons, exponentials, trigonometry, rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wengert.core.dtypes import INEXACT, bool_
from wengert.core.graph import Node
from wengert.ops import comparison as c
from wengert.ops import elementwise as e
from wengert.ops import exponential as x
from wengert.ops import trigonometry as t
from wengert.ops.core import cast, literal, operand
from wengert.ops.recorders import Binary, Unary
from wengert.torch import dtypes
from wengert.torch.arguments import not_a_tensor, require_one
from wengert.torch.registry import methods, torch_function
from wengert.torch.tensor import Base, Tensor, check_subtraction, divide, node_of, power, together

# --- of one tensor --------------------------------------------------------------------------------------------------


def one(value: Any, what: str) -> Node:
    """The node of a tensor argument; PyTorch accepts no number there."""
    if isinstance(value, Base):
        return value.node
    raise not_a_tensor(what, value)


def _unary(name: str, op: Unary, *aliases: str, floats: bool = False) -> None:
    """Enter the function of an op of one operand; with `floats` integers are computed in the default dtype."""

    def function(input: Any) -> Tensor:
        node = input.node if type(input) is Tensor else one(input, name)
        if floats and node.dtype not in INEXACT:
            node = cast(node, dtypes.default())
        return Tensor(op.record(node))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = op.__doc__
    torch_function(*aliases, in_place=True, out=True)(function)


for _name, _op, *_aliases in (
    ("acos", t.acos, "arccos"),
    ("acosh", t.acosh, "arccosh"),
    ("asin", t.asin, "arcsin"),
    ("asinh", t.asinh, "arcsinh"),
    ("atan", t.atan, "arctan"),
    ("atanh", t.atanh, "arctanh"),
    ("cos", t.cos),
    ("cosh", t.cosh),
    ("exp", x.exp),
    ("expm1", x.expm1),
    ("log", x.log),
    ("log10", x.log10),
    ("log1p", x.log1p),
    ("log2", x.log2),
    ("sigmoid", x.sigmoid),
    ("sin", t.sin),
    ("sinh", t.sinh),
    ("sqrt", x.sqrt),
    ("tan", t.tan),
    ("tanh", t.tanh),
    ("reciprocal", e.reciprocal),
):
    _unary(_name, _op, *_aliases, floats=True)

for _name, _op, *_aliases in (
    ("abs", e.absolute, "absolute"),
    ("ceil", e.ceil),
    ("floor", e.floor),
    ("sign", e.sign),
    ("sgn", e.sign),
    ("square", e.square),
    ("trunc", e.trunc, "fix"),
    ("bitwise_not", c.bitwise_invert),
    ("logical_not", c.logical_not),
):
    _unary(_name, _op, *_aliases)


@torch_function("negative", in_place=True, out=True)
def neg(input: Any) -> Tensor:
    """The negative."""
    node = one(input, "neg")
    if node.dtype is bool_:
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a mask, use "
            "the `~` or `logical_not()` operator instead."
        )
    return Tensor(e.negative.record(node))


methods["__neg__"] = neg

# --- of two ---------------------------------------------------------------------------------------------------------


def _binary(
    name: str, op: Binary, *aliases: str, numbers: str = "", floats: bool = False, in_place: bool = True
) -> None:
    """Enter the function of an op of two operands; with `floats` integers are computed in the default dtype.

    `numbers` says where a number may stand: nowhere, "second", at one of both places ("one"), or at "both".
    """

    def function(input: Any, other: Any) -> Tensor:
        if type(input) is not Tensor or type(other) is not Tensor:
            _require_tensors(name, input, other, numbers)
        a, b = together(node_of(input), node_of(other))
        if floats:
            a, b = [cast(n, dtypes.default()) if type(n) is Node and n.dtype not in INEXACT else n for n in (a, b)]
        return Tensor(op.record(a, b))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = op.__doc__
    torch_function(*aliases, in_place=in_place, out=True)(function)


def _require_tensors(name: str, input: Any, other: Any, numbers: str) -> None:
    is_tensor = isinstance(input, Base), isinstance(other, Base)
    if numbers == "both" or (numbers == "one" and any(is_tensor)):
        return
    if not is_tensor[0]:
        raise not_a_tensor(name, input)
    if not is_tensor[1] and numbers != "second":
        raise not_a_tensor(name, other, "other", 1)


for _numbers, _entries in {
    "both": (("mul", e.multiply, "multiply"), ("floor_divide", e.floor_divide)),
    "one": (
        ("remainder", e.remainder),
        ("bitwise_and", c.bitwise_and),
        ("bitwise_or", c.bitwise_or),
        ("bitwise_xor", c.bitwise_xor),
        ("bitwise_left_shift", c.bitwise_left_shift),
        ("bitwise_right_shift", c.bitwise_right_shift),
    ),
    "second": (
        ("eq", c.equal),
        ("ne", c.not_equal, "not_equal"),
        ("lt", c.less, "less"),
        ("le", c.less_equal, "less_equal"),
        ("gt", c.greater, "greater"),
        ("ge", c.greater_equal, "greater_equal"),
    ),
    "": (
        ("logical_and", c.logical_and),
        ("logical_or", c.logical_or),
        ("logical_xor", c.logical_xor),
        ("nextafter", e.nextafter),
    ),
}.items():
    for _name, _two, *_aliases in _entries:
        _binary(_name, _two, *_aliases, numbers=_numbers)

for _name, _two, *_aliases in (("atan2", t.atan2, "arctan2"), ("logaddexp", x.logaddexp), ("hypot", t.hypot)):
    _binary(_name, _two, *_aliases, floats=True)

for _name, _two in (("maximum", c.maximum), ("minimum", c.minimum)):
    _binary(_name, _two, in_place=False)


def _scaled(record: Callable[[Any, Any], Node], input: Any, other: Any, alpha: Any) -> Tensor:
    a, b = together(node_of(input), node_of(other))
    return Tensor(record(a, b if alpha == 1 else e.multiply.record(b, alpha)))


@torch_function(in_place=True, out=True)
def add(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """`input + alpha * other`."""
    return _scaled(e.add.record, input, other, alpha)


@torch_function("subtract", in_place=True, out=True)
def sub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """`input - alpha * other`."""
    check_subtraction(input, other)
    return _scaled(e.subtract.record, input, other, alpha)


@torch_function("divide", "true_divide", in_place=True, out=True)
def div(input: Any, other: Any, *, rounding_mode: str | None = None) -> Tensor:
    """The quotient, or with `rounding_mode` "floor" or "trunc" the rounded one, in the operands' dtype."""
    a, b = node_of(input), node_of(other)
    if rounding_mode is None:
        return Tensor(divide(a, b))
    a, b = together(a, b)
    if rounding_mode == "floor":
        return Tensor(e.floor_divide.record(a, b))
    if rounding_mode != "trunc":
        raise RuntimeError(
            f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found {rounding_mode!r}"
        )
    like = a if type(a) is Node else b
    if like.dtype in INEXACT:
        return Tensor(e.trunc.record(e.divide.record(a, b)))
    quotient = e.floor_divide.record(a, b)
    rest = e.subtract.record(a, e.multiply.record(quotient, b))
    up = c.logical_and.record(c.less.record(quotient, literal(0, quotient.dtype)), c.not_equal.record(rest, 0))
    return Tensor(e.add.record(quotient, cast(up, quotient.dtype)))


@torch_function(in_place=True, out=True)
def pow(input: Any, exponent: Any) -> Tensor:
    """`input` to the power of `exponent`."""
    require_one("pow", input, exponent)
    return Tensor(power(*together(node_of(input), node_of(exponent))))


@torch_function("clip", in_place=True, out=True)
def clamp(input: Any, min: Any = None, max: Any = None) -> Tensor:
    """`input` clipped to between `min` and `max`."""
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    node = one(input, "clamp")
    if min is not None:
        node = held(c.maximum, "min", *together(node, node_of(min)))
    if max is not None:
        node = held(c.minimum, "max", *together(node, node_of(max)))
    return Tensor(node)


def held(op: Binary, side: str, x: Any, bound: Any) -> Node:
    """A value clipped on one side of a bound; at the bound the derivative goes to the value."""
    if x.tracked or getattr(bound, "tracked", False):
        return c.clip(x, **{side: bound})
    return op.record(x, bound)


@torch_function(method=False, out=True)
def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """`input` where the condition holds, otherwise `other`; given only the condition, the indices where it holds."""
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    a, b = together(node_of(input), node_of(other))
    if type(a) is not Node and type(b) is not Node:
        meet = dtypes.meet(a, b)
        a, b = operand(a, meet), operand(b, meet)
    return Tensor(c.where(cast(one(condition, "where"), bool_), a, b))


def _where(self: Any, condition: Any, other: Any) -> Any:
    """This tensor's elements where the condition holds, else those of `other`."""
    return where(condition, self, other)


methods["where"] = _where
methods["__rdiv__"] = Tensor.__rtruediv__  # by this name in Python 2, and still
