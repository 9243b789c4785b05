"""Functions of a batch whose results for an example must not depend on the batch, for `test_invariant` and the GPU's.

A case is made anew for a device: `make(device)` gives a function from batches to results with the examples along the
first axis, and `draw(rng, n)` the arrays of n examples.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import wengert as wg
from wengert import nn
from wengert.models.gpt import Block, GPTConfig
from wengert.models.resnet import BasicBlock

Array = Any


class Case(NamedTuple):
    """What computes, what it computes from, and whether a gradient with respect to its first argument makes sense."""

    make: Callable[[], Callable[..., Any]]
    draw: Callable[[np.random.Generator, int], tuple[Array, ...]]
    floats: bool = True


def _normal(*shape: int) -> Callable[[np.random.Generator, int], tuple[Array, ...]]:
    return lambda rng, n: (rng.normal(size=(n, *shape)).astype(np.float32),)


def _module(make: Callable[[], nn.Module]) -> Callable[[], Callable[..., Any]]:
    def made() -> Callable[..., Any]:
        wg.random.manual_seed(0)
        return make().eval()

    return made


def _batchnorm() -> nn.Module:
    norm = nn.BatchNorm2d(6)
    for name, value in (("running_mean", 0.3), ("running_var", 1.7)):
        getattr(norm, name).assign(wg.full((6,), value))
    return norm


def _with_labels(*shape: int) -> Callable[[np.random.Generator, int], tuple[Array, ...]]:
    def draw(rng: np.random.Generator, n: int) -> tuple[Array, ...]:
        return rng.normal(size=(n, *shape)).astype(np.float32), rng.integers(0, shape[-1], n)

    return draw


def _gpt_block() -> Callable[..., Any]:
    block = _module(lambda: Block(GPTConfig(vocab_size=50, n_positions=24, n_embd=32, n_layer=1, n_head=2)))()
    positions = wg.arange(24)
    return lambda x: block(x, positions, None, 0)


def _attend(x: Any) -> Any:
    return wg.scaled_dot_product_attention(x, x * 0.5, x + 1.0, is_causal=True)


MLP = _module(lambda: nn.Sequential(nn.Linear(33, 70), nn.GELU(), nn.Linear(70, 1)))

CASES: dict[str, Case] = {
    "linear": Case(_module(lambda: nn.Linear(100, 37)), _normal(100)),
    "wide linear": Case(_module(lambda: nn.Linear(784, 300)), _normal(784)),
    "mlp": Case(MLP, _normal(33)),
    "conv": Case(_module(lambda: nn.Conv2d(16, 16, 3, padding=1)), _normal(16, 12, 12)),
    "grouped conv": Case(_module(lambda: nn.Conv2d(8, 8, 3, stride=2, groups=8)), _normal(8, 11, 11)),
    "batchnorm": Case(_module(_batchnorm), _normal(6, 5, 5)),
    "layernorm": Case(_module(lambda: nn.LayerNorm(77)), _normal(77)),
    "softmax": Case(lambda: lambda x: wg.softmax(x, axis=-1), _normal(130)),
    "attention": Case(lambda: _attend, _normal(2, 19, 16)),
    "embedding": Case(_module(lambda: nn.Embedding(20, 8)), lambda rng, n: (rng.integers(0, 20, (n, 5)),), False),
    "cross-entropy": Case(lambda: lambda x, y: wg.cross_entropy(x, y, reduction="none"), _with_labels(50)),
    "gpt block": Case(_gpt_block, _normal(24, 32)),
    "resnet block": Case(_module(lambda: BasicBlock(8, 16, 2)), _normal(8, 12, 12)),
    "half precision": Case(
        lambda: lambda x: wg.tanh(x.to(wg.bfloat16) * 1.3 + 0.1).sum(axis=-1).to(wg.float32), _normal(40)
    ),
}


def _scanned() -> Callable[..., Any]:
    weight = wg.tensor(np.random.default_rng(3).normal(size=(12, 12)).astype(np.float32) / 3)

    def function(x: Any) -> Any:
        def step(h: Any, row: Any) -> tuple[Any, Any]:
            h = wg.tanh(h @ weight + row)
            return h, h

        return wg.scan(step, wg.zeros((x.shape[0], 12)), wg.permute_dims(x, (1, 0, 2)))[0]

    return function


def _lstm() -> Callable[..., Any]:
    layer = _module(lambda: nn.LSTM(12, 8, batch_first=True))()
    return lambda x: layer(x)[0]


def _complex(x: Any) -> Any:
    z = wg.fft.fft(x)
    return wg.real((z @ z).sum(axis=1))


HOST_CASES: dict[str, Case] = {
    "scan": Case(_scanned, _normal(5, 12)),
    "complex": Case(lambda: _complex, _normal(12, 12)),
    "inverse": Case(lambda: wg.linalg.inv, _normal(6, 6)),
    "lstm": Case(_lstm, _normal(5, 12)),
    "transposed conv": Case(_module(lambda: nn.ConvTranspose2d(4, 3, 3, stride=2)), _normal(4, 6, 6)),
    "pools": Case(lambda: lambda x: wg.max_pool2d(x, 2) + wg.avg_pool2d(x, 2), _normal(3, 8, 8)),
}
"""Ops that have no C, loops whose bodies run by their references, and some more shapes."""
