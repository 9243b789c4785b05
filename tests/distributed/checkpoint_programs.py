"""What ranks of an MPI world run in `test_checkpoint_mpi`: trainings that save, and others that go on."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert.core.placement import ShardedArray
from wengert.distributed import Split, shards

BATCH, STEPS, PARTS = 16, 3, 4
IMAGES = np.random.default_rng(0).normal(size=(96, 8)).astype(np.float32)
LABELS = np.random.default_rng(1).integers(0, 4, 96)


class Training:
    """A small network on a mesh: its parameters and Adam's state as blocks (ZeRO-3), with `tensor` cut by columns."""

    def __init__(self, sizes: dict[str, int]) -> None:
        wg.manual_seed(0)
        self.mesh = wg.distributed.Mesh(**sizes)
        self.model = wg.nn.Sequential(wg.nn.Linear(8, 24), wg.nn.Tanh(), wg.nn.Linear(24, 4))
        if "tensor" in sizes:
            table = {"0.weight": Split(0, "tensor"), "0.bias": Split(0, "tensor"), "2.weight": Split(1, "tensor")}
            wg.distributed.place(self.model, table, self.mesh)
        wg.distributed.shard(self.model, self.mesh["data"])
        self.optimizer = wg.optim.Adam(self.model.parameters(), lr=0.01)
        data = wg.data.ArrayDataset(IMAGES, LABELS, transforms=[noisy])
        self.loader = wg.data.DataLoader(data, BATCH, shuffle=True, seed=7, mesh=self.mesh, drop_last=True)
        self.step = wg.compile(self._step, mesh=self.mesh)

    def _step(self, images: Any, labels: Any) -> Any:
        self.optimizer.zero_grad()
        loss = wg.cross_entropy(self.model(images), labels)
        loss.backward()
        self.optimizer.step()
        return loss

    def state(self) -> dict[str, Any]:
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "order": self.loader.state_dict(),
        }

    def load(self, folder: Path) -> None:
        state = wg.distributed.load_checkpoint(folder, like=self.state())
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.loader.load_state_dict(state["order"])

    def train(self, steps: int) -> None:
        batches = iter(self.loader)
        for _ in range(steps):
            self.step(*next(batches))

    def blocks(self) -> dict[str, Any]:
        """What this rank holds of each tensor, with its place in the whole."""
        found = {}
        _, values = shards.described(self.state())
        for name, value in values.items():
            array = shards.array_of(value.value)
            if isinstance(array, ShardedArray):
                part = array.placement.slices(array.shape, wg.distributed.checkpoint.current.rank)
                found[name] = array.shape, part, np.array(array.block)
            else:
                found[name] = array.shape, tuple(slice(0, n) for n in array.shape), np.array(array)
        return found


def noisy(batch: Any, rng: Any) -> Any:
    return batch[0] + rng.normal(0, 0.1, batch[0].shape).astype(np.float32), batch[1]


noisy.by_row = True


def save(world: Any, sizes: dict[str, int], folder: Path) -> dict[str, Any]:
    """Train, save in the background, and go on; what was held at the save, and at the end."""
    wg.config.tier, wg.config.parts = "auto", PARTS  # parts need compiled programs
    training = Training(sizes)
    training.train(STEPS)
    held = training.blocks()
    wg.distributed.save_checkpoint(folder, training.state(), step=STEPS)
    training.train(STEPS)
    wg.distributed.wait_for_checkpoint()
    return {"saved": held, "end": training.blocks()}


def go_on(world: Any, sizes: dict[str, int], folder: Path) -> dict[str, Any]:
    """Load; what is held then, and after some more steps."""
    wg.config.tier, wg.config.parts = "auto", PARTS  # parts need compiled programs
    training = Training(sizes)
    training.load(folder)
    held = training.blocks()
    training.train(STEPS)
    return {"loaded": held, "end": training.blocks()}


def die_while_saving(world: Any, folder: Path) -> None:
    """Rank 1 is killed in the middle of the second save."""
    wg.distributed.save_checkpoint(folder / "1", {"x": wg.ones(3)}, step=1)
    wg.distributed.wait_for_checkpoint()
    if world.rank == 1:
        shards.write_shard = lambda *_: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
    wg.distributed.save_checkpoint(folder / "2", {"x": wg.zeros(3)}, step=2)
    wg.distributed.wait_for_checkpoint()
