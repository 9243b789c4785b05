"""Loops and branches on a GPU: one kernel, in which each thread has a lane and runs all steps.

In: a scan, while loop or branch whose body does the same work for every lane. Out: its launches; None if a kernel
cannot run it. Carries are in registers. At each step neighbouring threads read sequences and write stacked outputs side
by side. A body without lanes runs on one thread, which is still a single launch and leaves all data in place.

An inner loop keeps what it stacks for a later one (the carries of a segment, for its backward pass) in a per-thread
array: in shared memory if that leaves enough warps per SM, else in local memory, which stays in the L1 cache as far as
it fits, or if it is large in a workspace, where threads' elements are interleaved. A Runge-Kutta step of the Lorenz
equations is about 45 instructions, so 1,000 steps of 10^6 lanes are bound by instruction issue.

Lanes of a `while_loop` end separately, and a warp continues until its last lane has ended. So if there are several
lanes for each resident thread, a block has a chunk of lanes, and a thread whose lane has ended takes the next: in one
flat loop, since threads wait for each other at the end of an inner one. For trajectories of 30 to 1,700 steps, counted
on the CPU: 2.5 times the necessary steps with one lane per thread, 1.4 times with eight.

Totals over lanes (the gradient of a shared value) are added over the lanes of a warp and then, by a second launch, over
warps, always in the same order.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence

from wengert.autodiff.cond import WHILE
from wengert.compiler.loop_lanes import LaneAxes, bodies_of
from wengert.core.dtypes import COMPLEX
from wengert.core.graph import Graph, Node
from wengert.kernels.ir.loops import DType
from wengert.kernels.launch import Asked, DeviceProperties, Launch, LaunchList, Named
from wengert.kernels.loops.elements import Language, Straight
from wengert.kernels.loops.limits import has_complex
from wengert.kernels.loops.whole import WholeLanes, known_number, lane_bytes, lanes_by_form, why_not_whole
from wengert.kernels.writer import CUDA, ERROR, parameter, scalar_type
from wengert.ops.comparison import CHECKED_INDEX

WARP = 32
THREADS = 128  # of a block, if there are lanes for all SMs
WARPS = 12  # resident on an SM, if arrays are in shared memory: three for each scheduler hide an instruction's time
LOCAL = 2048  # bytes of arrays in local memory, which the driver sets aside for every thread that could be resident
WORKSPACE = 1 << 30  # bytes of arrays in a workspace
WIDE = (1 << 31) - (1 << 20)  # elements from which places do not fit 32 bits
RESIDENT = 1024  # threads of an SM for lanes that end by themselves: where there are more lanes, threads take several
MOST = 16  # lanes of a thread: with more, a block's last ones are too late
TOTALS = 256  # threads that add the warps' parts


def form(node: Node) -> LaneAxes | None:
    """The lanes of a loop or branch that one kernel can run, empty for a single thread; None if it cannot."""
    return next((lanes for lanes in lanes_by_form(node) if _why_not(node, lanes) is None), None)


def _why_not(node: Node, lanes: LaneAxes) -> str | None:
    """Why a kernel cannot run a loop or branch with these lanes."""
    reason = why_not_whole(node, lanes)
    if reason is None and lanes.count * lane_bytes(node, lanes) > max(WORKSPACE, lanes.count * LOCAL):
        return "what loops inside keep takes too much memory"
    return reason


def has_work(node: Node) -> bool:
    """Whether a kernel can run a loop or branch."""
    return form(node) is not None


def operands(node: Node) -> list[Node]:
    """The operands that a loop or branch reads from memory; if it has a kernel, its text contains the literals."""
    return [source for source in node.sources if known_number(source) is None or not has_work(node)]


def work(node: Node, named: Named, device: DeviceProperties, asked: Asked) -> LaunchList | None:
    """The launches of a loop or branch, if one thread per lane can run it."""
    lanes = form(node)
    return None if lanes is None else _Kernel(node, lanes, named, device, asked).written()


def block_of(count: int, device: DeviceProperties) -> int:
    """Threads of a block for this many lanes: fewer where there are few, so that all SMs have some.

    >>> from wengert.kernels.launch import H200
    >>> block_of(1_000_000, H200), block_of(10_000, H200), block_of(1, H200)
    (128, 64, 32)
    """
    return max(WARP, min(THREADS, count // device.sms // WARP * WARP))


class _Kernel(WholeLanes):
    """The kernel of a loop or branch, as it is written."""

    def __init__(self, node: Node, lanes: LaneAxes, named: Named, device: DeviceProperties, asked: Asked) -> None:
        picked = [asked.results.get(number) for number in range(len(node.shape))]
        sizes = [*(source.size for source in node.sources), *(math.prod(shape) for shape in node.shape), lanes.count]
        counter = "long long" if max(sizes) > WIDE else "int"
        super().__init__(node, lanes, Language(CUDA, counter, False, True))
        self.named = named
        self.results = [None if one is None else named(one) for one in picked]
        self.block = block_of(lanes.count, device)
        self.each = 1
        if node.op is WHILE and node.attrs["lanes"] is not None:
            self.each = max(1, min(MOST, lanes.count // (device.sms * RESIDENT)))
        self.warps = -(-lanes.count // (self.block * self.each)) * (self.block // WARP)
        self.buffers: dict[str, str] = {}  # by the name of a buffer: what the text calls it,
        self.declared: dict[str, str] = {}  # and how it is declared
        self.workspace: dict[str, int] = {}
        self.shared = 0  # bytes of arrays for each thread
        self.head: list[str] = []  # where arrays in shared memory begin
        each = lane_bytes(node, lanes)
        blocks = device.shared_per_sm // (each * self.block + 1024)
        fits = each * self.block <= device.shared_per_block and blocks * self.block >= WARPS * WARP
        self.arrays = self._in_shared if each and fits else self._in_workspace if each > LOCAL else super().array

    # --- memory -------------------------------------------------------------------------------------------------------

    def array(self, dtype: DType, count: int) -> Callable[[str], str]:
        """An array of a thread's own; the text of the element at a place of it."""
        return self.arrays(dtype, count)

    def _in_shared(self, dtype: DType, count: int) -> Callable[[str], str]:
        name, kind = self.fresh("y"), scalar_type(dtype)
        self.head.append(f"{kind} *{name} = ({kind} *)(arrays + {self.shared * self.block}) + threadIdx.x;")
        self.shared += count * max(dtype.itemsize, 4)
        return lambda place: f"{name}[({place}) * {self.block}]"

    def _in_workspace(self, dtype: DType, count: int) -> Callable[[str], str]:
        name, kind = self.fresh("y"), scalar_type(dtype)
        self.declared[name] = f"{kind} *{CUDA.restrict} {name}"
        self.workspace[name] = max(count, 1) * max(dtype.itemsize, 4) * self.lanes.count
        return lambda place: f"{name}[({place}) * {self.lanes.count}LL + lane]"

    def _buffer(self, name: str, dtype: DType, is_written: bool) -> str:
        own = self.buffers.setdefault(name, f"b{len(self.buffers)}")
        if is_written or name not in self.declared:
            self.declared[name] = parameter(dtype, is_written, own, CUDA)
        return own

    def source(self, number: int) -> str:
        """The name of a source's buffer in the text."""
        source = self.loop.sources[number]
        return self._buffer(self.named(source), source.dtype, False)

    def result(self, number: int, dtype: DType) -> str | None:
        """The name of a result's buffer in the text; None if nothing reads it."""
        name = self.results[number]
        return None if name is None else self._buffer(name, dtype, True)

    # --- the kernel ---------------------------------------------------------------------------------------------------

    def written(self) -> LaunchList:
        """The launches."""
        if not self.lanes.count:
            return LaunchList(())
        if not self.lanes.totals:
            if self.each > 1:
                self._one_after_the_other()
                return LaunchList((self._launch("math.cuh"),), self.workspace)
            if self.lanes.count % self.block:
                self.page.line(f"if (lane >= {self.lanes.count}) return;")
            self.body()
            return LaunchList((self._launch("math.cuh"),), self.workspace)
        carried = self.made
        sums = {k: [self.fresh("s") for _ in range(carried[k].size)] for k in sorted(self.lanes.totals)}
        for k, names in sums.items():
            self.page.line(f"{scalar_type(carried[k].dtype)} {', '.join(f'{name} = 0' for name in names)};")
        self.page.open(f"if (lane < {self.lanes.count})")
        carry = self.body()
        for k, names in sums.items():
            for name, value in zip(names, carry[k].ravel()):
                self.page.line(f"{name} = {value};")
        self.page.close()
        ends = [self._left(k, carried[k], names) for k, names in sums.items() if self.results[k] is not None]
        return LaunchList((self._launch("block.cuh"), *ends), self.workspace)

    def _one_after_the_other(self) -> None:
        """Let a thread take another lane when its lane has ended."""
        page, step, n = self.page, self.loop.attrs["step"], self.loop.attrs["constants"]
        apart = [k for k, node in enumerate(self.given) if self.lanes.has(node)]
        page.line("__shared__ int next;  // lane of the block's")
        page.line(f"if (threadIdx.x == 0) next = {self.block};")
        page.line("__syncthreads();")
        page.line(f"if (lane >= {self.lanes.count}) return;")
        values = [self.load(k).reshape(node.shape) for k, node in enumerate(step.inputs)]
        for k in apart:
            (values[k],) = self.variables([step.inputs[k]], [values[k]])
        page.open("while (1)")
        (going,) = self.read_all(self.loop.attrs["test"].outputs, self.graph(self.loop.attrs["test"], values))
        page.open(f"if (!{going.item()})")
        for k, names in enumerate(values[n:]):
            self.keep(k, names)
        chunk = self.block * self.each
        page.line("const int taken = atomicAdd(&next, 1);")
        page.line(f"lane = ({self.language.counter})blockIdx.x * {chunk} + taken;")
        page.line(f"if (taken >= {chunk} || lane >= {self.lanes.count}) break;")
        for k in apart:
            self.assign([step.inputs[k]], [values[k]], [self.load(k).reshape(step.inputs[k].shape)])
        page.line("continue;")
        page.close()
        self.assign(step.inputs[n:], values[n:], self.read_all(step.outputs, self.graph(step, values)))
        page.close()

    def _launch(self, header: str) -> Launch:
        if any(map(_checks_indices, bodies_of(self.loop))):
            self.declared[ERROR] = f"int *{ERROR}"
        kind = self.language.counter
        lane = f"{kind} lane = ({kind})blockIdx.x * {self.block * self.each} + threadIdx.x;"
        arrays = ["extern __shared__ __align__(16) unsigned char arrays[];"] if self.shared else []
        text = "\n".join([*(f"    {line}" for line in (*arrays, lane, *self.head)), *self.page.lines]) + "\n"
        parameters = ", ".join(self.declared.values())
        digest = hashlib.sha256(f"{parameters} {self.block} {text}".encode()).hexdigest()[:10]
        entry = f"wg_{self.loop.op.name}_{digest}"
        head = f'extern "C" __global__ void __launch_bounds__({self.block})\n{entry}({parameters})'
        share = "a thread each" if self.each == 1 else f"{self.each} a thread"
        why = f"{self.lanes.count} lanes, {share}" if self.lanes.count > 1 else "one thread"
        complex = '#include "complex.cuh"\n' if any(map(has_complex, bodies_of(self.loop))) else ""
        source = f'#include "{header}"\n{complex}\n// {self.loop.op.name}: {why}\n{head}\n{{\n{text}}}\n'
        grid = (self.warps * WARP // self.block, 1, 1)
        block, shared = (self.block, 1, 1), self.shared * self.block
        return Launch(source, entry, grid, block, tuple(self.declared), shared, why)

    # --- totals -------------------------------------------------------------------------------------------------------

    def _left(self, k: int, node: Node, names: Sequence[str]) -> Launch:
        """Each warp writes its part of a total; the launch that adds these to the total's initial value."""
        kind, part, result = scalar_type(node.dtype), f"part{k}", self.results[k]
        self.declared[part] = f"{kind} *{CUDA.restrict} {part}"
        self.workspace[part] = max(node.size, 1) * self.warps * node.dtype.itemsize
        for place, name in enumerate(names):
            self.page.line(f"{name} = wg_over_lanes<{WARP}>({name}, wg_sum());")
            at = f"{place * self.warps} + lane / {WARP}"
            self.page.line(f"if (threadIdx.x % {WARP} == 0) {part}[{at}] = {name};")
        number = self.loop.attrs["constants"] + k
        source = self.loop.sources[number]
        start = known_number(source)
        known = "first[blockIdx.x]" if start is None else Straight.node(self, start, ()).item()
        given = {self.named(source): f"const {kind} *first"} if start is None else {}
        assert result is not None
        declared = {**given, part: f"const {kind} *part", result: f"{kind} *total"}
        return _adding_up(declared, kind, self.warps, known, node.size)


def _adding_up(declared: Mapping[str, str], kind: str, count: int, first: str, totals: int) -> Launch:
    """The launch of a block for each total, which adds up this many parts."""
    entry = f"wg_totals_{kind}"
    complex = '#include "complex.cuh"\n' if kind in [scalar_type(dtype) for dtype in COMPLEX] else ""
    text = f"""#include "block.cuh"
{complex}
// the parts of a total that warps have left, added up in one order
extern "C" __global__ void __launch_bounds__({TOTALS})
{entry}({", ".join(declared.values())})
{{
    __shared__ {kind} parts[{TOTALS // WARP}];
    {kind} sum = 0;
    for (int i = threadIdx.x; i < {count}; i += {TOTALS}) sum += part[blockIdx.x * {count}LL + i];
    wg_leave_part(sum, wg_sum(), parts);
    __syncthreads();
    sum = wg_over_parts<{TOTALS}>(wg_sum(), parts);
    if (threadIdx.x == 0) total[blockIdx.x] = {first} + sum;
}}
"""
    return Launch(
        text, entry, (max(totals, 1), 1, 1), (TOTALS, 1, 1), tuple(declared), why=f"{totals} totals over lanes"
    )


def _checks_indices(graph: Graph) -> bool:
    return any(node.op is CHECKED_INDEX or any(map(_checks_indices, bodies_of(node))) for node in graph.nodes)
