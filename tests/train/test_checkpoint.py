"""Checkpoints: whole or not there, whatever happens while they are written, and read only if they are as they were."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import FileError
from wengert.train import Checkpoints, load_checkpoint

KILLS = 50
MUTATIONS = 10_000


def state(value=1.0):
    """A small state with all kinds of things in it."""
    return {
        "model": {"layer.weight": wg.tensor(np.full((8, 16), value, np.float32)), "layer.bias": wg.tensor([value])},
        "optimizer": {
            "state": {0: {"step": wg.tensor(int(value))}},
            "param_groups": [{"lr": 0.1, "betas": (0.9, 0.99)}],
        },
        "random": wg.random.Generator(3).state(),
        "order": {"epoch": 2, "batch": 7},
        "best": None,
        "history": [{"kind": "train", "step": 1, "loss": 0.5}],
    }


def comparable(tree):
    if isinstance(tree, wg.Tensor):
        return tree.dtype.name, tree.shape, tree.numpy().tobytes()
    if isinstance(tree, dict):
        return {key: comparable(value) for key, value in tree.items()}
    return [comparable(value) for value in tree] if isinstance(tree, (list, tuple)) else tree


# --- keeping --------------------------------------------------------------------------------------------------------


def test_the_last_few_and_the_best_are_kept(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=2)
    for step in range(1, 8):
        checkpoints.save(step, state(step), is_best=step == 3)
    assert sorted(os.listdir(tmp_path)) == ["best.safetensors", "step-000006.safetensors", "step-000007.safetensors"]
    assert load_checkpoint(tmp_path)["step"] == 7
    assert load_checkpoint(tmp_path / "best.safetensors")["step"] == 3


def test_a_million_steps_come_after_the_others(tmp_path):
    for step in (999_999, 1_000_000):
        Checkpoints(tmp_path, keep=5).save(step, state())
    assert load_checkpoint(tmp_path)["step"] == 1_000_000


def test_states_come_back(tmp_path):
    path = Checkpoints(tmp_path).save(5, state(4.0))
    loaded = load_checkpoint(path)
    expected = {"kind": loaded["kind"], "version": 1, "step": 5, **state(4.0)}
    assert comparable(loaded) == comparable(expected)


def test_missing_foreign_and_later_files_are_told_apart(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no checkpoint"):
        load_checkpoint(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError, match="there is no checkpoint in"):
        load_checkpoint(tmp_path)
    wg.save(tmp_path / "weights.safetensors", {"w": wg.ones(2)})
    with pytest.raises(FileError, match="is not a checkpoint of a training"):
        load_checkpoint(tmp_path / "weights.safetensors")
    path = Checkpoints(tmp_path).save(1, {**state(), "version": 9})
    with pytest.raises(FileError, match="checkpoint of version 9; this Wengert reads 1"):
        load_checkpoint(path)


def test_a_torch_file_is_no_checkpoint_of_a_training(tmp_path):
    torch = pytest.importorskip("torch")
    torch.save({"w": torch.ones(2)}, tmp_path / "model.pt")
    with pytest.raises(FileError, match="is not a checkpoint of a training"):
        load_checkpoint(tmp_path / "model.pt")


def test_a_damaged_checkpoint_names_the_one_before(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    old, new = checkpoints.save(1, state()), checkpoints.save(2, state())
    new.write_bytes(new.read_bytes()[:-5])
    with pytest.raises(FileError, match=rf"is truncated.*There is another checkpoint: {old}"):
        load_checkpoint(tmp_path)
    assert load_checkpoint(old)["step"] == 1


# --- damage ---------------------------------------------------------------------------------------------------------


def mutated(content, draw):
    """The content with a random change: a bit, a byte, a piece removed, doubled, zeroed, exchanged or cut off."""
    data = bytearray(content)
    header = 8 + int.from_bytes(data[:8], "little")
    place = draw.randrange(header if draw.random() < 0.7 else len(data))  # most is said in the header
    length = draw.choice([1, 2, 8, 64])
    kind = draw.randrange(7)
    if kind == 0:
        data[place] ^= 1 << draw.randrange(8)
    elif kind == 1:
        data[place] = draw.randrange(256)
    elif kind == 2:
        del data[place : place + length]
    elif kind == 3:
        data[place:place] = data[place : place + length]
    elif kind == 4:
        data[place : place + length] = bytes(len(data[place : place + length]))
    elif kind == 5:
        other = draw.randrange(len(data))
        data[place], data[other] = data[other], data[place]
    else:
        del data[place:]
    return bytes(data)


def test_no_mutation_is_read_as_something_else(tmp_path):
    path = Checkpoints(tmp_path).save(3, state())
    content, expected = path.read_bytes(), comparable(load_checkpoint(path))
    draw = random.Random(0)
    refused = 0
    for number in range(MUTATIONS):
        path.unlink()  # some file systems take their time to write over a file
        path.write_bytes(mutated(content, draw))
        try:
            assert comparable(load_checkpoint(path)) == expected, f"mutation {number}"
        except FileError:
            refused += 1
    assert refused > 0.9 * MUTATIONS


# --- writing --------------------------------------------------------------------------------------------------------

SAVER = """
import os, sys
import numpy as np
import wengert as wg
from wengert.train import Checkpoints

