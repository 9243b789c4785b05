"""Trainings and checkpoints of several ranks: kept, named and removed like files, and gone on from by any number."""

from __future__ import annotations

import os
import random
import signal
import time

import numpy as np
import pytest

import wengert as wg
from tests.distributed.processes import in_processes, start
from tests.distributed.rank_states import placed, save_by
from tests.distributed.stopwatch import moment
from wengert.api.sharded_files import is_complete
from wengert.cli import main
from wengert.core.communication import current
from wengert.core.errors import FileError
from wengert.core.mesh import Mesh
from wengert.core.placement import Placement, ShardedArray
from wengert.distributed import background, shards
from wengert.train import Checkpoints, Recipe, Run, load_checkpoint
from wengert.train.checkpoint import KIND, VERSION

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="ranks are forked processes")
RANKS = 3


def rank_state(step, ranks=RANKS):
    placement = Placement(Mesh(data=ranks), {"data": 0})
    x = np.arange(12, dtype=np.float32).reshape(6, 2) * step
    return {"model": {"x": placed(x, placement, current.rank), "b": wg.tensor([1.0 * step])}, "place": step}


def whole_state(step):
    loaded = {"x": np.arange(12, dtype=np.float32).reshape(6, 2) * step, "b": np.array([step], np.float32)}
    return {name: array.tolist() for name, array in loaded.items()}


def value_of(path):
    state = load_checkpoint(path)
    assert {name: tensor.tolist() for name, tensor in state["model"].items()} == whole_state(state["place"])
    assert state["step"] == state["place"]
    return state["step"]


# --- keeping --------------------------------------------------------------------------------------------------------


@forks
def test_the_last_few_and_the_best_are_kept(tmp_path):
    def run(rank):
        checkpoints = Checkpoints(tmp_path, keep=2)
        for step in range(1, 6):
            checkpoints.save(step, rank_state(step), is_best=step in (1, 3))
        checkpoints.wait()
        found = wg.train.load_checkpoint(tmp_path, like=rank_state(0))["model"]["x"].node.buffer
        assert isinstance(found, ShardedArray) and found.block.tolist() == whole_state(5)["x"][2 * rank : 2 * rank + 2]

    assert in_processes(RANKS, run) == [0] * RANKS
    assert sorted(os.listdir(tmp_path)) == ["best", "step-000004", "step-000005"]
    assert [value_of(tmp_path / name) for name in sorted(os.listdir(tmp_path))] == [3, 4, 5]
    assert value_of(tmp_path) == 5


@forks
def test_one_process_goes_on_in_the_same_folder_and_several_again(tmp_path):
    def run(step):
        def one(rank):
            checkpoints = Checkpoints(tmp_path, keep=2)
            checkpoints.save(step, rank_state(step), is_best=True)
            checkpoints.wait()

        assert in_processes(RANKS, one) == [0] * RANKS

    run(1)
    alone = {"model": {"x": wg.tensor(whole_state(2)["x"]), "b": wg.tensor(whole_state(2)["b"])}, "place": 2}
    Checkpoints(tmp_path, keep=2).save(2, alone, is_best=True)
    assert sorted(os.listdir(tmp_path)) == ["best.safetensors", "step-000001", "step-000002.safetensors"]
    run(2)
    assert sorted(os.listdir(tmp_path)) == ["best", "step-000001", "step-000002"]
    run(3)
    assert sorted(os.listdir(tmp_path)) == ["best", "step-000002", "step-000003"]
    assert value_of(tmp_path) == value_of(tmp_path / "best") == 3


@forks
@pytest.mark.parametrize("victim", range(RANKS))
def test_a_rank_killed_while_saving_leaves_the_checkpoint_before(tmp_path, victim):
    def run(rank):
        checkpoints = Checkpoints(tmp_path, keep=2)
        checkpoints.save(1, rank_state(1))
        checkpoints.wait()
        background.DEADLINE = background.DEADLINE_AT_EXIT = 0.3
        if rank == victim:
            shards.write_shard = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
        checkpoints.save(2, rank_state(2))  # and the end of the process waits for what it can

    start = moment()
    statuses = in_processes(RANKS, run)
    assert moment() - start < 15
    assert statuses[victim] == -signal.SIGKILL and statuses.count(0) == RANKS - 1
    assert (tmp_path / "step-000002").exists() and not is_complete(tmp_path / "step-000002")
    assert value_of(tmp_path) == 1
    with pytest.raises(FileError, match=r"is incomplete.*There is another checkpoint: .*step-000001"):
        load_checkpoint(tmp_path / "step-000002")
    Checkpoints(tmp_path).save(3, {})
    assert sorted(os.listdir(tmp_path)) == ["step-000001", "step-000003.safetensors"]


@forks
def test_the_end_of_a_program_waits_for_its_checkpoint(tmp_path):
    def run(rank):
        write = shards.write_shard

        def slow(*args):
            time.sleep(0.3 * rank)
            return write(*args)

        shards.write_shard = slow
        Checkpoints(tmp_path).save(1, rank_state(1))

    assert in_processes(RANKS, run) == [0] * RANKS
    assert value_of(tmp_path) == 1


