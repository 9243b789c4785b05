"""Every op the core's suite samples: compiled equals reference, forward and backward; many graphs to a C unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.ops.suite import Call, collect, identifier
from wengert.backends.cpu.program import build
from wengert.backends.cpu.toolchain import compiler
from wengert.core import tree
from wengert.core.dtypes import COMPLEX
from wengert.core.errors import WengertError
from wengert.core.graph import Graph, Node, now
from wengert.ops.core import placeholder

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C compiler to build kernels with"),
    pytest.mark.usefixtures("quick_builds"),
]

CASES = collect()
UNIT = 60  # graphs to a C unit


def every_second(cases: Sequence[Any], first: int) -> list[Any]:
    """Every second case of each function, from the first or from the second one on."""
    functions: dict[str, list[Any]] = {}
    for case in cases:
        functions.setdefault(case.name, []).append(case)
    return [case for same in functions.values() for case in same[first::2]]


def units() -> Iterator[Any]:
    """All cases in lists of UNIT: of each function one half is always run, the other by `make test-all`."""
    for first, marks in ((0, ()), (1, pytest.mark.slow)):
        cases = every_second(CASES, first)
        for start in range(0, len(cases), UNIT):
            yield pytest.param(cases[start : start + UNIT], marks=marks, id=f"{first}-{start}")


def outputs_of(call: Call, inputs: list[Node]) -> list[Node]:
    """The floating-point and other results of a case, and the cotangents of its inputs, as nodes over placeholders."""
    tensors = [wg.Tensor(node) for node in inputs]
    result = call(*tensors)
    nodes = [leaf.node for leaf in tree.flatten(result)[0] if isinstance(leaf, wg.Tensor)]
    if call.case.differentiable and inputs:
        nodes += [leaf.node for leaf in tree.flatten(_gradient(call, tensors))[0]]
    return nodes


def _gradient(call: Call, tensors: list[wg.Tensor]) -> Any:
    dtype = tensors[0].dtype

    def loss(*values: wg.Tensor) -> wg.Tensor:
        parts = [leaf for leaf in tree.flatten(call.invariant(*values))[0] if isinstance(leaf, wg.Tensor)]
        total = wg.tensor(0.0, dtype=dtype)
        for part in parts:
            if part.dtype == dtype:
                total = total + wg.sin(part * 0.7).sum()
            elif part.dtype in COMPLEX:
                total = total + wg.abs(wg.sin(part * 0.7)).sum()
        return total

    return wg.grad(loss, tuple(range(len(tensors))))(*tensors)


def record(case: Any, dtype: Any = wg.float64) -> tuple[list[Node], list[np.ndarray], list[Node]] | None:
    """The inputs, their values and the outputs of a case in a dtype; None for one that looks at values while
    recording.
    """
    call = Call(case)
    arrays = [np.array(call.leaves[i], dtype, order="C") for i in call.floating]
    inputs = [placeholder(a.shape, a.dtype) for a in arrays]
    try:
        outputs = outputs_of(call, inputs)
    except WengertError as error:
        if isinstance(error, wg.errors.AbstractValueError):
            return None
        raise
    return inputs, arrays, outputs


@pytest.mark.parametrize("cases", list(units()))
def test_compiled_equals_reference(cases: list[Any]) -> None:
    wg.synchronize()  # a generator's counter is read as a constant: it must have a value
    since = now()
    recorded = [(case, record(case)) for case in cases]
    kept = [(case, parts) for case, parts in recorded if parts is not None]
    inputs = [node for _, (nodes, _, _) in kept for node in nodes]
    arrays = [array for _, (_, values, _) in kept for array in values]
    graph = Graph(inputs, [node for _, (_, _, outputs) in kept for node in outputs], since)
    found = iter(build(graph)(arrays))
    for case, (nodes, values, outputs) in kept:
        one = Graph(nodes, outputs, since)
        constants = {n: n.buffer for n in one.captured()}
        with np.errstate(all="ignore"):
            expected = _reference(one, dict(zip(nodes, values)), constants)
        for node, want in zip(outputs, expected):
            got = next(found)
            assert got.dtype == want.dtype and got.shape == want.shape, identifier(case)
            if want.dtype.kind in "fc":
                np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11, err_msg=f"{identifier(case)}: {node}")
            else:
                np.testing.assert_array_equal(got, want, err_msg=f"{identifier(case)}: {node}")


def _reference(graph: Graph, inputs: dict[Node, Any], constants: dict[Node, Any]) -> list[Any]:
    values = {**constants, **inputs}
    for node in graph.nodes:
        values[node] = node.op.run([values[source] for source in node.sources], node)
    return [values[node] for node in graph.outputs]
