"""Errors: what plain code refuses by its values is refused compiled, in batches and by the fast path too."""

from __future__ import annotations

import pytest

import wengert as wg
from tests.ops.errors import NEVER_FAIL, OF_FUNCTIONS, WAYS, Failing, cases, outcomes, replayed
from wengert.core.graph import ancestors
from wengert.ops import registry
from wengert.ops.facts import no_checks

CASES = cases()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_good_values_raise_in_no_way(case: Failing) -> None:
    assert outcomes(case, case.good) == dict.fromkeys(WAYS, "")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_bad_values_raise_in_every_way(case: Failing) -> None:
    for args in case.bad:
        found = outcomes(case, args)
        assert all(found.values()), f"{case.name} of {args} raised {found}"
        assert replayed(case, args), f"{case.name} of {args} by the fast path"


def test_every_op_that_can_fail_has_a_case() -> None:
    # Those that passes record in the place of others, and that of kernels of the user's own.
    recorded = {"checked_index", "tree_scatter_add", "cuda_kernel"}
    for case in CASES:
        result = case.function(*map(wg.tensor, case.good)).node
        recorded |= {node.op.name for node in ancestors([result])}
    wanted = {name for name, op in registry.items() if op.can_fail or op.checks is not no_checks}
    assert wanted - recorded - NEVER_FAIL - OF_FUNCTIONS == set()
    assert wanted >= NEVER_FAIL, "these cannot fail any more"
