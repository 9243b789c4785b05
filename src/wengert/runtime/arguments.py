"""The arguments of a compiled function: their leaves, the key of a recording, and the floats among them.

Tensors, NumPy arrays and Python floats are inputs: only their shape, dtype and whether they are tracked matter. Every
other leaf is static, part of the key by its type and value, or by identity if its type does not define equality.

A Python float is a double that adopts the dtype of the other operand. Its placeholder in a recording does the same:
with a float64 tensor it is a float64 input, with a float32 tensor a float32 input, each rounded once from the double.
Arithmetic among such floats and Python numbers is Python's own: it is recorded, and repeated at every call before the
program runs. So a compiled function has the same bits, and the same errors, as the uncompiled one.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.core import tree
from wengert.core.code import Location, describe, here, is_library, source_line
from wengert.core.dtypes import as_dtype, float64
from wengert.core.errors import AbstractValueError, ArgumentError
from wengert.core.graph import RELEASED, Node, now, recording
from wengert.ops import elementwise as e
from wengert.ops.core import Weak, alias, placeholder
from wengert.runtime.recorded_numbers import Recorded, operators
from wengert.tensor import Tensor, beside

TENSOR, ARRAY, FLOAT, STATIC, OBJECT, SAME = "tensor", "array", "float", "static", "object", "same"
VIEW = "view"  # of another argument, or of a tensor that comes after all of them: which, and which part of it
NUMPY_SCALAR = "NumPy scalar"  # an array without axes that is one of NumPy's numbers, and weak as Python's are
Specification = tuple[Any, ...]  # one of the words above, and what counts of the leaf
_FLOAT = (FLOAT,)
_structures: dict[int, tree.Structure] = {}  # of this many positional arguments, all of them leaves


class CallArguments(NamedTuple):
    """The arguments of one call, flattened. After the leaves come the tensors that some of them are views of."""

    args: tuple[Any, ...]
    leaves: list[Any]
    key: tuple[Any, ...]  # the structure, the leaves' specifications, whether gradients are recorded, object, autocast

    @property
    def specifications(self) -> tuple[Specification, ...]:
        """The specification of each leaf."""
        found: tuple[Specification, ...] = self.key[1]
        return found


def take_apart(instance: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CallArguments | None:
    """Flatten the arguments of a call; None if one of them is tracked and computed, so the call is part of a graph."""
    is_flat = not kwargs and tree.are_leaves(args)
    leaves, structure = _flat(args) if is_flat else tree.flatten((args, kwargs), attributes=True)
    specifications: list[Specification] = []
    first: dict[int, int] = {}
    views = False
    for i, leaf in enumerate(leaves):
        kind = type(leaf)
        if kind is Tensor or isinstance(leaf, Tensor):
            if first.setdefault(id(leaf), i) != i:
                specifications.append((SAME, first[id(leaf)]))
                continue
            if kind is not Tensor and leaf.born is not None:
                views = True
                specifications.append((VIEW,))
                continue
            specification = _of_tensor(leaf)
            if specification is None:
                return None
            specifications.append(specification)
        elif kind is float:
            specifications.append(_FLOAT)
        elif kind is np.ndarray or isinstance(leaf, np.ndarray):
            specifications.append((ARRAY, leaf.shape, as_dtype(leaf.dtype)))
        elif isinstance(leaf, np.generic):
            specifications.append((ARRAY, (), as_dtype(leaf.dtype), NUMPY_SCALAR))
        else:
            specifications.append(_static(leaf))
    if views and not _take_views(leaves, specifications, first):
        return None
    owner = None if instance is None else id(instance)
    return CallArguments(args, leaves, (structure, tuple(specifications), recording.grad, owner, recording.autocast))


def _of_tensor(leaf: Tensor) -> Specification | None:
    """What counts of a tensor; None if it is tracked and computed."""
    node = leaf.node
    if not node.tracked:
        return TENSOR, node.shape, node.dtype, False, None, node.device, leaf.family
    if leaf._is_variable():
        grad = None if leaf._grad is None else (leaf._grad.shape, leaf._grad.dtype)
        return TENSOR, node.shape, node.dtype, True, grad, node.device, leaf.family
    if recording.grad and node.sources is not RELEASED:
        return None
    return TENSOR, node.shape, node.dtype, False, None, node.device, leaf.family


def _take_views(leaves: list[Any], specifications: list[Specification], first: dict[int, int]) -> bool:
    """Say of each view which tensor it is a part of, and which part; such a tensor comes behind the arguments unless it
    is one. Whether that could be said: not of a computed one, nor of a leaf beside what it shares memory with.
    """
    alone: list[Tensor] = []  # what leaves of their own, and so inputs, share memory with
    i = 0
    while i < len(leaves):
        if i < len(specifications) and specifications[i] != (VIEW,):
            i += 1
            continue
        root, which = leaves[i].view_of or (None, None)
        specification: Specification | None
        if which is None:
            specification = _of_tensor(leaves[i])
            alone += [] if root is None else [root]
        else:
            if first.setdefault(id(root), len(leaves)) == len(leaves):
                leaves.append(root)
            specification = (VIEW, first[id(root)], which)
        if specification is None:
            return False
        specifications[i : i + 1] = [specification]
        i += 1
    return all(id(root) not in first for root in alone)


def _flat(args: tuple[Any, ...]) -> tuple[list[Any], tree.Structure]:
    """Positional arguments that are all leaves: faster than flattening containers."""
    count = len(args)
    structure = _structures.get(count)
    if structure is None:
        structure = _structures[count] = tree.flatten((args, {}))[1]
    return list(args), structure


def is_compared_by_identity(kind: type) -> bool:
    """Whether objects of a class are compared by identity."""
    own: Any = kind.__eq__
    if own is object.__eq__:
        return True
    code = getattr(own, "__code__", None)
    return code is not None and code.co_filename != "<string>" and not is_library(code)  # a user's word for equal


def _static(leaf: Any) -> Specification:
    kind = type(leaf)
    if is_compared_by_identity(kind):
        return OBJECT, kind, id(leaf)
    try:
        hash(leaf)
    except TypeError:
        raise ArgumentError(
            f"compile: an argument of type {kind.__name__} is neither a tensor nor hashable, so it cannot be part of "
            "the cache key; pass its parts, or make it hashable"
        ) from None
    return STATIC, kind, leaf


# --- floats ---------------------------------------------------------------------------------------------------------

_NUMBERS = (float, int, bool)
_RESERVED = 1024  # serial numbers for the inputs of a call that has floats: 40 microseconds
Step = tuple[Callable[..., Any], tuple[Any, ...], Location]  # of floats, by number, and constants; the user's line


class _FloatNumber(int):
    """The number of a float among a call's."""


