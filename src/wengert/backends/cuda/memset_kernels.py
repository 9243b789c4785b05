"""Memsets of a captured graph as kernels: those that may run early are merged into one kernel at the start.

Libraries clear counters before some of their kernels. Each such memset in a graph costs 2 us of host time per launch, a
kernel a tenth of that: GPT-2's graph, with 99 memsets among 505 nodes, took 205 us to launch on an H200, and its 223
kernels of ours alone 13 us. Between two long kernels each memset also takes 1 us of device time. Counters in memory
that only one call uses, which the plan arranges (`plan/memory.py`), can be cleared before everything else.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.backends.cuda.bindings import check
from wengert.backends.cuda.calls import Arguments
from wengert.backends.cuda.kernel import KernelLoader
from wengert.core.errors import CudaError
from wengert.kernels.launch import Launch, Struct

MOST = 1 << 16  # bytes; larger ranges are worth a memset
TABLE = 250  # memsets of one kernel: a launch takes 4 KB by value everywhere
_THREADS = 256
_REPEATED = {1: 0x01010101, 2: 0x00010001, 4: 1}  # by the bytes of an element: what makes a word of its value
_TEXT = """
extern "C" __global__ void wg_fill(unsigned int* to, unsigned int value, unsigned int count) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) to[i] = value;
}
"""
MEMSET_KERNEL = Launch(_TEXT, "wg_fill", (1, 1, 1), (_THREADS, 1, 1), ("to",))
_TEXT_OF_ALL = f"""
struct wg_words {{ unsigned int* to; unsigned int value, count; }};
struct wg_fills {{ wg_words of[{TABLE}]; }};

