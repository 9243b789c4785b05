"""The CPU's part of the fast path: a program called again on its last call's memory, but for some inputs and outputs.

Nothing is looked up but where these lie: their addresses are put into the table that the last call left, and the
program's C runs, all in one call of `wg_again` (`kernels/table.h`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from wengert.backends.cpu.blas import single_threaded
from wengert.backends.cpu.recycle import recycler

if TYPE_CHECKING:
    from wengert.backends.cpu.program import CpuProgram

HEAD = object.__basicsize__  # bytes that every Python object begins with
ITEMS = tuple.__basicsize__  # bytes before the items of a tuple

Array = np.ndarray[Any, Any]


class _Again(ctypes.Structure):
    """`wg_again_t`."""

    _fields_ = (
        *(("io", ctypes.c_void_p), ("arena", ctypes.c_void_p)),
        *(("piece_count", ctypes.c_long), ("pieces", ctypes.c_void_p)),
        *(("count", ctypes.c_long), ("places", ctypes.c_void_p), ("head", ctypes.c_long)),
    )


class CpuReplay:
    """Replays a program in which only the inputs numbered `inputs` and the outputs numbered `outputs` may move.

    Whoever calls this sees to it that everything else is where the last call of the program left it.
    """

    def __init__(self, program: CpuProgram, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        self.program = program
        self.makers = [recycler.maker(node.shape, node.dtype) for node in (program.graph.outputs[k] for k in outputs)]
        results = [program.made[program.made_as.index(k)] for k in outputs]
        nodes = [*(program.graph.inputs[i] for i in inputs), *results]
        places = (ctypes.c_long * len(nodes))(*[program.slots[node] for node in nodes])
        functions = [ctypes.cast(getattr(program.library, name), ctypes.c_void_p) for name in program.pieces]
        pieces = (ctypes.c_void_p * len(functions))(*[function.value for function in functions])
        self.parts: list[Any] = [program.last, pieces, places]  # which C refers to
        io, pieces_at, places_at = [ctypes.addressof(part) for part in self.parts]
        self.again = _Again(io, program.arena_address, len(pieces), pieces_at, len(places), places_at, HEAD)
        self.address = ctypes.addressof(self.again)

    @staticmethod
    def of(program: CpuProgram, inputs: Sequence[int], outputs: Sequence[int]) -> CpuReplay | None:
        """The replay, or None for a program in which more happens than C at these addresses."""
        is_all_c = not program.apart and all(isinstance(piece, str) for piece in program.pieces)
        if not is_all_c or not program.copied.issubset(inputs) or not set(program.made_as).issuperset(outputs):
            return None
        return CpuReplay(program, inputs, outputs)

    def refresh(self) -> None:
        """The program reads everything where it lies."""

    def run(self, arrays: Sequence[Array], made: Sequence[Array]) -> bool:
        """Compute the outputs from arrays for the inputs; not if an index was out of range."""
        program = self.program
        table = (*map(np.ascontiguousarray, arrays), *made)
        with program.lock:
            if program.loops_alone:
                failed = program.again(self.address, id(table) + ITEMS)
            else:
                with single_threaded:
                    failed = program.again(self.address, id(table) + ITEMS)
        return not failed