class Floats:
    """The floats of a call by number: those among its leaves, then those computed from them in Python."""

    def __init__(self) -> None:
        self.leaves: list[int] = []  # which leaves they are
        self.steps: list[Step] = []
        self.inputs: dict[tuple[int, np.dtype[Any]], Node] = {}  # as what each is an input of the graph
        self.used: list[tuple[int, np.dtype[Any]]] = []  # of these, those that the graph reads
        self._serials: Iterator[int] = iter(())  # older than what is recorded; see `input`

    def add(self, leaf: int) -> Float:
        """The placeholder for a leaf that is a float."""
        if not self.leaves:
            self._serials = iter([now() for _ in range(_RESERVED)])
        self.leaves.append(leaf)
        return Float(Unknown(self, _FloatNumber(len(self.leaves) - 1)))

    def input(self, number: int, dtype: np.dtype[Any]) -> Node:
        """A float as an input of this dtype. It is as old as the recording, even if it is first used inside a scan."""
        node = self.inputs.get((number, dtype))
        if node is None:
            node = self.inputs[number, dtype] = placeholder((), dtype, tracked=False)
            node.serial = next(self._serials, node.serial)
        return node

    def compute(self, function: Callable[..., Any], *operands: Any) -> Unknown:
        """A Python function of floats and numbers."""
        self.steps.append((function, operands, here()))
        return Unknown(self, _FloatNumber(len(self.leaves) + len(self.steps) - 1))

    def close(self, read: Sequence[Node]) -> list[Node]:
        """Keep the floats that are read as inputs; returns their nodes."""
        found = {node: key for key, node in self.inputs.items()}
        self.used = [found[node] for node in dict.fromkeys(read) if node in found]
        return [self.inputs[key] for key in self.used]

    def values(self, leaves: Sequence[Any]) -> list[Any]:
        """The value of every float in a call with these leaves."""
        found = [leaves[i] for i in self.leaves]
        for function, operands, location in self.steps:
            try:
                found.append(function(*[found[x] if type(x) is _FloatNumber else x for x in operands]))
            except ArithmeticError as error:
                raise type(error)(f"{error}\n  at {describe(location)}:  {source_line(location)}") from None
        return found

    def arrays(self, leaves: Sequence[Any]) -> list[Any]:
        """The inputs that are read."""
        if not self.used:
            return []
        values = self.values(leaves)
        return [np.array(values[number], dtype) for number, dtype in self.used]

    def texts(self, leaves: Sequence[str]) -> list[str]:
        """The inputs as Python source over the names of leaves; in one expression if some are computed. See
        `named_in_texts`."""
        if self.steps:
            return [f"*computed(({''.join(name + ', ' for name in leaves)}))"]
        places = [(k, leaves[self.leaves[number]]) for k, (number, _) in enumerate(self.used)]
        return [f"array({name}, t{k}) if type({name}) is float else None" for k, name in places]

    def named_in_texts(self) -> dict[str, Any]:
        """The values of the names in the texts."""
        dtypes = {f"t{k}": dtype for k, (_, dtype) in enumerate(self.used)}
        return {"array": np.array, "computed": self.arrays, **dtypes}

    def names(self, leaves: Sequence[str]) -> list[str]:
        """The names of the inputs, given the names of the leaves."""
        count = len(self.leaves)
        return [leaves[self.leaves[n]] if n < count else f"float{n - count + 1}" for n, _ in self.used]

    def identity(self) -> tuple[Any, ...]:
        """A key that is equal for recordings with the same floats."""
        steps = [(function.__name__, repr(operands)) for function, operands, _ in self.steps]
        return (*self.leaves, *self.used, *steps)


