"""`partition`: every rank of a cut-up program has its share of what one process computes."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from tests.distributed.lockstep import check, collectives
from wengert.core.mesh import Mesh
from wengert.core.placement import Placement

RANKS = [2, 4]


def mlp():
    return wg.nn.Sequential(
        wg.nn.Linear(12, 32),
        wg.nn.BatchNorm1d(32),
        wg.nn.ReLU(),
        wg.nn.Dropout(0.3),
        wg.nn.Linear(32, 8),
        wg.nn.LayerNorm(8),
        wg.nn.Linear(8, 5),
    ), (16, 12)


def convnet():
    return wg.nn.Sequential(
        wg.nn.Conv2d(3, 8, 3, padding=1),
        wg.nn.BatchNorm2d(8),
        wg.nn.ReLU(),
        wg.nn.MaxPool2d(2),
        wg.nn.Dropout(0.2),
        wg.nn.Conv2d(8, 8, 3),
        wg.nn.ReLU(),
        wg.nn.AvgPool2d(2),
        wg.nn.Flatten(),
        wg.nn.Linear(8, 5),
    ), (16, 3, 8, 8)


MODELS = {"mlp": mlp, "convnet": convnet}


def training(name, clip=None, optimizer=wg.optim.AdamW):
    model, shape = MODELS[name]()
    model.to(wg.float64)
    steps = optimizer(model.parameters(), lr=1e-2)
    rng = np.random.default_rng(0)
    x, y = wg.tensor(rng.normal(size=shape)), wg.tensor(rng.integers(0, 5, shape[0]))

    def train(x, y):
        steps.zero_grad()
        loss = wg.cross_entropy(model(x), y)
        loss.backward()
        if clip is not None:
            wg.optim.clip_grad_norm_(model.parameters(), clip)
        steps.step()
        return loss

    return train, (x, y)


def stored(mesh):
    def place(shape):
        axis = next((i for i, n in enumerate(shape) if n % mesh.size == 0), None)
        return None if axis is None else Placement(mesh, {"data": axis}, ["data"])

    return place


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("name", MODELS)
def test_data_parallel_training_means_what_it_means_on_one_rank(name, clip, ranks):
    train, args = training(name, clip)
    found = check(train, args, Mesh(data=ranks))
    assert set(collectives(found)) == {"all_reduce", "all_reduce_many"} and not found.gathered


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("clip", [None, 0.5])
@pytest.mark.parametrize("name", MODELS)
def test_parameters_and_state_may_be_stored_in_blocks(name, clip, ranks):
    train, args = training(name, clip)
    mesh = Mesh(data=ranks)
    found = check(train, args, mesh, stored(mesh))
    counts = collectives(found)
    assert counts["reduce_scatter"] and counts["all_gather"] and not found.gathered


@pytest.mark.parametrize(("ranks", "parts"), [(1, 4), (2, 4), (4, 8)])
@pytest.mark.parametrize("name", MODELS)
def test_ranks_may_share_more_parts(name, ranks, parts):
    train, args = training(name, 0.5)
    mesh = Mesh(data=ranks)
    check(train, args, mesh, parts=parts)
    check(train, args, mesh, stored(mesh) if ranks > 1 else lambda shape: None, parts=parts)


@pytest.mark.parametrize("name", [pytest.param(m, marks=pytest.mark.slow) if m == "convnet" else m for m in MODELS])
def test_gradients_are_accumulated_part_by_part(name, monkeypatch):
    """`compile(microbatches=4)` in one process: the same results, by programs that hold one part at a time."""
    monkeypatch.setattr(wg.config, "tier", "auto")
    found = []
    for options in ({}, {"microbatches": 4}):
        wg.manual_seed(0)
        train, args = training(name, 0.5)
        step = wg.compile(train, **options)
        found.append([step(*args).item() for _ in range(4)])
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9)
    assert type(step._latest[1].program).__name__ == "PipelinedProgram"
