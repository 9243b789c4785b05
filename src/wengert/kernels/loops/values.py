"""Values in written-out loops: the name of each element, or an array and each element's position in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.compiler.loop_lanes import LaneAxes
from wengert.core.dtypes import HALF
from wengert.core.graph import Node
from wengert.kernels.writer import suffix

Elements = Any
"""An array of text: the name of each element of a value, or its literal."""


class InArray(NamedTuple):
    """A value in an array: the text of the element at a place there, and the place of each of its elements."""

    text: Callable[[str], str]
    places: np.ndarray[Any, Any]

    def step(self, t: str) -> InArray | None:
        """The element along the first axis in step t; None where these are not evenly spaced."""
        if not len(self.places):
            return self
        apart = self.places - self.places[:1]
        by = int(apart[1].flat[0]) if len(apart) > 1 and apart[1].size else 0
        rows = by * np.arange(len(apart)).reshape(-1, *(1,) * (apart.ndim - 1))
        if (apart != rows).any():
            return None
        return InArray(lambda place: self.text(f"{t} * {by} + {place}"), self.places[0])


def rounded(node: Node, value: str) -> str:
    """A value as it is kept from step to step."""
    return f"wg_round_{suffix(node.dtype)}({value})" if node.dtype in HALF else value


def places_of(node: Node, lanes: LaneAxes) -> Iterator[int]:
    """Where the elements of a value's first lane lie."""
    own = lanes.axes.get(node, ())
    every = np.arange(node.size).reshape(node.shape)
    yield from every[tuple(slice(1) if axis in own else slice(None) for axis in range(node.ndim))].ravel().tolist()


def array_of(shape: Sequence[int], names: Sequence[str]) -> Elements:
    """Names of elements in a shape."""
    found = np.empty(len(names), object)
    found[:] = names
    return found.reshape(tuple(shape))
