"""What the tests of pipelines run on ranks of an MPI world."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg
from wengert.core.placement import Absent, ShardedArray
from wengert.distributed.world import World

STEPS = 3


def model() -> tuple[list[Any], Any]:
    """Some layers, the same on every rank, and the loss of a batch."""
    wg.manual_seed(4)
    layers = [wg.nn.Linear(8, 8) for _ in range(4)]

    def loss_of(x: Any, stages: int) -> Any:
        for i, layer in enumerate(layers):
            with wg.distributed.stage(i * stages // 4):
                x = wg.tanh(layer(x))
        return (x * x).mean()

    return layers, loss_of


def trained(world: World, stages: int, schedule: str, parts: int | None) -> dict[str, Any]:
    """The losses of some steps, the parameters afterwards, and which of them this rank holds."""
    wg.config.tier, wg.config.parts = "compile", parts
    layers, loss_of = model()
    steps = wg.optim.AdamW([p for layer in layers for p in layer.parameters()], lr=1e-2)

    def train(x: Any) -> Any:
        steps.zero_grad()
        loss = loss_of(x, stages)
        loss.backward()
        steps.step()
        return loss

    mesh = world.mesh(data=-1, stage=stages)
    run = wg.compile(train, mesh=mesh, microbatches=4, schedule=schedule)
    x = np.random.default_rng(5).normal(size=(8, 8)).astype(np.float32)
    losses = [run(wg.tensor(x)).item() for _ in range(STEPS)]
    arrays = [layer.weight.node.buffer for layer in layers]
    held = [not (isinstance(a, ShardedArray) and isinstance(a.block, Absent)) for a in arrays]
    weights = [layer.weight.detach().numpy() for layer in layers]  # every rank asks for the whole
    return {"losses": losses, "held": held, "weights": weights}
