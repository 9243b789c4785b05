"""GPTs that ranks train together, their parameters cut as the model's plan says: run by test_parallel_mpi.py."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg
from wengert import distributed as dist
from wengert.core.mesh import Mesh
from wengert.core.placement import ShardedArray

STEPS = 3
SIZES = {"vocab_size": 64, "n_positions": 16, "n_embd": 32, "n_layer": 2, "n_head": 4}


WAYS = {"float32": ("SGD", {"lr": 0.1, "momentum": 0.9}), "float64": ("AdamW", {"lr": 1e-2})}
"""By dtype, the optimizer. Adam divides gradients that are 0 but for rounding, as a key's bias has, by their size: what
float32 makes of them is any step. In float64 they are far below its epsilon."""


def training(dtype: str, mesh: Mesh | None, zero: bool = False) -> dict[str, Any]:
    """The losses of some steps, the collectives of one, the parameters after them, and how the state lies."""
    wg.manual_seed(0)
    model = wg.models.GPT(wg.models.GPTConfig(**SIZES), dtype=getattr(wg, dtype))
    if mesh is not None and "tensor" in mesh:
        dist.place(model, model.tensor_plan, mesh)
    if mesh is not None and zero:
        dist.shard(model, mesh["data"])
    name, options = WAYS[dtype]
    optimizer = getattr(wg.optim, name)(model.parameters(), **options)

    def train(x: wg.Tensor, y: wg.Tensor) -> wg.Tensor:
        optimizer.zero_grad()
        loss = model(x, targets=y)[1]
        loss.backward()
        wg.optim.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss

    step = wg.compile(train) if mesh is None else wg.compile(mesh=mesh)(train)
    tokens = np.random.default_rng(0).integers(0, SIZES["vocab_size"], (STEPS, 4, 9))
    losses = [step(wg.tensor(t[:, :-1].copy()), wg.tensor(t[:, 1:].copy())).item() for t in tokens]
    alike = [
        (str(placement_of(parameter)), [str(placement_of(x)) for x in state.values() if x.shape == parameter.shape])
        for parameter, state in optimizer.state.items()
    ]
    counts = [(record.op, record.axis) for record in step.collectives()]
    parameters = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}
    return {"losses": losses, "collectives": counts, "parameters": parameters, "placements": alike}


def placement_of(tensor: wg.Tensor) -> Any:
    """Where a tensor lies; None for one that is whole."""
    held = tensor.node.buffer
    return held.placement if isinstance(held, ShardedArray) else None


def train_gpt(world: Any, sizes: dict[str, int], zero: bool) -> dict[str, Any]:
    """Train on a mesh of these sizes."""
    return {dtype: training(dtype, world.mesh(**sizes), zero) for dtype in WAYS}
