"""Pipelines on ranks of MPI: the losses and parameters of one rank, and each rank with those of its stage alone."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from tests.distributed import pipeline_programs
from tests.distributed.ranks import needs_mpi, on_ranks
from wengert.distributed.world import World

pytestmark = needs_mpi


@pytest.mark.parametrize(("ranks", "schedule"), [(2, "1f1b"), (4, "gpipe")])
def test_stages_on_ranks_give_the_bytes_of_one(ranks, schedule, monkeypatch):
    monkeypatch.setattr(wg.config, "tier", "compile")
    monkeypatch.setattr(wg.config, "parts", None)
    alone = pipeline_programs.trained(World(0, 1, 0), 1, schedule, 4)
    for rank, found in enumerate(on_ranks(ranks, "tests.distributed.pipeline_programs:trained", 2, schedule, 4)):
        assert found["losses"] == alone["losses"]
        assert all(a.tobytes() == b.tobytes() for a, b in zip(found["weights"], alone["weights"]))
        assert found["held"] == [True, True, False, False][:: 1 if rank % 2 == 0 else -1]
    assert np.isfinite(alone["losses"]).all()
