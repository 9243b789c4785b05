"""Complex numbers in programs for a GPU: there are no kernels for them, and the host computes them."""

from __future__ import annotations

import pytest

import wengert as wg
from tests.backends.emulated import EmulatedDriver
from tests.complex.cases import RULES, Case
from tests.complex.checks import assert_same, loss_of

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


@pytest.mark.parametrize("case", [case for case in RULES if case.name in NAMES], ids=lambda case: case.name)
def test_gradients_on_a_gpu(gpu: EmulatedDriver, case: Case) -> None:
    gradient = wg.grad(loss_of(case.function), tuple(range(len(case.operands))))
    expected = gradient(*map(wg.tensor, case.operands))
    there = [wg.tensor(x, device="cuda") for x in case.operands]
    for function in (gradient, wg.compile(gradient)):
        found = function(*there)
        assert {x.device for x in found} == {"cuda:0"}
        assert_same(found, expected, 1e-9)


def test_every_name_is_a_case() -> None:
    assert {case.name for case in RULES} >= set(NAMES)
