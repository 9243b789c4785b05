"""The work that is measured: each row as a step of Wengert and as the same step of PyTorch, on the same numbers.

A step is a function without arguments that does all of it and returns what ends it: the loss as a number, or arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

Step = Callable[[], Any]


class Row(NamedTuple):
    """A row of the table: what it is, and the aim, as a factor over the faster of torch's two."""

    title: str
    aim: float


ROWS = {
    "micrograd": Row("micrograd MLP 300-300-300-1, batch 100, SGD", 2.0),
    "mlp": Row("MNIST MLP 784-512-256-10, batch 128, Adam", 2.0),
    "convnet": Row("MNIST ConvNet, batch 128, Adam", 1.3),
    "resnet18": Row("ResNet-18 CIFAR, batch 32, SGD momentum", 1.1),
    "gpt": Row("GPT 4 layers of 128, 4 heads, T128 B8, Adam", 1.5),
    "gelu": Row("gelu(x*w+b)*sigmoid(x), 2048^2, forward + backward", 1.5),
    "softmax": Row("softmax 2048^2, forward + backward", 1.3),
    "layernorm": Row("layernorm 2048^2, forward + backward", 1.3),
}
SIDE = 2048
VOCABULARY, LENGTH, BATCH = 65, 128, 8  # the GPT's: characters, as in nanoGPT's smallest


def numbers(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Standard normal float32 numbers."""
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def classes(count: int, *shape: int) -> np.ndarray[Any, Any]:
    """Random labels."""
    return np.random.default_rng(1).integers(0, count, shape)


def batch_of(row: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """What a model of a row is trained on."""
    if row == "micrograd":
        return numbers(100, 300), np.sign(numbers(100, 1, seed=1))
    if row == "gpt":
        tokens = classes(VOCABULARY, BATCH, LENGTH + 1)
        return np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])
    shape = {"mlp": (128, 784), "convnet": (128, 1, 28, 28), "resnet18": (32, 3, 32, 32)}[row]
    return numbers(*shape), classes(10, shape[0])


# --- Wengert --------------------------------------------------------------------------------------------------------


def wengert_step(row: str, compiled: bool) -> tuple[Step, Any, tuple[Any, ...]]:
    """A step, the function that it calls (compiled or not), and the arguments it calls it with."""
    import wengert as wg

    wg.manual_seed(0)
    function, args = (_wengert_training if row in TRAINED else _wengert_expression)(wg, row)
    if compiled:
        function = wg.compile(function)
    if row in TRAINED:
        return lambda: function(*args).item(), function, args

    def step() -> Any:
        results = function(*args)
        wg.synchronize()
        return results

    return step, function, args


TRAINED = ("micrograd", "mlp", "convnet", "resnet18", "gpt")


def _wengert_training(wg: Any, row: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    models, optim = wg.models, wg.optim
    if row == "micrograd":
        model = models.MLP(300, [300, 300, 1])
        optimizer = optim.SGD(model.parameters(), lr=1e-4)
    elif row == "mlp":
        model = models.MLP(784, [512, 256, 10])
        optimizer = optim.Adam(model.parameters(), lr=1e-3)
    elif row == "convnet":
        model = models.ConvNet()
        optimizer = optim.Adam(model.parameters(), lr=1e-3)
    elif row == "resnet18":
        model = models.resnet18(num_classes=10, stem="cifar")
        optimizer = optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    else:
        sizes = {"vocab_size": VOCABULARY, "n_positions": LENGTH, "n_embd": 128, "n_layer": 4, "n_head": 4}
        model = models.GPT(models.GPTConfig(**sizes))
        optimizer = optim.Adam(model.parameters(), lr=1e-3)

    def train(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        if row == "micrograd":
            loss = ((model(x) - y) ** 2).mean()
        elif row == "gpt":
            loss = model(x, y)[1]
        else:
            loss = wg.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return train, tuple(map(wg.tensor, batch_of(row)))


def _wengert_expression(wg: Any, row: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    forward = {
        "gelu": lambda x, w, b: wg.gelu(x * w + b) * wg.sigmoid(x),
        "softmax": lambda x: wg.softmax(x, axis=1),
        "layernorm": lambda x, w, b: wg.layer_norm(x, (SIDE,), w, b),
    }[row]

    def both(g: Any, *inputs: Any) -> Any:
        y, pullback = wg.vjp(forward, *inputs)
        return y, pullback(g)

    return both, tuple(wg.tensor(array) for array in _expression_arrays(row))


def _expression_arrays(row: str) -> list[np.ndarray[Any, Any]]:
    """The cotangent, then the operands."""
    g, x = numbers(SIDE, SIDE, seed=2), numbers(SIDE, SIDE)
    return [g, x] if row == "softmax" else [g, x, numbers(SIDE, seed=3), numbers(SIDE, seed=4)]


# --- PyTorch --------------------------------------------------------------------------------------------------------


def torch_step(row: str, compiled: bool) -> Step:
    """A step of torch, eager or with `torch.compile` of the forward pass, and so of the backward pass."""
    import torch

    torch.manual_seed(0)
    return (_torch_training if row in TRAINED else _torch_expression)(torch, row, compiled)


def _torch_training(torch: Any, row: str, compiled: bool) -> Step:
    import torch_models
    from torch.nn import functional as F

    make = {"micrograd": torch_models.micrograd, "mlp": torch_models.mlp, "convnet": torch_models.ConvNet}
    make |= {"resnet18": torch_models.resnet18, "gpt": lambda: torch_models.GPT(VOCABULARY, LENGTH, 128, 4, 4)}
    model = make[row]()
    if row in ("micrograd", "resnet18"):
        rate, momentum = {"micrograd": (1e-4, 0.0), "resnet18": (0.01, 0.9)}[row]
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=momentum, fused=True)
    else:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)

    def loss_of(x: Any, y: Any) -> Any:
        scores = model(x)
        if row == "micrograd":
            return ((scores - y) ** 2).mean()
        return F.cross_entropy(scores.flatten(0, 1), y.flatten()) if row == "gpt" else F.cross_entropy(scores, y)

    if compiled:
        loss_of = torch.compile(loss_of)
    x, y = map(torch.from_numpy, batch_of(row))

    def step() -> float:
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def _torch_expression(torch: Any, row: str, compiled: bool) -> Step:
    from torch.nn import functional as F

    forward = {
        "gelu": lambda x, w, b: F.gelu(x * w + b) * torch.sigmoid(x),
        "softmax": lambda x: torch.softmax(x, dim=1),
        "layernorm": lambda x, w, b: F.layer_norm(x, (SIDE,), w, b),
    }[row]
    if compiled:
        forward = torch.compile(forward)
    g, *inputs = map(torch.from_numpy, _expression_arrays(row))
    for tensor in inputs:
        tensor.requires_grad_()

    def step() -> Any:
        y = forward(*inputs)
        return y, torch.autograd.grad(y, inputs, g)

    return step
