"""From kernels to a C function: chooses the shape of work for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from wengert.core.dtypes import COMPLEX, float64
from wengert.kernels.c.lanes import Lanes
from wengert.kernels.c.rows import RowWriter
from wengert.kernels.c.source import Body, ParallelFor
from wengert.kernels.ir.loops import Let, LoopKernel
from wengert.kernels.ir.transforms import crosses, cut, merge_loops, split, statements_of, symbols
from wengert.kernels.writer import C, functions_of, parameters

_FAR = frozenset(("sin", "cos", "tan"))  # whose float64 versions for large arguments are a header of their own


@dataclass(frozen=True)
class Function:
    """A kernel as C without its name: its body, its buffers in order, and its properties.

    Symbolic extents follow the buffers.
    """

    body: Body
    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    nests: int = 1  # loop nests, one after another
    in_parts: bool = False  # whether a reduction is cut into parts
    headers: tuple[str, ...] = ()  # beside math.h
    in_region: bool = False  # whether all threads of a parallel region call it
    is_whole: bool = False  # whether it is a loop over steps, which wakes threads itself if it needs them

    def named(self, name: str) -> str:
        """The definition under a name."""
        parts = [part.text(self.in_region) if isinstance(part, ParallelFor) else part for part in self.body]
        return f"{self.declared(name)}\n{{\n{''.join(parts)}}}\n"

    def declared(self, name: str) -> str:
        """The declaration, visible only to the program's other units."""
        return f"KERNEL {name}({', '.join(self.parameters)})"

    @property
    def is_parallel(self) -> bool:
        """Whether its outer loop is large enough for threads."""
        return any(isinstance(part, ParallelFor) for part in self.body)

    @property
    def is_one_loop(self) -> bool:
        """Whether its outer loops contain all of its work; a sum in parts has work after them."""
        return self.nests == 1 and not self.in_parts and not self.is_whole

    def shared(self) -> Function:
        """The variant that all threads of a parallel region call: they share its outer loop without a barrier."""
        return replace(self, in_region=True)


class FunctionCall(NamedTuple):
    """A call of a Function by its name."""

    name: str
    arguments: tuple[str, ...]

    def text(self, in_region: bool = False) -> str:
        """The C statement; in a parallel region, it calls the shared variant."""
        return f"{shared_name(self.name) if in_region else self.name}({', '.join(self.arguments)});"


def shared_name(name: str) -> str:
    """The name of a function's shared variant."""
    return f"{name}_shared"


def write(*kernels: LoopKernel) -> Function:
    """The C of consecutive kernels, as one function."""
    merged = [merge_loops(split(piece)) for kernel in kernels for piece in cut(kernel)]
    names, declared = _parameters(merged)
    writers = [(Lanes if _in_lanes(kernel) else RowWriter)(kernel, names) for kernel in merged]
    bodies = [writer.body() for writer in writers]
    body = bodies[0] if len(bodies) == 1 else tuple(part for one in bodies for part in ("    {\n", *one, "    }\n"))
    in_parts = any(writer.in_parts for writer in writers)
    return Function(body, declared, tuple(names), len(bodies), in_parts, _headers(merged))


def _in_lanes(kernel: LoopKernel) -> bool:
    """Whether rows are processed together in numbers that must be known at compile time."""
    return crosses(kernel) and not symbols(kernel)


def _headers(kernels: Iterable[LoopKernel]) -> tuple[str, ...]:
    statements = [s for kernel in kernels for s in statements_of(kernel)]
    if any(s.dtype in COMPLEX for s in statements):
        return ("complex.h",)
    lets = [s for s in statements if isinstance(s, Let) and s.computed_in is float64]
    return ("far.h",) if any(not _FAR.isdisjoint(functions_of(one)) for one in lets) else ()


def _parameters(kernels: Sequence[LoopKernel]) -> tuple[dict[str, str], tuple[str, ...]]:
    """The buffers' names in C, and their declarations."""
    dtypes = {buffer: dtype for kernel in kernels for buffer, (dtype, _) in kernel.buffers.items()}
    written = {buffer for kernel in kernels for buffer, (_, is_written) in kernel.buffers.items() if is_written}
    names = {buffer: f"b{i}" for i, buffer in enumerate(dtypes)}
    declared = parameters({buffer: (dtype, buffer in written) for buffer, dtype in dtypes.items()}, names, C)
    sizes = dict.fromkeys(symbol for kernel in kernels for symbol in symbols(kernel))
    return names, (*declared, *[f"long {symbol}" for symbol in sizes])


def write_rows(kernel: LoopKernel, columns: str) -> Function | None:
    """An elementwise kernel's C for the rows from `first` to `last`; None if its rows are not one loop.

    `columns` names the loop over the last axis. A matrix product runs it on rows that a thread has just computed.
    """
    inner = [loop for loop in kernel.outer if loop.name == columns]
    kernel = merge_loops(replace(kernel, outer=[loop for loop in kernel.outer if loop.name != columns], inner=inner))
    if len(kernel.outer) != 1:
        return None
    names, declared = _parameters([kernel])
    body, declared = RowWriter(kernel, names).body_of_rows(), (*declared, "long first", "long last")
    return Function(body, declared, tuple(names), headers=_headers([kernel]))
