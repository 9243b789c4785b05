"""Symbolic differentiation of the same Python function, through SymPy (`pip install "wengert[symbolic]"`).

The function is recorded once on abstract numbers; each op of its graph is written as a SymPy expression by its own
symbolic form, and SymPy differentiates. For functions of single numbers: formulas to read, and to check other methods
with.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from wengert.core.dtypes import float64
from wengert.core.errors import ArgumentError, GradientError
from wengert.core.graph import Node, dependents, tracing
from wengert.ops.core import placeholder
from wengert.tensor import Tensor

Expression = Any  # a sympy.Expr; SymPy is imported on first use


def _sympy() -> ModuleType:
    try:
        import sympy
    except ImportError:
        raise ImportError('symbolic differentiation needs SymPy: pip install "wengert[symbolic]"') from None
    return sympy


def grad(function: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Derivative:
    """The derivative of a scalar function with respect to some of its arguments, as a formula that can be called.

    >>> import wengert as wg
    >>> slope = wg.autodiff.symbolic.grad(lambda x, y: wg.log(x) + x * y - wg.sin(y), argnums=(0, 1))
    >>> slope.derivative
    (y + 1/x, x - cos(y))
    >>> [round(float(d), 6) for d in slope(2.0, 5.0)]
    [5.5, 1.716338]
    """
    sympy = _sympy()
    names = _parameters(function)
    positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for position in positions:
        if not -len(names) <= position < len(names):
            raise ArgumentError(f"symbolic.grad: argnums {position}, but the function takes {len(names)} arguments")
    symbols = [symbol(name) for name in names]
    expression = _expression(function, symbols)
    slopes = tuple(settled(sympy.diff(expression, symbols[position])) for position in positions)
    return Derivative(settled(expression), slopes[0] if isinstance(argnums, int) else slopes, symbols)


def symbol(name: str) -> Expression:
    """A real symbol of this name.

    >>> import wengert as wg
    >>> wg.autodiff.symbolic.symbol("x")
    x
    """
    return _sympy().Symbol(name, real=True)


class Derivative:
    """A function's formula (`expression`) and its derivative (`derivative`, a tuple for several arguments).

    Calling it evaluates the derivative with NumPy, elementwise for arrays.

    >>> import wengert as wg
    >>> slope = wg.autodiff.symbolic.grad(lambda x: x * wg.sin(x))
    >>> isinstance(slope, wg.autodiff.symbolic.Derivative), slope.derivative
    (True, x*cos(x) + sin(x))
    """

    def __init__(self, expression: Expression, derivative: Any, symbols: Sequence[Any]) -> None:
        self.expression = expression
        self.derivative = derivative
        self.symbols = tuple(symbols)
        self._evaluate = _sympy().lambdify(self.symbols, derivative, modules=[_special_functions(), "numpy"])

    def __call__(self, *values: Any) -> Any:
        if len(values) != len(self.symbols):
            raise ArgumentError(
                f"symbolic.grad: {len(self.symbols)} arguments are needed, but {len(values)} were given"
            )
        points = [np.asarray(v.detach().numpy() if isinstance(v, Tensor) else v, float64) for v in values]
        with np.errstate(all="ignore"):
            result = self._evaluate(*points)
        shape = np.broadcast_shapes(*[p.shape for p in points])
        if isinstance(result, tuple):
            return tuple(np.broadcast_to(np.asarray(part, float64), shape) for part in result)
        return np.broadcast_to(np.asarray(result, float64), shape)

    def __repr__(self) -> str:
        return f"<derivative {self.derivative} of {self.expression}>"


def _parameters(function: Callable[..., Any]) -> list[str]:
    """The names of the positional arguments without a default value."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:
        raise ArgumentError(
            f"symbolic.grad: the arguments of {function!r} cannot be read; wrap it in a lambda"
        ) from None
    names = [
        p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    if not names:
        raise ArgumentError("symbolic.grad: the function has no positional argument to differentiate by")
    return names


def _expression(function: Callable[..., Any], symbols: Sequence[Any]) -> Expression:
    """The function's result as an expression in the symbols."""
    inputs = [placeholder((), float64) for _ in symbols]
    with tracing("symbolic.grad"):
        result = function(*map(Tensor, inputs))
    if not isinstance(result, Tensor) or result.size != 1:
        raise GradientError(f"symbolic.grad: the function must return one number, as a tensor; it returned {result!r}")
    written: dict[Node, Expression] = dict(zip(inputs, symbols))
    for node in dependents([result.node], inputs):
        written[node] = as_expression(node, [written[s] if s in written else constant(s) for s in node.sources])
    return written[result.node] if result.node in written else constant(result.node)


def as_expression(node: Node, sources: Sequence[Expression]) -> Expression:
    """A node as an expression, given the expressions of its sources.

    >>> import wengert as wg
    >>> x = wg.tensor(2.0)
    >>> y = wg.sin(x)
    >>> wg.autodiff.symbolic.as_expression(y.node, [wg.autodiff.symbolic.symbol("x")])
    sin(x)
    """
    form = node.op.symbolic
    if form is None:
        raise GradientError(f"symbolic.grad: {node.op.name} has no symbolic form", node.location)
    if node.size != 1:
        shape = f"returns shape {node.shape}; only scalars have a symbolic form"
        raise GradientError(f"symbolic.grad: {node.op.name} {shape}", node.location)
    if isinstance(form, str):
        return getattr(_sympy(), form)(*sources)
    return form(_sympy(), *sources, **node.attrs)


def constant(node: Node) -> Expression:
    """A value from outside the function, as an exact number where it is an integer or a simple fraction.

    >>> import wengert as wg
    >>> wg.autodiff.symbolic.constant(wg.tensor(0.5).node)
    1/2
    """
    sympy = _sympy()
    if node.size != 1:
        raise GradientError(f"symbolic.grad: a value of shape {node.shape} is used; only scalars have a symbolic form")
    value = Tensor(node).detach().item()
    if isinstance(value, bool):
        return sympy.true if value else sympy.false
    fraction = sympy.Rational(value).limit_denominator(1000) if math.isfinite(value) else None
    return fraction if fraction is not None and float(fraction) == value else sympy.Float(value)


# SymPy differentiates these into unevaluated Derivatives, Subs of those or DiracDeltas; here their derivative is zero.
_STEPS = ("floor", "ceiling", "stop_gradient", "DiracDelta")


def settled(expression: Expression) -> Expression:
    """An expression with the derivatives of steps taken as zero and the marks of `stop_gradient` removed.

    >>> import wengert as wg
    >>> wg.autodiff.symbolic.settled(wg.autodiff.symbolic.symbol("x"))
    x
    """
    sympy = _sympy()

    def of_a_step(part: Any) -> bool:
        unevaluated = isinstance(part, (sympy.Derivative, sympy.Subs, sympy.DiracDelta))
        return unevaluated and any(f.func.__name__ in _STEPS for f in part.atoms(sympy.Function))

    settled = expression.replace(of_a_step, lambda part: sympy.Integer(0)).doit()
    return settled.replace(lambda part: part.func.__name__ == "stop_gradient", lambda part: part.args[0])


def _special_functions() -> dict[str, Any]:
    """The functions that NumPy lacks, from mpmath, which comes with SymPy."""
    import mpmath

    def by_mpmath(f: Callable[..., Any]) -> Any:
        return np.vectorize(lambda *args: float(f(*[float(a) for a in args])), otypes=[float64])

    names = ("erf", "erfc", "erfinv", "loggamma", "digamma")
    special = {name: by_mpmath(getattr(mpmath, name)) for name in names}
    return special | {"polygamma": by_mpmath(lambda n, x: mpmath.polygamma(int(n), x))}
