"""Value does what micrograd's README and notebooks show, and gives torch's gradients."""

from __future__ import annotations

import math
import random
import subprocess
import sys

import numpy as np
import pytest

from wengert.learn.value import MLP, Layer, Neuron, Value, nn


def readme(a, b):
    """The expression of micrograd's README."""
    c = a + b
    d = a * b + b**3
    c += c + 1
    c += 1 + c + (-a)
    d += d * 2 + (b + a).relu()
    d += 3 * d + (b - a).relu()
    e = c - d
    f = e**2
    g = f / 2.0
    g += 10.0 / f
    return g


def test_the_numbers_of_micrograd_s_readme():
    a, b = Value(-4.0), Value(2.0)
    g = readme(a, b)
    g.backward()
    assert (f"{g.data:.4f}", f"{a.grad:.4f}", f"{b.grad:.4f}") == ("24.7041", "138.8338", "645.5773")


def test_the_numbers_of_micrograd_s_neuron():
    """The notebook of the lecture: tanh(x1 w1 + x2 w2 + b), with tanh whole and taken apart."""
    for tanh in (lambda n: n.tanh(), lambda n: ((2 * n).exp() - 1) / ((2 * n).exp() + 1)):
        x1, x2, w1, w2 = Value(2.0), Value(0.0), Value(-3.0), Value(1.0)
        o = tanh(x1 * w1 + x2 * w2 + 6.8813735870195432)
        o.backward()
        assert [o.data, x1.grad, w1.grad, x2.grad, w2.grad] == pytest.approx([math.sqrt(0.5), -1.5, 1.0, 0.5, 0.0])


def moons(count, noise):
    """scikit-learn's make_moons, from NumPy's global generator."""
    angle = np.linspace(0, np.pi, count // 2)
    outer = np.stack([np.cos(angle), np.sin(angle)], 1)
    points = np.concatenate([outer, [1, 0.5] - outer])
    order = np.arange(count)
    np.random.shuffle(order)
    return points[order] + np.random.normal(scale=noise, size=points.shape), (order >= count // 2) * 2 - 1


def test_micrograd_s_demo_learns_the_moons():
    np.random.seed(1337)
    random.seed(1337)
    points, labels = moons(100, 0.1)
    model = MLP(2, [16, 16, 1])
    assert len(model.parameters()) == 337

    def loss_and_accuracy():
        scores = [model(point) for point in points]
        margins = [(1 + -label * score).relu() for label, score in zip(labels, scores)]
        loss = sum(margins) * (1.0 / len(margins)) + 1e-4 * sum(p * p for p in model.parameters())
        return loss, sum((label > 0) == (score.data > 0) for label, score in zip(labels, scores))

    seen = []
    for _ in range(2):
        loss, right = loss_and_accuracy()
        seen.append((loss.data, right))
        model.zero_grad()
        loss.backward()
        for p in model.parameters():
            p.data -= 1.0 * p.grad
    # as the notebook prints them
    assert seen == [
        (pytest.approx(0.8958441028683222, rel=1e-12), 50),
        (pytest.approx(1.7235905336972022, rel=1e-9), 81),
    ]


def test_gradients_are_torch_s():
    torch = pytest.importorskip("torch")

    def everything(a, b):
        return readme(a, b) + (a * b).tanh() - (b + a * a).log() * (a / b).exp() + 2 / (3 - b) + (a - b) ** 0

    a, b = Value(-1.5), Value(0.7)
    everything(a, b).backward()
    x, y = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (-1.5, 0.7))
    everything(x, y).backward()
    assert [a.grad, b.grad] == pytest.approx([x.grad.item(), y.grad.item()], rel=1e-12)


def test_gradients_add_up_over_calls_and_over_uses():
    a = Value(3.0)
    y = a * a
    z = y + y
    z.backward()
    assert (a.grad, y.grad, z.grad) == (12.0, 2.0, 1.0)
    z.backward()
    assert a.grad == 24.0


def test_a_long_chain_needs_no_deep_stack():
    a = x = Value(1.0)
    for _ in range(20_000):
        x = x + 1
    x.backward()
    assert x.data == 20_001 and a.grad == 1.0


def test_names_are_micrograd_s():
    assert repr(Value(2)) == "Value(data=2, grad=0.0)"
    assert repr(MLP(1, [2, 1])) == "MLP of [Layer of [ReLUNeuron(1), ReLUNeuron(1)], Layer of [LinearNeuron(2)]]"
    neuron = Neuron(3, nonlin=False)
    assert isinstance(neuron, nn.Module) and len(neuron.w) == 3 and neuron.b.data == 0 and not neuron.nonlin
    assert len(Layer(2, 3).neurons) == 3 and len(MLP(2, [1, 4]).layers) == 2
    assert [type(v) for v in MLP(2, [1, 4])([1.0, 2.0])] == [Value] * 4
    product = Value(2.0) * 3
    assert product._op == "*" and sorted(v.data for v in product._prev) == [2.0, 3.0]


def test_mistakes_are_named():
    with pytest.raises(TypeError, match=r"the exponent is a number; .*exp\(\)"):
        Value(2.0) ** Value(3.0)
    with pytest.raises(ValueError, match="takes 3 inputs, 2 were given"):
        Neuron(3)([1.0, 2.0])


def test_learn_is_imported_only_when_asked_for():
    program = "import sys, wengert as wg; assert 'wengert.learn' not in sys.modules; wg.learn.value.Value(1.0)"
    subprocess.run([sys.executable, "-c", program], check=True)
