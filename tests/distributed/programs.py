"""What the tests run on ranks: each function takes the world and gives arrays, to be compared with `simulate`."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Any

import numpy as np

import wengert as wg
from tests.distributed import cases
from wengert import distributed as dist
from wengert.core import communication
from wengert.core.code import describe
from wengert.core.communication import communicator
from wengert.core.mesh import Group, Mesh
from wengert.distributed.world import World
from wengert.kernels.threads import thread_count

Results = dict[Any, np.ndarray[Any, Any]]


def everything(world: World) -> dict[str, Results]:
    """All that is compared with `simulate`, in one launch: starting ranks takes longer than most of it."""
    found = {"dynamic": collectives(world, compiled=False), "dynamic networks": networks(world, compiled=False)}
    found["dtypes"] = dtypes(world)
    wg.config.tier = "compile"
    found["compiled"] = collectives(world, compiled=True)
    found["compiled networks"] = networks(world, compiled=True)
    return found


def collectives(world: World, compiled: bool) -> Results:
    """Every collective in every way, over every group; compiled, those of a group are one program."""
    found = {}
    x = wg.tensor(cases.given(world.size)[world.rank])
    for group in cases.groups(world.size):

        def run(x: Any, group: Group = group) -> Any:
            return {
                (name, way): cases.WAYS[way](cases.COLLECTIVES[name], group, x)
                for way in cases.WAYS
                for name in cases.names(way)
            }

        for (name, way), result in (wg.compile(run) if compiled else run)(x).items():
            found[name, way, str(group)] = result.numpy()
    return found


def dtypes(world: World) -> Results:
    """What a communicator makes of every dtype."""
    found = {}
    everyone = communicator(Mesh(ranks=world.size).whole)
    for key, given in cases.typed(world.size).items():
        for name, result in cases.on_communicator(everyone, given[world.rank]).items():
            found[name, key] = result
    return found


def networks(world: World, compiled: bool) -> Results:
    """Gradients, and gradients of squared gradients, of the networks by hand."""
    n, k = world.size, world.rank
    x, a, b = cases.weights()
    group = Mesh(ranks=n).whole
    tensor = (x, np.split(a, n, 1)[k], np.split(b, n, 0)[k])
    zero3 = tuple(np.split(w, n, 0)[k] for w in (x, a, b))
    found = {}
    for name, network, arrays in (("tensor", cases.tensor_parallel, tensor), ("zero3", cases.zero3, zero3)):
        for order, transform in cases.ORDERS.items():

            def run(*args: Any, network: Any = network, transform: Any = transform) -> Any:
                return transform(lambda *args: network(*args, group))(*args)

            results = (wg.compile(run) if compiled else run)(*map(wg.tensor, arrays))
            for i, result in enumerate(results):
                found[name, order, i] = result.numpy()
    return found


def training(world: World) -> Any:
    """A few steps of data parallel training by hand, and what this rank is: for the tests of launchers."""
    group = Mesh(ranks=world.size).whole
    x, a, b = cases.weights()
    rows = wg.tensor(np.split(x, world.size, 0)[world.rank])
    weights = [wg.tensor(w) for w in (a, b)]

    wg.config.tier = "compile"

    @wg.compile
    def step(rows: Any, a: Any, b: Any) -> Any:
        def loss(a: Any, b: Any) -> Any:
            return dist.all_reduce(cases.alone(rows, dist.replicate(a, group), dist.replicate(b, group)), group)

        return [w - 0.01 * g for w, g in zip((a, b), wg.grad(loss, (0, 1))(a, b))]

    for _ in range(5):
        weights = step(rows, *weights)
    return {
        "digest": [cases.digest(w.numpy()) for w in weights],
        "place": (world.rank, world.size, world.local_rank, world.engine),
    }


def threads(world: World) -> int:
    """How many threads kernels run on."""
    return thread_count()


# --- mistakes -------------------------------------------------------------------------------------------------------


def _message(run: Any) -> str:
    try:
        run()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "nothing was raised"


def mistakes(world: World) -> dict[str, Any]:
    """What is said of a second start, in a forked child, of a wrong mesh, and after the end; what a watcher is told."""
    group = Mesh(ranks=world.size).whole
    found: dict[str, Any] = {"watched": watched(world), "second": _message(dist.start)}
    found["mesh"] = _message(lambda: world.mesh(data=3))
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, _message(lambda: communicator(group).all_reduce(np.ones(2))).encode())
        os._exit(0)
    os.waitpid(child, 0)
    found["forked"] = os.read(read, 10_000).decode()
    found["still"] = communicator(group).all_reduce(np.ones(2)).tolist()
    kept = communicator(group)
    world.end()
    found["ended"] = _message(lambda: kept.all_reduce(np.ones(2)))
    found["recorded"] = _message(lambda: dist.all_reduce(wg.ones(2), group).numpy())
    found["barrier"] = _message(world.barrier)
    found["alone"] = dist.all_reduce(wg.ones(2)).numpy().tolist()
    again = dist.start()
    found["again"] = communicator(group).all_reduce(np.ones(2)).tolist()
    assert again.size == world.size
    world.__dict__.update(again.__dict__)  # so that the runner's barrier is of this world
    return found


class _Notes:
    def __init__(self) -> None:
        self.entered: list[Any] = []
        self.done = 0

    def entering(self, number: int, name: str, bytes: int, location: Any, ranks: Any) -> None:
        assert not ranks  # all of them
        self.entered.append((number, name, bytes, describe(location)))

    def left(self) -> None:
        self.done += 1


def watched(world: World) -> Any:
    """What a watcher is told."""
    notes = _Notes()
    group = Mesh(ranks=world.size).whole
    x = wg.ones(6)
    communication.watcher = notes
    (dist.all_reduce(x, group) * 2).numpy()
    wg.grad(lambda x: wg.sum(dist.all_gather(x, 0, group)))(x).numpy()
    communication.watcher = None
    return notes.entered, notes.done


class _News(Exception):
    pass


def interrupted(world: World) -> Any:
    """Rank 1 does not come: a signal's handler raises on the others while they wait, and nothing is sent after it."""
    group = Mesh(ranks=world.size).whole
    communicator(group).all_reduce(np.ones(2))
    if world.rank == 1:
        time.sleep(100)
        os._exit(0)

    def raise_news(*_: Any) -> None:
        raise _News

    signal.signal(signal.SIGUSR1, raise_news)
    threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
    try:
        communicator(group).all_reduce(np.ones(1 << 20))
    except _News:
        after = _message(lambda: communicator(group).all_reduce(np.ones(2)))
        print(f"interrupted, then: {after}", flush=True)
    os._exit(3)


def fails(world: World) -> None:
    """One rank raises, the others wait for it."""
    if world.rank == 1:
        raise ValueError("this rank has had enough")
    world.barrier()
