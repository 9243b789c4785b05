"""Training steps that the tests run on ranks; each function takes the world first. See `ranks`."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

import wengert as wg
from wengert import distributed as dist
from wengert.core.placement import ShardedArray
from wengert.distributed.world import World

BATCH = 16
STEPS = 50


def mlp() -> Any:
    return wg.nn.Sequential(wg.nn.Linear(20, 36), wg.nn.Tanh(), wg.nn.LayerNorm(36), wg.nn.Linear(36, 5))


def convnet() -> Any:
    return wg.nn.Sequential(
        wg.nn.Conv2d(3, 8, 3, padding=1),
        wg.nn.BatchNorm2d(8),
        wg.nn.ReLU(),
        wg.nn.MaxPool2d(2),
        wg.nn.Dropout(0.2),
        wg.nn.Conv2d(8, 12, 3),
        wg.nn.ReLU(),
        wg.nn.Flatten(),
        wg.nn.Linear(12 * 2 * 2, 5),
    )


def gpt() -> Any:
    config = wg.models.GPTConfig(vocab_size=12, n_positions=8, n_embd=16, n_layer=2, n_head=2, dropout=0.1)
    return wg.models.GPT(config)


MODELS = {"mlp": (mlp, (20,)), "convnet": (convnet, (3, 8, 8)), "gpt": (gpt, None)}


def batches(name: str, steps: int, batch: int = BATCH) -> Any:
    """Examples and targets, equal on every rank."""
    rng = np.random.default_rng(1)
    shape = MODELS[name][1]
    for _ in range(steps):
        if shape is None:
            tokens = rng.integers(0, 12, (batch, 9))
            yield tokens[:, :-1], tokens[:, 1:]
        else:
            yield rng.normal(size=(batch, *shape)).astype(np.float32), rng.integers(0, 5, batch)


class Training:
    """A model and its step, over a mesh; `stage` is that of ZeRO."""

    def __init__(self, name: str, mesh: Any, stage: int = 0, clip: float | None = 0.5, **options: Any) -> None:
        wg.manual_seed(0)
        model = self.model = MODELS[name][0]()
        if stage == 3:
            dist.shard(model, mesh["data"])
        optimizer = self.optimizer = wg.optim.AdamW(model.parameters(), lr=1e-2)
        if stage in (1, 2):
            dist.shard(optimizer.state, mesh["data"])

        @wg.compile(mesh=mesh, **options)
        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            scores = model(x)
            loss = wg.cross_entropy(scores.reshape(-1, scores.shape[-1]), y.reshape(-1))
            loss.backward()
            if clip is not None:
                wg.optim.clip_grad_norm_(model.parameters(), clip)
            optimizer.step()
            return loss

        self.step = step
        self.name = name

    def run(self, steps: int = STEPS) -> list[float]:
        """The losses of some steps."""
        return [self.step(wg.tensor(x), wg.tensor(y)).item() for x, y in batches(self.name, steps)]

    def values(self) -> dict[str, np.ndarray[Any, Any]]:
        """Parameters, buffers and state, whole."""
        found = {name: tensor.detach().numpy() for name, tensor in self.model.state_dict().items()}
        for i, state in enumerate(self.optimizer.state.values()):
            found |= {f"{name} of {i}": tensor.detach().numpy() for name, tensor in state.items()}
        return found

    def bytes_held(self) -> dict[str, int]:
        """The bytes of parameters, gradients and state that this rank holds."""
        state = [tensor for one in self.optimizer.state.values() for tensor in one.values()]
        parameters = list(self.model.parameters())
        gradients = [p.grad for p in parameters if p.grad is not None]
        return {"parameters": _held(parameters), "gradients": _held(gradients), "state": _held(state)}


def _held(tensors: list[Any]) -> int:
    arrays = [tensor.node.buffer for tensor in tensors]
    return sum(a.block.nbytes if isinstance(a, ShardedArray) else a.nbytes for a in arrays)


def digest(values: dict[str, np.ndarray[Any, Any]]) -> str:
    """All values as one number."""
    found = hashlib.sha256()
    for name, value in sorted(values.items()):
        found.update(name.encode() + value.tobytes())
    return found.hexdigest()


def exact(world: World, names: list[str], stages: list[int], steps: int = STEPS) -> dict[Any, Any]:
    """Losses and digests with `parts = 4`."""
    wg.config.tier, wg.config.parts = "auto", 4
    mesh = world.mesh(data=-1)
    found = {}
    for name in names:
        for stage in stages:
            training = Training(name, mesh, stage)
            losses = training.run(steps)
            found[name, stage] = (losses, digest(training.values()), training.bytes_held())
    return found


def plain(world: World, name: str, stage: int = 0, steps: int = 2) -> tuple[list[float], dict[str, Any]]:
    """Losses and values without `parts`."""
    wg.config.tier = "auto"
    training = Training(name, world.mesh(data=-1), stage)
    return training.run(steps), training.values()
