"""Pipelined programs: the program of one stage's ranks, called with the values of the whole and giving those.

As `partitioned`, and of the inputs and outputs a rank has those of its stage. What belongs to another stage is not
there: in its place a call is given, and gives, a `ShardedArray` without memory. Values that the function returns are on
every rank.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

from wengert.backends.protocol import NOTHING, Runnable
from wengert.compiler.distribute import Distributed, of_stage
from wengert.core.communication import current
from wengert.core.graph import Graph
from wengert.core.placement import Absent, Placement, ShardedArray
from wengert.runtime.partitioned import PartitionedProgram, agree, block_here


class PipelinedProgram(PartitionedProgram):
    """The program of this rank's stage."""

    def __init__(
        self,
        program: Runnable,
        spread: Distributed,
        pairs: Sequence[tuple[int, int]],
        graph: Graph,
        taken: Sequence[int],
    ) -> None:
        super().__init__(program, spread, pairs)
        assert spread.pipeline is not None
        stage = spread.pipeline.group.rank_of(current.rank)
        self._types = [(node.shape, node.dtype, node.device) for node in graph.outputs]
        self._taken = {i: place for place, i in enumerate(taken)}
        held = [k for k, ranks in enumerate(spread.pipeline.outputs) if stage in ranks]
        self._given = {k: place for place, k in enumerate(held)}

    def __call__(
        self, arrays: Sequence[Any], owned: Container[int] = (), spare: Mapping[int, Any] = NOTHING
    ) -> list[Any]:
        """The arrays of the outputs: whole, blocks of this rank, or nothing."""
        seen = [block_here(array, p) if i in self._taken or _moves(array, p) else None
                for i, (array, p) in enumerate(zip(arrays, self._inputs))]
        blocks = [seen[i] for i in self._taken]
        mine = {place for i, place in self._taken.items() if i in owned}
        fitting = {k: array for k, array in spare.items() if k in self._given and self._fits(k, array)}
        free = {self._given[k]: block_here(array, self._outputs[k]) for k, array in fitting.items()}
        results = self.program(blocks, mine, free)
        return [
            self._wrapped(k, results[self._given[k]], arrays, spare)
            if k in self._given
            else self._absent(k, arrays, spare)
            for k in range(len(self._outputs))
        ]

    def _absent(self, k: int, arrays: Sequence[Any], spare: Mapping[int, Any]) -> ShardedArray:
        """In place of an output of another stage."""
        placement: Placement = self._outputs[k]  # type: ignore[assignment]
        for held in (arrays[self._pairs[k]] if k in self._pairs else None, spare.get(k)):
            if isinstance(held, ShardedArray) and held.placement == placement:
                return held
        shape, dtype, device = self._types[k]
        return ShardedArray(Absent(placement.block_shape(shape), dtype, device), shape, placement)

    def replay(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """A rank waits for others at every transfer: there is no faster path worth having."""


def _moves(array: Any, placement: Placement | None) -> bool:
    """Whether an array has to be gathered to lie elsewhere, which all ranks do together."""
    return isinstance(array, ShardedArray) and array.placement != placement


def build_pipelined(
    graph: Graph, found: Distributed, pairs: Sequence[tuple[int, int]], build: Callable[..., Runnable]
) -> PipelinedProgram:
    """The program of this rank of a graph that is spread over stages."""
    agree(found.graph)
    own = of_stage(found, current.rank)
    assert found.pipeline is not None
    stage = found.pipeline.group.rank_of(current.rank)
    taken = {i: place for place, i in enumerate(own.inputs)}
    held = [k for k, ranks in enumerate(found.pipeline.outputs) if stage in ranks]
    given = {k: place for place, k in enumerate(held)}
    inside = [(taken[i], given[k]) for i, k in pairs if i in taken and k in given]
    program = build(own.graph, pairs=inside, before=found.reports)
    return PipelinedProgram(program, found, pairs, graph, own.inputs)
