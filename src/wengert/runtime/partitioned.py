"""Partitioned programs: the program of one rank, with the interface of the global function.

In: a recorded graph with global shapes, its distribution over a mesh, and the arrays of its inputs. Out: a program like
any other. It takes this rank's blocks of its inputs; distributed outputs are `ShardedArray`s. Before the first run, all
ranks check that their programs agree.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any

import numpy as np

from wengert.backends.protocol import NOTHING, Replay, Runnable
from wengert.compiler.distribute import DATA_AXIS, SEQUENCE_AXIS, Distributed, Distribution, distribute, localize
from wengert.compiler.stages import Interface
from wengert.core import communication, devices
from wengert.core.code import describe
from wengert.core.communication import current
from wengert.core.devices import moved, on_host
from wengert.core.errors import ArgumentError
from wengert.core.graph import Graph, Node, describe_type
from wengert.core.mesh import Group
from wengert.core.placement import Placement, ShardedArray, block_of
from wengert.ops.core import data
from wengert.ops.movement import take_slice
from wengert.runtime.dynamic.realize import value


def placements(
    graph: Graph, spread: Distribution, arrays: Sequence[Any], arguments: int, microbatches: int | None = None
) -> list[Placement | None]:
    """The placements of the inputs, the first of which are arguments: replicated arguments are split along their first
    axes.

    Splitting an argument does not change results, because `partition` preserves the program's meaning. With
    `microbatches`, one of the arguments must divide into that many.
    """
    if microbatches:
        _check_microbatches(graph.inputs[:arguments], microbatches)
    return [
        array.placement if isinstance(array, ShardedArray) else _cut(node.shape, spread) if k < arguments else None
        for k, (node, array) in enumerate(zip(graph.inputs, arrays))
    ]


def _cut(shape: tuple[int, ...], spread: Distribution) -> Placement | None:
    """Along "data" the first axis is cut, along "sequence" the second, where they divide."""
    counts = {DATA_AXIS: spread.count, SEQUENCE_AXIS: spread.mesh.sizes.get(SEQUENCE_AXIS, 1)}
    splits = {
        name: axis
        for axis, (name, count) in enumerate(counts.items())
        if count > 1 and axis < len(shape) and shape[axis] % count == 0
    }
    return Placement(spread.mesh, splits) if splits else None


def _check_microbatches(arguments: Sequence[Node], count: int) -> None:
    """Raise an error if no argument can be cut into this many parts: the batch would be computed at once."""
    if not any(node.shape and node.shape[0] % count == 0 for node in arguments):
        shapes = ", ".join(str(node.shape) for node in arguments) or "of none"
        raise ArgumentError(
            f"compile: no argument has a first axis that divides into microbatches={count}: shapes {shapes}"
        )


class PartitionedProgram:
    """The program of this rank, over blocks. Its inspection methods show the rank's own program."""

    def __init__(self, program: Runnable, spread: Distributed, pairs: Sequence[tuple[int, int]]) -> None:
        self.program = program
        self.distributed = spread
        self._inputs = [None if p.is_replicated and not p.splits else p for p in spread.inputs]
        self._outputs = [None if p.is_replicated and not p.splits else p for p in spread.outputs]
        self._pairs = {k: i for i, k in pairs}

    def __getattr__(self, name: str) -> Any:
        if name == "program":
            raise AttributeError(name)
        return getattr(self.program, name)

    @property
    def is_compiled(self) -> bool:
        """Whether the rank's program is compiled."""
        return self.program.is_compiled

    def __call__(
        self, arrays: Sequence[Any], owned: Container[int] = (), spare: Mapping[int, Any] = NOTHING
    ) -> list[Any]:
        """The arrays of the outputs: whole, or blocks of this rank."""
        if communication.watcher is not None:
            communication.watcher.step()
        blocks = [block_here(array, placement) for array, placement in zip(arrays, self._inputs)]
        free = {k: block_here(array, self._outputs[k]) for k, array in spare.items() if self._fits(k, array)}
        results = self.program(blocks, owned, free)
        return [self._wrapped(k, result, arrays, spare) for k, result in enumerate(results)]

    def _fits(self, k: int, array: Any) -> bool:
        """Whether an array has the placement of an output."""
        return (array.placement if isinstance(array, ShardedArray) else None) == self._outputs[k]

    def _wrapped(self, k: int, block: Any, arrays: Sequence[Any], spare: Mapping[int, Any]) -> Any:
        placement = self._outputs[k]
        if placement is None:
            return block
        for held in (arrays[self._pairs[k]] if k in self._pairs else None, spare.get(k)):
            if isinstance(held, ShardedArray) and held.block is block:
                return held  # overwritten in place
        return self._as_sharded(k, block)

    def _shape(self, k: int, block: Any) -> tuple[int, ...]:
        placement = self._outputs[k]
        shape = list(block.shape)
        for name, axis in placement.splits.items():  # type: ignore[union-attr]
            shape[axis] *= placement.mesh.sizes[name]  # type: ignore[union-attr]
        return tuple(shape)

    def replay(self, inputs: Sequence[int], outputs: Sequence[int]) -> Replay | None:
        """Replay the rank's program on the memory of its last call."""
        found = self.program.replay(inputs, outputs)
        if found is None:
            return None
        wraps = [None if self._outputs[k] is None else functools.partial(self._as_sharded, k) for k in outputs]
        return _Replay(found, [self._inputs[k] for k in inputs], wraps)

    def _as_sharded(self, k: int, block: Any) -> ShardedArray:
        """A block of this rank as a sharded output."""
        return ShardedArray(block, self._shape(k, block), self._outputs[k])  # type: ignore[arg-type]


