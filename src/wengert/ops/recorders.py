"""How elementwise ops are recorded and differentiated: one derivative an operand gives both modes.

An elementwise op states `derivative(y, *operands)` for each operand. `1` and `-1` pass the cotangent on; `None` says
that the derivative is zero. Multiplying a cotangent with a derivative is `safe_multiply`, where 0 times all is 0.
It, `add`, `negative`, `conj` and `real` are what every rule is made of, and stand here; the others are the table in
`elementwise`.

Of complex values the derivative is that of a holomorphic function: a tangent is multiplied with it, a cotangent with
its conjugate. A function that is not holomorphic gives its two rules for complex values as `parts`.

`example` is a line of code and what it gives; it ends the docstring of the public function, and doctest runs it there.
`table` maps the dtype in which the operands meet to the dtype they are computed in and that of the result. `c` is the
op in C: a template over the operands `{0}`, `{1}`, ..., or one a kind of dtype; see kernels/writer.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from inspect import cleandoc
from typing import Any, NamedTuple, Unpack

import numpy as np

from wengert.core.code import here
from wengert.core.context import mode
from wengert.core.dtypes import COMPLEX, NUMERIC, bool_, complex128, promote
from wengert.core.errors import DTypeError, ShapeError
from wengert.core.graph import NO_ATTRS, Node, Shape, recording
from wengert.ops.core import cast, operand, operands
from wengert.ops.facts import SIMPLE, Facts, Sample, Template, itself
from wengert.ops.movement import reshape
from wengert.ops.op import Op, Precision, at_precision, check_size, common_device
from wengert.ops.tables import ARITHMETIC, TO_PART, Table, same


class Parts(NamedTuple):
    """The rules of a function of complex values that is not holomorphic: each is linear in real and imaginary part.

    `pull(g, y, x)` gives the cotangent of `x`, `push(t, y, x)` the tangent of `y`.
    """

    pull: Callable[[Node, Node, Node], Node]
    push: Callable[[Node, Node, Node], Node]


class Elementwise(Op):
    """An op that works element by element; see the module's head."""

    operands: int  # how many it takes

    def __init__(
        self,
        name: str,
        numpy: Callable[..., Any],
        derivative: Sequence[Any] | None,
        table: Table,
        doc: str,
        *,
        example: tuple[str, str] | None = None,
        c: Template = None,
        precision: Precision = None,
        parts: Parts | None = None,
        **facts: Unpack[Facts],
    ) -> None:
        facts.setdefault("kind", "elementwise")
        facts.setdefault("complex", parts is not None or _stays_complex(table))
        facts.setdefault("domain", ((-2.0, 2.0),) if derivative is not None else ((-3.0, 3.0),))
        facts.setdefault("samples", self._samples)
        self.parts = parts
        self.differentiable_in = frozenset(table if derivative is not None else COMPLEX if parts is not None else ())
        derivatives = (None,) if derivative is None and parts is not None else derivative
        self.push = () if derivatives is None else tuple(_linear_rule(d, parts and parts.push) for d in derivatives)
        rules = None if derivatives is None else tuple(_linear_rule(d, parts and parts.pull, True) for d in derivatives)
        super().__init__(
            name,
            infer=self._infer,
            numpy=numpy,
            vjp=rules,
            jvp=self._tangent if rules is not None else None,
            batch=self._batch,
            differentiable=derivative is not None,
            c=c,
            precision=precision,
            **facts,
        )
        self.derivative = derivative
        self.table = table
        self.__name__ = name
        self.__doc__ = doc if example is None else _with_example(doc, *example)

    def dtypes(self, dtype: np.dtype[Any]) -> tuple[np.dtype[Any], np.dtype[Any]]:
        """The dtype computed in and that of the result, for operands that meet in `dtype`."""
        found = self.table.get(dtype)
        if found is None:
            takes = ", ".join(known.name for known in self.table)
            raise DTypeError(f"{self.name} does not take {dtype}; it takes {takes}")
        return found

    def _infer(self, *sources: Node) -> tuple[Any, Any]:
        shape = broadcast_shapes(self.name, *[source.shape for source in sources])
        return shape, self.dtypes(sources[-1].dtype)[1]

    def _samples(self) -> Iterable[Sample]:
        from wengert.ops.samples import samples_of

        return samples_of(self, self.operands)

    def _tangent(self, tangents: Sequence[Node | None], y: Node, *sources: Node) -> Node | None:
        total: Node | None = None
        for i, tangent in enumerate(tangents):
            term = None if tangent is None else self.push[i](tangent, y, *sources)
            if term is not None:
                total = term if total is None else add(total, term)
        return total

    def _batch(self, y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
        rank = len(y.shape)
        return self(*[with_rank(s, rank) if b else s for s, b in zip(sources, batched)])


def _stays_complex(table: Table) -> bool:
    """Whether complex operands, if any are taken, give complex results: only then can a function be holomorphic."""
    return all(table[dtype][1] in COMPLEX for dtype in COMPLEX if dtype in table)


def _linear_rule(derivative: Any, part: Any, adjoint: bool = False) -> Callable[..., Node | None]:
    """From tangent to tangent; if `adjoint`, from cotangent to cotangent. `part` is the rule for complex values."""
    rule = _scaling_rule(derivative, adjoint)
    if part is None:
        return rule
    return lambda v, y, x: part(v, y, x) if x.dtype in COMPLEX else rule(v, y, x)


def _scaling_rule(derivative: Any, adjoint: bool) -> Callable[..., Node | None]:
    if derivative is None:
        return lambda v, y, *sources: None
    if callable(derivative):
        factor = _conjugate_factor if adjoint else _factor
        return lambda v, y, *sources: safe_multiply(v, factor(derivative(y, *sources), v))
    return (lambda v, y, *sources: v) if derivative == 1 else (lambda v, y, *sources: negative(v))


def _factor(derivative: Node, v: Node) -> Node:
    return derivative if derivative.dtype is v.dtype else cast(derivative, v.dtype)


def _conjugate_factor(derivative: Node, v: Node) -> Node:
    factor = derivative if derivative.dtype is v.dtype else cast(derivative, v.dtype)
    return conj.record(factor) if factor.dtype.kind == "c" else factor


def _with_example(doc: str, code: str, result: str) -> str:
    """The docstring of an op with an example: what is written, and what it gives."""
    return f"{cleandoc(doc)}\n\n>>> import wengert as wg\n>>> {code}\n{result}"


class Unary(Elementwise):
    """An elementwise op of one operand."""

    operands = 1

    def __call__(self, x: Any) -> Node:  # type: ignore[override]
        return self.record(x)

    def record(self, x: Any) -> Node:
        """What a call does; calling the method by name spares the hot paths a tenth of a microsecond."""
        if type(x) is not Node:
            x = operand(x, None)
        if self.precision is not None and mode().autocast is not None:
            (x,) = at_precision(self.precision, (x,))
        compute, result = self.table.get(x.dtype) or self.dtypes(x.dtype)
        if x.dtype is not compute:
            x = cast(x, compute)
        tracked = x.tracked and mode().grad and (self.differentiable or compute in self.differentiable_in)
        return Node(self, (x,), NO_ATTRS, x.shape, result, x.device, tracked, recording.location or here())


class Binary(Elementwise):
    """An elementwise op of two operands."""

    operands = 2

    def __call__(self, a: Any, b: Any) -> Node:  # type: ignore[override]
        return self.record(a, b)

    def record(self, a: Any, b: Any) -> Node:
        """What a call does; see Unary.record."""
        if self.precision is not None and mode().autocast is not None:
            a, b = at_precision(self.precision, (a, b))
        if type(a) is not Node:
            a, b = operands(a, b) if type(b) is not Node else (operand(a, b.dtype, b.device), b)
        elif type(b) is not Node:
            b = operand(b, a.dtype, a.device)
        meet = a.dtype if a.dtype is b.dtype else promote(a.dtype, b.dtype)
        compute, result = self.table.get(meet) or self.dtypes(meet)
        if a.dtype is not compute:
            a = cast(a, compute)
        if b.dtype is not compute:
            b = cast(b, compute)
        shape = a.shape if a.shape == b.shape else broadcast(a.shape, b.shape, self.name)
        device = a.device if a.device == b.device else common_device(self.name, (a, b))
        tracked = (a.tracked or b.tracked) and self.differentiable and mode().grad
        return Node(self, (a, b), NO_ATTRS, shape, result, device, tracked, recording.location or here())


def wrapping(operator: str) -> dict[str, str]:
    """An operator in C. Integers wrap around, which C promises of the unsigned ones only."""
    return {"fc": f"({{0}} {operator} {{1}})", "iu": f"(({{T}})(({{U}}){{0}} {operator} ({{U}}){{1}}))"}


def safe_multiply_arrays(g: Any, d: Any) -> Any:
    """`g * d`, and 0 where `g` is 0 whatever `d` is. The slow way is taken only where a NaN shows it is needed."""
    product = np.multiply(g, d)
    if not np.isfinite(product.sum()):
        product = np.where(np.equal(g, 0), np.zeros((), product.dtype), product)
    return product


safe_multiply = Binary(
    "safe_multiply",
    safe_multiply_arrays,
    (lambda y, g, d: d, lambda y, g, d: g),
    ARITHMETIC,
    "A cotangent times a derivative: `g * d`, and 0 where `g` is 0, even if `d` is infinite or NaN.",
    c="safe_multiply",
    cost=SIMPLE,
    symbolic=lambda s, a, b: a * b,
)
# also where the derivative moves: its change, which may be infinite too, counts for nothing where `g` is 0
safe_multiply.vjp = (safe_multiply.vjp[0], lambda change, y, g, d: safe_multiply(conjugate(g), change))
safe_multiply.push = (safe_multiply.push[0], lambda change, y, g, d: safe_multiply(g, change))
add = Binary(
    "add",
    np.add,
    (1, 1),
    ARITHMETIC | {bool_: (bool_, bool_)},
    "The sum `a + b`.",
    example=("wg.add(wg.tensor([1.0, 2.0]), 3.0).tolist()", "[4.0, 5.0]"),
    c=wrapping("+") | {"b": "({0} | {1})"},
    symbolic=lambda s, a, b: a + b,
)
negative: Unary = Unary(
    "negative",
    np.negative,
    (-1,),
    ARITHMETIC,
    "The negative `-x`.",
    example=("wg.negative(wg.tensor([1.0, -2.0])).tolist()", "[-1.0, 2.0]"),
    c={"fc": "(-{0})", "iu": "(({T})(0 - ({U}){0}))"},
    symbolic=lambda s, x: -x,
)
conj: Unary = Unary(
    "conj",
    np.conj,
    (1,),
    same(NUMERIC),
    "The complex conjugate.",
    example=("wg.conj(wg.tensor([1 + 2j])).tolist()", "[(1-2j)]"),
    c={"fiu": "({0})", "c": "conj"},
    symbolic=itself,
    parts=Parts(pull=lambda g, y, x: conj(g), push=lambda t, y, x: conj(t)),
)
real: Unary = Unary(
    "real",
    np.real,
    (1,),
    TO_PART,
    "The real part.",
    example=("wg.real(wg.tensor([1 + 2j])).tolist()", "[1.0]"),
    c={"f": "({0})", "c": "real"},
    symbolic=itself,
    parts=Parts(pull=lambda g, y, x: cast(g, x.dtype), push=lambda t, y, x: real(t)),
)


def conjugate(x: Node) -> Node:
    """The complex conjugate; real values are their own, and no node is recorded for them."""
    return conj.record(x) if x.dtype.kind == "c" else x


def as_operator(op: Callable[..., Node]) -> Callable[..., Node]:
    """An op as a method of nodes: a function, as an object with `__call__` would not be given the node."""
    return lambda *operands: op(*operands)


def as_reflected_operator(op: Callable[[Any, Any], Node]) -> Callable[[Node, Any], Node]:
    """The same where the node is the second operand."""
    return lambda node, other: op(other, node)


# --- broadcasting: the shape that shapes meet in ---------------------------------------------------------------------

_broadcasts: dict[tuple[Shape, Shape], Shape] = {}


def broadcast(a: Shape, b: Shape, name: str) -> Shape:
    """The shape two shapes broadcast to. Remembered: the same few pairs come again and again."""
    found = _broadcasts.get((a, b))
    if found is None:
        found = _broadcast(a, b, name)
        if len(_broadcasts) >= 1024:
            _broadcasts.clear()
        _broadcasts[a, b] = found
    return found


def _broadcast(a: Shape, b: Shape, name: str) -> Shape:
    rank = max(len(a), len(b))
    left, right = (1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b
    for axis, (m, n) in enumerate(zip(left, right)):
        if m != n and 1 not in (m, n):
            raise ShapeError(
                f"{name}: shapes {a} and {b} do not broadcast: axis {axis - rank} has {m} and {n} elements. "
                "From the right, sizes must be equal or one of them 1; add an axis with x[:, None] or expand_dims"
            )
    shape = tuple(n if m == 1 else m for m, n in zip(left, right))
    if shape not in (a, b):
        check_size(name, shape, complex128)  # whatever the dtype is: this is remembered for all of them
    return shape


def broadcast_shapes(name: str, *shapes: Shape) -> Shape:
    """The shape several shapes broadcast to."""
    result: Shape = ()
    for shape in shapes:
        result = broadcast(result, shape, name)
    return result


def with_rank(x: Node, rank: int) -> Node:
    """A batched operand of an op of this rank: axes of size 1 go in behind the lanes, so that the rest lines up."""
    missing = rank - (len(x.shape) - 1)
    return reshape(x, (x.shape[0], *(1,) * missing, *x.shape[1:])) if missing else x
