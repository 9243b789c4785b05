"""What is measured in full: one or two ops of every family, and models, each over sizes.

An op's case gives for a size a function and its arrays; a model's gives for a size and a device a step that can be
called again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import wengert as wg
from wengert import models, optim
from wengert.core.devices import HOST, is_host
from wengert.learn.value.engine import Value
from wengert.learn.value.nn import MLP as ValueMLP
from wengert.runtime.static.compile import Compiled

Array = np.ndarray[Any, Any]
BOTH = (HOST, "gpu")


class BenchOp(NamedTuple):
    """An op: for a size a function, and arrays for its arguments; derivatives are taken by the floating ones."""

    name: str
    family: str
    unit: str  # what a size counts
    sizes: Sequence[int]
    make: Callable[[int], tuple[Callable[..., Any], list[Array]]]
    dtype: str = "float32"
    devices: Sequence[str] = BOTH
    has_derivative: bool = True
    reads_all: bool = True  # whether it has to read every element of its operands
    weight: float = 1  # its share of the time
    longest: float = 0.5  # seconds of one call: a size that would take longer is left out


def numbers(*shape: int, seed: int = 0) -> Array:
    """Random numbers around 0."""
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def places(below: int, *shape: int) -> Array:
    """Random whole numbers."""
    return np.random.default_rng(1).integers(0, below, shape)


ELEMENTS = tuple(2**n for n in (8, 12, 16, 20, 24, 26))
ROWS = (16, 128, 1024, 8192, 32768)  # of 1024 elements
MATRICES = (16, 64, 256, 1024, 2048, 4096)
IMAGES = (1, 4, 16, 64, 256)  # of 64 channels, 32 x 32


def _attention(tokens: int) -> tuple[Callable[..., Any], list[Array]]:
    arrays = [numbers(1, 8, tokens, 64, seed=i) for i in range(3)]
    return lambda q, k, v: wg.scaled_dot_product_attention(q, k, v, is_causal=True), arrays


def _convolution(images: int) -> tuple[Callable[..., Any], list[Array]]:
    arrays = [numbers(images, 64, 32, 32), numbers(64, 64, 3, 3, seed=1) / 24]
    return lambda x, w: wg.conv2d(x, w, padding=1), arrays


def _definite(n: int) -> list[Array]:
    x = numbers(n, n)
    return [(x @ x.T / n + np.eye(n)).astype(np.float32)]


def _normalized(rows: int) -> tuple[Callable[..., Any], list[Array]]:
    return lambda x, w, b: wg.layer_norm(x, (1024,), w, b), [numbers(rows, 1024), numbers(1024), numbers(1024)]


OPS = (
    BenchOp(
        "gelu(x * w + b)",
        "elementwise",
        "elements",
        ELEMENTS,
        lambda n: (lambda x, w, b: wg.gelu(x * w + b), [numbers(n, seed=i) for i in range(3)]),
    ),
    BenchOp("sum", "reduce", "elements", ELEMENTS, lambda n: (wg.sum, [numbers(n)])),
    BenchOp("transpose", "movement", "rows of 1024", ROWS, lambda n: (lambda x: x.T + 0.0, [numbers(n, 1024)])),
    BenchOp(
        "softmax", "activation", "rows of 1024", ROWS, lambda n: (lambda x: wg.softmax(x, axis=1), [numbers(n, 1024)])
    ),
    BenchOp("layer norm", "normalize", "rows of 1024", ROWS, _normalized),
    BenchOp(
        "cross-entropy",
        "loss",
        "rows of 1024",
        ROWS,
        lambda n: (wg.cross_entropy, [numbers(n, 1024), places(1024, n)]),
    ),
    BenchOp(
        "matrix product, float32",
        "contract",
        "n x n by n x n",
        MATRICES,
        lambda n: (wg.matmul, [numbers(n, n), numbers(n, n, seed=1)]),
    ),
    BenchOp(
        "matrix product, bfloat16",
        "contract",
        "n x n by n x n",
        (*MATRICES, 8192),
        lambda n: (wg.matmul, [numbers(n, n), numbers(n, n, seed=1)]),
        "bfloat16",
        ("gpu",),
    ),
    BenchOp("convolution 3 x 3", "convolve", "images of 64 x 32 x 32", IMAGES, _convolution),
    BenchOp(
        "max pooling",
        "pool",
        "images of 64 x 32 x 32",
        IMAGES,
        lambda n: (lambda x: wg.max_pool2d(x, 2), [numbers(n, 64, 32, 32)]),
    ),
    BenchOp("attention, float32", "attention", "tokens, 8 heads of 64", (64, 256, 1024, 4096), _attention),
    BenchOp(
        "attention, bfloat16",
        "attention",
        "tokens, 8 heads of 64",
        (64, 256, 1024, 4096),
        _attention,
        "bfloat16",
        ("gpu",),
    ),
    BenchOp(
        "embedding",
        "gather",
        "tokens, 256 features of 50,000",
        (16, 256, 4096, 65536),
        lambda n: (lambda table, rows: wg.embedding(rows, table), [numbers(50_000, 256), places(50_000, n)]),
        reads_all=False,
    ),
    BenchOp(
        "cumulative sum", "running", "rows of 1024", ROWS, lambda n: (lambda x: wg.cumsum(x, 1), [numbers(n, 1024)])
    ),
    BenchOp("sort", "sorting", "rows of 1024", ROWS[:4], lambda n: (lambda x: wg.sort(x, axis=1), [numbers(n, 1024)])),
    BenchOp("dropout", "random", "elements", ELEMENTS[:5], lambda n: (lambda x: wg.dropout(x, 0.1), [numbers(n)])),
    BenchOp("cholesky", "linalg", "n x n", (16, 64, 256, 1024), lambda n: (wg.linalg.cholesky, _definite(n))),
    BenchOp(
        "fft",
        "fft",
        "rows of 1024",
        ROWS[:4],
        lambda n: (lambda x: wg.real(wg.fft.fft(x)), [numbers(n, 1024)]),
        has_derivative=False,
    ),
)


# --- models ---------------------------------------------------------------------------------------------------------


class Model(NamedTuple):
    """A model: for a size and a device its forward pass, and one step of its training."""

    name: str
    unit: str
    sizes: Sequence[int]
    make: Callable[[int, str], tuple[Callable[[], Any], Callable[[], Any]]]
    devices: Sequence[str] = BOTH
    weight: float = 1
    longest: float = 1.5


def _trained(
    model: Any, optimizer: Any, x: Array, y: Array, device: str, loss_of: Callable[..., Any], half: bool = False
) -> tuple[Callable[[], Any], Callable[[], Any]]:
    given, wanted = (wg.tensor(array, device=device) for array in (x, y))

    def forward(x: wg.Tensor) -> Any:
        with wg.no_grad(), wg.autocast(wg.bfloat16, enabled=half):
            return model(x)

    def train(x: wg.Tensor, y: wg.Tensor) -> wg.Tensor:
        optimizer.zero_grad()
        with wg.autocast(wg.bfloat16, enabled=half):
            loss = loss_of(x, y)
        loss.backward()
        optimizer.step()
        return loss

    passing, training = Compiled(forward), Compiled(train)
    return lambda: passing(given), lambda: training(given, wanted)


def _perceptron(sizes: Sequence[int]) -> Callable[[int, str], tuple[Callable[[], Any], Callable[[], Any]]]:
    def make(batch: int, device: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
        if device == "python":
            return _in_python(sizes, batch)
        model = models.MLP(sizes[0], list(sizes[1:])).to(device)
        x, y = numbers(batch, sizes[0]), np.sign(numbers(batch, sizes[-1], seed=1))
        optimizer = optim.SGD(model.parameters(), lr=1e-3)
        return _trained(model, optimizer, x, y, device, lambda x, y: ((model(x) - y) ** 2).mean())

    return make


def _in_python(sizes: Sequence[int], batch: int) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """The same by single numbers in plain Python."""
    model = ValueMLP(sizes[0], list(sizes[1:]))
    rows, wanted = numbers(batch, sizes[0]).tolist(), np.sign(numbers(batch, seed=1)).tolist()

    def forward() -> list[Any]:
        return [model(row) for row in rows]

    def train() -> Any:
        loss = sum(((score - y) ** 2 for score, y in zip(forward(), wanted)), Value(0.0)) * (1 / batch)
        model.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            parameter.data -= 1e-3 * parameter.grad
        return loss

    return forward, train


def _classifier(
    make_model: Callable[[], Any], shape: Sequence[int], half: bool
) -> Callable[[int, str], tuple[Callable[[], Any], Callable[[], Any]]]:
    def make(batch: int, device: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
        model = make_model().to(device)
        optimizer = optim.Adam(model.parameters(), lr=1e-3)

        def loss_of(x: wg.Tensor, y: wg.Tensor) -> wg.Tensor:
            return wg.cross_entropy(model(x), y)

        given = numbers(batch, *shape), places(10, batch)
        return _trained(model, optimizer, *given, device, loss_of, half and not is_host(device))

    return make


def _gpt(batch: int, device: str) -> tuple[Callable[[], Any], Callable[[], Any]]:
    config = models.GPTConfig(vocab_size=256, n_positions=256, n_embd=384, n_layer=6, n_head=6)
    model = models.GPT(config).to(device)
    tokens = places(256, batch, 257)
    optimizer = optim.AdamW(model.parameters(), lr=1e-4)
    given = np.ascontiguousarray(tokens[:, :-1]), np.ascontiguousarray(tokens[:, 1:])
    return _trained(model, optimizer, *given, device, lambda x, y: model(x, y)[1], not is_host(device))


MODELS = (
    Model("MLP 2-16-16-1", "examples", (1, 4, 16, 64, 1024), _perceptron((2, 16, 16, 1)), ("python", *BOTH)),
    Model("MLP 300-300-300-1", "examples", (1, 16, 128, 1024, 8192), _perceptron((300, 300, 300, 1))),
    Model(
        "MLP 784-512-256-10",
        "examples",
        (1, 16, 128, 1024, 8192),
        _classifier(lambda: models.MLP(784, [512, 256, 10]), (784,), False),
    ),
    Model("ConvNet 32-64-128", "images", (1, 8, 64, 512), _classifier(models.ConvNet, (1, 28, 28), False), weight=2),
    Model(
        "ResNet-18, 32 x 32, bfloat16 on the GPU",
        "images",
        (1, 16, 128, 512),
        _classifier(lambda: models.resnet18(10, stem="cifar"), (3, 32, 32), True),
        weight=5,
    ),
    Model("GPT, 6 layers of 384, bfloat16 on the GPU", "sequences of 256", (1, 4, 16, 64), _gpt, weight=5),
)
