"""What torch's optimizers take besides numbers, SparseAdam, averaged models, and new rules in compiled steps."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.optim.problem import CASES, SHAPES, assert_same, descend, identifier, loss, values, wengert_parameters

NEW = [case for case in CASES if case[0] in ("Rprop", "ASGD", "Adafactor")]
SHARED = [name for name, _ in CASES] + ["LBFGS", "SparseAdam", "Muon"]


@pytest.mark.parametrize("name", sorted(set(SHARED)))
def test_the_arguments_are_torchs_in_its_order(name: str) -> None:
    torch = pytest.importorskip("torch", reason="torch, the implementation to compare with, is not installed")
    kinds = lambda cls: [(p.name, p.kind, p.default) for p in inspect.signature(cls).parameters.values()]
    mine, theirs = kinds(getattr(wg.optim, name)), kinds(getattr(torch.optim, name))
    positional = lambda parameters: [p for p in parameters if p[1] == inspect.Parameter.POSITIONAL_OR_KEYWORD]
    assert positional(mine) == positional(theirs)
    assert set(mine) == set(theirs)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adadelta", "Rprop", "ASGD", "Adafactor"])
def test_how_torch_runs_changes_nothing(name: str) -> None:
    plain, told = (wengert_parameters(values(SHAPES)) for _ in range(2))
    keywords = {"foreach": True, "fused": True, "capturable": True}
    taken = {
        key: value for key, value in keywords.items() if key in inspect.signature(getattr(wg.optim, name)).parameters
    }
    assert "foreach" in taken
    optimizer = getattr(wg.optim, name)(told, **taken)
    descend(wg, told, optimizer, 3)
    descend(wg, plain, getattr(wg.optim, name)(plain), 3)
    assert_same(told, plain, rtol=0, atol=0)
    for group in optimizer.param_groups:
        group["foreach"] = None  # a program may set it, as in torch
    assert optimizer.state_dict()["param_groups"][0]["foreach"] is None


def test_differentiable_steps_are_refused() -> None:
    w = wg.tensor([1.0], requires_grad=True)
    with pytest.raises(wg.errors.GradientError, match="Compute new values"):
        wg.optim.SGD([w], differentiable=True)
    with pytest.raises(wg.errors.GradientError, match="Compute new values"):
        wg.optim.Adam([{"params": [w], "differentiable": True}])


@pytest.mark.parametrize("case", NEW, ids=identifier)
def test_ten_steps_to_1e_12(case: tuple[str, dict[str, Any]]) -> None:
    torch = pytest.importorskip("torch", reason="torch, the implementation to compare with, is not installed")
    start = values(SHAPES)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        mine, theirs = wengert_parameters(start), [torch.tensor(a, requires_grad=True) for a in start]
        descend(wg, mine, getattr(wg.optim, case[0])(mine, **case[1]), 12)
        descend(torch, theirs, getattr(torch.optim, case[0])(theirs, **case[1]), 12)
    finally:
        torch.set_default_dtype(before)
    assert_same(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", ["Rprop", "ASGD", "Adafactor", "SparseAdam"])
def test_compiled_steps_are_the_dynamic_ones(name: str) -> None:
    plain, compiled = (wengert_parameters(values(SHAPES[:2])) for _ in range(2))
    one, two = (getattr(wg.optim, name)(p, lr=0.02) for p in (plain, compiled))

    @wg.compile
    def step() -> None:
        two.zero_grad()
        loss(wg, compiled).backward()
        two.step()

    for rate in [0.02] * 8 + [0.01] * 4:
        for optimizer in (one, two):
            optimizer.param_groups[0]["lr"] = rate
        descend(wg, plain, one, 1)
        step()
    assert_same(plain, compiled, rtol=1e-12, atol=1e-12)


def test_rprop_starts_at_the_rate_of_its_first_step() -> None:
    w = wg.tensor([4.0], dtype=wg.float64, requires_grad=True)
    optimizer = wg.optim.Rprop([w], lr=1.0)
    optimizer.param_groups[0]["lr"] = 0.25
    for expected in (3.75, 3.75 - 0.25 * 1.2):
        optimizer.zero_grad()
        (w * w).sum().backward()
        optimizer.step()
        optimizer.param_groups[0]["lr"] = 9.0  # no step after the first asks for it
        assert w.item() == pytest.approx(expected, rel=1e-15)


def test_sparse_adam_beside_torchs_sparse_gradients() -> None:
    torch = pytest.importorskip("torch", reason="torch, the implementation to compare with, is not installed")
    generator = np.random.default_rng(1)
    start = generator.normal(size=(7, 3))
    table, other = wg.tensor(start, requires_grad=True), torch.tensor(start, requires_grad=True)
    options: dict[str, Any] = {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-6}
    optimizer, reference = wg.optim.SparseAdam([table], **options), torch.optim.SparseAdam([other], **options)
    for _ in range(15):
        rows, weights = generator.integers(0, 7, 4), generator.normal(size=(4, 3))
        for opt in (optimizer, reference):
            opt.zero_grad()
        (wg.embedding(wg.tensor(rows), table) * weights).sum().backward()
        read = torch.nn.functional.embedding(torch.tensor(rows), other, sparse=True)
        (read * torch.tensor(weights)).sum().backward()
        optimizer.step()
        reference.step()
    assert_same([table], [other], rtol=1e-12, atol=1e-12)


def model_of(nn: Any) -> Any:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


@pytest.mark.parametrize("kind", ["swa", "ema", "ema over lists", "with buffers"])
def test_averaged_models_beside_torchs(kind: str) -> None:
    torch = pytest.importorskip("torch", reason="torch, the implementation to compare with, is not installed")
    utils = torch.optim.swa_utils
    options = lambda m: {
        "swa": {},
        "ema": {"avg_fn": m.get_ema_avg_fn(0.9)},
        "ema over lists": {"multi_avg_fn": m.get_ema_multi_avg_fn(0.9)},
        "with buffers": {"use_buffers": True, "avg_fn": m.get_swa_avg_fn()},
    }[kind]
    theirs = model_of(torch.nn).double()
    mine = model_of(wg.nn).to(wg.float64)
    generator = np.random.default_rng(0)

    def copy() -> None:
        mine.load_state_dict({name: wg.tensor(value.detach().numpy()) for name, value in theirs.state_dict().items()})

    copy()
    average, reference = (
        wg.optim.AveragedModel(mine, **options(wg.optim)),
        utils.AveragedModel(theirs, **options(utils)),
    )
    for _ in range(4):
        with torch.no_grad():
            for tensor in theirs.state_dict().values():
                if tensor.is_floating_point():
                    tensor.copy_(torch.tensor(generator.uniform(0.5, 1.5, tensor.shape)))
        copy()
        average.update_parameters(mine)
        reference.update_parameters(theirs)
    batches = [generator.normal(size=(5, 3)) for _ in range(3)]
    for name, value in reference.state_dict().items():
        np.testing.assert_allclose(average.state_dict()[name].numpy(), value.numpy(), rtol=1e-12, atol=1e-12)
    wg.optim.update_bn([(wg.tensor(batch), None) for batch in batches], average)
    utils.update_bn([torch.tensor(batch) for batch in batches], reference)
    for name, value in reference.state_dict().items():
        np.testing.assert_allclose(average.state_dict()[name].numpy(), value.numpy(), rtol=1e-12, atol=1e-12)
    assert average.module[1].momentum == 0.1


def test_averages_in_a_compiled_step() -> None:
    model = wg.nn.Linear(2, 2)
    average = wg.optim.AveragedModel(model)

    @wg.compile
    def step(x: Any) -> None:
        model.weight.assign(x)
        average.update_parameters(model)

    with wg.no_grad():
        for value in (1.0, 2.0, 6.0):
            step(wg.full((2, 2), value))
    np.testing.assert_allclose(average.module.weight.detach().numpy(), np.full((2, 2), 3.0), rtol=1e-6)
    assert average.n_averaged.item() == 3
