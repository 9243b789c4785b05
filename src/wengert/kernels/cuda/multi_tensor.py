"""Many small kernels of one text as one launch: the updates of all parameters of a model, say.

Each kernel is a segment. A block works on one piece of one segment: it finds which by the number of blocks before each
(a binary search), and its buffers in a table of addresses that the launch takes by value.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import replace

from wengert.kernels.cuda.shapes import accesses, vector_width
from wengert.kernels.cuda.source import CudaPage, Names, Pass, stored_type
from wengert.kernels.ir.index import ZERO, Index, Loop, substitute
from wengert.kernels.ir.loops import Accumulate, Let, Load, LoopKernel, Stage, Statement, Store
from wengert.kernels.ir.transforms import merge_loops, statements_of
from wengert.kernels.launch import DeviceProperties, Work
from wengert.kernels.writer import CUDA

ALONG = Loop("i", 1 << 30)  # the loop over a segment, whatever its length
ADDRESSES = 3_000  # in a table: a launch takes up to 32 KB by value
THREADS, STEPS = 256, 2  # a piece is small, so that small segments do not leave threads idle


def multi_tensor_signature(kernel: LoopKernel) -> Hashable | None:
    """What kernels must have in common to be segments of one launch; None for one that cannot be."""
    plain = _plain(kernel)
    return None if plain is None else signature_of_plain(plain)


def signature_of_plain(plain: LoopKernel) -> Hashable:
    """The statements of a kernel, whatever its buffers are called."""
    numbers = {buffer: i for i, buffer in enumerate(plain.buffers)}
    renamed = tuple(_renamed(statement, numbers) for statement in statements_of(plain))
    return renamed, tuple(plain.buffers.values())


def write_multi_tensor(kernels: Sequence[LoopKernel], device: DeviceProperties) -> Work:
    """One launch for kernels of one signature (more where the table of their buffers would be too long)."""
    segments = [kernel for kernel in map(_plain, kernels) if kernel is not None]
    if len(segments) != len(kernels) or len(set(map(signature_of_plain, segments))) > 1:
        raise ValueError("kernels of different texts cannot be one launch")
    size = max(1, ADDRESSES // max(1, len(segments[0].buffers)))
    sizes = [math.prod(loop.extent for loop in kernel.outer) for kernel in kernels]
    parts = [_MultiTensor(segments[i : i + size], sizes[i : i + size]) for i in range(0, len(segments), size)]
    return Work(tuple(part.work().launches[0] for part in parts))


def _plain(kernel: LoopKernel) -> LoopKernel | None:
    """A kernel without reductions whose loops are one (or none), its loop called as all are; None for others."""
    if kernel.inner or any(isinstance(s, Accumulate) for s in statements_of(kernel)):
        return None
    kernel = merge_loops(kernel)
    if len(kernel.outer) > 1:
        return None
    along = Index(((ALONG, 1),))

    def moved(index: Index) -> Index | None:
        if not kernel.outer:
            return along if index == ZERO else None
        return substitute(index, kernel.outer[0], along)

    def change(statement: Statement) -> Statement | None:
        if isinstance(statement, Load | Let) and statement.guards:
            return None
        if isinstance(statement, Let):
            return statement
        assert not isinstance(statement, Accumulate)
        index = moved(statement.index)
        return None if index is None else replace(statement, index=index)

    changed = [change(statement) for statement in statements_of(kernel)]
    kept = [statement for statement in changed if statement is not None]
    if len(kept) != len(changed):
        return None
    return replace(kernel, outer=[ALONG], stages=[Stage([], kept)], after=[])


def _renamed(statement: Statement, numbers: dict[str, int]) -> Hashable:
    if isinstance(statement, Load | Store):
        return numbers[statement.buffer], replace(statement, buffer="")
    return statement


class Segments:
    """Kernels of one signature as the segments of a launch: which of them a block works on, and its buffers."""

    def __init__(self, segments: Sequence[LoopKernel]) -> None:
        self.segments, self.kernel = segments, segments[0]
        buffers = [list(segment.buffers) for segment in segments]
        self.common = [k for k, names in enumerate(zip(*buffers)) if len(set(names)) == 1]
        self.own = [k for k in range(len(buffers[0])) if k not in self.common]
        self.table = tuple(names[k] for names in buffers for k in self.own)

    def find(self, page: CudaPage, before: Sequence[int]) -> None:
        """Declare `segment`, that of a block; `before` has the number of blocks before each."""
        count = len(self.segments)
        page.line(f"static const int before[] = {{{', '.join(map(str, before))}}};")
        page.line("int segment = 0;")
        page.open(f"for (int step = {1 << max(count - 1, 0).bit_length()}; step > 0; step /= 2)")
        page.line(f"if (segment + step < {count} && before[segment + step] <= (int)blockIdx.x) segment += step;")
        page.close()

    def bind(self, page: CudaPage, names: Names) -> None:
        """Declare the buffers of the segment that a block works on."""
        names.table = self.table
        for number, k in enumerate(self.own):
            buffer, (dtype, written) = list(self.kernel.buffers.items())[k]
            kind = f"{'' if written else 'const '}{stored_type(dtype)} *"
            names.declared.add(buffer)
            at = f"table.at[segment * {len(self.own)} + {number}]"
            page.line(f"{kind}{CUDA.restrict} {names.buffers[buffer]} = ({kind}){at};")


class _MultiTensor(Segments):
    def __init__(self, segments: Sequence[LoopKernel], sizes: Sequence[int]) -> None:
        super().__init__(segments)
        self.sizes = sizes

    def work(self) -> Work:
        kernel, page = self.kernel, CudaPage()
        statements = list(statements_of(kernel))
        vector = min(vector_width(statements, ALONG), 16 // max(s.dtype.itemsize for s in accesses(statements, ALONG)))
        piece = THREADS * STEPS * vector
        before = [0]
        for size in self.sizes:
            before.append(before[-1] + -(-size // piece))
        names = Names(kernel)
        names.index = "int" if max(self.sizes) < (1 << 31) - piece else "long long"
        count = len(self.segments)
        page.line(f"static const {names.index} sizes[] = {{{', '.join(map(str, self.sizes))}}};")
        self.find(page, before[:-1])
        self.bind(page, names)
        page.line(f"const {names.index} size = sizes[segment];")
        page.line(f"const {names.index} first = ({names.index})(blockIdx.x - before[segment]) * {piece};")
        page.unrolled("u", STEPS)
        page.line(f"const {names.index} start = first + (u * {THREADS} + (int)threadIdx.x) * {vector};")
        if vector > 1:
            page.open(f"if (start + {vector} <= size)")
            page.line(f"const {names.index} i_0 = start;")
            self._elements(page, names, statements, vector)
            page.depth -= 1
            page.open("} else")
        page.open(f"for ({names.index} i = start; i < size && i < start + {vector}; i++)")
        self._elements(page, names, statements, 1)
        page.close()
        page.close()
        if vector > 1:
            page.close()
        why = f"{count} kernels of one text, {sum(self.sizes)} elements: {piece} a block"
        return Work((names.launch(page, before[-1], THREADS, why=why),))

    def _elements(self, page: CudaPage, names: Names, statements: Sequence[Statement], vector: int) -> None:
        work = Pass(statements, ALONG, vector, names)
        work.load(page)
        work.compute(page)
