"""L-BFGS beside torch's: steps, line search, state, saving, compiled closures; what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.optim.problem import SHAPES, assert_same, loss, torch_parameters, values, wengert_parameters


@pytest.fixture(autouse=True)
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every length of the history is a structure of its own: compiling each would take longer than the steps."""
    monkeypatch.setattr(wg.config, "tier", "interpret")


OPTIONS: list[dict[str, Any]] = [
    {},
    {"lr": 0.3, "max_iter": 2},
    {"lr": 0.5, "history_size": 2, "max_iter": 2},
    {"line_search_fn": "strong_wolfe", "max_iter": 3},
    {"line_search_fn": "strong_wolfe", "max_iter": 6, "max_eval": 4, "history_size": 3},
    {"line_search_fn": "strong_wolfe", "lr": 4.0, "max_iter": 2},
    {"lr": 0.1, "max_iter": 1, "max_eval": 1},
]


def closure_of(library: Any, params: list[Any], optimizer: Any, compute: Any = loss) -> Any:
    def closure() -> Any:
        optimizer.zero_grad()
        value = compute(library, params)
        value.backward()
        return value

    return closure


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_twelve_steps_beside_torch(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch", reason="torch, the implementation to compare with, is not installed")
    start = values(SHAPES)
    mine, theirs = wengert_parameters(start), torch_parameters(start)
    optimizer, reference = wg.optim.LBFGS(mine, **options), torch.optim.LBFGS(theirs, **options)
    for _ in range(12):
        value = optimizer.step(closure_of(wg, mine, optimizer))
        expected = reference.step(closure_of(torch, theirs, reference))
        # A rounding grows with the iterations, of which the defaults take up to 20 in a step.
        near = 1e-10 if options.get("max_iter", 20) > 3 else 1e-12
        assert value.item() == pytest.approx(expected.item(), rel=near, abs=near)
        assert_same(mine, theirs, rtol=near, atol=near)
    state, wanted = optimizer.state_dict()["state"][0], reference.state_dict()["state"][0]
    assert state["func_evals"] == wanted["func_evals"]
    assert state["n_iter"] == wanted["n_iter"]
    assert len(state["ro"]) == len(wanted["ro"])
    assert state.keys() == wanted.keys() - {"al"}


def rosenbrock(library: Any, params: list[Any]) -> Any:
    x = params[0]
    return ((1 - x[:-1]) ** 2 + 100 * (x[1:] - x[:-1] ** 2) ** 2).sum()


def test_rosenbrock_in_ten_dimensions() -> None:
    x = wg.tensor(np.linspace(-1.5, 1.2, 10), requires_grad=True)
    optimizer = wg.optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=200, tolerance_change=1e-14)
    for _ in range(3):
        optimizer.step(closure_of(wg, [x], optimizer, rosenbrock))
    np.testing.assert_allclose(x.detach().numpy(), np.ones(10), atol=1e-7)


def test_a_compiled_closure_gives_the_same_steps() -> None:
    start = values(SHAPES)
    plain, compiled = wengert_parameters(start), wengert_parameters(start)
    one, two = (wg.optim.LBFGS(p, line_search_fn="strong_wolfe", max_iter=3) for p in (plain, compiled))
    closure = wg.compile(closure_of(wg, compiled, two))
    for _ in range(5):
        one.step(closure_of(wg, plain, one))
        two.step(closure)
    assert_same(plain, compiled, rtol=1e-10, atol=1e-11)


def test_saved_and_loaded_in_the_middle(tmp_path: Any) -> None:
    mine = wengert_parameters(values(SHAPES))
    optimizer = wg.optim.LBFGS(mine, lr=0.3, max_iter=3)
    for _ in range(3):
        optimizer.step(closure_of(wg, mine, optimizer))
    wg.save(tmp_path / "state", optimizer.state_dict())
    others = wengert_parameters([p.detach().numpy().copy() for p in mine])
    again = wg.optim.LBFGS(others)
    again.load_state_dict(wg.load(tmp_path / "state"))
    for params, opt in ((mine, optimizer), (others, again)):
        for _ in range(3):
            opt.step(closure_of(wg, params, opt))
    for a, b in zip(mine, others):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_going_on_from_torchs_state() -> None:
    torch = pytest.importorskip("torch", reason="torch, the implementation to compare with, is not installed")
    theirs = torch_parameters(values(SHAPES))
    reference = torch.optim.LBFGS(theirs, max_iter=3, line_search_fn="strong_wolfe")
    for _ in range(2):
        reference.step(closure_of(torch, theirs, reference))
    mine = wengert_parameters([p.detach().numpy().copy() for p in theirs])
    optimizer = wg.optim.LBFGS(mine)
    optimizer.load_state_dict(reference.state_dict())
    for _ in range(3):
        reference.step(closure_of(torch, theirs, reference))
        optimizer.step(closure_of(wg, mine, optimizer))
    assert_same(mine, theirs, rtol=1e-11, atol=1e-11)


def test_a_parameter_without_a_gradient_stays() -> None:
    used, unused = wengert_parameters([np.array([3.0]), np.array([5.0])])
    optimizer = wg.optim.LBFGS([used, unused])
    optimizer.step(closure_of(wg, [used], optimizer, lambda library, params: (params[0] ** 2).sum()))
    assert abs(used.item()) < 1e-6 and unused.item() == 5.0


def test_at_the_minimum_nothing_moves() -> None:
    w = wg.tensor([0.0, 0.0], requires_grad=True)
    optimizer = wg.optim.LBFGS([w])
    value = optimizer.step(closure_of(wg, [w], optimizer, lambda library, params: (params[0] ** 2).sum()))
    assert value.item() == 0.0 and w.tolist() == [0.0, 0.0]


def test_what_it_refuses() -> None:
    w = wg.tensor([1.0], requires_grad=True)
    optimizer = wg.optim.LBFGS([w])
    with pytest.raises(ValueError, match="takes a closure"):
        optimizer.step()
    with pytest.raises(ValueError, match="returned None"):
        optimizer.step(lambda: None)
    with pytest.raises(ValueError, match="one group"):
        optimizer.add_param_group({"params": [wg.tensor([1.0], requires_grad=True)]})
    with pytest.raises(ValueError, match="strong_wolfe"):
        wg.optim.LBFGS([w], line_search_fn="armijo")
    with pytest.raises(ValueError, match="step\\(closure\\)"):
        optimizer.update([w])

    @wg.compile
    def step() -> Any:
        return optimizer.step(closure_of(wg, [w], optimizer, lambda library, params: (params[0] ** 2).sum()))

    with pytest.raises(RuntimeError, match="Call step outside"):
        step()
