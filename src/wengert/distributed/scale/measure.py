"""Measuring collectives between two ranks of this machine: a latency and a bandwidth.

`measured()` starts two ranks with `wengert launch`, each of which runs this module, and reads what they found.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from wengert.core.errors import ArgumentError
from wengert.distributed.scale.machines import Links

SMALL, LARGE = 1, 4 << 20  # float32 elements of the two sums that are timed
REPEATS = 15  # the median counts, because a step meets the typical case too


def measured(ranks: int = 2) -> Links:
    """Measure the links of this machine."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "links.json")
        command = [sys.executable, "-m", "wengert.cli", "launch", "-n", str(ranks), "-m", __name__, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not path.exists():
            last = (done.stderr or done.stdout).strip().splitlines()[-1:]
            raise ArgumentError(
                "scale: collectives of this machine are measured by two ranks over MPI, which did not run"
                f" ({' '.join(last)}). Name a published machine with --machine, or install 'wengert[mpi]'"
            )
        small, large = json.loads(path.read_text())
    sent = 4 * LARGE * 2 * (ranks - 1) / ranks
    return Links(sent / max(large - small, 1e-9), small)


def main(path: str) -> None:
    """What each rank runs: rank 0 writes the times of a small and a large sum."""
    from wengert.core.communication import communicator
    from wengert.core.mesh import Mesh
    from wengert.distributed.world import start

    world = start()
    everyone = communicator(Mesh(ranks=world.size).whole)
    found = []
    for size in (SMALL, LARGE):
        x, out = np.ones(size, np.float32), np.empty(size, np.float32)
        times = []
        for _ in range(REPEATS + 2):
            world.barrier()
            begin = time.perf_counter()
            everyone.all_reduce(x, out)
            times.append(time.perf_counter() - begin)
        found.append(float(np.median(times[2:])))
    if world.rank == 0:
        Path(path).write_text(json.dumps(found))
    world.barrier()


if __name__ == "__main__":
    main(sys.argv[1])
