"""Spaces: the iteration axes of an op and its arrays' strides along them, merged to as few axes as possible.

An access of an array is its offset and its strides, in elements; axes come slowest first.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from wengert.core.graph import Shape
from wengert.kernels.ir.index import strides
from wengert.kernels.launch import Struct

AXES = 8  # that a kernel takes
LARGEST = (1 << 31) - (1 << 20)  # places and counts below it fit 32 bits, a block's reach included


class Access(NamedTuple):
    """Where an array has the elements of a space."""

    steps: tuple[int, ...]
    offset: int = 0


@dataclass(frozen=True)
class Space:
    """Axes, none of which could be left out, and the accesses of some arrays."""

    extents: tuple[int, ...]
    accesses: tuple[Access, ...]

    @property
    def count(self) -> int:
        """How many elements there are."""
        return math.prod(self.extents)

    @property
    def fits(self) -> bool:
        """Whether kernels can go over it: few axes, places of 32 bits."""
        reach = [sum((n - 1) * abs(step) for n, step in zip(self.extents, a.steps)) for a in self.accesses]
        return len(self.extents) <= AXES and max([self.count, *reach]) < LARGEST

    def in_vectors(self, width: int) -> bool:
        """Whether this many elements along the last axis lie side by side, from a multiple on, or are one,
        everywhere."""
        if any(access.steps[-1] not in (0, 1) for access in self.accesses):
            return False
        moving = [access for access in self.accesses if access.steps[-1]]
        if any(access.offset % width for access in moving):
            return False
        return self.extents[-1] % width == 0 and all(s % width == 0 for a in moving for s in a.steps[:-1])

    def packed(self) -> Struct:
        """As `wg_space` in prebuilt.cuh."""
        made = np.zeros((), _layout(len(self.accesses)))
        made["offset"] = [access.offset for access in self.accesses]
        made["count"], made["axes"] = self.count, len(self.extents)
        for k, extent in enumerate(reversed(self.extents)):
            made["extent"][k], made["multiplier"][k], made["shift"][k] = extent, *_divisor(max(extent, 1))
        for n, access in enumerate(self.accesses):
            made["step"][n, : len(access.steps)] = access.steps[::-1]
        return Struct(made.tobytes())


@functools.cache
def _layout(arrays: int) -> np.dtype[Any]:
    numbers = [(name, np.uint32, AXES) for name in ("extent", "multiplier", "shift")]
    sizes = [("count", np.uint32), ("axes", np.uint32)]
    return np.dtype([("offset", np.int64, arrays), *sizes, *numbers, ("step", np.int32, (arrays, AXES))], align=True)


def _divisor(by: int) -> tuple[int, int]:
    """The multiplier and the shift that divide numbers below 2^31 (Granlund and Montgomery, 1994)."""
    shift = (by - 1).bit_length()
    return ((1 << 32) * ((1 << shift) - by)) // by + 1, shift


def space(extents: Sequence[int], accesses: Sequence[Access]) -> Space:
    """The space without axes of size 1, and with axes merged that are contiguous in every array."""
    kept: list[tuple[int, list[int]]] = []
    for extent, steps in zip(extents, zip(*(access.steps for access in accesses))):
        if extent == 1:
            continue
        if kept and all(slow == step * extent for slow, step in zip(kept[-1][1], steps)):
            kept[-1] = kept[-1][0] * extent, list(steps)
        else:
            kept.append((extent, list(steps)))
    if not kept:
        kept = [(1, [0] * len(accesses))]
    found = zip(*(steps for _, steps in kept))
    return Space(tuple(n for n, _ in kept), tuple(Access(s, a.offset) for s, a in zip(found, accesses)))


def whole(shape: Shape) -> Access:
    """All elements of an array, in order."""
    return Access(tuple(strides(shape)))


def broadcast(source: Shape, shape: Shape) -> Access:
    """The elements of an array that is broadcast to a shape."""
    steps = [0 if n == 1 else step for n, step in zip(source, strides(source))]
    return Access((0,) * (len(shape) - len(source)) + tuple(steps))


def sliced(shape: Shape, starts: Sequence[int], steps: Sequence[int]) -> Access:
    """The elements of an array from `starts` on, `steps` apart along each axis."""
    along = strides(shape)
    return Access(tuple(a * b for a, b in zip(along, steps)), sum(a * b for a, b in zip(along, starts)))