extern "C" __global__ void wg_fill_all(const __grid_constant__ wg_fills fills) {{
    const wg_words words = fills.of[blockIdx.x];
    for (unsigned int i = threadIdx.x; i < words.count; i += blockDim.x) words.to[i] = words.value;
}}
"""
MEMSETS_KERNEL = Launch(_TEXT_OF_ALL, "wg_fill_all", (1, 1, 1), (_THREADS, 1, 1), ("fills",))

Edges = set[tuple[int, int]]  # between nodes by their handles: one that is before another


class OwnMemory(NamedTuple):
    """Memory from `start` to `end` that only one call of a graph uses, and the nodes that precede the call."""

    start: int
    end: int
    after: frozenset[int]


class Memset(NamedTuple):
    """A memset of words with one value."""

    pointer: int
    value: int
    words: int

    @property
    def end(self) -> int:
        """The address after the last word."""
        return self.pointer + 4 * self.words

    @staticmethod
    def of(memset: Any) -> Memset | None:
        """The memset of a node, if it is small and consists of whole words."""
        size = memset.width * memset.elementSize
        if memset.height != 1 or size > MOST or size % 4 or int(memset.dst) % 4:
            return None
        mask = (1 << 8 * memset.elementSize) - 1
        return Memset(int(memset.dst), (memset.value & mask) * _REPEATED[memset.elementSize], size // 4)


def memsets_as_kernels(driver: KernelLoader, graph: Any, own: Sequence[OwnMemory] = ()) -> Any:
    """The graph with small memsets replaced by kernels; unchanged if the driver does not allow it.

    `own` is the memory that single calls of the graph use.
    """
    cu = driver.cu
    kind = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMSET
    nodes = check(cu.cuGraphGetNodes(graph, check(cu.cuGraphGetNodes(graph))[1]))[0]
    of_kind = [node for node in nodes if check(cu.cuGraphNodeGetType(node)) == kind]
    found = [(int(node), Memset.of(check(cu.cuGraphMemsetNodeGetParams(node)))) for node in of_kind]
    memsets = {node: memset for node, memset in found if memset is not None}
    if memsets:
        functions = driver.kernels([MEMSET_KERNEL, MEMSETS_KERNEL])
        _Change(cu, graph, {int(node): node for node in nodes}, functions).replace(memsets, own)
    return graph


class _Change:
    """Replaces nodes of a graph: all of them, or none."""

    def __init__(self, cu: Any, graph: Any, nodes: Mapping[int, Any], functions: Mapping[Any, Any]) -> None:
        self.cu, self.graph, self.nodes, self.functions = cu, graph, dict(nodes), functions
        self.edges = self._edges_now()
        self.made: list[int] = []

    def replace(self, memsets: Mapping[int, Memset], own: Sequence[OwnMemory]) -> None:
        """Replace memsets by kernels, those that can run early at the start."""
        early = _early(memsets, self.edges, own)
        others = set(self.nodes) - set(memsets)
        try:
            self._add_beginning([memsets[node] for node in early])
            beginning = self.made[-1:]
            twins = {node: self._add_memset(memset) for node, memset in memsets.items() if node not in early}
            edges = {(twins.get(a, a), twins.get(b, b)) for a, b in _without(early, self.edges)}
            first = others.union(twins.values()) - {after for _, after in edges}
            edges |= {(node, after) for node in beginning for after in first}
            self._connect(edges - self.edges)
        except CudaError:
            self._undo()
            return
        for node in memsets:
            check(self.cu.cuGraphDestroyNode(self.nodes[node]))

    def _add_beginning(self, memsets: Sequence[Memset]) -> None:
        """Add the kernel that clears all early ones; several in sequence if there are many."""
        for start in range(0, len(memsets), TABLE):
            part = memsets[start : start + TABLE]
            table = np.zeros(TABLE, [("to", np.uint64), ("value", np.uint32), ("count", np.uint32)])
            table[: len(part)] = part
            self._add(MEMSETS_KERNEL, len(part), Arguments([Struct(table.tobytes())]), self.made[-1:])

    def _add_memset(self, memset: Memset) -> int:
        arguments = Arguments([memset.pointer, np.uint32(memset.value), np.uint32(memset.words)])
        return self._add(MEMSET_KERNEL, -(-memset.words // _THREADS), arguments)

    def _add(self, launch: Launch, blocks: int, arguments: Arguments, before: Sequence[int] = ()) -> int:
        """Add a node after its predecessors."""
        parameters = self.cu.CUDA_KERNEL_NODE_PARAMS()
        parameters.func = self.functions[launch.source, launch.entry]
        parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ = blocks, 1, 1
        parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ = launch.block
        parameters.kernelParams = arguments.pointer
        waited = [self.nodes[node] for node in before]
        node = check(self.cu.cuGraphAddKernelNode(self.graph, waited, len(waited), parameters))
        self.nodes[int(node)] = node
        self.made.append(int(node))
        return int(node)

    def _connect(self, edges: Edges) -> None:
        check(self.cu.cuGraphAddDependencies(self.graph, *self._as_given(edges)))

    def _undo(self) -> None:
        """Restore the graph, however many changes were made."""
        for node in self.made:
            check(self.cu.cuGraphDestroyNode(self.nodes[node]))
        check(self.cu.cuGraphRemoveDependencies(self.graph, *self._as_given(self._edges_now() - self.edges)))

    def _as_given(self, edges: Edges) -> tuple[list[Any], list[Any], None, int]:
        """Edges in the driver's format."""
        ordered = sorted(edges)
        return [self.nodes[a] for a, _ in ordered], [self.nodes[b] for _, b in ordered], None, len(ordered)

    def _edges_now(self) -> Edges:
        count = check(self.cu.cuGraphGetEdges(self.graph))[-1]
        sources, targets, *_ = check(self.cu.cuGraphGetEdges(self.graph, count))
        return set(zip(map(int, sources), map(int, targets)))


def _early(memsets: Mapping[int, Memset], edges: Edges, own: Iterable[OwnMemory]) -> list[int]:
    """The memsets that should run at the start; a single one gains nothing.

    Each must be the only one in its call's own memory and precede everything else in the call, because the call's
    kernels may write what is cleared later.
    """
    found = []
    for place in own:
        inside = [node for node, memset in memsets.items() if memset.pointer < place.end and place.start < memset.end]
        if len(inside) == 1:
            memset = memsets[inside[0]]
            is_within = place.start <= memset.pointer and memset.end <= place.end
            if is_within and {a for a, b in edges if b == inside[0]} <= place.after:
                found.append(inside[0])
    return found if len(found) > 1 else []


def _without(gone: Collection[int], edges: Edges) -> Edges:
    """Edges without some nodes: their predecessors precede their successors."""
    for node in gone:
        before = [a for a, b in edges if b == node]
        after = [b for a, b in edges if a == node]
        edges = {edge for edge in edges if node not in edge} | {(a, b) for a in before for b in after}
    return edges
