"""`pipeline`: ranks that compute the stages of a model mean what one rank means."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from tests.distributed.staged import check, check_bytes
from wengert.compiler.schedules import SCHEDULES
from wengert.core.mesh import Mesh

rng = np.random.default_rng(0)


def training(model, loss_of, optimizer=wg.optim.AdamW, clip=None):
    steps = optimizer(model.parameters(), lr=1e-2)

    def train(*args):
        steps.zero_grad()
        loss = loss_of(*args)
        loss.backward()
        if clip is not None:
            wg.optim.clip_grad_norm_(model.parameters(), clip)
        steps.step()
        return loss

    return train


def mlp(stages, dtype=wg.float64, clip=None, marked=True, extra=()):
    wg.manual_seed(1)
    blocks = [wg.nn.Sequential(wg.nn.Linear(12, 12), *(layer() for layer in extra), wg.nn.Tanh()) for _ in range(4)]
    model = wg.nn.ModuleList([*blocks, wg.nn.Linear(12, 5)])
    model.to(dtype)

    def loss_of(x, y):
        for i, block in enumerate(model):
            if marked:
                with wg.distributed.stage(min(i, 3) * stages // 4):
                    x = block(x)
            else:
                x = block(x)
        return wg.cross_entropy(x, y)

    x, y = rng.normal(size=(16, 12)), rng.integers(0, 5, 16)
    return training(model, loss_of, clip=clip), (wg.tensor(x, dtype=dtype), wg.tensor(y))


def gpt(dtype=wg.float64, tied=True, dropout=0.0, clip=None, layers=4):
    wg.manual_seed(2)
    sizes = wg.models.GPTConfig(
        vocab_size=11, n_positions=8, n_embd=16, n_layer=layers, n_head=2, tied=tied, dropout=dropout
    )
    model = wg.models.GPT(sizes)
    model.to(dtype)
    tokens = rng.integers(0, 11, (8, 9))
    return training(model, lambda x, y: model(x, targets=y)[1], clip=clip), (
        wg.tensor(tokens[:, :-1]),
        wg.tensor(tokens[:, 1:]),
    )


MESHES = [Mesh(data=1, stage=2), Mesh(data=1, stage=4), Mesh(data=2, stage=2), Mesh(stage=2, data=2)]


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("mesh", MESHES, ids=repr)
@pytest.mark.parametrize("clip", [None, 0.1])
def test_a_pipeline_means_what_one_rank_means(mesh, schedule, clip):
    train, args = mlp(mesh.sizes["stage"], clip=clip)
    check(train, args, mesh, 8, schedule)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("mesh", MESHES, ids=repr)
def test_a_gpt_is_cut_by_its_cost(mesh, schedule):
    train, args = gpt(clip=0.1)
    check(train, args, mesh, 4, schedule)


def test_all_micro_batches_may_be_needed_at_once():
    """BatchNorm: the first stage has to see all micro-batches before the second sees one, whatever the schedule."""
    mesh = Mesh(data=2, stage=2)
    train, args = mlp(2, extra=(lambda: wg.nn.BatchNorm1d(12), lambda: wg.nn.Dropout(0.3)))
    check(train, args, mesh, 8)
    check(train, args, mesh, 8, "gpipe")


def test_interleaved_stages():
    train, args = mlp(4)
    ran = check(train, args, Mesh(data=1, stage=2), 4)
    assert ran.found.schedule.name == "interleaved" and ran.found.schedule.chunks == 2


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("mesh", MESHES, ids=repr)
@pytest.mark.parametrize("make", [mlp, gpt], ids=["mlp", "gpt"])
def test_a_pipeline_gives_the_bytes_of_micro_batches_on_one_rank(make, mesh, schedule):
    train, args = gpt(wg.float32) if make is gpt else mlp(mesh.sizes["stage"], wg.float32)
    check_bytes(train, args, mesh, 4, schedule)
