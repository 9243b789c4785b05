"""In-place results: whether a kernel reads each element before it overwrites it.

Within a pass one thread owns an element, and loads everything it needs at that element before it stores. Earlier passes
are complete by then: the same threads have the same elements, or the block has finished their reductions, or they were
separate launches. So a result may overwrite an operand that is read at the same element, in the same pass or an earlier
one. A row scalar may be read late, by any thread, and what a later pass reads would be lost.
"""

from __future__ import annotations

from wengert.kernels.cuda.shapes import Elements, Rows, Shape
from wengert.kernels.ir.loops import Let, Load, LoopKernel, Statement, Store
from wengert.kernels.ir.transforms import reductions_in, statements_of
from wengert.ops.comparison import CHECKED_INDEX


def reads_first(kernel: LoopKernel, shape: Shape, buffer: str) -> bool:
    """Whether a kernel, as generated, reads everything it needs of a buffer's elements before writing them."""
    passes = [[s for s in stage.inside if _touches(s, buffer)] for stage in kernel.stages]
    inside = [s for one in passes for s in one]
    once = [s for stage in kernel.stages for s in stage.before] + kernel.after
    if not inside or any(_touches(s, buffer) for s in once):
        return False
    *loads, store = inside
    if not isinstance(store, Store) or any(not isinstance(s, Load) or s.index != store.index for s in loads):
        return False
    writing = next(number for number, one in enumerate(passes) if store in one)
    waits = all(reductions_in(stage.inside) for stage in kernel.stages[:writing])
    return waits and (_is_exact(shape) or not _checks(kernel))


def _touches(statement: Statement, buffer: str) -> bool:
    return isinstance(statement, Load | Store) and statement.buffer == buffer


def _is_exact(shape: Shape) -> bool:
    """Whether no surplus thread reads the last row together with those that may have overwritten it."""
    return isinstance(shape, Elements) or (isinstance(shape, Rows) and shape.rows == 1)


def _checks(kernel: LoopKernel) -> bool:
    """Whether an index is checked; it must not depend on what was overwritten."""
    return any(isinstance(s, Let) and s.op is CHECKED_INDEX for s in statements_of(kernel))
