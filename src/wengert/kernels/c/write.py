"""From kernels to a C function: which shape of work each is."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from wengert.kernels.c.lanes import Lanes
from wengert.kernels.c.rows import Rows
from wengert.kernels.expressions import stored_type
from wengert.kernels.ir.loops import Kernel
from wengert.kernels.ir.transforms import crosses, cut, merge_loops, split


@dataclass(frozen=True)
class Function:
    """A kernel as C: its text without its name, and the buffers it takes in order."""

    body: str
    parameters: tuple[str, ...]
    arguments: tuple[str, ...]
    nests: int = 1  # loop nests, one after the other

    def named(self, name: str) -> str:
        """The definition under a name."""
        return f"{self.declared(name)}\n{{\n{self.body}}}\n"

    def declared(self, name: str) -> str:
        """The declaration: seen by the program's other units, and by nobody else."""
        return f"KERNEL {name}({', '.join(self.parameters)})"

    @property
    def is_parallel(self) -> bool:
        """Whether its outer loop is worth the threads."""
        return "#pragma omp parallel" in self.body

    @property
    def is_one_loop(self) -> bool:
        """Whether all it does is inside its outer loops; a sum in parts has something to do after them."""
        return self.nests == 1 and "_parts[" not in self.body

    def shared(self) -> Function:
        """The function for all threads of a parallel region to call: they share its outer loop and do not wait."""
        return replace(self, body=re.sub(r"#pragma omp parallel for( simd)?", r"#pragma omp for\1 nowait", self.body))


def write(*kernels: Kernel) -> Function:
    """The C of kernels that follow each other, as one function."""
    merged = [merge_loops(split(piece)) for kernel in kernels for piece in cut(kernel)]
    names, parameters = _parameters(merged)
    bodies = [(Lanes if crosses(kernel) else Rows)(kernel, names).text() for kernel in merged]
    body = bodies[0] if len(bodies) == 1 else "".join(f"    {{\n{body}    }}\n" for body in bodies)
    return Function(body, parameters, tuple(names), len(bodies))


def _parameters(kernels: Sequence[Kernel]) -> tuple[dict[str, str], tuple[str, ...]]:
    """What the buffers are called in C, and how they are declared."""
    dtypes = {buffer: dtype for kernel in kernels for buffer, (dtype, _) in kernel.buffers.items()}
    written = {buffer for kernel in kernels for buffer, (_, is_written) in kernel.buffers.items() if is_written}
    names = {buffer: f"b{i}" for i, buffer in enumerate(dtypes)}
    declared = tuple(
        f"{'' if buffer in written else 'const '}{stored_type(dtypes[buffer])} *restrict {name}"
        for buffer, name in names.items()
    )
    return names, declared


def write_rows(kernel: Kernel, columns: str) -> Function | None:
    """The C of an elementwise kernel for the rows from `first` to `last`; None where its rows are not one loop.

    `columns` names the loop over the last axis. It is what runs on the rows of a matrix product that a thread has made.
    """
    inner = [loop for loop in kernel.outer if loop.name == columns]
    kernel = merge_loops(replace(kernel, outer=[loop for loop in kernel.outer if loop.name != columns], inner=inner))
    if len(kernel.outer) != 1:
        return None
    names, parameters = _parameters([kernel])
    return Function(Rows(kernel, names).rows_text(), (*parameters, "long first", "long last"), tuple(names))
