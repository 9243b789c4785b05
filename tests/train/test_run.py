"""Runs: they learn, go on to the last bit where they stopped, and stop when they should."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import threading

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import ArgumentError, NaNError
from wengert.train import Interrupted, Recipe, Run, load_checkpoint
from wengert.train.optimizer import rate_factor
from wengert.train.task import Classification

DROPOUT = """
import numpy as np
import wengert as wg

def data():
    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(70, 6)).astype(np.float32), rng.integers(0, 3, 70)
    data = wg.data.ArrayDataset(images, labels, transforms=[noisy])
    return data, wg.data.ArrayDataset(images[:25], labels[:25])

def noisy(batch, rng):
    return batch[0] + rng.normal(0, 0.1, batch[0].shape).astype(np.float32), batch[1]

def model():
    nn = wg.nn
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, 3))
"""
OPTIMIZERS = {
    "sgd": {"name": "sgd", "lr": 0.1, "momentum": 0.9},
    "adamw": {"name": "adamw", "lr": 0.01, "weight_decay": 0.1},
}


@pytest.fixture(scope="session")
def file(tmp_path_factory):
    """A user's file: dropout, batch norm, augmentation, seven batches of ten an epoch."""
    path = tmp_path_factory.mktemp("own") / "with_dropout.py"
    path.write_text(DROPOUT)
    return str(path)


def recipe_of(file, **changes):
    values = {"epochs": 4, "batch_size": 10, "schedule": {"name": "cosine", "warmup": 0.2}, **changes}
    return Recipe(data=file, **values)


def bits(run):
    """Everything that a run has come to, bit by bit."""
    state = run.state()
    slots = [*state["model"].values(), *(t for s in state["optimizer"]["state"].values() for t in s.values())]
    return [slot.detach().numpy().tobytes() for slot in [*slots, *state["random"].values()]], state["order"]


# --- going on -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_resumed_run_is_the_same_to_the_last_bit(file, tmp_path, name):
    recipe = recipe_of(file, optimizer=OPTIMIZERS[name], clip=1.0)
    whole = Run(recipe, tmp_path)
    stops, course, states = (1, 2, 3, 5, 6, 7, 8, 11, 13, 19), [], {}
    for step in range(1, 21):
        course.append(whole.update()["loss"])
        if step in stops:
            states[step] = whole.checkpoints.save(step, whole.state()).read_bytes()
    for step, content in states.items():
        (tmp_path / "one.safetensors").write_bytes(content)
        wg.manual_seed(99)
        resumed = Run(recipe, tmp_path, load_checkpoint(tmp_path / "one.safetensors"))
        assert [resumed.update()["loss"] for _ in range(20 - step)] == course[step:], f"stopped at {step}"
        assert bits(resumed) == bits(whole)


def test_a_resumed_training_ends_as_the_whole_one(file, tmp_path):
    recipe = recipe_of(file, accumulate=3, save_every=3)  # of seven batches an epoch one is left over
    whole = Run(recipe, tmp_path / "whole")
    results = whole.train()
    assert whole.step == whole.total == 8
    state = load_checkpoint(tmp_path / "whole/checkpoints/step-000006.safetensors")
    resumed = Run(recipe, tmp_path / "resumed", state)
    assert resumed.train() == results and bits(resumed) == bits(whole)
    assert [point["step"] for point in resumed.history] == [point["step"] for point in whole.history]


def test_workers_change_nothing(file, tmp_path):
    courses = []
    for workers in (0, 2):
        run = Run(recipe_of(file, workers=workers), tmp_path)
        courses.append([run.update()["loss"] for _ in range(9)])
        run.loader.close()
    assert courses[0] == courses[1]


@pytest.mark.parametrize("moment", ["SIGINT", "SIGTERM"])
def test_ctrl_c_saves_what_can_be_resumed(file, tmp_path, moment):
    recipe = recipe_of(file, epochs=3)
    whole = Run(recipe, tmp_path / "whole")
    whole.train()
    run = Run(recipe, tmp_path / "stopped")
    update = run.steps.update

    def interrupting(*batch):
        if run.step == 11:
            os.kill(os.getpid(), getattr(signal, moment))
        return update(*batch)

    run.steps.update = interrupting
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(Interrupted, match="step-000011"):
        run.train()
    assert signal.getsignal(signal.SIGINT) is before
    resumed = Run(recipe, tmp_path / "stopped", load_checkpoint(tmp_path / "stopped"))
    resumed.train()
    assert bits(resumed) == bits(whole)


