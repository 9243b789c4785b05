"""Random functions over shared state, compiled for the CPU: they give what they give without `compile`."""

from __future__ import annotations

import pytest

from tests.runtime.random_worlds import run


@pytest.mark.parametrize("seed", [0, 1, *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 40)]])
def test_compiled_functions_share_state(seed: int) -> None:
    run(seed, "cpu")
