"""Reused output arrays of programs on a GPU: allocating from the driver takes longer than a launch."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from wengert.backends.cuda.memory import DeviceArray
from wengert.core.devices import keepers
from wengert.core.graph import Shape
from wengert.core.ownership import ownership

SMALL = 1 << 12  # bytes
MANY, MANY_LARGE = 4, 2  # small and large arrays that are kept for an output: the last result, and the next


class OutputArrays:
    """Arrays for one output. An array that nothing refers to any more is reused.

    Its readers come earlier in the stream. No more arrays are kept than were in use at once before.
    """

    def __init__(self, shape: Shape, dtype: np.dtype[Any], device: str) -> None:
        self.given: list[DeviceArray] = []
        self.make = partial(DeviceArray, shape, dtype, device)
        self.most = MANY if math.prod(shape) * dtype.itemsize <= SMALL else MANY_LARGE
        keepers.add(self)

    def take(self) -> DeviceArray:
        """An array."""
        place = ownership.unused(self.given)
        if place is not None:
            return self.given[place]
        array = self.make()
        if len(self.given) < self.most and not ownership.copies:
            self.given.append(array)
        return array

    def let_go(self) -> None:
        """Drop all unused arrays: memory is short."""
        self.given.clear()
