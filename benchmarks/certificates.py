"""How long a certificate takes, the first time and again: an MLP, a ConvNet and GPT-2 with 124M parameters, on the CPU.

$ python benchmarks/certificates.py             # each in a new cache
$ python benchmarks/certificates.py mlp --print # with the certificate itself

GPT-2 is trained for one step of 1 x 64 tokens in float32: its kernels are those of training, the batch is small so that
the step fits into a few gigabytes.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import wengert as wg

Made = tuple[Callable[..., Any], tuple[wg.Tensor, ...]]


def trained(model: Any, loss_of: Callable[..., wg.Tensor], *arguments: wg.Tensor) -> Made:
    """A training step with AdamW, and its arguments."""
    optimizer = wg.optim.AdamW(model.parameters(), 1e-3)

    @wg.compile
    def step(*arguments: wg.Tensor) -> wg.Tensor:
        loss = loss_of(*arguments)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step, arguments


def mlp() -> Made:
    """64 features, 128 hidden, 10 classes, a batch of 32."""
    model = wg.nn.Sequential(wg.nn.Linear(64, 128), wg.nn.ReLU(), wg.nn.Linear(128, 10))
    rng = np.random.default_rng(0)
    x, y = wg.tensor(rng.normal(size=(32, 64)).astype(np.float32)), wg.tensor(rng.integers(0, 10, 32))
    return trained(model, lambda x, y: wg.cross_entropy(model(x), y), x, y)


def convnet() -> Made:
    """Two convolutions with pools and a linear layer on images of 28 x 28."""
    nn = wg.nn
    layers = (nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU())
    model = nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(32 * 7 * 7, 10))
    rng = np.random.default_rng(0)
    x, y = wg.tensor(rng.normal(size=(32, 1, 28, 28)).astype(np.float32)), wg.tensor(rng.integers(0, 10, 32))
    return trained(model, lambda x, y: wg.cross_entropy(model(x), y), x, y)


def gpt(tokens: int = 64, **sizes: Any) -> Made:
    """GPT-2, or one of other sizes."""
    config = wg.models.GPTConfig(**sizes)
    model = wg.models.GPT(config)
    text = wg.tensor(np.random.default_rng(0).integers(0, config.vocab_size, (1, tokens)))

    def loss_of(text: wg.Tensor, targets: wg.Tensor) -> wg.Tensor:
        return wg.cross_entropy(model(text).reshape((-1, config.vocab_size)), targets.reshape((-1,)))

    return trained(model, loss_of, text, text)


def small_gpt() -> Made:
    """Two layers of 48 features over 65 characters."""
    return gpt(32, vocab_size=65, n_positions=32, n_embd=48, n_layer=2, n_head=4)


MODELS: dict[str, Callable[[], Made]] = {"mlp": mlp, "convnet": convnet, "small-gpt": small_gpt, "gpt2": gpt}


def main() -> None:
    """Measure those that are named, or all."""
    for name in [name for name in sys.argv[1:] if name in MODELS] or MODELS:
        with tempfile.TemporaryDirectory() as folder:
            os.environ["WENGERT_CACHE"] = folder
            step, arguments = MODELS[name]()
            step(*arguments)
            start = perf_counter()
            certificate = step.certificate()
            first = perf_counter()
            step.certificate()
            again = perf_counter() - first
            print(f"{name:<10} first {first - start:6.2f} s, again {again:.3f} s: {certificate.summary}", flush=True)
            if "--print" in sys.argv:
                print(certificate)


if __name__ == "__main__":
    main()