class _Replay:
    """A replay that takes the blocks of its inputs and makes those of its outputs."""

    def __init__(
        self,
        replay: Replay,
        placements: Sequence[Placement | None],
        wraps: Sequence[Callable[[Any], ShardedArray] | None],
    ) -> None:
        self._replay, self._placements = replay, placements
        pairs = zip(replay.makers, wraps)
        self._makers = [make if wrap is None else _wrapping(make, wrap) for make, wrap in pairs]

    @property
    def makers(self) -> Sequence[Callable[[], Any]]:
        """What makes arrays for the outputs."""
        return self._makers

    def refresh(self) -> None:
        """Look again at what others may have overwritten where it lies."""
        self._replay.refresh()

    def run(self, arrays: Sequence[Any], made: Sequence[Any]) -> bool:
        """Compute the outputs from the blocks of these arrays."""
        if communication.watcher is not None:
            communication.watcher.step()
        blocks = [block_here(array, placement) for array, placement in zip(arrays, self._placements)]
        return self._replay.run(blocks, [array.block if type(array) is ShardedArray else array for array in made])


def _wrapping(make: Callable[[], Any], wrap: Callable[[Any], ShardedArray]) -> Callable[[], ShardedArray]:
    return lambda: wrap(make())


def block_here(array: Any, placement: Placement | None) -> Any:
    """A rank's part of an array: its block, whatever the array's placement."""
    if isinstance(array, ShardedArray):
        if array.placement == placement:
            return array.block
        array = array.whole(on_host)
    if placement is None:
        return array
    return block_of(array, placement) if isinstance(array, np.ndarray) else _block_on_device(array, placement)


def _block_on_device(array: Any, placement: Placement) -> Any:
    """The block of this rank of a whole array on a device: rows where they lie, anything else as a copy."""
    if placement.runs:
        return moved(block_of(on_host(array), placement), array.device)
    places = placement.slices(tuple(array.shape), current.rank)
    sizes = tuple([place.stop - place.start for place in places])
    cut = take_slice(data(array, array.device), tuple([place.start for place in places]), (1,) * len(places), sizes)
    if cut.shape == array.shape:
        return array
    view = devices.of(array.device).view(cut, array)
    return value(cut) if view is None else view


def build_partitioned(
    graph: Graph,
    spread: Distribution,
    inputs: Sequence[Placement | None],
    pairs: Sequence[tuple[int, int]],
    build: Callable[..., Runnable],
    interface: Interface | None = None,
) -> PartitionedProgram:
    """Build this rank's program of a recorded graph; `build` makes programs from graphs."""
    if spread.mesh.size != current.size:
        raise ArgumentError(
            f"compile: {spread.mesh} has {spread.mesh.size} ranks, but the world has {current.size}. "
            "Make the mesh with wg.distributed.start().mesh(...)"
        )
    found = distribute(graph, spread, inputs, {k: i for i, k in pairs}, interface)
    if found.pipeline is not None:
        from wengert.runtime.pipelined import build_pipelined  # which has programs of this kind

        return build_pipelined(graph, found, pairs, functools.partial(build, before=found.reports))
    agree(found.graph)
    local = localize(found.graph, current.rank)
    return PartitionedProgram(build(local, before=found.reports), found, pairs)


def agree(graph: Graph, *more: str) -> None:
    """Compare a graph, and everything else ranks must agree on, with all ranks; raises an error if they differ."""
    if communication.watcher is not None:
        lines = [*described(graph), *more]
        communication.watcher.agree("program", hashlib.sha256("\n".join(lines).encode()).hexdigest(), lambda: lines)


def described(graph: Graph) -> list[str]:
    """A graph as lines that are equal on all ranks that run the same program, each with the user's line."""
    names = {node: f"input {i}" for i, node in enumerate(graph.inputs)}
    lines = [f"{names[node]}: {describe_type(node)}" for node in dict.fromkeys(graph.inputs)]
    for number, node in enumerate(graph.nodes):
        names[node] = f"value {number}"
        read = ", ".join(names.get(source, "a constant") for source in node.sources)
        lines.append(f"{node.op.name}({read}){_attributes(node)}: {describe_type(node)}  at {describe(node.location)}")
    return [*lines, *(f"output {names.get(node, 'a constant')}" for node in graph.outputs)]


def _attributes(node: Node) -> str:
    plain = {key: value for key, value in node.attrs.items() if isinstance(value, (int, float, str, tuple, Group))}
    return f" {plain}" if plain else ""
