"""The loop of a solve: steps until a time is reached, accepted or repeated with a shorter step, in one `while_loop`.

In: where a solve is (`Progress`) and the time to reach. Out: where it then is. The loop carries the state, its slope
and the step size, and only where values within steps are wanted (`before`) where the last step began.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import wengert as wg
from wengert import Tensor
from wengert.core.dtypes import int32
from wengert.ode.control import Tolerances, error_of, factor, first_step
from wengert.ode.failures import EVENT, GOING, NOT_FINITE, TOO_MANY, UNDERFLOW
from wengert.ode.steps import Method
from wengert.ode.system import Leaves, Slope, chosen


class Rules(NamedTuple):
    """How a solve goes on: what does not change from step to step."""

    f: Slope
    method: Method
    tolerances: Tolerances
    step_size: float | None
    first_step: float | None
    max_steps: int
    memory: Any
    crossing: Callable[[Tensor, Leaves], Tensor] | None
    rising: int


class Before(NamedTuple):
    """Where the last accepted step began."""

    t: Tensor
    y: Leaves
    slope: Leaves


class Progress(NamedTuple):
    """Where a solve is. `h` is the length of the next step, without its sign; `error` that of the last one accepted."""

    t: Tensor
    y: Leaves
    slope: Leaves
    h: Tensor
    error: Tensor
    steps: Tensor
    rejected: Tensor
    status: Tensor
    before: Before | None
    level: Tensor | None  # the event function's value


def beginning(rules: Rules, t: Tensor, end: Tensor, y: Leaves, within: bool) -> Progress:
    """A solve that has taken no step."""
    slope = rules.f(t, y)
    given = rules.step_size or rules.first_step
    if given is None:
        h = first_step(rules.method, rules.tolerances, rules.f, t, y, slope, end - t)
    else:
        h = wg.full((), given, dtype=t.dtype, device=t.device)
    status = _either(finite([*y, *slope]), GOING, NOT_FINITE)
    none = wg.zeros((), dtype=int32, device=t.device)
    before = Before(t, y, slope) if within or rules.crossing else None
    level = None if rules.crossing is None else wg.stop_gradient(rules.crossing(t, y))
    return Progress(t, y, slope, h, wg.ones_like(t), none, none, status, before, level)


def finite(leaves: Leaves) -> Tensor:
    """Whether all elements are finite."""
    found = wg.all(wg.isfinite(leaves[0]))
    for leaf in leaves[1:]:
        found = wg.logical_and(found, wg.all(wg.isfinite(leaf)))
    return found


def _either(which: Tensor, first: int, second: int) -> Tensor:
    return wg.where(which, first, second).to(int32)


def advance(rules: Rules, progress: Progress, until: Tensor, end: Tensor, way: Tensor) -> Progress:
    """Steps until the time `until` is reached or passed; `end` is never passed. `way` is 1, or -1 back in time."""

    def goes_on(now: Progress) -> Tensor:
        return wg.logical_and(now.status == GOING, way * (until - now.t) > 0)

    return wg.while_loop(goes_on, lambda now: _step(rules, now, end, way), progress, memory=rules.memory)


def _step(rules: Rules, now: Progress, end: Tensor, way: Tensor) -> Progress:
    left = way * (end - now.t)
    is_last = now.h * (1 + 1e-6) >= wg.stop_gradient(left)  # no step of a millionth behind it
    length = wg.where(is_last, left, now.h)
    after = wg.where(is_last, end, now.t + way * length)
    step = rules.method.attempt(rules.f, now.t, now.y, now.slope, way * length)
    error = _error(rules, step.error, now, step.y, step.slope)
    accepted = error <= 1.0
    if rules.step_size is None:
        h = wg.stop_gradient(length) * factor(rules.method, error, now.error, accepted)
        h = wg.where(wg.logical_and(is_last, accepted), wg.maximum(h, now.h), h)
    else:
        h = now.h
    steps, rejected = now.steps + 1, now.rejected + wg.where(accepted, 0, 1).to(int32)
    level = None if rules.crossing is None else wg.stop_gradient(rules.crossing(after, step.y))
    before = None if now.before is None else Before(now.t, now.y, now.slope)
    taken = Progress(after, step.y, step.slope, h, wg.maximum(error, 1e-10), steps, rejected, now.status, before, level)
    stayed = now._replace(h=h, steps=steps, rejected=rejected)
    status = _status(rules, now, accepted, error, wg.stop_gradient(length), steps, level)
    status = wg.where(wg.logical_and(status == TOO_MANY, wg.logical_and(accepted, is_last)), GOING, status).to(int32)
    return chosen(accepted, taken, stayed)._replace(h=wg.stop_gradient(h), status=status)


def _error(rules: Rules, error: Leaves | None, now: Progress, y: Leaves, slope: Leaves) -> Tensor:
    """The size of a step's error; NaN where the step or its end is not finite."""
    size = wg.zeros_like(now.error) if error is None else error_of(rules.tolerances, error, now.y, y)
    return wg.stop_gradient(wg.where(finite([*y, *slope]), size, float("nan")))


def _status(
    rules: Rules, now: Progress, accepted: Tensor, error: Tensor, length: Tensor, steps: Tensor, level: Tensor | None
) -> Tensor:
    """How a solve goes on after a step that was tried."""
    status = _either(steps >= rules.max_steps, TOO_MANY, GOING)
    if rules.step_size is None:
        info = wg.finfo(now.t.dtype)
        stuck = length <= 16 * info.eps * wg.abs(wg.stop_gradient(now.t)) + 16 * info.smallest_normal
    else:
        stuck = wg.ones_like(accepted)
    ended = wg.where(wg.isfinite(error), UNDERFLOW, NOT_FINITE)
    status = wg.where(wg.logical_and(stuck, wg.logical_not(accepted)), ended, status)
    if level is not None and now.level is not None:
        status = wg.where(wg.logical_and(accepted, crossed(now.level, level, rules.rising)), EVENT, status)
    return status.to(int32)


def crossed(before: Tensor, after: Tensor, rising: int) -> Tensor:
    """Whether an event function has gone through 0; from 0 itself it only moves away."""
    up = wg.logical_and(before < 0, after >= 0)
    down = wg.logical_and(before > 0, after <= 0)
    return up if rising > 0 else down if rising < 0 else wg.logical_or(up, down)