for line in sys.stdin:  # a folder to save to, by a process of its own, until it is killed
    pid = os.fork()
    if pid == 0:
        checkpoints = Checkpoints(line.strip(), keep=1)
        step = 1
        while True:
            step += 1
            value = wg.tensor(np.full(1 << 18, step, np.float32))
            checkpoints.save(step, {"value": value, "number": step}, is_best=step % 2 == 0)
    print(pid, flush=True)
    os.waitpid(pid, 0)
    print("over", flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked to be killed quickly")
def test_killed_at_any_moment_a_save_leaves_a_whole_checkpoint(tmp_path):
    draw = random.Random(1)
    orphans = 0
    with subprocess.Popen([sys.executable, "-c", SAVER], stdin=-1, stdout=-1, text=True) as saver:
        for number in range(KILLS):
            folder = tmp_path / str(number)
            checkpoints = Checkpoints(folder, keep=1)
            checkpoints.save(1, {"value": wg.tensor(np.full(1 << 18, 1, np.float32)), "number": 1})
            print(folder, file=saver.stdin, flush=True)
            pid = int(saver.stdout.readline())
            time.sleep(draw.uniform(0.002, 0.04))
            os.kill(pid, signal.SIGKILL)
            assert saver.stdout.readline() == "over\n"
            for path in folder.glob("[!.]*"):  # all that have their name, not the latest alone
                loaded = load_checkpoint(path)
                assert loaded["step"] == loaded["number"]
                assert (loaded["value"].numpy() == loaded["number"]).all()
            assert len(checkpoints.steps()) in (1, 2)  # the old one, the new one, or both
            orphans += bool(list(folder.glob(".*")))
            checkpoints.save(10**6, {"number": 0})
            assert not list(folder.glob(".*")) and len(checkpoints.steps()) == 1
        saver.stdin.close()
    assert orphans  # some were killed in the middle


@pytest.mark.skipif(os.name != "posix", reason="limits the size of files the POSIX way")
def test_a_full_disk_is_told_and_leaves_the_old_checkpoint(tmp_path):
    checkpoints = Checkpoints(tmp_path, keep=1)
    checkpoints.save(1, state())
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    try:
        with pytest.raises(OSError, match=r"save: .*step-000002.safetensors' could not be written"):
            checkpoints.save(2, {"value": wg.zeros(1 << 18)})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert os.listdir(tmp_path) == ["step-000001.safetensors"]
    assert load_checkpoint(tmp_path)["step"] == 1
