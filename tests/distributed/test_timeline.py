"""What ranks do, seen: the timeline of two MPI ranks, and the page of each where parameters are sharded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.distributed import ranks
from tests.inspect.bars import Bars
from wengert.core import communication
from wengert.distributed.world import World
from wengert.inspect.spans import COMMUNICATION, COMPUTE

pytestmark = ranks.needs_mpi


def run_steps(world: World, path: str, overlaps: bool) -> Any:
    """Run by every rank: steps of a small network on all of them; what this rank knows of the timeline."""
    wg.config.tier = "auto"
    communication.current.overlaps = overlaps  # as where a core is spare: collectives go on beside kernels
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


@pytest.mark.parametrize("overlaps", [False, True])
def test_two_ranks_are_gathered_on_both(tmp_path: Any, overlaps: bool) -> None:
    path = tmp_path / "timeline.html"
    one, other = ranks.on_ranks(2, "tests.distributed.test_timeline:run_steps", str(path), overlaps)
    assert one == other
    exposed, text, kinds = one
    assert 0 <= exposed < 1 and "all_reduce" in text and "test_timeline.py" in text
    assert all(own.count(COMMUNICATION) == 6 and own.count(COMPUTE) >= 6 for own in kinds)
    bars = Bars()
    bars.feed(path.read_text())
    assert len(bars.lanes) == 4
    shown = [kind == "exposed" for lane in bars.lanes for kind, *_ in lane]
    assert any(shown) == (exposed > 0)  # how much a rank waits for is a matter of time
    assert overlaps or any(shown)  # without overlap a rank that communicates computes nothing


def write_page(world: World, folder: str) -> Any:
    """Run by every rank: the page of a step with parameters that are sharded, which all ranks gather for it."""
    wg.config.tier = "auto"
    wg.manual_seed(0)
    mesh = world.mesh(data=-1)
    model = wg.nn.Linear(8, 4)
    wg.distributed.shard(model, mesh["data"])

    @wg.compile(mesh=mesh)
    def loss(x: Any, y: Any) -> Any:
        return wg.cross_entropy(model(x), y)

    batch = np.ones((8, 8), np.float32), np.arange(8) % 4
    before = loss(*batch).item()
    wg.inspect.page(loss, f"{folder}/rank-{world.rank}.html", *batch)
    return before, loss(*batch).item()


def test_every_rank_has_a_page_of_its_own(tmp_path: Any) -> None:
    results = ranks.on_ranks(2, "tests.distributed.test_timeline:write_page", str(tmp_path))
    assert len({value for result in results for value in result}) == 1  # looking changes nothing
    for rank in range(2):
        text = (tmp_path / f"rank-{rank}.html").read_text()
        assert f'"mesh":"Mesh(data=2)","rank":{rank},"size":2' in text
        assert '"collective":{"group":"data","ranks":[0,1]' in text and '"op":"all_gather"' in text
        assert '"name":"weight"' in text and '"histogram"' in text  # whole values
