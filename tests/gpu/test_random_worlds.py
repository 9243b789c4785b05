"""Random functions over shared state on the GPU: they give what they give on the CPU without `compile`."""

from __future__ import annotations

import pytest

from tests.runtime.random_worlds import run


@pytest.mark.parametrize("seed", range(200, 216))
def test_compiled_functions_share_state(seed: int) -> None:
    run(seed, "cuda")
