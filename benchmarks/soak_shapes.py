"""Do memory and caches stay flat? A thousand different shapes, through `wg.compile` and through dynamic execution.

    python benchmarks/soak_shapes.py [--shapes 1000]

Every shape is a program of its own: recorded, compiled, loaded. A compiled function keeps its last 32 programs, dynamic
execution its last 128; what is evicted is let go, and its library closed. Fails (exit code 1) if, from a third of the
way in to the end, the process grew by more than 2 MB or the objects in it by more than 1%, or if it has more programs
loaded than the bounds allow. Shapes come in a shuffled order: programs of larger ones take more memory of their own.
On two quiet cores it takes three minutes.
"""

from __future__ import annotations

import argparse
import gc
import os
import random
import sys
import time
import warnings
from pathlib import Path

import numpy as np

import wengert as wg
from wengert.core import cache
from wengert.runtime.dynamic import tiers

ALLOWED = 2.0  # MB
CACHE = 32  # programs that the compiled function keeps


def resident() -> float:
    """The memory this process holds, in MB."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def objects() -> int:
    """How many objects the garbage collector knows."""
    gc.collect()
    return len(gc.get_objects())


def loaded() -> int:
    """How many of our libraries this process has open."""
    gc.collect()
    folder = str(cache.folder())
    lines = Path("/proc/self/maps").read_text().splitlines()
    return len({line.split()[-1] for line in lines if folder in line})


weight = wg.nn.Parameter(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3))


@wg.compile(cache=CACHE)
def compiled(x: wg.Tensor) -> wg.Tensor:
    return wg.softmax(wg.tanh(x @ weight), axis=-1).sum(axis=0)


def dynamic(x: wg.Tensor) -> float:
    """A training step, four times: it is compiled when it comes for the third time."""
    for _ in range(tiers.STEP_AFTER + 2):
        loss = (wg.tanh(x @ weight) ** 2).mean()
        loss.backward()
        weight.grad = None
    return loss.item()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", type=int, default=1000)
    shapes = parser.parse_args().shapes
    warnings.filterwarnings("ignore", message=".*different shapes.*")
    before, known, start = 0.0, 0, time.perf_counter()
    bound = CACHE + tiers.BOUND + 2
    most = 0
    for count, n in enumerate(random.Random(0).sample(range(1, shapes + 1), shapes), 1):
        x = wg.tensor(np.ones((n, 4), np.float32))
        right = np.isclose(float(compiled(x).numpy().sum()), n, rtol=1e-4), np.isfinite(dynamic(x))
        if not all(right):
            print(f"wrong values at shape {n}")
            return 1
        if count == shapes // 3:
            before, known = resident(), objects()
        if count % max(shapes // 10, 1) == 0:
            most = max(most, loaded())
            rate = count / (time.perf_counter() - start)
            print(
                f"shape {count:>5}  resident {resident():7.1f} MB  objects {objects():>7}  libraries {loaded():>4}  "
                f"structures {len(tiers.structures):>4}  {rate:5.1f} shapes/s",
                flush=True,
            )
    grown, more = resident() - before, objects() / known - 1
    files = list(cache.folder().glob("*.so"))
    size = sum(file.stat().st_size for file in files) / 1e6
    print(
        f"grown since shape {shapes // 3}: {grown:.2f} MB (allowed {ALLOWED:g}), objects by {more:.2%} (1%); "
        f"at most {most} libraries ({bound})"
    )
    print(f"on disk: {len(files)} libraries, {size:.1f} MB")
    return 0 if grown < ALLOWED and more < 0.01 and most <= bound else 1


if __name__ == "__main__":
    sys.exit(main())
