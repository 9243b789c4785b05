"""Every layer form and loss, three training steps: compiled they give what the references give.

The layers of a group, and their inputs, are trained in one program, so that a group is one build.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.compiler.three_steps import Training, assert_compiled_as_interpreted, dynamic, replayed
from tests.nn import layers
from tests.nn.layers import Layer, drawn, made
from wengert.backends.cpu.toolchain import compiler

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C compiler to build kernels with"),
    pytest.mark.usefixtures("quick_builds"),
]

GROUPS = {
    name: getattr(layers, name)
    for name in (
        *("LINEAR", "CONVOLUTIONS", "POOLING", "NORMS", "SHAPES", "ACTIVATIONS", "RECURRENT", "ATTENTION"),
        *("TRANSFORMERS", "LOSSES"),
    )
}
FEW_SECONDS = ("LINEAR", "POOLING", "ACTIVATIONS")
MANY_SECONDS = ("TRANSFORMERS",)  # made of layers in other groups; a GPT is compiled with the models


def _marks(slow: bool) -> list[Any]:
    return [pytest.mark.slow] if slow else []


@pytest.mark.parametrize(
    "group, dtype",
    [
        pytest.param(name, dtype, marks=_marks(name not in FEW_SECONDS if dtype == "float32" else name in MANY_SECONDS))
        for name in GROUPS
        for dtype in ("float64", "float32")
    ],
)
def test_a_group_of_layers_replayed(group: str, dtype: str) -> None:
    assert_compiled_as_interpreted(replayed, partial(training, GROUPS[group]), dtype)


@pytest.mark.parametrize("dtype", ["float64", pytest.param("float32", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "group",
    [pytest.param(name, marks=_marks(name not in ("LINEAR", "POOLING"))) for name in GROUPS],  # two programs each
)
def test_a_group_of_layers_dynamically(group: str, dtype: str) -> None:
    assert_compiled_as_interpreted(dynamic, partial(training, GROUPS[group]), dtype)


def test_every_layer_is_in_a_group() -> None:
    assert [layer for group in GROUPS.values() for layer in group] == layers.LAYERS


class Trained:
    """A layer and its inputs, all of them leaves that are trained: so the inputs' gradients are seen too."""

    def __init__(self, layer: Layer, dtype: str, training: bool, device: str) -> None:
        rng = np.random.default_rng(3)
        self.name = f"{layer}{'' if training else ' in eval mode'}"
        self.model = made(layer, wg, dtype).train(training).to(device)
        self.dtype, self.device = dtype, device
        self.leaves: dict[str, wg.Tensor] = {}
        self.inputs = [self._tensors(drawn(spec, rng, "float32")) for spec in layer.inputs]
        options = {key: drawn(spec, rng, "float32") if callable(spec) else spec for key, spec in layer.options.items()}
        self.options = {k: self._tensors(v) if isinstance(v, np.ndarray) else v for k, v in options.items()}
        for name, parameter in self.model.named_parameters():
            scale = 1.0 if parameter.ndim == 1 and name.endswith("weight") else 0.0
            start = scale + 0.3 * rng.normal(size=parameter.shape)
            parameter.assign(start.astype("float32").astype(dtype))
            self.leaves[name] = parameter

    def _tensors(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(self._tensors(part) for part in value)
        if value.dtype.kind != "f":
            return wg.tensor(value, device=self.device)
        leaf = wg.tensor(value.astype(self.dtype), requires_grad=True, device=self.device)
        self.leaves[f"input {len(self.leaves)}"] = leaf
        return leaf

    def outputs(self) -> dict[str, wg.Tensor]:
        """What the layer gives, by name."""
        leaves = wg.tree.flatten(self.model(*self.inputs, **self.options))[0]
        return {f"{self.name}: output {i}": leaf for i, leaf in enumerate(leaves) if leaf is not None}


def modes(layer: Layer) -> tuple[bool, ...]:
    """Whether to train, or both where it makes a difference."""
    return (True, False) if layer.random or "Norm" in layer.name else (True,)


def training(some: Sequence[Layer], dtype: str, device: str = "cpu") -> Training:
    wg.manual_seed(5)
    models = [Trained(layer, dtype, mode, device) for layer in some for mode in modes(layer)]
    leaves = {f"{one.name}: {name}": leaf for one in models for name, leaf in one.leaves.items()}
    buffers = {f"{one.name}: {name}": buffer for one in models for name, buffer in one.model.named_buffers()}
    optimizer = wg.optim.SGD(list(leaves.values()), lr=0.01, momentum=0.9)

    def step() -> dict[str, wg.Tensor]:
        seen = {name: y for one in models for name, y in one.outputs().items()}
        mixtures = [
            (y * (1.5 + wg.cos(wg.arange(y.size, dtype=y.dtype, device=device)).reshape(y.shape))).sum()
            for y in seen.values()
            if y.requires_grad
        ]
        sum(mixtures[1:], mixtures[0]).backward()
        seen |= {f"gradient of {name}": leaf.grad for name, leaf in leaves.items() if leaf.grad is not None}
        optimizer.step()
        optimizer.zero_grad()
        return seen

    return Training(step, leaves | buffers)
