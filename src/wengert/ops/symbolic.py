"""Helpers for the symbolic forms of ops: SymPy distinguishes conditions from numbers, which C and NumPy do not.

`s` is the module sympy, which is imported by those who ask for a symbolic form.
"""

from __future__ import annotations

from typing import Any

Expression = Any  # a sympy.Expr or a sympy condition


def is_truth(x: Expression) -> bool:
    """Whether an expression is a condition. (SymPy's symbols are Boolean too, so `Boolean` cannot be the test.)"""
    from sympy.core.relational import Relational
    from sympy.logic.boolalg import BooleanAtom, BooleanFunction

    return isinstance(x, (Relational, BooleanFunction, BooleanAtom))


def truth(s: Any, x: Expression) -> Expression:
    """An expression as a condition."""
    return x if is_truth(x) else s.Ne(x, 0)


def number(s: Any, x: Expression) -> Expression:
    """An expression as a number: a condition is 1 or 0."""
    return choose(s, x, 1, 0) if is_truth(x) else x


def choose(s: Any, condition: Expression, a: Expression, b: Expression) -> Expression:
    """`a` where a condition holds, `b` elsewhere."""
    return s.Piecewise((a, truth(s, condition)), (b, True))
