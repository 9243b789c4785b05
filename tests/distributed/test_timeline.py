"""The timeline of two MPI ranks, gathered on both and written by the first."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg
from tests.distributed import ranks
from tests.inspect.bars import Bars
from wengert.core import communication
from wengert.distributed.world import World
from wengert.inspect.spans import COMMUNICATION, COMPUTE

pytestmark = ranks.needs_mpi


def run_steps(world: World, path: str) -> Any:
    """Run by every rank: steps of a small network on all of them; what this rank knows of the timeline."""
    wg.config.tier = "auto"
    wg.manual_seed(0)
    model = wg.nn.Sequential(wg.nn.Linear(8, 16), wg.nn.Tanh(), wg.nn.Linear(16, 4))
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1)

    @wg.compile(mesh=world.mesh(data=-1))
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = wg.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    batch = np.ones((8, 8), np.float32), np.arange(8) % 4
    step(*batch)
    before = communication.watcher
    with wg.inspect.timeline(path) as timeline:
        for _ in range(3):
            step(*batch).item()
    assert communication.watcher is before
    return timeline.exposed, str(timeline), [[span.kind for span in one.spans] for one in timeline.ranks]


def test_two_ranks_are_gathered_on_both(tmp_path: Any) -> None:
    path = tmp_path / "timeline.html"
    one, other = ranks.on_ranks(2, "tests.distributed.test_timeline:run_steps", str(path))
    assert one == other
    exposed, text, kinds = one
    assert 0 < exposed < 1 and "all_reduce" in text and "test_timeline.py" in text
    assert all(own.count(COMMUNICATION) == 6 and own.count(COMPUTE) >= 6 for own in kinds)
    bars = Bars()
    bars.feed(path.read_text())
    assert len(bars.lanes) == 4 and any(kind == "exposed" for kind, *_ in bars.lanes[1])
