"""Pipelined programs: one rank's part of a pipeline, with the interface of the global function.

As in `partitioned`; and of the inputs and outputs, a rank has those of its stage. In place of another stage's values, a
call takes and returns `ShardedArray`s without memory. Values that the function returns are on every rank. A rank runs
its pieces one after another, each a compiled program (`compiler/pieces`); equal pieces of several micro-batches share
one program.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from wengert.backends.protocol import NOTHING, Runnable
from wengert.compiler.distribute import Distributed, pieces_of
from wengert.compiler.pieces import Compute, Pieces, Receive, Send, TakePart
from wengert.core import communication
from wengert.core.canonical import canonical
from wengert.core.communication import Communicator, communicator, current
from wengert.core.devices import HOST, moved, on_host
from wengert.core.graph import Graph
from wengert.core.placement import Absent, Placement, ShardedArray
from wengert.runtime.partitioned import PartitionedProgram, agree, block_here


class Pipelined:
    """A rank's pieces as programs, run in order over slots."""

    def __init__(self, own: Pieces, group: Any, build: Callable[..., Runnable]) -> None:
        self.pieces, self.group = own, group
        built: dict[Hashable, Runnable] = {}
        self.programs: list[Runnable | None] = []
        for step in own.steps:
            program = None
            if isinstance(step, Compute):
                key = canonical(step.graph), step.pairs
                program = built[key] = built.get(key) or build(step.graph, pairs=step.pairs)
            self.programs.append(program)
        self.distinct = list(built.values())

    @property
    def is_compiled(self) -> bool:
        """Whether all pieces are compiled."""
        return all(program.is_compiled for program in self.distinct)

    @property
    def longest(self) -> Runnable:
        """The program of the piece with the most nodes, which inspection methods show."""
        runs = zip(self.pieces.steps, self.programs)
        found = max(runs, key=lambda run: len(run[0].graph.nodes) if isinstance(run[0], Compute) else -1)[1]
        assert found is not None
        return found

    def __call__(self, inputs: Mapping[int, Any], owned: Container[int]) -> dict[int, Any]:
        """The outputs by number, given the inputs by number; those in `owned` may be overwritten."""
        slots = {slot: inputs[i] for i, slot in self.pieces.inputs.items()} | self.pieces.constants
        free = {slot for i, slot in self.pieces.inputs.items() if i in owned}
        others = communicator(self.group)
        for step, program, ends in zip(self.pieces.steps, self.programs, self.pieces.ends):
            self._carry_out(step, program, slots, free, others)
            for slot in ends:
                slots.pop(slot, None)
        return {k: slots[slot] for k, slot in self.pieces.outputs.items()}

    def _carry_out(
        self, step: Any, program: Runnable | None, slots: dict[int, Any], free: set[int], others: Communicator
    ) -> None:
        if program is not None:
            own = [place for place, slot in enumerate(step.takes) if slot in free]
            results = program([slots[slot] for slot in step.takes], own)
            slots.update(zip(step.gives, results))
        elif isinstance(step, TakePart):
            slots[step.slot] = _part(slots[step.whole], step.slices)
        elif isinstance(step, Send):
            others.send(on_host(slots[step.slot]), step.target)
        elif isinstance(step, Receive):
            array = others.receive(step.shape, step.dtype, step.source)
            slots[step.slot] = array if step.device == HOST else moved(array, step.device)


def _part(array: Any, slices: tuple[slice, ...]) -> Any:
    """A part of an array; on another device than the host by way of it."""
    if isinstance(array, np.ndarray):
        return np.ascontiguousarray(array[slices])
    return moved(np.ascontiguousarray(on_host(array)[slices]), array.device)


class PipelinedProgram(PartitionedProgram):
    """The program of this rank of a pipeline. Inspection methods show its longest piece."""

    def __init__(
        self, pipelined: Pipelined, spread: Distributed, pairs: Sequence[tuple[int, int]], graph: Graph
    ) -> None:
        super().__init__(pipelined.longest, spread, pairs)
        self.pipelined = pipelined
        self._types = [(node.shape, node.dtype, node.device) for node in graph.outputs]

    @property
    def is_compiled(self) -> bool:
        """Whether all pieces are compiled."""
        return self.pipelined.is_compiled

    def __call__(
        self, arrays: Sequence[Any], owned: Container[int] = (), spare: Mapping[int, Any] = NOTHING
    ) -> list[Any]:
        """The arrays of the outputs: whole, blocks of this rank, or nothing."""
        if communication.watcher is not None:
            communication.watcher.step()
        taken = self.pipelined.pieces.inputs
        blocks = {
            i: block_here(array, placement)
            for i, (array, placement) in enumerate(zip(arrays, self._inputs))
            if i in taken or _moves(array, placement)
        }
        found = self.pipelined(blocks, owned)
        return [
            self._wrapped(k, found[k], arrays, spare) if k in found else self._absent(k, arrays)
            for k in range(len(self._outputs))
        ]

    def _absent(self, k: int, arrays: Sequence[Any]) -> ShardedArray:
        """A placeholder for an output of another stage."""
        placement: Placement = self._outputs[k]  # type: ignore[assignment]
        held = arrays[self._pairs[k]] if k in self._pairs else None
        if isinstance(held, ShardedArray) and held.placement == placement:
            return held
        shape, dtype, device = self._types[k]
        return ShardedArray(Absent(placement.block_shape(shape), dtype, device), shape, placement)

    def replay(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """Not available: a rank waits for others at every transfer, so a faster path is not worthwhile."""


def _moves(array: Any, placement: Placement | None) -> bool:
    """Whether an array must be gathered to change its placement, which all ranks do together."""
    return isinstance(array, ShardedArray) and array.placement != placement


def build_pipelined(
    graph: Graph, found: Distributed, pairs: Sequence[tuple[int, int]], build: Callable[..., Runnable]
) -> PipelinedProgram:
    """Build this rank's program of a graph that is distributed over stages."""
    assert found.pipeline is not None and found.schedule is not None
    agree(found.graph, found.schedule.name)
    own = pieces_of(found, current.rank, pairs)
    return PipelinedProgram(Pipelined(own, found.pipeline.group, build), found, pairs, graph)
