"""Random graphs, their inputs placed at random over a mesh: all ranks together have what one process has.

python -m tests.distributed.fuzz [COUNT] [SEED]
"""

from __future__ import annotations

import sys

import numpy as np

from tests.compiler.fuzz import Failure, minimised
from tests.compiler.random_graphs import STEPS, Builder, Untame, tolerance
from tests.compiler.wide_graphs import Sample, WideBuilder, differs
from tests.distributed.references import values_of_ranks
from wengert.compiler.distribute import Distributed, distribute, distribution
from wengert.compiler.passes import verify
from wengert.core.graph import Node
from wengert.core.mesh import Mesh
from wengert.core.placement import Placement
from wengert.ops import elementwise as e
from wengert.ops.attention import ATTENTION
from wengert.ops.convolve import CONVOLVE
from wengert.ops.core import data
from wengert.ops.gather import take, take_along_axis
from wengert.ops.movement import slice_axis

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


def _attention(b: Builder) -> Node:
    """Of a value to itself, causal or not, by heads where it has four axes."""
    found = [node for node in b.pool if node.dtype is b.dtype and node.ndim >= 2]
    if not found:
        raise Untame
    q, k = b.choice(found), b.choice(found)
    k = k if k.shape == q.shape else q
    return ATTENTION(q, k, e.tanh(k), causal=b.chance(0.5), scale=0.5)


def _channels(b: Builder) -> Node:
    """A convolution over the last axis, in one group or two."""
    found = [node for node in b.pool if node.dtype is b.dtype and node.ndim == 3 and node.shape[1] % 2 == 0]
    if not found:
        raise Untame
    x = b.choice(found)
    groups = b.choice([1, 2])
    weight = data(b.rng.uniform(-0.3, 0.3, (4, x.shape[1] // groups, 1)).astype(b.dtype))
    return CONVOLVE(x, weight, stride=(1,), padding=((0, 0),), dilation=(1,), groups=groups)


def _lookup(b: Builder) -> Node:
    """Rows by a value's integers, as an embedding, or one of each row, as a loss."""
    x = b.floating()
    if not x.ndim:
        raise Untame
    axis = int(b.rng.integers(x.ndim))
    if b.chance(0.5):
        return take(x, data(b.rng.integers(-x.shape[axis], x.shape[axis], b.choice([(4,), (2, 4)]))), axis=axis)
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return take_along_axis(x, data(b.rng.integers(0, x.shape[axis], shape)), axis=axis)


def _halves(b: Builder) -> Node:
    """The product of the halves of an axis."""
    x = b.floating()
    axes = [axis for axis, size in enumerate(x.shape) if size % 2 == 0]
    if not axes:
        raise Untame
    axis = b.choice(axes)
    half = x.shape[axis] // 2
    return slice_axis(x, axis, 0, half) * slice_axis(x, axis, half, 2 * half)


class EvenBuilder(Builder):
    """Graphs whose axes divide, with what models have beside."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.shapes = EVEN
        self.steps = [*STEPS, _attention, _channels, _lookup, _lookup, _halves, _halves]


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
    stored, runs, sizes = [], {}, list(shape)
    for name in mesh.sizes:
        axes = [axis for axis, size in enumerate(sizes) if size and size % counts[name] == 0]
        if axes and rng.random() < 0.7:
            splits[name] = axis = int(rng.choice(axes))
            if rng.random() < 0.3 and sizes[axis] % (2 * counts[name]) == 0:
                runs[name] = 2
            sizes[axis] //= counts[name]
            if rng.random() < 0.3:
                stored.append(name)
    return Placement(mesh, splits, stored, runs)


def distributed(seed: int, case: Sample) -> Distributed:
    """The graph, spread over a mesh with placements drawn for its inputs and for outputs that take their place."""
    rng = np.random.default_rng(seed)
    mesh = MESHES[int(rng.integers(len(MESHES)))]
    ranks = mesh.sizes.get("data", 1)
    parts = PARTS[int(rng.integers(len(PARTS)))]
    parts = None if parts is None or parts % ranks or "data" not in mesh else parts
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
            problem = differs(block, placement.block(expected, rank), allowed)
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
