"""The number of threads that kernels are generated for and run on."""

from __future__ import annotations

import functools
import os

from wengert.core.cores import available_cores


@functools.cache
def thread_count() -> int:
    """The number of threads to use: OMP_NUM_THREADS, or the number of cores available to this process."""
    return chosen_threads() or available_cores()


def chosen_threads() -> int | None:
    """The number of threads that the environment requests."""
    chosen = os.environ.get("OMP_NUM_THREADS", "")
    return int(chosen) if chosen.isdigit() and int(chosen) > 0 else None


def use_threads(count: int | None) -> None:
    """Generate kernels for this many threads from now on, in this process and its children.

    None stands for all cores.
    """
    if count is None:
        os.environ.pop("OMP_NUM_THREADS", None)
    else:
        os.environ["OMP_NUM_THREADS"] = str(count)
    thread_count.cache_clear()
