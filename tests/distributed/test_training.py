"""Training on MPI ranks: what N ranks compute is what one does, to the bit where that is asked for."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from tests.distributed import ranks

pytestmark = ranks.needs_mpi
MODELS = ["mlp", "convnet", "gpt"]


@functools.cache
def exact(size: int) -> list[dict[Any, Any]]:
    stages = [0] if size == 1 else [0, 1, 3]
    return ranks.on_ranks(size, "tests.distributed.training:exact", MODELS, stages, timeout=170)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("size", [2, 4])
def test_the_same_bytes_on_any_number_of_ranks(size: int, name: str) -> None:
    """50 steps with `parts = 4`, clipping on: losses, parameters, buffers and state."""
    wanted = exact(1)[0][name, 0][:2]
    for found in exact(size):
        assert found[name, 0][:2] == wanted


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("size", [2, 4])
def test_the_stages_of_zero_give_the_same_bytes(size: int, name: str) -> None:
    for found in exact(size):
        assert found[name, 1][:2] == found[name, 3][:2] == found[name, 0][:2]


@pytest.mark.parametrize("size", [2, 4])
def test_a_rank_holds_its_share(size: int) -> None:
    whole = exact(1)[0]["gpt", 0][2]
    for found in exact(size):
        state, everything = found["gpt", 1][2], found["gpt", 3][2]
        assert state["state"] == pytest.approx(whole["state"] / size, rel=0.05)
        assert all(everything[what] == pytest.approx(whole[what] / size, rel=0.05) for what in whole)


@pytest.mark.parametrize("size", [2])
@pytest.mark.parametrize("stage", [0, 3])
def test_without_parts_a_step_differs_by_rounding_only(size: int, stage: int) -> None:
    (wanted, values) = ranks.on_ranks(1, "tests.distributed.training:plain", "mlp")[0]
    for losses, found in ranks.on_ranks(size, "tests.distributed.training:plain", "mlp", stage):
        np.testing.assert_allclose(losses, wanted, rtol=1e-5)
        for name, value in values.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
