"""Whole training steps: compiled they give the numbers that dynamic execution gives."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg

RNG = np.random.default_rng(7)
BATCHES = [(RNG.normal(size=(6, 5)), RNG.normal(size=(6, 2))) for _ in range(4)]


class Network:
    """Two layers and their optimizer's state, by hand, all tensors made outside."""

    def __init__(self):
        rng = np.random.default_rng(1)
        shapes = [(5, 8), (8,), (8, 2), (2,)]
        self.parameters = [wg.tensor(rng.normal(size=s) * 0.5, requires_grad=True) for s in shapes]
        self.first = [wg.tensor(np.zeros(s)) for s in shapes]
        self.second = [wg.tensor(np.zeros(s)) for s in shapes]
        self.count = wg.tensor(np.zeros(()))

    def loss(self, x, y):
        w1, b1, w2, b2 = self.parameters
        return ((wg.tanh(x @ w1 + b1) @ w2 + b2 - y) ** 2).mean()

    def momentum(self, x, y, rate):
        loss = self.loss(x, y)
        loss.backward()
        with wg.no_grad():
            for p, v in zip(self.parameters, self.first):
                v.assign(0.9 * v + p.grad)
                p.assign(p - rate * v)
                p.grad = None
        return loss

    def adam(self, x, y, rate):
        loss = self.loss(x, y)
        loss.backward()
        with wg.no_grad():
            self.count += 1
            for p, m, v in zip(self.parameters, self.first, self.second):
                m.assign(0.9 * m + 0.1 * p.grad)
                v.assign(0.999 * v + 0.001 * p.grad * p.grad)
                scale = wg.sqrt(1 - 0.999**self.count) / (1 - 0.9**self.count)
                p -= rate * scale * m / (wg.sqrt(v) + 1e-8)
                p.grad = None
        return loss

    def state(self):
        return [t.detach().numpy() for t in (*self.parameters, *self.first, *self.second, self.count)]


def rate_at(step):
    return 0.05 / (1 + step / 10)


@pytest.mark.parametrize("rule", ["momentum", "adam"])
def test_fifty_steps_by_hand_are_the_same(rule):
    dynamic, static = Network(), Network()
    step = wg.compile(getattr(static, rule))
    for i in range(50):
        x, y = BATCHES[i % 4]
        expected = getattr(dynamic, rule)(wg.tensor(x), wg.tensor(y), wg.tensor(rate_at(i), wg.float64))
        assert step(x, y, rate_at(i)).item() == pytest.approx(expected.item(), rel=1e-12)
    for a, b in zip(static.state(), dynamic.state()):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
    assert all(p.grad is None for p in static.parameters)
    assert step.why() == ["it is the first call"]


def network(seed):
    wg.manual_seed(seed)
    return wg.nn.Sequential(
        wg.nn.Linear(5, 8, bias=False), wg.nn.BatchNorm1d(8), wg.nn.ReLU(), wg.nn.Dropout(0.25), wg.nn.Linear(8, 2)
    )


def train(model, optimizer):
    def step(x, y):
        loss = wg.nn.MSELoss()(model(x), y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


@pytest.mark.parametrize("rule", ["SGD", "Adam", "AdamW"])
def test_layers_and_optimizers_are_the_same(rule):
    runs = []
    for compiled in (False, True):
        model = network(3)
        optimizer = getattr(wg.optim, rule)(model.parameters(), lr=0.05)
        step = train(model, optimizer)
        step = wg.compile(step) if compiled else step
        wg.manual_seed(5)
        losses = []
        for i in range(12):
            x, y = (wg.tensor(a.astype(np.float32)) for a in BATCHES[i % 4])
            losses.append(step(x, y).item())
            if i == 6:
                optimizer.param_groups[0]["lr"] = 0.01
        runs.append((losses, [v.numpy() for v in model.state_dict().values()]))
    np.testing.assert_allclose(runs[1][0], runs[0][0], rtol=2e-4)
    for a, b in zip(runs[1][1], runs[0][1]):
        np.testing.assert_allclose(a, b, rtol=2e-3, atol=1e-5)


def test_eval_and_train_of_a_model():
    model = network(3)
    fast = wg.compile(model)
    x = wg.tensor(BATCHES[0][0].astype(np.float32))
    with wg.no_grad():
        for _ in range(3):
            model.train()
            assert fast(x).tolist() != fast(x).tolist()  # another mask each time
            model.eval()
            np.testing.assert_allclose(fast(x).numpy(), model(x).numpy(), rtol=1e-5, atol=1e-6)
            assert fast(x).tolist() == fast(x).tolist()
    assert sum(map(len, fast._specializations.values())) == 2


def test_dropout_differs_between_calls_and_reproduces_from_a_seed():
    f = wg.compile(lambda x: wg.dropout(x, 0.5))
    x = np.ones(64)
    wg.manual_seed(11)
    static = [f(x).tolist() for _ in range(6)]
    assert len({tuple(mask) for mask in static}) == 6
    wg.manual_seed(11)
    assert [f(x).tolist() for _ in range(6)] == static
    wg.manual_seed(11)
    assert [wg.dropout(wg.tensor(x), 0.5).tolist() for _ in range(6)] == static
    assert len(f.why()) == 1


def test_gradients_accumulated_over_micro_steps():
    model, plain = network(3), network(3)
    model.eval(), plain.eval()

    def micro(model, x, y):
        loss = wg.nn.MSELoss()(model(x), y)
        loss.backward()
        return loss

    fast = wg.compile(lambda x, y: micro(model, x, y))
    for _ in range(3):
        for x, y in BATCHES:
            batch = wg.tensor(x.astype(np.float32)), wg.tensor(y.astype(np.float32))
            fast(*batch)
            micro(plain, *batch)
        for a, b in zip(model.parameters(), plain.parameters()):
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-4, atol=1e-6)
            a.grad = b.grad = None


def test_the_order_in_which_leaves_were_assigned_does_not_count():
    """A step assigns the parameters in its optimizer's order; they were made in another one."""
    model = network(3)
    groups = [{"params": [p for p in model.parameters() if p.ndim == k], "lr": 0.05} for k in (1, 2)]
    optimizer = wg.optim.SGD(groups)
    step = wg.compile(train(model, optimizer))
    for x, y in BATCHES:
        step(x.astype(np.float32), y.astype(np.float32))
    assert step.why() == ["it is the first call"]
