"""Numeric differentiation: the derivative of a function from its values alone, used to check the other methods.

In: any function of nested containers of numbers, arrays and tensors. Out: derivatives in float64, computed along one
curve at a time: `curve(t)` is the function's value a step `t` away in some direction, and a method estimates its slope.

    central       (f(x+h) - f(x-h)) / 2h           an error of h squared, and rounding over h
    complex       imag(f(x+ih)) / h                exact to rounding; every op must take complex numbers
    richardson    central differences at shrinking h, extrapolated to h = 0 (Ridders 1982): about 1e-10
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.api.creation import tensor
from wengert.autodiff.transformed import transformed
from wengert.core import tree
from wengert.core.conversion import converting
from wengert.core.dtypes import COMPLEX, FLOATING, bool_, complex128, float64
from wengert.core.errors import ArgumentError, DTypeError, GradientError
from wengert.core.graph import Node, ancestors
from wengert.ops.core import data, variable
from wengert.ops.elementwise import conj, sign
from wengert.tensor import Tensor

Array = np.ndarray[Any, Any]
Curve = Callable[[complex], Array]  # from a step to the values there, a vector


def grad(
    function: Callable[..., Any], argnums: int | Sequence[int] = 0, method: str = "central", step: float | None = None
) -> Callable[..., Any]:
    """A function that returns the gradient of `function` with respect to some of its arguments, from its values alone.

    `method` is "central", "complex" or "richardson"; `step` is the (first) step size, chosen for each element if not
    given. `function` is called with float64 values (complex128 for "complex"), twice or more for each element.

    >>> import wengert as wg
    >>> f = lambda x, y: wg.log(x) + x * y - wg.sin(y)
    >>> [round(g.item(), 6) for g in wg.autodiff.numeric.grad(f, (0, 1))(2.0, 5.0)]
    [5.5, 1.716338]
    """
    if method not in METHODS:
        raise ArgumentError(f"numeric.grad: method must be one of {', '.join(map(repr, METHODS))}, not {method!r}")

    @transformed(grad, function, argnums, method, step)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        positions = (argnums,) if isinstance(argnums, int) else tuple(argnums)
        gradients = [_by_argument(function, args, kwargs, position, method, step) for position in positions]
        return gradients[0] if isinstance(argnums, int) else tuple(gradients)

    return differentiated


def _by_argument(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], position: int, method: str, step: Any
) -> Any:
    if not -len(args) <= position < len(args):
        raise ArgumentError(f"numeric.grad: argnums {position}, but {len(args)} positional arguments were given")
    leaves, structure = tree.flatten(args[position])
    points = [as_float64(leaf, position) for leaf in leaves]

    def at(values: Sequence[Array]) -> Array:
        replaced = list(args)
        replaced[position] = tree.unflatten(structure, [_movable(value) for value in values])
        with converting():  # a difference of values: a constant inside is none
            return _one_number(function(*replaced, **kwargs), method)

    return tree.unflatten(structure, [_by_leaf(at, points, i, method, step) for i in range(len(points))])


def as_float64(leaf: Any, position: int) -> Array:
    """The value of a floating-point leaf.

    >>> import numpy as np, wengert as wg
    >>> wg.autodiff.numeric.as_float64(np.float32(3.0), 0).dtype.name
    'float64'
    """
    value = (
        leaf.detach().numpy()
        if isinstance(leaf, Tensor)
        else tensor(leaf, float64 if isinstance(leaf, float) else None).numpy()
    )
    if value.dtype not in FLOATING:
        raise DTypeError(
            f"numeric.grad: argument {position} has a leaf of dtype {value.dtype}; only floating-point values have "
            "derivatives. Pass 2.0 instead of 2, cast with astype, or choose other argnums"
        )
    return value.astype(float64)


def _movable(value: Array) -> Tensor:
    """A tensor on a variable: tracked, so that the graph of the result is kept for inspection."""
    return Tensor(variable(data(value)))


def _one_number(result: Any, method: str) -> Array:
    if isinstance(result, Tensor):
        if method == "complex":
            _require_analytic(result.node)
        result = result.detach().numpy()
    value = np.asarray(result)
    if value.shape != ():
        raise ArgumentError(f"numeric.grad: the function must return one number; it returned shape {value.shape}")
    return value


def _by_leaf(at: Callable[[Sequence[Array]], Array], points: list[Array], i: int, method: str, step: Any) -> Tensor:
    point = points[i]
    slopes = np.empty(point.shape)
    for where in np.ndindex(point.shape):

        def curve(t: complex, where: tuple[int, ...] = where) -> Array:
            moved = point.astype(type(t))
            moved[where] += t
            return at([*points[:i], moved, *points[i + 1 :]])

        slopes[where] = METHODS[method](curve, step, float(np.abs(point[where])))
    return Tensor(data(slopes))


# --- methods: the slope of a curve at 0 -----------------------------------------------------------------------------


def central(curve: Curve, step: float | None = None, scale: float = 1.0) -> Array:
    """A central difference. The step balances the error of the formula (h squared) with rounding (1/h).

    >>> import wengert as wg
    >>> round(float(wg.autodiff.numeric.central(lambda h: (3.0 + h) ** 2)), 4)
    6.0
    """
    h = step or float(np.finfo(float64).eps) ** (1 / 3) * max(scale, 1.0)
    above, below = curve(h), curve(-h)
    still = np.equal(above, below)  # also where both are infinite, and their difference would be NaN
    none = np.zeros(np.shape(above), np.result_type(above, float64))
    return np.subtract(above, below, out=none, where=~still) / (2 * h)


def complex_step(curve: Curve, step: float | None = None, scale: float = 1.0) -> Array:
    """The imaginary part of f at x + ih: nothing is subtracted, so the step h can be tiny.

    >>> import wengert as wg
    >>> round(float(wg.autodiff.numeric.complex_step(lambda h: (3.0 + h) ** 2)), 4)
    6.0
    """
    h = step or 1e-30
    try:
        values = curve(1j * h)
    except DTypeError as error:
        raise _not_analytic(error.message, error.location) from error
    return np.imag(values) / h


def _require_analytic(root: Node) -> None:
    """Raise an error if an op on the way turned complex numbers into real ones or their conjugates: the slope would be
    lost."""
    for node in ancestors([root]):
        if any(source.dtype is complex128 for source in node.sources):
            lost = node.dtype not in COMPLEX and node.dtype is not bool_
            if lost or node.op in (conj, sign):
                raise _not_analytic(f"{node.op.name} is not analytic", node.location)


def _not_analytic(reason: str, location: Any) -> GradientError:
    hint = 'method="complex" needs ops that take complex numbers and are analytic; try "central" or "richardson"'
    return GradientError(f"numeric.grad: {reason}. {hint}", location)


def richardson(curve: Curve, step: float | None = None, scale: float = 1.0) -> Array:
    """Ridders' method: a tableau of central differences at shrinking steps; its best entry by its own error
    estimate.

    >>> import wengert as wg
    >>> round(float(wg.autodiff.numeric.richardson(lambda h: (3.0 + h) ** 2)), 4)
    6.0
    """
    shrink, rows = 1.4, 10
    h = step or 0.1 * max(scale, 0.1)
    previous = [central(curve, h)]
    best, error = previous[0], np.full(np.shape(previous[0]), np.inf)
    for _ in range(1, rows):
        h /= shrink
        row = [central(curve, h)]
        for j, above in enumerate(previous):
            factor = shrink ** (2 * (j + 1))
            row.append((row[j] * factor - above) / (factor - 1))
            spread = np.maximum(np.abs(row[-1] - row[-2]), np.abs(row[-1] - above))
            better = spread <= error
            best, error = np.where(better, row[-1], best), np.where(better, spread, error)
        if np.all(np.abs(row[-1] - previous[-1]) >= 2 * error):  # rounding has taken over: it only gets worse
            break
        previous = row
    return best


METHODS: dict[str, Callable[[Curve, float | None, float], Array]] = {
    "central": central,
    "complex": complex_step,
    "richardson": richardson,
}
