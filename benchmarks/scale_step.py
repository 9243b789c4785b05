"""The MLP step of `distributed.py`, for `wengert scale benchmarks/scale_step.py:train --ranks 1,2 --machine here`."""

from __future__ import annotations

from typing import Any

import wengert as wg

mesh = wg.distributed.start().mesh(data=-1)
model = wg.models.MLP(784, [2048, 2048, 10])
optimizer = wg.optim.Adam(model.parameters(), lr=1e-4)


def example() -> tuple[Any, ...]:
    """The arguments of a call."""
    return wg.zeros((128, 784)), wg.zeros((128,), dtype=wg.int64)


@wg.compile(mesh=mesh)
def train(x: Any, y: Any) -> Any:
    """A step with Adam."""
    optimizer.zero_grad()
    loss = wg.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss
