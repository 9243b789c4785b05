"""How many threads kernels are written for and run on."""

from __future__ import annotations

import functools
import os

from wengert.core.cores import available_cores


@functools.cache
def thread_count() -> int:
    """How many threads to use: OMP_NUM_THREADS, or as many as there are cores for this process."""
    return chosen_threads() or available_cores()


def chosen_threads() -> int | None:
    """How many threads the environment asks for."""
    chosen = os.environ.get("OMP_NUM_THREADS", "")
    return int(chosen) if chosen.isdigit() and int(chosen) > 0 else None


def use_threads(count: int | None) -> None:
    """Write kernels for this many threads from here on, in this process and those that it starts; None: for all
    cores."""
    if count is None:
        os.environ.pop("OMP_NUM_THREADS", None)
    else:
        os.environ["OMP_NUM_THREADS"] = str(count)
    thread_count.cache_clear()
