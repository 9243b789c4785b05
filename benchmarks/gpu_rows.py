"""The rows of the GPU's table: each as a step of Wengert, of PyTorch and, for the MLPs, of JAX, on the same numbers.

A step is a function without arguments that asks for all of it and does not wait for the device.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import convolution_models
import inference
import numpy as np
from rows import classes, numbers

Step = Callable[[], Any]
SIDE = 8192


class Row(NamedTuple):
    """A row: what it is, and the aim in milliseconds, if there is one."""

    title: str
    aim: float | None = None


ROWS = {
    "micrograd": Row("micrograd MLP 300-300-300-1, batch 100, fp32, SGD", 0.025),
    "mlp": Row("MNIST MLP 784-512-256-10, batch 128, fp32, Adam", 0.040),
    "convnet": Row("MNIST ConvNet 32-64-128, batch 512, tf32, Adam", 0.60),
    "resnet18-cifar": Row("ResNet-18 CIFAR 32x32, batch 512, bf16", 5.5),
    "resnet18": Row("ResNet-18 224x224, batch 256, bf16", 10.0),
    "resnet18-tf32": Row("ResNet-18 224x224, batch 256, tf32", 18.0),
    "mobilenet": Row("MobileNet V1 224x224, batch 128, bf16", 6.5),
    "wavenet-tf32": Row("WaveNet-style, dilated conv1d, 16 x 8192, tf32", 8.0),
    "wavenet": Row("WaveNet-style, dilated conv1d, 16 x 8192, fp32", 11.0),
    "gpt2": Row("GPT-2 124M, 16 x 1024 tokens, bf16, AdamW", 29.0),
    "resnet18-answer-1": Row("ResNet-18 224x224, inference, batch 1, bf16"),
    "resnet18-answer-256": Row("ResNet-18 224x224, inference, batch 256, bf16"),
    "gpt2-generate": Row("GPT-2 124M, one token of generation, batch 1, bf16"),
    "lstm-16": Row("LSTM 2 x 512, batch 64, 16 steps, fp32, Adam"),
    "lstm-16-tf32": Row("LSTM 2 x 512, batch 64, 16 steps, tf32, Adam", 2.5),
    "lstm-128": Row("LSTM 2 x 512, batch 64, 128 steps, fp32, Adam"),
    "lstm-128-tf32": Row("LSTM 2 x 512, batch 64, 128 steps, tf32, Adam"),
    "gru-128": Row("GRU 2 x 512, batch 64, 128 steps, fp32, Adam"),
    "rnn-128": Row("RNN 2 x 512, batch 64, 128 steps, fp32, Adam"),
    "lstm-wide": Row("LSTM 2 x 2048, batch 64, 32 steps, fp32, Adam"),
    "lstm-wide-tf32": Row("LSTM 2 x 2048, batch 64, 32 steps, tf32, Adam"),
    "gelu": Row("gelu(x*w+b)*sigmoid(x), 8192^2, forward", 0.140),
    "gelu-backward": Row("the same, forward + backward", 0.45),
    "softmax": Row("softmax 8192^2, forward", 0.14),
    "softmax-backward": Row("softmax, forward + backward", 0.36),
    "layernorm": Row("layernorm 8192^2, forward", 0.14),
    "layernorm-backward": Row("layernorm, forward + backward", 0.40),
    "cross-entropy-backward": Row("cross-entropy 8192^2, forward + backward", 0.25),
}
RECURRENT = {  # the layer, the steps and the width; the wide ones have more weights than the SMs keep
    "lstm-16": ("LSTM", 16, 512),
    "lstm-16-tf32": ("LSTM", 16, 512),
    "lstm-128": ("LSTM", 128, 512),
    "lstm-128-tf32": ("LSTM", 128, 512),
    "gru-128": ("GRU", 128, 512),
    "rnn-128": ("RNN", 128, 512),
    "lstm-wide": ("LSTM", 32, 2048),
    "lstm-wide-tf32": ("LSTM", 32, 2048),
}
TRAINED = (
    *("micrograd", "mlp", "convnet", "resnet18-cifar", "resnet18", "resnet18-tf32"),
    *("mobilenet", "wavenet-tf32", "wavenet", "gpt2"),
    *RECURRENT,
)
HALVES = ("resnet18-cifar", "resnet18", "mobilenet", "gpt2")
TF32 = ("convnet", "resnet18-tf32", "wavenet-tf32", "lstm-16-tf32", "lstm-128-tf32", "lstm-wide-tf32")
ANSWERING = {"resnet18-answer-1": 1, "resnet18-answer-256": 256}  # with their batches
LAUNCH_BOUND = ("micrograd", "mlp", "convnet", "resnet18-answer-1", "gpt2-generate")  # torch is fastest there by graphs


def batch_of(row: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """What a model of a row is trained on."""
    if row == "micrograd":
        return numbers(100, 300), np.sign(numbers(100, 1, seed=1))
    if row in RECURRENT:
        _, steps, width = RECURRENT[row]
        return numbers(steps, 64, width), numbers(steps, 64, width, seed=1)
    if row == "gpt2":
        tokens = classes(50257, 16, 1025)
        return np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])
    if row.startswith("wavenet"):
        return numbers(16, 1, 8192), classes(convolution_models.CLASSES, 16, 8192)
    shapes = {
        "mlp": (128, 784),
        "convnet": (512, 1, 28, 28),
        "resnet18-cifar": (512, 3, 32, 32),
        "resnet18": (256, 3, 224, 224),
        "mobilenet": (128, 3, 224, 224),
    }
    shape = shapes[row.removesuffix("-tf32")]
    return numbers(*shape), classes(1000 if shape[2:] == (224, 224) else 10, shape[0])


def arrays_of(row: str) -> list[np.ndarray[Any, Any]]:
    """The operands of an expression; of a backward pass the cotangent comes first."""
    name = row.removesuffix("-backward")
    operands = [numbers(SIDE, SIDE)]
    if name in ("gelu", "layernorm"):
        operands += [numbers(SIDE, seed=3), numbers(SIDE, seed=4)]
    if name == "cross-entropy":
        return [*operands, classes(SIDE, SIDE)]
    return [numbers(SIDE, SIDE, seed=2), *operands] if row.endswith("-backward") else operands


# --- Wengert --------------------------------------------------------------------------------------------------------


def wengert_step(row: str, device: str = "cuda", tune: float = 0.0) -> tuple[Step, Any]:
    """A compiled step of Wengert's, its kernels chosen by timing for so many seconds, and the compiled function."""
    import wengert as wg

    wg.manual_seed(0)
    wg.config.tf32 = row in TF32
    if row == "gpt2-generate":
        return inference.wengert_decoder(device, tune)
    if row in ANSWERING:
        return inference.wengert_classifier(ANSWERING[row], device, tune)
    if row in TRAINED:
        function, args = _wengert_training(wg, row, device)
    else:
        function, args = _wengert_expression(wg, row, device)
    compiled = wg.compile(function, tune=tune)
    return lambda: compiled(*args), compiled


