"""The fuzzer: wide random graphs, a random subset of passes off, several graphs to a C unit; interpreted = compiled.

    python -m tests.compiler.fuzz [COUNT] [SEED]

Every third hundred of four are loops (loop_graphs.py), every fourth reductions of long rows (long_rows.py).

What differs is made small (outputs, passes, then the graph cut off from above and below) and printed as Python.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from tests.compiler.long_rows import long_rows
from tests.compiler.loop_graphs import loop_graph
from tests.compiler.wide_graphs import Sample, differs, wide_graph
from wengert.backends.cpu.program import build
from wengert.compiler.cleanup import live
from wengert.compiler.passes import optimize
from wengert.core.graph import Graph, Node, as_python, record_again, recorded_as
from wengert.kernels import c
from wengert.ops.core import placeholder

UNIT = 10  # graphs to a C unit
STAGES = ("fuse", "schedule", "parallel_regions", "liveness", "arena")  # of the plan, that change something on the CPU
SWITCHES = ("simplify", "cse", "batch_matmul", "transpose_matmul", "dce", *STAGES)
ATTEMPTS = 80  # programs built to make a failure small

Make = Callable[[int], Sample]  # a graph of a seed
Fails = Callable[[Sample, Sequence[str]], "str | None"]


class Failure(NamedTuple):
    """A graph that compiled is not what it is interpreted, with the passes that were off, and how it differs."""

    seed: int
    sample: Sample
    off: tuple[str, ...]
    problem: str

    def __str__(self) -> str:
        inputs = "".join(f"# x{i}: {_shown(array)}\n" for i, array in enumerate(self.sample.arrays))
        constants = "".join(f"# c{i}: {_shown(node.buffer)}\n" for i, node in enumerate(self.sample.graph.captured()))
        text = as_python(self.sample.graph)
        return f"seed {self.seed}, without {list(self.off)}: {self.problem}\n{inputs}{constants}{text}"


def _shown(array: Any) -> str:
    return f"{array.dtype} {np.array2string(array, threshold=20) if array.size <= 20 else list(array.shape)}"


def passes_off(seed: int) -> tuple[str, ...]:
    """The passes that are off for a unit: none in a third of them."""
    rng = np.random.default_rng(seed)
    return () if rng.random() < 0.3 else tuple(name for name in SWITCHES if rng.random() < 0.4)


def fuzz(seeds: Sequence[int], make: Make = wide_graph) -> Iterator[Failure]:
    """The failures among the graphs of these seeds, as they were found."""
    for start in range(0, len(seeds), UNIT):
        some = seeds[start : start + UNIT]
        yield from check_unit(some, passes_off(some[0]), make)


def check_unit(seeds: Sequence[int], off: Sequence[str], make: Make = wide_graph) -> list[Failure]:
    """The failures among the graphs of these seeds, compiled as one program."""
    samples = [make(seed) for seed in seeds]
    whole = joined(samples)
    try:
        found = iter(_compiled(whole, off)(whole.arrays))
    except Exception as error:
        return _failures_alone(seeds, samples, off, error)
    failures = []
    for seed, sample in zip(seeds, samples):
        problem = next(filter(None, [differs(next(found), *pair) for pair in _pairs(sample)]), None)
        if problem:
            failures.append(Failure(seed, sample, tuple(off), problem))
    return failures


def _pairs(sample: Sample) -> list[tuple[np.ndarray, float]]:
    return list(zip(sample.expected, sample.allowed))


def _failures_alone(seeds: Sequence[int], samples: Sequence[Sample], off: Sequence[str], error: Any) -> list[Failure]:
    found = [(seed, sample, problem_of(sample, off)) for seed, sample in zip(seeds, samples)]
    failures = [Failure(seed, sample, tuple(off), problem) for seed, sample, problem in found if problem]
    return failures or [Failure(seeds[0], joined(samples), tuple(off), f"only as one unit: {error!r}")]


def joined(samples: Sequence[Sample]) -> Sample:
    """Several graphs as one."""
    inputs = [node for sample in samples for node in sample.graph.inputs]
    outputs = [node for sample in samples for node in sample.graph.outputs]
    nodes = [node for sample in samples for node in sample.graph.nodes]
    arrays, expected, allowed = ([item for sample in samples for item in sample[k]] for k in (1, 2, 3))
    return Sample(Graph(inputs, outputs, nodes=nodes), arrays, expected, allowed)


def _compiled(sample: Sample, off: Sequence[str]) -> Callable[[Sequence[np.ndarray]], list[np.ndarray]]:
    graph, _ = optimize(sample.graph, off=off)
    with patch.object(
        c.source, "WORTH_THREADS", 2_000
    ):  # so that small graphs have parallel loops, regions and parts too
        return build(graph, off=off)


def problem_of(sample: Sample, off: Sequence[str]) -> str | None:
    """How a compiled graph differs from what it must give; None if it does not."""
    try:
        results = _compiled(sample, off)(sample.arrays)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return next(filter(None, [differs(found, *pair) for found, pair in zip(results, _pairs(sample))]), None)


# --- making a failure small -------------------------------------------------------------------------------------------


def minimised(failure: Failure, fails: Fails = problem_of) -> Failure:
    """A smaller graph that still fails: one output, few passes, values in the middle given as inputs."""
    attempts = iter(range(ATTEMPTS))

    def smaller(sample: Sample, off: Sequence[str]) -> bool:
        nonlocal failure
        problem = fails(sample, off) if next(attempts, None) is not None else None
        if problem:
            failure = Failure(failure.seed, sample, tuple(off), problem)
        return problem is not None

    any(smaller(_with_output(failure.sample, k), failure.off) for k in range(len(failure.sample.expected)))
    for off in (SWITCHES, *[sorted({*failure.off, name}) for name in SWITCHES]):
        smaller(failure.sample, off)
    while any(smaller(cut, failure.off) for cut in _cuts(failure.sample)):
        pass
    return failure


def _with_output(sample: Sample, k: int) -> Sample:
    return _read(sample._replace(expected=[sample.expected[k]], allowed=[sample.allowed[k]]), [sample.graph.outputs[k]])


def _read(sample: Sample, outputs: Sequence[Node]) -> Sample:
    """The graph of these outputs, without inputs that it does not read."""
    graph = live(Graph(sample.graph.inputs, outputs, nodes=sample.graph.nodes))
    read = {source for node in graph.nodes for source in node.sources} | set(outputs)
    pairs = [(node, array) for node, array in zip(graph.inputs, sample.arrays) if node in read]
    kept = Graph([node for node, _ in pairs], outputs, nodes=graph.nodes)
    return sample._replace(graph=kept, arrays=[array for _, array in pairs])


def _cuts(sample: Sample) -> Iterator[Sample]:
    """The graph with one of its values given as an input, and with an earlier value for its output."""
    values = reference_values(sample.graph, sample.arrays)
    nodes = [node for node in sample.graph.nodes if not isinstance(node.dtype, tuple)]
    for node in nodes:
        if node.op.name != "literal" and node not in sample.graph.outputs:
            shorter = _read(sample._replace(expected=[values[node]], allowed=[max(sample.allowed)]), [node])
            if len(shorter.graph.nodes) < len(sample.graph.nodes):
                yield shorter
    for node in reversed(nodes):
        if node.op.name != "literal" and node not in sample.graph.outputs:
            yield _given(sample, node, values[node])


def _given(sample: Sample, node: Node, value: np.ndarray) -> Sample:
    """The graph with a value as a further input."""
    graph = sample.graph
    inputs = [*graph.inputs, placeholder(node.shape, node.dtype)]
    replacing = {node: inputs[-1]}
    with recorded_as(None, False):
        record_again([one for one in graph.nodes if one is not node], replacing)
    outputs = [replacing.get(one, one) for one in graph.outputs]
    nodes = sorted([replacing[one] for one in graph.nodes if one is not node], key=lambda one: one.serial)
    whole = sample._replace(graph=Graph(inputs, outputs, nodes=nodes), arrays=[*sample.arrays, value])
    return _read(whole, outputs)


def reference_values(graph: Graph, arrays: Sequence[np.ndarray]) -> dict[Node, Any]:
    """Every value of a graph, by the references."""
    values: dict[Node, Any] = dict(zip(graph.inputs, arrays))
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            values[node] = node.op.run([values.get(s, s.buffer) for s in node.sources], node)
    return values


def main(count: int = 1000, seed: int = 0) -> int:
    """Fuzz with `count` graphs; the number of those that failed."""
    failures = 0
    for start in range(seed, seed + count, 100):
        make = {2: loop_graph, 3: long_rows}.get(start // 100 % 4, wide_graph)
        for failure in fuzz(range(start, min(start + 100, seed + count)), make):
            failures += 1
            print(minimised(failure), flush=True)
        print(f"{min(start + 100, seed + count) - seed} graphs, {failures} failures", flush=True)
    return failures


if __name__ == "__main__":
    sys.exit(min(main(*map(int, sys.argv[1:3])), 1))
