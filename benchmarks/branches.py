"""Branches side by side: a network of two branches on a GPU, its steps as one CUDA graph with forks, and in one line.

    python benchmarks/branches.py [--json]

An image goes through convolutions and a vector through wide layers; the two meet at the end. In the graph a step waits
only for those whose memory it needs, so that kernels too small to fill the GPU run beside others; `in line` is the same
program with every step waiting for the one before. Both are timed in turns.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from datetime import date
from pathlib import Path
from time import perf_counter
from typing import Any
from unittest.mock import patch

import numpy as np

import wengert as wg
from wengert.backends.cuda.kernel import Stretch
from wengert.backends.cuda.memory import opened

BATCHES = (8, 64, 256, 1024)
ROUNDS, STEPS = 9, 50


class TwoBranches(wg.nn.Module):
    """Four convolutions over an image, six layers over a vector, and a classifier over both."""

    def __init__(self) -> None:
        channels, width = 64, 512
        convolutions = [wg.nn.Conv2d(1 if i == 0 else channels, channels, 3, padding=1) for i in range(4)]
        self.image = wg.nn.Sequential(*[layer for c in convolutions for layer in (c, wg.nn.ReLU())])
        wide = [wg.nn.Linear(width, width) for _ in range(6)]
        self.vector = wg.nn.Sequential(*[layer for linear in wide for layer in (linear, wg.nn.ReLU())])
        self.head = wg.nn.Linear(channels + width, 10)

    def forward(self, image: wg.Tensor, vector: wg.Tensor) -> wg.Tensor:
        """The scores."""
        return self.head(wg.concat([self.image(image).mean(axis=(2, 3)), self.vector(vector)], axis=1))


@contextmanager
def in_line() -> Iterator[None]:
    """Programs that are made inside have every step wait for the one before."""
    add = Stretch.add

    def waiting(stretch: Stretch, call: Any, waits: Sequence[int]) -> None:
        before = [other.step for other in stretch.calls if other.step != call.step]
        add(stretch, call, before[-1:])

    with patch.object(Stretch, "add", waiting):
        yield


def steps(batch: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """A forward pass and a training step, compiled."""
    wg.manual_seed(0)
    model = TwoBranches().to("cuda")
    optimizer = wg.optim.SGD(model.parameters(), lr=1e-3)
    rng = np.random.default_rng(0)
    image = wg.tensor(rng.standard_normal((batch, 1, 16, 16), np.float32), device="cuda")
    vector = wg.tensor(rng.standard_normal((batch, 512), np.float32), device="cuda")
    wanted = wg.tensor(rng.integers(0, 10, batch), device="cuda")

    @wg.compile
    def forward() -> wg.Tensor:
        with wg.no_grad():
            return model(image, vector)

    @wg.compile
    def train() -> wg.Tensor:
        optimizer.zero_grad()
        loss = wg.cross_entropy(model(image, vector), wanted)
        loss.backward()
        optimizer.step()
        return loss

    return forward, train


def warmed(batch: int, way: Callable[[], Any]) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Steps whose programs were made in a way."""
    with way():
        made = steps(batch)
        for step in made:
            for _ in range(5):
                step().numpy()
    return made


def span(step: Callable[[], Any]) -> float:
    """The seconds of a step, many in a row."""
    wg.cuda.synchronize()
    start = perf_counter()
    for _ in range(STEPS):
        step()
    wg.cuda.synchronize()
    return (perf_counter() - start) / STEPS


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="keep the result in results/")
    options = parser.parse_args()
    rows = []
    for batch in BATCHES:
        forked, line = warmed(batch, nullcontext), warmed(batch, in_line)
        for name, ours, other in zip(("forward", "training step"), forked, line):
            assert (ours().numpy() == other().numpy()).all(), "the two give other numbers"
            times = [(span(ours), span(other)) for _ in range(ROUNDS)]
            fork, straight = (statistics.median(column) for column in zip(*times))
            rows.append({"batch": batch, "pass": name, "forked": fork, "in line": straight})
            print(f"batch {batch:5} {name:14} in line {straight * 1e3:.4f} ms, forked {fork * 1e3:.4f} ms, "
                  f"{straight / fork:.2f} times as fast", flush=True)  # fmt: skip
    if options.json:
        gpu = opened("cuda:0").name
        found = {"date": date.today().isoformat(), "gpu": gpu, "wengert": wg.__version__, "steps": rows}
        path = Path(__file__).parent / "results" / f"branches-{found['date']}.json"
        path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
