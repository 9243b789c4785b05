"""The script of test_faults, run by every rank of a launch: `faults.py <fault> <folder>`.

Rank 1 does what the fault says. Whoever leaves behind nothing but an error has done right.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import wengert as wg
from tests.distributed.stopwatch import moment
from wengert.backends.cpu import toolchain

FAULT, FOLDER = (sys.argv[1], Path(sys.argv[2])) if __name__ == "__main__" else ("", Path())
VICTIM = 1


def die() -> None:
    """Leave behind when that was, and be gone."""
    (FOLDER / "when").write_text(f"{moment()} {os.getpid()}")
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(100)


def compiling(world: wg.distributed.World, group: wg.distributed.Group) -> None:
    """The victim dies in the C compiler's hands, the others wait in their first step."""
    if world.rank == VICTIM:
        toolchain.build = lambda *_, **__: die()  # type: ignore[assignment,return-value]
    wg.config.tier = "compile"
    own = world.rank + 1  # of programs that are alike one rank builds, and the others wait for it
    step = wg.compile(lambda x: wg.distributed.all_reduce(wg.exp(x * own), group) + 1)
    step(wg.ones(4)).numpy()


def step(world: wg.distributed.World, group: wg.distributed.Group) -> None:
    """The victim dies between two steps, the others wait in a collective."""
    x = wg.ones(1000)
    for number in range(10**6):
        wg.distributed.control.current.step(number)
        if world.rank == VICTIM and number == 20:
            time.sleep(0.3)  # until it is known that it came so far
            die()
        x = wg.distributed.all_reduce(x, group) / world.size
        x.numpy()


def saving(world: wg.distributed.World, group: wg.distributed.Group) -> None:
    """The victim dies while it writes a file, the others write theirs."""
    fsync = os.fsync

    def slow(file: int) -> None:
        if world.rank == VICTIM:
            die()
        time.sleep(0.5)
        fsync(file)

    os.fsync = slow  # type: ignore[assignment]
    wg.save(FOLDER / f"rank-{world.rank}.safetensors", {"x": wg.ones(1000)})
    time.sleep(100)


class Slow(wg.data.Dataset):
    """Examples that never come; their worker ends the rank of the victim instead."""

    def __init__(self, is_victims: bool) -> None:
        self.is_victims = is_victims

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> object:
        if self.is_victims:
            (FOLDER / "when").write_text(f"{moment()} {os.getppid()}")
            os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(100)
        return ()


def loading(world: wg.distributed.World, group: wg.distributed.Group) -> None:
    """The victim dies while it waits for its workers, the others wait for theirs."""
    next(iter(wg.data.DataLoader(Slow(world.rank == VICTIM), batch_size=4, workers=1)))


def stopped(world: wg.distributed.World, group: wg.distributed.Group) -> None:
    """The victim stands still, the others wait in a collective."""
    if world.rank == VICTIM:
        (FOLDER / "when").write_text(f"{moment()} {os.getpid()}")
        os.kill(os.getpid(), signal.SIGSTOP)
    print(wg.distributed.all_reduce(wg.ones(4), group))


def differs(world: wg.distributed.World, group: wg.distributed.Group) -> None:
    """The victim has another shape."""
    control = wg.distributed.control.current
    size = 8 if world.rank == VICTIM else 4
    control.agree("step", str(size), lambda: [f"all_reduce float32[{size}], model.py:{size}: x.sum()"])
    print("sent something")


def printed(world: wg.distributed.World, group: wg.distributed.Group) -> None:
    """One rank alone looks at a value that all have to make."""
    loss = wg.distributed.all_reduce(wg.ones(4), group)
    if world.rank == VICTIM:
        print(loss)  # the line that is to be named
    else:
        time.sleep(100)


if __name__ == "__main__":
    wg.config.deadline = 1.0
    _world = wg.distributed.start()
    _group = _world.mesh(data=-1)["data"]
    wg.distributed.all_reduce(wg.ones(1), _group).numpy()
    print("started")
    globals()[FAULT](_world, _group)
