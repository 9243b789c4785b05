"""Seconds from kill -9 of a rank to the end of all others, by what it was doing, with the MPI of this environment.

    python -m benchmarks.lost_ranks [--repeats 3]

The faults are those of `tests/distributed/test_faults.py`. Every launch must end badly and leave no process; the bar is
2 s on one host. Where all ranks of MPICH are gone at once the launcher may name one that its mpiexec has killed: `*`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

from tests.distributed import faults
from tests.distributed.launching import launched

from wengert.distributed import mpiexec


def seconds(fault: str, folder: Path) -> str:
    """Those from the fault to the end of all, with a star where another rank was named."""
    own = {"WENGERT_CACHE": str(folder)} if fault == "compiling" else {}  # where nothing is built yet
    with launched(folder, "-n", 3, faults.__file__, fault, folder, **own) as run:
        status = run.status()
        ended = time.time()
        if status == 0 or run.left() or "RankLost: rank" not in run.text():
            raise SystemExit(f"{fault}: status {status}, left {run.left()}\n{run.text()}")
    star = "" if "wengert: RankLost: rank 1" in run.text() else "*"
    return f"{ended - (folder / 'when').stat().st_mtime:.2f}{star}"  # the victim has written that last


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    found = mpiexec.find()
    for fault in ("compiling", "step", "saving", "loading"):
        each = []
        for _ in range(options.repeats):
            with tempfile.TemporaryDirectory() as folder:
                each.append(seconds(fault, Path(folder)))
        print(f"{fault:10} {', '.join(sorted(each))} s   {found and found.path}", flush=True)


if __name__ == "__main__":
    main()
