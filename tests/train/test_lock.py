"""The lock on a run's folder: one run at a time, released however a process ends, and no live file is removed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import ArgumentError
from wengert.core.file_locks import FolderLock, locked_new_file, remove_if_abandoned
from wengert.train import Checkpoints, Recipe, Run, load_checkpoint

posix = pytest.mark.skipif(os.name != "posix", reason="the locks are POSIX's")
HOLDER = """
import sys
from pathlib import Path
from wengert.core.file_locks import FolderLock
with FolderLock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def short_recipe():
    return Recipe(data="digits", model="mlp", epochs=1, limit=64, compile=False, options={"hidden": [4]})


@pytest.fixture
def holder(tmp_path):
    """A process that has the lock on a folder."""
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdin=-1, stdout=-1, text=True) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


@posix
def test_a_second_run_in_a_folder_is_told_which_process_has_it(tmp_path, holder):
    with pytest.raises(ArgumentError, match=rf"another run is using .*, in process {holder.pid}"):
        Run(short_recipe(), tmp_path).train()
    assert not (tmp_path / "recipe.toml").exists()  # nothing of the other run was touched
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    Run(short_recipe(), tmp_path).train()


@posix
def test_two_runs_of_one_process_are_two_runs(tmp_path):
    with FolderLock(tmp_path), pytest.raises(ArgumentError, match=f"process {os.getpid()}"):
        Run(short_recipe(), tmp_path).train()
    Run(short_recipe(), tmp_path).train()
    Run(short_recipe(), tmp_path).train()


FORKING_HOLDER = """
import os, sys
from pathlib import Path
from wengert.core.file_locks import FolderLock
with FolderLock(Path(sys.argv[1])):
    if os.fork() == 0:  # a child that outlives the process that has the lock
        print("forked", flush=True)
        sys.stdin.read()
        os._exit(0)
    os.kill(os.getpid(), 9)
"""


@posix
def test_a_child_process_does_not_keep_the_lock(tmp_path):
    with subprocess.Popen(
        [sys.executable, "-c", FORKING_HOLDER, str(tmp_path)], stdin=-1, stdout=-1, text=True
    ) as dead:
        assert dead.stdout.readline() == "forked\n"
        assert dead.wait() == -signal.SIGKILL
        with FolderLock(tmp_path):
            pass


@posix
def test_a_lock_is_let_go_of_at_its_end_whatever_children_do(tmp_path):
    with FolderLock(tmp_path):
        child = os.fork()
        if child == 0:
            os._exit(0)
    with FolderLock(tmp_path):
        os.waitpid(child, 0)


def test_a_folder_that_cannot_be_written_to_is_told(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        Run(short_recipe(), tmp_path / "file").train()


@posix
def test_temporary_files_of_live_processes_are_not_removed(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    with locked_new_file(tmp_path / "step-000001.safetensors") as (temporary, file):
        checkpoints.save(2, {"value": wg.ones(3)})
        assert temporary.exists()
        file.write(b"whole")
        os.replace(temporary, tmp_path / "other")
    assert (tmp_path / "other").read_bytes() == b"whole"
    (tmp_path / ".abandoned.tmp").touch()
    checkpoints.save(3, {"value": wg.ones(3)})
    assert not (tmp_path / ".abandoned.tmp").exists()


def test_a_temporary_file_that_is_gone_is_no_error(tmp_path):
    remove_if_abandoned(tmp_path / ".gone.tmp")


def test_savers_side_by_side_do_not_disturb_each_other(tmp_path):
    """Two that save to one folder, without a run's lock: every save succeeds and every file is whole."""
    failures = []

    def save(first):
        try:
            for step in range(first, first + 60):
                Checkpoints(tmp_path, keep=1000).save(
                    step, {"value": wg.tensor(np.full(1000, step))}, is_best=step % 3 == 0
                )
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=save, args=(first,)) for first in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(Checkpoints(tmp_path).steps()) == 180 and not list(tmp_path.glob(".*.tmp"))
    for path in Checkpoints(tmp_path).steps():
        state = load_checkpoint(path)
        assert (state["value"].numpy() == state["step"]).all()
