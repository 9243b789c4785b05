"""Every op the core's suite samples, on the GPU: equal to the reference, forward and backward, in every dtype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.compiler.test_compiled_ops import CASES, record
from tests.compiler.three_steps import tier
from tests.ops.case import Case
from tests.ops.suite import TOLERANCES, Call, function_of, identifier
from wengert.backends.checked import Reference, difference, references_of
from wengert.backends.cuda.program import build
from wengert.core import tree
from wengert.core.graph import Graph, now
from wengert.ops.core import data, to_device

UNIT = 60  # graphs to a program
HALVES = [case for case in CASES if case.half and Call(case).floating]
UNITS = [
    *[(dtype, start) for dtype in ("float64", "float32") for start in range(0, len(CASES), UNIT)],
    *[(dtype, start) for dtype in ("float16", "bfloat16") for start in range(0, len(HALVES), UNIT)],
]


@pytest.mark.parametrize("dtype, start", UNITS)
def test_compiled_on_the_gpu_equals_reference(dtype: str, start: int) -> None:
    wg.synchronize()
    since = now()
    cases = (CASES if dtype in ("float64", "float32") else HALVES)[start : start + UNIT]
    recorded = [(case, record(case, getattr(wg, dtype))) for case in cases]
    kept = [(case, parts) for case, parts in recorded if parts is not None]
    inputs = [node for _, (nodes, _, _) in kept for node in nodes]
    arrays = [array for _, (_, values, _) in kept for array in values]
    outputs = [to_device(node, "cuda:0") for _, (_, _, nodes) in kept for node in nodes]
    program = build(Graph(inputs, outputs, since))
    found = [_on_host(array) for array in program(arrays)]
    again = [_on_host(array) for array in program(arrays)]
    assert all(a.tobytes() == b.tobytes() for a, b in zip(found, again)), "replayed it gives other bits"
    wrong, rest = [], iter(found)
    for case, (nodes, values, results) in kept:
        for reference in references_of(Graph(nodes, results, since), values):
            problem = _problem(next(rest), reference)
            wrong += [f"{identifier(case)}: {problem}"] if problem else []
    assert not wrong, f"{len(wrong)} of {len(kept)}:\n" + "\n".join(sorted(set(wrong)))


def _problem(got: np.ndarray, reference: Reference) -> str | None:
    """How a result is not its reference. In half precision a kernel may leave out roundings between its ops."""
    want = np.asarray(reference.value)
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{got.shape}, not {want.dtype}{want.shape}"
    problem, exact = difference(got, reference), np.asarray(reference.wide)
    if problem and got.dtype in (wg.float16, wg.bfloat16):
        rtol, atol = TOLERANCES[got.dtype]
        largest = np.abs(exact[np.isfinite(exact)]).max(initial=1.0)
        return None if np.allclose(got.astype(float), exact, rtol, atol * largest, equal_nan=True) else problem
    return problem


@pytest.mark.parametrize("start", range(0, len(CASES), UNIT))
def test_a_node_at_a_time_on_the_gpu_equals_the_cpu(start: int) -> None:
    wrong = wrong_alone(CASES[start : start + UNIT])
    assert not wrong, f"{len(wrong)}: {sorted(set(wrong))}"


def wrong_alone(cases: Sequence[Case]) -> list[str]:
    """The cases that differ on the GPU, forward and backward as users call them, in the interpreting tier."""
    wrong = []
    for case in cases:
        call = Call(case)
        leaves = [leaf.astype(np.float32) if i in call.floating else leaf for i, leaf in enumerate(call.leaves)]
        with tier("interpret"), np.errstate(all="ignore"):
            wanted, found = _results(call, leaves, "cpu"), _results(call, leaves, "cuda")
        for want, got in zip(wanted, found, strict=True):
            largest = np.abs(want[np.isfinite(want)]).max(initial=1.0) if want.dtype.kind in "fc" else 0
            if want.dtype != got.dtype or not np.allclose(got, want, rtol=1e-3, atol=1e-4 * largest, equal_nan=True):
                wrong.append(identifier(case))
    return wrong


@pytest.mark.alone
def test_places_beyond_32_bits() -> None:
    count = (1 << 31) + 16
    with tier("interpret"):
        x = wg.zeros((count,), dtype=wg.uint8, device="cuda")
        x[count - 3] = 7
        assert wg.argmax(x).item() == count - 3
        assert wg.flip(x)[:4].tolist() == [0, 0, 7, 0]


def _results(call: Call, leaves: list[Any], device: str) -> list[np.ndarray]:
    """What a case gives on a device, and the gradients of its operands."""
    tensors = [wg.tensor(leaf, device=device) if isinstance(leaf, np.ndarray) else leaf for leaf in leaves]
    operands = [tensors[i] for i in call.floating] if call.case.differentiable else []
    for operand in operands:
        operand.requires_grad = True
    args, kwargs = tree.unflatten(call.structure, tensors)
    result = function_of(call.case)(*args, **kwargs)
    parts = [leaf for leaf in tree.flatten(result)[0] if isinstance(leaf, wg.Tensor)]
    invariant = tree.flatten(call.case.invariant(result))[0] if call.case.invariant else parts
    tracked = [part for part in invariant if isinstance(part, wg.Tensor) and part.requires_grad]
    values = [part.detach().numpy() for part in parts] if not call.case.invariant else []
    if tracked:
        sum(wg.real(wg.sin(part * 0.7)).sum() for part in tracked).backward()
    return values + [operand.grad.detach().numpy() for operand in operands if operand.grad is not None]


def _on_host(array: Any) -> np.ndarray:
    return wg.Tensor(data(array, "cuda:0")).numpy()
