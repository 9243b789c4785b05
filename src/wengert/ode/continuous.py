"""The continuous adjoint: cotangents by solving the adjoint equation backwards, from one output time to the previous
one.

With L the loss and a = dL/dy, a' = -a df/dy, and each parameter's cotangent grows by -a df/dp. The state is solved back
along with them, and starts again at each time that was requested. Of the forward solve, only the states at these times
are stored. If the state solved backwards misses the previous one by a hundredth, the system is unstable backwards and
the cotangents would be wrong: that raises an error. The result is not the derivative of the steps that were taken, so
its error is that of the tolerances.

Chen, Rubanova, Bettencourt and Duvenaud, "Neural ordinary differential equations", 2018.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import wengert as wg
from wengert import Tensor
from wengert.autodiff import body as bodies
from wengert.core import tree
from wengert.core.errors import ArgumentError
from wengert.core.graph import Graph
from wengert.ode.control import Tolerances, detached
from wengert.ode.discrete import Solved, direction, solved
from wengert.ode.failures import DRIFTED, GOING, checked
from wengert.ode.loop import Rules, advance, beginning
from wengert.ode.system import Leaves, Slope, size_of, system


class RecordedSlope(NamedTuple):
    """The slope as a graph whose inputs are the parameters, the time and the state: what f captured is a parameter."""

    graph: Graph
    constants: int

    def slope(self, parameters: Leaves) -> Slope:
        """The slope for these parameters."""

        def found(t: Tensor, y: Leaves) -> Leaves:
            given = [*parameters[: self.constants], t, *y, *parameters[self.constants :]]
            return [Tensor(node) for node in self.graph.inline(*[one.node for one in given])]

        return found


def solved_with_adjoint(
    f: Callable[..., Any], y: Leaves, ts: Tensor, args: Any, structure: tree.Structure, rules: Rules
) -> Solved:
    """The solution as `solved` gives it, with the continuous adjoint as its reverse mode."""
    values, shape = tree.flatten(args)
    moving = [i for i, one in enumerate(values) if isinstance(one, Tensor)]

    def slope(t: Tensor, y: Leaves, given: Leaves) -> Leaves:
        whole = list(values)
        for i, one in zip(moving, given):
            whole[i] = one
        return system(f, tree.unflatten(shape, whole), y, structure).slope(t, y)

    given = [values[i] for i in moving]
    step, slots = bodies.record_step("ode.solve", slope, (ts[0], y, given))
    if slots:
        raise ArgumentError(
            'ode.solve: f assigns a tensor from outside, and adjoint="continuous" calls f at other times and states; '
            "leave out adjoint="
        )
    graph, constants = bodies.close(step.graph)
    recorded = RecordedSlope(graph, len(constants))
    parameters = [*[Tensor(node) for node in constants], *given]

    def forward(y: Leaves, ts: Tensor, parameters: Leaves) -> Any:
        return tuple(solved(rules._replace(f=recorded.slope(parameters)), y, ts))

    run = wg.custom_vjp(forward)
    run.defvjp(
        lambda y, ts, parameters: ((found := forward(y, ts, parameters)), (found[0], ts, parameters)),
        lambda needed, g: _backward(recorded, rules, needed, g),
    )
    return Solved(*run(y, ts, parameters))


def _backward(recorded: RecordedSlope, rules: Rules, needed: Any, g: Any) -> tuple[Leaves, Tensor, list[Tensor | None]]:
    """The cotangents of y0, ts and the parameters."""
    ys, ts, parameters = needed
    by_state, by_time = list(g[0]), g[1]
    last = ts.shape[0] - 1
    # the state that ends the solve is the last of the states, and the time that ends it the last of the times
    by_state = [wg.concat([one[:last], (one[last] + end)[None]]) for one, end in zip(by_state, g[2])]
    floating = [i for i, one in enumerate(parameters) if bodies.has_tangents(one.node)]
    slope = recorded.slope(parameters)

    def back(carry: Any, x: Any) -> Any:
        a, totals = carry
        t, before, y, came_from, arriving = x
        by_t = _inner(arriving, slope(t, y))
        a = [one + more for one, more in zip(a, arriving)]
        a, totals, report = _interval(recorded, rules, parameters, floating, (y, a, totals), t, before, came_from)
        return (a, totals), (by_t, report)

    zeros = [wg.zeros_like(one[0]) for one in ys], [wg.zeros_like(parameters[i]) for i in floating]
    later = (ts[1:], ts[:last], [one[1:] for one in ys], [one[:last] for one in ys], [one[1:] for one in by_state])
    (a, totals), (by_ts, reports) = wg.scan(back, zeros, later, reverse=True)
    by_first = -_inner(a, slope(ts[0], [one[0] for one in ys]))
    of_times = wg.concat([by_first[None], by_ts])
    of_times = of_times + wg.concat([wg.zeros_like(ts[:last]), by_time[None]])
    y0 = [one + given[0] for one, given in zip(a, by_state)]
    status, steps, t, h = reports
    y0, of_times, totals = checked(status, steps, t, h, (y0, of_times, totals), adjoint=True)
    found: list[Tensor | None] = [None] * len(parameters)
    for i, one in zip(floating, totals):
        found[i] = one
    return y0, of_times, found


def _inner(a: Leaves, b: Leaves) -> Tensor:
    total = (a[0] * b[0]).sum()
    for x, y in zip(a[1:], b[1:]):
        total = total + (x * y).sum()
    return total


def _interval(
    recorded: RecordedSlope,
    rules: Rules,
    parameters: Leaves,
    floating: list[int],
    state: Any,
    t: Tensor,
    before: Tensor,
    came_from: Leaves,
) -> tuple[Leaves, Leaves, Any]:
    """The adjoint and the parameters' cotangents, from one time back to the one before; and how the solve went."""
    y, a, totals = state
    n, m = len(y), len(y) + len(a)

    def augmented(t: Tensor, now: Leaves) -> Leaves:
        def along(y: Leaves, moving: Leaves) -> Leaves:
            whole = list(parameters)
            for i, one in zip(floating, moving):
                whole[i] = one
            return recorded.slope(whole)(t, y)

        slope, pulled = wg.vjp(along, now[:n], [parameters[i] for i in floating])
        by_state, by_parameter = pulled([-one for one in now[n:m]])
        return [*slope, *by_state, *by_parameter]

    absolute = [*rules.tolerances.absolute] * 2 + [min(rules.tolerances.absolute)] * len(totals)
    inner = rules._replace(f=augmented, tolerances=Tolerances(rules.tolerances.relative, absolute))
    began = beginning(inner, t, before, [*y, *a, *totals], within=False)
    way = direction(t, before)
    ended = advance(inner, began, before, before, way)
    off = _drift(rules.tolerances, ended.y[:n], came_from) > 1.0
    status = wg.where(wg.logical_and(off, ended.status == GOING), DRIFTED, ended.status)
    return ended.y[n:m], ended.y[m:], (status, ended.steps, wg.stop_gradient(ended.t), way * ended.h)


def _drift(tolerances: Tolerances, found: Leaves, expected: Leaves) -> Tensor:
    """How far a state is off, in hundredths of it."""
    loose = Tolerances(max(0.01, tolerances.relative), [100 * one for one in tolerances.absolute])
    off = detached([a - b for a, b in zip(found, expected)])
    return size_of(off, loose.scale(detached(expected), detached(expected)))
