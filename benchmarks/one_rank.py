"""A mesh of one rank beside no mesh: the same steps in turns, microseconds of a step.

    python benchmarks/one_rank.py [--rounds 40]

The programs are the same to the letter (`tests/distributed/test_one_rank.py`); what could differ is what the host does
around them. The order of a round is shuffled; a ratio is the median of the rounds'. The bar is 1.01.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg

MODELS = {"MLP 64-32-10, batch 32": (32, [64, 32, 10], 200), "MLP 784-512-10, batch 128": (128, [784, 512, 10], 8)}


def step_of(mesh: Any, batch: int, sizes: list[int]) -> Callable[[], Any]:
    """A training step with Adam."""
    wg.manual_seed(0)
    model = wg.models.MLP(sizes[0], sizes[1:])
    optimizer = wg.optim.Adam(model.parameters(), lr=1e-4)
    rng = np.random.default_rng(0)
    x = wg.tensor(rng.normal(size=(batch, sizes[0])).astype(np.float32))
    y = wg.tensor(rng.integers(0, sizes[-1], batch))

    @wg.compile(mesh=mesh)
    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = wg.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return lambda: train(x, y).item()


def timed(step: Callable[[], Any], count: int) -> float:
    """Microseconds of a step."""
    start = time.perf_counter()
    for _ in range(count):
        step()
    return (time.perf_counter() - start) / count * 1e6


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    mesh = wg.distributed.start().mesh(data=-1)
    order = random.Random(0)
    for name, (batch, sizes, count) in MODELS.items():
        steps = {"no mesh": step_of(None, batch, sizes), "again no mesh": step_of(None, batch, sizes)}
        steps["a mesh of one"] = step_of(mesh, batch, sizes)
        times: dict[str, list[float]] = {which: [] for which in steps}
        for step in steps.values():
            timed(step, 5)  # which builds the programs
        for _ in range(options.rounds):
            for which in order.sample(sorted(steps), len(steps)):
                times[which].append(timed(steps[which], count))
        for which in ("again no mesh", "a mesh of one"):
            ratios = sorted(a / b for a, b in zip(times[which], times["no mesh"]))
            low, high = ratios[len(ratios) // 4], ratios[-len(ratios) // 4]
            print(
                f"{name}: {which} / no mesh {statistics.median(ratios):.4f} (quartiles {low:.4f} to {high:.4f}), "
                f"best {min(times[which]):.1f} and {min(times['no mesh']):.1f} us",
                flush=True,
            )


if __name__ == "__main__":
    main()
