"""The CPU's part of the fast path: call a program again on its last call's memory, with some inputs and outputs moved.

Only the addresses of these are looked up: they are put into the pointer table of the last call, and the program's C
runs, all in one call of `wg_again` (`kernels/table.h`). If references run in between (collectives, which send values to
other ranks), there is one such call for each piece of C between them.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
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

    The caller guarantees that everything else is where the program's last call left it.
    """

    def __init__(self, program: CpuProgram, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        self.program = program
        self.makers = [recycler.maker(node.shape, node.dtype) for node in (program.graph.outputs[k] for k in outputs)]
        results = [program.made[program.made_as.index(k)] for k in outputs]
        nodes = [*(program.graph.inputs[i] for i in inputs), *results]
        self.moving = [program.slots[node] for node in nodes]
        self.parts: list[Any] = [program.last]  # which C refers to
        self.stages = self._stages(program)
        self.table = _fixed(program, self.moving) if len(self.stages) > 1 else []

    def _stages(self, program: CpuProgram) -> list[int | Callable[..., None]]:
        """The stages of a replay in order: addresses of pieces of C, the first with the table, and references."""
        stages: list[int | Callable[..., None]] = []
        pieces: list[str] = []
        for piece, call in zip(program.pieces, program.calls):
            if isinstance(piece, str):
                pieces.append(piece)
                continue
            if pieces or not stages:
                stages.append(self._c_stage(pieces, () if stages else self.moving))
            stages.append(call)
            pieces = []
        if pieces or not stages:
            stages.append(self._c_stage(pieces, () if stages else self.moving))
        return stages

    def _c_stage(self, names: Sequence[str], moving: Sequence[int]) -> int:
        """The address of the arguments of `wg_again`: which table entries to set, and which pieces to run."""
        functions = [ctypes.cast(getattr(self.program.library, name), ctypes.c_void_p) for name in names]
        pieces = (ctypes.c_void_p * len(functions))(*[function.value for function in functions])
        places = (ctypes.c_long * len(moving))(*moving)
        io, pieces_at, places_at = [ctypes.addressof(part) for part in (self.program.last, pieces, places)]
        again = _Again(io, self.program.arena_address, len(pieces), pieces_at, len(places), places_at, HEAD)
        self.parts += [pieces, places, again]
        return ctypes.addressof(again)

    @staticmethod
    def of(program: CpuProgram, inputs: Sequence[int], outputs: Sequence[int]) -> CpuReplay | None:
        """The replay, or None for a program that has to make more than these outputs."""
        if program.apart or not program.copied.issubset(inputs) or not set(program.made_as).issuperset(outputs):
            return None
        return CpuReplay(program, inputs, outputs)

    def refresh(self) -> None:
        """Does nothing: the program reads everything in place."""

    def run(self, arrays: Sequence[Array], made: Sequence[Array]) -> bool:
        """Compute the outputs from arrays for the inputs; returns False if an index was out of range."""
        program = self.program
        table = (*map(np.ascontiguousarray, arrays), *made)
        with program.lock:
            if program.loops_alone:
                failed = program.again(self.stages[0], id(table) + ITEMS)
            else:
                with single_threaded:
                    failed = program.again(self.stages[0], id(table) + ITEMS) or self._go_on(table)
        return not (failed and program.has_failed())

    def _go_on(self, table: tuple[Array, ...]) -> bool:
        """The stages after the first. An index out of range raises here, because collectives must not be repeated."""
        if len(self.stages) == 1:
            return False
        program, results = self.program, dict[Any, Any]()
        for place, array in zip(self.moving, table):
            self.table[place] = array
        try:
            for stage in self.stages[1:]:
                if not isinstance(stage, int):
                    stage(program.last, program.arena_address, self.table, results)
                elif program.again(stage, None):
                    program._raise_by_reference(self.table[: len(program.graph.inputs)])
        finally:
            for place in self.moving:  # because others check their reference counts
                self.table[place] = None
        return False


def _fixed(program: CpuProgram, moving: Sequence[int]) -> list[Any]:
    """The arrays of a program's table as views that own nothing; None for those that move."""
    nodes = [*program.graph.inputs, *program.plan.buffers.constants, *program.made]
    return [
        None if slot in moving else _view(program.last[slot] or 0, node.shape, node.dtype)
        for slot, node in enumerate(nodes)
    ]


def _view(address: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    size = math.prod(shape) * dtype.itemsize
    if not size:
        return np.empty(shape, dtype)
    memory: Any = (ctypes.c_char * size).from_address(address)
    return np.ndarray(shape, dtype, memory)
