"""Memsets of a captured graph as kernels: on a driver that only keeps account of nodes and edges, and emulated."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.backends.emulated import EmulatedDriver
from tests.kernels.emulator import compiler
from wengert.backends.cuda.fills import FILL, MOST, Fill, filled_by_kernels
from wengert.backends.cuda.stream import Arguments
from wengert.errors import CudaError

KERNEL, MEMSET = 0, 2


def memset(dst: int = 256, value: int = 0, element: int = 4, width: int = 8, height: int = 1) -> SimpleNamespace:
    return SimpleNamespace(dst=dst, value=value, elementSize=element, width=width, height=height)


class Driver:
    """Graphs as nodes and edges between their numbers; each new node is `fill`, with the address it fills."""

    CUgraphNodeType = SimpleNamespace(CU_GRAPH_NODE_TYPE_MEMSET=MEMSET)
    CUDA_KERNEL_NODE_PARAMS = SimpleNamespace

    def __init__(self, nodes: dict[int, Any], edges: set[tuple[int, int]], refused: str = "") -> None:
        self.cu, self.nodes, self.edges, self.refused = self, nodes, edges, refused

    def kernels(self, launches: list[Any]) -> dict[Any, str]:
        return {(launch.source, launch.entry): launch.entry for launch in launches}

    def cuGraphGetNodes(self, graph: str, count: int = 0) -> tuple[Any, ...]:
        return 0, list(self.nodes)[:count], len(self.nodes)

    def cuGraphGetEdges(self, graph: str, count: int = 0) -> tuple[Any, ...]:
        edges = sorted(self.edges)[:count]
        return 0, [a for a, _ in edges], [b for _, b in edges], [None] * len(edges), len(self.edges)

    def cuGraphNodeGetType(self, node: int) -> tuple[int, int]:
        return 0, KERNEL if isinstance(self.nodes[node], str) else MEMSET

    def cuGraphMemsetNodeGetParams(self, node: int) -> tuple[int, Any]:
        return 0, self.nodes[node]

    def cuGraphAddKernelNode(self, graph: str, before: list[int], count: int, parameters: Any) -> tuple[int, int]:
        if parameters.func == self.refused and len(self.nodes) > 4:
            raise CudaError("no more")
        made = max(self.nodes) + 1
        self.nodes[made] = parameters.func
        self.edges |= {(node, made) for node in before}
        return 0, made

    def cuGraphAddDependencies(self, graph: str, a: list[int], b: list[int], data: None, count: int) -> tuple[int]:
        self.edges |= set(zip(a, b))
        return (0,)

    def cuGraphDestroyNode(self, node: int) -> tuple[int]:
        del self.nodes[node]
        self.edges = {edge for edge in self.edges if node not in edge}
        return (0,)


def graph(refused: str = "", **large: Any) -> Driver:
    """A kernel, two memsets one after the other, and a kernel that waits for both."""
    nodes = {1: "first", 2: memset(), 3: memset(512, **large), 4: "last"}
    return Driver(nodes, {(1, 2), (2, 3), (2, 4), (3, 4)}, refused)


def test_kernels_take_the_place_of_memsets() -> None:
    driver = graph()
    assert filled_by_kernels(driver, "graph") == "graph"
    assert driver.nodes == {1: "first", 4: "last", 5: "wg_fill", 6: "wg_fill"}
    assert driver.edges == {(1, 5), (5, 6), (5, 4), (6, 4)}


def test_what_is_large_stays_a_memset() -> None:
    driver = graph(width=MOST)
    filled_by_kernels(driver, "graph")
    assert [*driver.nodes] == [1, 3, 4, 5] and driver.edges == {(1, 5), (5, 3), (5, 4), (3, 4)}


def test_where_the_driver_refuses_all_stays_as_it_is() -> None:
    driver, before = graph(refused="wg_fill"), graph()
    filled_by_kernels(driver, "graph")
    assert [*driver.nodes] == [*before.nodes] and driver.edges == before.edges


@pytest.mark.parametrize(
    ("element", "value", "word"),
    [(4, 7, 7), (4, 0xFFFFFFFF, 0xFFFFFFFF), (2, 0x1ABCD, 0xABCDABCD), (1, 0x1FE, 0xFEFEFEFE), (1, 0, 0)],
)
def test_the_word_of_a_memset(element: int, value: int, word: int) -> None:
    assert Fill.of(memset(256, value, element, 16 // element)) == Fill(256, word, 4)


@pytest.mark.parametrize("other", [{"dst": 258}, {"height": 2}, {"element": 1, "width": 6}, {"width": MOST}])
def test_a_memset_that_is_no_fill_of_words(other: dict[str, int]) -> None:
    assert Fill.of(memset(**other)) is None


@pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with")
@pytest.mark.parametrize("words", [1, 300])
def test_the_kernel_fills(gpu: EmulatedDriver, words: int) -> None:
    array = np.arange(words + 2, dtype=np.uint32)
    arguments = Arguments([array.ctypes.data + 4, np.uint32(0xFFFFFFF1), np.uint32(words)])
    shape = (-(-words // 256), 1, 1, 256, 1, 1, 0)
    gpu.launch(gpu.kernels([FILL])[FILL.source, FILL.entry], shape, arguments)
    assert array[0] == 0 and (array[1:-1] == 0xFFFFFFF1).all() and array[-1] == words + 1
