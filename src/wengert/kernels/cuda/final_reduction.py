"""Final reductions: what is left of a kernel over columns when another kernel has left partial sums of the columns.

In: a kernel over columns, and the number of its partial sums. Out: a kernel over columns again, whose rows are the
partial sums; it does in the end what the first would do. It takes a few microseconds, of which most are its launch:
those of a model's equal layers, one text, are one launch when the last of them can be done.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from wengert.kernels.cuda.columns import ColumnsText
from wengert.kernels.cuda.multi_tensor import ADDRESSES, Segments, signature_of_plain
from wengert.kernels.cuda.reductions import partials_name, reductions_in, state_dtype
from wengert.kernels.cuda.shapes import Columns, vector_width
from wengert.kernels.cuda.source import CudaPage
from wengert.kernels.ir.index import Loop, flat, variable
from wengert.kernels.ir.loops import Load, LoopKernel, Stage, Store
from wengert.kernels.ir.match import Fresh, definitions
from wengert.kernels.ir.transforms import merge_loops, needed, statements_of
from wengert.kernels.launch import DeviceProperties, Work

_PART = "part"  # the loop of a final reduction over the partial sums


def final_reduction(columns: LoopKernel, parts: int) -> LoopKernel:
    """The kernel that adds up partial sums of columns, and does what comes after."""
    columns = merge_loops(columns)
    reductions = reductions_in(columns.stages[0].inside)
    along = Loop(_PART, parts)
    loops = [along, *columns.outer]
    index = flat([variable(loop) for loop in loops], [loop.extent for loop in loops])
    fresh = Fresh(definitions(statements_of(columns)).values())
    loads = [Load(fresh.name(), partials_name(reduction), state_dtype(reduction), index) for reduction in reductions]
    added = [replace(reduction, value=load.name) for reduction, load in zip(reductions, loads)]
    kernel = needed(replace(columns, inner=[along], stages=[Stage(columns.stages[0].before, [*loads, *added])]))
    used = {s.buffer for s in statements_of(kernel) if isinstance(s, Load | Store)}
    buffers = {name: kind for name, kind in columns.buffers.items() if name in used}
    return replace(kernel, buffers={**buffers, **{load.buffer: (load.dtype, False) for load in loads}})


def final_reduction_shape(kernel: LoopKernel, count: int = 1) -> Columns:
    """Few columns a block and many threads for each, since their parts are many.

    Of several final reductions more columns: there are blocks enough, and memory is read in longer pieces.
    """
    across = 1 << min(count, 4).bit_length()
    return Columns(vector_width([*kernel.stages[0].inside, *kernel.after], kernel.outer[-1]), across, 256 // across)


def final_reduction_signature(kernel: LoopKernel) -> Hashable | None:
    """What final reductions must have in common to be segments of one launch; None for another kernel."""
    loops = (*kernel.outer, *kernel.inner)
    is_final = len(kernel.outer) == 1 and [loop.name for loop in kernel.inner] == [_PART]
    return (loops, signature_of_plain(kernel)) if is_final else None


def write_final_reductions(kernels: Sequence[LoopKernel], device: DeviceProperties) -> Work:
    """One launch for final reductions of one signature (more where the table of their buffers would be too long)."""
    size = max(1, ADDRESSES // len(kernels[0].buffers))
    parts = [_FinalReductions(kernels[i : i + size]) for i in range(0, len(kernels), size)]
    return Work(tuple(part.work().launches[0] for part in parts))


class _FinalReductions(ColumnsText):
    """Final reductions of one text, each a segment of as many blocks."""

    def __init__(self, kernels: Sequence[LoopKernel]) -> None:
        self.segments = Segments(kernels)
        shape = final_reduction_shape(kernels[0], len(kernels))
        super().__init__(kernels[0], shape, f"{len(kernels)} kernels of one text")

    def block(self, page: CudaPage) -> str:
        """The number of a block in its segment."""
        blocks = self.lines * self.others
        page.line(f"const int segment = blockIdx.x / {blocks};")
        self.segments.bind(page, self.names)
        return f"(blockIdx.x % {blocks})"

    def launch(self, grid: int, why: str) -> None:
        """Launch the blocks of all segments."""
        super().launch(grid * len(self.segments.segments), why)
