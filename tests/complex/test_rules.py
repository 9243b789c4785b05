"""Every rule by differences of values in real and imaginary parts, to second order; by lanes; and compiled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.complex.cases import RULES, TRANSFORMS, UNARY, Case, complex_
from tests.complex.checks import arrays, assert_same, loss_of, single
from wengert.autodiff.check import GradientMismatch
from wengert.core import tree
from wengert.core.dtypes import COMPLEX
from wengert.ops import registry
from wengert.ops.recorders import Elementwise, conj

LANES = 3


def cases(chosen: Sequence[Case]) -> Any:
    """Parametrise a test by cases."""
    return pytest.mark.parametrize("case", chosen, ids=[case.name for case in chosen])


@cases([*RULES, *TRANSFORMS])
def test_derivatives_are_differences_of_values(case: Case) -> None:
    wg.check_grads(case.function, tuple(map(wg.tensor, case.operands)), order=2, atol=2e-6, rtol=1e-6)


@cases(RULES)
def test_gradients_over_lanes(case: Case) -> None:
    gradient = wg.grad(loss_of(case.function), tuple(range(len(case.operands))))
    lanes = [np.stack([x * (1 + 0.02 * k) for k in range(LANES)]) for x in case.operands]
    found = wg.vmap(gradient)(*map(wg.tensor, lanes))
    rows = [arrays(gradient(*[wg.tensor(x[k]) for x in lanes])) for k in range(LANES)]
    for together, alone in zip(arrays(found), zip(*rows)):
        np.testing.assert_allclose(together, np.stack(alone), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("precision", ["single", "double"])
@cases([*RULES, *TRANSFORMS[::7]])
def test_compiled_equals_interpreted(case: Case, precision: str) -> None:
    operands = [wg.tensor(single(x) if precision == "single" else x) for x in case.operands]
    both = wg.value_and_grad(loss_of(case.function), tuple(range(len(operands))))

    def everything(*operands: wg.Tensor) -> Any:
        return tree.flatten(case.function(*operands))[0], both(*operands)

    tolerance = 2e-3 if precision == "single" else 1e-9
    assert_same(wg.compile(everything)(*operands), everything(*operands), tolerance)


@cases(RULES)
def test_second_derivatives_compiled(case: Case) -> None:
    operands = [wg.tensor(x) for x in case.operands]
    tangents = [wg.tensor(np.cos(x.real) + (1j * np.sin(x.imag) if x.dtype.kind == "c" else 0)) for x in case.operands]
    product = lambda *operands: wg.hvp(loss_of(case.function), operands, tangents)
    assert_same(wg.compile(product)(*operands), product(*operands), 1e-8)


def test_every_elementwise_op_of_complex_values_has_cases() -> None:
    """A table that takes complex numbers has a rule for them, or no derivative at all."""
    taking = {n for n, op in registry.items() if isinstance(op, Elementwise) and set(op.table) & set(COMPLEX)}
    moving = {n for n in taking if registry[n].vjp is not None}
    others = {"round"}  # whose derivative is zero
    assert moving <= {*UNARY, "add", "subtract", "multiply", "divide", "pow", "where", "safe_multiply", *others}
    assert {n for n in moving if not registry[n].complex} == set()


def test_a_wrong_rule_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conj, "vjp", (lambda g, y, x: g,))
    with pytest.raises(GradientMismatch):
        wg.check_grads(lambda x: x * wg.conj(x) + wg.exp(x), (wg.tensor(complex_(2)),), modes=("reverse",))
