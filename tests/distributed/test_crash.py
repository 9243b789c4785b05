"""Saves that end in the middle: whichever file operation is the last, a checkpoint that is whole is there."""

from __future__ import annotations

import os
import sys

import numpy as np
import pytest

import wengert as wg
from tests.distributed.rank_states import placed, save_by
from wengert.api import safetensors_format
from wengert.api.sharded_files import is_complete
from wengert.core.mesh import Mesh
from wengert.core.placement import Placement
from wengert.distributed import shards

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked to end in the middle")

OPERATIONS = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.listdir", "os.scandir")
RANKS = 3
DONE, CRASHED = 3, 9


def states(value):
    placement = Placement(Mesh(d=RANKS), {"d": 0})
    x = np.full((6, 64), value, np.float32)
    return [{"x": placed(x, placement, rank), "whole": wg.tensor([value]), "value": value} for rank in range(RANKS)]


def crash_at(number, folder, save):
    """In a child: save, and end without any clearing up at the operation of this number; whether it came so far."""
    count = 0

    def step(*_):
        nonlocal count
        count += 1
        if count > number:
            os._exit(CRASHED)

    def hook(event, args):
        if event in OPERATIONS and any(str(folder) in str(arg) for arg in args):
            step()

    child = os.fork()
    if child == 0:
        try:
            flush, write = os.fsync, safetensors_format.bytes_of
            os.fsync = lambda descriptor: (step(), flush(descriptor))
            safetensors_format.bytes_of = lambda array: (step(), write(array))[1]
            sys.addaudithook(hook)
            save()
            os._exit(DONE)
        finally:
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (DONE, CRASHED)
    return code == CRASHED


def value_in(folder):
    """The value of a checkpoint, all of which is of one save."""
    loaded = wg.load(folder)
    assert (loaded["x"].numpy() == loaded["value"]).all() and loaded["whole"].tolist() == [loaded["value"]]
    return loaded["value"]


@pytest.mark.slow
def test_a_save_over_another_leaves_the_old_or_the_new(tmp_path):
    folder, number, found = tmp_path / "c", 0, []
    save_by(folder, states(1.0))
    while crash_at(number, folder, lambda: save_by(folder, states(2.0))):
        found.append(value_in(folder))
        save_by(folder, states(1.0))  # clears what is left
        assert len(list(folder.iterdir())) == RANKS + 1 and value_in(folder) == 1.0
        number += 1
    assert value_in(folder) == 2.0
    assert number > 30 and found == sorted(found) and set(found) == {1.0, 2.0}


def test_a_save_beside_another_is_whole_or_seen_to_be_incomplete(tmp_path):
    old, new, number, seen = tmp_path / "step-1", tmp_path / "step-2", 0, set()
    save_by(old, states(1.0))
    (tmp_path / "other").mkdir()
    while crash_at(number, tmp_path, lambda: save_by(new, states(2.0))):
        assert value_in(old) == 1.0
        seen.add((new.exists(), is_complete(new)))
        if is_complete(new):
            assert value_in(new) == 2.0
            shards.remove(new)
        elif new.exists() and any(new.iterdir()) and [p for p in new.iterdir() if p.name.startswith("rank-")]:
            with pytest.raises(wg.errors.FileError, match="is incomplete"):
                wg.load(new)
        save_by(tmp_path / "step-3", states(3.0))
        assert sorted(os.listdir(tmp_path)) == ["other", "step-1", "step-3"]  # the next save cleared what was left
        shards.remove(tmp_path / "step-3")
        number += 1
    assert seen == {(False, False), (True, False), (True, True)} and number > 30


def test_removing_and_naming_leave_whole_checkpoints(tmp_path):
    def change():
        shards.name_also(tmp_path / "b", tmp_path / "best")
        shards.remove(tmp_path / "a")

    number = 0
    while True:
        save_by(tmp_path / "a", states(1.0))
        save_by(tmp_path / "b", states(2.0))
        shards.name_also(tmp_path / "a", tmp_path / "best")
        if not crash_at(number, tmp_path, change):
            break
        assert value_in(tmp_path / "best") in (1.0, 2.0) and value_in(tmp_path / "b") == 2.0
        if is_complete(tmp_path / "a"):
            assert value_in(tmp_path / "a") == 1.0
        number += 1
    assert number > 10 and value_in(tmp_path / "best") == 2.0 and not (tmp_path / "a").exists()
