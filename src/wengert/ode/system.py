"""The system y' = f(t, y, args) as a function of a list of tensors, and arithmetic on such lists.

In: the user's function over nested containers. Out: `System`, whose `slope` takes and gives the leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import wengert as wg
from wengert import Tensor
from wengert.core import tree
from wengert.core.dtypes import FLOATING
from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.core.graph import describe_type

Leaves = list[Tensor]
Slope = Callable[[Tensor, Leaves], Leaves]


class System(NamedTuple):
    """What is solved: the slope of leaves, and how the state is put together from them."""

    slope: Slope
    structure: tree.Structure

    def state(self, leaves: Sequence[Any]) -> Any:
        """The state as the user wrote it."""
        return tree.unflatten(self.structure, leaves)


def leaves_of(y0: Any) -> tuple[Leaves, tree.Structure]:
    """The state's leaves in one floating-point dtype, the widest among them."""
    values, structure = tree.flatten(y0)
    leaves = [one if isinstance(one, Tensor) else wg.tensor(one) for one in values]
    if not leaves:
        raise ArgumentError("ode.solve: y0 has no values")
    dtype = leaves[0].dtype
    for leaf in leaves[1:]:
        dtype = wg.result_type(dtype, leaf.dtype)
    if dtype not in FLOATING:
        raise DTypeError(
            f"ode.solve: y0 is {dtype}, and states are floating-point. Pass 1.0 instead of 1; give a complex state as "
            "its real and its imaginary part, e.g. y0=(wg.real(z), wg.imag(z))"
        )
    return [leaf if leaf.dtype == dtype else leaf.to(dtype) for leaf in leaves], structure


def system(f: Callable[..., Any], args: Any, leaves: Leaves, structure: tree.Structure) -> System:
    """The user's function over leaves; what it gives is checked against the state."""

    def slope(t: Tensor, y: Leaves) -> Leaves:
        found, shape = tree.flatten(f(t, tree.unflatten(structure, y), args))
        if shape != structure:
            raise ArgumentError(
                f"ode.solve: f gives {shape} for a state {structure}; it gives dy/dt, one for each value"
            )
        return [_like(one, leaf) for one, leaf in zip(found, leaves)]

    return System(slope, structure)


def _like(found: Any, leaf: Tensor) -> Tensor:
    value = found if isinstance(found, Tensor) else wg.tensor(found)
    if value.shape != leaf.shape:
        raise ShapeError(
            f"ode.solve: f gives a derivative of {describe_type(value.node)} for a state of {describe_type(leaf.node)}"
        )
    return value if value.dtype == leaf.dtype else value.to(leaf.dtype)


def combined(weights: Sequence[float], stages: Sequence[Leaves]) -> Leaves | None:
    """The sum of stages times their weights; None where all weights are 0."""
    total: Leaves | None = None
    for weight, stage in zip(weights, stages):
        if weight != 0:
            part = stage if weight == 1 else [one * float(weight) for one in stage]
            total = part if total is None else plus(total, part)
    return total


def plus(y: Leaves, change: Leaves | None) -> Leaves:
    """The sum of two states."""
    return y if change is None else [a + b for a, b in zip(y, change)]


def times(h: Tensor, y: Leaves) -> Leaves:
    """A state times a number."""
    return [h * one for one in y]


def chosen(which: Tensor, first: Any, second: Any) -> Any:
    """`first` where a boolean holds, else `second`, leaf by leaf."""
    return tree.map(lambda a, b: wg.where(which, a, b), first, second)


def size_of(y: Leaves, scale: Leaves) -> Tensor:
    """The root of the mean square of a state's elements, each relative to its scale."""
    count = sum(one.size for one in y)
    squares = [(one / by) * (one / by) for one, by in zip(y, scale)]
    total = squares[0].sum()
    for square in squares[1:]:
        total = total + square.sum()
    return wg.sqrt(total / max(count, 1))


def ravel(y: Leaves) -> Tensor:
    """All elements of a state in a vector."""
    return wg.concat([wg.reshape(one, (-1,)) for one in y]) if len(y) > 1 else wg.reshape(y[0], (-1,))


def unravel(vector: Tensor, like: Leaves) -> Leaves:
    """The state with the elements of a vector."""
    found, start = [], 0
    for one in like:
        found.append(wg.reshape(vector[start : start + one.size], one.shape))
        start += one.size
    return found
