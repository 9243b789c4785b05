"""`solve`: the public function, its arguments and its result."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import wengert as wg
from wengert import Tensor
from wengert.core import tree
from wengert.core.dtypes import FLOATING
from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.ode.continuous import solved_with_adjoint
from wengert.ode.control import Tolerances
from wengert.ode.discrete import Solved, solved
from wengert.ode.failures import EVENT, checked
from wengert.ode.loop import Rules
from wengert.ode.steps import METHODS, Method
from wengert.ode.system import Leaves, System, leaves_of, system


@dataclass(frozen=True)
class Trajectory:
    """What `solve` gives.

    `ys` has the states at `ts`, stacked along a first axis; `t` and `y` are where the solve ended: the last time, or
    the event, where `stopped` is True. Behind an event `ys` keeps the state at the event. `steps` counts all steps that
    were tried, `rejected` those that were too long.

    >>> import wengert as wg
    >>> found = wg.ode.solve(lambda t, y, args: -y, wg.tensor(1.0, dtype=wg.float64), [0.0, 1.0])
    >>> isinstance(found, wg.ode.Trajectory), round(found.y.item(), 3)
    (True, 0.368)
    """

    ts: Tensor
    ys: Any
    t: Tensor
    y: Any
    steps: Tensor
    rejected: Tensor
    stopped: Tensor


def solve(
    f: Callable[..., Any],
    y0: Any,
    ts: Any,
    args: Any = None,
    *,
    method: str = "tsit5",
    rtol: float = 1e-6,
    atol: Any = 1e-8,
    first_step: float | None = None,
    step_size: float | None = None,
    max_steps: int = 100_000,
    event: Callable[..., Any] | None = None,
    event_direction: int = 0,
    adjoint: str = "discrete",
    memory: Any = None,
) -> Trajectory:
    """Solve y' = f(t, y, args) from y(ts[0]) = y0, and give y at all times `ts`, which go up or down.

    The state y0 is a tensor or a nested container of them, in one floating-point dtype, in which time is, too.

    Args:
        f: the slope, of the structure and shapes of y0.
        y0: the state at ts[0].
        ts: at least two times, a tensor or a list.
        args: what f is given as its third argument, as it is.
        method: "tsit5", "dopri5", "dopri8" (explicit), "rodas4", "rodas5" (for stiff systems: Rosenbrock methods with
            the Jacobian by forward mode), or "rk4" with a fixed `step_size`.
        rtol: the error of a step, relative to the state's elements.
        atol: the error of a step near 0; a number, or one for each leaf of y0 (a container like y0).
        first_step: the length of the first step, if it is not to be guessed.
        step_size: the length of all steps of "rk4"; the last one is shorter.
        max_steps: a solve that takes more raises, with the time it has come to and its step size.
        event: a function of (t, y, args) that gives a number. The solve ends where it goes through 0.
        event_direction: 1 for an event that rises through 0, -1 for one that falls, 0 for both.
        adjoint: "discrete" differentiates the steps as they were taken, in every mode and to any order. "continuous"
            solves the adjoint equation back in time: its memory does not grow, its error is that of the tolerances.
        memory: how many bytes of states the backward pass of "discrete" may keep, see `wg.while_loop`.

    >>> import wengert as wg
    >>> found = wg.ode.solve(lambda t, y, rate: -rate * y, wg.tensor(2.0, dtype=wg.float64), [0.0, 1.0], 0.5)
    >>> round(found.y.item(), 6)
    1.213061
    """
    leaves, structure = leaves_of(y0)
    times = _times(ts, leaves[0])
    chosen = _method(method, step_size, first_step, max_steps)
    tolerances = _tolerances(rtol, atol, y0, leaves)
    problem = system(f, args, leaves, structure)
    rules = Rules(problem.slope, chosen, tolerances, step_size, first_step, max_steps, memory, None, event_direction)
    if event is not None:
        rules = rules._replace(crossing=_crossing(event, event_direction, args, problem))
    if adjoint == "continuous":
        if event is not None:
            raise ArgumentError(
                'ode.solve: adjoint="continuous" has no events, as its end time is given; leave out adjoint='
            )
        found = solved_with_adjoint(f, leaves, times, args, structure, rules)
    elif adjoint == "discrete":
        found = solved(rules, leaves, times)
    else:
        raise ArgumentError(f'ode.solve: adjoint is "discrete" or "continuous", not {adjoint!r}')
    return _solution(problem, times, found)


def _solution(problem: System, ts: Tensor, found: Solved) -> Trajectory:
    values = (found.ys, found.t, found.y)
    ys, t, y = checked(found.status, found.steps, wg.stop_gradient(found.t), found.h, values)
    return Trajectory(ts, problem.state(ys), t, problem.state(y), found.steps, found.rejected, found.status == EVENT)


def _times(ts: Any, like: Tensor) -> Tensor:
    if isinstance(ts, (list, tuple)):
        parts = [one if isinstance(one, Tensor) else wg.tensor(float(one), dtype=like.dtype) for one in ts]
        times = wg.stack([one.to(like.dtype) for one in parts]) if parts else wg.zeros((0,))
    else:
        times = ts if isinstance(ts, Tensor) else wg.tensor(ts)
    if times.ndim != 1 or times.shape[0] < 2:
        raise ShapeError(f"ode.solve: ts is a list of at least two times; its shape is {times.shape}")
    if times.dtype not in FLOATING:
        times = times.to(like.dtype) if times.dtype.kind in "iu" else times
    if times.dtype not in FLOATING:
        raise DTypeError(f"ode.solve: ts is {times.dtype}, and times are floating-point numbers")
    return times.to(like.dtype).to(like.device)


def _method(name: str, step_size: float | None, first_step: float | None, max_steps: int) -> Method:
    if name not in METHODS:
        raise ArgumentError(f"ode.solve: method is one of {', '.join(map(repr, METHODS))}, not {name!r}")
    method = METHODS[name]
    if method.adaptive and step_size is not None:
        raise ArgumentError(
            f"ode.solve: {name} chooses its steps; step_size= is for method='rk4', first_step= for others"
        )
    if not method.adaptive and step_size is None:
        raise ArgumentError(f"ode.solve: {name} has steps of one size: say step_size=")
    for what, value in (("step_size", step_size), ("first_step", first_step)):
        if value is not None and not value > 0:
            raise ArgumentError(f"ode.solve: {what} is a positive length, also back in time; it is {value!r}")
    if isinstance(max_steps, bool) or not isinstance(max_steps, int) or max_steps < 1:
        raise ArgumentError(f"ode.solve: max_steps is a positive number of steps, not {max_steps!r}")
    return method


def _tolerances(rtol: float, atol: Any, y0: Any, leaves: Leaves) -> Tolerances:
    absolute = [float(one) for one in tree.spread(atol, y0, "ode.solve: atol")]
    wrong = [one for one in (rtol, *absolute) if not (one >= 0 and math.isfinite(one))]
    if wrong or len(absolute) != len(leaves):
        raise ArgumentError(f"ode.solve: rtol and atol are numbers from 0 on; got rtol={rtol!r}, atol={atol!r}")
    if rtol == 0 and 0 in absolute:
        raise ArgumentError("ode.solve: rtol and atol are both 0; no step is so exact")
    return Tolerances(float(rtol), absolute)


def _crossing(
    event: Callable[..., Any], event_direction: int, args: Any, problem: System
) -> Callable[[Tensor, Sequence[Tensor]], Tensor]:
    if event_direction not in (-1, 0, 1):
        raise ArgumentError(f"ode.solve: event_direction is 1 (rising), -1 (falling) or 0, not {event_direction!r}")

    def level(t: Tensor, y: Sequence[Tensor]) -> Tensor:
        found = event(t, problem.state(y), args)
        if not isinstance(found, Tensor) or found.shape != () or found.dtype not in FLOATING:
            what = f"{found.dtype} of shape {found.shape}" if isinstance(found, Tensor) else repr(found)
            raise ArgumentError(f"ode.solve: the event gives one floating-point number, not {what}")
        return found.to(t.dtype)

    return level