def _wengert_training(wg: Any, row: str, device: str) -> tuple[Any, tuple[Any, ...]]:
    models, optim = wg.models, wg.optim
    makers = {
        "micrograd": lambda: models.MLP(300, [300, 300, 1]),
        "mlp": lambda: models.MLP(784, [512, 256, 10]),
        "convnet": lambda: models.ConvNet(),
        "resnet18-cifar": lambda: models.resnet18(num_classes=10, stem="cifar"),
        "resnet18": lambda: models.resnet18(),
        "mobilenet": lambda: convolution_models.mobilenet(wg.nn),
        "wavenet": lambda: convolution_models.wavenet(wg, wg.nn),
        "gpt2": lambda: models.GPT(models.GPTConfig()),
    }
    makers |= {name: partial(_layers, wg.nn, name) for name in RECURRENT}
    model = makers[row.removesuffix("-tf32")]()
    model.to(device)
    parameters = model.parameters()
    if row == "gpt2":
        optimizer = optim.AdamW(parameters, lr=1e-4)
    elif row in ("mlp", "convnet", *RECURRENT):
        optimizer = optim.Adam(parameters, lr=1e-3)
    else:
        optimizer = optim.SGD(
            parameters, lr=1e-4 if row == "micrograd" else 0.01, momentum=0 if row == "micrograd" else 0.9
        )

    def loss_of(x: Any, y: Any) -> Any:
        if row == "micrograd":
            return ((model(x) - y) ** 2).mean()
        if row in RECURRENT:
            return ((model(x)[0] - y) ** 2).mean()
        return model(x, y)[1] if row == "gpt2" else wg.cross_entropy(model(x), y)

    def train(x: Any, y: Any) -> Any:
        if row in HALVES:
            with wg.autocast(wg.bfloat16):
                loss = loss_of(x, y)
        else:
            loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return train, tuple(wg.tensor(array, device=device) for array in batch_of(row))


