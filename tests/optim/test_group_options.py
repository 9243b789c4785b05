"""Options of a parameter group as people read and write them: numbers, which stay what they were when read."""

from __future__ import annotations

import json
from typing import Any

import pytest

import wengert as wg


def leaf() -> wg.Tensor:
    return wg.tensor([1.0, 2.0], requires_grad=True)


def test_a_warm_up_by_hand_scales_the_rate_that_was_read_first() -> None:
    optimizer = wg.optim.SGD([leaf()], lr=0.1)
    group, base = optimizer.param_groups[0], optimizer.param_groups[0]["lr"]
    history = []
    for i in range(4):
        group["lr"] = base * (i + 1) / 4
        history.append(group["lr"])
    assert history == [0.1 * (i + 1) / 4 for i in range(4)] and json.loads(json.dumps(history)) == history


def test_rates_that_were_put_aside_come_back() -> None:
    optimizer = wg.optim.SGD([{"params": [leaf()]}, {"params": [leaf()], "lr": 0.2}], lr=0.1, momentum=0.9)
    before = [dict(group) for group in optimizer.param_groups]
    for group in optimizer.param_groups:
        group["lr"], group["momentum"] = 0.0, 0.5
    for group, kept in zip(optimizer.param_groups, before):
        group["lr"], group["momentum"] = kept["lr"], kept["momentum"]
    assert [(g["lr"], g["momentum"]) for g in optimizer.param_groups] == [(0.1, 0.9), (0.2, 0.9)]
    assert {type(kept[name]) for kept in before for name in ("lr", "momentum")} == {float}


def test_a_state_keeps_its_form() -> None:
    optimizer = wg.optim.Adam([leaf()], lr=0.1)
    saved = optimizer.state_dict()["param_groups"][0]
    assert isinstance(saved["lr"], wg.Tensor) and saved["lr"].dtype == wg.float64 and saved["eps"] == 1e-8
    assert [float(beta) for beta in saved["betas"]] == [0.9, 0.999] and isinstance(saved["betas"], tuple)


@pytest.mark.parametrize("rate", [0.25, 0.5])
def test_a_rate_read_in_a_compiled_step_is_that_of_the_call(rate: float) -> None:
    """Also where it is computed with: beside float32 it is a number, not a float64 tensor."""
    w = leaf()
    optimizer = wg.optim.SGD([w], lr=0.1)

    def step() -> Any:
        lr = optimizer.param_groups[0]["lr"]
        return w.detach() * (1 - lr * 0.5), abs(-lr) + w.detach()

    compiled = wg.compile(step)
    compiled()
    optimizer.param_groups[0]["lr"] = rate
    for got, wanted in zip(compiled(), step()):
        assert got.dtype == wanted.dtype == wg.float32 and got.tolist() == wanted.tolist()
    assert compiled()[0].tolist() == [1 - rate / 2, 2 - rate]


def test_a_new_rate_reaches_a_compiled_step_without_another_recording() -> None:
    w = leaf()
    optimizer = wg.optim.SGD([w], lr=0.5)

    @wg.compile
    def step() -> wg.Tensor:
        loss = (w * w).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    rates = [0.5, 0.25, 0.125]
    expected = [1.0, 2.0]
    for rate in rates:
        optimizer.param_groups[0]["lr"] = rate
        step()
        expected = [x - rate * 2 * x for x in expected]
        assert w.tolist() == expected and optimizer.param_groups[0]["lr"] == rate
    assert step.recordings <= 2


def test_a_number_that_was_set_is_read_without_looking_at_a_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    group = wg.optim.Adam([leaf()], lr=0.1).param_groups[0]
    group["lr"] = 0.25

    def look(tensor: wg.Tensor) -> float:
        raise AssertionError("a tensor was looked at")

    with monkeypatch.context() as patched:
        patched.setattr(wg.Tensor, "__float__", look)
        assert (group["lr"], group["betas"]) == (0.25, (0.9, 0.999))
    group["lr"] = wg.tensor(0.5)
    assert group["lr"] == 0.5
    group.live()["lr"].assign(0.75)
    assert group["lr"] == 0.75
