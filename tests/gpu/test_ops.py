"""Every op the core's suite samples, on the GPU: equal to the reference, forward and backward."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from tests.compiler.test_compiled_ops import CASES, _reference, record
from tests.ops.suite import identifier
from wengert.backends.cuda.program import Program
from wengert.graph import Graph, now
from wengert.ops.core import to_device

UNIT = 60  # graphs to a program


@pytest.mark.parametrize("start", range(0, len(CASES), UNIT))
def test_on_the_gpu_equals_reference(start: int) -> None:
    wg.synchronize()
    since = now()
    recorded = [(case, record(case)) for case in CASES[start : start + UNIT]]
    kept = [(case, parts) for case, parts in recorded if parts is not None]
    inputs = [node for _, (nodes, _, _) in kept for node in nodes]
    arrays = [array for _, (_, values, _) in kept for array in values]
    outputs = [to_device(node, "cuda:0") for _, (_, _, nodes) in kept for node in nodes]
    found = iter(Program(Graph(inputs, outputs, since))(arrays))
    wrong = []
    for case, (nodes, values, results) in kept:
        one = Graph(nodes, results, since)
        with np.errstate(all="ignore"):
            expected = _reference(one, dict(zip(nodes, values)), {n: n.buffer for n in one.captured()})
        for want in expected:
            got = wg.Tensor(wg.ops.core.data(next(found), "cuda:0")).numpy()
            close = got.shape == want.shape and got.dtype == want.dtype
            if close and want.dtype.kind in "fc":
                close = np.allclose(got, want, rtol=1e-9, atol=1e-11, equal_nan=True)
            elif close:
                close = bool((got == want).all())
            if not close:
                wrong.append(identifier(case))
    assert not wrong, f"{len(wrong)} of {len(kept)}: {sorted(set(wrong))}"