def _wengert_expression(wg: Any, row: str, device: str) -> tuple[Any, tuple[Any, ...]]:
    name = row.removesuffix("-backward")
    args = tuple(wg.tensor(array, device=device) for array in arrays_of(row))
    forward = {
        "gelu": lambda x, w, b: wg.gelu(x * w + b) * wg.sigmoid(x),
        "softmax": lambda x: wg.softmax(x, axis=1),
        "layernorm": lambda x, w, b: wg.layer_norm(x, (SIDE,), w, b),
        "cross-entropy": wg.cross_entropy,
    }[name]
    if name == "cross-entropy":
        return wg.value_and_grad(forward), args

    def both(g: Any, *inputs: Any) -> Any:
        y, pullback = wg.vjp(forward, *inputs)
        return y, pullback(g)

    return (both if row.endswith("-backward") else forward), args


# --- PyTorch --------------------------------------------------------------------------------------------------------


def torch_step(row: str, compiled: bool, device: str = "cuda") -> Step:
    """A step of torch's, eager or with `torch.compile`."""
    import torch

    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = row in TF32
    torch.backends.cudnn.benchmark = True
    mode = "reduce-overhead" if row in LAUNCH_BOUND else "default"
    prepare = partial(torch.compile, dynamic=False, mode=mode) if compiled else _as_it_is
    if row == "gpt2-generate":
        return inference.torch_decoder(torch, prepare, device)
    if row in ANSWERING:
        return inference.torch_classifier(torch, ANSWERING[row], prepare, device)
    return (_torch_training if row in TRAINED else _torch_expression)(torch, row, prepare, device)


def _layers(nn: Any, row: str) -> Any:
    """The two recurrent layers of a row, of torch.nn or wengert.nn."""
    kind, _, width = RECURRENT[row]
    return getattr(nn, kind)(width, width, num_layers=2)


def _as_it_is(function: Any) -> Any:
    return function


