"""`torch.optim` as PyTorch's programs use it, run with either library and compared."""

import copy
import inspect
import json
import pickle

import numpy as np
import pytest

import wengert.torch as torch

from .test_modules import agree, error_of, plain

theirs = pytest.importorskip("torch")

OPTIMIZERS = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    "Adam": {"lr": 0.1, "betas": (0.8, 0.99), "amsgrad": True},
    "AdamW": {"lr": 0.1, "weight_decay": 0.1},
    "Adamax": {"lr": 0.1},
    "NAdam": {"lr": 0.1},
    "RAdam": {"lr": 0.1},
    "Adagrad": {"lr": 0.1, "lr_decay": 0.1},
    "Adadelta": {"lr": 1.0},
    "RMSprop": {"lr": 0.1, "centered": True, "momentum": 0.5},
    "Rprop": {"lr": 0.1},
    "ASGD": {"lr": 0.1},
    "Adafactor": {"lr": 0.1},
    "Muon": {"lr": 0.1},
    "LBFGS": {"lr": 0.5, "max_iter": 4},
}


def problem(t):
    w = t.nn.Parameter(t.linspace(-1, 1, 6).reshape(2, 3))
    target = t.linspace(2, 0, 6).reshape(2, 3)
    return w, lambda: ((w - target) ** 2).sum() + (w * w.flip(0)).sum() / 2


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_state_and_going_on(name):
    def program(t):
        w, loss = problem(t)
        optimizer = getattr(t.optim, name)([w], **OPTIMIZERS[name])

        def closure():
            optimizer.zero_grad()
            value = loss()
            value.backward()
            return value

        for _ in range(3):
            optimizer.step(closure)
        saved = optimizer.state_dict()
        again = getattr(t.optim, name)([w], **OPTIMIZERS[name])
        again.load_state_dict(copy.deepcopy(saved))
        optimizer, first = again, w.detach().clone()
        optimizer.step(closure)
        shown = {k: v for k, v in saved["param_groups"][0].items() if not isinstance(v, bool)}
        return first, w, shown if name != "LBFGS" else {}, sorted(saved["state"].get(0, {})) if name != "LBFGS" else []

    ours, other = program(torch), program(theirs)
    far = {"Muon": 1e-2, "LBFGS": 5e-5}.get(name, 1e-5)  # Muon computes in bfloat16 in PyTorch
    for a, b in zip(ours[:2], other[:2]):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2 * far, atol=far)
    assert ours[2] == other[2]
    assert set(other[3]) - {"step"} <= set(ours[3])


def test_an_optimizer_of_ones_own():
    def program(t):
        class Mine(t.optim.Optimizer):
            def __init__(self, params, lr=0.1, momentum=0.5, note=None):
                super().__init__(params, {"lr": lr, "momentum": momentum, "note": note})

            @t.no_grad()
            def step(self, closure=None):
                loss = None if closure is None else closure()
                for group in self.param_groups:
                    for p in group["params"]:
                        if p.grad is None:
                            continue
                        state = self.state[p]
                        if len(state) == 0:
                            state["step"] = 0
                            state["buffer"] = t.zeros_like(p)
                        state["step"] += 1
                        state["buffer"].mul_(group["momentum"]).add_(p.grad, alpha=1 - group["momentum"])
                        p.data.add_(state["buffer"], alpha=-group["lr"])
                return loss

        w, loss = problem(t)
        optimizer = Mine([w], note="x")
        for i in range(4):
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()
            optimizer.param_groups[0]["lr"] *= 0.5
            if i == 1:
                saved = copy.deepcopy(optimizer.state_dict())
        after = w.detach().clone()
        optimizer.load_state_dict(saved)
        kept = optimizer.state[w]["step"], optimizer.state[w]["buffer"], optimizer.param_groups[0]["lr"]
        return after, saved, kept, repr(optimizer), type(optimizer.state).__name__

    agree(program)


def test_groups_are_dicts():
    def program(t):
        a, b, c = (t.nn.Parameter(t.ones(2)) for _ in range(3))
        optimizer = t.optim.AdamW([{"params": [a], "lr_scale": 0.5}, {"params": b, "lr": 0.3}], lr=0.1)
        optimizer.add_param_group({"params": [c], "weight_decay": 0.0, "name": "c"})
        base = optimizer.param_groups[0]["lr"]
        lrs = []
        for i in range(4):
            for group in optimizer.param_groups:
                group["lr"] = base * (i + 1) / 4 * group.get("lr_scale", 1.0)
            lrs.append([group["lr"] for group in optimizer.param_groups])
        group = optimizer.param_groups[0]
        group.setdefault("seen", 3)
        group["more"] = [1]
        facts = isinstance(group, dict), sorted(group), len(group["params"]), "lr" in group, group.get("none")
        others = {k: v for k, v in group.items() if k != "params"}
        return lrs, facts, json.dumps(others, sort_keys=True), dict(others) == {**others}, optimizer.defaults["lr"]

    agree(program)


