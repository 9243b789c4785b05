"""Step sizes: the norm of an error against the tolerances, the PI controller, and the first step.

Step sizes are not differentiated: a derivative is that of the steps as they were taken. They go through
`stop_gradient`, except for the last step, whose end is the end time.

Hairer, Norsett and Wanner, "Solving Ordinary Differential Equations I", II.4. Gustafsson, "Control theoretic techniques
for stepsize selection in explicit Runge-Kutta methods", 1991.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import wengert as wg
from wengert import Tensor
from wengert.ode.steps import Method
from wengert.ode.system import Leaves, Slope, plus, size_of, times

SAFETY, SHORTEST, LONGEST = 0.9, 0.2, 8.0
INTEGRAL, PROPORTIONAL = 0.7, 0.4


class Tolerances(NamedTuple):
    """How large an error may be: relative to the state, and for each leaf absolutely."""

    relative: float
    absolute: Sequence[float]

    def scale(self, y: Leaves, other: Leaves) -> Leaves:
        """The size of an error of 1, by element."""
        largest = [wg.maximum(wg.abs(a), wg.abs(b)) for a, b in zip(y, other)]
        return [absolute + self.relative * one for one, absolute in zip(largest, self.absolute)]


def detached(leaves: Leaves) -> Leaves:
    """Values that derivatives do not go through."""
    return [wg.stop_gradient(one) for one in leaves]


def error_of(tolerances: Tolerances, error: Leaves, before: Leaves, after: Leaves) -> Tensor:
    """The size of an error: at most 1 where a step is accepted."""
    scale = tolerances.scale(detached(before), detached(after))
    return size_of(detached(error), scale)


def factor(method: Method, error: Tensor, last: Tensor, accepted: Tensor) -> Tensor:
    """By how much the next step is longer, from the errors of this one and of the last accepted one."""
    power = 1.0 / method.error_order
    least = 1e-10  # of an error of 0 there is no power
    grown = SAFETY * wg.maximum(error, least) ** (-INTEGRAL * power) * wg.maximum(last, 1e-4) ** (PROPORTIONAL * power)
    shrunk = SAFETY * wg.maximum(error, least) ** (-power)
    longer = wg.where(accepted, wg.clip(grown, SHORTEST, LONGEST), wg.clip(shrunk, SHORTEST, 1.0))
    return wg.where(wg.isfinite(error), longer, SHORTEST)


def first_step(
    method: Method, tolerances: Tolerances, f: Slope, t: Tensor, y: Leaves, slope: Leaves, span: Tensor
) -> Tensor:
    """The length of the first step, from the size of the slope and how it changes; `span` is the signed whole way."""
    t, y, slope, span = wg.stop_gradient(t), detached(y), detached(slope), wg.stop_gradient(span)
    scale = tolerances.scale(y, y)
    d0, d1 = size_of(y, scale), size_of(slope, scale)
    flat = wg.logical_or(d0 < 1e-5, d1 < 1e-5)
    guess = wg.minimum(wg.where(flat, 1e-6, 0.01 * d0 / wg.where(flat, 1.0, d1)), wg.abs(span))
    guess = wg.where(guess > 0, guess, 1e-6)
    far = wg.copysign(guess, span)
    moved = detached(f(t + far, plus(y, times(far, slope))))
    d2 = size_of([a - b for a, b in zip(moved, slope)], scale) / guess
    largest = wg.maximum(d1, d2)
    still = largest <= 1e-15
    by_change = (0.01 / wg.where(still, 1.0, largest)) ** (1.0 / method.error_order)
    other = wg.where(still, wg.maximum(1e-6, guess * 1e-3), by_change)
    # what is not finite over there says nothing about the slope here
    other = wg.where(wg.isfinite(other), other, guess)
    return wg.stop_gradient(wg.minimum(100.0 * guess, other))
