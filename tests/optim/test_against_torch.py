"""Each optimizer with several sets of options: fifty steps beside torch's, in float64 and float32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.optim.problem import (
    CASES,
    MATRICES,
    ONE_EACH,
    SHAPES,
    assert_same,
    descend,
    identifier,
    loss,
    torch_parameters,
    values,
    wengert_parameters,
)

torch = pytest.importorskip("torch", reason="torch, the implementation to compare with, is not installed")


@pytest.fixture(autouse=True)
def torch_in_float64() -> Iterator[None]:
    """NAdam of torch keeps a product in the default dtype; float32 would end the comparison at 1e-8."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def pair(case: tuple[str, dict[str, Any]], dtype: Any = np.float64) -> tuple[Any, ...]:
    name, options = case
    start = values(SHAPES, dtype)
    mine, theirs = wengert_parameters(start), torch_parameters(start)
    return mine, theirs, getattr(wg.optim, name)(mine, **options), getattr(torch.optim, name)(theirs, **options)


@pytest.mark.parametrize("case", CASES, ids=identifier)
def test_fifty_steps_in_float64(case: tuple[str, dict[str, Any]]) -> None:
    mine, theirs, optimizer, reference = pair(case)
    descend(wg, mine, optimizer, 50)
    descend(torch, theirs, reference, 50)
    assert_same(mine, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=identifier)
def test_fifty_steps_in_float32(case: tuple[str, dict[str, Any]]) -> None:
    """As near to the truth as torch is, or as the truth with a rounding to float32 after each step.

    Near is not always near: of a variance by cancellation (centered RMSprop), or where steps are longer than the
    curvature allows and a rounding grows by half each step (NAdam with a large learning rate, from step 30 on).
    """
    torch.manual_seed(0)
    mine, theirs, optimizer, reference = pair(case, np.float32)
    start = [p.detach().numpy().astype(np.float64) for p in theirs]
    descend(wg, mine, optimizer, 50)
    descend(torch, theirs, reference, 50)
    assert {p.dtype for p in mine} == {np.dtype(np.float32)}
    truth, *rounded = (in_float64(case, start, rounding) for rounding in (0.0, 2.0**-24, 2.0**-24))
    off = lambda found: max(np.abs(a - b).max() for a, b in zip(found, truth))
    found, expected = as_arrays(mine, theirs)
    assert off(found) < 3 * max(map(off, [expected, *rounded])) + 2e-6


def in_float64(case: tuple[str, dict[str, Any]], start: list[Any], rounding: float) -> list[Any]:
    """Fifty of torch's steps in float64, every number moved up to so much of itself after each, up or down."""
    params = torch_parameters(start)

    def move() -> None:
        with torch.no_grad():
            for p in params:
                p *= 1 + rounding * (2 * torch.rand_like(p) - 1)

    descend(torch, params, getattr(torch.optim, case[0])(params, **case[1]), 50, move)
    return [p.detach().numpy() for p in params]


def as_arrays(mine: list[wg.Tensor], theirs: list[Any]) -> tuple[list[Any], list[Any]]:
    return [p.detach().numpy() for p in mine], [p.detach().numpy() for p in theirs]


@pytest.mark.parametrize("case", CASES, ids=identifier)
def test_the_state_has_torchs_names_and_values(case: tuple[str, dict[str, Any]]) -> None:
    mine, theirs, optimizer, reference = pair(case)
    descend(wg, mine, optimizer, 7)
    descend(torch, theirs, reference, 7)
    state, expected = optimizer.state_dict()["state"], reference.state_dict()["state"]
    for place in range(len(SHAPES)):
        for name, value in expected.get(place, {}).items():
            if value is not None:
                np.testing.assert_allclose(state[place][name].numpy(), value.numpy(), rtol=1e-9, atol=1e-12)
        assert state[place].keys() - {"step"} == expected.get(place, {}).keys() - {"step"}