def test_bad_groups():
    def program(t):
        a = t.nn.Parameter(t.ones(2))
        return [
            error_of(lambda: t.optim.SGD([], lr=0.1)),
            error_of(lambda: t.optim.SGD([a * 2], lr=0.1)),
            error_of(lambda: t.optim.SGD([{"params": [a]}, {"params": [a]}], lr=0.1)),
            error_of(lambda: t.optim.SGD(["text"], lr=0.1)),
            error_of(lambda: t.optim.SGD([a], lr=0.1).step()),
            error_of(lambda: t.optim.Optimizer([a], {}).step()),
        ]

    agree(program)


@pytest.mark.parametrize("t", [torch, theirs])
def test_bad_options(t):
    a = t.nn.Parameter(t.ones(2))
    with pytest.raises(ValueError):
        t.optim.SGD([a], lr=-1.0)
    with pytest.raises(TypeError):
        t.optim.SGD(a, lr=0.1)


def test_hooks():
    def program(t):
        w, loss = problem(t)
        optimizer, seen = t.optim.SGD([w], lr=0.1), []
        handles = [
            optimizer.register_step_pre_hook(lambda o, a, k: seen.append("before")),
            optimizer.register_step_post_hook(lambda o, a, k: seen.append("after")),
            optimizer.register_state_dict_post_hook(lambda o, s: {**s, "x": 1}),
            optimizer.register_load_state_dict_pre_hook(lambda o, s: {k: v for k, v in s.items() if k != "x"}),
        ]
        loss().backward()
        optimizer.step()
        found = optimizer.state_dict()
        optimizer.load_state_dict(found)
        for handle in handles:
            handle.remove()
        optimizer.step()
        return seen, sorted(found), sorted(optimizer.state_dict())

    agree(program)


def test_parameters_put_into_a_group_later():
    def program(t):
        w, loss = problem(t)
        optimizer = t.optim.SGD([w], lr=0.1)
        v = t.nn.Parameter(t.ones(2))
        optimizer.param_groups[0]["params"].append(v)
        ((v * v).sum() + loss()).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        return w, v, v.grad

    agree(program)


def test_schedules_of_ones_own_and_swa():
    def program(t):
        class Warmup(t.optim.lr_scheduler.LRScheduler):
            def __init__(self, optimizer, steps, last_epoch=-1):
                self.steps = steps
                super().__init__(optimizer, last_epoch)

            def get_lr(self):
                return [base * min(1.0, (self.last_epoch + 1) / self.steps) for base in self.base_lrs]

        w, loss = problem(t)
        optimizer = t.optim.SGD([w], lr=0.4)
        schedule, lrs = Warmup(optimizer, 4), []
        model = t.nn.Linear(2, 1)
        t.nn.init.constant_(model.weight, 1.0)
        average = t.optim.swa_utils.AveragedModel(model)
        for i in range(5):
            optimizer.zero_grad()
            loss().backward()
            optimizer.step()
            lrs.append((schedule.get_last_lr(), optimizer.param_groups[0]["lr"]))
            schedule.step()
            t.nn.init.constant_(model.weight, float(i))
            average.update_parameters(model)
        return lrs, w, average.module.weight, list(average.state_dict()), isinstance(average, t.nn.Module)

    agree(program)


def signature(function):
    return [(p.name, p.kind, str(p.default)[:20]) for p in inspect.signature(function).parameters.values()]


@pytest.mark.parametrize("path", ["optim", "optim.lr_scheduler", "optim.swa_utils"])
def test_names_and_signatures(path):
    ours, other = torch, theirs
    for part in path.split("."):
        ours, other = getattr(ours, part), getattr(other, part)
    for name, kind in vars(other).items():
        if inspect.isclass(kind) and kind.__module__.startswith("torch.optim") and not name.startswith("_"):
            assert signature(getattr(ours, name).__init__) == signature(kind.__init__), name


@pytest.mark.parametrize("kind", ["Adam", "RMSprop", "SGD"])
def test_copies_and_pickles(kind):
    def program(t):
        w = t.nn.Parameter(t.ones(2))
        optimizer = getattr(t.optim, kind)([{"params": [w], "note": 3}], lr=0.25)

        def closure():
            optimizer.zero_grad()
            loss = (w * w).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        twins = [copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))]
        for twin in twins:
            (p,) = twin.param_groups[0]["params"]

            def again(twin=twin, p=p):
                twin.zero_grad()
                loss = (p * p).sum()
                loss.backward()
                return loss

            twin.step(again)
        optimizer.step(closure)
        found = [(g["lr"], g["note"], g["params"][0]) for twin in twins for g in twin.param_groups]
        return found, w, optimizer.state[w]["step"] if kind == "Adam" else 0

    agree(program)


def test_plain_is_what_both_give():
    assert plain(torch.ones(2)) == plain(theirs.ones(2)) == [1.0, 1.0]
