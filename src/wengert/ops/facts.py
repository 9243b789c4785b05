"""Facts: what the compiler, the tools and the tests need to know about an op besides its rules. Each has a default.

    kind        what its result is made of; see Kind
    cost        what one element costs where it is computed in a loop; an addition is 1. It is read off the op's C
                text: a division is 4, a function 10. A function that compiles to a few instructions says so.
    long        whether a GPU takes tens of instructions for one element, so that a thread should have more of them
    flops       flops(node) -> the floating-point operations of a node, which `explain()` adds up
    can_fail    whether it may raise on some values of its operands (a matrix that has no inverse); unless it says
                otherwise, an opaque op and one that runs functions may
    checks      checks(node) -> pairs of an integer operand and the size of the axis that it names elements of: an
                index out of range raises
    failure     failure(node) -> what to say where its kernel notes a failure; otherwise its name and how it failed
    on_host     whether its reference can compute it, which a kernel of the user's own for a GPU does not have
    overwrites  whether the result is the first operand but for some elements, so that it may take that one's memory;
                its reference does where it is given that as `out`
    aliases     whether the result lies in the memory of its only operand
    free        whether it takes no kernel, even where every op has one of its own
    factors     factors(node) -> the Factors of a node: along which axes it may be cut over ranks; see `factors`. Ops
                element by element, identities and reductions say it by their kind
    collective  whether all ranks of a group carry it out together: it is never repeated, dropped on some, or reordered
    into        whether its reference writes its result, or each of several, to an array that it is given as `out`
    complex     whether its derivative rules hold for complex values: the cotangent rule is the adjoint of the tangent
                rule under the real part of `conj(g) * t`. Ops that only move elements, and those that run functions
                (whose ops are asked), say yes unless told otherwise; through others a derivative raises
    symbolic    symbolic(sympy, *operands, **attrs) -> the SymPy expression of one element, or the name of SymPy's
                function; without it `symbolic.grad` raises
    ulp         how many units in the last place its C may be off; 0 for a result that is rounded once, 4 for a function
    terms       terms(*operands) -> the size of what a result near 0 is the difference of: units are those of that size
    domain      the intervals that the samples of an elementwise op are drawn from
    samples     samples() -> calls for the registry's tests, each a tuple of operands and a dict of attributes

Expensive facts are functions: nothing is built when an op is defined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict

if TYPE_CHECKING:
    from wengert.core.graph import Node
    from wengert.ops.factors import Factors

Kind = Literal["source", "identity", "elementwise", "movement", "reduction", "tuple", "function", "opaque"]
"""source: a value from nowhere. identity: its operand's value. elementwise: an element from one of each operand.
movement: elements of its operand, elsewhere. reduction: many elements become one. tuple: results of a node that has
several. function: it runs functions that it was given. opaque: a kernel of its own, or its reference."""

FREE, SIMPLE, DIVISION, FUNCTION = 0, 1, 4, 10
"""Costs of an element."""

Check = tuple["Node", int]
Sample = tuple[tuple[Any, ...], dict[str, Any]]
Template = str | dict[str, str] | None


class Facts(TypedDict, total=False):
    """The facts that an op may state; see the module docstring."""

    kind: Kind
    cost: int
    long: bool
    flops: Callable[[Node], int]
    can_fail: bool
    checks: Callable[[Node], Sequence[Check]]
    failure: Callable[[Node], str] | None
    on_host: bool
    overwrites: bool
    aliases: bool
    free: bool
    factors: Callable[[Node], Factors]
    collective: bool
    into: bool
    complex: bool
    symbolic: Callable[..., Any] | str
    ulp: int
    terms: Callable[..., Any]
    domain: Sequence[tuple[float, float]]
    samples: Callable[[], Iterable[Sample]]


def cost_of(kind: Kind, c: Template) -> int:
    """The cost of an element, from the op's C text: the most expensive form for real numbers counts.

    >>> cost_of("elementwise", "({0} + {1})"), cost_of("elementwise", "({0} / {1})"), cost_of("elementwise", "exp")
    (1, 4, 10)
    """
    if kind in ("movement", "source"):
        return FREE
    texts = [text for kinds, text in c.items() if kinds != "c"] if isinstance(c, Mapping) else [c or ""]
    return max(map(_cost_of_text, texts))


def _cost_of_text(text: str) -> int:
    if text.isidentifier() or "wg_" in text or "{wg." in text:
        return FUNCTION
    return DIVISION if "/" in text else SIMPLE


def flops_of(kind: Kind, cost: int) -> Callable[[Node], int]:
    """The default count of an op's floating-point operations: one for each element that it reads."""
    if kind == "elementwise" and cost:
        return lambda node: node.size
    return _elements_read if kind == "reduction" else no_flops


def _elements_read(node: Node) -> int:
    return node.sources[0].size


def no_flops(node: Node) -> int:
    """The count for an op that computes no floating-point numbers."""
    return 0


def product_flops(sums: int, terms: Iterable[int]) -> int:
    """The count for sums of products: a multiplication and an addition for each term, by the sizes of the axes.

    >>> product_flops(6, (2, 5))
    120
    """
    return 2 * sums * math.prod(terms)


def no_checks(node: Node) -> Sequence[Check]:
    """The checks of an op that takes no indices."""
    return ()


def itself(sympy: Any, x: Any, **attrs: Any) -> Any:
    """The symbolic form of an op that is the identity on a single number."""
    return x
