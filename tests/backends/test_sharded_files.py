"""Checkpoints of blocks that lie on a GPU, an emulated one: downloaded to be saved, and loaded to where they were."""

from __future__ import annotations

import numpy as np

import wengert as wg
from tests.distributed.rank_states import save_by
from wengert.core import devices
from wengert.core.communication import current
from wengert.core.mesh import Mesh
from wengert.core.placement import Placement, ShardedArray
from wengert.distributed.checkpoint import read_checkpoint
from wengert.distributed.sharded import sharded_tensor

ARRAY = np.arange(48, dtype=np.float32).reshape(12, 4)


def block(ranks: int, rank: int, array: np.ndarray = ARRAY) -> wg.Tensor:
    """A tensor of which a rank holds rows, on the GPU."""
    placement = Placement(Mesh(data=ranks), {"data": 0})
    there = devices.of("cuda:0").upload(np.array(array[placement.slices(array.shape, rank)]))
    return sharded_tensor(there, array.shape, placement)


def test_blocks_of_a_gpu_come_back_to_it(gpu, tmp_path):
    whole = wg.tensor(ARRAY).to("cuda")
    save_by(tmp_path / "c", [{"x": block(3, rank), "whole": whole} for rank in range(3)])
    assert wg.load(tmp_path / "c")["whole"].tolist() == wg.load(tmp_path / "c")["x"].tolist() == ARRAY.tolist()
    for rank in range(2):
        found = read_checkpoint(tmp_path / "c", {"x": block(2, rank, np.zeros_like(ARRAY))}, rank)["x"]
        held = found.node.buffer
        assert isinstance(held, ShardedArray) and found.device == held.device == "cuda:0"
        assert devices.on_host(held.block).tolist() == ARRAY[6 * rank : 6 * rank + 6].tolist()


def test_batches_by_rank_are_uploaded_as_blocks(gpu, monkeypatch):
    monkeypatch.setattr(current, "size", 3)
    monkeypatch.setattr(current, "rank", 1)
    mesh = Mesh(data=3)
    loader = wg.data.DataLoader(wg.data.ArrayDataset(ARRAY), 6, device="cuda", mesh=mesh, prefetch=0)
    found = [batch[0] for batch in loader]
    assert [tensor.shape for tensor in found] == [(6, 4), (6, 4)]
    blocks = [devices.on_host(tensor.node.buffer.block).tolist() for tensor in found]
    assert blocks == [ARRAY[2:4].tolist(), ARRAY[8:10].tolist()]
