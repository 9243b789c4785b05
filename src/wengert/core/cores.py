"""How many processors this process may use: fewer than the machine has where a container or `taskset` says so."""

from __future__ import annotations

import os


def available_cores() -> int:
    """The number of processors that this process may run on; all of the machine's where the system does not say."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
