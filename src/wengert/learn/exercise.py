"""The checks of the exercise `mytorch`: run this file, or pytest on it.

Every rule is compared with differences: a derivative says how much a result changes when an input changes a little.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from .mytorch import Autograd, nn
from .mytorch.nn import functional as F
from .running import run_checks


def drawn(*shape: int) -> Any:
    """Numbers between 0.5 and 2, the same ones every time."""
    return np.random.default_rng(sum(shape)).uniform(0.5, 2.0, shape)


def slopes(function: Callable[[], Any], array: Any, h: float = 1e-6) -> Any:
    """How much the result of `function` changes with each number of an array that it reads."""
    found = np.empty(array.shape)
    for place in np.ndindex(array.shape):
        kept = array[place]
        array[place] = kept + h
        above = function()
        array[place] = kept - h
        found[place] = (above - function()) / (2 * h)
        array[place] = kept
    return found


def close(found: Any, expected: Any, what: str) -> None:
    """Complain unless two arrays agree."""
    assert np.shape(found) == np.shape(expected), f"{what} has shape {np.shape(found)}, not {np.shape(expected)}"
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-7), f"{what} is\n{found}\nand should be\n{expected}"


def check_rule(rule: Callable[..., Any], function: Callable[..., Any], *inputs: Any) -> None:
    """Compare a backward operation with differences of the function it belongs to."""
    seed = drawn(*np.shape(function(*inputs))) - 1
    gradients = rule(seed, *inputs)
    if len(inputs) == 1:
        gradients = (gradients,)
    assert isinstance(gradients, tuple), f"{rule.__name__} gives a tuple, a gradient for each input"
    for name, array, gradient in zip("ab", inputs, gradients):
        close(gradient, slopes(lambda: np.sum(seed * function(*inputs)), array), f"the gradient of {name}")


# --- functional.py --------------------------------------------------------------------------------------------------


def test_sub() -> None:
    """a - b"""
    check_rule(F.sub_backward, np.subtract, drawn(3, 4), drawn(3, 4))


def test_mul() -> None:
    """a * b"""
    check_rule(F.mul_backward, np.multiply, drawn(3, 4), drawn(3, 4))


def test_div() -> None:
    """a / b"""
    check_rule(F.div_backward, np.divide, drawn(3, 4), drawn(3, 4) + 1)


def test_broadcasting() -> None:
    """a + b, a * b where one of them is broadcast"""
    for a, b in [((3, 4), (1, 4)), ((3, 1), (4,)), ((2, 1, 3), (4, 1))]:
        check_rule(F.add_backward, np.add, drawn(*a), drawn(*b))
        check_rule(F.mul_backward, np.multiply, drawn(*a), drawn(*b))


def test_matmul() -> None:
    """a @ b"""
    check_rule(F.matmul_backward, np.matmul, drawn(3, 4), drawn(4, 2))


def test_outer() -> None:
    """np.outer(a, b)"""
    check_rule(F.outer_backward, np.outer, drawn(3), drawn(4))


def test_log() -> None:
    """log(a)"""
    check_rule(F.log_backward, np.log, drawn(3, 4))


def test_exp() -> None:
    """exp(a)"""
    check_rule(F.exp_backward, np.exp, drawn(3, 4))


def test_max() -> None:
    """max(0, a)"""
    check_rule(F.max_backward, lambda a: np.maximum(0, a), drawn(3, 4) - 1.2)


def test_sum() -> None:
    """sum(a)"""
    check_rule(F.sum_backward, np.sum, drawn(3, 4))


# --- autograd_engine.py ---------------------------------------------------------------------------------------------


def test_the_tape() -> None:
    """add_operation writes one operation down, and gives its inputs spots"""
    engine = Autograd()
    a, b = drawn(2, 3), drawn(2, 3)
    engine.add_operation([a, b], a + b, [None, None], F.add_backward)
    assert len(engine.operation_list) == 1, f"{len(engine.operation_list)} operations on the tape"
    assert len(engine.gradient_buffer.memory) == 2, "the inputs get a spot each, and nothing else does"
    try:
        engine.add_operation([a, b], a + b, [None], F.add_backward)
    except Exception:
        return
    raise AssertionError("two inputs with one gradients_to_update should be refused")


def test_backward() -> None:
    """backward through a chain, with an array used twice"""
    engine = Autograd()
    x = drawn(2, 3)
    y = np.exp(x)
    engine.add_operation([x], y, [None], F.exp_backward)
    engine.add_operation([y, x], y * x, [None, None], F.mul_backward)
    engine.backward(1)
    close(engine.gradient_buffer.get_param(x), (1 + x) * np.exp(x), "the gradient of x")


def test_parameters_collect() -> None:
    """gradients_to_update: gradients are added to what is there"""
    engine = Autograd()
    x, w, dw = drawn(2, 3), drawn(2, 3), np.ones((2, 3))
    engine.add_operation([x, w], x * w, [None, dw], F.mul_backward)
    engine.backward(1)
    close(dw, 1 + x, "what the parameter has collected")


# --- nn.modules -----------------------------------------------------------------------------------------------------


def check_module(forward: Callable[[Autograd, Any], Any], function: Callable[[Any], Any], x: Any) -> None:
    """Compare what a module computes, and the gradient of its input, with a function and its differences."""
    engine = Autograd()
    close(forward(engine, x), function(x), "the output")
    engine.backward(1)
    close(engine.gradient_buffer.get_param(x), slopes(lambda: np.sum(function(x)), x), "the gradient of the input")


def test_linear() -> None:
    """Linear, for a batch: its output, dW and db"""
    engine = Autograd()
    layer = nn.Linear(4, 2, engine)
    x = drawn(3, 4)
    close(layer(x), x @ layer.W.T + layer.b.T, "the output")
    engine.backward(1)
    close(layer.dW, slopes(lambda: np.sum(x @ layer.W.T + layer.b.T), layer.W), "dW")
    close(layer.db, slopes(lambda: np.sum(x @ layer.W.T + layer.b.T), layer.b), "db")


def test_sigmoid() -> None:
    """Sigmoid"""
    check_module(lambda engine, x: nn.Sigmoid(engine)(x), lambda x: 1 / (1 + np.exp(-x)), drawn(3, 4) - 1.2)


def test_tanh() -> None:
    """Tanh"""
    check_module(lambda engine, x: nn.Tanh(engine)(x), np.tanh, drawn(3, 4) - 1.2)


def test_relu() -> None:
    """ReLU"""
    check_module(lambda engine, x: nn.ReLU(engine)(x), lambda x: np.maximum(0, x), drawn(3, 4) - 1.2)


def test_mse() -> None:
    """MSELoss"""
    y = drawn(2, 5)
    check_module(lambda engine, x: nn.MSELoss(engine)(y, x), lambda x: np.mean((x - y) ** 2), 2 * drawn(2, 5))


def cross_entropy(scores: Any, labels: Any) -> Any:
    """The definition, of shape (1,)."""
    softmax = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    return np.array([-np.sum(labels * np.log(softmax)) / len(labels)])


def test_cross_entropy() -> None:
    """SoftmaxCrossEntropy, for a batch"""
    labels = np.eye(4)[[2, 0, 3]]
    check_module(
        lambda engine, x: nn.SoftmaxCrossEntropy(engine)(labels, x), lambda x: cross_entropy(x, labels), drawn(3, 4)
    )


def test_large_scores() -> None:
    """SoftmaxCrossEntropy with scores of 1e10"""
    labels = np.array([[0.0, 1.0]])
    loss = nn.SoftmaxCrossEntropy(Autograd())
    close(loss(labels, np.array([[1e10, 0.0]])), np.array([1e10]), "the loss")
    loss.backward()


def test_a_network_learns() -> None:
    """a network learns to tell two clouds of points apart"""
    np.random.seed(0)
    engine = Autograd()
    layer, loss = nn.Linear(2, 2, engine), nn.SoftmaxCrossEntropy(engine)
    y = np.eye(2)[np.arange(40) % 2]
    x = np.random.normal(size=(40, 2)) + 3 * y
    losses = []
    for _ in range(50):
        engine.zero_grad()
        layer.dW.fill(0.0)
        layer.db.fill(0.0)
        losses.append(float(loss(y, layer(x))[0]))
        loss.backward()
        layer.W -= 0.5 * layer.dW
        layer.b -= 0.5 * layer.db
    assert losses[-1] < losses[0] / 5, f"the loss went from {losses[0]:.4f} to {losses[-1]:.4f} in 50 steps"


if __name__ == "__main__":
    sys.exit(run_checks(globals()))
