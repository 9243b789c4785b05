"""Every model in small, three training steps: compiled they give what the references give."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.compiler.three_steps import Training, assert_compiled_as_interpreted, dynamic, replayed
from wengert import models
from wengert.backends.cpu.toolchain import compiler
from wengert.models.resnet import BasicBlock, Bottleneck

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C compiler to build kernels with"),
    pytest.mark.usefixtures("quick_builds"),
]

DTYPES = ["float64", "float32"]
SIZES = {"vocab_size": 31, "n_positions": 12, "n_embd": 16, "n_layer": 2, "n_head": 2}
TOKENS, IMAGES, ROWS = (3, 12), (3, 3, 16, 16), (6, 5)


def residual_blocks(dtype: Any) -> wg.nn.Module:
    """What a ResNet is made of, a few channels wide."""
    blocks = BasicBlock(3, 8, dtype=dtype), BasicBlock(8, 12, 2, dtype=dtype)
    return wg.nn.Sequential(*blocks, wg.nn.Flatten(), wg.nn.Linear(12 * 8 * 8, 4, dtype=dtype))


MODELS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "MLP": (lambda dtype: models.MLP(5, [8, 8, 4], dtype=dtype), ROWS),
    "ConvNet": (
        lambda dtype: models.ConvNet(4, channels=(4, 8), in_channels=3, image_size=16, hidden=8, dtype=dtype),
        IMAGES,
    ),
    "GPT": (lambda dtype: models.GPT(models.GPTConfig(**SIZES, dropout=0.1), dtype=dtype), TOKENS),
    "modern GPT": (lambda dtype: models.GPT(models.GPTConfig.modern(**SIZES, tied=False), dtype=dtype), TOKENS),
    "residual blocks": (lambda dtype: residual_blocks(dtype), IMAGES),
    "ResNet": (lambda dtype: models.ResNet(BasicBlock, (1, 1, 1, 1), 4, stem="cifar", dtype=dtype), IMAGES),
    "deep ResNet": (lambda dtype: models.ResNet(Bottleneck, (1, 1, 1, 1), 4, dtype=dtype), (4, 3, 64, 64)),
}
DEEP = "deep ResNet"  # in float32 a rounding decides about some of its many relus
QUICK = {
    **{"MLP": DTYPES, "ConvNet": DTYPES, "GPT": ["float64"]},
    **{"modern GPT": ["float32"], "residual blocks": ["float32"]},
}


@pytest.mark.parametrize(
    "name, dtype",
    [
        pytest.param(name, dtype, marks=[] if dtype in QUICK.get(name, ()) else pytest.mark.slow)
        for name in MODELS
        for dtype in (DTYPES if name != DEEP else ["float64"])
    ],
)
def test_a_model_replayed(name: str, dtype: str) -> None:
    assert_compiled_as_interpreted(replayed, partial(training, name), dtype)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, dtype", [(name, dtype) for name in MODELS for dtype in (DTYPES if name != DEEP else ["float64"])]
)
def test_a_model_dynamically(name: str, dtype: str) -> None:
    assert_compiled_as_interpreted(dynamic, partial(training, name), dtype)


def training(name: str, dtype: str, device: str = "cpu") -> Training:
    """A model on one batch; its weights are drawn in float32, whatever it computes in."""
    make, shape = MODELS[name]
    wg.manual_seed(4)
    state = {key: value.numpy() for key, value in make(wg.float32).state_dict().items()}
    model = make(getattr(wg, dtype))
    model.load_state_dict({key: v.astype(dtype) if v.dtype.kind == "f" else v for key, v in state.items()})
    model.to(device)
    optimizer = wg.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3)
    rng = np.random.default_rng(2)
    labels = wg.tensor(rng.integers(0, 4, shape[0]), device=device)
    if shape is TOKENS:
        tokens = wg.tensor(rng.integers(0, SIZES["vocab_size"], shape), device=device)
        loss_of = lambda: model(tokens[:, :-1], tokens[:, 1:])[1]
    else:
        x = wg.tensor(rng.normal(size=shape).astype("float32").astype(dtype), device=device)
        loss_of = lambda: wg.cross_entropy(model(x), labels)

    def step() -> dict[str, wg.Tensor]:
        loss = loss_of()
        loss.backward()
        gradients = {f"gradient of {key}": p.grad for key, p in model.named_parameters()}
        optimizer.step()
        optimizer.zero_grad()
        return {"loss": loss, **gradients}

    wg.manual_seed(6)
    return Training(step, dict(model.state_dict()))
