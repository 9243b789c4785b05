"""A mesh of one rank costs nothing: the program is the one that is made without it."""

from __future__ import annotations

import numpy as np

import wengert as wg
from wengert.core.mesh import Mesh


def trained(**options):
    wg.manual_seed(0)
    model = wg.models.MLP(8, [16, 4])
    if "mesh" in options:
        wg.distributed.shard(model, options["mesh"]["data"])
    optimizer = wg.optim.AdamW(model.parameters(), lr=1e-2)

    @wg.compile(**options)
    def step(x, y):
        optimizer.zero_grad()
        loss = wg.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    rng = np.random.default_rng(0)
    for _ in range(3):
        step(wg.tensor(rng.normal(size=(6, 8)).astype(np.float32)), wg.tensor(rng.integers(0, 4, 6)))
    return step, [parameter.detach().numpy().tobytes() for parameter in model.parameters()]


def test_the_same_program_and_the_same_bits(monkeypatch):
    monkeypatch.setattr(wg.config, "tier", "auto")
    alone, bits = trained()
    one, found = trained(mesh=Mesh(data=1))
    assert one.source() == alone.source()
    assert one.collectives() == [] and found == bits
