"""Does memory stay flat? A tiny network trained dynamically for many steps, its resident memory watched.

    python benchmarks/soak.py [--steps 100000]

Two layers, SGD by hand, the loss looked at every hundred steps. Fails (exit code 1) if the process holds 8 MB more at
the end than a fifth of the way in.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from pathlib import Path

import numpy as np

import wengert as wg

ALLOWED = 8.0  # MB


def resident() -> float:
    """The memory this process holds, in MB."""
    gc.collect()
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    except OSError:  # no /proc: the peak, which is no less
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (1e6 if sys.platform == "darwin" else 1e3)


def parameters(rng: np.random.Generator) -> list[wg.Tensor]:
    shapes = [(4, 8), (8,), (8, 1), (1,)]
    return [wg.tensor(rng.normal(size=s).astype("float32") * 0.5, requires_grad=True) for s in shapes]


def train_step(weights: list[wg.Tensor], x: wg.Tensor, target: wg.Tensor) -> wg.Tensor:
    """One step of gradient descent; the loss before it."""
    w1, b1, w2, b2 = weights
    error = wg.tanh(x @ w1 + b1) @ w2 + b2 - target
    loss = (error * error).mean()
    loss.backward()
    with wg.no_grad():
        for weight in weights:
            assert weight.grad is not None
            weight -= 0.05 * weight.grad
            weight.grad = None
    return loss


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000)
    steps = parser.parse_args().steps
    rng = np.random.default_rng(0)
    weights = parameters(rng)
    inputs = rng.normal(size=(256, 4)).astype("float32")
    targets = np.sin(inputs.sum(axis=1, keepdims=True))
    before, start, first, last = 0.0, time.perf_counter(), None, 0.0
    for step in range(1, steps + 1):
        rows = rng.integers(0, len(inputs), 16)
        loss = train_step(weights, wg.tensor(inputs[rows]), wg.tensor(targets[rows]))
        if step % 100 == 0:
            last = loss.item()
            first = last if first is None else first
        if step == steps // 5:
            before = resident()
        if step % max(steps // 10, 1) == 0:
            rate = step / (time.perf_counter() - start)
            print(f"step {step:>7}  loss {last:.4f}  resident {resident():7.1f} MB  {rate:6.0f} steps/s", flush=True)
    grown = resident() - before
    print(f"grown since step {steps // 5}: {grown:.2f} MB (allowed {ALLOWED:g}); loss {first} -> {last}")
    return 0 if grown < ALLOWED else 1


if __name__ == "__main__":
    sys.exit(main())
