"""`converged`: a value that an iteration has found, or an error that says how far the iteration got."""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.core.errors import ComputationError
from wengert.core.graph import Node
from wengert.ops.op import Op, each_batched


def converged(name: str, x: Node, steps: Node, residual: Node, allowed: Node) -> Node:
    """`x` as found by an iteration. If its residual is above the tolerance, reading its value raises an error."""
    return CONVERGED(x, steps, residual, allowed, solver=name)


def _check(x: Any, steps: Any, residual: Any, allowed: Any, solver: str) -> Any:
    failed = ~(np.asarray(residual) <= np.asarray(allowed))  # a NaN has not converged either
    if failed.any():
        first = np.argmax(failed.ravel())
        at = [
            np.broadcast_to(np.asarray(a).reshape(_aligned(a, failed)), failed.shape).ravel()[first]
            for a in (steps, residual, allowed)
        ]
        which = "" if failed.size == 1 else f" in {int(failed.sum())} of {failed.size} lanes; the first"
        raise ComputationError(
            f"{solver} did not converge{which} after {int(at[0])} iterations: the residual is {at[1]:.3g}, and the "
            f"tolerance is {at[2]:.3g}. Start closer, allow more iterations (max_steps=) or a larger residual (tol=)"
        )
    return x


def _aligned(array: Any, like: Any) -> tuple[int, ...]:
    shape = np.shape(array)
    return (*shape, *(1,) * (like.ndim - len(shape)))


def _batch(y: Node, sources: Any, batched: Any) -> Node:
    return CONVERGED(*each_batched(sources, batched), **y.attrs)


CONVERGED: Op = Op(
    "converged",
    infer=lambda x, steps, residual, allowed, solver: (x.shape, x.dtype),
    numpy=_check,
    vjp=lambda g, y: [g, None, None, None],
    jvp=lambda tangents, y, *sources: tangents[0],
    batch=_batch,
    can_fail=True,
    moves=True,
)