class Unknown(Weak):
    """A float of a call, by its number, as passed to ops. Arithmetic with numbers makes another one."""

    __slots__ = ("floats", "number")

    def __init__(self, floats: Floats, number: _FloatNumber) -> None:
        self.floats, self.number = floats, number

    def __eq__(self, other: object) -> bool:
        return type(other) is Unknown and self.number == other.number  # also of another recording

    def __hash__(self) -> int:
        return hash(self.number)

    def at(self, dtype: np.dtype[Any]) -> Node:
        """The float as an input of this dtype."""
        return self.floats.input(self.number, dtype)

    def value(self, leaves: Sequence[Any]) -> Any:
        """Its value in a call with these leaves."""
        return self.floats.values(leaves)[self.number]

    def __neg__(self) -> Unknown:
        return self.floats.compute(operator.neg, self.number)

    def __abs__(self) -> Unknown:
        return self.floats.compute(abs, self.number)

    def _unknown(self, *others: Any) -> Any:
        raise AbstractValueError(
            "compile: a function needs the value of the number here, but a float argument is known only when the "
            "program runs. Let the compiled function refer to an outer variable instead: a new value causes a new "
            "recording"
        )

    __bool__ = __float__ = __int__ = __index__ = _unknown
    __lt__ = __le__ = __gt__ = __ge__ = _unknown

    def __repr__(self) -> str:
        return f"<a float argument, number {self.number}>"


