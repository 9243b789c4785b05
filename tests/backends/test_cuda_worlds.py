"""Random functions over shared state on an emulated GPU: they give what they give on the CPU without `compile`."""

from __future__ import annotations

import pytest

from tests.kernels.emulator import compiler
from tests.runtime.random_worlds import run

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with"),
    pytest.mark.usefixtures("gpu"),
]


@pytest.mark.parametrize("seed", [100, *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(101, 140)]])
def test_compiled_functions_share_state(seed: int) -> None:
    run(seed, "cuda")
