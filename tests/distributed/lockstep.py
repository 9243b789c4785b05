"""All ranks of a partitioned program in one process, in lockstep: what tests of `partition` compare with the whole."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert import Tensor
from wengert.autodiff.ranks import over_ranks
from wengert.compiler.distribute import Distributed, distribute, distribution
from wengert.core.mesh import Mesh
from wengert.core.placement import Placement
from wengert.ops.core import data
from wengert.runtime.arguments import take_apart
from wengert.runtime.capture import capture
from wengert.runtime.partitioned import placements
from wengert.runtime.program import Interpreter
from wengert.runtime.static.specialization import Specialization

Place = Callable[[tuple[int, ...]], Placement | None]


def check(
    function: Callable[..., Any],
    args: Sequence[Any],
    mesh: Mesh,
    place: Place = lambda shape: None,
    parts: int | None = None,
    rtol: float = 1e-9,
    atol: float = 1e-10,
) -> Distributed:
    """Partition a call of a function, run all ranks, and compare every output of every rank with the whole.

    `place` says where a tensor from outside lies, by its shape. Returns what the ranks run.
    """
    arguments = take_apart(None, tuple(args), {})
    assert arguments is not None
    captured = capture(function, arguments)
    binding = Specialization(captured, arguments, None).binding
    arrays = binding.arrays(arguments.leaves)
    spread = distribution(mesh, parts)
    assert spread is not None
    inputs = placements(captured.graph, spread, arrays, binding.count)
    inputs = [place(a.shape) if k >= binding.count else p for k, (p, a) in enumerate(zip(inputs, arrays))]
    found = distribute(captured.graph, spread, inputs, {k: i for i, k in binding.pairs})
    results = run(found, arrays, mesh)
    for expected, got, placement in zip(Interpreter(captured.graph)(arrays), results, found.outputs):
        for rank in range(mesh.size):
            block = placement.block(expected, rank)
            np.testing.assert_allclose(got[rank], block, rtol=rtol, atol=atol)
    return found


def run(found: Distributed, arrays: Sequence[Any], mesh: Mesh) -> list[np.ndarray[Any, Any]]:
    """The outputs of all ranks, stacked."""
    lanes = {}
    for node, placement, array in zip(found.graph.inputs, found.inputs, arrays):
        blocks = [placement.block(array, rank) for rank in range(mesh.size)]
        lanes[node] = data(np.stack(blocks))
    return [Tensor(node).detach().numpy() for node in over_ranks(found.graph.outputs, lanes, mesh)]


def collectives(found: Distributed) -> Counter[str]:
    """How many collectives of each kind a rank runs."""
    return Counter(node.op.name for node in found.graph.nodes if node.op.collective)
