"""Trainings killed with -9 at any moment: every checkpoint loads, and a run that goes on ends with the same bits.

    python -m tests.kill_training [KILLS] [SEED]

A run trains in a forked process, which is killed and goes on in the next, until it comes to its end. Then its last
checkpoint is compared with that of a run that nobody killed, and another begins.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

from tests.fuzz_files import comparable
from wengert.train import Recipe, Run, load_checkpoint

MODEL = """
import numpy as np
import wengert as wg

def data():
    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(70, 6)).astype(np.float32), rng.integers(0, 3, 70)
    train = wg.data.ArrayDataset(images, labels, transforms=[noisy])
    return train, wg.data.ArrayDataset(images[:25], labels[:25])

def noisy(batch, rng):
    return batch[0] + rng.normal(0, 0.1, batch[0].shape).astype(np.float32), batch[1]

def model():
    nn = wg.nn
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))
"""
LONGEST = 0.4  # seconds from the first checkpoint that a process writes to its end


class Totals(NamedTuple):
    """What came of it."""

    kills: int
    loaded: int
    ended: int
    failures: list[str]

    def __str__(self) -> str:
        counted = f"{self.kills} kills, {self.loaded} checkpoints loaded, {self.ended} runs ended bit-equal"
        return f"{counted}, {len(self.failures)} failures"


def recipe_of(folder: Path) -> Recipe:
    """Dropout, batch norm, augmentation and Adam; a checkpoint after every update."""
    file = folder / "killed_model.py"
    if not file.exists():
        file.write_text(MODEL)
    optimizer = {"name": "adamw", "lr": 0.01, "weight_decay": 0.1}
    return Recipe(data=str(file), epochs=8, batch_size=10, save_every=1, optimizer=optimizer)


def _train(recipe: Recipe, out: Path, started: int) -> None:
    """In the child: train from the last checkpoint to the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    state = load_checkpoint(out) if list(out.glob("checkpoints/step-*")) else None
    run = Run(recipe, out, state)
    save = run.checkpoints.save

    def first_save(*args: Any, **kwargs: Any) -> Path:
        os.write(started, b"x")
        run.checkpoints.save = save  # type: ignore[method-assign]
        return save(*args, **kwargs)

    run.checkpoints.save = first_save  # type: ignore[method-assign]
    if not run.is_done:
        run.train()


def in_child(recipe: Recipe, out: Path, kill_after: float | None) -> str:
    """Train in a child, which is killed some seconds after its first save; "killed", "ended", or what went wrong."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            _train(recipe, out, write)
            status = 0
        finally:
            os._exit(status)
    os.close(write)
    try:
        os.read(read, 1)
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    finally:
        os.close(read)
    if os.WIFSIGNALED(status):
        return "killed"
    return "ended" if os.WEXITSTATUS(status) == 0 else f"it exited with {os.WEXITSTATUS(status)}"


def last_state(out: Path) -> Any:
    """The last checkpoint, as something to compare."""
    state = load_checkpoint(out)
    return comparable({name: value for name, value in state.items() if name != "recipe"})


def check_checkpoints(out: Path) -> int:
    """Load every checkpoint that has its name; how many there are."""
    found = [path for path in out.glob("checkpoints/*.safetensors") if not path.name.startswith(".")]
    for path in found:
        load_checkpoint(path)
    return len(found)


def kill(count: int, seed: int, folder: Path) -> Totals:
    """Kill trainings `count` times."""
    draw = random.Random(seed)
    recipe = recipe_of(folder)
    outcome = in_child(recipe, folder / "whole", None)
    assert outcome == "ended", outcome
    expected = last_state(folder / "whole")
    kills = loaded = ended = 0
    failures: list[str] = []
    out = folder / "0"
    while kills < count:
        outcome = in_child(recipe, out, draw.uniform(0, LONGEST))
        kills += outcome == "killed"
        try:
            loaded += check_checkpoints(out)
            if outcome == "ended":
                assert last_state(out) == expected, "it ended with other bits"
                ended += 1
                out = folder / str(ended)
            elif outcome != "killed":
                raise AssertionError(outcome)
        except Exception as error:
            failures.append(f"after {kills} kills, in {out}: {type(error).__name__}: {error}")
            out = folder / f"after-failure-{len(failures)}"
        if kills % 20 == 0 and outcome == "killed":
            print(Totals(kills, loaded, ended, failures), flush=True)
    if in_child(recipe, out, None) != "ended" or last_state(out) != expected:
        failures.append(f"the last run, {out}, ended with other bits")
    else:
        ended += 1
    return Totals(kills, loaded, ended, failures)


def main(count: int = 200, seed: int = 0) -> int:
    """Kill trainings, and print the totals; the number of failures."""
    with tempfile.TemporaryDirectory() as folder:
        totals = kill(count, seed, Path(folder))
    print(totals, *totals.failures, sep="\n")
    return len(totals.failures)


if __name__ == "__main__":
    sys.exit(min(main(*map(int, sys.argv[1:3])), 1))