@forks
def test_a_world_killed_at_any_moment_leaves_a_whole_checkpoint(tmp_path):
    """All ranks are killed while they save one checkpoint after another, in the background; another world goes on."""
    draw = random.Random(2)
    incomplete = 0
    for number in range(12):
        folder = tmp_path / str(number)

        def run(rank, folder=folder):
            checkpoints = Checkpoints(folder, keep=2)
            for step in range(1, 10_000):
                checkpoints.save(step, rank_state(step), is_best=step % 3 == 0)

        children = start(RANKS, run)
        while not list(folder.glob("step-*/manifest.json")):
            time.sleep(0.005)
        time.sleep(draw.uniform(0, 0.08))
        for child in children:
            child.kill()
        for child in children:
            child.join(20)
        assert [value_of(path) for path in Checkpoints(folder).steps()]  # each of them loads
        if (folder / "best").exists() and is_complete(folder / "best"):
            assert value_of(folder / "best") % 3 == 0
        incomplete += any(not is_complete(path) for path in folder.glob("step-*"))
        assert in_processes(RANKS, lambda rank, folder=folder: finish(folder)) == [0] * RANKS
        assert value_of(folder) == 20_000 and all(is_complete(path) for path in folder.glob("step-*"))
    assert incomplete  # some were killed in the middle


def finish(folder):
    checkpoints = Checkpoints(folder, keep=2)
    checkpoints.save(20_000, rank_state(20_000))
    checkpoints.wait()


# --- going on -------------------------------------------------------------------------------------------------------

RECIPE = Recipe(
    data="digits",
    model="mlp",
    epochs=2,
    batch_size=128,
    limit=512,
    keep=9,
    options={"hidden": [16]},
    optimizer={"name": "adamw", "lr": 0.01, "weight_decay": 0.1},
)


def cut(value, mesh, rank):
    """A state of which a rank holds blocks, along the first axis that divides."""
    if isinstance(value, dict):
        return {key: cut(item, mesh, rank) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(cut(item, mesh, rank) for item in value)
    if not isinstance(value, wg.Tensor) or not value.ndim or value.shape[0] % mesh.size:
        return value
    return placed(value.detach().numpy(), Placement(mesh, {"data": 0}), rank)


def final(run):
    return {name: tensor.numpy().tobytes() for name, tensor in run.task.model.state_dict().items()}


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_run_goes_on_from_what_any_number_of_ranks_saved(tmp_path, ranks):
    whole = Run(RECIPE, tmp_path / "whole")
    for _ in range(3):
        whole.update()
    stopped = {"kind": KIND, "version": VERSION, **whole.state()}
    save_by(
        tmp_path / "run" / "checkpoints" / "step-000003",
        [cut(stopped, Mesh(data=ranks), rank) for rank in range(ranks)],
        step=3,
    )
    for _ in range(3):
        whole.update()
    again = Run(RECIPE, tmp_path / "run", load_checkpoint(tmp_path / "run"))
    assert again.step == 3
    for _ in range(3):
        again.update()
    assert final(again) == final(whole)
    whole.close()
    again.close()


def test_the_commands_take_checkpoints_of_several_ranks(tmp_path, capsys):
    run = Run(RECIPE, tmp_path / "run")
    for _ in range(3):
        run.update()
    run.close()
    state = {"kind": KIND, "version": VERSION, **run.state()}
    folder = tmp_path / "run" / "checkpoints" / "step-000003"
    save_by(folder, [cut(state, Mesh(data=4), rank) for rank in range(4)], step=3)

    assert main(["checkpoint", "show", str(tmp_path / "run")]) == 0
    shown = capsys.readouterr().out
    assert "step         3\n" in shown and "saved by     4 ranks" in shown and "mesh         data=4\n" in shown
    assert "4 blocks: axis 0 along data" in shown

    merged = tmp_path / "merged.safetensors"
    assert main(["checkpoint", "merge", str(folder), str(merged)]) == 0
    assert "from the files of 4 ranks" in capsys.readouterr().out
    assert load_checkpoint(merged)["step"] == 3
    assert main(["checkpoint", "merge", str(folder), str(merged), "--part", "model"]) == 0
    weights = wg.load(merged)
    assert {name: tensor.numpy().tobytes() for name, tensor in weights.items()} == final(run)
    assert main(["checkpoint", "merge", str(folder), str(merged), "--part", "nothing"]) == 1
    assert "has no part 'nothing'" in capsys.readouterr().err
    assert main(["checkpoint", "show", str(merged)]) == 1
    assert "was written by one process" in capsys.readouterr().err

    assert main(["eval", str(folder)]) == 0
    assert main(["train", "--resume", str(tmp_path / "run")]) == 0
    assert "resuming at step 3" in capsys.readouterr().out
    names = sorted(os.listdir(tmp_path / "run" / "checkpoints"))
    assert names == ["best.safetensors", "step-000003", "step-000004.safetensors", "step-000008.safetensors"]
