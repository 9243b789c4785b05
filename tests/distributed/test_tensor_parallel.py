"""Tensor and sequence parallelism: a GPT's step means what it means on one rank, with the collectives it must have."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

import wengert as wg
from tests.distributed.lockstep import check
from wengert.compiler.distribute import Distributed
from wengert.core.mesh import Mesh
from wengert.core.placement import Placement
from wengert.distributed.sharding import Split, planned, with_split

LAYERS = 2
BATCH, LENGTH, FEATURES, VOCABULARY = 4, 8, 32, 64
GPT2 = {"n_positions": 16}
MODERN = {"positions": "rotary", "norm": "rms", "mlp": "swiglu", "bias": False, "n_inner": 96 + 32}


def gpt(**changes):
    sizes = {"vocab_size": VOCABULARY, "n_embd": FEATURES, "n_layer": LAYERS, "n_head": 4}
    return wg.models.GPT(wg.models.GPTConfig(**{**sizes, **GPT2, **changes}), dtype=wg.float64)


def training(model, optimizer=wg.optim.SGD, clip=None):
    steps = optimizer(model.parameters(), lr=1e-2)
    tokens = np.random.default_rng(0).integers(0, VOCABULARY, (BATCH, LENGTH + 1))

    def train(x, y):
        steps.zero_grad()
        loss = model(x, targets=y)[1]
        loss.backward()
        if clip is not None:
            wg.optim.clip_grad_norm_(model.parameters(), clip)
        steps.step()
        return loss

    return train, (wg.tensor(tokens[:, :-1].copy()), wg.tensor(tokens[:, 1:].copy()))


def by_plan(model, mesh, zero=False):
    """Where a tensor lies that has the shape of a parameter: as the model's plan has it, and stored along data."""
    placements = planned(model, model.tensor_plan, mesh) if "tensor" in mesh else {}
    found = {}
    for name, parameter in model.named_parameters():
        placement = placements.get(name, Placement(mesh, {}))
        axes = [i for i, n in enumerate(parameter.shape) if i not in placement.splits.values() and n % 2 == 0]
        if zero and axes:
            placement = with_split(placement, Split(axes[0], "data"), stored=True)
        assert found.setdefault(parameter.shape, placement) == placement, "two placements for one shape"
    return found.get


def of_activations(found: Distributed) -> Counter[str]:
    """How many values of the shape of the activations each kind of collective moves, over any axis of the mesh."""
    counts: Counter[str] = Counter()
    for node in found.graph.nodes:
        if node.op.collective:
            counts[node.op.name.removesuffix("_many")] += sum(source.ndim >= 3 for source in node.sources)
    return +counts


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize(
    "changes", [{}, MODERN, {"tied": False}, {"dropout": 0.1}], ids=["gpt2", "modern", "untied", "dropout"]
)
def test_tensor_parallel_step_needs_the_sums_of_megatron(changes, ranks):
    model = gpt(**changes)
    train, args = training(model)
    found = check(train, args, mesh := Mesh(tensor=ranks), by_plan(model, mesh))
    # The embedding's, two a block forward and two backward, and one for what the scores are made from.
    assert of_activations(found) == {"all_reduce": 1 + 2 * LAYERS + 2 * LAYERS + 1}
    assert not found.gathered
    kinds = Counter(node.op.name for node in found.graph.nodes if node.op.collective)
    assert set(kinds) <= {"all_reduce", "all_reduce_many", "all_reduce_max"}


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("clip", [None, 0.5])
def test_data_times_tensor(clip, zero):
    model = gpt()
    train, args = training(model, wg.optim.AdamW, clip)
    found = check(train, args, mesh := Mesh(data=2, tensor=2), by_plan(model, mesh, zero), rtol=1e-7)
    along = Counter(
        (node.op.name.removesuffix("_many"), node.attrs["group"].axes)
        for node in found.graph.nodes
        if node.op.collective
    )
    assert {kind for kind, axes in along if axes == ("tensor",)} <= {"all_reduce", "all_reduce_max"}
    assert not found.gathered
    assert (along["reduce_scatter", ("data",)] > 0) == zero


@pytest.mark.parametrize("ranks", [2, 4])
def test_mlp_needs_a_sum_for_every_two_layers(ranks):
    model = wg.models.MLP(12, [32, 16, 64, 5], dtype=wg.float64)
    steps = wg.optim.Adam(model.parameters(), lr=1e-2)
    rng = np.random.default_rng(0)

    def train(x, y):
        steps.zero_grad()
        loss = wg.cross_entropy(model(x), y)
        loss.backward()
        steps.step()
        return loss

    args = wg.tensor(rng.normal(size=(8, 12))), wg.tensor(rng.integers(0, 5, 8))
    found = check(train, args, mesh := Mesh(tensor=ranks), by_plan(model, mesh), rtol=1e-7)
    counts = Counter(node.op.name for node in found.graph.nodes if node.op.collective)
    assert counts == {"all_reduce": 2 + 1} and not found.gathered  # forward two, backward one between the pairs


@pytest.mark.parametrize("ranks", [2, 4])
@pytest.mark.parametrize("changes", [{}, MODERN], ids=["gpt2", "modern"])
def test_sequence_parallel_step_exchanges_sequence_for_heads(changes, ranks):
    model = gpt(**changes)
    train, args = training(model, wg.optim.AdamW, 0.5)
    found = check(train, args, Mesh(sequence=ranks), lambda shape: None, rtol=1e-7)
    # Before attention q, k and v, behind it its result; backward the result's cotangent, and those of q, k and v.
    assert of_activations(found) == {"all_to_all": 8 * LAYERS}
    assert not found.gathered


def test_heads_that_do_not_divide_are_right_all_the_same():
    model = gpt(n_head=2)
    train, args = training(model)
    found = check(train, args, Mesh(sequence=4), lambda shape: None)
    assert of_activations(found)["all_gather"] or of_activations(found)["all_to_all"]


@pytest.mark.parametrize(
    "mesh", [Mesh(data=2, sequence=2), Mesh(sequence=2, tensor=2), Mesh(data=2, sequence=2, tensor=2)], ids=str
)
def test_sequence_beside_other_axes(mesh):
    model = gpt()
    train, args = training(model)
    found = check(train, args, mesh, by_plan(model, mesh))
    assert of_activations(found)["all_to_all"] == 8 * LAYERS
    assert not found.gathered
