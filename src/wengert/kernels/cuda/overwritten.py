"""Numbers of a row that a kernel overwrites at the end and reads in every pass: parameters that it updates, say.

Where blocks share a row, the one that overwrites them may be done before another begins. So the first pass keeps copies
in temporaries, and the last one, which stores, reads those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from wengert.kernels.cuda.source import Access, Names, access, stored_type
from wengert.kernels.ir.index import flat, variable
from wengert.kernels.ir.loops import Load, LoopKernel, Stage, Statement, Store

Copies = Mapping[Access, Load]  # by what is read: the same from its copy


def copies_of(kernel: LoopKernel) -> Copies:
    """What is both read by the passes and overwritten after them."""
    written = {s.buffer for s in kernel.after if isinstance(s, Store)}
    loads = {access(s): s for stage in kernel.stages for s in stage.before if isinstance(s, Load)}
    row = flat([variable(loop) for loop in kernel.outer], [loop.extent for loop in kernel.outer])
    read = [(key, load) for key, load in loads.items() if load.buffer in written]
    return {key: replace(load, buffer=f"kept{i}", index=row) for i, (key, load) in enumerate(read)}


def declare(copies: Copies, names: Names) -> None:
    """Have the temporaries under their names."""
    for copy in copies.values():
        names.buffers[copy.buffer] = copy.buffer
        names.workspace[copy.buffer] = stored_type(copy.dtype)


def bytes_of(copies: Copies, rows: int) -> dict[str, int]:
    """The bytes of the temporaries."""
    return {copy.buffer: rows * copy.dtype.itemsize for copy in copies.values()}


def copying(copies: Copies) -> list[Statement]:
    """What makes the copies."""
    found: list[Statement] = []
    for (buffer, index, guards), copy in copies.items():
        found.append(Load(copy.name, buffer, copy.dtype, index, guards))
        found.append(Store(copy.buffer, copy.dtype, copy.index, copy.name))
    return found


def reading(stages: list[Stage], copies: Copies) -> list[Stage]:
    """The stages with the copies read instead."""

    def instead(statement: Statement) -> Statement:
        if not isinstance(statement, Load) or access(statement) not in copies:
            return statement
        return replace(copies[access(statement)], name=statement.name)

    return [Stage([instead(s) for s in stage.before], stage.inside) for stage in stages]
