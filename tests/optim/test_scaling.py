"""Loss scaling against a NumPy simulation of torch's rules, with infinities in the gradients at chosen steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.optim.problem import MATRICES, assert_same, values, wengert_parameters

INFINITE = {0: np.inf, 4: np.nan, 5: -np.inf, 17: np.inf}
STEPS = 30
RULES = {"init_scale": 1024.0, "growth_factor": 4.0, "backoff_factor": 0.25, "growth_interval": 3}


class Simulation:
    """What torch.amp.GradScaler documents: the scale and the steps since it last changed."""

    def __init__(self) -> None:
        self.scale = np.float32(RULES["init_scale"])
        self.tracker = 0

    def update(self, found_inf: bool) -> None:
        if found_inf:
            self.scale *= np.float32(RULES["backoff_factor"])
            self.tracker = 0
            return
        self.tracker += 1
        if self.tracker == RULES["growth_interval"]:
            with np.errstate(over="ignore"):
                grown = self.scale * np.float32(RULES["growth_factor"])
            self.scale = grown if np.isfinite(grown) else self.scale
            self.tracker = 0


def gradients(step: int) -> list[Any]:
    grads = values(MATRICES, seed=50 + step)
    if step in INFINITE:
        grads[1][2, 1] = INFINITE[step]
    return grads


OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda params: wg.optim.SGD(params, lr=0.1, momentum=0.9, dampening=0.5),
    "Adam": lambda params: wg.optim.Adam(params, lr=0.1, amsgrad=True),
    "NAdam": lambda params: wg.optim.NAdam(params, lr=0.1),
    "RAdam": lambda params: wg.optim.RAdam(params, lr=0.1),
    "RMSprop": lambda params: wg.optim.RMSprop(params, momentum=0.5),
    "Muon": lambda params: wg.optim.Muon(params),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("unscale_before", [False, True])
def test_steps_with_infinities_are_skipped(name: str, unscale_before: bool) -> None:
    params, plain = (wengert_parameters(values(MATRICES)) for _ in range(2))
    optimizer, reference = OPTIMIZERS[name](params), OPTIMIZERS[name](plain)
    scaler, simulation = wg.optim.GradScaler(**RULES), Simulation()
    for step in range(STEPS):
        assert scaler.get_scale() == simulation.scale, step
        grads = gradients(step)
        for p, g in zip(params, grads):
            p.grad = wg.tensor(g) * scaler.get_scale()
        if unscale_before:
            scaler.unscale_(optimizer)
        scaler.step(optimizer)
        scaler.update()
        if step not in INFINITE:
            reference.update(grads)
        simulation.update(step in INFINITE)
        assert scaler.state_dict()["_growth_tracker"].item() == simulation.tracker
    assert_same(params, [p.detach().numpy() for p in plain], rtol=1e-12, atol=1e-12)
    counts = [int(state["step"]) for state in optimizer.state_dict()["state"].values()]
    assert counts == [STEPS - len(INFINITE)] * len(MATRICES)


def test_beside_torch() -> None:
    torch = pytest.importorskip("torch", reason="torch, the implementation to compare with, is not installed")
    mine = wengert_parameters(values(MATRICES))
    theirs = [torch.tensor(value, requires_grad=True) for value in values(MATRICES)]
    optimizer, reference = wg.optim.AdamW(mine, lr=0.05), torch.optim.AdamW(theirs, lr=0.05)
    scaler, torch_scaler = wg.optim.GradScaler(**RULES), torch.amp.GradScaler("cpu", **RULES)
    for step in range(STEPS):
        grads = gradients(step)
        optimizer.zero_grad()
        reference.zero_grad()
        scaler.scale(wg.stack([(p * g).sum() for p, g in zip(mine, grads)]).sum()).backward()
        torch_scaler.scale(sum((p * torch.tensor(g)).sum() for p, g in zip(theirs, grads))).backward()
        for each, opt in ((scaler, optimizer), (torch_scaler, reference)):
            each.unscale_(opt)
            each.step(opt)
            each.update()
        assert scaler.get_scale() == torch_scaler.get_scale()
    assert_same(mine, theirs, rtol=1e-9, atol=1e-9)


def test_only_the_optimizer_with_infinities_is_skipped() -> None:
    x, y = (wg.tensor([1.0], requires_grad=True) for _ in range(2))
    first, second = wg.optim.SGD([x], lr=1.0), wg.optim.SGD([y], lr=1.0)
    scaler = wg.optim.GradScaler(init_scale=2.0)
    x.grad, y.grad = wg.tensor([np.float32(np.inf)]), wg.tensor([1.0])
    scaler.step(first)
    scaler.step(second)
    scaler.update()
    assert (x.tolist(), y.tolist(), scaler.get_scale()) == ([1.0], [0.5], 1.0)


def test_the_whole_step_looks_at_no_value() -> None:
    w = wg.tensor([1.0], requires_grad=True)
    optimizer, scaler = wg.optim.SGD([w], lr=1.0), wg.optim.GradScaler(init_scale=8.0, growth_interval=2)

    def step(carry: wg.Tensor, factor: wg.Tensor) -> tuple[wg.Tensor, wg.Tensor]:
        w.grad = wg.grad(lambda p: scaler.scale((p * factor).sum()))(w)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        return carry, factor

    wg.scan(step, wg.tensor(0.0), wg.tensor([0.5, float("inf"), 0.25, 0.125]))
    assert w.tolist() == [0.125]
    assert scaler.get_scale() == 8.0


def test_a_scale_that_would_overflow_stays() -> None:
    w = wg.tensor([1.0], requires_grad=True)
    optimizer, scaler = wg.optim.SGD([w]), wg.optim.GradScaler(init_scale=3e38, growth_interval=1)
    w.grad = wg.tensor([1.0])
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == np.float32(3e38)


def test_a_scale_set_by_hand_and_trees_of_losses() -> None:
    scaler = wg.optim.GradScaler()
    scaler.update(4.0)
    scaled = scaler.scale({"a": wg.tensor(1.0), "b": [wg.tensor(2.0, wg.float16)]})
    assert (scaled["a"].item(), scaled["b"][0].item(), scaled["b"][0].dtype) == (4.0, 8.0, wg.float16)


def test_not_enabled() -> None:
    w = wg.tensor([1.0], requires_grad=True)
    optimizer, scaler = wg.optim.SGD([w], lr=1.0), wg.optim.GradScaler(enabled=False)
    scaler.scale(w.sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert (w.tolist(), scaler.get_scale(), scaler.state_dict(), scaler.is_enabled()) == ([0.0], 1.0, {}, False)
    scaler.load_state_dict({})


def test_saved_and_loaded() -> None:
    scaler = wg.optim.GradScaler(**RULES)
    w = wg.tensor([1.0], requires_grad=True)
    optimizer = wg.optim.SGD([w])
    w.grad = wg.tensor([1.0])
    scaler.step(optimizer)
    scaler.update()
    again = wg.optim.GradScaler()
    again.load_state_dict(scaler.state_dict())
    assert {k: float(v) for k, v in again.state_dict().items()} == {k: float(v) for k, v in scaler.state_dict().items()}
    with pytest.raises(wg.errors.ArgumentError, match="the state is empty"):
        again.load_state_dict({})


def test_errors() -> None:
    w = wg.tensor([1.0], requires_grad=True)
    optimizer, scaler = wg.optim.SGD([w]), wg.optim.GradScaler()
    with pytest.raises(wg.errors.GradientError, match=r"no step\(\) since the last"):
        scaler.update()
    with pytest.raises(wg.errors.GradientError, match=r"call backward\(\) first"):
        scaler.step(optimizer)
    w.grad = wg.tensor([1.0])
    scaler.unscale_(optimizer)
    with pytest.raises(wg.errors.GradientError, match="were already unscaled since"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(wg.errors.GradientError, match="stepped since"):
        scaler.step(optimizer)
    with pytest.raises(wg.errors.ArgumentError, match="above 1"):
        wg.optim.GradScaler(growth_factor=1.0)
