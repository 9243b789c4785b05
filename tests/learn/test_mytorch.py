"""mytorch's gradients are torch's, on every function and layer, and the tape behaves as the course's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import wengert
from wengert.learn import mytorch
from wengert.learn.mytorch import Autograd, GradientBuffer, Operation, functional_hw1, nn
from wengert.learn.mytorch.mlp import MLP, moons
from wengert.learn.mytorch.nn import functional as F

LEARN = Path(wengert.__file__).parent / "learn"


def drawn(*shape):
    return np.random.default_rng(len(shape) + sum(shape)).uniform(0.5, 2.0, shape)


def torch_gradients(torch, function, *arrays, seed=None):
    """The gradients of <seed, function(arrays)> by each array."""
    leaves = [torch.tensor(array, dtype=torch.float64, requires_grad=True) for array in arrays]
    out = function(*leaves)
    out.backward(torch.ones_like(out) if seed is None else torch.tensor(seed))
    return [leaf.grad.numpy() for leaf in leaves]


def assert_close(found, expected):
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10)


SHAPES = [((3, 4), (3, 4)), ((3, 4), (1, 4)), ((3, 1), (4,)), ((), (2, 3)), ((1, 1), (5, 1)), ((2, 1, 3), (4, 1))]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
def test_elementwise_with_broadcasting(name, shapes):
    torch = pytest.importorskip("torch")
    a, b = drawn(*shapes[0]), drawn(*shapes[1]) + 1
    seed = drawn(*np.broadcast_shapes(*shapes)) - 1
    found = getattr(F, f"{name}_backward")(seed, a, b)
    assert isinstance(found, tuple)
    for gradient, expected in zip(found, torch_gradients(torch, getattr(torch, name), a, b, seed=seed)):
        assert_close(gradient, expected)
    for gradient, expected in zip(  # a plain 1 stands for ones
        getattr(F, f"{name}_backward")(1, a, b), torch_gradients(torch, getattr(torch, name), a, b)
    ):
        assert_close(gradient, expected)


MATRICES = [((3, 4), (4, 2)), ((1, 5), (5, 5)), ((4,), (4, 2)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5))]


@pytest.mark.parametrize("shapes", [*MATRICES, ((2, 3, 4), (2, 4, 5)), ((5, 1, 3, 4), (2, 4, 2))], ids=str)
def test_matmul(shapes):
    torch = pytest.importorskip("torch")
    a, b = drawn(*shapes[0]), drawn(*shapes[1])
    seed = np.asarray(drawn(*(a @ b).shape))
    for gradient, expected in zip(F.matmul_backward(seed, a, b), torch_gradients(torch, torch.matmul, a, b, seed=seed)):
        assert_close(gradient, expected)


@pytest.mark.parametrize("shapes", [((3,), (4,)), ((1, 3), (1, 4)), ((2, 3), (4, 1))], ids=str)
def test_outer(shapes):
    torch = pytest.importorskip("torch")
    a, b = drawn(*shapes[0]), drawn(*shapes[1])
    seed = drawn(a.size, b.size)
    outer = lambda x, y: torch.outer(x.ravel(), y.ravel())
    for gradient, expected in zip(F.outer_backward(seed, a, b), torch_gradients(torch, outer, a, b, seed=seed)):
        assert_close(gradient, expected)


UNARY = {"identity": "clone", "log": "log", "exp": "exp", "max": "relu", "sigmoid": "sigmoid", "tanh": "tanh"}


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    torch = pytest.importorskip("torch")
    a = drawn(3, 4) - (0 if name == "log" else 1.2)
    seed = drawn(3, 4)
    (expected,) = torch_gradients(torch, getattr(torch, UNARY[name]), a, seed=seed)
    assert_close(getattr(F, f"{name}_backward")(seed, a), expected)


def test_sum():
    torch = pytest.importorskip("torch")
    a = drawn(3, 4)
    assert_close(F.sum_backward(np.array(2.5), a), torch_gradients(torch, torch.sum, a, seed=2.5)[0])
    rows = lambda x: x.sum(1, keepdim=True)
    assert_close(F.sum_backward(drawn(3, 1), a), torch_gradients(torch, rows, a, seed=drawn(3, 1))[0])


@pytest.mark.parametrize("scale", [1.0, 1e3, 1e10])
def test_softmax_cross_entropy(scale):
    torch = pytest.importorskip("torch")
    scores = (drawn(3, 5) - 1) * scale
    labels = np.eye(5)[[2, 0, 4]]
    cross_entropy = lambda x: torch.nn.functional.cross_entropy(x, torch.tensor(labels))
    (expected,) = torch_gradients(torch, cross_entropy, scores)
    assert_close(F.SoftmaxCrossEntropy_backward(1, scores, labels)[0], expected)
    engine = Autograd()
    loss = nn.SoftmaxCrossEntropy(engine)
    value = loss(labels, scores)
    loss.backward()
    assert value.shape == (1,) and loss.loss_val is value
    assert_close(value, cross_entropy(torch.tensor(scores)).numpy().reshape(1))
    assert_close(engine.gradient_buffer.get_param(scores), expected)


@pytest.mark.parametrize("activation", ["Identity", "Sigmoid", "Tanh", "ReLU"])
@pytest.mark.parametrize("batch", [1, 3])
def test_a_network_with_a_skip_connection(activation, batch):
    """Two layers, one used twice, and the input added to what they give: every gradient is torch's."""
    torch = pytest.importorskip("torch")
    np.random.seed(0)
    engine = Autograd()
    first, second, act = nn.Linear(5, 5, engine), nn.Linear(5, 5, engine), getattr(nn, activation)(engine)
    loss = nn.MSELoss(engine)
    x, y = drawn(batch, 5), drawn(batch, 5) + 3
    hidden = act(first(x))
    again = second(second(hidden))
    output = again + x
    engine.add_operation([again, x], output, [None, None], F.add_backward)
    value = loss(y, output)
    loss.backward()
    assert first.W.shape == (5, 5) and first.b.shape == (5, 1) and np.abs(first.W).max() <= np.sqrt(1 / 5)

    layers = [torch.nn.Linear(5, 5, dtype=torch.float64) for _ in range(2)]
    for ours, theirs in zip((first, second), layers):
        theirs.weight.data, theirs.bias.data = torch.tensor(ours.W), torch.tensor(ours.b[:, 0])
    tx = torch.tensor(x, requires_grad=True)
    expected = torch.nn.MSELoss()(
        layers[1](layers[1](getattr(torch.nn, activation)()(layers[0](tx)))) + tx, torch.tensor(y)
    )
    expected.backward()
    assert_close(value, expected.detach().numpy())
    assert_close(engine.gradient_buffer.get_param(x), tx.grad.numpy())
    for ours, theirs in zip((first, second), layers):
        assert_close(ours.dW, theirs.weight.grad.numpy())
        assert_close(ours.db, theirs.bias.grad.numpy()[:, None])


