"""Taylor mode: all derivatives along a curve up to some order, in one pass.

In: a function, a point and the derivatives of a curve through it. Out: the value and the derivatives of the function
along the curve. Each node carries its Taylor coefficients c[0], c[1], ..., with None for a zero; c[0] is its value. The
rules are the recurrences of Griewank and Walther (Evaluating Derivatives, 2008, chapter 13): order k takes k products,
so all up to k take a number of ops that is quadratic in k. Nested `jvp`s double it with every order.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from wengert.autodiff.forward import forward
from wengert.autodiff.reverse import differentiable_path, or_zero
from wengert.autodiff.transforms import Function, Linearized, matching
from wengert.core import tree
from wengert.core.errors import ArgumentError
from wengert.core.graph import Node, recorded_as, recording
from wengert.ops import registry
from wengert.ops.core import LITERAL, literal, variable
from wengert.ops.elementwise import add, divide, multiply, negative, subtract
from wengert.ops.op import PACK, PICK, Op

Series = list[Any]  # of a node: a Node or None for each order; of a node with several results: such a list for each
Rule = Callable[[Node, Sequence[Series]], Series]


def jet(function: Function, primal: Any, series: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The value of `function` and its derivatives along a curve, one for each entry of `series`.

    The curve goes through `primal` (a value or a container of them) at t = 0, and the entries of `series` are its
    first, second, ... derivatives there, of the same structure; None is zero. A straight line in direction v is [v,
    None, None, ...]. The function's derivatives along the curve are returned in the same form, not divided by
    factorials.

    >>> import wengert as wg
    >>> value, derivatives = wg.jet(lambda x: x**3, 2.0, [1.0, None, None])
    >>> value.item(), [d.item() for d in derivatives]
    (8.0, [12.0, 12.0, 6.0])
    """
    if not isinstance(series, (list, tuple)) or not series:
        raise ArgumentError(
            "jet: series must be a list of the curve's derivatives, such as [v, None] for two orders in direction v"
        )
    at = Linearized("jet", function, (0,), (primal,), {}, False)
    structure = at.structures[0]
    given: dict[Node, Series] = {x: [x] for x in at.variables}
    for k, entry in enumerate(series, 1):
        what = f"jet: entry {k - 1} of series"
        nodes = [None] * len(given) if entry is None else matching(entry, at.variables, structure, what)
        for own, node in zip(given.values(), nodes):
            own.append(node if node is None or k == 1 else _scaled(node, 1 / math.factorial(k)))
    found = _walk(at.outputs, given, len(series))
    outside = at.leave([*at.outputs, *[d for y in at.outputs for d in _derivatives(y, found, len(series))]])
    value, rest = outside[: len(at.outputs)], outside[len(at.outputs) :]
    rows = [rest[k :: len(series)] for k in range(len(series))]
    return tree.unflatten(at.structure, value), [tree.unflatten(at.structure, row) for row in rows]


def _derivatives(y: Node, found: dict[Node, Series], order: int) -> list[Node]:
    coefficients: Series = found.get(y, [y] + [None] * order)
    return [or_zero(_scaled(c, math.factorial(k)), y) for k, c in enumerate(coefficients) if k]


def _walk(outputs: Sequence[Node], given: dict[Node, Series], order: int) -> dict[Node, Series]:
    """The Taylor coefficients of all nodes in between."""
    found = dict(given)
    with recorded_as(recording.location, recording.grad):
        for node in differentiable_path(outputs, list(given)):
            if node in found:
                continue
            recording.location = node.location
            own = [found.get(source) for source in node.sources]
            if any(c is not None and _moves(c) for c in own):
                constant = [_constant(s, order) if c is None else c for s, c in zip(node.sources, own)]
                found[node] = _series(node, constant, order)
    return found


def _moves(series: Series) -> bool:
    return any(
        _moves(c) if isinstance(c, list) else c is not None for c in series[0 if type(series[0]) is list else 1 :]
    )


def _constant(node: Node, order: int) -> Series:
    return [node] + [None] * order


def _series(node: Node, own: Sequence[Series], order: int) -> Series:
    op = node.op
    if op is PICK:
        return own[0][node.attrs["index"]]
    if op is PACK:
        return list(own)
    several = any(isinstance(s.dtype, tuple) for s in (node, *node.sources))
    rule = None if several else _RULES.get(op)
    if rule is not None:
        return rule(node, own)
    if op.linear and not several and not any(_moves(c) for i, c in enumerate(own) if i not in op.linear):
        return _linear(node, own)
    if len(op.multilinear) == 2 and not several:
        return _bilinear(node, own)
    return _nested(node, own, order)


