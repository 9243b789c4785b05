"""Random graphs with random placements of their inputs, and what they found wrong with `partition` and `parts`."""

from __future__ import annotations

import numpy as np
import pytest

from tests.distributed.fuzz import difference, sample
from tests.distributed.references import values_of_ranks
from wengert.compiler.distribute import distribute, distribution
from wengert.core.dtypes import as_dtype
from wengert.core.graph import Graph, recorded_as
from wengert.core.mesh import Mesh
from wengert.core.placement import Placement
from wengert.ops import elementwise as e
from wengert.ops.core import cast, placeholder
from wengert.ops.linalg import matmul
from wengert.ops.movement import broadcast_to
from wengert.ops.reduce import MIN, SUM


@pytest.mark.parametrize("seed", range(60))
def test_ranks_have_what_one_process_has(seed):
    assert difference(seed, sample(seed)) is None


def check(record, arrays, mesh, splits, paired=None, parts=None):
    """Compare all ranks with one process, bit by bit, the inputs being cut along these axes."""
    inputs = [placeholder(x.shape, as_dtype(x.dtype)) for x in arrays]
    with recorded_as(None, True):
        graph = Graph(inputs, [record(*inputs)])
    placements = [Placement(mesh, split) for split in splits]
    found = distribute(graph, distribution(mesh, parts), placements, paired or {})
    (expected,), (results,), (placement,) = graph(*arrays), values_of_ranks(found, arrays), found.outputs
    for rank, block in enumerate(results):
        np.testing.assert_array_equal(block, placement.block(expected, rank), strict=True)
    return found


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint64", "int64", "float32"])
def test_least_over_ranks(dtype):
    """Where it came from: seeds 236, 308. The negative of an unsigned number does not turn the order around."""
    x = np.arange(16)[::-1].astype(dtype)
    if dtype.startswith("int"):
        x[3] = np.iinfo(dtype).min
    check(lambda x: MIN(x, axes=(0,), keepdims=False), [x], Mesh(tensor=2), [{"tensor": 0}])


def test_sum_over_ranks_comes_before_a_cast_that_rounds():
    """Where it came from: seeds 867, 1297. The sum of truncated parts is not the truncated sum."""
    x, y = np.full((4, 8), 0.75), np.full((8, 4), 0.5)
    split = [{"tensor": 1}, {"tensor": 0}]
    found = check(lambda x, y: cast(matmul(x, y), as_dtype("int32")), [x, y], Mesh(tensor=2), split)
    assert [node.op.name for node in found.graph.nodes] == ["matmul", "all_reduce", "cast"]  # in this order


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_broadcast_value_lies_in_blocks_of_more_parts_than_ranks(ranks):
    """Where it came from: seed 1896. It is the same for all parts, so that it stood once instead of once a part."""
    x = np.arange(8.0).reshape(8, 1)
    total = lambda x: broadcast_to(SUM(e.square(x), axes=(0, 1), keepdims=True), (8, 1))
    check(total, [x], Mesh(data=ranks), [{"data": 0}], paired={0: 0}, parts=4)
