"""What every optimizer promises: groups and options as slots, functional use, skipped steps, saving, errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.optim.problem import MATRICES, SHAPES, assert_same, descend, loss, values, wengert_parameters
from wengert.optim import ParameterGroup

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "SGD": lambda params: wg.optim.SGD(params, lr=0.01),
    "SGD with momentum": lambda params: wg.optim.SGD(params, lr=0.01, momentum=0.9, dampening=0.1, weight_decay=0.1),
    "Adam": lambda params: wg.optim.Adam(params, lr=0.05, amsgrad=True),
    "AdamW": lambda params: wg.optim.AdamW(params, lr=0.05),
    "Adamax": lambda params: wg.optim.Adamax(params, lr=0.05),
    "NAdam": lambda params: wg.optim.NAdam(params, lr=0.05),
    "RAdam": lambda params: wg.optim.RAdam(params, lr=0.05),
    "Adagrad": lambda params: wg.optim.Adagrad(params, lr=0.05),
    "Adadelta": lambda params: wg.optim.Adadelta(params),
    "RMSprop": lambda params: wg.optim.RMSprop(params, momentum=0.5, centered=True),
    "Lion": lambda params: wg.optim.Lion(params, lr=0.01, weight_decay=0.1),
    "Muon": lambda params: wg.optim.Muon(params, lr=0.01),
    "Rprop": lambda params: wg.optim.Rprop(params, lr=0.01),
    "ASGD": lambda params: wg.optim.ASGD(params, lr=0.01, t0=3),
    "Adafactor": lambda params: wg.optim.Adafactor(params, weight_decay=0.1),
    "SparseAdam": lambda params: wg.optim.SparseAdam(params, lr=0.05),
}
every_optimizer = pytest.mark.parametrize("name", OPTIMIZERS)


def made(name: str, dtype: Any = np.float64) -> tuple[list[wg.Tensor], Any]:
    params = wengert_parameters(values(MATRICES if name == "Muon" else SHAPES, dtype))
    return params, OPTIMIZERS[name](params)


def test_all_optimizers_are_here() -> None:
    listed = {getattr(wg.optim, name) for name in wg.optim.__all__}
    optimizers = {x for x in listed if isinstance(x, type) and issubclass(x, wg.optim.Optimizer)}
    optimizers -= {wg.optim.Optimizer, wg.optim.LBFGS}  # LBFGS, whose step takes a closure, is in test_lbfgs.py
    assert {type(made(name)[1]) for name in OPTIMIZERS} == optimizers


# --- a step ---------------------------------------------------------------------------------------------------------


@every_optimizer
def test_update_is_a_step_with_given_gradients(name: str) -> None:
    first, stepping = made(name)
    second, updating = made(name)
    differentiate = wg.grad(lambda params: loss(wg, params))
    for _ in range(10):
        stepping.zero_grad()
        loss(wg, first).backward()
        stepping.step()
        updating.update(differentiate(second))
    for a, b in zip(first, second):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


@every_optimizer
def test_a_step_looks_at_no_value(name: str) -> None:
    """Ten steps in a scan, which records one with abstract values, are ten steps in a loop."""
    looped, by_loop = made(name)
    scanned, by_scan = made(name)
    differentiate = wg.grad(lambda params: loss(wg, params))

    def step(carry: wg.Tensor, rate: wg.Tensor) -> tuple[wg.Tensor, wg.Tensor]:
        for group in by_scan.param_groups:
            group["lr"] = rate
        by_scan.update(differentiate(scanned))
        return carry, rate

    rates = np.linspace(0.01, 0.02, 10)
    wg.scan(step, wg.tensor(0.0), wg.tensor(rates))
    for rate in rates:
        for group in by_loop.param_groups:
            group["lr"] = rate
        by_loop.update(differentiate(looped))
    assert_same(scanned, [p.detach().numpy() for p in looped], rtol=1e-12, atol=1e-12)
    counts = [s["step"].item() for s in by_scan.state_dict()["state"].values()]
    assert counts == [10] * len(scanned)


@every_optimizer
def test_a_skipped_step_leaves_everything_as_it_was(name: str) -> None:
    plain, reference = made(name)
    params, optimizer = made(name)
    for step in range(9):
        skipped = step in (0, 3, 4, 8)
        optimizer.zero_grad()
        loss(wg, params).backward()
        if skipped:
            for p in params:
                p.grad = wg.full_like(p, np.nan)
        before = [p.detach().numpy() for p in params]
        optimizer.step(skip=wg.tensor(skipped))
        if skipped:
            assert_same(params, before, rtol=0, atol=0)
    descend(wg, plain, reference, 5)
    assert_same(params, [p.detach().numpy() for p in plain], rtol=0, atol=0)
    for mine, expected in zip(*(o.state_dict()["state"].values() for o in (optimizer, reference))):
        for key in expected:
            np.testing.assert_array_equal(mine[key].numpy(), expected[key].numpy())


@every_optimizer
def test_halves_are_stepped_in_float32(name: str) -> None:
    for dtype in (wg.float16, wg.bfloat16):
        exact, reference = made(name, np.float32)
        params = [p.detach().astype(dtype).requires_grad_() for p in exact]
        optimizer = OPTIMIZERS[name](params)
        optimizer.update([wg.ones(p.shape, dtype=dtype) for p in params])
        for p, q in zip(params, exact):
            q.assign(p.detach().astype(np.float32))
        for p, state in optimizer.state.items():
            assert p.dtype == dtype
            assert {tensor.dtype for tensor in state.values()} <= {np.dtype(np.float32)}
        reference.load_state_dict(optimizer.state_dict())
        grads = values([p.shape for p in params], np.float32, seed=5)
        optimizer.update(grads)
        reference.update(grads)
        for p, q in zip(params, exact):
            np.testing.assert_array_equal(p.detach().numpy(), q.detach().astype(dtype).detach().numpy())


def test_update_takes_trees_and_names() -> None:
    x, y = (wg.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    optimizer = wg.optim.SGD([("x", x), ("y", y)], lr=1.0)
    optimizer.update({"y": wg.tensor([1.0, 1.0]), "x": wg.tensor([0.5, 0.5])})
    assert (x.tolist(), y.tolist()) == ([0.5, 1.5], [0.0, 1.0])
    optimizer.update(({"a": np.ones(2, np.float32)}, [np.zeros(2, np.float32)]))
    assert (x.tolist(), y.tolist()) == ([-0.5, 0.5], [0.0, 1.0])
    optimizer.update([None, np.ones(2, np.float32)])
    assert (x.tolist(), y.tolist()) == ([-0.5, 0.5], [-1.0, 0.0])
    with pytest.raises(wg.errors.ArgumentError, match="3 gradients for 2 parameters"):
        optimizer.update([np.ones(2)] * 3)
    with pytest.raises(wg.errors.ShapeError, match=r"float32\[2\] has a gradient of shape \(3,\)"):
        optimizer.update([np.ones(3), np.ones(2)])


def test_a_closure_computes_the_gradients() -> None:
    w = wg.tensor(2.0, requires_grad=True)
    optimizer = wg.optim.SGD([w], lr=0.25)

    def closure() -> wg.Tensor:
        optimizer.zero_grad()
        value = w * w
        value.backward()
        return value

    assert optimizer.step(closure).item() == 4.0
    assert w.item() == 1.0


def test_zero_grad() -> None:
    w = wg.tensor([2.0], requires_grad=True)
    optimizer = wg.optim.SGD([w])
    w.sum().backward()
    optimizer.zero_grad(set_to_none=False)
    assert w.grad is not None
    assert w.grad.tolist() == [0.0]
    optimizer.zero_grad()
    assert w.grad is None


def test_a_step_is_recorded_and_not_run() -> None:
    """Nothing is computed before somebody looks: the next backward takes the update with it."""
    w = wg.tensor([2.0], requires_grad=True)
    optimizer = wg.optim.Adam([w])
    optimizer.update([wg.tensor([1.0])])
    assert w.node.buffer is None


# --- groups and options ---------------------------------------------------------------------------------------------


def test_options_are_kept_in_slots_and_read_as_numbers() -> None:
    w = wg.tensor([1.0], requires_grad=True)
    optimizer = wg.optim.Adam([w], lr=0.1)
    group = optimizer.param_groups[0]
    slot, betas = group.live()["lr"], group["betas"]
    version = wg.config.version
    group["lr"] = 0.3
    group["lr"] *= 0.5
    group["betas"] = (0.8, betas[1])
    assert group.live()["lr"] is slot and float(slot) == 0.15
    assert (group["lr"], group["betas"], betas) == (0.15, (0.8, 0.999), (0.9, 0.999))
    group["lr"] = wg.tensor(0.25)
    assert (group["lr"], wg.config.version) == (0.25, version)
    group["eps"] = 1e-3
    assert wg.config.version > version


def test_a_tensor_as_learning_rate() -> None:
    rate = wg.tensor(0.5)
    w = wg.tensor([1.0], requires_grad=True)
    optimizer = wg.optim.SGD([w], lr=rate)
    rate.assign(100.0)  # the optimizer has its own slot
    optimizer.update([wg.tensor([1.0])])
    assert w.tolist() == [0.5]


def test_setting_an_attribute_is_noticed() -> None:
    optimizer = wg.optim.SGD([wg.tensor([1.0], requires_grad=True)])
    version = wg.config.version
    optimizer.note = "anything"
    assert wg.config.version > version


def test_state_that_an_option_asks_for_later() -> None:
    w = wg.tensor([1.0], requires_grad=True)
    optimizer = wg.optim.SGD([w], lr=0.1)
    assert optimizer.state[w] == {}
    optimizer.update([wg.tensor([1.0])])
    optimizer.param_groups[0]["momentum"] = 0.5
    optimizer.update([wg.tensor([1.0])])
    optimizer.update([wg.tensor([1.0])])
    assert w.item() == pytest.approx(1 - 0.1 - 0.1 - 0.15)
    optimizer.param_groups[0]["momentum"] = 0
    optimizer.update([wg.tensor([1.0])])
    assert w.item() == pytest.approx(1 - 0.1 - 0.1 - 0.15 - 0.1)


def test_a_group_is_a_dict() -> None:
    optimizer = wg.optim.Adam([("w", wg.tensor([1.0], requires_grad=True))], lr=0.25)
    group = optimizer.param_groups[0]
    assert isinstance(group, ParameterGroup)
    assert group["param_names"] == ["w"]
    assert "lr" in group
    assert group.get("nothing", 3) == 3
    assert {**group}.keys() == {"params", *optimizer.defaults, "param_names"}
    group["name"] = "head"
    del group["name"]
    assert "Adam(ParameterGroup(1 parameters, lr=0.25, betas=(0.9, 0.999)" in repr(optimizer)
    with pytest.raises(wg.errors.ArgumentError, match="can be set, not removed"):
        del group["lr"]
    with pytest.raises(wg.errors.ArgumentError, match="add_param_group adds others"):
        group["params"] = []
    with pytest.raises(wg.errors.ArgumentError, match=r"betas takes 2 numbers, not 0\.9"):
        group["betas"] = 0.9
    with pytest.raises(wg.errors.DTypeError, match="cannot be set to 'high'"):
        group["lr"] = "high"


def test_a_group_added_later() -> None:
    x, y = (wg.tensor([1.0], requires_grad=True) for _ in range(2))
    optimizer = wg.optim.SGD([x], lr=1.0)
    optimizer.update([wg.tensor([0.25])])
    optimizer.add_param_group({"params": y, "lr": 0.5})
    optimizer.update([wg.tensor([0.25]), wg.tensor([1.0])])
    assert (x.tolist(), y.tolist()) == ([0.5], [0.5])


def test_ones_own_optimizer() -> None:
    class Halving(wg.optim.Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {"lr": 1.0})

        def rule(self, p: Any, g: Any, state: Any, group: Any, s: Any) -> Any:
            return p - s.lr * g / 2, {}

    w = wg.tensor([1.0], requires_grad=True)
    Halving([w]).update([wg.tensor([1.0])])
    assert w.tolist() == [0.5]


# --- saving and loading ---------------------------------------------------------------------------------------------


@every_optimizer
def test_a_file_in_between(name: str, tmp_path: Any) -> None:
    params, optimizer = made(name)
    descend(wg, params, optimizer, 5)
    wg.save(tmp_path / "optimizer", optimizer.state_dict())
    others = wengert_parameters([p.detach().numpy().copy() for p in params])
    again = OPTIMIZERS[name](others)
    again.load_state_dict(wg.load(tmp_path / "optimizer"))
    descend(wg, params, optimizer, 5)
    descend(wg, others, again, 5)
    for a, b in zip(params, others):
        np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_loading_forgets_what_was() -> None:
    w = wg.tensor([1.0], requires_grad=True)
    optimizer = wg.optim.Adam([w])
    fresh = optimizer.state_dict()
    optimizer.update([wg.tensor([1.0])])
    optimizer.load_state_dict(fresh)
    assert optimizer.state_dict()["state"][0]["step"].item() == 0
    assert optimizer.state[w]["exp_avg"].tolist() == [0.0]


def test_a_state_that_does_not_fit() -> None:
    def adam(*shapes: tuple[int, ...], **options: Any) -> Any:
        return wg.optim.Adam([wg.zeros(shape, requires_grad=True) for shape in shapes], **options)

    with pytest.raises(
        wg.errors.ArgumentError, match=r"groups of \[2\] parameters, but this optimizer has groups of \[1\]"
    ):
        adam((3,)).load_state_dict(adam((3,), (2,)).state_dict())
    with pytest.raises(wg.errors.ShapeError, match=r"exp_avg of the parameter float32\[3\].*loaded one has \(4,\)"):
        adam((3,)).load_state_dict(adam((4,)).state_dict())
    sgd = wg.optim.SGD([wg.zeros((3,), requires_grad=True)], momentum=0.9)
    with pytest.raises(wg.errors.ArgumentError, match="no option 'momentum'"):
        adam((3,)).load_state_dict(sgd.state_dict())


# --- errors ---------------------------------------------------------------------------------------------------------


def test_no_gradient_at_all() -> None:
    optimizer = wg.optim.SGD([wg.zeros((2,), requires_grad=True)])
    with pytest.raises(wg.errors.GradientError, match=r"none of the 1 parameters has a gradient. Call backward\(\)"):
        optimizer.step()
    with pytest.raises(wg.errors.GradientError, match="none of the 1 parameters"):
        optimizer.update([None])


def leaf() -> wg.Tensor:
    return wg.zeros((2,), requires_grad=True)


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: wg.optim.SGD([]), wg.errors.ArgumentError, "the list of them is empty"),
        (lambda: wg.optim.SGD([{"params": []}]), wg.errors.ArgumentError, "the list of them is empty"),
        (lambda: wg.optim.SGD([{"lr": 0.1}]), wg.errors.ArgumentError, "a group without 'params'"),
        (lambda: wg.optim.SGD(leaf()), wg.errors.DTypeError, "not a single Tensor"),
        (lambda: wg.optim.SGD({"w": leaf()}), wg.errors.DTypeError, "not a single dict"),
        (
            lambda: wg.optim.SGD(wg.nn.Linear(1, 1)),
            wg.errors.DTypeError,
            r"a module's parameters.*model\.parameters\(\)",
        ),
        (lambda: wg.optim.SGD([1.0]), wg.errors.DTypeError, "takes tensors, not 1.0 of type float"),
        (lambda: wg.optim.SGD([wg.zeros((2,), dtype=wg.int64)]), wg.errors.DTypeError, r"not the parameter int64\[2\]"),
        (lambda: wg.optim.SGD([leaf() * 2]), wg.errors.GradientError, "was computed from tensors that require grad"),
        (lambda: wg.optim.SGD([leaf()], lr=-0.1), wg.errors.ArgumentError, "lr cannot be negative, but is -0.1"),
        (lambda: wg.optim.Adam([leaf()], betas=(0.9, 1.0)), wg.errors.ArgumentError, "betas must be at least 0"),
        (lambda: wg.optim.Adam([leaf()], betas=0.9), wg.errors.ArgumentError, "betas must be two numbers"),
        (lambda: wg.optim.Adam([leaf()], eps=-1e-8), wg.errors.ArgumentError, "eps cannot be negative"),
        (lambda: wg.optim.Adadelta([leaf()], rho=1.5), wg.errors.ArgumentError, "rho must be between 0 and 1"),
        (lambda: wg.optim.SGD([leaf()], nesterov=True), wg.errors.ArgumentError, "nesterov needs a momentum above 0"),
        (lambda: wg.optim.SGD([leaf()], learning_rate=0.1), TypeError, "learning_rate"),
        (
            lambda: wg.optim.SGD([{"params": [leaf()], "weightdecay": 0.1}]),
            wg.errors.ArgumentError,
            "no option 'weightdecay'; did you mean 'weight_decay'",
        ),
    ],
)
def test_errors(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_the_same_parameter_twice() -> None:
    w = leaf()
    with pytest.raises(wg.errors.ArgumentError, match="twice"):
        wg.optim.SGD([w, w])
    with pytest.raises(wg.errors.ArgumentError, match="twice"):
        wg.optim.SGD([{"params": [w]}, {"params": [leaf(), w]}])


def test_an_unknown_item_of_a_group() -> None:
    group = wg.optim.SGD([leaf()]).param_groups[0]
    with pytest.raises(wg.errors.ArgumentError, match="no option 'learning_rate'"):
        group["learning_rate"] = 0.1


def test_where_torch_has_its_schedules() -> None:
    with pytest.raises(AttributeError, match=r"wg\.optim\.StepLR"):
        wg.optim.lr_scheduler


def test_an_optimizer_without_a_rule() -> None:
    with pytest.raises(TypeError, match="Optimizer has no rule"):
        wg.optim.Optimizer([leaf()], {"lr": 0.1}).update([np.ones(2)])
