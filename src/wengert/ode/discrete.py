"""A solve whose derivatives are those of its steps: recorded loops that every mode can differentiate."""

from __future__ import annotations

from typing import NamedTuple

import wengert as wg
from wengert import Tensor
from wengert.ode.dense import curve, still
from wengert.ode.failures import EVENT
from wengert.ode.loop import Progress, Rules, advance, beginning
from wengert.ode.system import Leaves


class Solved(NamedTuple):
    """The states at the times, and how the solve went: `t` and `h` are where it ended and the step that came next."""

    ys: Leaves
    t: Tensor
    y: Leaves
    h: Tensor
    steps: Tensor
    rejected: Tensor
    status: Tensor


def direction(start: Tensor, end: Tensor) -> Tensor:
    """1, or -1 where time goes back."""
    return wg.stop_gradient(wg.where(end < start, -1.0, 1.0).to(start.dtype))


def solved(rules: Rules, y: Leaves, ts: Tensor) -> Solved:
    """The states at all times; the first is that at ts[0]."""
    count = ts.shape[0]
    start, end = ts[0], ts[count - 1]
    way = direction(start, end)
    progress = beginning(rules, start, end, y, within=count > 2)
    if count == 2 and rules.crossing is None:
        progress = advance(rules, progress, end, end, way)
        last, others = progress.t, [one[None] for one in progress.y]
        final = progress.y
    else:
        progress, others, last, final = _at_times(rules, progress, y, ts, way)
    ys = [wg.concat([one[None], more]) for one, more in zip(y, others)]
    signed = way * progress.h
    return Solved(ys, last, final, signed, progress.steps, progress.rejected, progress.status)


def _at_times(
    rules: Rules, progress: Progress, y: Leaves, ts: Tensor, way: Tensor
) -> tuple[Progress, Leaves, Tensor, Leaves]:
    """Go from time to time; a step that passes one gives it by its polynomial, which is made once a step."""
    end = ts[ts.shape[0] - 1]
    none = still(ts[0], y, rules.method.degree + 1)

    def reach(state: tuple[Progress, object], t: Tensor) -> tuple[tuple[Progress, object], Leaves]:
        before, along = state
        after = advance(rules, before, t, end, way)
        along = wg.cond(after.steps > before.steps, lambda now, _: curve(rules, now), lambda _, old: old, after, along)
        return (after, along), along.at(along.theta(t))

    (progress, along), others = wg.scan(reach, (progress, none), ts[1:])
    if rules.crossing is None:
        return progress, others, progress.t, progress.y
    ended = progress.status == EVENT
    last = wg.where(ended, along.t + along.last * along.h, progress.t)
    final = [wg.where(ended, a, b) for a, b in zip(along.at(along.last), progress.y)]
    return progress, others, last, final