@pytest.mark.parametrize("activation", ["Sigmoid", "Tanh", "ReLU"])
def test_activations_far_out(activation):
    torch = pytest.importorskip("torch")
    x = np.array([[-1e10, -800.0, -1.0, 0.0, 2.0, 800.0, 1e10]])
    engine = Autograd()
    act = getattr(nn, activation)(engine)
    out = act(x)
    engine.backward(1.0)
    assert_close(out, getattr(torch, activation.lower())(torch.tensor(x)).numpy())
    assert act.state is out
    (expected,) = torch_gradients(torch, getattr(torch, activation.lower()), x)
    assert_close(engine.gradient_buffer.get_param(x), expected)


# --- the tape -------------------------------------------------------------------------------------------------------


def test_an_operation_is_written_down():
    engine = Autograd()
    x, y = drawn(1, 5), drawn(1, 5)
    z = x + y
    engine.add_operation(inputs=[x, y], output=z, gradients_to_update=[None, None], backward_operation=F.add_backward)
    assert len(engine.gradient_buffer.memory) == 2 and not engine.gradient_buffer.is_in_memory(z)
    (operation,) = engine.operation_list
    assert type(operation) is Operation and operation.inputs[0] is x and operation.gradients_to_update == [None, None]
    assert operation.outputs is operation.output is z
    assert operation.backward_function is operation.backward_operation is F.add_backward
    assert repr(operation) == "<add_backward: (1, 5), (1, 5) -> (1, 5)>"
    with pytest.raises(ValueError, match="2 inputs but 1 gradients_to_update"):
        engine.add_operation([x, y], z, [None], F.add_backward)
    engine.zero_grad()
    assert engine.operation_list == [] and engine.memory_buffer is engine.gradient_buffer
    assert engine.gradient_buffer.memory == {}
    with pytest.raises(ValueError, match="nothing to go back through"):
        engine.backward(1)


def test_gradients_are_added_to_what_was_there():
    engine = Autograd()
    x, y = np.array([[-1.0], [2.0]], dtype="f"), np.array([[-4.0], [1.0]], dtype="f")
    dy = np.array([[-1.0], [2.0]], dtype="f")
    engine.add_operation([x, y], x + y, [None, dy], F.add_backward)
    engine.backward(1)
    np.testing.assert_array_equal(dy, [[0.0], [3.0]])
    np.testing.assert_array_equal(engine.gradient_buffer.get_param(x), [[1.0], [1.0]])


def test_going_back_twice_adds_up_as_in_torch():
    engine = Autograd()
    x = drawn(2, 3)
    y = np.exp(x)
    engine.add_operation([x], y, [None], F.exp_backward)
    z = y * y
    engine.add_operation([y, y], z, [None, None], F.mul_backward)
    engine.backward(1)
    once = engine.gradient_buffer.get_param(x)
    np.testing.assert_allclose(once, 2 * y * y, rtol=1e-14)
    engine.backward(2)
    np.testing.assert_allclose(engine.gradient_buffer.get_param(x), 3 * once, rtol=1e-14)


