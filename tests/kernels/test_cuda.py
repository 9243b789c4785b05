"""The CUDA writer of the loop language: emulated kernels equal the references, in shapes worked out and in others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.compiler.test_compiled_ops import CASES, _reference, record
from tests.kernels.cuda_graphs import CudaGraph
from tests.kernels.emulator import Emulator, compiler
from tests.ops.suite import identifier
from wengert.graph import Graph, now

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate CUDA with")

UNIT = 60  # graphs to a library


def emulated_cases(cases: list[Any]) -> None:
    """The results of some of the op suite's cases and of their gradients, by emulated kernels and by the references."""
    wg.synchronize()
    since = now()
    recorded = [(case, record(case)) for case in cases]
    graphs = [(case, Graph(p[0], p[2], since), p[1]) for case, p in recorded if p is not None]
    programs = [(case, graph, arrays, CudaGraph(graph)) for case, graph, arrays in graphs]
    emulator = Emulator(work for *_, program in programs for work, _ in program.works.values())
    for case, graph, arrays, program in programs:
        constants = {n: n.buffer for n in graph.captured()}
        with np.errstate(all="ignore"):
            found = program.run(arrays, emulator)
            expected = _reference(graph, dict(zip(graph.inputs, arrays)), constants)
        for node, got, want in zip(graph.outputs, found, expected):
            assert got.dtype == want.dtype and got.shape == want.shape, identifier(case)
            if want.dtype.kind in "fc":
                np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11, err_msg=f"{identifier(case)}: {node}")
            else:
                np.testing.assert_array_equal(got, want, err_msg=f"{identifier(case)}: {node}")


def test_ops_as_cuda_equal_their_references() -> None:
    emulated_cases(CASES[:: max(1, len(CASES) // UNIT)])


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(CASES), UNIT))
def test_every_op_as_cuda_equals_its_reference(start: int) -> None:
    emulated_cases(CASES[start : start + UNIT])
