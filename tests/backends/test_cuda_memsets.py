"""Memsets of a captured graph as kernels: on a driver that only keeps account of nodes and edges, and emulated."""

from __future__ import annotations

from ctypes import c_uint64, string_at
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.backends.emulated import EmulatedDriver
from tests.kernels.emulator import compiler
from wengert.backends.cuda.calls import Arguments
from wengert.backends.cuda.memset_kernels import (
    MEMSET_KERNEL,
    MEMSETS_KERNEL,
    MOST,
    TABLE,
    Memset,
    OwnMemory,
    memsets_as_kernels,
)
from wengert.core.errors import CudaError
from wengert.kernels.launch import Struct
from wengert.plan.memory import ALL_PRIVATE, PRIVATE, with_own_places

KERNEL, MEMSET = 0, 2


def memset(dst: int = 256, value: int = 0, element: int = 4, width: int = 8, height: int = 1) -> SimpleNamespace:
    return SimpleNamespace(dst=dst, value=value, elementSize=element, width=width, height=height)


class Driver:
    """Graphs as nodes and edges between their numbers; each new node is called as its kernel. What is `refused` is the
    second kernel of this name, or `edges`: then some of them have been added.
    """

    CUgraphNodeType = SimpleNamespace(CU_GRAPH_NODE_TYPE_MEMSET=MEMSET)
    CUDA_KERNEL_NODE_PARAMS = SimpleNamespace

    def __init__(self, nodes: dict[int, Any], edges: set[tuple[int, int]], refused: str = "") -> None:
        self.cu, self.nodes, self.edges, self.refused = self, nodes, edges, refused
        self.early: list[tuple[int, int, int]] = []  # what is filled at the beginning: addresses, values, words

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
        if parameters.func == self.refused and self.refused in self.nodes.values():
            raise CudaError("no more")
        if parameters.func == "wg_fill_all":
            table = string_at(c_uint64.from_address(parameters.kernelParams).value, 16 * TABLE)
            self.early += np.frombuffer(table, "u8, u4, u4")[: parameters.gridDimX].tolist()
        made = max(self.nodes) + 1
        self.nodes[made] = parameters.func
        self.edges |= {(node, made) for node in before}
        return 0, made

    def cuGraphAddDependencies(self, graph: str, a: list[int], b: list[int], data: None, count: int) -> tuple[int]:
        new = list(zip(a, b, strict=True))
        assert count == len(new) and self.edges.isdisjoint(new), "the driver refuses an edge that is there already"
        if self.refused == "edges":
            self.edges |= set(new[: count // 2 + 1])
            raise CudaError("no more")
        self.edges |= set(new)
        return (0,)

    def cuGraphRemoveDependencies(self, graph: str, a: list[int], b: list[int], data: None, count: int) -> tuple[int]:
        assert count == len(a) == len(b) and self.edges.issuperset(zip(a, b))
        self.edges -= set(zip(a, b))
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
    assert memsets_as_kernels(driver, "graph") == "graph"
    assert driver.nodes == {1: "first", 4: "last", 5: "wg_fill", 6: "wg_fill"}
    assert driver.edges == {(1, 5), (5, 6), (5, 4), (6, 4)}


def test_what_is_large_stays_a_memset() -> None:
    driver = graph(width=MOST)
    memsets_as_kernels(driver, "graph")
    assert [*driver.nodes] == [1, 3, 4, 5] and driver.edges == {(1, 5), (5, 3), (5, 4), (3, 4)}


@pytest.mark.parametrize("refused", ["wg_fill", "edges"])
def test_where_the_driver_refuses_all_stays_as_it_is(refused: str) -> None:
    driver, before = graph(refused), graph()
    memsets_as_kernels(driver, "graph")
    assert driver.nodes == before.nodes and driver.edges == before.edges


def own(start: int, *after: int) -> OwnMemory:
    return OwnMemory(start, start + 256, frozenset(after))


def calls(count: int = 3, refused: str = "") -> tuple[Driver, list[OwnMemory]]:
    """A kernel, and calls one after the other: each a memset of its own memory, and a kernel that is called as it is.

    The first call's numbers are 2 and 3. The second's kernel waits for the first of all, besides.
    """
    nodes: dict[int, Any] = {1: "first"}
    edges = {(1, 5)}
    for call in range(2, 2 * count + 2, 2):
        nodes |= {call: memset(256 * call), call + 1: f"call {call // 2}"}
        edges |= {(call - 1, call), (call, call + 1)}
    return Driver(nodes, edges, refused), [own(256 * call, call - 1) for call in range(2, 2 * count + 2, 2)]


def test_what_is_cleared_in_a_call_s_own_memory_is_cleared_at_the_beginning() -> None:
    driver, places = calls()
    driver.nodes[4].value = 7
    memsets_as_kernels(driver, "graph", places)
    assert driver.early == [(512, 0, 8), (1024, 7, 8), (1536, 0, 8)]
    assert driver.nodes == {1: "first", 3: "call 1", 5: "call 2", 7: "call 3", 8: "wg_fill_all"}
    assert driver.edges == {(8, 1), (1, 3), (1, 5), (3, 5), (5, 7)}  # each after what its memset was after


def test_all_that_waits_for_nothing_waits_for_the_beginning() -> None:
    driver, places = calls()
    driver.nodes[9] = "beside"
    driver.edges.remove((1, 2))
    places[0] = own(512)
    memsets_as_kernels(driver, "graph", places)
    assert driver.nodes[10] == "wg_fill_all"
    assert {b for a, b in driver.edges if a == 10} == {1, 3, 9}
    assert {b for _, b in driver.edges} == {*driver.nodes} - {10}


@pytest.mark.parametrize(
    "change",
    [
        {"places": {1: own(4096, 3)}},  # others use what it clears
        {"places": {1: OwnMemory(1024, 1052, frozenset([3]))}},  # and what is after its own
        {"places": {1: own(1024, 1)}},  # another kernel of the call is before it
        {"nodes": {9: memset(1028)}, "edges": {(5, 9)}},  # it is cleared again
    ],
)
def test_what_cannot_be_cleared_early_is_cleared_where_it_was(change: dict[str, Any]) -> None:
    driver, places = calls()
    driver.nodes |= change.get("nodes", {})
    driver.edges |= change.get("edges", set())
    for number, place in change.get("places", {}).items():
        places[number] = place
    memsets_as_kernels(driver, "graph", places)
    added = {node: name for node, name in driver.nodes.items() if "fill" in name}
    beginning, twin, *others = added
    assert added == {beginning: "wg_fill_all"} | dict.fromkeys([twin, *others], "wg_fill")
    assert len(others) == len(change.get("nodes", {}))
    expected = {(beginning, 1), (1, 3), (1, 5), (3, twin), (twin, 5), (5, 7)}
    assert driver.edges == expected | {(5, other) for other in others}


def test_one_alone_is_cleared_where_it_was() -> None:
    driver, places = calls()
    memsets_as_kernels(driver, "graph", places[:1])
    assert [*driver.nodes.values()].count("wg_fill") == 3 and "wg_fill_all" not in driver.nodes.values()


def test_many_are_cleared_by_several_kernels() -> None:
    driver, places = calls(TABLE + 2)
    memsets_as_kernels(driver, "graph", places)
    early = [node for node, name in driver.nodes.items() if name == "wg_fill_all"]
    assert len(early) == 2 and len(driver.nodes) == TABLE + 5
    assert [address for address, *_ in driver.early] == [place.start for place in places]
    assert {(a, b) for a, b in driver.edges if a in early} == {(early[0], early[1]), (early[1], 1)}


@pytest.mark.parametrize("refused", ["wg_fill", "wg_fill_all", "edges"])
def test_where_the_driver_refuses_nothing_is_cleared_early(refused: str) -> None:
    driver, places = calls(TABLE + 4, refused)
    before, _ = calls(TABLE + 4)
    memsets_as_kernels(driver, "graph", places[:-2])
    assert driver.nodes == before.nodes and driver.edges == before.edges


def test_small_workspaces_have_places_of_their_own() -> None:
    assert with_own_places({1: PRIVATE, 2: 512, 3: PRIVATE + 256, 4: 256}) == [4, 2, 1]
    assert len(with_own_places(dict.fromkeys(range(1000), PRIVATE))) == ALL_PRIVATE // PRIVATE


@pytest.mark.parametrize(
    ("element", "value", "word"),
    [(4, 7, 7), (4, 0xFFFFFFFF, 0xFFFFFFFF), (2, 0x1ABCD, 0xABCDABCD), (1, 0x1FE, 0xFEFEFEFE), (1, 0, 0)],
)
def test_the_word_of_a_memset(element: int, value: int, word: int) -> None:
    assert Memset.of(memset(256, value, element, 16 // element)) == Memset(256, word, 4)


@pytest.mark.parametrize("other", [{"dst": 258}, {"height": 2}, {"element": 1, "width": 6}, {"width": MOST}])
def test_a_memset_that_is_no_fill_of_words(other: dict[str, int]) -> None:
    assert Memset.of(memset(**other)) is None


@pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with")
@pytest.mark.parametrize("words", [1, 300])
def test_the_kernel_fills(gpu: EmulatedDriver, words: int) -> None:
    array = np.arange(words + 2, dtype=np.uint32)
    arguments = Arguments([array.ctypes.data + 4, np.uint32(0xFFFFFFF1), np.uint32(words)])
    shape = (-(-words // 256), 1, 1, 256, 1, 1, 0)
    gpu.launch(gpu.kernels([MEMSET_KERNEL])[MEMSET_KERNEL.source, MEMSET_KERNEL.entry], shape, arguments)
    assert array[0] == 0 and (array[1:-1] == 0xFFFFFFF1).all() and array[-1] == words + 1


@pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with")
def test_the_kernel_fills_all(gpu: EmulatedDriver) -> None:
    array = np.arange(400, dtype=np.uint32)
    table = np.zeros((TABLE, 2), np.uint64)
    table[:2] = [(array.ctypes.data + 4, 7 | 2 << 32), (array.ctypes.data + 40, 300 << 32)]
    gpu.launch(
        gpu.kernels([MEMSETS_KERNEL])[MEMSETS_KERNEL.source, MEMSETS_KERNEL.entry],
        (2, 1, 1, 256, 1, 1, 0),
        Arguments([Struct(table.tobytes())]),
    )
    expected = np.arange(400, dtype=np.uint32)
    expected[1:3], expected[10:310] = 7, 0
    assert (array == expected).all()
