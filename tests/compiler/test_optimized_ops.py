"""Every op the core's suite samples, forward and backward: the optimised graph gives what the recorded one does."""

from __future__ import annotations

import numpy as np
import pytest

from tests.compiler.test_compiled_ops import CASES, UNIT, record
from tests.ops.suite import identifier
from wengert.compiler.passes import optimize
from wengert.core.graph import Graph


@pytest.mark.parametrize("start", range(0, len(CASES), UNIT))
def test_optimised_equals_reference(start: int) -> None:
    for case in CASES[start : start + UNIT]:
        recorded = record(case)
        if recorded is None:
            continue
        inputs, arrays, outputs = recorded
        graph = Graph(inputs, outputs, since=0)  # with the global generator's counter, which earlier cases moved
        optimized, _ = optimize(graph)
        with np.errstate(all="ignore"):
            for found, expected in zip(optimized(*arrays), graph(*arrays), strict=True):
                assert found.dtype == expected.dtype and found.shape == expected.shape, identifier(case)
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11, err_msg=identifier(case))
