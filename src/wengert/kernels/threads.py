"""How many threads kernels are written for and run on."""

from __future__ import annotations

import functools
import os


@functools.cache
def thread_count() -> int:
    """How many threads to use: OMP_NUM_THREADS, or as many as there are cores for this process."""
    chosen = os.environ.get("OMP_NUM_THREADS", "")
    return int(chosen) if chosen.isdigit() and int(chosen) > 0 else len(os.sched_getaffinity(0))
