"""CUDA graphs: what is captured, changed in them, and replayed."""

from __future__ import annotations

import numpy as np

import wengert as wg
from wengert.backends.cuda.bindings import check
from wengert.backends.cuda.driver import opened


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