# --- what training does ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("mlp", {"hidden": [24, 16]}),
        pytest.param("convnet", {"channels": [4, 8], "hidden": 16}, marks=pytest.mark.slow),
    ],
)
def test_dynamic_and_compiled_steps_agree_in_float64(tmp_path, model, options):
    losses = []
    for compiled in (True, False):
        recipe = Recipe(
            data="digits", model=model, epochs=3, batch_size=32, dtype="float64", compile=compiled, clip=1.0,
            options=options, optimizer={"name": "adamw", "lr": 0.01},
        )  # fmt: skip
        run = Run(recipe, tmp_path)
        losses.append([run.update()["loss"] for _ in range(50)])
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-6)
    assert losses[0][-1] < losses[0][0] / 2


def test_accumulated_batches_are_one_large_batch(file, tmp_path):
    def plain():
        wg.manual_seed(1)
        return wg.nn.Linear(6, 3)

    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(24, 6)).astype(np.float32), rng.integers(0, 3, 24)
    weights = []
    for parts in (1, 4):
        model = plain()
        optimizer = wg.optim.SGD(model.parameters(), lr=0.5)
        steps = wg.train.steps.Steps(model, optimizer, Classification(), accumulated=parts)
        for _ in range(3):
            *first, last = zip(np.split(x, parts), np.split(y, parts))
            for batch in first:
                steps.accumulate(*map(wg.tensor, batch))
            steps.update(*map(wg.tensor, last))
        weights.append(model.weight.detach().numpy())
    np.testing.assert_allclose(weights[0], weights[1], rtol=1e-5)


def test_evaluation_counts_every_example_once(file, tmp_path):
    run = Run(recipe_of(file, batch_size=10), tmp_path)  # 25 test examples: the last batch is padded
    run.update()
    found = run.evaluate()
    x, y = (wg.tensor(array) for array in run.task.test.arrays)
    values = Classification()(run.task.model.eval(), x, y)
    assert found["loss"] == pytest.approx(values["loss"].detach().numpy().mean(), rel=1e-5)
    assert found["accuracy"] == pytest.approx(values["accuracy"].numpy().mean(), rel=1e-6)


def test_a_batch_size_beyond_the_data_takes_no_memory(file, tmp_path):
    small, huge = (Run(recipe_of(file, batch_size=size, compile=False), tmp_path) for size in (25, 10**12))
    assert huge.evaluate() == pytest.approx(small.evaluate())
    assert [batch[0].shape for batch in huge.tests] == [(25, 6)]
    huge.update()


def test_a_run_stops_when_nothing_gets_better(file, tmp_path):
    recipe = recipe_of(file, epochs=50, patience=2, optimizer={"name": "sgd", "lr": 1e-9})
    run = Run(recipe, tmp_path)
    run.train()
    assert 3 <= run.evaluated < 50 and run.waited == 2
    assert (tmp_path / "checkpoints/best.safetensors").exists()


def test_a_run_leaves_a_log_events_a_plot_and_its_recipe(file, tmp_path):
    run = Run(recipe_of(file, epochs=2), tmp_path)
    results = run.train()
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if line["kind"] == "test"] == [7, 14]
    assert {"loss", "accuracy", "norm", "lr", "seconds"} <= lines[0].keys()
    assert lines[-1]["accuracy"] == results["accuracy"]
    assert len(list(tmp_path.glob("events.out.tfevents.*"))) == 1
    assert (tmp_path / "run.svg").read_text().count("<polyline") == 4
    assert wg.train.recipe.read(tmp_path / "recipe.toml") == run.recipe


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_mixed_precision_learns_and_goes_on(file, tmp_path, dtype):
    recipe = recipe_of(file, dtype=dtype, epochs=10, optimizer={"name": "adamw", "lr": 0.01})
    run = Run(recipe, tmp_path)
    losses = [run.update()["loss"] for _ in range(60)]
    assert np.mean(losses[-7:]) < np.mean(losses[:7])
    state = run.checkpoints.save(60, run.state())
    after = [run.update()["loss"] for _ in range(4)]
    assert [Run(recipe, tmp_path, load_checkpoint(state)).update()["loss"]] == after[:1]


