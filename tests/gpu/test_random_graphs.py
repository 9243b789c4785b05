"""Random graphs of the fuzzer's on the GPU: they give what the references give, and the same bits twice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.compiler.fuzz import joined, passes_off
from tests.compiler.long_rows import long_rows
from tests.compiler.wide_graphs import Sample, differs, wide_graph
from wengert.backends.cuda.memory import download
from wengert.backends.cuda.program import build
from wengert.compiler.passes import optimize
from wengert.core.graph import Graph
from wengert.ops.core import to_device

UNIT = 10  # graphs to a program


@pytest.mark.parametrize("start", range(0, 300, UNIT))
@pytest.mark.parametrize("make", [wide_graph, long_rows], ids=lambda make: make.__name__)
def test_on_the_gpu_equals_reference(make: Callable[[int], Sample], start: int) -> None:
    whole = joined([make(7000 + seed) for seed in range(start, start + UNIT)])
    moved = [to_device(node, "cuda:0") for node in whole.graph.outputs]
    graph, _ = optimize(Graph(whole.graph.inputs, moved, nodes=[*whole.graph.nodes, *moved]), off=passes_off(start))
    program = build(graph)
    first, second = ([np.asarray(download(array)) for array in program(whole.arrays)] for _ in range(2))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(first, second))
    problems = [differs(*result) for result in zip(first, whole.expected, whole.allowed)]
    assert not any(problems), [problem for problem in problems if problem]
