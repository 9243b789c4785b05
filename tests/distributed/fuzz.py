"""Random graphs, their inputs placed at random over a mesh: all ranks together have what one process has.

python -m tests.distributed.fuzz [COUNT] [SEED]
"""

from __future__ import annotations

import sys

import numpy as np

from tests.compiler.fuzz import Failure, minimised
from tests.compiler.random_graphs import Builder, tolerance
from tests.compiler.wide_graphs import Sample, WideBuilder, differs
from tests.distributed.ranks import values_of_ranks
from wengert.compiler.distribute import Distributed, distribute, distribution
from wengert.compiler.verify import verify
from wengert.core.mesh import Mesh
from wengert.core.placement import Placement

MESHES = (Mesh(data=2), Mesh(tensor=2), Mesh(data=2, tensor=2), Mesh(tensor=4), Mesh(data=4, tensor=2))
EVEN = [
    (),
    (4,),
    (8,),
    (4, 8),
    (8, 4),
    (1, 8),
    (4, 1),
    (4, 8, 4),
    (2, 4, 8),
    (4, 1, 8),
    (8, 8),
    (4, 4, 2),
    (2, 2, 4, 4),
]
PARTS = (None, None, None, 4, 8)


class EvenBuilder(Builder):
    """Graphs whose axes divide."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.shapes = EVEN


class WideEvenBuilder(WideBuilder):
    """Wide graphs whose axes divide."""

    def _shapes(self) -> list[tuple[int, ...]]:
        return [*EVEN, (16,), (16, 3), (3, 16), (12, 4)]


def sample(seed: int) -> Sample:
    """A graph of a seed: of the families of `random_graphs`, or wide."""
    if seed % 3 == 2:
        return WideEvenBuilder(seed).sample(20)
    graph, arrays = EvenBuilder(seed).build(20)
    return Sample(graph, arrays, graph(*arrays), [tolerance(graph)] * len(graph.outputs))


def random_placement(rng: np.random.Generator, mesh: Mesh, shape: tuple[int, ...], counts: dict[str, int]) -> Placement:
    """Any axis of a value along any of the mesh where it divides, worked on or stored."""
    splits: dict[str, int] = {}
    stored, sizes = [], list(shape)
    for name in mesh.sizes:
        axes = [axis for axis, size in enumerate(sizes) if size and size % counts[name] == 0]
        if axes and rng.random() < 0.7:
            splits[name] = axis = int(rng.choice(axes))
            sizes[axis] //= counts[name]
            if rng.random() < 0.3:
                stored.append(name)
    return Placement(mesh, splits, stored)


def distributed(seed: int, case: Sample) -> Distributed:
    """The graph, spread over a mesh with placements drawn for its inputs and for outputs that take their place."""
    rng = np.random.default_rng(seed)
    mesh = MESHES[int(rng.integers(len(MESHES)))]
    ranks = mesh.sizes.get("data", 1)
    parts = PARTS[int(rng.integers(len(PARTS)))]
    parts = None if parts is None or parts % ranks else parts
    spread = distribution(mesh, parts)
    assert spread is not None
    counts = {**mesh.sizes, "data": spread.count}
    inputs = [random_placement(rng, mesh, node.shape, counts) for node in case.graph.inputs]
    paired = {}
    for k, output in enumerate(case.graph.outputs):
        alike = [
            i for i, node in enumerate(case.graph.inputs) if (node.shape, node.dtype) == (output.shape, output.dtype)
        ]
        if alike and rng.random() < 0.5:
            paired[k] = int(rng.choice(alike))
    return distribute(case.graph, spread, inputs, paired)


def difference(seed: int, case: Sample) -> str | None:
    """How the ranks differ from one process, in words; None if they do not."""
    found = distributed(seed, case)
    verify(found.graph)
    results = values_of_ranks(found, case.arrays)
    for k, (expected, allowed, got, placement) in enumerate(zip(case.expected, case.allowed, results, found.outputs)):
        for rank, block in enumerate(got):
            problem = differs(block, expected[placement.slices(expected.shape, rank)], allowed)
            if problem:
                return f"output {k}, rank {rank} of {placement}: {problem}"
    return None


def problem_of(seed: int, case: Sample) -> str | None:
    """What is wrong with the ranks' program, in words; None if nothing is."""
    try:
        return difference(seed, case)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def main(count: int = 300, seed: int = 0) -> int:
    """Try so many seeds; the number of those that failed."""
    failures = 0
    for number in range(seed, seed + count):
        case = sample(number)
        problem = problem_of(number, case)
        if problem:
            failures += 1
            small = minimised(Failure(number, case, (), problem), lambda case, off, seed=number: problem_of(seed, case))
            print(small, distributed(number, small.sample).inputs, flush=True)
    print(f"{count} graphs, {failures} failures")
    return failures


if __name__ == "__main__":
    sys.exit(min(main(*map(int, sys.argv[1:3])), 1))
