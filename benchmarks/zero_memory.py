"""What a rank holds of a GPT's parameters and of Adam's state, by stage of ZeRO: tensors, and growth of resident size.

    mpiexec -n 4 python benchmarks/zero_memory.py --stage 3 [--layers 6 --width 384]

A stage a run: memory that an earlier one has let go would hide what the next one takes. Besides the bytes of blocks and
the peak that `step.memory()` gives, `resident` is by how much the process has grown behind some steps, from before the
model was made: with a step's arena and what Python and compilers took along.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import io
import os
from typing import Any

import numpy as np

import wengert as wg
from wengert import distributed as dist
from wengert.core.placement import ShardedArray


def resident() -> int:
    """The bytes that this process has in memory, once it has given back what it does not use."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def held(tensors: Any) -> int:
    """The bytes of a rank's blocks."""
    arrays = [tensor.node.buffer for tensor in tensors]
    return sum(a.block.nbytes if isinstance(a, ShardedArray) else a.nbytes for a in arrays)


def measured(mesh: Any, stage: int, options: argparse.Namespace) -> str:
    """A line about one stage."""
    config = wg.models.GPTConfig(
        vocab_size=512, n_positions=64, n_embd=options.width, n_layer=options.layers, n_head=options.width // 64
    )
    before = resident()
    wg.manual_seed(0)
    model = wg.models.GPT(config)
    if stage == 3:
        dist.shard(model, mesh["data"])
    optimizer = wg.optim.Adam(model.parameters(), lr=1e-4)
    if stage in (1, 2):
        dist.shard(optimizer.state, mesh["data"])

    @wg.compile(mesh=mesh)
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x, targets=y)[1]
        loss.backward()
        optimizer.step()
        return loss

    tokens = wg.tensor(np.zeros((4, 17), np.int64))
    for _ in range(3):
        step(tokens[:, :-1], tokens[:, 1:]).item()
    figures = step.memory(tokens[:, :-1], tokens[:, 1:])
    parameters = held(model.parameters())
    state = held(value for own in optimizer.state.values() for value in own.values() if value.ndim)
    grown = resident() - before
    sizes = {"parameters": parameters, "state": state, "a step at its peak": figures.peak, "resident": grown}
    return f"stage {stage} on {mesh.size}: " + ", ".join(f"{name} {size / 1e6:.2f} MB" for name, size in sizes.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stage", type=int, default=0, choices=range(4))
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--width", type=int, default=384)
    options = parser.parse_args()
    world = dist.start()
    with contextlib.redirect_stdout(io.StringIO()):  # of `memory`, which prints
        line = measured(world.mesh(data=-1), options.stage, options)
    if world.rank == 0:
        print(line, flush=True)
    world.end()


if __name__ == "__main__":
    main()
