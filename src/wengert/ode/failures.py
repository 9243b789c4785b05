"""Errors of a solve: an op that passes the solution on, and raises an error if the loop has ended early."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wengert.core import tree
from wengert.core.errors import ComputationError
from wengert.core.graph import Node
from wengert.ops.core import as_node
from wengert.ops.op import Op, count_lanes, each_batched, picks
from wengert.tensor import Tensor

GOING, EVENT, TOO_MANY, NOT_FINITE, UNDERFLOW, DRIFTED = range(6)
"""How a solve goes: on, ended by its event, or wrong."""


def checked(status: Tensor, steps: Tensor, t: Tensor, h: Tensor, values: Any, adjoint: bool = False) -> Any:
    """The values; looking at them raises if the solve went wrong, and says how far it came.

    `adjoint`: it is that of the adjoint equation, and there are several, one for each interval between two times.
    """
    leaves, structure = tree.flatten(values)
    results = SOLVED(*[as_node(one) for one in (status, steps, t, h, *leaves)], adjoint=adjoint)
    return tree.unflatten(structure, map(Tensor, picks(results)))


def _message(status: int, steps: int, t: float, h: float) -> str:
    where = f"after {steps} steps, at t = {t:.9g} with a step size of {h:.3g}"
    if status == TOO_MANY:
        return (
            f"ode.solve: max_steps={steps} reached {where}. Allow more; if steps are short everywhere the problem is "
            'stiff: try method="rodas5"'
        )
    if status == NOT_FINITE:
        return f"ode.solve: y or f(t, y, args) is NaN or infinite {where}: the solution may end there"
    if status == DRIFTED:
        return f"ode.solve: {where}, the state does not come back to what it came from"
    return (
        f"ode.solve: the step size has become too small {where}: the tolerances cannot be met there. Look for a "
        "singularity or a jump in f, or loosen rtol and atol"
    )


_BACK = (
    ". That is while solving the adjoint equation back in time, where a stiff or dissipative system is unstable: "
    'leave out adjoint="continuous"'
)


def _numpy(status: Any, steps: Any, t: Any, h: Any, *arrays: Any, adjoint: bool) -> Any:
    wrong = np.flatnonzero(np.ravel(status) > EVENT)
    if wrong.size:
        first = wrong[0]
        values = [np.ravel(one)[first] for one in (status, steps, t, h)]
        lane = f" (trajectory {first}, one of {wrong.size} that end early)" if np.ndim(status) > adjoint else ""
        said = _message(int(values[0]), int(values[1]), float(values[2]), float(values[3]))
        raise ComputationError(said + (_BACK if adjoint else lane))
    return arrays


def _infer(*sources: Node, adjoint: bool) -> Any:
    return tuple(one.shape for one in sources[4:]), tuple(one.dtype for one in sources[4:])


def _batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    return SOLVED(*each_batched(sources, batched, count_lanes(sources, batched)), **y.attrs)


SOLVED: Op = Op(
    "solved",
    infer=_infer,
    numpy=_numpy,
    vjp=lambda g, y: [None, None, None, None, *g],
    jvp=lambda tangents, y, *sources: list(tangents[4:]),
    batch=_batch,
    can_fail=True,
    moves=True,
)