class Float(Tensor):
    """A number that is known only when the program runs. Where a tensor is needed, it is one of the default dtype for
    Python floats.
    """

    __slots__ = ("weak",)
    __hash__ = object.__hash__

    weak: Any  # an Unknown or a Recorded

    def __init__(self, weak: Unknown | Recorded) -> None:
        super().__init__(alias(weak.at(weak.alone)))  # an alias: beside values on a GPU an input has no owner
        self.weak = weak

    def detach(self) -> Tensor:
        """Return itself: no derivative passes through a Python float."""
        return self

    def __neg__(self) -> Tensor:
        return Float(-self.weak)

    def __pos__(self) -> Tensor:
        return self

    def __abs__(self) -> Tensor:
        return Float(abs(self.weak))

    def __divmod__(self, other: Any) -> tuple[Any, Any]:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> tuple[Any, Any]:
        return other // self, other % self


def _python(function: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The methods of `Unknown` for an operator with a number, or another one, on its right or on its left."""

    def left(self: Unknown, other: Any) -> Any:
        if type(other) is Unknown:
            return self.floats.compute(function, self.number, other.number)
        return self.floats.compute(function, self.number, other) if type(other) in _NUMBERS else NotImplemented

    def right(self: Unknown, other: Any) -> Any:
        return self.floats.compute(function, other, self.number) if type(other) in _NUMBERS else NotImplemented

    return left, right


def _lifted(function: Callable[..., Any], record: Callable[..., Node]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The methods of `Float` for an operator: Python's with numbers, recorded with tensors and arrays."""

    def left(self: Float, other: Any) -> Any:
        if type(other) in _NUMBERS or type(other) is Float:
            return Float(function(self.weak, other.weak if type(other) is Float else other))
        b = beside(other)
        return b if b is NotImplemented else Tensor(record(self.weak, b))

    def right(self: Float, other: Any) -> Any:
        if type(other) in _NUMBERS:
            return Float(function(other, self.weak))
        a = beside(other)
        return a if a is NotImplemented else Tensor(record(a, self.weak))

    return left, right


def _comparing(record: Callable[..., Node]) -> Callable[..., Any]:
    """The method of `Float` for a comparison; with numbers as doubles, as Python's is."""

    def compared(self: Float, other: Any) -> Any:
        if type(other) in _NUMBERS or type(other) is Float:
            wide = other.weak.at(float64) if type(other) is Float else float(other)
            return Tensor(record(self.weak.at(float64), wide))
        b = beside(other)
        return b if b is NotImplemented else Tensor(record(self.weak, b))

    return compared


def _connect() -> None:
    arithmetic = {
        "add": (operator.add, e.add.record),
        "sub": (operator.sub, e.subtract.record),
        "mul": (operator.mul, e.multiply.record),
        "truediv": (operator.truediv, e.divide.record),
        "floordiv": (operator.floordiv, e.floor_divide.record),
        "mod": (operator.mod, e.remainder.record),
        "pow": (operator.pow, e.pow),
    }
    for name, (function, record) in arithmetic.items():
        left, right = _python(function)
        setattr(Unknown, f"__{name}__", left)
        setattr(Unknown, f"__r{name}__", right)
        left, right = operators(name, record)
        setattr(Recorded, f"__{name}__", left)
        setattr(Recorded, f"__r{name}__", right)
        left, right = _lifted(function, record)
        setattr(Float, f"__{name}__", left)
        setattr(Float, f"__r{name}__", right)
        setattr(Float, f"__i{name}__", left)  # `k += 1` gives the name another float, as of a Python float
    comparisons = {
        "lt": e.less,
        "le": e.less_equal,
        "gt": e.greater,
        "ge": e.greater_equal,
        "eq": e.equal,
        "ne": e.not_equal,
    }
    for name, op in comparisons.items():
        setattr(Float, f"__{name}__", _comparing(op.record))


_connect()
