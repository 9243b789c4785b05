"""States: how a value of `partition` lies over the ranks of a group, and how one state becomes another.

WHOLE            every rank has it all
PARTIAL          the value is the sum over the ranks
Sharded(i)       every rank has its block along axis i, and works on it
Sharded(i, k)    axis i is k runs of equal length, and every rank has its block of each: q, k and v side by side,
                 each cut by heads; or sequences side by side, each cut by tokens
Stored(i)        every rank keeps its block along axis i: a parameter or a moment of ZeRO. It is gathered to be
                 worked with, and updated block by block
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
    """Every rank has its block along an axis, or of each of its runs."""

    axis: int
    runs: int = 1

    def __repr__(self) -> str:
        return f"Sharded({self.axis})" if self.runs == 1 else f"Sharded({self.axis}, runs={self.runs})"


@dataclass(frozen=True)
class Stored:
    """Every rank keeps its block along an axis, and gathers it to work with it."""

    axis: int
    runs: int = 1

    def __repr__(self) -> str:
        return f"Stored({self.axis})" if self.runs == 1 else f"Stored({self.axis}, runs={self.runs})"


@dataclass(frozen=True)
class Like:
    """The state that is asked for an output that is to lie as an earlier one does."""

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
    """The size of a value; of all of them for a node with several results."""
    if isinstance(node.dtype, tuple):
        return sum(math.prod(shape) * int(dtype.itemsize) for shape, dtype in zip(node.shape, node.dtype))
    return node.size * int(node.dtype.itemsize)


# --- from state to state --------------------------------------------------------------------------------------------


def _with_runs(x: Node, *states: Sharded | Stored) -> tuple[Node, list[int]]:
    """A value with an axis of its own for the runs of each state's axis, and where the axes that are cut now are."""
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
    """A rank's block of a value that all have."""
    viewed, (axis,) = _with_runs(whole, state)
    return reshape(BLOCK(viewed, axis=axis, group=group), block_shape(whole.shape, state.axis, group.size))


def gathered(local: Node, state: Sharded | Stored, group: Group) -> Node:
    """The whole of a value of which each rank has a block."""
    viewed, (axis,) = _with_runs(local, state)
    at = state.axis
    shape = (*local.shape[:at], local.shape[at] * group.size, *local.shape[at + 1 :])
    return reshape(ALL_GATHER(viewed, axis=axis, group=group), shape)


def scattered(partial: Node, state: Sharded | Stored, group: Group) -> Node:
    """A rank's block of the sum over the ranks."""
    viewed, (axis,) = _with_runs(partial, state)
    return reshape(REDUCE_SCATTER(viewed, axis=axis, group=group), block_shape(partial.shape, state.axis, group.size))


def exchanged(local: Node, held: Sharded, wanted: Sharded, group: Group) -> Node:
    """A rank's block along another axis than the one that it has a block along."""
    viewed, (join, split) = _with_runs(local, held, wanted)
    shape = list(block_shape(local.shape, wanted.axis, group.size))
    shape[held.axis] *= group.size
    return reshape(ALL_TO_ALL(viewed, split=split, join=join, group=group), tuple(shape))
