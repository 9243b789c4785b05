"""Runs of several ranks: the bytes of one process, gone on with by any number, and what is told of wrong settings."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

import wengert as wg
from tests.distributed.piped import on_ranks
from wengert.cli import main
from wengert.core.communication import current
from wengert.core.errors import ArgumentError, NaNError
from wengert.core.placement import ShardedArray
from wengert.distributed.mpiexec import Mpiexec
from wengert.train import Interrupted, Recipe, Run, load_checkpoint, ranks

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="ranks are forked processes")
slow = pytest.mark.slow
SLOWER = [(2, 0), (2, 1), (2, 2), (4, 3)]
SETTINGS = {
    "data": "digits",
    "model": "mlp",
    "epochs": 2,
    "batch_size": 32,
    "limit": 128,
    "clip": 0.5,
    "parts": 4,
    "options": {"hidden": []},
    "optimizer": {"name": "adamw", "lr": 0.01, "weight_decay": 0.1},
}


WITH_LOGS = """
import numpy as np
import wengert as wg

def data():
    x = np.random.default_rng(0).uniform(1, 2, (32, 4)).astype(np.float32)
    x[20, 0] = -1
    return wg.data.ArrayDataset(x, np.arange(32) % 4), wg.data.ArrayDataset(x[:9], np.arange(9) % 4)

def model():
    return wg.models.MLP(4, [4])

def objective(model, x, y):
    return {"loss": wg.cross_entropy(model(x), y, reduction="none") + wg.log(x[:, 0])}