def test_an_output_nobody_used_has_no_part():
    engine = Autograd()
    x = drawn(2, 3)
    engine.add_operation([x], np.log(x), [None], F.log_backward)
    engine.add_operation([x], np.exp(x), [None], F.exp_backward)
    engine.backward(1)
    np.testing.assert_allclose(engine.gradient_buffer.get_param(x), np.exp(x))


def test_numbers_that_are_no_arrays_have_spots_too():
    engine = Autograd()
    x = drawn(3)
    total = np.sum(x)  # a number of NumPy's, not an array
    engine.add_operation([x], total, [None], F.sum_backward)
    engine.add_operation([total], np.exp(total), [None], F.exp_backward)
    engine.backward(1)
    np.testing.assert_allclose(engine.gradient_buffer.get_param(x), np.full(3, np.exp(total)))


def test_many_engines_live_at_once():
    engines = [Autograd() for _ in range(3)]
    x = drawn(2)
    engines[0].add_operation([x], np.exp(x), [None], F.exp_backward)
    assert engines[0].gradient_buffer.is_in_memory(x) and not engines[1].gradient_buffer.is_in_memory(x)


def test_the_gradient_buffer():
    buffer = GradientBuffer()
    x = drawn(2, 3)
    assert GradientBuffer.get_memory_loc(x) == x.__array_interface__["data"][0]
    with pytest.raises(LookupError, match=r"shape \(2, 3\) has no spot"):
        buffer.get_param(x)
    buffer.add_spot(x)
    buffer.update_param(x, np.ones((2, 3)))
    buffer.add_spot(x)
    buffer.update_param(x, None)
    np.testing.assert_array_equal(buffer.get_param(x), np.ones((2, 3)))
    buffer.set_param(x, 5 * x)
    np.testing.assert_array_equal(buffer.get_param(x), 5 * x)
    assert mytorch.MemoryBuffer is GradientBuffer and not buffer.is_in_memory(x.copy())
    buffer.clear()
    assert not buffer.is_in_memory(x)


def test_mistakes_are_named():
    engine = Autograd()
    scores = drawn(1, 5)
    with pytest.raises(ValueError, match=r"labels have shape \(1,\) and the outputs \(1, 5\)"):
        nn.SoftmaxCrossEntropy(engine)(np.array([2]), scores)
    with pytest.raises(ValueError, match=r"\(batch, classes\), not \(1,\)"):
        nn.SoftmaxCrossEntropy(engine)(np.array([2.0]), np.array([1.0]))
    with pytest.raises(TypeError, match="LossFN is what losses share"):
        nn.LossFN(engine)(scores, scores)


def test_a_rule_that_gives_the_wrong_shape_is_named():
    engine = Autograd()
    x, bias = drawn(3, 4), drawn(1, 4)
    engine.add_operation([x, bias], x + bias, [None, None], lambda grad_output, a, b: (grad_output, grad_output))
    with pytest.raises(ValueError, match=r"shape \(3, 4\) for an array of shape \(1, 4\).*the input's own shape"):
        engine.backward(1)


def test_an_empty_batch():
    assert nn.Linear(5, 4, Autograd())(np.empty((0, 5))).shape == (0, 4)


# --- the handout's paths --------------------------------------------------------------------------------------------


def test_it_runs_as_top_level_mytorch_without_wengert():
    program = """
import sys
from mytorch import autograd_engine, nn, Linear, SoftmaxCrossEntropy
import mytorch.nn as nn2, mytorch.functional_hw1 as F
from mytorch.functional_hw1 import *
from mytorch.nn.functional import add_backward as again
from mytorch.autograd_engine import Autograd, Operation
from mytorch.utils import GradientBuffer, MemoryBuffer
from mytorch.nn.linear import Linear as a; from mytorch.nn.modules.linear import Linear as b
from mytorch.nn.activation import Activation, Identity, Sigmoid, Tanh, ReLU
from mytorch.nn.loss import LossFN, MSELoss
from mytorch import mlp, sandbox
assert add_backward is again is F.add_backward and a is b is nn.Linear is Linear
assert not {"wengert", "torch"} & set(sys.modules)
mlp.main(epochs=1); sandbox.a_layer_and_a_loss()
"""
    result = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(LEARN)}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def test_names_of_the_functional_module():
    assert (
        set(functional_hw1.__all__)
        == set(F.__all__)
        >= {
            *("identity_backward", "add_backward", "sub_backward", "matmul_backward", "mul_backward", "div_backward"),
            *("outer_backward", "log_backward", "exp_backward", "max_backward", "sum_backward"),
            "SoftmaxCrossEntropy_backward",
        }
    )


def test_the_runner_learns_the_moons():
    np.random.seed(0)
    x, y = moons(200)
    network = MLP([2, 16, 16, 2])
    losses = [network.train_step(x, y) for _ in range(150)]
    assert losses[-1] < losses[0] / 10 and network.accuracy(*moons(200)) > 0.95
