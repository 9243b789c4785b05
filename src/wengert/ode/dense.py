"""Values within a step: a polynomial, and the point where an event function crosses zero on it.

The polynomial of a step is computed once, when a time or an event within it is needed.
"""

from __future__ import annotations

from typing import NamedTuple

import wengert as wg
from wengert import Tensor
from wengert.ode.control import detached
from wengert.ode.failures import EVENT
from wengert.ode.loop import Progress, Rules
from wengert.ode.system import Leaves

BISECTIONS = 54
"""Halvings after which an interval from 0 to 1 is as short as float64 can tell."""


class Curve(NamedTuple):
    """The solution along a step: theta from 0 to 1 goes from t to t + h; each leaf's powers are along its first axis.

    `last` is the theta of the event, or 1.
    """

    t: Tensor
    h: Tensor
    powers: Leaves
    last: Tensor

    def at(self, theta: Tensor) -> Leaves:
        """The state at a point of the step."""
        found = []
        for powers in self.powers:
            value = powers[powers.shape[0] - 1]
            for i in reversed(range(powers.shape[0] - 1)):
                value = value * theta + powers[i]
            found.append(value)
        return found

    def theta(self, t: Tensor) -> Tensor:
        """Where in the step a time is; the end, or the event, where it is behind that."""
        still = self.h == 0
        found = wg.where(still, 0.0, (t - self.t) / wg.where(still, 1.0, self.h))
        return wg.where(found > self.last, self.last, found)


def curve(rules: Rules, now: Progress) -> Curve:
    """The curve of the last step that was taken."""
    if now.before is None:
        raise AssertionError("the loop has not kept where its last step began")
    began = now.before
    h = now.t - began.t
    powers = rules.method.within(rules.f, began.t, began.y, began.slope, h)
    stacked = [wg.stack(list(column)) for column in zip(*powers)]
    whole = Curve(began.t, h, stacked, wg.ones_like(h))
    if rules.crossing is None:
        return whole
    ended = now.status == EVENT
    return whole._replace(last=wg.where(ended, _crossing(rules, whole), 1.0))


def _crossing(rules: Rules, whole: Curve) -> Tensor:
    """The theta where the event function is 0: by bisection, then two Newton steps, which carry the derivatives."""
    t, h = wg.stop_gradient(whole.t), wg.stop_gradient(whole.h)
    fixed = Curve(t, h, detached(whole.powers), whole.last)

    def level(along: Curve, theta: Tensor) -> Tensor:
        if rules.crossing is None:
            raise AssertionError("there is no event")
        return rules.crossing(along.t + theta * along.h, along.at(theta))

    start = wg.zeros_like(whole.h)
    side = wg.stop_gradient(level(fixed, start))

    def halved(ends: tuple[Tensor, Tensor], _: None) -> tuple[tuple[Tensor, Tensor], None]:
        low, high = ends
        middle = (low + high) * 0.5
        before = side * wg.stop_gradient(level(fixed, middle)) > 0
        return (wg.where(before, middle, low), wg.where(before, high, middle)), None

    (low, high), _ = wg.scan(halved, (start, wg.ones_like(start)), length=BISECTIONS)
    theta = wg.stop_gradient((low + high) * 0.5)
    for _ in range(2):
        value, slope = wg.jvp(lambda at: level(whole, at), (theta,), (wg.ones_like(theta),))
        flat = slope == 0
        theta = wg.where(flat, theta, theta - value / wg.where(flat, 1.0, slope))
    return theta


def still(t: Tensor, y: Leaves, count: int) -> Curve:
    """The curve of no step."""
    powers = [wg.concat([one[None], *[wg.zeros_like(one)[None]] * (count - 1)]) for one in y]
    return Curve(t, wg.zeros_like(t), powers, wg.ones_like(t))
