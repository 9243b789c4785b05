"""Training steps on two ranks: Wengert's `compile(mesh=)` over MPI beside torch's DDP over gloo, in turns.

    mpiexec -n 2 python benchmarks/distributed.py [--rounds 15] [--rows mlp,convnet] [--json results/FILE] [--profile]

Every rank is a process with one thread, which has both contenders: the same models on the same numbers, Adam, the
global batch of 128. In each round all of them run some steps, in shuffled order, with a barrier before: the step on all
ranks, the step of one rank alone on the whole batch (the others wait), and Wengert's over a mesh of one rank. A time is
that of the slowest rank; beside it stands the CPU time of a rank, which a busy machine disturbs less. The efficiency
is what one rank alone takes, by the ranks, over what all together take.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from collectives import start_gloo

import wengert as wg
from wengert.core.communication import communicator
from wengert.core.mesh import Mesh
from wengert.runtime.debug.profile import profile, shown

Step = Callable[[], Any]

BATCH = 128
SHAPES = {"mlp": (784,), "convnet": (1, 28, 28)}
TITLES = {"mlp": "MLP 784-2048-2048-10, Adam", "convnet": "ConvNet of 3 convolutions, Adam"}


def batch_of(row: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The global batch, the same on every rank."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(BATCH, *SHAPES[row])).astype(np.float32), rng.integers(0, 10, BATCH)


def wengert_step(row: str, mesh: Any) -> tuple[Any, tuple[Any, ...]]:
    """A compiled step over a mesh, or without one, and its arguments."""
    wg.manual_seed(0)
    model: Any = wg.models.MLP(784, [2048, 2048, 10]) if row == "mlp" else wg.models.ConvNet()
    optimizer = wg.optim.Adam(model.parameters(), lr=1e-4)

    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = wg.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return wg.compile(train, mesh=mesh), tuple(map(wg.tensor, batch_of(row)))


def torch_step(row: str, ranks: int, rank: int) -> Step:
    """A step of torch's on this rank's share of the batch: eager, with DDP where there are several ranks."""
    import torch
    import torch_models
    from torch import nn
    from torch.nn import functional as F
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(0)
    sizes = (784, 2048, 2048, 10)
    layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())][:-1]
    model: Any = nn.Sequential(*layers) if row == "mlp" else torch_models.ConvNet()
    if ranks > 1:
        model = DistributedDataParallel(model, gradient_as_bucket_view=True)  # which saves DDP a copy
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    own = slice(rank * BATCH // ranks, (rank + 1) * BATCH // ranks)
    x, y = (torch.from_numpy(array[own].copy()) for array in batch_of(row))

    def step() -> float:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return float(loss.item())

    return step


class Time(NamedTuple):
    """Milliseconds of a step: by the clock, and of a CPU."""

    clock: float
    cpu: float


class Contenders:
    """The steps of a row that are measured, by name; those that end in "alone" run on rank 0 only."""

    def __init__(self, row: str, world: Any) -> None:
        self.world = world
        self.steps: dict[str, Step] = {"torch": torch_step(row, world.size, world.rank)}
        self.steps["torch alone"] = torch_step(row, 1, 0)
        together, args = wengert_step(row, world.mesh(data=-1))
        self.compiled, self.args = together, args
        alone, _ = wengert_step(row, None)
        self.steps["wengert"] = lambda: together(*args).item()
        self.steps["wengert alone"] = lambda: alone(*args).item()
        meshed, _ = wengert_step(row, Mesh(data=1))
        self.steps["mesh of 1 alone"] = lambda: meshed(*args).item()

    def timed(self, name: str, count: int) -> Time:
        """Seconds of a step, on the slowest rank."""
        self.world.barrier()
        spent = np.zeros(2)
        if self.world.rank == 0 or not name.endswith("alone"):
            start = np.array([time.perf_counter(), time.process_time()])
            for _ in range(count):
                self.steps[name]()
            spent = (np.array([time.perf_counter(), time.process_time()]) - start) / count
        slowest = communicator(Mesh(ranks=self.world.size).whole).all_reduce_max(spent)
        return Time(*(slowest * 1e3).tolist())


def measured(row: str, world: Any, rounds: int, count: int) -> tuple[dict[str, list[Time]], Contenders]:
    """Milliseconds of each contender, round by round, all in one run."""
    contenders = Contenders(row, world)
    order = random.Random(0)  # the same on every rank
    for name in contenders.steps:
        contenders.timed(name, 5)  # the second and the fourth call record anew
    times: dict[str, list[Time]] = {name: [] for name in contenders.steps}
    for _ in range(rounds):
        for name in order.sample(sorted(times), len(times)):
            times[name].append(contenders.timed(name, count))
    return times, contenders


def summary(row: str, times: dict[str, list[Time]], ranks: int) -> tuple[dict[str, Any], str]:
    """What the times come to, as numbers and as lines."""
    found: dict[str, Any] = {}
    lines = [f"{TITLES[row]}, batch {BATCH}: ms of a step"]
    for name, each in times.items():
        low, median, high = np.percentile([time.clock for time in each], [25, 50, 75])
        best, cpu = min(time.clock for time in each), statistics.median(time.cpu for time in each)
        found[name] = {"median": median, "quartiles": [low, high], "best": best, "cpu": cpu}
        lines.append(
            f"  {name:16} median {median:8.2f}  quartiles {low:8.2f} {high:8.2f}  best {best:8.2f}  CPU {cpu:8.2f}"
        )
    ratios = [a.clock / b.clock for a, b in zip(times["wengert"], times["torch"])]
    by = {key: found["wengert"][key] / found["torch"][key] for key in ("median", "best", "cpu")}
    found["ratio"] = {"of the rounds": statistics.median(ratios), **by}
    lines.append(
        f"  wengert / torch on {ranks} ranks: median of the rounds {statistics.median(ratios):.2f}, of the medians "
        f"{by['median']:.2f}, of the best {by['best']:.2f}, of CPU time {by['cpu']:.2f}"
    )
    for name in ("wengert", "torch"):
        by = {key: found[f"{name} alone"][key] / found[name][key] / ranks for key in ("median", "best", "cpu")}
        found[f"efficiency of {name}"] = by
        lines.append(
            f"  efficiency of {name:8} {by['median']:6.1%} by medians, {by['best']:6.1%} by the best, "
            f"{by['cpu']:6.1%} by CPU time"
        )
    one = {key: found["mesh of 1 alone"][key] / found["wengert alone"][key] for key in ("median", "best", "cpu")}
    found["mesh of 1"] = one
    lines.append(
        f"  a mesh of one rank / no mesh: of the medians {one['median']:.3f}, of the best {one['best']:.3f}, "
        f"of CPU time {one['cpu']:.3f}"
    )
    return found, "\n".join(lines)


def main() -> None:
    """Measure, and print on rank 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--steps", type=int, default=5, help="steps between two looks at the clock")
    parser.add_argument("--rows", default="mlp,convnet")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--profile", action="store_true", help="where the time of rank 0 goes, too")
    options = parser.parse_args()
    world = wg.distributed.start()
    torch = start_gloo(world)
    machine = (
        f"{world.size} ranks of {len(os.sched_getaffinity(0))} cores ({platform.machine()}), {world.library}; "
        f"torch {torch}; load {os.getloadavg()[0]:.1f} before; {options.rounds} rounds of {options.steps} steps"
    )
    result: dict[str, Any] = {"machine": machine}
    said = [machine]
    for row in options.rows.split(","):
        times, contenders = measured(row, world, options.rounds, options.steps)
        result[row], text = summary(row, times, world.size)
        said.append(text)
        if options.profile:
            kernels = profile(contenders.compiled, *contenders.args)
            said.append(f"where the time of rank 0 goes\n{shown(kernels, top=12)}")
    if world.rank == 0:
        print("\n".join(said), flush=True)
        if options.json:
            options.json.write_text(json.dumps(result, indent=1) + "\n")
    world.barrier()


if __name__ == "__main__":
    main()
