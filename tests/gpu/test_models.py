"""Layers, optimizers and models, three training steps on the GPU: losses, gradients and states of the references."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from tests.compiler import test_layers_compiled, test_models_compiled, test_optimizers_compiled
from tests.compiler.test_layers_compiled import GROUPS
from tests.compiler.test_models_compiled import DEEP, MODELS
from tests.compiler.three_steps import assert_compiled_as_interpreted, dynamic, interpreted, replayed

IN_A_ROW = 64  # roundings: cuDNN adds up a weight's gradient over all places, one product after the other
DEEPER = 32  # roundings: after three steps of a decoder 40 were seen, and how far references are off differs by host
Way = Callable[[Any], dict[str, Any]]
WAYS: list[tuple[Way, str]] = [
    (replayed, "float64"),
    (replayed, "float32"),
    (dynamic, "float32"),
    (interpreted, "float64"),
]


@pytest.mark.parametrize("way, dtype", WAYS)
@pytest.mark.parametrize("group", GROUPS)
def test_layers(group: str, way: Way, dtype: str) -> None:
    assert_compiled_as_interpreted(way, partial(test_layers_compiled.training, GROUPS[group]), dtype, "cuda", DEEPER)


@pytest.mark.parametrize("way, dtype", WAYS)
def test_optimizers(way: Way, dtype: str) -> None:
    assert_compiled_as_interpreted(way, test_optimizers_compiled.training, dtype, "cuda")


@pytest.mark.parametrize(
    "name, way, dtype",
    [(name, way, dtype) for name in MODELS for way, dtype in WAYS if name != DEEP or dtype == "float64"],
)
def test_models(name: str, way: Way, dtype: str) -> None:
    assert_compiled_as_interpreted(way, partial(test_models_compiled.training, name), dtype, "cuda", IN_A_ROW)
