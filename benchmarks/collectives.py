"""Collectives over MPI beside torch.distributed's gloo: the same ranks, the same bytes, in turns.

    mpiexec -n 2 python benchmarks/collectives.py [--rounds 15] [--out results/collectives-2026-11-16.txt]

Open MPI's mpiexec wants --oversubscribe where ranks are as many as cores. A line is a collective and the bytes of a
rank's float32 argument: the best and the median time of either, in microseconds, and the ratio of both. In each round
both are run, in shuffled order, with a barrier before. A time is that of the slowest rank. torch may be missing.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert.core.communication import communicator
from wengert.core.mesh import Mesh

SIZES = (4, 4 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20)
Run = Callable[[], Any]


def ours(collective: str, x: np.ndarray[Any, Any], ranks: int) -> Run:
    """A collective of Wengert's."""
    everyone = communicator(Mesh(ranks=ranks).whole)
    if collective == "all_reduce":
        return lambda: everyone.all_reduce(x)
    if collective == "all_gather":
        return lambda: everyone.all_gather(x, 0)
    return lambda: everyone.reduce_scatter(x, 0)


def gloos(collective: str, x: np.ndarray[Any, Any], ranks: int) -> Run | None:
    """The same of torch's, on memory that is there already; None without torch."""
    try:
        import torch
        import torch.distributed as gloo
    except ImportError:
        return None
    given = torch.from_numpy(x.copy())
    if collective == "all_reduce":
        return lambda: gloo.all_reduce(given)
    if collective == "all_gather":
        whole = torch.empty(ranks * x.size)
        return lambda: gloo.all_gather_into_tensor(whole, given)
    block = torch.empty(x.size // ranks)
    return lambda: gloo.reduce_scatter_tensor(block, given)


def start_gloo(world: Any) -> str:
    """torch's version, once its ranks are connected, through a file that rank 0 names."""
    try:
        import torch
        import torch.distributed as gloo
    except ImportError:
        return "not installed"
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=FutureWarning)  # names that torch is about to change
    named = np.frombuffer(f"/tmp/gloo-{os.getpid():08d}".encode(), np.uint8)
    path = bytes(communicator(Mesh(ranks=world.size).whole).all_gather(named, 0)[: named.size]).decode()
    gloo.init_process_group("gloo", init_method=f"file://{path}", rank=world.rank, world_size=world.size)
    return str(torch.__version__)


def stop_gloo() -> None:
    """End torch's ranks: gloo's threads would abort the process at its end."""
    try:
        import torch.distributed as gloo
    except ImportError:
        return
    gloo.destroy_process_group()


def repeats(size: int) -> int:
    """How often a collective runs between two looks at the clock: small ones need many."""
    return max(1, min(100, (1 << 20) // size))


def timed(run: Run, count: int, world: Any) -> float:
    """Seconds of one call, on the slowest rank."""
    world.barrier()
    start = time.perf_counter()
    for _ in range(count):
        run()
    spent = np.array((time.perf_counter() - start) / count)
    return float(communicator(Mesh(ranks=world.size).whole).all_reduce_max(spent))


def line(collective: str, size: int, rounds: int, world: Any) -> str:
    """Both measured in turns."""
    rng = np.random.default_rng(world.rank)
    x = rng.normal(size=max(1, size // 4)).astype(np.float32)
    contenders = {"wengert": ours(collective, x, world.size), "gloo": gloos(collective, x, world.size)}
    runs = {name: run for name, run in contenders.items() if run is not None}
    order = random.Random(size)  # the same on every rank
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        timed(run, repeats(size), world)
    for _ in range(rounds):
        for name in order.sample(sorted(runs), len(runs)):
            times[name].append(timed(runs[name], repeats(size), world) * 1e6)
    shown = [(min(t), statistics.median(t)) for t in times.values()]
    text = f"{collective:14} {size:9d}" + "".join(f"{best:11.1f} {median:9.1f}" for best, median in shown)
    if len(shown) == 2:
        text += f"{shown[0][0] / shown[1][0]:9.2f} {shown[0][1] / shown[1][1]:6.2f}"
    return text


def main() -> None:
    """Measure, and print on rank 0."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    world = wg.distributed.start()
    torch = start_gloo(world)
    lines = [
        f"{world.size} ranks of {len(os.sched_getaffinity(0))} cores ({platform.machine()}), {world.library}; "
        f"torch {torch}; load {os.getloadavg()[0]:.1f}; {options.rounds} rounds; microseconds, best and median",
        f"{'collective':14} {'bytes':>9} {'wengert':>10} {'median':>9} {'gloo':>10} {'median':>9}"
        f" {'ratio':>8} {'median':>6}",
    ]
    if world.rank == 0:
        print("\n".join(lines), flush=True)
    for collective in ("all_reduce", "all_gather", "reduce_scatter"):
        for size in SIZES:
            if size // 4 % world.size and collective == "reduce_scatter":
                continue
            lines.append(line(collective, size, options.rounds, world))
            if world.rank == 0:
                print(lines[-1], flush=True)
    if world.rank == 0 and options.out:
        with options.out.open("a") as file:
            file.write("\n".join(lines) + "\n\n")
    world.barrier()
    stop_gloo()


if __name__ == "__main__":
    main()
