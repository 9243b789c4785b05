"""What ranks run over NCCL on a GPU: `wengert launch -n 2 --mpiexec none -m tests.gpu.nccl_programs <program>`.

    collectives       each collective, dynamic and compiled, against NumPy
    mlp               a training step, its bytes
    gpt [options]     GPT: data parallel and ZeRO-3 as one CUDA graph; alone it computes two parts itself
    killed <folder>   rank 1 is killed in a step; the others raise
    stopped <folder>  rank 1 stands still in a step; the others raise

The first line of `mlp` and `gpt` that says "digest" is the same for one rank and two: `wg.config.parts` is 2.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert import distributed as dist
from wengert.core.communication import tree_sum

COLLECTIVES: dict[str, tuple[Any, Any]] = {
    "all_reduce": (lambda x, g: dist.all_reduce(x, g), lambda xs, k: tree_sum(xs)),
    "all_reduce max": (lambda x, g: dist.all_reduce(x, g, "max"), lambda xs, k: np.maximum.reduce(xs)),
    "all_gather 0": (lambda x, g: dist.all_gather(x, 0, g), lambda xs, k: np.concatenate(xs, 0)),
    "all_gather 1": (lambda x, g: dist.all_gather(x, 1, g), lambda xs, k: np.concatenate(xs, 1)),
    "reduce_scatter 0": (
        lambda x, g: dist.reduce_scatter(x, 0, g),
        lambda xs, k: np.split(tree_sum(xs), len(xs), 0)[k],
    ),
    "reduce_scatter 1": (
        lambda x, g: dist.reduce_scatter(x, 1, g),
        lambda xs, k: np.split(tree_sum(xs), len(xs), 1)[k],
    ),
    "ppermute": (lambda x, g: dist.ppermute(x, 1, g), lambda xs, k: xs[k - 1]),
    "all_to_all 0 0": (lambda x, g: dist.all_to_all(x, 0, 0, g), lambda xs, k: _exchanged(xs, k, 0, 0)),
    "all_to_all 1 0": (lambda x, g: dist.all_to_all(x, 1, 0, g), lambda xs, k: _exchanged(xs, k, 1, 0)),
    "block": (lambda x, g: dist.block(x, 1, g), lambda xs, k: _block(xs[k], len(xs), k, 1)),
}


def _block(x: np.ndarray, count: int, rank: int, axis: int) -> np.ndarray:
    return np.split(x, count, axis)[rank]


def _exchanged(xs: list[np.ndarray], rank: int, split: int, join: int) -> np.ndarray:
    return np.concatenate([np.split(x, len(xs), split)[rank] for x in xs], join)


def collectives(world: Any, mesh: Any, options: Any) -> None:
    """Each of them on a small and on a large value."""
    group, count = mesh["data"], 0
    for dtype in (np.float32, np.int32):
        for shape in ((4 * world.size, 6 * world.size), (1024, 2048)):
            xs = [(np.random.default_rng(k).normal(size=shape) * 100).astype(dtype) for k in range(world.size)]
            x = wg.tensor(xs[world.rank], device=options.device)
            for name, (function, reference) in COLLECTIVES.items():
                wanted = reference(xs, world.rank)
                compiled = wg.compile(lambda x, function=function: function(x + 0, group))
                ways = {"dynamic": [function(x, group)], "compiled": [compiled(x) for _ in range(3)]}
                for way, values in ways.items():
                    for value in values:
                        np.testing.assert_array_equal(value.numpy(), wanted, err_msg=f"{name} {way} {dtype} {shape}")
                        count += 1
    world.barrier()
    print(f"rank {world.rank}: {count} collectives are NumPy's, {world.library}, {world!r}", flush=True)


def digest(tensors: Any) -> str:
    """The bytes of tensors, in short; where they are sharded all ranks call this."""
    found = hashlib.md5()
    for tensor in tensors:
        found.update(np.ascontiguousarray(tensor.numpy()).tobytes())
    return found.hexdigest()[:12]


def graphs_of(step: Any) -> str:
    """What a compiled step is made of."""
    program = step._latest[1].program
    program = getattr(program, "program", program)
    calls = [part.library.candidate.name for part in program.steps if part.library is not None]
    hosted = [part.host_op.op.name for part in program.steps if part.host_op is not None]
    kinds = {name: calls.count(name) for name in dict.fromkeys(calls)}
    graph = [type(getattr(piece, "graph", None)).__name__ for piece in program.pieces]
    return f"pieces {graph}, on the host {hosted}, calls {kinds}"


def mlp(world: Any, mesh: Any, options: Any) -> None:
    """Adam on a small network."""
    wg.config.parts = 2
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(64, 32)).astype(np.float32), rng.normal(size=(64, 8)).astype(np.float32)
    wg.manual_seed(0)
    model = wg.nn.Sequential(wg.nn.Linear(32, 64), wg.nn.Tanh(), wg.nn.Linear(64, 8)).to(options.device)
    optimizer = wg.optim.Adam(model.parameters(), lr=1e-2)

    @wg.compile(mesh=mesh)
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    a, b = wg.tensor(x, device=options.device), wg.tensor(y, device=options.device)
    for _ in range(20):
        loss = step(a, b)
    found = digest([*model.state_dict().values(), loss.detach()])
    print(f"mlp digest {found} of {world.size} ranks: {graphs_of(step)}", flush=True)


def gpt(world: Any, mesh: Any, options: Any) -> None:
    """Steps of a GPT in bfloat16: whole, then with everything in blocks."""
    wg.config.parts = 2
    for stage in [int(name) for name in options.stages.split(",")] if world.size > 1 else [0]:
        _gpt(world, mesh, options, stage)


def _gpt(world: Any, mesh: Any, options: Any, stage: int) -> None:
    began = time.perf_counter()
    wg.manual_seed(0)
    size = {} if options.layers == 12 else {"n_layer": options.layers, "vocab_size": 1024, "n_embd": 256, "n_head": 4}
    model = wg.models.GPT(wg.models.GPTConfig(n_positions=options.length, **size)).to(options.device)
    if stage == 3:
        dist.shard(model, mesh["data"])
    optimizer = wg.optim.AdamW(model.parameters(), lr=3e-4)
    tokens = np.random.default_rng(0).integers(0, 1024, size=(options.batch, options.length + 1))
    x, y = (wg.tensor(t.astype(np.int64), device=options.device) for t in (tokens[:, :-1], tokens[:, 1:]))

    @wg.compile(mesh=mesh)
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        with wg.autocast():
            loss = model(x, targets=y)[1]
        loss.backward()
        optimizer.step()
        return loss

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        losses = [step(x, y).item() for _ in range(3)]
        built = time.perf_counter() - began
        start = time.perf_counter()
        for _ in range(options.steps):
            loss = step(x, y)
        losses.append(loss.item())
        each = (time.perf_counter() - start) / options.steps
    told = [str(w.message)[:200] for w in caught]
    name = f"gpt stage {stage} of {world.size} ranks, rank {world.rank}"
    print(
        f"{name}: built in {built:.1f} s, {each * 1e3:.2f} ms a step, losses {losses}; {graphs_of(step)}; "
        f"warnings {told}; memory {wg.cuda.memory() if wg.cuda.is_available() else 0}",
        flush=True,
    )
    print(f"{name}: digest {digest(model.state_dict().values())} in {time.perf_counter() - began:.1f} s", flush=True)
    if options.timeline and world.size > 1:
        with wg.inspect.timeline() as timeline:
            for _ in range(2):
                step(x, y)
        if world.rank == 0:
            print("\n".join(str(timeline).splitlines()[:8]), flush=True)


def killed(world: Any, mesh: Any, options: Any) -> None:
    """Rank 1 dies between two steps, by a signal."""
    group = mesh["data"]
    step = wg.compile(lambda x: dist.all_reduce(x * 0.5, group))
    x = wg.tensor(np.ones(1 << 20, np.float32), device=options.device)
    for number in range(10**6):
        if world.rank == 1 and number == 50:
            time.sleep(0.5)
            (Path(options.folder) / "when").write_text(f"{time.time()}")
            os.kill(os.getpid(), signal.SIGKILL)
        x = step(x)
        if number % 7 == 0:
            x.numpy()


def stopped(world: Any, mesh: Any, options: Any) -> None:
    """Rank 1 does not come."""
    wg.config.deadline = 2.0
    group = mesh["data"]
    step = wg.compile(lambda x: dist.all_reduce(x * 0.5, group))
    x = wg.tensor(np.ones(1 << 20, np.float32), device=options.device)
    for number in range(10**6):
        if world.rank == 1 and number == 50:
            x.numpy()
            time.sleep(60)
        x = step(x)
        if number % 7 == 0:
            x.numpy()


PROGRAMS = {"collectives": collectives, "mlp": mlp, "gpt": gpt, "killed": killed, "stopped": stopped}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("folder", nargs="?", default=".")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--stages", default="0,3")
    parser.add_argument("--timeline", action="store_true")
    options = parser.parse_args()
    world = dist.start()
    mesh = world.mesh(data=-1)
    PROGRAMS[options.program](world, mesh, options)
    world.end()


if __name__ == "__main__":
    main()
