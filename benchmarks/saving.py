"""How long saving a checkpoint holds training up, in steps.

    mpiexec -n 2 python benchmarks/saving.py [--saves 4] [--shard 0]

An MLP of 784-2048-2048-10 with Adam trains on; every so many steps a checkpoint of its 70 MB is saved in the
background. The call copies what a rank writes. `held up` is what the steps from one save to the next took more than as
many steps at their median, so with what the writing thread takes from them. The bar is one step.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert import distributed as dist

APART = 25  # steps between two saves


def main() -> None:
    """Measure, and print on rank 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--saves", type=int, default=4)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()))
    options = parser.parse_args()
    world = dist.start()
    folder = options.folder / f"wengert-saving-{os.getppid()}"  # the launcher's, which all ranks have
    model = wg.models.MLP(784, [2048, 2048, 10])
    optimizer = wg.optim.Adam(model.parameters(), lr=1e-4)
    rng = np.random.default_rng(0)
    x, y = wg.tensor(rng.normal(size=(128, 784)).astype(np.float32)), wg.tensor(rng.integers(0, 10, 128))

    @wg.compile(mesh=world.mesh(data=-1))
    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = wg.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    def step() -> float:
        return _timed(lambda: train(x, y).item())

    def save(number: int) -> None:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        dist.save_checkpoint(folder / str(number), state, step=number)

    quiet = [step() for _ in range(5 + APART)][5:]
    median = statistics.median(quiet)
    calls, held = [], []
    for number in range(options.saves):
        calls.append(_timed(lambda number=number: save(number)))
        held.append(calls[-1] + sum(step() - median for _ in range(APART)))
    dist.wait_for_checkpoint()
    world.barrier()
    if world.rank == 0:
        size = sum(path.stat().st_size for path in (folder / "0").iterdir())
        told = ", ".join(f"{call * 1e3:.1f} ({more / median:+.2f} steps)" for call, more in zip(calls, held))
        print(f"{world.size} ranks, {world.library}: a step {median * 1e3:.1f} ms, a checkpoint {size / 1e6:.0f} MB")
        print(f"  the call, ms, and how long it held training up: {told}", flush=True)
        shutil.rmtree(folder)


def _timed(work: Any) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
