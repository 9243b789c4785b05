"""Complex numbers in programs for a GPU: what they compute, and that nothing of it is left to the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import EmulatedDriver
from tests.complex.cases import RULES, Case, complex_
from tests.complex.checks import assert_same, loss_of
from wengert.core import tree
from wengert.core.dtypes import COMPLEX

NAMES = (
    "exp",
    "multiply of real and complex",
    "sum",
    "prod along an axis",
    "var",
    "logsumexp along an axis",
    "slice",
    "concat of real and complex",
    "matmul of real and complex",
    "vecdot",
    "cumulative_sum",
    "solve",
    "norm 2",
)
LOOPS = [name for name in (case.name for case in RULES) if name.startswith(("scan", "cond", "checkpoint"))]
TWICE, ALONG = [0, 2, 0], [[0, 1], [2, 1]]


def at(x: wg.Tensor, numbers: list[Any]) -> wg.Tensor:
    """Indices beside a value."""
    return wg.tensor(np.array(numbers), device=x.device)


Z, W = complex_(3, 2), complex_(3, 2)
INDICES = [
    Case("gather", lambda x: x[at(x, TWICE)], (Z,)),
    Case("take_along_axis", lambda x: wg.take_along_axis(x, at(x, ALONG), axis=0), (Z,)),
    Case("index_add", lambda x, y: wg.index_add(x, 0, at(x, TWICE), y), (Z, W)),
    Case("index_put", lambda x, y: wg.index_put(x, (at(x, TWICE),), y), (Z, W)),
    Case("scatter_add", lambda x, y: wg.scatter_add(x, 0, at(x, TWICE), y), (complex_(4), complex_(3))),
    Case("put_along_axis", lambda x, y: wg.put_along_axis(x, at(x, [1]), y), (complex_(4), complex_(1))),
    *[case for case in RULES if case.name in ("unfold", "fold")],
]


@pytest.mark.parametrize("case", [case for case in RULES if case.name in NAMES], ids=lambda case: case.name)
def test_gradients_on_a_gpu(gpu: EmulatedDriver, case: Case) -> None:
    gradient = wg.grad(loss_of(case.function), tuple(range(len(case.operands))))
    expected = gradient(*map(wg.tensor, case.operands))
    there = [wg.tensor(x, device="cuda") for x in case.operands]
    for function in (gradient, wg.compile(gradient)):
        found = function(*there)
        assert {x.device for x in found} == {"cuda:0"}
        assert_same(found, expected, 1e-9)


def together(cases: Sequence[Case], dtype: Any) -> tuple[Callable[..., Any], list[np.ndarray[Any, Any]]]:
    """Values and gradients of several cases as one function, and its operands."""
    narrow = {"c": dtype, "f": np.finfo(dtype).dtype}
    operands = [x.astype(narrow[x.dtype.kind]) for case in cases for x in case.operands]

    def everything(*values: wg.Tensor) -> list[Any]:
        results, rest = [], list(values)
        for case in cases:
            own, rest = rest[: len(case.operands)], rest[len(case.operands) :]
            results += [tree.flatten(case.function(*own))[0], wg.grad(loss_of(case.function), 0)(*own)]
        return results

    return everything, operands


GROUPS = {
    "elementwise": [case for case in RULES if len(case.operands) == 1 and case.operands[0].shape == (3, 2)][:30],
    "powers": [case for case in RULES if "pow" in case.name],
    "reductions": [case for case in RULES if case.name.startswith(("sum", "mean", "prod", "cumul", "var", "norm"))],
    "indices": INDICES,
    "loops": [case for case in RULES if case.name in LOOPS],
}


@pytest.mark.parametrize("dtype", COMPLEX, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("name", GROUPS)
def test_kernels_are_the_references(gpu: EmulatedDriver, name: str, dtype: Any) -> None:
    """Nothing runs on the host, and values and gradients are those of the CPU's references."""
    everything, operands = together(GROUPS[name], dtype)
    expected = everything(*map(wg.tensor, operands))
    step = wg.compile(everything)
    found = step(*[wg.tensor(x, device="cuda") for x in operands])
    assert_same(found, expected, 2e-3 if dtype.itemsize == 8 else 1e-9)
    assert ", 0 ops on the host" in str(step.explain())


def test_every_name_is_a_case() -> None:
    names = {case.name for case in RULES}
    assert names >= set(NAMES) and LOOPS and all(map(len, GROUPS.values()))