# --- sums of coefficients, with None for zero -----------------------------------------------------------------------


def _scaled(a: Node | None, number: float) -> Node | None:
    return a if a is None or number == 1 else multiply(a, literal(number, a.dtype, a.device))


def _times(a: Node | None, b: Node | None) -> Node | None:
    return None if a is None or b is None else multiply(a, b)


def _sum(terms: Any) -> Node | None:
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else add(total, term)
    return total


def _minus(a: Node | None, b: Node | None) -> Node | None:
    if b is None:
        return a
    return negative(b) if a is None else subtract(a, b)


def _over(a: Node | None, b: Node) -> Node | None:
    return None if a is None else divide(a, b)


def _convolved(a: Series, b: Series, k: int) -> Node | None:
    return _sum(_times(a[i], b[k - i]) for i in range(k + 1))


def _integrated(a: Series, u: Series, k: int) -> Node | None:
    """The order-k coefficient of y, where y' = u a'."""
    return _scaled(_sum(_scaled(_times(a[i], u[k - i]), i) for i in range(1, k + 1)), 1 / k)


# --- rules ----------------------------------------------------------------------------------------------------------


def _linear(node: Node, own: Sequence[Series]) -> Series:
    found: Series = [node]
    for k in range(1, len(own[0])):
        moved = [c[k] if i in node.op.linear else c[0] for i, c in enumerate(own)]
        if all(m is None for i, m in enumerate(moved) if i in node.op.linear):
            found.append(None)
        else:
            found.append(node.op(*[or_zero(m, s) for m, s in zip(moved, node.sources)], **node.attrs))
    return found


def _bilinear(node: Node, own: Sequence[Series]) -> Series:
    first, second = node.op.multilinear

    def term(a: Node | None, b: Node | None) -> Node | None:
        if a is None or b is None:
            return None
        sources = list(node.sources)
        sources[first], sources[second] = a, b
        return node.op(*sources, **node.attrs)

    a, b = own[first], own[second]
    return [node, *[_sum(term(a[i], b[k - i]) for i in range(k + 1)) for k in range(1, len(a))]]


def _each(combine: Callable[..., Node | None]) -> Rule:
    return lambda node, own: [node, *[combine(*orders) for orders in list(zip(*own))[1:]]]


def _product(node: Node, own: Sequence[Series]) -> Series:
    a, b = own if len(own) == 2 else (own[0], own[0])
    return [node, *[_convolved(a, b, k) for k in range(1, len(a))]]


def _quotient(node: Node, own: Sequence[Series]) -> Series:
    a, b = own if len(own) == 2 else ([None] * len(own[0]), own[0])
    y: Series = [node]
    for k in range(1, len(b)):
        y.append(_over(_minus(a[k], _sum(_times(b[i], y[k - i]) for i in range(1, k + 1))), b[0]))
    return y


def _by_slope(slope: Callable[[Series, int], Node | None]) -> Rule:
    """For y' = u a', where the order-k coefficient of u follows from those of y up to k."""

    def rule(node: Node, own: Sequence[Series]) -> Series:
        a = own[0]
        y: Series = [node]
        u: Series = [slope(y, 0)]
        for k in range(1, len(a)):
            y.append(_integrated(a, u, k))
            u.append(slope(y, k))
        return y

    return rule


def _one(y: Node) -> Node:
    return literal(1, y.dtype, y.device)


def _tanh_slope(y: Series, k: int) -> Node | None:
    return _minus(_one(y[0]) if k == 0 else None, _convolved(y, y, k))


def _tan_slope(y: Series, k: int) -> Node | None:
    return _sum([_one(y[0]) if k == 0 else None, _convolved(y, y, k)])


def _sigmoid_slope(y: Series, k: int) -> Node | None:
    return _minus(y[k], _convolved(y, y, k))


