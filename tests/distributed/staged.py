"""All ranks of a pipeline in one process: what tests of `pipeline` compare with the whole."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import wengert as wg
from tests.distributed.lockstep import Place
from tests.distributed.threaded import run_ranks
from wengert.compiler.distribute import Distributed, distribute, distribution, localize, pieces_of
from wengert.compiler.pieces import Pieces
from wengert.core.graph import Graph
from wengert.core.mesh import Mesh
from wengert.runtime.arguments import take_apart
from wengert.runtime.capture import capture
from wengert.runtime.partitioned import placements
from wengert.runtime.pipelined import Pipelined
from wengert.runtime.program import Interpreter, build
from wengert.runtime.static.specialization import Specialization

Array = np.ndarray[Any, Any]


class Recorded(NamedTuple):
    """A call of a function as `compile` records it."""

    graph: Graph
    arrays: list[Any]
    binding: Any


class Ran(NamedTuple):
    """What the ranks ran, what each had to say, and what each output is on the ranks that have it."""

    found: Distributed
    pieces: list[Pieces]
    outputs: list[dict[int, Array]]
    log: dict[int, list[str]]


def record(function: Callable[..., Any], args: Sequence[Any]) -> Recorded:
    """Record a call of a function."""
    arguments = take_apart(None, tuple(args), {})
    assert arguments is not None
    captured = capture(function, arguments)
    binding = Specialization(captured, arguments, None).binding
    return Recorded(captured.graph, binding.arrays(arguments.leaves), binding)


def spread(
    recorded: Recorded, mesh: Mesh, parts: int | None, schedule: str = "1f1b", place: Place = lambda shape: None
) -> Distributed:
    """A recorded call over a mesh."""
    how = distribution(mesh, parts, wg.config.parts is not None, schedule)
    assert how is not None
    graph, arrays, binding = recorded
    inputs = placements(graph, how, arrays, binding.count)
    inputs = [place(a.shape) if k >= binding.count else p for k, (p, a) in enumerate(zip(inputs, arrays))]
    return distribute(graph, how, inputs, {k: i for i, k in binding.pairs}, binding.interface())


def run(recorded: Recorded, found: Distributed, mesh: Mesh, compiled: bool = False) -> Ran:
    """Run the programs of all ranks, each with its share of the inputs."""
    assert found.pipeline is not None
    own = [pieces_of(found, rank, recorded.binding.pairs) for rank in range(mesh.size)]
    make = build if compiled else lambda graph, pairs: Interpreter(graph)
    programs = [Pipelined(each, found.pipeline.group, make) for each in own]

    def work(rank: int) -> dict[int, Array]:
        blocks = {}
        for i in own[rank].inputs:
            array, placement = recorded.arrays[i], found.inputs[i]
            assert placement.is_held(rank)
            blocks[i] = np.array(placement.block(array, rank), order="C")
        return programs[rank](blocks, range(len(recorded.arrays)))

    results, log = run_ranks(mesh, work)
    outputs = [
        {rank: np.asarray(results[rank][k]) for rank in range(mesh.size) if k in results[rank]}
        for k in range(len(found.outputs))
    ]
    return Ran(found, own, outputs, log)


def check(
    function: Callable[..., Any],
    args: Sequence[Any],
    mesh: Mesh,
    parts: int | None,
    schedule: str = "1f1b",
    place: Place = lambda shape: None,
    rtol: float = 1e-9,
    atol: float = 1e-10,
) -> Ran:
    """Run a function as a pipeline, and compare every output on every rank that has it with the whole."""
    recorded = record(function, args)
    ran = run(recorded, spread(recorded, mesh, parts, schedule, place), mesh)
    for whole, held, placement in zip(Interpreter(recorded.graph)(recorded.arrays), ran.outputs, ran.found.outputs):
        assert set(held) == {rank for rank in range(mesh.size) if placement.is_held(rank)}
        for rank, block in held.items():
            np.testing.assert_allclose(block, placement.block(whole, rank), rtol=rtol, atol=atol)
    return ran


def check_bytes(
    function: Callable[..., Any], args: Sequence[Any], mesh: Mesh, parts: int, schedule: str = "1f1b"
) -> Ran:
    """Compile a function as a pipeline and as micro-batches of one rank: both must give the same bytes."""
    tier, wg.config.tier, wg.config.parts = wg.config.tier, "compile", parts
    try:
        recorded = record(function, args)
        alone = Mesh(data=1)
        one = spread(recorded, alone, parts)
        wanted = build(localize(one.graph, 0))(recorded.arrays)
        ran = run(recorded, spread(recorded, mesh, parts, schedule), mesh, compiled=True)
    finally:
        wg.config.tier, wg.config.parts = tier, None
    for whole, held, placement in zip(wanted, ran.outputs, ran.found.outputs):
        for rank, block in held.items():
            assert block.tobytes() == np.ascontiguousarray(placement.block(whole, rank)).tobytes()
    return ran
