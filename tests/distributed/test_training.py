"""Training on MPI ranks: what N ranks compute is what one does, to the bit where that is asked for."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import pytest

from tests.distributed import ranks

pytestmark = ranks.needs_mpi
MODELS = ["mlp", "convnet", "gpt"]


QUICK = {1: (MODELS, [0]), 2: (["convnet", "gpt"], [0, 3]), 4: (["mlp"], [0, 1])}
"""What is run by default, by the number of ranks: models, and stages of ZeRO."""


@functools.cache
def exact(size: int, whole: bool = False) -> list[dict[Any, Any]]:
    """What each rank has after 50 steps with `parts = 4`, clipping on."""
    names, stages = (MODELS, [0, 1, 3]) if whole else QUICK[size]
    return ranks.on_ranks(
        size, "tests.distributed.training:exact", names, stages, timeout=600 if whole else ranks.TIMEOUT
    )


def check(size: int, whole: bool = False) -> None:
    """Losses, parameters, buffers and state are those of one rank, in every stage of ZeRO."""
    for found in exact(size, whole):
        for (name, stage), (losses, digest, _) in found.items():
            assert (losses, digest) == exact(1)[0][name, 0][:2], (name, stage)


@pytest.mark.parametrize("size", [2, 4])
def test_the_same_bytes_on_any_number_of_ranks_and_in_every_stage_of_zero(size: int) -> None:
    check(size)


@pytest.mark.slow
@pytest.mark.parametrize("size", [2, 4])
def test_the_same_bytes_in_all_cases(size: int) -> None:
    check(size, whole=True)


def test_a_rank_holds_its_share() -> None:
    whole = exact(1)[0]["gpt", 0][2]
    for found in exact(2):
        held = found["gpt", 3][2]
        assert all(held[what] == pytest.approx(whole[what] / 2, rel=0.05) for what in whole)


def test_without_parts_a_step_differs_by_rounding_only() -> None:
    (wanted, values) = ranks.on_ranks(1, "tests.distributed.training:plain", "mlp")[0]
    for losses, found in ranks.on_ranks(2, "tests.distributed.training:plain", "mlp", 3):
        np.testing.assert_allclose(losses, wanted, rtol=1e-5)
        for name, value in values.items():
            np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
