"""Repeats on the CPU: a program called again on the memory of its last call, but for some inputs and outputs.

Nothing is looked up but where these lie: their addresses are put into the table that the last call left, and the
program's C runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wengert.backends.recycle import address, recycler

if TYPE_CHECKING:
    from wengert.backends.cpu import Program

Array = np.ndarray[Any, Any]


class Repeat:
    """A call of a program in which only the inputs numbered `inputs` and the outputs numbered `outputs` may move.

    Whoever calls this sees to it that everything else is where the last call of the program left it.
    """

    def __init__(self, program: Program, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        self.program, self.pointers = program, program.last
        nodes = [*(program.graph.inputs[i] for i in inputs), *(program.made[program.made_as.index(k)] for k in outputs)]
        self.places = [program.slots[node] for node in nodes]
        results = [program.graph.outputs[k] for k in outputs]
        self.makers = [recycler.maker(node.shape, node.dtype) for node in results]
        self.functions = [getattr(program.library, name) for name in program.pieces]

    @staticmethod
    def of(program: Program, inputs: Sequence[int], outputs: Sequence[int]) -> Repeat | None:
        """The repeat, or None for a program in which more happens than C at these addresses."""
        if program.apart or not all(isinstance(piece, str) for piece in program.pieces):
            return None
        if not program.copied.issubset(inputs):
            return None
        return Repeat(program, inputs, outputs) if set(program.made_as).issuperset(outputs) else None

    def __call__(self, arrays: Sequence[Array]) -> list[Array] | None:
        """The outputs, computed from arrays for the inputs; None if an index was out of range: nothing was done."""
        program, pointers = self.program, self.pointers
        given = [*map(np.ascontiguousarray, arrays)]
        made = [make() for make in self.makers]
        with program.lock, program.surroundings:
            for place, array in zip(self.places, (*given, *made)):
                pointers[place] = address(array)
            for function in self.functions:
                function(pointers, program.arena_pointer)
                if program.error.value:
                    program.error.value = 0
                    return None
        return made
