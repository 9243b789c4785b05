"""Values that pass the cache by: those too large for it, each element of which a kernel reads or writes once.

Nothing of a value twice as large as the cache would be found there by who wants it next; it would only push out all
else. So its lines are marked as the first to leave. Measured on an H200, that is faster where a kernel does it to all
large values it reads and writes, and slower where to those that it reads, or writes, alone.
"""

from __future__ import annotations

import math

from wengert.kernels.cuda.shapes import Elements, Rows
from wengert.kernels.cuda.text import is_vector
from wengert.kernels.launch import Device
from wengert.kernels.loops import Kernel, Load, Store
from wengert.kernels.nest import statements_of

LARGE = 2  # times the cache's size
KINDS = (Elements, Rows)


def past_cache(kernel: Kernel, shape: Elements | Rows, device: Device) -> frozenset[str]:
    """The buffers that a kernel reads and writes past the cache: all large ones, if there are some of both, or none."""
    if not isinstance(shape, KINDS) or (isinstance(shape, Rows) and not shape.chunks):
        return frozenset()
    touching = [s for s in statements_of(kernel) if isinstance(s, Load | Store) and s.buffer not in kernel.scratch]
    large = {s.buffer for s in touching if _span(s) * s.dtype.itemsize >= LARGE * device.l2}
    touching = [s for s in touching if s.buffer in large]
    ways = {(type(s), s.buffer, s.index) for s in touching}
    both = {type(s) for s in touching} == {Load, Store}
    once = len(ways) == len(large) and all(_is_once(s, kernel, shape.vector) for s in touching)
    return frozenset(large if both and once else ())


def _is_once(statement: Load | Store, kernel: Kernel, vector: int) -> bool:
    """Whether it has as many elements as the kernel has steps, all of them in accesses of several."""
    loops = (*kernel.outer, *kernel.inner)
    guarded = isinstance(statement, Load) and statement.guards
    whole = _span(statement) == math.prod(loop.extent for loop in loops)
    return whole and not guarded and vector > 1 and is_vector(statement, loops[-1], vector)


def _span(statement: Load | Store) -> int:
    """The elements between the first and the last that it touches."""
    low, high = statement.index.bounds()
    return high - low + 1
