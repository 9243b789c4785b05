"""Tiers: a training step is one compiled program from its third coming on; what does not come back never pays."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from wengert import nn, optim
from wengert.backends.cpu.device import HostDevice
from wengert.backends.cpu.toolchain import compiler
from wengert.runtime.dynamic import tiers

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


@pytest.fixture(autouse=True)
def fresh():
    wg.synchronize()  # what earlier tests left pending
    tiers.structures.clear()
    yield
    wg.config.tier = "auto"
    tiers.structures.clear()


def programs() -> int:
    return sum(structure.program is not None for structure in tiers.structures.values())


def train(steps: int, tier: str, schedule: bool = False) -> list[float]:
    wg.config.tier = tier
    wg.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.LayerNorm(16), nn.Linear(16, 4)).to(wg.float64)
    opt = optim.AdamW(net.parameters(), lr=0.01)
    rng = np.random.default_rng(0)
    x, y = wg.tensor(rng.standard_normal((12, 8))), wg.tensor(rng.integers(0, 4, 12))
    losses = []
    for step in range(steps):
        loss = wg.cross_entropy(net(x), y)
        loss.backward()
        if schedule:
            opt.param_groups[0]["lr"] = 0.01 / (1 + step)
        opt.step()
        opt.zero_grad()
        losses.append(loss.item())
    return losses


def test_a_training_step_is_one_program_and_gives_the_references_numbers():
    expected = train(10, "interpret")
    tiers.structures.clear()
    found = train(10, "auto")
    assert programs() == 1
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_a_learning_rate_that_changes_every_step_never_compiles_again():
    expected = train(10, "interpret", schedule=True)
    tiers.structures.clear()
    found = train(10, "auto", schedule=True)
    assert programs() == 1
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_the_batches_of_an_epoch_are_one_structure():
    wg.config.tier = "auto"
    data = wg.tensor(np.arange(60.0).reshape(20, 3))
    w = wg.tensor(np.ones(3), requires_grad=True)
    order = wg.tensor(np.random.default_rng(0).permutation(20))
    for first in [0, 4, 8, 12, 16] * 2:
        loss = (data[order[first : first + 4]] @ w).sum() + (data[first] * w).sum()
        loss.backward()
    assert len(tiers.structures) == 2 and programs() == 1  # the first step has no gradient to add to
    expected = 2 * data.numpy().sum(0) + 2 * data.numpy()[::4].sum(0)
    np.testing.assert_allclose(w.grad.numpy(), expected)


def test_floats_beside_tensors_are_arguments_of_the_program():
    wg.config.tier = "compile"
    x = wg.tensor(np.arange(3.0))
    assert [(x * rate + 1.0).tolist() for rate in (0.5, 2.0)] == [[1.0, 1.5, 2.0], [1.0, 3.0, 5.0]]
    assert programs() == 1


def test_signs_of_zero_and_types_of_numbers_are_different_structures():
    wg.config.tier = "compile"
    x = wg.tensor(np.array([0.0]))
    assert np.signbit(wg.where(x > 1, x, -0.0).numpy()).tolist() == [True]
    assert np.signbit(wg.where(x > 1, x, 0.0).numpy()).tolist() == [False]


def test_interpret_never_compiles():
    train(6, "interpret")
    assert not tiers.structures


def test_what_does_not_come_back_is_not_compiled():
    wg.config.tier = "auto"
    for n in range(1, 12):
        wg.exp(wg.ones(n)).numpy()
    assert programs() == 0


def test_structures_remembered_are_bounded():
    wg.config.tier = "auto"
    for n in range(1, tiers.BOUND + 20):
        wg.exp(wg.ones(n)).numpy()
    assert len(tiers.structures) == tiers.BOUND


def test_a_failure_in_a_compiled_structure_poisons_only_its_own():
    wg.config.tier = "compile"
    bad, good = wg.tensor(-np.eye(2)), wg.tensor([1.0, 2.0])
    failed, fine = wg.linalg.cholesky(bad), good * 2.0
    assert fine.tolist() == [2.0, 4.0]
    with pytest.raises(wg.errors.ComputationError, match="cholesky"):
        failed.numpy()


def test_a_kept_program_holds_no_values():
    import gc
    import weakref

    wg.config.tier = "compile"
    x = wg.tensor(np.ones(1000))
    y = wg.exp(x) * 2.0
    y.numpy()
    node = weakref.ref(y.node)
    del y
    gc.collect()
    assert node() is None and programs() == 1


def epochs(tier: str, count: int, static: bool = False) -> tuple[list[float], list[int]]:
    """The losses of training on batches of 8, 8 and 5 rows at rates that change; how many programs after each epoch."""
    wg.config.tier = tier
    wg.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 3)).to(wg.float64)
    opt = optim.Adam(net.parameters(), lr=0.05)
    schedule = optim.StepLR(opt, step_size=2, gamma=0.3)
    rng = np.random.default_rng(0)
    x, y = wg.tensor(rng.standard_normal((21, 6))), wg.tensor(rng.integers(0, 3, 21))

    def step(x, y):
        loss = wg.cross_entropy(net(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss

    step = wg.compile(step) if static else step
    losses, built = [], []
    for _ in range(count):
        for first in (0, 8, 16):
            losses.append(step(x[first : first + 8], y[first : first + 8]).item())
        schedule.step()
        built.append(programs())
    if static:
        assert step.why() == ["it is the first call", "argument 0 has shape (5, 6), before (8, 6)"]
    return losses, built


def test_a_smaller_last_batch_is_a_structure_that_must_come_back_too():
    expected, _ = epochs("interpret", 5)
    found, built = epochs("auto", 5)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert built == [0, 1, 2, 2, 2]  # the full batch from its third coming on, the smaller one as well


def test_a_smaller_last_batch_and_a_schedule_of_a_compiled_step():
    expected, _ = epochs("interpret", 5)
    found, _ = epochs("auto", 5, static=True)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def refuse(*args: object, **options: object) -> None:
    raise AssertionError("interpreted")


@pytest.mark.parametrize(
    "function", [lambda x: wg.linalg.slogdet(x)[1], lambda x: wg.linalg.qr(x)[1], lambda x: wg.linalg.eigh(x + x.mT)[0]]
)
def test_ops_with_several_results_are_compiled(function, monkeypatch):
    """Their results were to be kept for a later backward, which no program can do, and all was interpreted."""
    a = np.arange(9.0).reshape(3, 3) % 4 + 3 * np.eye(3)
    x = wg.tensor(a, requires_grad=True)
    expected = function(wg.tensor(a)).numpy(), wg.grad(lambda x: wg.sum(function(x)))(wg.tensor(a)).numpy()
    wg.config.tier = "compile"
    monkeypatch.setattr(HostDevice, "interpret", refuse)
    y = function(x)
    np.testing.assert_allclose(y.detach().numpy(), expected[0], rtol=1e-6)
    wg.sum(y).backward()
    np.testing.assert_allclose(x.grad.numpy(), expected[1], rtol=1e-5, atol=1e-6)


def test_slices_alone_are_no_program():
    wg.config.tier = "auto"
    x = wg.tensor([1.0, 2.0, 3.0, 4.0]) * 2
    assert x.tolist() == [2.0, 4.0, 6.0, 8.0]
    seen = len(tiers.structures)
    assert x[1:3].tolist() == [4.0, 6.0] and len(tiers.structures) == seen
