"""Memsets of a captured graph, as kernels.

Libraries have counters cleared before some of their kernels. In a graph each such memset takes 2 us of the host's time
at every launch, a kernel a tenth of that: GPT-2's graph with 99 of them among 505 nodes took 205 us to launch on an
H200, and its 223 kernels of ours alone 13 us.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.backends.cuda.bindings import check
from wengert.backends.cuda.stream import Arguments
from wengert.errors import CudaError
from wengert.kernels.launch import Launch

MOST = 1 << 16  # bytes: what is larger is worth a memset
_THREADS = 256
_REPEATED = {1: 0x01010101, 2: 0x00010001, 4: 1}  # by the bytes of an element: what makes a word of its value
_TEXT = """
extern "C" __global__ void wg_fill(unsigned int* to, unsigned int value, unsigned int count) {
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) to[i] = value;
}
"""
FILL = Launch(_TEXT, "wg_fill", (1, 1, 1), (_THREADS, 1, 1), ("to",))


class Fill(NamedTuple):
    """Words of one value."""

    pointer: int
    value: int
    words: int

    @staticmethod
    def of(memset: Any) -> Fill | None:
        """What a memset does, if it is small and of whole words."""
        size = memset.width * memset.elementSize
        if memset.height != 1 or size > MOST or size % 4 or int(memset.dst) % 4:
            return None
        mask = (1 << 8 * memset.elementSize) - 1
        return Fill(int(memset.dst), (memset.value & mask) * _REPEATED[memset.elementSize], size // 4)


def filled_by_kernels(driver: Any, graph: Any) -> Any:
    """The graph with kernels in place of its small memsets; as it is where the driver does not have it so."""
    cu = driver.cu
    kind = cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMSET
    nodes = check(cu.cuGraphGetNodes(graph, check(cu.cuGraphGetNodes(graph))[1]))[0]
    memsets = [node for node in nodes if check(cu.cuGraphNodeGetType(node)) == kind]
    fills = [(node, Fill.of(check(cu.cuGraphMemsetNodeGetParams(node)))) for node in memsets]
    wanted = [(node, fill) for node, fill in fills if fill is not None]
    if wanted:
        function = driver.kernels([FILL])[FILL.source, FILL.entry]
        _replace(cu, graph, wanted, function)
    return graph


def _replace(cu: Any, graph: Any, wanted: Sequence[tuple[Any, Fill]], function: Any) -> None:
    """Put kernels where memsets are: all of them, or none."""
    sources, targets, *_ = check(cu.cuGraphGetEdges(graph, check(cu.cuGraphGetEdges(graph))[-1]))
    edges = list(zip(sources, targets))
    made: dict[int, Any] = {}
    try:
        for node, fill in wanted:
            before = [made.get(int(a), a) for a, b in edges if int(b) == int(node)]
            after = [made.get(int(b), b) for a, b in edges if int(a) == int(node)]
            twin = made[int(node)] = _added(cu, graph, before, function, fill)
            if after:
                check(cu.cuGraphAddDependencies(graph, [twin] * len(after), after, None, len(after)))
    except CudaError:
        for twin in made.values():
            check(cu.cuGraphDestroyNode(twin))
        return
    for node, _ in wanted:
        check(cu.cuGraphDestroyNode(node))


def _added(cu: Any, graph: Any, before: Sequence[Any], function: Any, fill: Fill) -> Any:
    """A new node of the graph, which fills after the nodes before it."""
    arguments = Arguments([fill.pointer, np.uint32(fill.value), np.uint32(fill.words)])
    parameters = cu.CUDA_KERNEL_NODE_PARAMS()
    parameters.func = function
    parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ = -(-fill.words // _THREADS), 1, 1
    parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ = _THREADS, 1, 1
    parameters.kernelParams = arguments.pointer
    return check(cu.cuGraphAddKernelNode(graph, before, len(before), parameters))