def _pair(partner: str, sign: int, of_cosine: bool) -> Rule:
    """For sine and cosine, s' = c a' and c' = -s a', and the hyperbolic functions, where both signs are +."""

    def rule(node: Node, own: Sequence[Series]) -> Series:
        a, other = own[0], registry[partner](own[0][0])
        s: Series = [other if of_cosine else node]
        c: Series = [node if of_cosine else other]
        for k in range(1, len(a)):
            s_k, c_k = _integrated(a, c, k), _scaled(_integrated(a, s, k), sign)
            s.append(s_k)
            c.append(c_k)
        return c if of_cosine else s

    return rule


def _logarithm(shift: int) -> Rule:
    def rule(node: Node, own: Sequence[Series]) -> Series:
        a = own[0]
        y: Series = [node]
        base = add(a[0], _one(a[0])) if shift else a[0]
        for k in range(1, len(a)):
            known = _scaled(_sum(_scaled(_times(y[i], a[k - i]), i) for i in range(1, k)), 1 / k)
            y.append(_over(_minus(a[k], known), base))
        return y

    return rule


def _root(node: Node, own: Sequence[Series]) -> Series:
    a = own[0]
    y: Series = [node]
    for k in range(1, len(a)):
        y.append(
            _over(
                _minus(a[k], _sum(_times(y[i], y[k - i]) for i in range(1, k))),
                multiply(node, literal(2, node.dtype, node.device)),
            )
        )
    return y


def _power(node: Node, own: Sequence[Series]) -> Series:
    a, exponent = own[0], node.sources[1]
    if exponent.op is not LITERAL:
        return _nested(node, own, len(a) - 1)
    r = exponent.attrs["value"]
    if r == int(r) and 1 <= r <= 16:  # products, which hold at zero too
        y = a
        for i in range(2, int(r) + 1):
            y = [node if i == r else multiply(y[0], a[0]), *[_convolved(y, a, k) for k in range(1, len(a))]]
        return y
    y = [node]
    for k in range(1, len(a)):
        terms = [_scaled(_times(a[i], y[k - i]), r * i - (k - i)) for i in range(1, k + 1)]
        y.append(_over(_scaled(_sum(terms), 1 / k), a[0]))
    return y


def _nested(node: Node, own: Sequence[Series], order: int) -> Series:
    """By nested forward mode along the curve, a polynomial in t: for ops without a recurrence."""
    with recorded_as(recording.location, True):
        dtype = next(s.dtype for s, c in zip(node.sources, own) if _moves(c))
        t = variable(literal(0, dtype, node.device))
        y = node.op(*[_polynomial(c, t) if _moves(c) else s for s, c in zip(node.sources, own)], **node.attrs)
        several = isinstance(node.dtype, tuple)
        results = [PICK(y, index=i) for i in range(len(node.shape))] if several else [y]
        found = []
        for result in results:
            derivatives: list[Node | None] = [result]
            for _ in range(order):
                last = derivatives[-1]
                moved = None if last is None else forward([last], [t], [literal(1, dtype, node.device)])[0]
                derivatives.append(moved)
            found.append([d and _scaled(d, 1 / math.factorial(k)) for k, d in enumerate(derivatives)])
    return found if several else [node, *found[0][1:]]


def _polynomial(c: Series, t: Node) -> Node:
    total = None
    for coefficient in reversed(c):
        total = coefficient if total is None else _sum([coefficient, multiply(t, total)])
    return total  # type: ignore[return-value]


_RULES: dict[Op, Rule] = {
    registry["add"]: _each(lambda a, b: _sum([a, b])),
    registry["subtract"]: _each(_minus),
    registry["negative"]: _each(lambda a: None if a is None else negative(a)),
    registry["multiply"]: _product,
    registry["safe_multiply"]: _product,
    registry["square"]: _product,
    registry["divide"]: _quotient,
    registry["reciprocal"]: _quotient,
    registry["exp"]: _by_slope(lambda y, k: y[k]),
    registry["expm1"]: _by_slope(lambda y, k: add(y[0], _one(y[0])) if k == 0 else y[k]),
    registry["log"]: _logarithm(0),
    registry["log1p"]: _logarithm(1),
    registry["sin"]: _pair("cos", -1, False),
    registry["cos"]: _pair("sin", -1, True),
    registry["sinh"]: _pair("cosh", 1, False),
    registry["cosh"]: _pair("sinh", 1, True),
    registry["tan"]: _by_slope(_tan_slope),
    registry["tanh"]: _by_slope(_tanh_slope),
    registry["sigmoid"]: _by_slope(_sigmoid_slope),
    registry["sqrt"]: _root,
    registry["pow"]: _power,
}
