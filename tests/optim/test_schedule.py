"""Each schedule beside torch's for sixty steps, alone and with others; saving, going on, errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg

STEPS = 60


def swa_module(schedules: Any) -> Any:
    """Where SWALR is: beside the other schedules here, in a module of its own in torch."""
    if schedules is wg.optim:
        return schedules
    import torch

    return torch.optim.swa_utils


Make = Callable[[Any, Any], Any]  # from a library's module of schedules and an optimizer

SCHEDULES: dict[str, Make] = {
    "LambdaLR": lambda m, o: m.LambdaLR(o, lambda epoch: 0.95**epoch),
    "LambdaLR, one a group": lambda m, o: m.LambdaLR(o, [lambda epoch: 1 / (epoch + 1), lambda epoch: 0.9**epoch]),
    "MultiplicativeLR": lambda m, o: m.MultiplicativeLR(o, lambda epoch: 0.9 + 0.01 * (epoch % 3)),
    "MultiplicativeLR, one a group": lambda m, o: m.MultiplicativeLR(o, [lambda epoch: 0.95, lambda epoch: 0.9]),
    "CyclicLR": lambda m, o: m.CyclicLR(o, 0.01, 0.1, step_size_up=7),
    "CyclicLR, halved": lambda m, o: m.CyclicLR(
        o, [0.01, 0.02], [0.1, 0.3], 5, 9, mode="triangular2", base_momentum=0.7, max_momentum=0.95
    ),
    "CyclicLR, falling": lambda m, o: m.CyclicLR(o, 0.01, 0.1, 8, mode="exp_range", gamma=0.97, cycle_momentum=False),
    "CyclicLR, by a function": lambda m, o: m.CyclicLR(o, 0.01, 0.1, 8, scale_fn=lambda x: 1 / x, scale_mode="cycle"),
    "SWALR": lambda m, o: swa_module(m).SWALR(o, swa_lr=0.05),
    "SWALR, linear": lambda m, o: swa_module(m).SWALR(o, [0.5, 0.01], anneal_epochs=20, anneal_strategy="linear"),
    "SWALR, at once": lambda m, o: swa_module(m).SWALR(o, swa_lr=0.05, anneal_epochs=0),
    "StepLR": lambda m, o: m.StepLR(o, 7),
    "StepLR, gamma": lambda m, o: m.StepLR(o, step_size=10, gamma=0.7),
    "MultiStepLR": lambda m, o: m.MultiStepLR(o, [5, 20, 20, 41], gamma=0.5),
    "ConstantLR": lambda m, o: m.ConstantLR(o),
    "ConstantLR, longer": lambda m, o: m.ConstantLR(o, factor=0.25, total_iters=30),
    "LinearLR": lambda m, o: m.LinearLR(o),
    "LinearLR, warm-up": lambda m, o: m.LinearLR(o, start_factor=0.01, total_iters=25),
    "LinearLR, down": lambda m, o: m.LinearLR(o, start_factor=1.0, end_factor=0.1, total_iters=40),
    "ExponentialLR": lambda m, o: m.ExponentialLR(o, gamma=0.93),
    "PolynomialLR": lambda m, o: m.PolynomialLR(o),
    "PolynomialLR, square": lambda m, o: m.PolynomialLR(o, total_iters=45, power=2.0),
    "CosineAnnealingLR": lambda m, o: m.CosineAnnealingLR(o, T_max=60),
    "CosineAnnealingLR, up again": lambda m, o: m.CosineAnnealingLR(o, T_max=11, eta_min=0.001),
    "CosineAnnealingWarmRestarts": lambda m, o: m.CosineAnnealingWarmRestarts(o, T_0=9),
    "CosineAnnealingWarmRestarts, longer": lambda m, o: m.CosineAnnealingWarmRestarts(o, 5, T_mult=2, eta_min=0.01),
    "OneCycleLR": lambda m, o: m.OneCycleLR(o, max_lr=0.5, total_steps=STEPS),
    "OneCycleLR, linear": lambda m, o: m.OneCycleLR(
        o, max_lr=[0.5, 0.7], epochs=5, steps_per_epoch=15, anneal_strategy="linear", pct_start=0.4
    ),
    "OneCycleLR, three phases": lambda m, o: m.OneCycleLR(
        o, 0.5, STEPS + 4, three_phase=True, div_factor=10, final_div_factor=50, base_momentum=0.7, max_momentum=0.8
    ),
    "OneCycleLR, no momentum": lambda m, o: m.OneCycleLR(o, 0.5, STEPS, cycle_momentum=False),
    "ChainedScheduler": lambda m, o: m.ChainedScheduler(
        [m.ConstantLR(o, 0.1, total_iters=8), m.ExponentialLR(o, 0.9), m.StepLR(o, 20)]
    ),
    "ChainedScheduler, cosine and warm-up": lambda m, o: m.ChainedScheduler(
        [m.LinearLR(o, 0.1, total_iters=10), m.CosineAnnealingLR(o, 50)]
    ),
    "SequentialLR": lambda m, o: m.SequentialLR(
        o, [m.LinearLR(o, 0.1, total_iters=10), m.CosineAnnealingLR(o, 50)], milestones=[10]
    ),
    "SequentialLR of four": lambda m, o: m.SequentialLR(
        o,
        [
            m.ConstantLR(o, 0.1, total_iters=4),
            m.ExponentialLR(o, 0.9),
            m.MultiStepLR(o, [0, 3, 9], 0.5),
            m.PolynomialLR(o, 20, 0.5),
        ],
        milestones=[6, 20, 33],
    ),
    "SequentialLR of the others": lambda m, o: m.SequentialLR(
        o,
        [
            m.LambdaLR(o, lambda epoch: 1 / (1 + epoch)),
            m.StepLR(o, 4, 0.5),
            m.LinearLR(o, 0.2),
            m.CosineAnnealingWarmRestarts(o, 6),
        ],
        milestones=[7, 22, 35],
    ),
}


def wengert_optimizer(name: str = "SGD", **options: Any) -> Any:
    first, second = (wg.tensor([float(i)], requires_grad=True) for i in range(2))
    return getattr(wg.optim, name)([{"params": [first]}, {"params": [second], "lr": 0.03}], lr=0.1, **options)


def torch_optimizer(name: str = "SGD", **options: Any) -> Any:
    import torch

    first, second = (torch.tensor([float(i)], requires_grad=True) for i in range(2))
    optimizer = getattr(torch.optim, name)([{"params": [first]}, {"params": [second], "lr": 0.03}], lr=0.1, **options)
    optimizer.step()  # torch warns where a schedule's step comes before the optimizer's
    return optimizer


def rates(optimizer: Any) -> list[float]:
    return [float(group["lr"]) for group in optimizer.param_groups]


def momenta(optimizer: Any) -> list[float]:
    return [float(g["betas"][0] if "betas" in g else g["momentum"]) for g in optimizer.param_groups]


@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_sixty_steps(name: str, optimizer: str) -> None:
    torch = pytest.importorskip("torch", reason="torch, the implementation to compare with, is not installed")
    mine, theirs = wengert_optimizer(optimizer), torch_optimizer(optimizer)
    scheduler = SCHEDULES[name](wg.optim, mine)
    reference = SCHEDULES[name](torch.optim.lr_scheduler, theirs)
    for step in range(STEPS):
        assert rates(mine) == pytest.approx(rates(theirs), rel=1e-11, abs=1e-15), step
        assert momenta(mine) == pytest.approx(momenta(theirs), rel=1e-11), step
        assert scheduler.get_last_lr() == rates(mine)
        scheduler.step()
        reference.step()


@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("threshold_mode", ["rel", "abs"])
@pytest.mark.parametrize(
    "options", [{}, {"factor": 0.5, "patience": 2}, {"patience": 1, "cooldown": 3, "min_lr": [0.001, 0.02]}]
)
def test_plateau(mode: str, threshold_mode: str, options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch", reason="torch, the implementation to compare with, is not installed")
    measures = np.cumsum(np.random.default_rng(3).normal(size=STEPS)) / 5 + 3
    mine, theirs = wengert_optimizer(), torch_optimizer()
    options = {"mode": mode, "threshold_mode": threshold_mode, "threshold": 0.01, **options}
    scheduler = wg.optim.ReduceLROnPlateau(mine, **options)
    reference = torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, **options)
    for measure in measures:
        scheduler.step(wg.tensor(measure))
        reference.step(measure)
        assert rates(mine) == pytest.approx(rates(theirs), rel=1e-12)
        assert (scheduler.num_bad_epochs, scheduler.best) == (reference.num_bad_epochs, reference.best)
    assert rates(mine)[0] < 0.1


def test_warm_restarts_at_fractions_of_an_epoch() -> None:
    torch = pytest.importorskip("torch", reason="torch, the implementation to compare with, is not installed")
    mine, theirs = wengert_optimizer(), torch_optimizer()
    scheduler = wg.optim.CosineAnnealingWarmRestarts(mine, 3, T_mult=2)
    reference = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(theirs, 3, T_mult=2)
    for i in range(STEPS):
        scheduler.step(i / 4)
        reference.step(i / 4)
        assert rates(mine) == pytest.approx(rates(theirs), rel=1e-12)


@pytest.mark.parametrize("name", SCHEDULES)
def test_saved_and_loaded_in_the_middle(name: str, tmp_path: Any) -> None:
    optimizer = wengert_optimizer(momentum=0.9)
    scheduler = SCHEDULES[name](wg.optim, optimizer)
    for _ in range(23):
        scheduler.step()
    wg.save(tmp_path / "state", {"optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()})
    again = wengert_optimizer(momentum=0.9)
    resumed = SCHEDULES[name](wg.optim, again)
    state = wg.load(tmp_path / "state")
    again.load_state_dict(state["optimizer"])
    resumed.load_state_dict(state["scheduler"])
    for _ in range(STEPS - 23):
        scheduler.step()
        resumed.step()
        assert rates(again) == rates(optimizer)
        assert momenta(again) == momenta(optimizer)


def test_going_on_with_last_epoch() -> None:
    optimizer = wengert_optimizer()
    scheduler = wg.optim.ExponentialLR(optimizer, 0.9)
    for _ in range(10):
        scheduler.step()
    again = wengert_optimizer()
    again.load_state_dict(optimizer.state_dict())
    resumed = wg.optim.ExponentialLR(again, 0.9, last_epoch=9)
    assert resumed.base_lrs == [0.1, 0.03]
    for _ in range(5):
        scheduler.step()
        resumed.step()
        assert rates(again) == rates(optimizer)
    with pytest.raises(wg.errors.ArgumentError, match="Load the optimizer's state first"):
        wg.optim.ExponentialLR(wengert_optimizer(), 0.9, last_epoch=9)


def test_a_chain_within_a_sequence_starts_when_its_turn_comes() -> None:
    optimizer = wengert_optimizer()
    chain = wg.optim.ChainedScheduler([wg.optim.LinearLR(optimizer, 0.5, total_iters=2), wg.optim.StepLR(optimizer, 3)])
    scheduler = wg.optim.SequentialLR(optimizer, [wg.optim.ConstantLR(optimizer, 0.1, 9), chain], [2])
    seen = [scheduler.get_last_lr()[0]]
    for _ in range(6):
        scheduler.step()
        seen.append(scheduler.get_last_lr()[0])
    assert seen == pytest.approx([0.01, 0.01, 0.05, 0.075, 0.1, 0.01, 0.01])


def test_a_schedule_assigns_slots_and_changes_no_recorded_step() -> None:
    optimizer = wengert_optimizer(momentum=0.9)
    slot = optimizer.param_groups[0].live()["lr"]
    scheduler = wg.optim.OneCycleLR(optimizer, 0.5, STEPS)
    version = wg.config.version
    for _ in range(10):
        scheduler.step()
    assert optimizer.param_groups[0].live()["lr"] is slot
    assert wg.config.version == version


def test_momentum_that_a_cycle_switches_on() -> None:
    """SGD made without momentum gets its buffers when the cycle sets one."""
    torch = pytest.importorskip("torch", reason="torch, the implementation to compare with, is not installed")
    mine, theirs = wengert_optimizer(), torch_optimizer()
    schedulers = [
        wg.optim.OneCycleLR(mine, 0.05, 30),
        torch.optim.lr_scheduler.OneCycleLR(theirs, 0.05, 30),
    ]
    for _ in range(20):
        for optimizer, scheduler in zip((mine, theirs), schedulers):
            optimizer.zero_grad()
            first, second = (group["params"][0] for group in optimizer.param_groups)
            ((first - 3) ** 2 + (first * second) ** 2).sum().backward()
            optimizer.step()
            scheduler.step()
    for a, b in zip(mine.param_groups, theirs.param_groups):
        assert a["params"][0].item() == pytest.approx(b["params"][0].item(), rel=1e-5)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda o: wg.optim.StepLR("sgd", 3), "for an optimizer, not str"),
        (lambda o: wg.optim.ConstantLR(o, factor=2.0), "between 0 and 1, not 2.0"),
        (lambda o: wg.optim.LinearLR(o, start_factor=0.0), "start_factor not 0"),
        (lambda o: wg.optim.LambdaLR(o, [math.cos]), "1 values for 2 parameter groups"),
        (lambda o: wg.optim.OneCycleLR(o, 0.1), "needs total_steps"),
        (lambda o: wg.optim.OneCycleLR(o, 0.1, 10, anneal_strategy="exp"), "cos"),
        (lambda o: wg.optim.OneCycleLR(wengert_optimizer("Adagrad"), 0.1, 10), "Adagrad has no momentum to cycle"),
        (lambda o: wg.optim.CosineAnnealingWarmRestarts(o, 0), "from 1 on, not 0"),
        (lambda o: wg.optim.ReduceLROnPlateau(o, factor=1.0), "below 1, not 1.0"),
        (lambda o: wg.optim.ReduceLROnPlateau(o, mode="down"), "not 'down'"),
        (lambda o: wg.optim.ChainedScheduler([]), "at least one"),
        (lambda o: wg.optim.ChainedScheduler([wg.optim.ReduceLROnPlateau(o)]), "needs a measure"),
        (lambda o: wg.optim.SequentialLR(o, [wg.optim.StepLR(o, 1)], [3]), "1 schedules have 0 milestones"),
        (lambda o: wg.optim.SequentialLR(o, [wg.optim.StepLR(wengert_optimizer(), 1)], []), "another optimizer"),
    ],
)
def test_errors(make: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(wg.errors.WengertError, match=message):
        make(wengert_optimizer())


def test_a_cycle_ends() -> None:
    optimizer = wengert_optimizer()
    scheduler = wg.optim.OneCycleLR(optimizer, 0.1, 3)
    for _ in range(3):
        scheduler.step()
    with pytest.raises(wg.errors.ArgumentError, match="step 4 of a schedule of 3 steps"):
        scheduler.step()