def _torch_training(torch: Any, row: str, prepare: Callable[[Any], Any], device: str) -> Step:
    import torch_models
    from torch.nn import functional as F

    if row in ("resnet18", "resnet18-tf32", "gpt2"):
        model = torch_models.resnet18_224() if row != "gpt2" else torch_models.GPT(50257, 1024, 768, 12, 12)
    else:
        makers = {
            "micrograd": torch_models.micrograd,
            "mlp": torch_models.mlp,
            "convnet": torch_models.ConvNet,
            "resnet18-cifar": torch_models.resnet18,
            "mobilenet": partial(convolution_models.mobilenet, torch.nn),
            "wavenet": partial(convolution_models.wavenet, torch, torch.nn),
        }
        makers |= {name: partial(_layers, torch.nn, name) for name in RECURRENT}
        model = makers[row.removesuffix("-tf32")]()
    channels_last = row in ("resnet18", "resnet18-tf32", "resnet18-cifar", "convnet", "mobilenet")
    model = model.to(device).to(memory_format=torch.channels_last if channels_last else torch.contiguous_format)
    parameters = list(model.parameters())
    if row == "gpt2":
        optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    elif row in ("mlp", "convnet", *RECURRENT):
        optimizer = torch.optim.Adam(parameters, lr=1e-3, fused=True)
    else:
        momentum, rate = (0.0, 1e-4) if row == "micrograd" else (0.9, 0.01)
        optimizer = torch.optim.SGD(parameters, lr=rate, momentum=momentum, fused=True)
    x, y = (torch.from_numpy(array).to(device) for array in batch_of(row))
    x = x.to(memory_format=torch.channels_last) if channels_last else x

    def loss_of(x: Any, y: Any) -> Any:
        with torch.autocast(device, torch.bfloat16, enabled=row in HALVES):
            scores = model(x)
            if row == "micrograd":
                return ((scores - y) ** 2).mean()
            if row in RECURRENT:
                return ((scores[0] - y) ** 2).mean()
            return F.cross_entropy(scores.flatten(0, 1), y.flatten()) if row == "gpt2" else F.cross_entropy(scores, y)

    prepared = prepare(loss_of)

    def step() -> Any:
        loss = prepared(x, y)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    return step


def _torch_expression(torch: Any, row: str, prepare: Callable[[Any], Any], device: str) -> Step:
    from torch.nn import functional as F

    name = row.removesuffix("-backward")
    forwards = {
        "gelu": lambda x, w, b: F.gelu(x * w + b) * torch.sigmoid(x),
        "softmax": lambda x: torch.softmax(x, dim=1),
        "layernorm": lambda x, w, b: F.layer_norm(x, (SIDE,), w, b),
        "cross-entropy": F.cross_entropy,
    }
    forward = prepare(forwards[name])
    args = [torch.from_numpy(array).to(device) for array in arrays_of(row)]
    if name == "cross-entropy":
        args[0].requires_grad_()
        return lambda: torch.autograd.grad(forward(*args), args[0])
    if not row.endswith("-backward"):
        return lambda: forward(*args)
    g, *inputs = args
    for tensor in inputs:
        tensor.requires_grad_()
    return lambda: torch.autograd.grad(forward(*inputs), inputs, g)


# --- JAX ------------------------------------------------------------------------------------------------------------


def jax_step(row: str) -> tuple[Step, Callable[[], Any]]:
    """A jitted step of JAX's for one of the two MLPs, and what waits for it."""
    import jax
    import jax.numpy as jnp

    sizes = (300, 300, 300, 1) if row == "micrograd" else (784, 512, 256, 10)
    weights = [(numbers(a, b) / a**0.5, np.zeros(b, np.float32)) for a, b in pairwise(sizes)]
    parameters = jax.tree.map(jnp.asarray, weights)
    moments = jax.tree.map(jnp.zeros_like, (parameters, parameters))
    x, y = map(jnp.asarray, batch_of(row))

    def loss_of(parameters: Any) -> Any:
        z = x
        for i, (w, b) in enumerate(parameters):
            z = z @ w + b
            z = jax.nn.relu(z) if i < len(parameters) - 1 else z
        if row == "micrograd":
            return ((z - y) ** 2).mean()
        return -jnp.take_along_axis(jax.nn.log_softmax(z), y[:, None], 1).mean()

    def train(state: Any) -> Any:
        parameters, (first, second), count = state
        loss, grads = jax.value_and_grad(loss_of)(parameters)
        if row == "micrograd":
            return (jax.tree.map(lambda p, g: p - 1e-4 * g, parameters, grads), (first, second), count), loss
        count = count + 1
        first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, grads)
        second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, grads)
        rate = 1e-3 * jnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
        update = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), parameters, first, second)
        return (update, (first, second), count), loss

    jitted = jax.jit(train, donate_argnums=0)
    state = [(parameters, moments, jnp.zeros((), jnp.float32))]

    def step() -> Any:
        state[0], loss = jitted(state[0])
        return loss

    return step, lambda: jax.block_until_ready(state[0])