def test_the_learning_rate_warms_up_and_goes_down():
    schedule = {"name": "cosine", "warmup": 0.25, "final": 0.1}
    factors = [rate_factor(schedule, step, 28) for step in range(29)]
    assert factors[0] == pytest.approx(1 / 8) and factors[7] == 1.0 and factors[-1] == pytest.approx(0.1)
    assert factors[:8] == sorted(factors[:8]) and factors[7:] == sorted(factors[7:], reverse=True)


def test_a_nan_stops_with_the_step_and_the_op(tmp_path, monkeypatch):
    (tmp_path / "with_logs.py").write_text(
        DROPOUT + "\n\ndef objective(model, x, y):\n"
        "    return {'loss': wg.cross_entropy(model(x), y, reduction='none') + wg.log(x[:, 0] + 2.2)}\n"
    )
    run = Run(recipe_of(str(tmp_path / "with_logs.py"), epochs=9), tmp_path / "out")
    with pytest.raises(NaNError, match=r"step \d+: the loss is nan: log produced \d NaN(.|\n)*with_logs.py"):
        for _ in range(60):
            weights = [p.detach().numpy().copy() for p in run.task.model.parameters()]
            run.update()
    assert all((p.detach().numpy() == before).all() for p, before in zip(run.task.model.parameters(), weights))


def test_an_objective_without_a_loss_for_each_example_is_refused(tmp_path):
    (tmp_path / "with_mean.py").write_text(
        DROPOUT + "\n\ndef objective(model, x, y):\n    return {'loss': wg.cross_entropy(model(x), y)}\n"
    )
    run = Run(recipe_of(str(tmp_path / "with_mean.py")), tmp_path / "out")
    with pytest.raises(wg.errors.ShapeError, match="one loss for each example"):
        run.update()


def test_a_batch_for_each_update_is_needed(file, tmp_path):
    with pytest.raises(ArgumentError, match="an epoch of 7 batches is too short for an update of 8 batches"):
        Run(recipe_of(file, accumulate=8), tmp_path)


def test_runs_are_made_in_any_thread_but_signals_are_the_main_ones(file, tmp_path):
    failures = []

    def train():
        try:
            Run(recipe_of(file, epochs=1), tmp_path).train()
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert failures == []


def test_examples_are_held_back_to_choose_by(tmp_path):
    recipe = Recipe(data="digits", model="mlp", epochs=2, validation=0.25, options={"hidden": [16]})
    run = Run(recipe, tmp_path)
    learned, held_back = run.task.train.arrays[0], run.task.validation.arrays[0]
    assert (len(learned), len(held_back)) == (1078, 359)
    whole = wg.data.load_digits()[0]
    rows = np.concatenate([learned, held_back]).reshape(1437, 64)
    assert sorted(map(bytes, rows)) == sorted(map(bytes, whole))
    results = run.train()
    kinds = [point["kind"] for point in run.history if point["kind"] != "train"]
    assert kinds == ["validation", "validation", "test"]
    assert results["accuracy"] == run.evaluate()["accuracy"]
    assert run.best == max(point["accuracy"] for point in run.history if point["kind"] == "validation")


def test_a_run_that_may_stop_early_holds_back_a_tenth(tmp_path, file):
    assert len(Run(Recipe(data="digits", model="mlp", patience=3), tmp_path).task.validation) == 144
    assert Run(Recipe(data=file), tmp_path).task.validation is None
    with pytest.raises(ArgumentError, match="a file's data\\(\\) returns a third data set"):
        Run(Recipe(data=file, validation=0.1), tmp_path)


def test_a_checkpoint_carries_the_choices_of_its_run(tmp_path, file, monkeypatch):
    run = Run(recipe_of(file), tmp_path)
    assert run.state()["choices"] == {}  # on the CPU there are none
    monkeypatch.setattr(run, "recipe", dataclasses.replace(run.recipe, device="cuda"))
    monkeypatch.setattr(wg.cuda, "choices", lambda device: {"matmul": device})
    state = run.state()
    assert state["choices"] == {"matmul": "cuda"}
    taken = []
    monkeypatch.setattr(wg.cuda, "set_choices", lambda choices, device: taken.append((choices, device)))
    run.load(state)
    assert taken == [({"matmul": "cuda"}, "cuda")]
