"""A sharded optimizer (ZeRO, stages 1 and 2): each rank has the state of its block of a parameter, and updates that.

All ranks hold the whole parameter. Each has the gradient of its own part of the batch. A step sums the gradients so
that a rank gets its block of the sum, updates its block of the parameter, and gathers the blocks of all ranks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import wengert as wg
from wengert.distributed import all_gather, block, reduce_scatter


class AdamState(NamedTuple):
    """What Adam keeps for each element of a parameter: averages of its gradient and of the square; and the steps."""

    mean: Any
    square: Any
    steps: Any


def adam(parameter: Any, gradient: Any, state: AdamState, lr: float = 0.1) -> tuple[Any, AdamState]:
    """One step of Adam, element by element: the new parameter and the new state. It works on blocks as on wholes."""
    steps = state.steps + 1
    mean = 0.9 * state.mean + 0.1 * gradient
    square = 0.999 * state.square + 0.001 * gradient * gradient
    change = (mean / (1 - 0.9**steps)) / (wg.sqrt(square / (1 - 0.999**steps)) + 1e-8)
    return parameter - lr * change, AdamState(mean, square, steps)


def new_state(parameter: Any) -> AdamState:
    """The state of this rank before the first step: zeros, for its block of the parameter alone."""
    own = block(parameter)
    return AdamState(wg.zeros_like(own), wg.zeros_like(own), wg.tensor(0.0))


def sharded_step(parameter: Any, gradient: Any, state: AdamState, ranks: int) -> tuple[Any, AdamState]:
    """One step of all ranks: the whole new parameter, and the new state of this rank's block.

    `gradient` is that of this rank's part of the batch; the gradient of the batch is the mean over the ranks.
    """
    own, state = adam(block(parameter), reduce_scatter(gradient) / ranks, state)
    return all_gather(own), state
