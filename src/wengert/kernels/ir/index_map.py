"""Places: which element of its sources an element of a node is made from. Movement ops are nothing but this map.

A Place is the indices of an element, or its position in row-major order where a reshape made the indices of no use (a
buffer needs only the position); and guards outside of which the value is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from wengert.core.graph import Node, Shape
from wengert.kernels.ir.index import ZERO, Index, Loop, Quotient, add, flat, number, scale, unflat, variable
from wengert.ops.movement import BROADCAST, FLIP, PERMUTE, RESHAPE, SLICE


@dataclass(frozen=True)
class Guard:
    """A condition on an index: `low <= index < high`, and a multiple of `step` from `low`."""

    index: Index
    low: int
    high: int
    step: int = 1

    @property
    def always(self) -> bool:
        """Whether it holds whatever the loops are at."""
        low, high = self.index.bounds()
        return self.step == 1 and self.low <= low and high < self.high

    @property
    def never(self) -> bool:
        """Whether it holds nowhere, as far as bounds tell."""
        low, high = self.index.bounds()
        return high < self.low or low >= self.high


class IndexMap(NamedTuple):
    """An element of a node: its indices or its position, and the guards outside of which it counts as 0."""

    indices: tuple[Index, ...] | None
    position: Index | None = None
    guards: tuple[Guard, ...] = ()

    def flat(self, shape: Shape) -> Index:
        """The position in row-major order."""
        if self.position is not None:
            return self.position
        assert self.indices is not None
        return _position(self.indices, shape)

    def along(self, shape: Shape) -> tuple[Index, ...]:
        """The index along each axis."""
        if self.indices is not None:
            return self.indices
        assert self.position is not None
        return unflat(self.position, shape)


_position = lru_cache(maxsize=1 << 14)(flat)  # a model's values have few shapes, and are read at few places


def loops_of(shape: Shape) -> list[Loop]:
    """A loop for each axis of a shape."""
    return [Loop(f"i{axis}", n) for axis, n in enumerate(shape)]


def everywhere(loops: Sequence[Loop]) -> IndexMap:
    """The element that the loops are at."""
    return IndexMap(tuple(variable(loop) for loop in loops))


def broadcast_place(place: IndexMap, shape: Shape, source: Shape) -> IndexMap:
    """The element of a source that was broadcast to `shape`."""
    if source == shape:
        return place
    indices = place.along(shape)[len(shape) - len(source) :]
    return IndexMap(tuple(ZERO if n == 1 else i for i, n in zip(indices, source)), None, place.guards)


def moved_place(node: Node, place: IndexMap) -> IndexMap:
    """The element of a movement op's source that an element of it is."""
    source, attrs, op = node.sources[0].shape, node.attrs, node.op
    if op is BROADCAST:
        return broadcast_place(place, node.shape, source)
    if op is RESHAPE:
        return _reshaped(node.shape, source, place)
    indices = place.along(node.shape)
    if op is PERMUTE:
        found = [ZERO] * len(source)
        for axis, index in zip(attrs["axes"], indices):
            found[axis] = index
        return IndexMap(tuple(found), None, place.guards)
    if op is SLICE:
        steps = zip(indices, attrs["starts"], attrs["steps"])
        return IndexMap(tuple(add(scale(i, t), number(s)) for i, s, t in steps), None, place.guards)
    if op is FLIP:
        turned = [
            add(scale(i, -1), number(n - 1)) if axis in attrs["axes"] else i
            for axis, (i, n) in enumerate(zip(indices, source))
        ]
        return IndexMap(tuple(turned), None, place.guards)
    return _placed(node, indices, place.guards)


def _reshaped(shape: Shape, source: Shape, place: IndexMap) -> IndexMap:
    if place.indices is not None and _without_ones(shape) == _without_ones(source):
        rest = iter([index for index, n in zip(place.indices, shape) if n != 1])
        return IndexMap(tuple(ZERO if n == 1 else next(rest) for n in source), None, place.guards)
    return IndexMap(None, place.flat(shape), place.guards)


def _without_ones(shape: Shape) -> Shape:
    return tuple(n for n in shape if n != 1)


def _placed(node: Node, indices: Sequence[Index], guards: tuple[Guard, ...]) -> IndexMap:
    """The element of what was laid into zeros; guarded, since most places are zeros."""
    found, more = [], list(guards)
    for index, n, start, step in zip(indices, node.sources[0].shape, node.attrs["starts"], node.attrs["steps"]):
        guard = Guard(index, start, start + max(n - 1, 0) * step + 1 if n else start, step)
        if not guard.always:
            more.append(guard)
        back = add(index, number(-start))
        found.append(back if step == 1 else Index(((Quotient(back, step), 1),)))
    return IndexMap(tuple(found), None, tuple(more))
