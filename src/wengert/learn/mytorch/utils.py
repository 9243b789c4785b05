"""Gradients by place: an array is known by where its numbers lie in memory."""

from __future__ import annotations

from typing import Any

import numpy as np


class GradientBuffer:
    """A dictionary from arrays' places in memory to their gradients.

    A view that begins where its array does (`x.T`, `x[:1]`) has the same place, and so the same spot: copy it to tell
    the two apart.
    """

    def __init__(self) -> None:
        self.memory: dict[int, Any] = {}

    @staticmethod
    def get_memory_loc(np_array: Any) -> int:
        """The place of an array's first number; of a plain number, which has no array, that of the object."""
        return id(np_array) if np.isscalar(np_array) else np_array.__array_interface__["data"][0]

    def is_in_memory(self, np_array: Any) -> bool:
        """Whether an array has a spot."""
        return self.get_memory_loc(np_array) in self.memory

    def add_spot(self, np_array: Any) -> None:
        """Give an array a spot, with a gradient of zeros, unless it has one."""
        if not self.is_in_memory(np_array):
            self.memory[self.get_memory_loc(np_array)] = np.zeros(np.shape(np_array))

    def update_param(self, np_array: Any, gradient: Any) -> None:
        """Add to an array's gradient. None adds nothing."""
        if gradient is None:
            return
        updated = self.get_param(np_array) + gradient
        if np.shape(updated) != np.shape(np_array):
            raise ValueError(
                f"a gradient of shape {np.shape(gradient)} for an array of shape {np.shape(np_array)}: a backward "
                "operation gives each input a gradient of the input's own shape"
            )
        self.set_param(np_array, updated)

    def get_param(self, np_array: Any) -> Any:
        """An array's gradient."""
        self._require_spot(np_array)
        return self.memory[self.get_memory_loc(np_array)]

    def set_param(self, np_array: Any, gradient: Any) -> None:
        """Replace an array's gradient."""
        self._require_spot(np_array)
        self.memory[self.get_memory_loc(np_array)] = gradient

    def clear(self) -> None:
        """Forget all spots."""
        self.memory = {}

    def _require_spot(self, np_array: Any) -> None:
        if not self.is_in_memory(np_array):
            raise LookupError(
                f"an array of shape {np.shape(np_array)} has no spot in the gradient buffer: only inputs of operations "
                "have one, and a copy is another array"
            )


MemoryBuffer = GradientBuffer
