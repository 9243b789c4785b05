"""Time as a quiet machine would have counted it, for the few tests in which something has to happen soon.

A test's limit must not decide how busy the machine is. The kernel counts how long processes that could have run had to
wait for a core (Linux, /proc/pressure/cpu); that much more time is allowed. On a quiet machine it is next to nothing.
The count is brought up to date every two seconds, by which limits have to be longer.
"""

from __future__ import annotations

import time
from pathlib import Path

_PRESSURE = Path("/proc/pressure/cpu")


def moment() -> float:
    """A point in time, of which differences mean something: seconds, without those in which somebody had no core."""
    return time.time() - _waited()


def _waited() -> float:
    """The seconds since the start in which a process waited for a core; 0 where nobody counts them."""
    try:
        some = _PRESSURE.read_text().splitlines()[0]
    except OSError:
        return 0.0
    return int(some.rpartition("=")[2]) / 1e6