"""


def recipe(count=1, stage=0, **changes):
    return Recipe(**{**SETTINGS, "ranks": count, "shard": stage, **changes})


def flat(value, path=""):
    """All that a state holds, by the way to it; seconds apart, which no two runs take the same."""
    if isinstance(value, dict):
        return {k: v for key, item in value.items() if key != "seconds" for k, v in flat(item, f"{path}/{key}").items()}
    if isinstance(value, (list, tuple)):
        return {k: v for key, item in enumerate(value) for k, v in flat(item, f"{path}/{key}").items()}
    return {path: value.numpy().tobytes() if isinstance(value, wg.Tensor) else value}


def whole(state):
    return flat({name: value for name, value in state.items() if name != "recipe"})


def trained(out, count, stage=0, **changes):
    """The final state of a run on so many ranks."""
    out.mkdir()
    on_ranks(count, lambda rank: Run(recipe(count, stage, **changes), out / "run").train(), out)
    return whole(load_checkpoint(out / "run"))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    return trained(tmp_path_factory.mktemp("alone") / "1", 1)


# --- the same bytes -------------------------------------------------------------------------------------------------


@forks
@pytest.mark.parametrize(("count", "stage"), [(2, 3), *(pytest.param(*case, marks=slow) for case in SLOWER)])
def test_the_bytes_of_a_run_depend_neither_on_ranks_nor_on_the_stage(tmp_path, alone, count, stage):
    assert trained(tmp_path / "run", count, stage) == alone
    run = tmp_path / "run" / "run"
    names = sorted(path.name.split(".tfevents")[0] for path in run.iterdir())
    assert names == ["checkpoints", "events.out", "log.jsonl", "recipe.toml", "run.lock", "run.svg"]
    kinds = [line.split('"')[3] for line in (run / "log.jsonl").read_text().splitlines()]
    assert kinds == [*["train"] * 4, "test"] * 2
    assert f"ranks = {count}\nshard = {stage}\nparts = 4\n" in (run / "recipe.toml").read_text()


@forks
@slow
def test_accumulated_gradients_too(tmp_path):
    found = [trained(tmp_path / str(n), n, stage, accumulate=2, epochs=1) for n, stage in ((1, 0), (2, 2))]
    assert found[0] == found[1]


@forks
@slow
def test_without_parts_ranks_differ_by_rounding_only(tmp_path):
    one, two = (trained(tmp_path / str(n), n, 3 * (n - 1), parts=0, epochs=1) for n in (1, 2))
    for name in one:
        if name.startswith("/model"):
            arrays = [np.frombuffer(state[name], np.float32) for state in (one, two)]
            np.testing.assert_allclose(*arrays, rtol=1e-4, atol=1e-5, err_msg=name)


@forks
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1, 0), (2, 3)),
        pytest.param((2, 3), (1, 0), marks=slow),
        pytest.param((2, 1), (4, 3), marks=slow),
    ],
)
def test_a_run_goes_on_on_another_number_of_ranks(tmp_path, alone, before, after):
    """Stopped in the middle of an epoch; resumed by its path, so that sharded slots stay sharded."""
    out = tmp_path / "run"

    def begin_and_stop(rank):
        run = Run(recipe(*before), out)
        update, run._recorded_update = run._recorded_update, lambda: stop_at(run, 3, update)
        with pytest.raises(Interrupted):
            run.train()

    def go_on(rank):
        run = Run(recipe(*after), out, out)
        held = [run.optimizer.state[p]["exp_avg"].node.buffer for p in run.task.model.parameters()]
        blocks = [isinstance(array, ShardedArray) for array in held]
        assert run.step == 3
        run.train()
        return blocks

    on_ranks(before[0], begin_and_stop, tmp_path)
    for blocks in on_ranks(after[0], go_on, tmp_path):
        assert any(blocks) == (after[1] > 0)
    assert whole(load_checkpoint(out)) == alone


def stop_at(run, step, update):
    """An update; at this step the last rank alone is asked to stop."""
    if run.step == step - 1 and current.rank == current.size - 1:
        os.kill(os.getpid(), signal.SIGTERM)
    return update()


@forks
def test_ranks_stop_at_the_same_update_whoever_is_asked(tmp_path):
    def run(rank):
        run = Run(recipe(2, 3), tmp_path / "run")
        update, run._recorded_update = run._recorded_update, lambda: stop_at(run, 2, update)
        with pytest.raises(Interrupted) as stopped:
            run.train()
        return run.step, stopped.value.signal_number

    assert on_ranks(2, run, tmp_path) == [(2, signal.SIGTERM)] * 2
    assert load_checkpoint(tmp_path / "run")["step"] == 2


@forks
def test_a_nan_is_found_on_every_rank(tmp_path):
    file = tmp_path / "with_logs.py"
    file.write_text(WITH_LOGS)

    def run(rank):
        run = Run(recipe(2, 3, data=str(file), model="", options={}), tmp_path / "run")
        before = [p.detach().numpy().copy() for p in run.task.model.parameters()]
        with pytest.raises(
            NaNError, match=r"step 1: the loss is nan: log produced 1 NaN of 32 elements(.|\n)*with_logs"
        ):
            run.update()
        after = [p.detach().numpy() for p in run.task.model.parameters()]
        assert all((a == b).all() for a, b in zip(after, before))

    on_ranks(2, run, tmp_path)


@forks
def test_a_folder_that_is_in_use_is_told_on_every_rank(tmp_path):
    def run(rank):
        with (
            ranks.locked(tmp_path / "run"),
            pytest.raises(ArgumentError, match=r"another run is using|rank 0 cannot lock"),
        ):
            Run(recipe(2), tmp_path / "run").train()

    on_ranks(2, run, tmp_path)


@forks
def test_ranks_share_a_text(tmp_path):
    assert on_ranks(3, lambda rank: ranks.first_text("runs/ä" if rank == 0 else "another"), tmp_path) == ["runs/ä"] * 3


# --- wrong settings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--ranks", "3"], "a batch of 32 does not divide among 3 ranks; --batch-size 33 would"),
        (["--parts", "64"], "a batch of 32 does not divide among 64 parts; --batch-size 64 would"),
        (["--parts", "6"], "parts is 6; it is a power of two, such as 8"),
        (
            ["--ranks", "3", "--parts", "4"],
            "4 parts cannot be shared equally by 3 ranks; choose a number of ranks that divides 4",
        ),
        (["--ranks", "0"], "ranks must be at least 1, not 0"),
        (["--shard", "4"], "shard must be a stage of ZeRO, 1, 2 or 3, or 0 for none, not 4"),
        (["--ranks", "2", "--no-compile"], "steps over 2 ranks are compiled; leave out --no-compile"),
        (["--parts", "2", "--no-compile"], "steps over 2 parts are compiled; leave out --no-compile"),
    ],
)
def test_wrong_settings_are_told_in_a_line(tmp_path, capsys, options, message):
    assert main(["train", "digits", "--out", str(tmp_path / "run"), *options]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"wengert: {message}") and told.count("\n") == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("missing", ["mpiexec", "mpi4py"])
def test_what_ranks_need_is_told_in_a_line(tmp_path, capsys, monkeypatch, missing):
    found = None if missing == "mpiexec" else Mpiexec("/usr/bin/mpiexec", "MPICH")
    monkeypatch.setattr(ranks.mpiexec, "find", lambda: found)
    monkeypatch.setattr(ranks.importlib.util, "find_spec", lambda name: None)
    assert main(["train", "digits", "--ranks", "2", "--out", str(tmp_path / "run")]) == 1
    told = capsys.readouterr().err
    assert told.startswith(f"wengert: 2 ranks need MPI to reach each other, and {missing} is not installed in ")
    assert told.endswith(": pip install 'wengert[mpi]'\n") and told.count("\n") == 1


def test_another_number_of_ranks_than_the_launchers_is_told_in_a_line(capsys, monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "0")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    assert main(["train", "digits", "--ranks", "4"]) == 1
    assert capsys.readouterr().err == ("wengert: --ranks is 4, but mpiexec started 2; leave out --ranks, or start 4\n")


def test_a_recipe_for_ranks_is_none_for_one_process(tmp_path):
    with pytest.raises(ArgumentError, match=r"the recipe is for 2 ranks, but this world has 1 process. `wengert "):
        Run(recipe(2), tmp_path)


def test_the_command_starts_itself_as_ranks(tmp_path, monkeypatch):
    jobs = []
    monkeypatch.setattr(ranks, "launch", lambda job: jobs.append(job) or 7)
    monkeypatch.setattr(ranks.mpiexec, "find", lambda: Mpiexec("/usr/bin/mpiexec", "MPICH"))
    monkeypatch.setattr(ranks.importlib.util, "find_spec", lambda name: "there")
    command = ["train", "digits", "--ranks", "2", "--shard", "3", "--out", str(tmp_path / "run")]
    assert main(command) == 7
    assert [(job.ranks, job.program, job.saves) for job in jobs] == [(2, ("-m", "wengert.cli", *command), True)]
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    assert main(command) == 1 and len(jobs) == 1  # a folder with a run is refused before anything starts


def test_parts_are_set_while_a_run_lasts(tmp_path):
    before = wg.config.parts
    run = Run(recipe(), tmp_path)
    assert wg.config.parts == 4
    run.close()
    assert wg.config.parts == before
