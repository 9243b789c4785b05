"""Random programs of loops and branches over the emulated GPU: bodies of every dtype, with constants and branches."""

from __future__ import annotations

import numpy as np
import pytest

from tests.backends.emulated import EmulatedDriver
from tests.compiler.fuzz import joined, passes_off
from tests.compiler.loop_graphs import loop_graph
from tests.compiler.wide_graphs import differs
from wengert.backends.cuda.memory import download
from wengert.backends.cuda.program import build
from wengert.compiler.passes import optimize
from wengert.core.graph import Graph
from wengert.ops.core import to_device

SEEDS = range(9020, 9060)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_loop_on_a_gpu_equals_the_references(gpu: EmulatedDriver, seed: int) -> None:
    whole = joined([loop_graph(seed)])
    moved = [to_device(node, "cuda:0") for node in whole.graph.outputs]
    graph, _ = optimize(Graph(whole.graph.inputs, moved, nodes=[*whole.graph.nodes, *moved]), off=passes_off(seed))
    program = build(graph)
    first, second = ([np.asarray(download(array)) for array in program(whole.arrays)] for _ in range(2))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(first, second))
    problems = [differs(*result) for result in zip(first, whole.expected, whole.allowed)]
    assert not any(problems), [problem for problem in problems if problem]