@pytest.mark.parametrize("case", ONE_EACH + [("SGD", {"lr": 0.01, "momentum": 0.9, "dampening": 0.5})], ids=identifier)
def test_going_on_from_torchs_state(case: tuple[str, dict[str, Any]]) -> None:
    _, theirs, _, reference = pair(case)
    descend(torch, theirs, reference, 10)
    mine = wengert_parameters([p.detach().numpy().copy() for p in theirs])
    optimizer = getattr(wg.optim, case[0])(mine)
    optimizer.load_state_dict(reference.state_dict())
    descend(wg, mine, optimizer, 10)
    descend(torch, theirs, reference, 10)
    assert_same(mine, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", ONE_EACH, ids=identifier)
def test_groups_with_their_own_options(case: tuple[str, dict[str, Any]]) -> None:
    name, options = case
    start = values(SHAPES)
    mine, theirs = wengert_parameters(start), torch_parameters(start)
    own = {"lr": 0.03} if name == "Rprop" else {"weight_decay": 0.1}  # Rprop has no weight decay
    groups = lambda params: [{"params": params[:2], "lr": 0.02}, {"params": params[2:], **own}]
    optimizer = getattr(wg.optim, name)(groups(mine), **options)
    reference = getattr(torch.optim, name)(groups(theirs), **options)
    descend(wg, mine, optimizer, 20)
    descend(torch, theirs, reference, 20)
    optimizer.param_groups[1]["lr"] = 0.005
    reference.param_groups[1]["lr"] = 0.005
    descend(wg, mine, optimizer, 20)
    descend(torch, theirs, reference, 20)
    assert_same(mine, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", ONE_EACH, ids=identifier)
def test_a_parameter_without_a_gradient_sits_the_step_out(case: tuple[str, dict[str, Any]]) -> None:
    """Its own count of steps decides its bias correction when it takes part again."""
    mine, theirs, optimizer, reference = pair(case)
    for step in range(20):
        for library, params, opt in ((wg, mine, optimizer), (torch, theirs, reference)):
            opt.zero_grad()
            loss(library, params).backward()
            if step < 5 or step % 3 == 0:
                params[1].grad = None
            if step == 7:
                params[0].grad = params[2].grad = None
            opt.step()
    assert_same(mine, theirs, rtol=1e-9, atol=1e-9)
    assert [int(state["step"]) for state in optimizer.state_dict()["state"].values()] == [19, 10, 19, 20]


COMPILED = ("SGD", "AdamW")  # the others' programs are built by `make test-all`


@pytest.mark.parametrize(
    "case, tier",
    [
        pytest.param(case, tier, marks=[pytest.mark.slow] * (tier == "compile" and case[0] not in COMPILED))
        for case in ONE_EACH
        for tier in ("interpret", "compile")
    ],
    ids=str,
)
def test_saved_and_loaded_in_the_middle(
    case: tuple[str, dict[str, Any]], tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same bits, in a tier that does not change on the way: compiled code rounds otherwise than NumPy does."""
    monkeypatch.setattr(wg.config, "tier", tier)
    mine, _, optimizer, _ = pair(case)
    descend(wg, mine, optimizer, 10)
    saved = optimizer.state_dict()
    others = wengert_parameters([p.detach().numpy().copy() for p in mine])
    descend(wg, mine, optimizer, 10)  # what was saved must not go on with the optimizer
    again = getattr(wg.optim, case[0])(others, lr=77.0)
    again.load_state_dict(saved)
    descend(wg, others, again, 10)
    for a, b in zip(mine, others):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_muon_follows_torchs_bfloat16() -> None:
    start = values(MATRICES)
    mine, theirs = wengert_parameters(start), torch_parameters(start)
    descend(wg, mine, wg.optim.Muon(mine, lr=0.02), 5)
    descend(torch, theirs, torch.optim.Muon(theirs, lr=0.02), 5)
    assert_same(mine, theirs, rtol=0, atol=5e-3)
