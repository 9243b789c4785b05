"""A mesh of one rank costs nothing: the program is the one without a mesh, to the letter, and so are its numbers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import distributed as dist
from wengert.backends.cpu import toolchain

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="compiled programs need a C compiler")


@pytest.fixture
def mesh(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(wg.config, "tier", "compile")
    world = dist.start()
    yield world.mesh(data=-1)
    world.end()


def trained(mesh: Any, stage: int = 0) -> tuple[Any, list[Any]]:
    """A step after some calls, and all that it computed."""
    wg.manual_seed(0)
    model = wg.nn.Sequential(wg.nn.Linear(6, 8), wg.nn.LayerNorm(8), wg.nn.Dropout(0.2), wg.nn.Linear(8, 4))
    if stage == 3:
        dist.shard(model, mesh["data"])
    optimizer = wg.optim.AdamW(model.parameters(), lr=0.1)
    if stage == 1:
        dist.shard(optimizer.state, mesh["data"])

    @wg.compile(mesh=mesh)
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = wg.cross_entropy(model(x), y)
        loss.backward()
        wg.optim.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss

    rng = np.random.default_rng(0)
    losses = [
        step(wg.tensor(rng.normal(size=(16, 6)).astype(np.float32)), wg.tensor(rng.integers(0, 4, 16))).item()
        for _ in range(10)
    ]
    values = [*model.state_dict().values(), *(p.grad for p in model.parameters()), *dist.sharding.tensors_of(optimizer)]
    return step, [losses, *[value.numpy().tobytes() for value in values]]


@pytest.mark.parametrize("stage", [0, 1, 3])
def test_program_and_bits_are_those_without_a_mesh(mesh: Any, stage: int) -> None:
    plain, wanted = trained(None)
    meshed, found = trained(mesh, stage)
    assert found == wanted
    assert meshed.collectives() == []
    assert _without_lines(meshed.source()) == _without_lines(plain.source())
    for step in (plain, meshed):
        assert step._newest("this test").fast_path is not None


def _without_lines(source: str) -> list[str]:
    return [line.split("//")[0].rstrip() for line in source.splitlines()]
