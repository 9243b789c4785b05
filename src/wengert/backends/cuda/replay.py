"""The GPU's part of the fast path: call a program again on the memory of its last call, except for what may move."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from wengert.backends.cuda.calls import GraphSegment
from wengert.backends.cuda.memory import DeviceArray, unchecked
from wengert.backends.cuda.recycle import SMALL, OutputArrays
from wengert.backends.cuda.stream import current
from wengert.core.ownership import ownership

if TYPE_CHECKING:
    from wengert.backends.cuda.program import CudaProgram

LEFT, ASIDE = 4, 3  # addresses that are remembered, graphs that are kept besides the program's
Pointers = tuple[int, ...]
Staged = list[tuple[int, ref[Any]]]  # inputs by number, with their arrays on the host


class CudaReplay:
    """Replays a program in which only the inputs numbered `inputs` and the outputs numbered `outputs` may move.

    Recurring addresses, such as those of results that are held until the next call, get a graph each. The caller
    guarantees that nothing else has called the program since.
    """

    def __init__(self, program: CudaProgram, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        self.program, self.inputs, self.outputs = program, inputs, outputs
        first = len(program.plan.buffers.external) + len(program.plan.buffers.constants)
        made = {k: (first + i, shape, dtype) for i, (k, shape, dtype) in enumerate(program.fresh)}
        program.kept |= {k: OutputArrays(*made[k][1:], program.device) for k in outputs if k not in program.kept}
        self.makers = [program.kept[k].take for k in outputs]
        self.slots = [*(program.slots[program.graph.inputs[i]] for i in inputs), *(made[k][0] for k in outputs)]
        self.pointers = tuple([program.last[slot] for slot in self.slots])  # those that the program has
        self.left: deque[Pointers] = deque(maxlen=LEFT)  # those that it had before
        self.graphs: dict[Pointers, list[Any]] = {}  # by their addresses: the program's, and others that were kept
        self.staged: Staged = [(i, array) for i, array in program.from_host.items() if i not in inputs]
        self.staged_anew = [(i, array) for i, array in self.staged if i in program.counts or _is_shared(array)]
        self.counters = [(program.from_host[i], count) for i, count in program.counts.items()]
        self.noted: dict[str, None] = {}  # where the checks of this program were noted last

    @staticmethod
    def of(program: CudaProgram, inputs: Sequence[int], outputs: Sequence[int]) -> CudaReplay | None:
        """The replay, or None for a program that does more than launches at these addresses."""
        if not program.captures or not all(isinstance(piece, GraphSegment) for piece in program.pieces):
            return None
        if len(program.counts) < len(program.plan.host.hosted) or not program.counts.keys() <= program.from_host.keys():
            return None  # the host does more than count
        if any(array.nbytes > SMALL for i, (array, _) in program.staging.items() if i not in inputs):
            return None  # host arrays are uploaded at every call
        changed = {program.plan.host.numbers[k] for k, *_ in program.changed}
        if not {k for k, *_ in program.fresh}.issuperset(outputs) or changed & {*outputs}:
            return None
        return CudaReplay(program, inputs, outputs)

    def refresh(self) -> None:
        """Upload host arrays that were overwritten since."""
        self._bring_up(self.staged)

    def _bring_up(self, staged: Staged) -> bool:
        """Upload arrays that differ from the last upload; returns whether all of them still exist."""
        program = self.program
        for i, reference in staged:
            array: Any = reference()
            if array is None:  # another thread has just given its slot another
                return False
            if array.tobytes() != program.staging[i][1]:
                program.staged(i, array)
        return True

    def _finish(self) -> None:
        """Update counters on the host as the program does, and report its collectives."""
        for counter, count in ((found, n) for reference, n in self.counters if (found := reference()) is not None):
            np.add(counter, count, out=counter)
        if self.program.collectives is not None:
            self.program.collectives.tell(self.program.driver)

    def run(self, arrays: Sequence[Any], made: Sequence[DeviceArray]) -> bool:
        """Compute the fresh outputs from arrays for the moving inputs; returns False if something it reads is gone."""
        program = self.program
        driver = program.driver
        driver.lock.acquire()  # a third of the time of a with statement
        try:
            if current.driver is not driver:  # which it would ask itself: a call less
                driver.make_current()
            if self.staged_anew and not self._bring_up(self.staged_anew):
                return False
            table = [*arrays, *made]
            try:
                pointers = tuple([array.pointer for array in table])
            except AttributeError:  # some are on the host
                table = [*map(program.staged, self.inputs, arrays), *made]
                pointers = tuple([array.pointer for array in table])
            if program.checks and self.noted is not unchecked.get(program.device):
                # Record the ops with indices again: errors were checked since the last record.
                self.noted = unchecked.setdefault(program.device, {})
                self.noted.update(program.checks)
            graphs = self.graphs.get(pointers)
            if graphs is None:
                self._run(table, pointers)
            else:
                for graph in graphs:
                    graph.replay()
            if self.counters or program.collectives is not None:
                self._finish()
        finally:
            driver.lock.release()
        return True

    def _run(self, table: Sequence[DeviceArray], pointers: Pointers) -> None:
        """Run the program where no graph has these addresses, and keep the resulting graph."""
        program = self.program
        if pointers != self.pointers:
            self._move(table, pointers)
        program.copy_in()
        for piece in program.pieces:
            piece.run(True)
        program.copy_out()
        graphs = [piece.graph for piece in program.pieces]
        if None not in graphs and not program.fixed:
            self.graphs[pointers] = graphs

    def _move(self, table: Sequence[DeviceArray], pointers: Pointers) -> None:
        """Set other addresses in the program; for addresses seen before, in a new graph, keeping the current one."""
        program = self.program
        comes_back = pointers in self.left and len(self.graphs) <= ASIDE and not program.fixed
        if comes_back:
            for piece in program.pieces:
                piece.graph = None
        else:
            self.graphs.pop(self.pointers, None)
        self.left.append(self.pointers)
        self.pointers = ()  # until all are moved: there may be no memory for that
        for slot, array in zip(self.slots, table):
            if array.pointer != program.last[slot]:
                program.move(slot, array, comes_back)
        self.pointers = pointers


def _is_shared(reference: ref[Any]) -> bool:
    """Whether an array has references besides its node: others could write to it unseen."""
    array: Any = reference()
    return ownership.others([array]) != [2] or array.base is not None  # the node's, and that of the name
