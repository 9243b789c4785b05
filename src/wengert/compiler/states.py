"""States: how a value of `partition` is distributed over the ranks of a group, and conversions between states.

WHOLE            every rank has all of it
PARTIAL          the value is the sum over the ranks
Sharded(i)       every rank has its block along axis i, and computes with it
Sharded(i, k)    axis i is k runs of equal length, and every rank has its block of each: q, k and v side by side,
                 each cut by heads; or sequences side by side, each cut by tokens
Stored(i)        every rank keeps its block along axis i: a parameter or a moment of ZeRO. It is gathered for use
                 and updated block by block
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from wengert.core.graph import Node, Shape
from wengert.core.mesh import Group
from wengert.ops.collective import ALL_GATHER, ALL_TO_ALL, BLOCK, REDUCE_SCATTER
from wengert.ops.movement import reshape


@dataclass(frozen=True)
class Sharded:
    """Every rank has its block along an axis, or its block of each run of that axis."""

    axis: int
    runs: int = 1

    def __repr__(self) -> str:
        return f"Sharded({self.axis})" if self.runs == 1 else f"Sharded({self.axis}, runs={self.runs})"


@dataclass(frozen=True)
class Stored:
    """Every rank keeps its block along an axis, and gathers the value to use it."""

    axis: int
    runs: int = 1

    def __repr__(self) -> str:
        return f"Stored({self.axis})" if self.runs == 1 else f"Stored({self.axis}, runs={self.runs})"


@dataclass(frozen=True)
class Like:
    """Requests for an output the state of an earlier output."""

    output: int


class _Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


WHOLE, PARTIAL = _Named("whole"), _Named("partial")
State = Any  # WHOLE, PARTIAL, Sharded, Stored; a tuple of them for a node with several results


# --- sizes ----------------------------------------------------------------------------------------------------------


def block_shape(shape: Sequence[int], axis: int, count: int) -> Shape:
    """The shape of one of this many blocks along an axis."""
    return (*shape[:axis], shape[axis] // count, *shape[axis + 1 :])


def bytes_of(node: Node) -> int:
    """The size of a value; for a node with several results, the total."""
    if isinstance(node.dtype, tuple):
        return sum(math.prod(shape) * int(dtype.itemsize) for shape, dtype in zip(node.shape, node.dtype))
    return node.size * int(node.dtype.itemsize)


# --- from state to state --------------------------------------------------------------------------------------------


def _with_runs(x: Node, *states: Sharded | Stored) -> tuple[Node, list[int]]:
    """A value with a separate axis for the runs of each state's axis, and where the cut axes are now."""
    runs = {state.axis: state.runs for state in states if state.runs > 1}
    shape: list[int] = []
    places = {}
    for axis, size in enumerate(x.shape):
        if axis in runs:
            shape.append(runs[axis])
        places[axis] = len(shape)
        shape.append(size // runs.get(axis, 1))
    return (reshape(x, tuple(shape)) if runs else x), [places[state.axis] for state in states]


def block(whole: Node, state: Sharded | Stored, group: Group) -> Node:
    """A rank's block of a replicated value."""
    viewed, (axis,) = _with_runs(whole, state)
    return reshape(BLOCK(viewed, axis=axis, group=group), block_shape(whole.shape, state.axis, group.size))


def gathered(local: Node, state: Sharded | Stored, group: Group) -> Node:
    """The whole value, from the blocks of all ranks."""
    viewed, (axis,) = _with_runs(local, state)
    at = state.axis
    shape = (*local.shape[:at], local.shape[at] * group.size, *local.shape[at + 1 :])
    return reshape(ALL_GATHER(viewed, axis=axis, group=group), shape)


def scattered(partial: Node, state: Sharded | Stored, group: Group) -> Node:
    """A rank's block of the sum over the ranks."""
    viewed, (axis,) = _with_runs(partial, state)
    return reshape(REDUCE_SCATTER(viewed, axis=axis, group=group), block_shape(partial.shape, state.axis, group.size))


def exchanged(local: Node, held: Sharded, wanted: Sharded, group: Group) -> Node:
    """A rank's block along another axis than its current one."""
    viewed, (join, split) = _with_runs(local, held, wanted)
    shape = list(block_shape(local.shape, wanted.axis, group.size))
    shape[held.axis] *= group.size
    return reshape(ALL_TO_ALL(viewed, split=split, join=join, group=group), tuple(shape))
