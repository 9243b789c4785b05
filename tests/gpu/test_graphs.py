"""CUDA graphs: what is captured, changed in them, and replayed."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

import wengert as wg
from wengert.backends.cuda.bindings import check
from wengert.backends.cuda.memory import opened
from wengert.backends.cuda.memset_kernels import MEMSET_KERNEL, MEMSETS_KERNEL
from wengert.core.dtypes import bfloat16


def kinds_of(recording: Any) -> Counter[str]:
    """How many nodes of a graph are memsets, and how many the kernels in place of memsets."""
    cu, functions = recording.cu, recording.driver.kernels([MEMSET_KERNEL, MEMSETS_KERNEL])
    kernels = {int(functions[launch.source, launch.entry]): launch.entry for launch in (MEMSET_KERNEL, MEMSETS_KERNEL)}
    found: Counter[str] = Counter()
    for node in check(cu.cuGraphGetNodes(recording.graph, check(cu.cuGraphGetNodes(recording.graph))[1]))[0]:
        kind = check(cu.cuGraphNodeGetType(node))
        if kind == cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMSET:
            found["memset"] += 1
        elif kind == cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL:
            found[kernels.get(int(check(cu.cuGraphKernelNodeGetParams(node)).func), "others")] += 1
    return found


def test_memsets_are_replayed_as_kernels() -> None:
    driver = opened("cuda:0")
    tensor = wg.tensor(np.ones(1000, np.float32), device="cuda")
    tensor.numpy()
    pointer = tensor.node.buffer.pointer
    with driver.capturing() as recording:
        driver.clear(pointer, 400)
        driver.copy(pointer + 2000, pointer, 400)  # what it waits for stays
    nodes = check(driver.cu.cuGraphGetNodes(recording.graph, 2))[0]
    kinds = [check(driver.cu.cuGraphNodeGetType(node)) for node in nodes]
    assert driver.cu.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMSET not in kinds and len(kinds) == 2
    recording.replay()
    expected = np.ones(1000, np.float32)
    expected[:100] = expected[500:600] = 0
    assert (tensor.numpy() == expected).all()


def test_what_is_cleared_in_a_call_s_own_memory_is_cleared_at_the_beginning_of_each_replay() -> None:
    driver = opened("cuda:0")
    tensor = wg.tensor(np.ones(6000, np.float32), device="cuda")
    tensor.numpy()
    pointer = tensor.node.buffer.pointer
    with driver.capturing() as recording:
        for start in range(pointer, pointer + 12_000, 4000):  # a call each: counters, where they come to, ones again
            recording.owns(start, 400)
            driver.clear(start, 400)
            driver.copy(start + 12_000, start, 400)
            driver.copy(start, start + 2000, 400)
    assert kinds_of(recording) == {"wg_fill_all": 1}
    edges = check(driver.cu.cuGraphGetEdges(recording.graph, 6))
    assert edges[-1] == 6 and len({int(node) for node in edges[0]}) == 6  # one after the other
    expected = np.ones(6000, np.float32)
    for start in (3000, 4000, 5000):
        expected[start : start + 100] = 0
    for _ in range(2):
        recording.replay()
        assert (tensor.numpy() == expected).all()


def test_half_precision_products_give_the_same_bits_at_every_replay() -> None:
    rng = np.random.default_rng(0)
    x = wg.tensor(rng.standard_normal((1024, 768)).astype(bfloat16), device="cuda")
    wide = wg.tensor((rng.standard_normal((768, 3072)) / 28).astype(bfloat16), device="cuda")
    back = wg.tensor((rng.standard_normal((3072, 768)) / 56).astype(bfloat16), device="cuda")

    @wg.compile
    def products(x: wg.Tensor) -> tuple[wg.Tensor, wg.Tensor]:
        for _ in range(4):
            x = wg.relu(x @ wide) @ back + x
        return x, x.mT @ x

    expected = [y.numpy().view(np.uint16) for y in products(x)]  # launched one by one
    for _ in range(50):
        for y, want in zip(products(x), expected):
            assert (y.numpy().view(np.uint16) == want).all()
    (piece,) = products._newest("a test").program.pieces
    found = kinds_of(piece.graph)
    assert not found["memset"] and found["wg_fill_all"] <= 1 and found["wg_fill"] <= 1
